"""Figures as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from numbers import Real
from typing import Final, Literal

from ringbco.errors import UsageError, nearest

Kind = Literal["time", "GPU time", "number", "at most", "index", "share", "count"]

UNITS: Final = ("human", "seconds")
"""How times may be shown: in the unit that reads best, or in seconds."""
_UNITS: Final = ((172_800.0, 86_400.0, "d"), (7_200.0, 3_600.0, "h"), (120.0, 60.0, "min"))
_SECONDS: Final = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "m": 60.0, "s": 1.0, "": 1.0}
_RATES: Final = {
    f"{prefix}{letter}/s": factor / parts
    for letter, parts in (("b", 8.0), ("B", 1.0))
    for prefix, factor in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
} | {"": 1.0}
QUANTITIES: Final = {
    "s": (_SECONDS, "a length of time such as 50d, 2h, 30min, 90s, 1-12:00:00, or seconds"),
    "bytes/s": (_RATES, "a rate such as 25Gb/s (bits), 100GB/s (bytes), or bytes/s"),
}
"""What may stand behind a number, and examples, by the unit that a number alone has."""
_PARTED: Final = re.compile(
    r"(.*?[\d.]|[+-]?(?:inf|nan)(?:inity)?)?\s*([A-Za-z/]*)", re.DOTALL | re.IGNORECASE
)
_NUMBER: Final = r"(\d+\.?\d*|\.\d+)"
_FACTOR: Final = re.compile(rf"\s*x{_NUMBER}\s*")
_TIMES: Final = "[xX*\N{MULTIPLICATION SIGN}]"
_OTHER_FACTOR: Final = re.compile(rf"\s*(?:{_NUMBER}\s*{_TIMES}|{_TIMES}\s*{_NUMBER})\s*")
_INDEXES: Final = re.compile(r" *([0-9]{1,9}) *(?:- *([0-9]{1,9}) *)?")
DATE: Final = r"^\s*\d{4}[-/]\d\d?[-/]\d"
"""What begins as a date does."""
_SIGNIFICANT: Final = 3
_NAMED_UNITS: Final = (
    *_UNITS,
    *((0.1, 1.0, "s"), (1e-4, 1e-3, "ms"), (1e-300, 1e-6, "\N{MICRO SIGN}s"), (0.0, 1.0, "s")),
)
_DIGITS: Final = {"number": 2, "at most": 2, "index": 3, "share": 1, "count": 0}
_HOUR: Final = 3_600.0
_shown: ContextVar[str] = ContextVar("units of times", default="human")


def check_units(units: str) -> None:
    """Raises UsageError unless `units` is one of `UNITS`."""
    if units not in UNITS:
        near = nearest(units, UNITS)
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f"option units: {units!r}: expected one of {', '.join(UNITS)}{hint}")


@contextmanager
def shown_in(units: str) -> Iterator[None]:
    """Inside the block `duration`, `figure` and `gpu_time` show times in these units, one of `UNITS`."""
    check_units(units)
    token = _shown.set(units)
    try:
        yield
    finally:
        _shown.reset(token)


def duration(seconds: float, *, down: bool = False) -> str:
    """Seconds in the largest unit that leaves at least two of it: "87.3 s", "12.4 min", "31.0 h", "5.2 d".

    Where seconds are asked for, they stay seconds, without separators: "26280.0 s". down: rounded down, as a
    lower bound has to be.
    """
    if _shown.get() != "seconds":
        for least, unit, name in _UNITS:
            if abs(seconds) >= least:
                value = seconds / unit
                return f"{rounded_down(value, 1) if down else value:,.1f} {name}"
    usual = 1 if abs(seconds) >= 1 or seconds == 0 else 3
    return f"{rounded_down(seconds, usual) if down else seconds:.{usual}f} s"


def rounded_down(value: float, digits: int) -> float:
    """A lower bound to so many digits behind the point; what is short of one by rounding alone is not cut."""
    return -rounded_up(-value, digits)


def rounded_up(value: float, digits: int) -> float:
    """An upper bound to so many digits behind the point, likewise."""
    near = round(value, digits) if math.isfinite(value) else value
    return near if near >= value - 1e-12 * abs(value) else math.ceil(value * 10.0**digits) / 10.0**digits


def quantity(text: str, unit: str) -> float:
    """A number with a unit as a number of `unit`: "s" (2.5d, 30min, 90) or "bytes/s" (25Gb/s, 100 GB/s).

    A length of time may also be of days, hours, minutes and seconds, as tables have it: 1-12:00:00.

    A number alone is one of `unit`. Raises ValueError, with what was expected, for anything else. Whether it
    is positive or finite is for the caller.
    """
    known, example = QUANTITIES[unit]
    parted = _PARTED.fullmatch(text.strip())
    try:
        return float(parted[1] or "") * known[parted[2]] if parted else float(text)
    except (ValueError, KeyError):
        if unit == "s" and (length := _length(text)) is not None:
            return length
        raise ValueError(f"{example}; the units are {', '.join(filter(None, known))}") from None


def _length(text: str) -> float | None:
    import polars as pl

    from ringbco.io.times import lengths

    length: float | None = lengths(pl.Series([text.strip()]), "s", thousands=False)[0]
    return length


def _is_moment(text: str) -> bool:
    import polars as pl

    from ringbco.io.times import moments

    return moments(pl.Series([text.strip()]))[0].count() == 1


def is_factor(text: object) -> bool:
    """Whether a text is a factor, x2 or x0.5: so many times what there is."""
    return isinstance(text, str) and _FACTOR.fullmatch(text) is not None


def factor_meant(text: str) -> str | None:
    """The factor that somebody has written in another way: 2x, *2; None for other texts."""
    match = _OTHER_FACTOR.fullmatch(text)
    return None if match is None else f"x{match[1] or match[2]}"


def seconds_of(option: str, value: float | str) -> float:
    """A length of time as seconds: a number of them, or a text such as "50d", "2h", "30m", "90s" or "90".

    Raises UsageError for the option unless it is one. Whether it is positive or finite is for the caller.
    """
    if not isinstance(value, str):
        return value
    try:
        return quantity(value, "s")
    except ValueError as error:
        raise UsageError(f"option {option}: {value!r}: expected {error}") from None


def moment(value: object) -> float | str:
    """A share, which is a number from 0 to 1, a time, s: a number > 1, or "0.5s" of one that is less; a date.

    value: such a number, a date, or a text: "0.25" is a share, "2.5d" or "0.5s" a time, "2024-05-01T06:30" a
    date of ISO 8601, which stays as it is. Raises ValueError, with what was expected, for anything else.
    """
    if isinstance(value, date):
        value = value.isoformat()
    text = isinstance(value, str)
    if isinstance(value, str) and is_date(value):
        if not _is_moment(value):
            raise ValueError("a date and time such as 2024-05-01T06:30:00")
        return value.strip()
    try:
        number = quantity(value, "s") if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 <= float(number) < math.inf:
        raise ValueError("a share from 0 to 1, or a time >= 0 such as 2.5d, 6h, 30min, 90s, or seconds > 1")
    seconds = float(number) + 0.0
    return f"{seconds!r}s" if text and str(value).strip()[-1].isalpha() and seconds <= 1 else seconds


def is_number(text: str) -> bool:
    """Whether `float` reads a text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    """Whether a text begins as a date does: 2024-05-01."""
    return re.match(DATE, text) is not None


def index_ranges(text: str) -> list[range]:
    """Indexes and ranges such as "0-3,7", in their order.

    Raises ValueError, with the part at fault and what was expected, for anything else.
    """
    found = []
    for part in text.split(","):
        match = _INDEXES.fullmatch(part)
        if match is None:
            raise ValueError(f"{text}: expected indexes and ranges such as 0-3,7")
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise ValueError(f"{part.strip()}: expected the lower index first")
        found.append(range(low, high + 1))
    return found


def instant(seconds: float, zero: datetime | None = None) -> str:
    """An instant of a clock whose 0 is `zero`, to the second: "2026-03-02 07:05:00".

    Without one, or beyond the calendar, "day 3, 07:05:00". Where seconds are asked for, "284700.0 s".
    """
    if _shown.get() == "seconds":
        return duration(seconds)
    whole = math.floor(seconds + 0.5)
    if zero is not None:
        with suppress(OverflowError):
            return f"{zero.replace(tzinfo=None) + timedelta(seconds=whole):%Y-%m-%d %H:%M:%S}"
    days, rest = divmod(abs(whole), 86_400)
    sign = "-" if whole < 0 else ""
    return f"{sign}day {days:,}, {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def gpu_time(gpu_seconds: float, decimals: int = 0) -> str:
    """GPU-seconds as "2,450 GPU hours" or, where seconds are asked for, "8820000 GPU seconds"."""
    if _shown.get() == "seconds":
        return f"{gpu_seconds:.{decimals}f} GPU seconds"
    return f"{gpu_seconds / _HOUR:,.{decimals}f} GPU hours"


def figure(kind: Kind, value: float) -> str:
    """A figure of a summary by its kind: 93.4 -> "93.4 s", "93.40", "93.400", "9,340.0 %" or "93".

    "at most" is a number rounded up, as an upper bound has to be.
    """
    if kind == "GPU time" and _shown.get() == "seconds":
        return gpu_time(value, 1)
    if kind in ("time", "GPU time"):
        return duration(value)
    digits = _DIGITS[kind]
    if kind == "at most":
        value = rounded_up(value, digits)
    if kind == "share":
        return percent(value, digits)
    return f"{value:,.{digits}f}"


def same(one: float, other: float) -> bool:
    """Whether nothing but rounding tells the figures apart."""
    return math.isclose(one, other, rel_tol=1e-9)


def number(value: float, digits: int = _SIGNIFICANT) -> str:
    """A number of so many significant digits, and all of those before its point: 0.0123, 6.08, 1,235."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    value = round(value, places)  # 9.999 has become a digit longer
    return f"{value:,.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"


def number_up(value: float, digits: int = _SIGNIFICANT) -> str:
    """As `number`, rounded up, as an upper bound has to be."""
    if not math.isfinite(value) or value == 0:
        return number(value, digits)
    return number(rounded_up(value, digits - 1 - math.floor(math.log10(abs(value)))), digits)


def unit_of(seconds: float) -> tuple[float, str]:
    """The largest unit that leaves at least two of it, in seconds, and its name."""
    return next((unit, name) for least, unit, name in _NAMED_UNITS if abs(seconds) >= least)


def time(seconds: float) -> str:
    """A length of time in the unit that reads best: "6.08 h", "0 s"."""
    unit, name = unit_of(seconds)
    return f"{number(seconds / unit)} {name}"


def percent(share: float, places: int | None = None) -> str:
    """A share as "14.2 %": of three significant digits, or of so many places after the point."""
    return f"{number(100.0 * share) if places is None else f'{100.0 * share:,.{places}f}'} %"


def plain(value: object, absent: str = "None") -> str:
    """A setting as text: 4, 0.5, sjf. absent: what is said where there is none."""
    if value is None:
        return absent
    return f"{value:g}" if isinstance(value, float) else str(value)


def shared(kind: Kind | None, values: Iterable[float]) -> tuple[str, Callable[[float], str]]:
    """What a column of figures has in common: its unit, "" for none, and how each is written without it.

    Times are in the unit in which the middle one of those that are not 0 reads best. One below a hundredth of
    it has a unit of its own.
    """
    if kind == "share":
        return "%", lambda value: number(100.0 * value)
    if kind not in ("time", "GPU time"):
        return "", lambda value: brief(kind, value)
    if _shown.get() == "seconds":
        return "s" if kind == "time" else "GPU seconds", lambda value: f"{value:.1f}"
    if kind == "GPU time":
        return "GPU-h", lambda value: number(value / _HOUR)
    there = sorted(abs(value) for value in values if value != 0 and math.isfinite(value))
    unit, name = unit_of(there[len(there) // 2] if there else 0.0)

    def written(value: float) -> str:
        small, own = unit_of(value)
        if 0 < abs(value) < unit / 100 and own != name:
            return f"{number(value / small, 2)} {own}"
        return number(value / unit)

    return name, written


def brief(kind: Kind | None, value: float) -> str:
    """A figure in three significant digits by its kind; what is counted, in full."""
    if _shown.get() == "seconds" and kind in ("time", "GPU time"):
        return figure(kind, value)
    if kind == "time":
        return time(value)
    if kind == "GPU time":
        return f"{number(value / _HOUR)} GPU-h"
    if kind == "share":
        return percent(value)
    if kind == "at most":
        return number_up(value)
    return f"{value:,.0f}" if kind == "count" else number(value)
