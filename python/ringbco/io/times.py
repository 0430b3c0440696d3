"""Texts as times and lengths of time, in the forms in which people and programs write them.

This is the one reader of them: of tables, of logs and of options. What cannot be read is null.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import polars as pl

WALL_CLOCK: Final = "%Y-%m-%d %H:%M:%S"
DAY: Final = 86_400
MICRO: Final = 1_000_000
_FIRST: Final = -62_135_596_800 * MICRO  # the year 1
UNITS: Final = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3_600.0}
"""Units of numeric times and durations, in seconds."""

_THOUSANDS: Final = r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$"
_MOMENT: Final = (
    r"(?i)^(?<year>\d{4})[-/](?<month>\d\d?)[-/](?<day>\d\d?)"
    r"(?:[ T]+(?<hour>\d\d?):(?<minute>\d\d)(?::(?<second>\d\d)(?:[.,](?<fraction>\d+))?)?"
    r" *(?:(?<utc>Z|UTC|GMT)|(?<sign>[+-])(?<hours>[01]\d|2[0-3])(?::?(?<minutes>[0-5]\d))?(?: UTC)?)?)?$"
)
# Slurm's [D-]HH:MM:SS, MM:SS, D-HH and D-HH:MM; Python's and pandas' `1 day, 2:03:04`, `0 days 01:02:03`.
_LENGTH: Final = (
    r"^(?:(?<hour>\d{1,7}):)?(?<minute>\d{1,7}):(?<second>[0-5]?\d)(?:[.,](?<fraction>\d+))?$",
    (
        r"^(?<day>\d{1,6})-(?<hour>[01]?\d|2[0-3])"
        r"(?::(?<minute>[0-5]?\d)(?::(?<second>[0-5]?\d)(?:[.,](?<fraction>\d+))?)?)?$"
    ),
    (
        r"^(?<day>-?\d{1,6}) days?(?:,? \+?(?<hour>[01]?\d|2[0-3])"
        r":(?<minute>[0-5]\d):(?<second>[0-5]\d)(?:[.,](?<fraction>\d+))?)?$"
    ),
)


def numbers(text: pl.Series, *, thousands: bool) -> pl.Series:
    """Cells as float64, infinities too; what is no number, and NaN, is null.

    thousands: whether 1,234 is a number; where commas may stand for the decimal point, it is ambiguous.
    """
    made = text.cast(pl.Float64, strict=False).fill_nan(None)
    rest = (text.is_not_null() & made.is_null()).arg_true()
    if thousands and rest.len():
        cells = text[rest]
        plain = pl.select(pl.when(cells.str.contains(_THOUSANDS)).then(cells.str.replace_all(",", "")))
        made = made.scatter(rest, plain.to_series().cast(pl.Float64, strict=False))
    return made.rename(text.name)


def lengths(text: pl.Series, unit: str, *, thousands: bool) -> pl.Series:
    """Durations in seconds (float64): numbers of `unit`, or days, hours, minutes and seconds; else null."""
    made = in_seconds(numbers(text, thousands=thousands), unit)
    rest = (text.is_not_null() & made.is_null()).arg_true()
    if rest.len():
        read = [_micros(text[rest], pattern) for pattern in _LENGTH]
        made = made.scatter(rest, divided(pl.select(pl.coalesce(read)).to_series(), MICRO))
    return made


def in_seconds(values: pl.Series, unit: str) -> pl.Series:
    """Numbers of that unit in seconds."""
    return divided(values, 1_000) if unit == "ms" else values * UNITS[unit]


def _micros(cells: pl.Series, pattern: str) -> pl.Series:
    """Microseconds (int64) of the days, hours, minutes and seconds that a pattern finds, or null."""
    found = cells.str.extract_groups(pattern).struct.unnest()
    parts = {"day": DAY, "hour": 3_600, "minute": 60, "second": 1}
    whole = [pl.col(c).cast(pl.Int64, strict=False).fill_null(0) * s for c, s in parts.items() if c in found]
    total = pl.sum_horizontal(whole) * MICRO + _fraction()
    return found.select(pl.when(pl.any_horizontal(pl.all().is_not_null())).then(total)).to_series()


def _fraction() -> pl.Expr:
    """Digits behind the point of a second as microseconds; what is below one is cut."""
    return pl.col("fraction").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64).fill_null(0)


def moments(text: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Dates with or without a time as microseconds since 1970 (int64), and which of them give an offset.

    Those are in UTC, the others on their own clock; what is no such time is null. Every row is read by
    itself: to the day, the minute, the second or parts of it.
    """
    # Few times repeat: looking them up in polars' cache costs more than reading them.
    made = text.str.to_datetime(WALL_CLOCK, time_unit="us", strict=False, cache=False).dt.epoch("us")
    zoned = pl.repeat(False, text.len(), dtype=pl.Boolean, eager=True)
    rest = (text.is_not_null() & made.is_null()).arg_true()
    if not rest.len():
        return made, zoned
    parts = text[rest].str.extract_groups(_MOMENT).struct.unnest()
    clock = (pl.col(c).fill_null("0") for c in ("hour", "minute", "second"))
    shift = pl.col("hours").cast(pl.Int64) * 60 + pl.col("minutes").cast(pl.Int64).fill_null(0)
    shift = pl.when(pl.col("sign") == "-").then(-shift).otherwise(shift).fill_null(0) * (60 * MICRO)
    date = pl.concat_str("year", "month", "day", separator="-")
    written = pl.concat_str(date, pl.concat_str(clock, separator=":"), separator=" ")
    time = written.str.to_datetime(WALL_CLOCK, time_unit="us", strict=False, cache=False).dt.epoch("us")
    micros = time + _fraction() - shift
    read = parts.select(
        micros=pl.when(micros >= _FIRST).then(micros),  # an offset may lead out of all dates
        zoned=pl.col("utc").is_not_null() | pl.col("sign").is_not_null(),
    )
    return made.scatter(rest, read["micros"]), zoned.scatter(rest, read["zoned"])


def divided(values: pl.Series, by: float) -> pl.Series:
    """The quotients, rounded once: polars multiplies by the reciprocal, so 470 / 1000 would not be 0.47."""
    return pl.Series(values.name, values.to_numpy() / by).fill_nan(None)


def microseconds(when: datetime) -> int:
    """A date and time as `moments` has it: with an offset in UTC, else on its own clock."""
    zero = datetime(1970, 1, 1, tzinfo=None if when.tzinfo is None else UTC)
    return (when - zero) // timedelta(microseconds=1)
