"""What several seeds tell of a figure, and of the difference between two: the one place that works it out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from ringbco.result.student import quantile
from ringbco.units import same

FEW_DRAWS: Final = 20
"""Fewer draws of days than these are said to be few."""
FEW_WEEKS: Final = 12
"""Traces of fewer weeks are said to have few: their intervals are too narrow (docs/intervals.md)."""
Interval = tuple[float, float]
Kind = Literal["same jobs", "generated", "resampled"]
Verdict = Literal["the same", "apart", "not apart", "unknown"]


class Drawn(NamedTuple):
    """What differs from one seed to the next.

    kind: "same jobs": only ties, models and random placement. "generated": the jobs are made anew.
    "resampled": the first run is of the recorded jobs, each other one of a draw of their days.
    weeks: of the recorded trace. block: mean length of a block of days.
    """

    kind: Kind = "same jobs"
    weeks: float | None = None
    block: float | None = None

    def around(self, values: Sequence[float]) -> tuple[float, Interval | None]:
        """The centre of values, one a run, and the interval of 95 % about it; None where there is none.

        Of seeds the mean, and Student's t with its standard error. Of a recorded trace its own value, and t
        times the standard deviation of the draws: each is a month like the recorded one, and more draws make
        no more months. Draws of w weeks vary by (w - 1) / w of what weeks do, which is made good for.
        """
        if self.kind == "resampled":
            centre, some = values[0], values[1:]
            scale = math.sqrt(self.weeks / (self.weeks - 1.0)) if self.weeks and self.weeks > 1.0 else 0.0
        else:
            some = values
            centre = math.fsum(some) / len(some)
            scale = 1.0 / math.sqrt(len(some))
        if len(some) < 2 or scale == 0.0:
            return centre, None
        mean = math.fsum(some) / len(some)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in some) / (len(some) - 1))
        half = quantile(len(some) - 1) * deviation * scale
        return centre, (centre - half, centre + half)

    def seeds(self, runs: int) -> int:
        """How many seeds so many runs are of: the recorded trace's own is of none."""
        return runs - 1 if self.kind == "resampled" else runs


SAME_JOBS: Final = Drawn()


class OverSeeds(NamedTuple):
    """A figure's mean over the seeds, its least and its greatest value, how many seeds, and the interval.

    Of a recorded trace whose days are drawn: its own figure, and the least and the greatest of the draws.
    """

    mean: float
    least: float
    greatest: float
    seeds: int
    interval: Interval | None = None


def over_seeds(values: Sequence[float | None], drawn: Drawn = SAME_JOBS) -> OverSeeds | None:
    """What is told of a figure with these values, one a run; None where a run has no such figure."""
    known = [float(value) for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    centre, interval = drawn.around(known)
    seeds = drawn.seeds(len(known))
    some = known[len(known) - seeds :] or known
    return OverSeeds(centre, min(some), max(some), seeds, interval)


class Paired(NamedTuple):
    """How far a figure is from another's under the same seeds.

    share, interval: over the other's mean; None where that is 0. difference, ends: in the figure's unit.
    """

    difference: float
    ends: Interval | None
    share: float | None
    interval: Interval | None
    verdict: Verdict


def paired(
    values: Sequence[float | None], others: Sequence[float | None], drawn: Drawn = SAME_JOBS
) -> Paired | None:
    """The difference of the values from the others, run by run; None where they are of no such pairs."""
    one = [float(value) for value in values if value is not None]
    other = [float(value) for value in others if value is not None]
    if not one or len({len(one), len(other), len(values), len(others)}) > 1:
        return None
    # What only rounding tells apart is the same.
    differences = [0.0 if same(a, b) else a - b for a, b in zip(one, other, strict=True)]
    centre, ends = drawn.around(differences)
    base = abs(drawn.around(other)[0])
    share = centre / base if base else None
    interval = (ends[0] / base, ends[1] / base) if ends is not None and base else None
    return Paired(centre, ends, share, interval, _verdict(differences, ends))


def _verdict(differences: Sequence[float], ends: Interval | None) -> Verdict:
    if not any(differences):
        return "the same"
    if ends is None:
        return "unknown"
    return "not apart" if ends[0] <= 0.0 <= ends[1] else "apart"
