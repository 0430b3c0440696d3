"""Jobs by hand for tests of the judge, and results that say other options than they were made with."""

from __future__ import annotations

from typing import Any

import polars as pl

import ringbco
import ruled
from ringbco.trace.jobs import JobTable, from_frame

QUOTA = pl.DataFrame({"user": ["a"], "gpus": [5], "borrow": [True]})


def jobs(*rows: tuple[str, float, int, float]) -> JobTable:
    """By job_id, submit_time, num_gpus and duration."""
    frame = pl.DataFrame(rows, schema=["job_id", "submit_time", "num_gpus", "duration"], orient="row")
    return from_frame(frame)


def told(outcome: ringbco.Outcome, **options: Any) -> ringbco.Outcome:
    """The result under other options."""
    outcome.run["options"] |= options
    return outcome


def codes(outcome: ringbco.Outcome, table: JobTable) -> set[str]:
    """The checks that find fault."""
    return {finding.code for finding in ruled.audit(outcome, table)}
