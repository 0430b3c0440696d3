"""SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): numbers that follow from a seed alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

GOLDEN: Final = 0x9E3779B97F4A7C15
"""What a generator's state grows by before each output, modulo 2^64."""


def mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output of each state, uniform over 64 bits, written over it."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state
