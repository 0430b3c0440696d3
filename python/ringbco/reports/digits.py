"""Figures with three significant digits, as pages tell them; a fourth only where two would print alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ringbco.result.figures import Figure
from ringbco.units import Kind, rounded_up, same

_DIGITS: Final = 3
_MOST: Final = 4
_UNITS: Final = (
    *((172_800.0, 86_400.0, "d"), (7_200.0, 3_600.0, "h"), (120.0, 60.0, "min")),
    *((0.1, 1.0, "s"), (1e-4, 1e-3, "ms"), (1e-300, 1e-6, "\N{MICRO SIGN}s"), (0.0, 1.0, "s")),
)


def number(value: float, digits: int = _DIGITS) -> str:
    """A number of so many significant digits, and all of those before its point: 0.0123, 6.08, 1,235."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    value = round(value, places)  # 9.999 has become a digit longer
    return f"{value:,.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"


def number_up(value: float, digits: int = _DIGITS) -> str:
    """As `number`, rounded up, as an upper bound has to be."""
    if not math.isfinite(value) or value == 0:
        return number(value, digits)
    return number(rounded_up(value, digits - 1 - math.floor(math.log10(abs(value)))), digits)


def unit_of(seconds: float) -> tuple[float, str]:
    """The largest unit that leaves at least two of it, in seconds, and its name."""
    return next((unit, name) for least, unit, name in _UNITS if abs(seconds) >= least)


def time(seconds: float, digits: int = _DIGITS) -> str:
    """A length of time in the unit that reads best: "6.08 h", "0 s"."""
    unit, name = unit_of(seconds)
    return f"{number(seconds / unit, digits)} {name}"


def percent(share: float, digits: int = _DIGITS) -> str:
    """A share as "14.2 %"."""
    return f"{number(100.0 * share, digits)} %"


def told(kind: Kind | None, value: float, digits: int = _DIGITS) -> str:
    """A figure of a summary by its kind; what is counted, in full."""
    if kind == "time":
        return time(value, digits)
    if kind == "GPU time":
        return f"{number(value / 3_600.0, digits)} GPU-h"
    if kind == "share":
        return percent(value, digits)
    if kind == "at most":
        return number_up(value, digits)
    return f"{value:,.0f}" if kind == "count" else number(value, digits)


def told_all(figure: Figure, values: Sequence[float | None]) -> list[str]:
    """A measure's values side by side: those that print alike and are not the same get another digit."""
    texts = ["-" if value is None else told(figure.unit, value) for value in values]
    for digits in range(_DIGITS + 1, _MOST + 1):
        for text in set(texts):
            places = [place for place, other in enumerate(texts) if other == text]
            known = [value for place in places if (value := values[place]) is not None]
            if any(not same(value, known[0]) for value in known):
                for place in places:
                    texts[place] = told(figure.unit, values[place] or 0.0, digits)
    return texts
