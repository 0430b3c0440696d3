"""Figures as people read them."""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["time", "number", "index", "share", "count"]

_UNITS: Final = ((172_800.0, 86_400.0, "d"), (7_200.0, 3_600.0, "h"), (120.0, 60.0, "min"))
_FORMATS: Final = {"number": ",.2f", "index": ".3f", "share": ",.1%", "count": ",.0f"}


def duration(seconds: float) -> str:
    """Seconds in the largest unit that leaves at least two of it: "87.3 s", "12.4 min", "31.0 h", "5.2 d"."""
    for least, unit, name in _UNITS:
        if seconds >= least:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.1f} s" if seconds >= 1 or seconds == 0 else f"{seconds:.3f} s"


def figure(kind: Kind, value: float) -> str:
    """A figure of a summary by its kind: 93.4 -> "93.4 s", "93.40", "93.400", "9,340.0%" or "93"."""
    if kind == "time":
        return duration(value)
    return f"{value:{_FORMATS[kind]}}"
