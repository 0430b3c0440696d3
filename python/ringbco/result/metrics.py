"""Figures of a replay: pure functions of its tables. Times in seconds; definitions in docs/results.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import polars as pl

from ringbco.io import bridge  # noqa: F401 - opens the way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ringbco.result.reliability import DownTime

STATISTICS: Final = ("mean", "median", "p90", "p99")
MEASURES: Final = {"jct": "jct", "wait": "waited", "time_to_start": "wait_time", "slowdown": "slowdown"}


def statistics(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, median, 90th and 99th percentile (linear interpolation) of a non-empty array."""
    return dict(zip(STATISTICS, (float(values.mean()), *_percentiles(values, (50, 90, 99))), strict=True))


def _percentiles(values: NDArray[np.float64], percents: Sequence[int]) -> list[float]:
    """The bits of `np.percentile`, whose first call imports numpy.ma: a tenth of what a small replay takes.

    NaN where one of the values is.
    """
    last = values.size - 1
    ranks = [last * (percent / 100) for percent in percents]
    below = [int(rank) for rank in ranks]
    above = [min(rank + 1, last) for rank in below]
    ordered = np.partition(values, sorted({*below, *above, last}))
    if np.isnan(ordered[last]):
        return [float("nan")] * len(ranks)
    found = []
    for rank, low, high in zip(ranks, below, above, strict=True):
        least, step, share = ordered[low], ordered[high] - ordered[low], rank - low
        # From the nearer end, as numpy does, so that the last bit is its own.
        found.append(float(least + step * share if share < 0.5 else ordered[high] - step * (1 - share)))
    return found


def makespan(jobs: pl.DataFrame, ended: pl.DataFrame | None = None) -> float:
    """Seconds from the first submission to the last finish, or to the last stay of a job that was ended.

    ended: jobs that a verb ended before they were done, of those that ran, a row each: submit_time,
    finish_time (when it held GPUs last, s) and held (GPU-seconds).
    """
    return _last("finish_time", jobs, ended) - _first(jobs, ended)


def _first(*among: pl.DataFrame | None) -> float:
    """The first submission of all, s."""
    return min(float(column(rows, "submit_time").min()) for rows in among if rows is not None)


def _last(name: str, *among: pl.DataFrame | None) -> float:
    """The greatest value of all in that column."""
    return max(float(column(rows, name).max()) for rows in among if rows is not None)


def gpus_of(jobs: pl.DataFrame) -> NDArray[Any]:
    """GPUs that each job asks for; less than 1 for a share of one."""
    gpus = column(jobs, "num_gpus")
    return gpus * jobs["gpu_share"].fill_null(1.0).to_numpy() if "gpu_share" in jobs.columns else gpus


def gpu_time(jobs: pl.DataFrame, what: Literal["held", "lost"]) -> NDArray[np.float64]:
    """GPU-seconds of each job that it held, or lost to pauses: sums over its stays.

    A job that may not be resized has as many GPUs, or the same share of one, in all of them.
    """
    times: NDArray[np.float64]
    if f"{what}_gpu_time" in jobs.columns:
        times = column(jobs, f"{what}_gpu_time")
    elif f"{what}_time" in jobs.columns:
        times = gpus_of(jobs) * column(jobs, f"{what}_time")
    else:
        times = gpus_of(jobs) * column(jobs, "run_time") if what == "held" else np.zeros(jobs.height)
    return times


def utilisation(
    jobs: pl.DataFrame, num_gpus: int, ended: pl.DataFrame | None = None, down: DownTime | None = None
) -> float:
    """Share of the GPU-seconds of the servers that were up, over the makespan, that jobs held.

    Not a BLAS product, whose last bit depends on the number of threads it may use.
    """
    span = makespan(jobs, ended)
    held = float(gpu_time(jobs, "held").sum()) + (0.0 if ended is None else float(ended["held"].sum()))
    up = num_gpus * span - _lacking(jobs, span, ended, down)
    return held / up if up > 0 else 0.0


def _lacking(jobs: pl.DataFrame, span: float, ended: pl.DataFrame | None, down: DownTime | None) -> float:
    """GPU-seconds of servers that were down in so many seconds from the first submission on."""
    if down is None:
        return 0.0
    first = _first(jobs, ended)
    return down.gpu_seconds(first, first + span)


def submission_window(jobs: pl.DataFrame, ended: pl.DataFrame | None = None) -> float:
    """Seconds from the first submission to the last; 0 where all are submitted at one instant."""
    return _last("submit_time", jobs, ended) - _first(jobs, ended)


def summarise(
    jobs: pl.DataFrame,
    num_gpus: int,
    held_while_submitting: float,
    ended: pl.DataFrame | None = None,
    down: DownTime | None = None,
) -> dict[str, Any]:
    """What every summary says of a non-empty jobs table on a cluster of `num_gpus` GPUs.

    held_while_submitting: GPU-seconds that the jobs held up to the last submission, as the engine adds them
    up: the table does not say when a preempted job held its GPUs. ended: as for `makespan`. down: outages.

    Keys: jobs, makespan, {mean,median,p90,p99}_{jct,wait,time_to_start,slowdown,bounded_slowdown},
    utilisation_to_last_submission (not where all jobs are submitted at one instant; None where every server
    was down from the first to the last), utilisation,
    jobs_spread, those of `fairness` and `size_classes`.
    """
    summary: dict[str, Any] = {"jobs": jobs.height, "makespan": makespan(jobs, ended)}
    for measure, name in MEASURES.items():
        for statistic, value in statistics(column(jobs, name)).items():
            summary[f"{statistic}_{measure}"] = value
    for statistic, value in statistics(bounded_slowdown(jobs)).items():
        summary[f"{statistic}_bounded_slowdown"] = value
    window = submission_window(jobs, ended)
    up = num_gpus * window - _lacking(jobs, window, ended, down)
    if window > 0:
        summary["utilisation_to_last_submission"] = held_while_submitting / up if up > 0 else None
    summary["utilisation"] = utilisation(jobs, num_gpus, ended, down)
    summary["jobs_spread"] = int(np.count_nonzero(column(jobs, "num_servers") >= 2))
    among = _Fairness.of(jobs)
    return summary | among.among(slice(None)) | {"size_classes": _size_classes(jobs, among)}


def bounded_slowdown(jobs: pl.DataFrame, bound: float = 10.0) -> NDArray[np.float64]:
    """max(1, jct / max(ideal_run_time, bound)): a slowdown in which short jobs do not drown the rest.

    `bound`, seconds: Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", 1998.
    """
    bounded: NDArray[np.float64] = np.maximum(column(jobs, "ideal_run_time"), bound)
    np.divide(column(jobs, "jct"), bounded, out=bounded)
    return np.maximum(1.0, bounded, out=bounded)


def jain_index(values: NDArray[np.float64]) -> float:
    """Jain's index (sum x)^2 / (n sum x^2) of positive values: 1 where all are equal, 1 / n at worst."""
    return float(values.sum() ** 2 / (values.size * (values * values).sum()))


def fairness(jobs: pl.DataFrame) -> dict[str, Any]:
    """Finish-time fairness, and preemptions, deadlines and users where the table has them.

    The rho of Themis at a job's finish is jct / ideal_run_time. Jain's index is over the users' mean
    ideal_run_time / jct: the share of its full speed that a user's job got, on the average. A user with no
    name is left out, and so is a deadline that is null. The GPU time lost is that of resuming, GPU-seconds.
    To rho and Jain's index the trials of a search are one job (docs/searches.md#fairness).
    """
    return _Fairness.of(jobs).among(slice(None))


@dataclass(frozen=True)
class Searches:
    """Which jobs are trials of one search, a value a job.

    of: a number, -1 for a job of none. submit, finish, ideal: s; ideal is the ideal run time.
    """

    of: NDArray[np.int64]
    submit: NDArray[np.float64]
    finish: NDArray[np.float64]
    ideal: NDArray[np.float64]

    @classmethod
    def of_jobs(cls, jobs: pl.DataFrame) -> Searches | None:
        """None where no search was judged."""
        if "group" not in jobs.columns:
            return None
        submit, finish = column(jobs, "submit_time"), column(jobs, "finish_time")
        return cls(_numbers(jobs["group"]), submit, finish, column(jobs, "ideal_run_time"))

    def merge(
        self, rows: slice | NDArray[np.intp], rho: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Of some jobs: the first of each job or search, in order, and its rho.

        That of a search is the time from its first submission to its last finish, over what it would have
        been had each of its trials run at best.
        """
        of = self.of[rows]
        alone = np.flatnonzero(of < 0)
        names, first, number = np.unique(of[of >= 0], return_index=True, return_inverse=True)
        trials = np.flatnonzero(of >= 0)
        begin = np.full(names.size, np.inf)
        end, best = np.full((2, names.size), -np.inf)
        np.minimum.at(begin, number, self.submit[rows][trials])
        np.maximum.at(end, number, self.finish[rows][trials])
        # Counted from the first submission: far from zero the sum of a time and of little work is that time.
        np.maximum.at(best, number, self.submit[rows][trials] - begin[number] + self.ideal[rows][trials])
        at = np.concatenate([alone, trials[first]])
        order = np.argsort(at)
        return at[order], np.concatenate([rho[alone], (end - begin) / best])[order]


@dataclass(frozen=True)
class _Fairness:
    """What fairness is worked out from, a value a job; None where the table does not say.

    paused: GPU-seconds. late: finish - deadline, NaN without one. user: a number, -1 without a name.
    """

    rho: NDArray[np.float64]
    preemptions: NDArray[np.uint32]
    evictions: NDArray[np.uint32] | None
    paused: NDArray[np.float64] | None
    late: NDArray[np.float64] | None
    user: NDArray[np.int64] | None
    searches: Searches | None

    @classmethod
    def of(cls, jobs: pl.DataFrame) -> _Fairness:
        late = user = None
        paused = gpu_time(jobs, "lost") if "lost_time" in jobs.columns else None
        if "deadline" in jobs.columns:
            late = column(jobs, "finish_time") - jobs["deadline"].fill_null(float("nan")).to_numpy()
        if "user" in jobs.columns:
            user = _numbers(jobs["user"])
        evictions = column(jobs, "evictions") if "evictions" in jobs.columns else None
        searches = Searches.of_jobs(jobs)
        rho, preemptions = column(jobs, "slowdown"), column(jobs, "preemptions")
        return cls(rho, preemptions, evictions, paused, late, user, searches)

    def among(self, rows: slice | NDArray[np.intp]) -> dict[str, Any]:
        """The figures of `fairness` over some of the jobs, at least one."""
        rho, user = self.rho[rows], None if self.user is None else self.user[rows]
        if self.searches is not None:
            first, rho = self.searches.merge(rows, rho)
            user = None if user is None else user[first]
        figures: dict[str, Any] = {"mean_finish_time_fairness": float(rho.mean())}
        figures["worst_finish_time_fairness"] = float(rho.max())
        if self.paused is not None:
            figures["preemptions"] = int(self.preemptions[rows].sum())
            figures["lost_gpu_seconds"] = float(self.paused[rows].sum())
        if self.evictions is not None:
            figures["evictions"] = int(self.evictions[rows].sum())
        if self.late is not None:
            late = self.late[rows]
            due, missed = int(np.count_nonzero(~np.isnan(late))), int(np.count_nonzero(late > 0))
            figures |= {"deadlines": due, "deadlines_missed": missed}
            if due:
                figures["deadlines_met"] = 1.0 - missed / due
        if user is not None:
            # Far from zero float64 may tell no time between a job's submission and its end: it has no speed.
            counted = (user >= 0) & (rho > 0)
            if not counted.all():
                user, rho = user[counted], rho[counted]
            if user.size:
                # Added up in row order: polars adds up a group in parts, one a thread.
                jobs = np.bincount(user)
                speed = np.bincount(user, 1.0 / rho)[jobs > 0] / jobs[jobs > 0]
                figures["jain_index_users"] = jain_index(speed)
        return figures


def _numbers(names: pl.Series, block: int = 1 << 20) -> NDArray[np.int64]:
    """Each name's rank among the distinct ones, -1 for null; a block of rows at a time to save memory."""
    distinct = names.drop_nulls().unique().sort()
    ranked = pl.Enum(distinct)
    numbers = np.full(names.len(), -1, np.int64)
    for first in range(0, names.len() if distinct.len() else 0, block):
        part = names.slice(first, block)
        ranks = part.cast(ranked).to_physical().cast(pl.Int64)
        numbers[first : first + block] = ranks.fill_null(-1).to_numpy()
    return numbers


SIZE_CLASSES: Final = (("1", 1), ("2-4", 4), ("5-8", 8), ("9-16", 16), ("17-32", 32), ("33-", 2**32 - 1))
"""Gang sizes by their upper end, GPUs."""


def size_classes(jobs: pl.DataFrame) -> list[dict[str, Any]]:
    """By gang size: gpus (the class), jobs, means of jct, waits and both slowdowns, `fairness`.

    Preemptions are there even where no policy preempts.
    """
    return _size_classes(jobs, _Fairness.of(jobs))


def _size_classes(jobs: pl.DataFrame, fairness: _Fairness) -> list[dict[str, Any]]:
    ends = np.array([end for _, end in SIZE_CLASSES])
    number = np.searchsorted(ends, column(jobs, "num_gpus")).astype(np.int8)
    counts = np.bincount(number, minlength=ends.size)
    # The rows of each class, in the table's order: each sum is added up as if the class were the table.
    bounds = np.cumsum(counts)
    by_class = np.argsort(number, kind="stable")
    rows = [by_class[end - count : end] for end, count in zip(bounds, counts, strict=True)]
    sums = {measure: np.bincount(number, column(jobs, name), ends.size) for measure, name in MEASURES.items()}
    sums["bounded_slowdown"] = np.bincount(number, bounded_slowdown(jobs), ends.size)
    return [
        {"gpus": name, "jobs": int(counts[k])}
        | {f"mean_{measure}": float(total[k] / counts[k]) for measure, total in sums.items()}
        | {"preemptions": int(fairness.preemptions[rows[k]].sum())}
        | fairness.among(rows[k])
        for k, (name, _) in enumerate(SIZE_CLASSES)
        if counts[k]
    ]


def with_seconds(summary: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The summary with `seconds` more of wall time in total_seconds, and the jobs_per_second that gives."""
    total = summary.get("total_seconds", 0.0) + seconds
    return {**summary, "total_seconds": total, "jobs_per_second": summary["jobs"] / total}


def cumulative_distribution(
    values: NDArray[np.float64], points: int = 400
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`(x, share)` of the empirical distribution of a non-empty array, thinned to `points` even shares.

    `share[i]` is the share of values <= `x[i]`; the smallest and the largest value are always there.
    """
    ordered = np.sort(values)
    ranks = np.unique(np.linspace(0, ordered.size - 1, min(points, ordered.size)).round().astype(np.int64))
    return ordered[ranks], (ranks + 1) / ordered.size


def column(frame: pl.DataFrame, name: str) -> NDArray[Any]:
    """A column without nulls as a numpy array, shared where polars allows it."""
    return frame[name].to_numpy()
