"""A figure over the seeds of a run that was repeated: the one place that says what is told of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class OverSeeds(NamedTuple):
    """A figure's mean over the seeds, its least and its greatest value, and how many seeds there are."""

    mean: float
    least: float
    greatest: float
    seeds: int


def over_seeds(values: Sequence[float | None]) -> OverSeeds | None:
    """What is told of a figure with these values, one a seed; None where a seed has no such figure."""
    known = [float(value) for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return OverSeeds(math.fsum(known) / len(known), min(known), max(known), len(known))
