"""What a reference model and the engine say of one random case, compared with each other."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pytest

from reference.model import OversizeError, RefusedError, RowError, StuckError
from ringbco import Outcome, _core

Reference = TypeVar("Reference")
KINDS = {OversizeError: "oversize", RefusedError: "slot-too-short", StuckError: "stuck"}


def result_or_error(simulate: Callable[[], Reference]) -> Reference | RowError:
    """The reference model's result, or the error with which it refuses the case."""
    try:
        return simulate()
    except RowError as error:
        return error


def refused_alike(run: Callable[[], object], refusal: RowError, said: object) -> _core.CoreError:
    """The engine refuses the case for the reference model's reason. `said` tells a failure's case."""
    with pytest.raises(_core.CoreError) as caught:
        run()
    assert caught.value.kind == KINDS[type(refusal)], said
    return caught.value


def same(own: Any, true: Any, said: object, *, exact: bool, atol: float = 1e-9) -> None:
    """Numbers of the same shape: equal bit for bit where `exact`, else within 1e-9 of their size."""
    mine, theirs = np.array(own, dtype=float), np.array(true, dtype=float)
    assert mine.shape == theirs.shape, (mine, theirs, said)
    if exact:
        assert np.array_equal(mine, theirs, equal_nan=True), (mine, theirs, said)
    else:
        assert np.allclose(mine, theirs, rtol=1e-9, atol=atol, equal_nan=True), (mine, theirs, said)


def stays_of(allocations: Sequence[Sequence[tuple[int, int, float, float]]]) -> np.ndarray:
    """(row, start, server, GPUs, end) of a reference model's stays by row, in order."""
    rows = [
        (row, start, server, gpus, end)
        for row, rows in enumerate(allocations)
        for server, gpus, start, end in rows
    ]
    return np.array(sorted(rows), dtype=float).reshape(-1, 5)


def recorded_stays(outcome: Outcome) -> np.ndarray:
    """The same of a result whose jobs are j0, j1, ... by row."""
    assert outcome.allocations is not None
    held = outcome.allocations.with_columns(pl.col("job_id").str.slice(1).cast(pl.Float64))
    rows = held.select("job_id", "start_time", "server", "num_gpus", "end_time").rows()
    return np.array(sorted(rows), dtype=float).reshape(-1, 5)
