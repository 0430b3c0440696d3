"""stays.parquet: its rows are the stretches of each job, and each begins as the one before it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ringbco.audits.findings import blame

if TYPE_CHECKING:
    from ringbco.audits.contention import Episodes
    from ringbco.audits.facts import Facts
    from ringbco.audits.findings import Check
    from ringbco.audits.told import Stays

_AFTER: Final = {
    "preempted": "resumed",
    "evicted": "resumed",
    "rung": "resumed",
    "failed": "restarted",
    "moved": "moved",
    "resized": "resized",
}
"""How the stay after one begins, by why that ended; `done` and `dropped` have none after them."""
_COUNTS: Final = {
    "preemptions": ("preempted", "moved", "resized"),
    "moves": ("moved",),
    "resizes": ("resized",),
    "evictions": ("evicted",),
    "failures": ("failed",),
    "pauses": ("rung",),
}
"""Columns of jobs.parquet, and the ends that they count."""
MOVED: Final = ("moved", "resized")


def check_stays(check: Check, facts: Facts, jobs: pl.DataFrame, eps: Episodes) -> None:
    """The stays are the stretches; numbers, words and the counts of jobs.parquet follow from one another."""
    if facts.stays is None:
        check.not_run = "every job has one stay"
        return
    stays = facts.stays
    check.looked_at = stays.frame.height
    held = np.bincount(eps.job, minlength=facts.row.size)
    written = np.diff(stays.first)
    wrong = np.flatnonzero(held != written)
    blame(check, facts, wrong, lambda j: f"has {written[j]} rows in stays.parquet; expected {held[j]}")
    if wrong.size:
        return
    _check_rows(check, facts, stays, eps)
    _check_began(check, facts, stays)
    for name in _COUNTS.keys() & set(jobs.columns):
        _check_count(check, facts, stays, jobs[name])


def _check_rows(check: Check, facts: Facts, stays: Stays, eps: Episodes) -> None:
    """Each row is its stretch."""
    held = {"start_time": eps.start, "end_time": eps.end, "num_gpus": eps.gpus, "num_servers": eps.servers}
    held["stay"] = np.arange(eps.job.size) - stays.first[eps.job]
    for name, expected in held.items():
        bad = np.flatnonzero(stays.frame[name].to_numpy() != expected)
        blame(check, facts, eps.job[bad], f"{name} of a row of stays.parquet is not that of its stretch")


def _check_began(check: Check, facts: Facts, stays: Stays) -> None:
    """Each stay begins as the one before it ended, and those that go on elsewhere do so at once."""
    before = pl.col("ended").shift(1).over("_job")
    gpus, left = (pl.col(name).shift(1).over("_job") for name in ("num_gpus", "end_time"))
    after = before.replace_strict(_AFTER, default="none", return_dtype=pl.String)
    told = stays.frame.with_columns(
        _expected=pl.when(before.is_null()).then(pl.lit("first")).otherwise(after),
        _shifts=(pl.col("start_time") == left)
        & ((pl.col("num_gpus") == gpus) == (pl.col("began") == "moved")),
    )
    bad = told.filter(pl.col("began") != pl.col("_expected"))
    blame(check, facts, bad["_job"].to_numpy(), "a stay begins otherwise than the one before it ended")
    bad = told.filter(pl.col("began").is_in(MOVED) & ~pl.col("_shifts"))
    blame(check, facts, bad["_job"].to_numpy(), "a stay is said to be moved or resized, and is not")


def _check_count(check: Check, facts: Facts, stays: Stays, column: pl.Series) -> None:
    """A count of jobs.parquet is the number of stays that ended so."""
    ended = stays.frame.filter(pl.col("ended").is_in(_COUNTS[column.name]))["_job"].to_numpy()
    counted = np.bincount(ended, minlength=facts.row.size)
    found = column.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    bad = np.flatnonzero(found != counted[: found.size])
    blame(check, facts, bad, lambda j: f"{column.name} is {found[j]}; its stays say {counted[j]}")
