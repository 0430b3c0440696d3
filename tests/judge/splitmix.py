"""SplitMix64 (Steele, Lea and Flood 2014)."""

from __future__ import annotations

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(state: int) -> int:
    """The number that a state makes."""
    state &= MASK
    state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ state >> 27) * 0x94D049BB133111EB) & MASK
    return state ^ state >> 31
