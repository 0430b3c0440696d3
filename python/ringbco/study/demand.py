"""When work arrives: jobs and GPU-days by day, hours of the day and days of the week. Times in seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.clock import clock_zero
from ringbco.trace.shares import asked_gpus

DAY: Final = 86_400.0
_HOUR: Final = 3_600.0
_MOST_PERIODS: Final = 5_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """What submit_time 0 is: `epoch` on its own wall clock, or None where the table does not say.

    Without an epoch a day begins whenever submit_time is a multiple of 86,400 and weekdays have no names.
    """

    epoch: datetime | None = None

    @classmethod
    def parse(cls, text: object, submit: pl.Series) -> Clock:
        """The clock of submissions with an ISO 8601 epoch; one without where `clock_zero` finds none."""
        epoch = clock_zero(text, submit)
        return cls(None if epoch is None else epoch.replace(tzinfo=None))

    @property
    def offset(self) -> float:
        """Seconds from the midnight before submit_time 0 to submit_time 0."""
        if self.epoch is None:
            return 0.0
        midnight = self.epoch.replace(hour=0, minute=0, second=0, microsecond=0)
        return (self.epoch - midnight).total_seconds()

    @property
    def weekday(self) -> int:
        """The weekday of submit_time 0, Monday 0; 0 without an epoch."""
        return 0 if self.epoch is None else self.epoch.weekday()


@dataclass(frozen=True)
class Periods:
    """Days, or intervals of several where there were too many: from the first submission's to the last's.

    `edges` are n + 1 submit_times; `of_job` is each job's period, from 0; `days` is a period's length.
    """

    edges: Floats
    of_job: NDArray[np.int64]
    days: int

    @classmethod
    def of(cls, submit: Floats, clock: Clock) -> Periods:
        """The days that hold submissions, and those between."""
        first = math.floor((float(submit.min()) + clock.offset) / DAY)
        last = math.floor((float(submit.max()) + clock.offset) / DAY)
        days = math.ceil((last - first + 1) / _MOST_PERIODS)
        count = (last - first) // days + 1
        of_job = (np.floor((submit + clock.offset) / DAY).astype(np.int64) - first) // days
        edges = (first + days * np.arange(count + 1, dtype=np.float64)) * DAY - clock.offset
        return cls(edges, of_job, days)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.edges.size - 1

    def jobs(self) -> NDArray[np.int64]:
        """Submissions by period."""
        return np.bincount(self.of_job, minlength=self.count)

    def offered(self, work: Floats, jobs: NDArray[np.bool_] | None = None) -> Floats:
        """GPU-days that the jobs submitted in a period bring, a day; `work` in GPU-seconds a job."""
        of_job, work = (self.of_job, work) if jobs is None else (self.of_job[jobs], work[jobs])
        by_period: Floats = np.bincount(of_job, weights=work, minlength=self.count) / (DAY * self.days)
        return by_period

    def wanted(self, submit: Floats, duration: Floats, num_gpus: Floats) -> Floats:
        """GPUs busy, averaged over a period, if every job started at its submission."""
        # Work done until t: of jobs begun, gpus x (t - begin), less the same of jobs ended.
        done = _ramp(self.edges, submit, num_gpus) - _ramp(self.edges, submit + duration, num_gpus)
        mean: Floats = np.maximum(np.diff(done), 0.0) / (DAY * self.days)
        return mean


def _ramp(at: Floats, begin: Floats, slope: Floats) -> Floats:
    """The sum of slope x max(at - begin, 0)."""
    order = np.argsort(begin, kind="stable")
    # Times are counted from the first edge: the sums stay as small as they can.
    begin, slope, at = begin[order] - at[0], slope[order], at - at[0]
    slopes = np.concatenate(([0.0], np.cumsum(slope)))
    moments = np.concatenate(([0.0], np.cumsum(slope * begin)))
    begun = np.searchsorted(begin, at, side="right")
    ramp: Floats = slopes[begun] * at - moments[begun]
    return ramp


def demand(frame: pl.DataFrame, clock: Clock, periods: Periods, num_gpus: int | None) -> dict[str, Any]:
    """Submissions, work offered and GPUs wanted by day, and submissions by hour of the day and weekday.

    num_gpus: GPUs of a cluster; with them each day has its load, GPU-days offered / GPUs.
    """
    submit, duration = frame["submit_time"].to_numpy(), frame["duration"].to_numpy()
    gpus = asked_gpus(frame)
    offered = periods.offered(gpus * duration)
    columns: dict[str, Any] = {
        "start": periods.edges[:-1],
        "jobs": periods.jobs(),
        "gpu_days": offered,
        "gpus_wanted": periods.wanted(submit, duration, gpus),
    }
    if num_gpus is not None:
        columns["load"] = offered / num_gpus
    of_day = np.floor((submit + clock.offset) % DAY / _HOUR).astype(np.int64) % 24
    day = np.floor((submit + clock.offset) / DAY).astype(np.int64)
    return {
        "epoch": None if clock.epoch is None else clock.epoch.isoformat(),
        "days_a_row": periods.days,
        "days": pl.DataFrame(columns).to_dicts(),
        "hours": np.bincount(of_day, minlength=24).tolist(),
        "weekdays": np.bincount((day + clock.weekday) % 7, minlength=7).tolist(),
    }


def load_by_day(offered: Floats, num_gpus: int) -> dict[str, Any]:
    """How the days' loads spread: `offered` GPU-days a day over GPUs; `days_over`: days above 1."""
    load = offered / num_gpus
    return {
        "days": int(load.size),
        "days_over": int(np.count_nonzero(load > 1)),
        "mean": float(load.mean()),
        "min": float(load.min()),
        "median": float(np.median(load)),
        "p90": float(np.quantile(load, 0.9)),
        "max": float(load.max()),
    }


def ties(frame: pl.DataFrame, by: tuple[str, ...] = ("submit_time",)) -> dict[str, Any]:
    """Jobs whose submit_time is another's too: those that another order of ties could move.

    by: the columns that must agree: with `vc`, only jobs of one queue count.
    """
    groups = frame.group_by(by).len("jobs").filter(pl.col("jobs") > 1)["jobs"].to_numpy()
    jobs = int(groups.sum())
    return {
        "jobs": jobs,
        "share": jobs / frame.height,
        "groups": int(groups.size),
        "largest": int(groups.max(initial=0)),
    }
