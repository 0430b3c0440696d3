"""CPU and memory that jobs ask for beside GPUs: columns that packing alone reads.

Jobs that ask for no GPU are in no job table. What they ask for may be in its footer, counted:

    ringbco.without_gpus = [[4000, 8192, 12]]  # 12 jobs of 4 cores and 8 GiB each
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.presets import BESIDE
from ringbco.errors import ABSENT, InputError
from ringbco.trace.jobs import JobTable

WITHOUT_GPUS: Final = "ringbco.without_gpus"
_MOST: Final = 2**53
_MOST_ROWS: Final = 2**24
_HINT: Final = "--gpus-only leaves CPU and memory out"


def requested(table: JobTable) -> NDArray[np.uint64] | None:
    """CPU and memory of each job, then of each job without GPUs, [jobs, 2]; None where the table has neither.

    Raises InputError for a column without the other, and for a value that is none.
    """
    columns = [name for name in BESIDE if name in table.frame.columns]
    if not columns:
        return None
    missing = set(BESIDE) - set(columns)
    if missing:
        raise InputError(
            f"a column {missing.pop()} beside {columns[0]}", file=table.source, value="missing", hint=_HINT
        )
    of_jobs = np.stack([_values(table, name) for name in BESIDE], axis=1)
    return np.concatenate([of_jobs, _without_gpus(table)])


def _values(table: JobTable, name: str) -> NDArray[np.uint64]:
    given = table.frame[name]
    value = given.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    bad = np.flatnonzero(~((value >= 0) & (value <= _MOST)))
    if bad.size:
        raise InputError(
            "a number >= 0 and at most 2^53",
            file=table.source,
            row=int(bad[0]) + 1,
            column=name,
            value=ABSENT if given[int(bad[0])] is None else given[int(bad[0])],
            hint=_HINT,
        )
    whole: NDArray[np.uint64] = np.ceil(value).astype(np.uint64)
    return whole


def _without_gpus(table: JobTable) -> NDArray[np.uint64]:
    """CPU and memory of each job that asks for no GPU, as the footer counts them."""
    text = table.metadata.get(WITHOUT_GPUS, "[]")
    try:
        counted = np.array(json.loads(text), dtype=object).reshape(-1, 3)
        whole = all(isinstance(value, int) and 0 <= value <= _MOST for value in counted.flat)
        if not whole or counted[:, 2].sum() > _MOST_ROWS:
            raise ValueError(text)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InputError(
            "a list of [cpu_milli, memory_mib, jobs], whole numbers",
            file=table.source,
            key=WITHOUT_GPUS,
            value=text[:60],
            hint="convert the table anew, or --gpus-only",
        ) from None
    repeated: NDArray[np.uint64] = np.repeat(
        counted[:, :2].astype(np.uint64), counted[:, 2].astype(np.int64), axis=0
    )
    return repeated
