"""What a conversion of a Slurm log says beside its account: its window, and GPUs that need a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from ringbco.io.times import DAY
from ringbco.sources.account import ROW, Entry, Locate
from ringbco.sources.parsing import iso
from ringbco.sources.slurm_times import TIMES

_HOUR: Final = 3_600
_FEW: Final = 3
"""Rows with one start, the least, by which a log shows that it was cut."""


class Window:
    """The time that a log covers: jobs that touch it are in it, so those from before it are the long ones."""

    def __init__(self, rows: pl.DataFrame, *, utc: bool) -> None:
        own = rows.filter(~pl.col("foreign"))
        self._first_end = own["end_s"].min()
        latest = own.select(pl.max_horizontal(pl.col(f"{name}_s").max() for name in TIMES)).item()
        self.latest = float(latest or 0)
        self._utc = utc
        jobs = own.filter(~pl.col("is_step"), pl.col("start_s").is_not_null())
        least = jobs.filter(pl.col("start_s") == pl.col("start_s").min())
        self._cut = least.filter(pl.col("submit_s") < pl.col("start_s"))

    def _iso(self, seconds: float) -> str:
        return iso(seconds, utc=self._utc)

    def notes(self, jobs: pl.DataFrame) -> Iterator[str]:
        """What to say of the jobs that are kept."""
        if self._cut.height >= _FEW:
            start = float(self._cut["start_s"][0])
            yield (
                f"{self._cut.height:,} rows share the first start, {self._iso(start)}, and were submitted"
                " before: was it made with -T (--truncate)? Then run times are cut"
            )
        if self._first_end is None or jobs.is_empty():
            return
        first = float(self._first_end)  # type: ignore[arg-type]
        before = jobs.filter(pl.col("submit_s") < first)
        if before.is_empty():
            return
        share = 100 * _gpu_hours(before) / _gpu_hours(jobs)
        with_them, without = _days(jobs), _days(jobs.filter(pl.col("submit_s") >= first))
        were = "job was" if before.height == 1 else "jobs were"
        yield (
            f"{before.height:,} {were} submitted before the first end in the log, {self._iso(first)}, with"
            f" {share:.1f} % of the GPU-hours: `sacct -S` lists only those earlier jobs that still ran."
            f" Submissions span {with_them:,.1f} d with them, {without:,.1f} d without;"
            f" `--from {self._iso(first)}` leaves them out"
        )


def _gpu_hours(jobs: pl.DataFrame) -> float:
    return float((jobs["num_gpus"] * jobs["duration"]).sum()) / _HOUR


def _days(jobs: pl.DataFrame) -> float:
    first, last = jobs["submit_s"].min(), jobs["submit_s"].max()
    return (float(last) - float(first)) / DAY if last is not None and first is not None else 0.0  # type: ignore[arg-type]


def held_notes(jobs: pl.DataFrame) -> Iterator[str]:
    """Notes on jobs that held more than they asked for, and on parts of GPUs."""
    more = jobs.filter(pl.col("num_gpus") > pl.col("req_gpus"))
    if more.height:
        beyond = more.with_columns(num_gpus=pl.col("num_gpus") - pl.col("req_gpus"))
        first = more.row(0, named=True)
        yield (
            f"{_counted(more)} more GPUs than ReqTRES asks for: {_gpu_hours(more):,.1f} GPU-hours,"
            f" {_gpu_hours(beyond):,.1f} of them beyond the request; first: job {first['job_id']} holds more"
            f" GPUs ({first['num_gpus']}) than it asked for ({first['req_gpus']})"
        )


def mig_notes(rows: pl.DataFrame, mig: str | None) -> Iterator[str]:
    """The note on rows that hold MIG profiles, alone or beside whole GPUs."""
    parts = rows.filter(pl.col("parts") > 0, pl.col("duration") > 0)
    if parts.height:
        hours = _gpu_hours(parts.with_columns(num_gpus="parts"))
        fate = "counted as one GPU each" if mig == "gpu" else "left out (--mig gpu counts each as one GPU)"
        yield f"{_counted(parts)} MIG profiles for {hours:,.1f} GPU-hours: {fate}"


def _counted(jobs: pl.DataFrame) -> str:
    return f"{jobs.height:,} job{'s hold' if jobs.height != 1 else ' holds'}"


def array_tasks(waiting: pl.DataFrame, locate: Locate) -> Iterator[Entry]:
    """The note on array tasks that ids with [..] stand for."""
    lists = waiting.filter(pl.col("job_id").str.contains("[", literal=True))
    if lists.is_empty():
        return
    tasks = sum(map(_tasks, lists["job_id"]))
    _, line, value = locate(int(lists[ROW][0]), "jobid")
    yield Entry("noted", "array tasks that ids with [..] stand for", tasks, tasks, line, str(value))


def _tasks(job_id: str) -> int:
    """How many tasks `12_[1-9:2,20%3]` stands for."""
    listed = job_id.partition("[")[2].partition("]")[0].partition("%")[0]
    count = 0
    for one in listed.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", one.strip())
        if found is not None:
            count += len(range(int(found[1]), int(found[2] or found[1]) + 1, int(found[3] or 1) or 1))
    return count
