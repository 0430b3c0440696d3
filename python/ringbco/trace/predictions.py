"""Run times predicted with errors of a known size, for synthetic jobs.

The error is a lognormal factor: with sigma=1 a prediction is off by a factor of e, up or down, one standard
deviation out. For example, of jobs that run for 1,000 s two thirds are predicted 368 to 2,718 s.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError

COLUMN = "predicted"
"""The column of a job table."""
_MOST = 20.0


def sigma_of(text: str) -> float:
    """The standard deviation of the logarithm of the error. Raises UsageError for what is not sigma=S."""
    name, _, number = text.partition("=")
    try:
        sigma = float(number)
    except ValueError:
        sigma = math.nan
    if name.strip() != "sigma" or not 0.0 <= sigma <= _MOST:
        raise UsageError(
            f"option predictions: {text}: expected sigma=S, a number from 0 to {_MOST:g} such as sigma=1"
        )
    return sigma


def predicted(durations: NDArray[np.float64], sigma: float, seed: int) -> NDArray[np.float64]:
    """Predictions of run times, in whole seconds, at least 1, from random numbers of their own.

    durations: s. sigma: as `sigma_of` has it. seed: that of the table.
    """
    errors = np.random.Generator(np.random.PCG64([seed, 4])).standard_normal(durations.size)
    found: NDArray[np.float64] = np.maximum(1.0, np.rint(durations * np.exp(sigma * errors)))
    return found
