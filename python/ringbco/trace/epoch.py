"""Whether side tables and deadlines are on the clock of the submissions (docs/job-table.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from ringbco.trace.clock import EPOCH, clock_zero
from ringbco.units import duration

if TYPE_CHECKING:
    from ringbco.trace.jobs import JobTable
    from ringbco.trace.side_table import SideTable

_LATE: Final = 0.01
"""The share of deadlines that may lie before their own submission without a word."""


def epoch_of(table: JobTable) -> datetime | None:
    """What submit_time 0 is (`clock_zero`); None where the table does not say."""
    return clock_zero(table.metadata.get(EPOCH), table.frame["submit_time"])


def outside_jobs(table: JobTable, beside: Iterable[SideTable]) -> list[str]:
    """A line for each table of which no row falls into the time of the jobs (`SideTable.times`).

    That is from the first submission to the last, and the longest duration on.
    """
    first = _ends(table.frame["submit_time"])[0]
    timed = ((side.source, side.times(first)) for side in beside)
    return [line for source, times in timed if times is not None for line in _outside(table, source, *times)]


def _outside(table: JobTable, source: str, begin: pl.Series, end: pl.Series) -> Iterator[str]:
    submit = table.frame["submit_time"]
    first, last = _ends(submit)
    last += _ends(table.frame["duration"])[1]
    if begin.is_empty() or ((begin <= last) & (end.fill_null(float("inf")) >= first)).any():
        return
    rows = f"none of its {begin.len():,} rows falls" if begin.len() > 1 else "its row does not fall"
    way = f"count from the zero of submit_time (if they count from the first submission, add {first:.15g})"
    if epoch_of(table) is not None:
        way += ", or give dates and times, which are read on the table's epoch"
    here = _span(*_ends(pl.concat([begin, end])))
    yield (
        f"{source}: {rows} into the time of the jobs: {here} here, submissions and the longest run"
        f" {_span(first, last)} in {table.source}; {way}"
    )


def late_deadlines(table: JobTable) -> Iterator[str]:
    """A line where more than one deadline in a hundred lies before the submission of its own job."""
    if "deadline" not in table.frame.columns:
        return
    submit, deadline = table.frame["submit_time"], table.frame["deadline"]
    late = (deadline < submit).fill_null(value=False)
    given, count = deadline.count(), int(late.sum())
    if count <= _LATE * given:
        return
    row = int(late.arg_max() or 0)
    verb = "deadlines lie" if count > 1 else "deadlines lies"
    yield (
        f"{table.source}: column deadline: {count:,} of {given:,} {verb} before the submission of the own job"
        f" (the first in row {row + 1}: {deadline[row]:.15g} < {submit[row]:.15g}); deadlines"
        f" {_span(*_ends(deadline))}, submissions {_span(*_ends(submit))}; if deadlines count from the"
        " submission, `ringbco convert csv --deadline-from submit` adds it"
    )


def _ends(times: pl.Series) -> tuple[float, float]:
    return float(times.min()), float(times.max())  # type: ignore[arg-type]


def _span(first: float, last: float) -> str:
    return f"{first:.15g} to {last:.15g} s ({duration(last - first)})"
