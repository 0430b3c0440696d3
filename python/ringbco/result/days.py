"""What the days of a trace add to a mean: its parts, and the days that carry a difference."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from ringbco.result.certainty import PARTS, Carried, ratio
from ringbco.result.window import measured

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome

DAY: Final = 86_400.0
"""Seconds; days begin at its multiples."""
MEANS: Final = {"mean_jct": "jct", "mean_wait": "waited", "mean_time_to_start": "wait_time"}
"""The figures that have parts, and the columns of jobs.parquet that they are means of."""
_FEWEST_DAYS: Final = 42
FEWEST_WITH_JOBS: Final = 7
"""Days with jobs below which it is not said which of them carry a difference."""
_ONE_IN: Final = 20
_ALSO: Final = ("job_id", "submit_time", *MEANS.values())


class Days(NamedTuple):
    """The jobs of a result that count, by the day of their submission.

    days: those with jobs, ascending, from 0 on the job table's clock; counts: how many jobs each has. sums:
    by figure of `MEANS` the sum over each day's jobs, s. jobs: SHA-256 of the jobs' ids in order.
    """

    days: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: Mapping[str, NDArray[np.float64]]
    jobs: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        sums = {name: values.tolist() for name, values in self.sums.items()}
        return {"days": self.days.tolist(), "counts": self.counts.tolist(), "sums": sums, "jobs": self.jobs}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Days:
        """From what `to_dict` gave."""
        sums = {name: np.array(values, np.float64) for name, values in told["sums"].items()}
        days, counts = (np.array(told[name], np.int64) for name in ("days", "counts"))
        return cls(days, counts, sums, str(told["jobs"]))

    def mean(self, key: str, among: NDArray[np.bool_]) -> float | None:
        """The mean of a figure over the jobs of some of the days, s; None where they have none."""
        count = int(self.counts[among].sum())
        return float(self.sums[key][among].sum()) / count if count else None


def days_of(outcome: Outcome) -> Days:
    """The days of a result."""
    return _of_jobs(measured(outcome).select(_ALSO))


def days_of_both(outcome: Outcome, other: Outcome) -> tuple[Days, Days]:
    """The days of two results, of the jobs alone that count under both."""
    one, two = (measured(each).select(_ALSO) for each in (outcome, other))
    return (
        _of_jobs(one.join(two, on="job_id", how="semi", maintain_order="left")),
        _of_jobs(two.join(one, on="job_id", how="semi", maintain_order="left")),
    )


def _of_jobs(jobs: pl.DataFrame) -> Days:
    ids = hashlib.sha256("\0".join(jobs["job_id"]).encode()).hexdigest()
    return _by_day(jobs, MEANS)._replace(jobs=ids)


def _by_day(jobs: pl.DataFrame, keys: Iterable[str]) -> Days:
    """The days, with the sums of some figures and without the jobs' ids."""
    day = np.floor_divide(jobs["submit_time"].to_numpy(), DAY)
    order = None if bool((np.diff(day) >= 0).all()) else np.argsort(day, kind="stable")
    day = day if order is None else day[order]
    begins = np.flatnonzero(np.diff(day, prepend=-1.0))
    counts = np.diff(begins, append=day.size)
    sums = {}
    for key in keys:
        values = jobs[MEANS[key]].to_numpy()
        values = values if order is None else values[order]
        # Slice by slice: numpy adds a slice up pairwise, and so to the last bits.
        each = (values[begin : begin + count].sum() for begin, count in zip(begins, counts, strict=True))
        sums[key] = np.fromiter(each, np.float64, begins.size)
    return Days(day[begins].astype(np.int64), counts, sums, "")


class Split(NamedTuple):
    """The six parts of a trace: from the first to the last day of the jobs that count under the baseline."""

    first: int
    length: int

    @classmethod
    def of(cls, base: Days) -> Split | None:
        """None of a trace that is too short to be split."""
        first, length = int(base.days[0]), int(base.days[-1] - base.days[0]) + 1
        return cls(first, length) if length >= _FEWEST_DAYS else None

    def means(self, days: Days, key: str) -> list[float | None]:
        """A figure in each part, s; None where it has no jobs."""
        part = PARTS * (days.days - self.first) // self.length  # outside of it: below 0, or PARTS and more
        return [days.mean(key, part == number) for number in range(PARTS)]


def parts_of(days: Days, base: Days, key: str, split: Split | None) -> tuple[float | None, ...] | None:
    """The ratio of a figure to the baseline's in each part; None where there are no parts."""
    if split is None or key not in MEANS:
        return None
    both = zip(split.means(days, key), split.means(base, key), strict=True)
    return tuple(None if one is None or other is None else ratio(one, other) for one, other in both)


def carried(days: Days, base: Days, key: str) -> Carried | None:
    """The few days that carry the difference of a mean from the baseline's.

    Both are of the same jobs. None where no few days carry it.
    """
    found = _heaviest(days.sums[key] - base.sums[key])
    if found is None:
        return None
    there, share = found
    others = np.ones(days.days.size, np.bool_)
    others[there] = False
    one, other = days.mean(key, others), base.mean(key, others)
    without = None if one is None or other is None else ratio(one, other)
    return Carried(tuple(days.days[there].tolist()), share, without)


def carried_wait(outcome: Outcome) -> Carried | None:
    """The few days that carry the mean waiting time of a result; None where no few days do."""
    days = _by_day(measured(outcome), ["mean_wait"])
    found = _heaviest(days.sums["mean_wait"])
    if found is None:
        return None
    there, share = found
    others = np.ones(days.days.size, np.bool_)
    others[there] = False
    return Carried(tuple(days.days[there].tolist()), share, days.mean("mean_wait", others))


def _heaviest(gains: NDArray[np.float64]) -> tuple[NDArray[np.intp], float] | None:
    """The fewest days that add up to half of the sum, the heaviest first, and their share of it."""
    total = math.fsum(gains)
    if gains.size < FEWEST_WITH_JOBS or total == 0:
        return None
    order = np.argsort(-gains * math.copysign(1.0, total), kind="stable")
    most = -(-gains.size // _ONE_IN)
    reached = np.cumsum(gains[order[:most]]) / total
    enough = np.flatnonzero(reached >= 0.5)
    if not enough.size:
        return None
    count = int(enough[0]) + 1
    return order[:count], float(reached[count - 1])
