"""Cells of text into numbers and times; whatever cannot be read becomes null, for a cleaning rule to count.

Times without an offset are wall clocks: they are counted as if every day had 24 hours, without any time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import polars as pl

WALL_CLOCK: Final = "%Y-%m-%d %H:%M:%S"
DAY: Final = 86_400
MICRO: Final = 1_000_000
# What tables of other programs write for a value that is not there, in lower case.
_NO_TEXT: Final = ("", "-", "none", "null", "(null)", "\\n", "nan", "nat", "<na>")
_NO_VALUE: Final = (*_NO_TEXT, "--", "na", "n/a", "unknown")
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


def number(column: str) -> pl.Expr:
    """The column as float64; text, NaN and infinities become null."""
    value = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value).alias(column)


def whole_number(column: str) -> pl.Expr:
    """The column as a count >= 0; anything else becomes null."""
    value = pl.col(column).cast(pl.Float64, strict=False)
    sound = value.is_between(0, 2**53) & (value == value.floor())
    return pl.when(sound).then(value).cast(pl.UInt64).alias(column)


def wall_clock(column: str) -> pl.Expr:
    """Times such as `2020-09-01 12:00:00` as seconds since 1970 on their own clock (float64)."""
    # Few times repeat: looking them up in polars' cache costs more than reading them.
    time = pl.col(column).str.to_datetime(WALL_CLOCK, time_unit="ms", strict=False, cache=False)
    return time.dt.epoch("s").cast(pl.Float64).alias(column)


def offset_clock(column: str) -> pl.Expr:
    """Times such as `2023-03-01 00:18:22+08:00` as seconds since 1970 UTC (float64)."""
    time = pl.col(column).str.to_datetime(
        WALL_CLOCK + "%z", time_unit="ms", time_zone="UTC", strict=False, cache=False
    )
    return time.dt.epoch("s").cast(pl.Float64).alias(column)


def as_text(column: str, *, text: bool) -> pl.Expr:
    """The column as text, null where it says in some program's words that there is no value.

    text: whether the column is to stay text. Of numbers, a few more words say so.
    """
    missing = pl.col(column).str.to_lowercase().is_in(_NO_TEXT if text else _NO_VALUE)
    return pl.when(~missing).then(column).alias(column)


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


def filled(column: str) -> pl.Expr:
    """The column as text, empty cells as null."""
    return pl.when(pl.col(column) != "").then(column).alias(column)


def optional_text(column: str) -> pl.Expr:
    """The column as text, empty cells and the word None as null."""
    text = pl.col(column)
    return pl.when(~text.is_in(["", "None", "null", "nan", "NaN"])).then(text).alias(column)


def truth(column: str) -> pl.Expr:
    """The column as a boolean: true or false in any case; anything else becomes null."""
    text = pl.col(column).str.strip_chars().str.to_lowercase()
    return pl.when(text.is_in(["true", "false"])).then(text == "true").alias(column)


def divided(values: pl.Series, by: float) -> pl.Series:
    """The quotients, rounded once: polars multiplies by the reciprocal, so 470 / 1000 would not be 0.47."""
    return pl.Series(values.name, values.to_numpy() / by).fill_nan(None)


def whole_gpus_for(gpus: pl.Expr) -> pl.Expr:
    """The whole GPUs (uint32) that hold a fractional number above 0.

    Rounded first: three thirds, or 30 times 0.1, should make no GPU more than they are worth.
    """
    return gpus.round(6).ceil().clip(lower_bound=1).cast(pl.UInt32)


def iso(seconds: float, *, utc: bool = False) -> str:
    """Seconds since 1970 as ISO 8601: with `Z` if they are UTC, bare if they are a wall clock."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + ("Z" if utc else "")
