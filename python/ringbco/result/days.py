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
    from ringbco.trace.jobs import JobTable

DAY: Final = 86_400.0
"""Seconds; days begin at its multiples."""
MEANS: Final = {"mean_jct": "jct", "mean_wait": "waited", "mean_time_to_start": "wait_time"}
"""The figures that have parts, and the columns of jobs.parquet that they are means of."""
_FEWEST_DAYS: Final = 42
_FEWEST_WITH_JOBS: Final = 7
_ONE_IN: Final = 20


def has_days(table: JobTable) -> bool:
    """Whether a table has days enough for something to be told of them."""
    submit = table.frame["submit_time"].to_numpy()
    return bool(np.ptp(submit // DAY) >= _FEWEST_WITH_JOBS - 1)


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


def days_of(outcome: Outcome, also: Outcome | None = None) -> Days:
    """The days of a result; of its jobs alone that count under another one too, where one is given."""
    jobs = measured(outcome)
    if also is not None:
        jobs = jobs.join(measured(also), on="job_id", how="semi", maintain_order="left")
    ids = hashlib.sha256("\0".join(jobs["job_id"]).encode()).hexdigest()
    return _by_day(jobs, MEANS)._replace(jobs=ids)


def _by_day(jobs: pl.DataFrame, keys: Iterable[str]) -> Days:
    """The days, with the sums of some figures and without the jobs' ids."""
    # Beside `after` submit_time is the arrival, at which the job before has ended.
    submitted = jobs["submitted" if "submitted" in jobs.columns else "submit_time"].to_numpy()
    day = np.floor_divide(submitted, DAY)
    order = np.argsort(day, kind="stable")
    begins = np.flatnonzero(np.diff(day[order], prepend=-np.inf))
    counts = np.diff(begins, append=day.size)
    sums = {}
    for key in keys:
        values = jobs[MEANS[key]].to_numpy()[order]
        # Slice by slice: numpy adds a slice up pairwise, and so to the last bits.
        each = (values[begin : begin + count].sum() for begin, count in zip(begins, counts, strict=True))
        sums[key] = np.fromiter(each, np.float64, begins.size)
    return Days(day[order][begins].astype(np.int64), counts, sums, "")


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


def carried(days: Days, base: Days | None, key: str) -> Carried | None:
    """The fewest days that carry half of the difference of a mean from the baseline's, the heaviest first.

    base: of the same jobs; None where it is the mean itself that is carried. None where no few days carry it.
    """
    gains = days.sums[key] if base is None else days.sums[key] - base.sums[key]
    total = math.fsum(gains)
    if gains.size < _FEWEST_WITH_JOBS or total == 0:
        return None
    order = np.argsort(-gains * math.copysign(1.0, total), kind="stable")[: -(-gains.size // _ONE_IN)]
    reached = np.cumsum(gains[order]) / total
    enough = np.flatnonzero(reached >= 0.5)[:1]
    if not enough.size:
        return None
    there = order[: enough[0] + 1]
    others = np.isin(np.arange(gains.size), there, invert=True)
    without = days.mean(key, others)
    if base is not None and without is not None:
        without = ratio(without, base.mean(key, others) or 0.0)
    return Carried(tuple(days.days[there].tolist()), float(reached[enough[0]]), without)


def carried_wait(outcome: Outcome) -> Carried | None:
    """The few days that carry the mean waiting time of a result; None where no few days do."""
    return carried(_by_day(measured(outcome), ["mean_wait"]), None, "mean_wait")
