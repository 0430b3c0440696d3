"""Cells of text into numbers and times; whatever cannot be read becomes null, for a cleaning rule to count.

Times without an offset are wall clocks: they are counted as if every day had 24 hours, without any time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import polars as pl

from ringbco.io.times import WALL_CLOCK

# What tables of other programs write for a value that is not there, in lower case.
_NO_TEXT: Final = ("", "-", "none", "null", "(null)", "\\n", "nan", "nat", "<na>")
_NO_VALUE: Final = (*_NO_TEXT, "--", "na", "n/a", "unknown")


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


def whole_gpus_for(gpus: pl.Expr) -> pl.Expr:
    """The whole GPUs (uint32) that hold a fractional number above 0.

    Rounded first: three thirds, or 30 times 0.1, should make no GPU more than they are worth.
    """
    return gpus.round(6).ceil().clip(lower_bound=1).cast(pl.UInt32)


def iso(seconds: float, *, utc: bool = False) -> str:
    """Seconds since 1970 as ISO 8601: with `Z` if they are UTC, bare if they are a wall clock."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + ("Z" if utc else "")
