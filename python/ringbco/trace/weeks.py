"""When jobs are submitted within a week: the density of openings by the hour."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

_WEEK_HOURS: Final = 168
# Relative rate of submissions by hour of the day: low at night, a dip at lunch and at dinner.
_HOURS: Final = (5, 4, 3, 3, 3, 3, 4, 5, 7, 10, 13, 13, 9, 11, 14, 14, 14, 13, 10, 9, 10, 10, 9, 7)
_WEEKEND: Final = 0.55


def within_weeks(uniform: NDArray[np.float64], span: float) -> NDArray[np.float64]:
    """Uniform numbers turned into times in [0, span) whose density follows the hours of the week."""
    week = np.concatenate(
        [np.array(_HOURS, dtype=np.float64) * (_WEEKEND if day >= 5 else 1.0) for day in range(7)]
    )
    edges = np.concatenate([[0.0], np.cumsum(week)])
    hours = span / 3600.0
    whole_weeks = math.floor(hours / _WEEK_HOURS)
    rest = float(np.interp(hours - whole_weeks * _WEEK_HOURS, np.arange(_WEEK_HOURS + 1), edges))
    mass = uniform * (whole_weeks * edges[-1] + rest)
    weeks = np.floor(mass / edges[-1])
    within = np.interp(mass - weeks * edges[-1], edges, np.arange(_WEEK_HOURS + 1))
    times: NDArray[np.float64] = (weeks * _WEEK_HOURS + within) * 3600.0
    return times
