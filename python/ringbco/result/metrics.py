"""Statistics of numpy columns, added up in row order: the same bits on any number of threads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.io import bridge  # noqa: F401 - opens the way

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ringbco.result.columns import Columns

STATISTICS: Final = ("mean", "median", "p90", "p99")
_SAMPLE: Final = 512
"""Values that are put in order first, at least."""


def column(frame: pl.DataFrame | Columns, name: str) -> NDArray[Any]:
    """A column without nulls as a numpy array, shared where polars allows it."""
    return frame.get_column(name).to_numpy()


def statistics(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, median, 90th and 99th percentile (linear interpolation) of a non-empty array."""
    return dict(zip(STATISTICS, (float(values.mean()), *percentiles(values, (50, 90, 99))), strict=True))


def percentiles(values: NDArray[np.float64], percents: Sequence[float]) -> list[float]:
    """The bits of `np.percentile`, whose first call imports numpy.ma: a tenth of what a small replay takes.

    NaN where one of the values is.
    """
    if np.isnan(values).any():
        return [float("nan")] * len(percents)
    last, found = values.size - 1, []
    ranks = [last * (percent / 100) for percent in percents]
    for rank, (least, most) in zip(ranks, _neighbours(values, [int(rank) for rank in ranks]), strict=True):
        step, share = most - least, rank - int(rank)
        # From the nearer end, as numpy does, so that the last bit is its own.
        found.append(float(least + step * share if share < 0.5 else most - step * (1 - share)))
    return found


def _neighbours(values: NDArray[np.float64], places: Sequence[int]) -> Iterator[tuple[float, float]]:
    """Of each place what stands there and next to it, were the values in order; at the last place it twice.

    A sample tells between which values they lie, and only what lies there is put in order: a quarter of the
    work of `np.partition`. After Floyd and Rivest, "Expected time bounds for selection", 1975. Where the
    sample misleads, all values are.
    """
    sample = np.sort(values[:: max(1, values.size // max(_SAMPLE, values.size // 128))])
    for place in places:
        at, spread = _bracket(place / max(values.size - 1, 1), sample.size - 1)
        low = float(sample[at - spread]) if at >= spread else -math.inf
        high = float(sample[at + spread]) if at + spread < sample.size else math.inf
        skipped = int(np.count_nonzero(values <= low))
        if place >= skipped:
            inside = (values > low) & (values <= high)
        else:
            upto, skipped = skipped, int(np.count_nonzero(values < low))
            if skipped <= place and place + 1 < upto:  # many are equal
                yield low, low
                continue
            inside = (values >= low) & (values <= high)
        between, own = values[np.flatnonzero(inside)], place - skipped
        if not 0 <= own < between.size - 1:
            between, own = values, place
        after = min(own + 1, between.size - 1)
        ordered = np.partition(between, [own, after])
        yield float(ordered[own]), float(ordered[after])


def _bracket(share: float, last: int) -> tuple[int, int]:
    """Where in a sample a share of the values lies, and how far from there it may be: 2.5 deviations."""
    return round(last * share), math.ceil(2.5 * math.sqrt(last * share * (1.0 - share))) + 2


def jain_index(values: NDArray[np.float64]) -> float:
    """Jain's index (sum x)^2 / (n sum x^2) of positive values: 1 where all are equal, 1 / n at worst."""
    return float(values.sum() ** 2 / (values.size * (values * values).sum()))


def rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Spearman's rank correlation of two arrays of one length, equal values having their mean rank.

    From -1 to 1; None where all values of one of them are equal, or there are none.
    """
    ranks = [_mean_ranks(values) for values in (one, other)]
    # Not a BLAS product, whose last bit depends on the number of threads it may use.
    spreads = [float((own * own).sum()) for own in ranks]
    if not all(spreads):
        return None
    return float((ranks[0] * ranks[1]).sum()) / math.sqrt(spreads[0] * spreads[1])


def _mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each value's rank, off the mean of all ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(count) - (count + values.size) / 2.0)[place]
    return ranks


def paused_share(jobs: pl.DataFrame) -> float:
    """The part of the GPU time that jobs hold in which they pause; 0 where no stay may pause.

    jobs: jobs.parquet.
    """
    if "lost_time" not in jobs.columns:
        return 0.0
    if "held_gpu_time" in jobs.columns:
        lost, held = float(jobs["lost_gpu_time"].sum()), float(jobs["held_gpu_time"].sum())
    else:
        gpus = (
            jobs["num_gpus"]
            if "gpu_share" not in jobs.columns
            else jobs["gpu_share"].fill_null(jobs["num_gpus"])
        )
        lost, held = float((jobs["lost_time"] * gpus).sum()), float((jobs["held_time"] * gpus).sum())
    return lost / held if held > 0 else 0.0


def gini(values: NDArray[np.float64]) -> float:
    """Gini's coefficient of positive values: 0 where all are equal, towards 1 where one has all."""
    ordered, size = np.sort(values), values.size
    weights = 2.0 * np.arange(1, size + 1) - size - 1.0
    return float((weights * ordered).sum() / (size * ordered.sum()))


def cumulative_distribution(
    values: NDArray[np.float64], points: int = 400
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`(x, share)` of the empirical distribution of a non-empty array, thinned to `points` even shares.

    `share[i]` is the share of values <= `x[i]`; the smallest and the largest value are always there.
    """
    ordered = np.sort(values)
    ranks = np.unique(np.linspace(0, ordered.size - 1, min(points, ordered.size)).round().astype(np.int64))
    return ordered[ranks], (ranks + 1) / ordered.size
