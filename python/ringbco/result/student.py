"""Student's t, for intervals of a few seeds."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

LEVEL: Final = 0.95
"""Of every interval that is told."""
_STEPS: Final = 200
_TINY: Final = 1e-300


@cache
def quantile(degrees: int, level: float = LEVEL) -> float:
    """How many standard errors to either side of the mean hold `level` of Student's t; degrees >= 1.

    By bisection of the probability, which is right to about 1e-12.
    """
    low, high = 0.0, 1.0
    while _within(high, degrees) < level:
        high *= 2.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, degrees) < level else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """P(|T| <= t)."""
    return 1.0 - _incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by Lentz's way with its continued fraction.

    DLMF 8.17.22, from the end at which the fraction converges fast.
    """
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    if x <= 0.0:
        return 0.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x)) / a
    value, c, d = 1.0, 1.0, 0.0
    for step in range(_STEPS):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / (1.0 + term * d or _TINY)
        c = 1.0 + term / c or _TINY
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return front * (value - 1.0)
