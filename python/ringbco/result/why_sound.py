"""Whether a result is sound enough to tell stories of it: a folder may be damaged, or made by anybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco import _core
from ringbco.errors import InputError, UsageError
from ringbco.result.tables import TABLES
from ringbco.trace import ties

if TYPE_CHECKING:
    import ringbco
    from ringbco.cluster.spec import Cluster

BEGAN, ENDED, *_ = _core.words()
_READ: Final = (
    *("jobs", "stays_written", "allocations", "replicas", "outages", "quota", "fair_shares", "rungs"),
)
"""The tables that a story reads."""
_OPTIONS: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("policy", "order", "placement", "queue", "model", "clock"), lambda value: isinstance(value, str)
    ),
    "kappa": lambda value: isinstance(value, int | str),
    "seed": lambda value: isinstance(value, int) and value >= 0,
    "estimate": lambda value: isinstance(value, str),
    **dict.fromkeys(("estimate_factor", "half_life"), lambda value: _is_number(value) and value > 0),
    "thresholds": lambda value: isinstance(value, list) and all(map(_is_number, value)),
}
"""What a story reads of a run's options, and what each must be where it is there."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(float(value)))


def check(outcome: ringbco.Outcome, cluster: Cluster) -> None:
    """Raises InputError for the first thing in a result of which no story could be told."""
    options = outcome.run.get("options", {})
    for name, fits in _OPTIONS.items():
        if options.get(name) is not None and not fits(options[name]):
            raise InputError("an option as a run has it", file="run.toml", key=name, value=options[name])
    try:
        ties.check(str(options.get("ties", "rows")))
    except UsageError as error:
        raise InputError(str(error), file="run.toml") from None
    for name in _READ:
        frame = getattr(outcome, name)
        if frame is not None:
            _check_values(TABLES[name].file, frame, TABLES[name].nulls)
    servers = pl.Series(cluster.server_gpus)
    for name in ("allocations", "replicas", "outages"):
        frame = getattr(outcome, name)
        if frame is not None:
            _expect(name, frame, "server", frame["server"] < servers.len(), f"a server below {servers.len()}")
    _check_stays(outcome)
    rows = outcome.allocations
    if rows is not None and "gpu" in rows.columns:
        there = rows["gpu"] < servers.gather(rows["server"])
        _expect("allocations", rows, "gpu", there, "a GPU of its server")
        share = rows["share"].fill_null(1.0)
        _expect("allocations", rows, "share", (share > 0) & (share <= 1), "a share in (0, 1]")


def _check_values(file: str, frame: pl.DataFrame, may_lack: tuple[str, ...]) -> None:
    """Nothing missing, and no time that is none."""
    for name in frame.columns:
        column = frame[name]
        wrong = pl.repeat(False, frame.height, eager=True) if name in may_lack else column.is_null()
        if column.dtype.is_float():
            wrong = wrong | ~column.is_finite().fill_null(True)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            expected = "a finite number" if column.dtype.is_float() else "a value"
            raise InputError(expected, file=file, row=row + 1, column=name, value=column[row])


def _expect(name: str, frame: pl.DataFrame, column: str, good: pl.Series, expected: str) -> None:
    """Raises InputError for the first row of a table that is not good."""
    wrong = ~good.fill_null(False)
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        file = TABLES[name].file
        raise InputError(expected, file=file, row=row + 1, column=column, value=frame[column][row])


def _check_stays(outcome: ringbco.Outcome) -> None:
    """Each job once, its stays one after the other, and rows of allocations of those alone."""
    jobs, stays = outcome.jobs, outcome.stays_written
    _expect("jobs", jobs, "job_id", ~jobs["job_id"].is_duplicated(), "each job once")
    _expect("jobs", jobs, "finish_time", jobs["finish_time"] >= jobs["start_time"], "no end before its start")
    _expect("jobs", jobs, "num_gpus", jobs["num_gpus"] > 0, "1 GPU or more")
    known = jobs.select("job_id", stay=pl.lit(0, pl.UInt32))
    if stays is not None:
        name, number = stays["job_id"], stays["stay"].cast(pl.Int64)
        goes_on = (name == name.shift()) & (number == number.shift() + 1)
        goes_on &= stays["start_time"] >= stays["end_time"].shift()
        first = (number == 0) & name.is_first_distinct()
        order = "stays of a job one after the other"
        _expect("stays_written", stays, "stay", first | goes_on.fill_null(False), order)
        later = stays["end_time"] >= stays["start_time"]
        _expect("stays_written", stays, "end_time", later, "no end before its start")
        _expect("stays_written", stays, "num_gpus", stays["num_gpus"] > 0, "1 GPU or more")
        for column, words in (("began", BEGAN), ("ended", ENDED)):
            _expect("stays_written", stays, column, stays[column].is_in(words), f"one of {', '.join(words)}")
        lacking = ~jobs["job_id"].is_in(name.implode())
        _expect("jobs", jobs, "job_id", ~lacking, "stays of each job in stays.parquet")
        known = stays.select("job_id", "stay")
    rows = outcome.allocations
    if rows is not None:
        there = rows.select("job_id", "stay").join(
            known.with_columns(there=pl.lit(value=True)),
            on=["job_id", "stay"],
            how="left",
            maintain_order="left",
        )
        _expect("allocations", rows, "stay", there["there"].fill_null(False), "a stay that the result knows")
