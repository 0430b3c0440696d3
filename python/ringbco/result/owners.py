"""Whose each job of a result is, by any column of the job table that names owners."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from ringbco.errors import UsageError
from ringbco.result.why_record import job_table
from ringbco.trace.other_names import hint_at
from ringbco.trace.owners import is_of_names, names_of

if TYPE_CHECKING:
    from ringbco.result.outcome import Outcome

NOBODY: Final = "nobody"
"""Whose a job is that names no owner."""


def called(column: str) -> str:
    """The column of a result's jobs in which `with_owners` puts the owners."""
    return f"by {column}"


def owners_of(outcome: Outcome, column: str) -> pl.Series:
    """The owner of each row of `outcome.jobs`, as text; nobody for a job without one.

    The column is that of jobs.parquet, else of the job table that was replayed. Raises UsageError where
    neither has it, the job table is no longer available, or the column is of another type than text or
    integers.
    """
    frame = outcome.jobs if column in outcome.jobs.columns else _frame(outcome, column)
    check_column(frame, column)
    owners = names_of(frame, column)
    if frame is not outcome.jobs:
        named = pl.DataFrame({"job_id": frame["job_id"], column: owners})
        own = outcome.jobs.select("job_id")
        owners = own.join(named, on="job_id", how="left", maintain_order="left")[column]
    return owners.fill_null(NOBODY)


def check_column(frame: pl.DataFrame, column: str) -> None:
    """Raises UsageError for a column that the job table lacks, or that names no owners."""
    if column not in frame.columns:
        hint = hint_at(column, frame.columns)
        raise UsageError(f"option by: {column}: the job table has no column of that name{hint}")
    if not is_of_names(frame[column].dtype):
        raise UsageError(
            f"option by: {column}: expected a column of text or of integers, not of {frame[column].dtype}"
        )


def with_owners(outcome: Outcome, columns: Sequence[str]) -> Outcome:
    """The outcome with the owners of each column in its jobs. Raises UsageError as `owners_of` does."""
    drawn = copy.copy(outcome)
    drawn.jobs = outcome.jobs.with_columns(
        owners_of(outcome, column).alias(called(column)) for column in dict.fromkeys(columns)
    )
    return drawn


def _frame(outcome: Outcome, column: str) -> pl.DataFrame:
    """The job table, which has the column."""
    table, why_not = outcome.job_table, None
    if table is None:
        table, why_not = job_table(outcome, None)
    if table is None:
        raise UsageError(
            f"option by: {column}: expected a column of jobs.parquet or of the job table that was replayed,"
            f" but {why_not}"
        )
    return table.frame
