"""Figures of a replay: pure functions of its tables. Times in seconds; definitions in docs/results.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

STATISTICS: Final = ("mean", "median", "p90", "p99")
MEASURES: Final = {"jct": "jct", "wait": "wait_time", "slowdown": "slowdown"}


def statistics(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, median, 90th and 99th percentile (linear interpolation) of a non-empty array."""
    median, p90, p99 = np.percentile(values, (50.0, 90.0, 99.0))
    return dict(zip(STATISTICS, map(float, (values.mean(), median, p90, p99)), strict=True))


def makespan(jobs: pl.DataFrame) -> float:
    """Seconds from the first submission to the last finish."""
    return float(column(jobs, "finish_time").max() - column(jobs, "submit_time").min())


def gpu_seconds(jobs: pl.DataFrame) -> float:
    """GPU-seconds that the jobs held: sum of num_gpus x run_time (nobody is preempted).

    Not a BLAS product, whose last bit depends on the number of threads it may use.
    """
    return float((column(jobs, "num_gpus") * column(jobs, "run_time")).sum())


def utilisation(jobs: pl.DataFrame, num_gpus: int) -> float:
    """Share of the cluster's GPU-seconds, over the makespan, that jobs held."""
    span = makespan(jobs)
    return gpu_seconds(jobs) / (num_gpus * span) if span > 0 else 0.0


def summarise(jobs: pl.DataFrame, num_gpus: int) -> dict[str, Any]:
    """What every summary says of a non-empty jobs table on a cluster of `num_gpus` GPUs.

    Keys: jobs, makespan, {mean,median,p90,p99}_{jct,wait,slowdown}, utilisation, jobs_spread.
    """
    summary: dict[str, Any] = {"jobs": jobs.height, "makespan": makespan(jobs)}
    for measure, name in MEASURES.items():
        for statistic, value in statistics(column(jobs, name)).items():
            summary[f"{statistic}_{measure}"] = value
    summary["utilisation"] = utilisation(jobs, num_gpus)
    summary["jobs_spread"] = int(np.count_nonzero(column(jobs, "num_servers") >= 2))
    return summary


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
