"""Request traces of services: when requests arrive, and how many tokens they take (docs/services.md)."""

from __future__ import annotations

import os
from typing import Final

import polars as pl

from ringbco.errors import InputError
from ringbco.io.frames import as_polars
from ringbco.io.times import MICRO, divided, moments
from ringbco.trace.column import Column
from ringbco.trace.jobs import Raw, read_columns
from ringbco.trace.side_table import INSTANT, Form, check_table, is_table
from ringbco.units import is_date

OTHER_NAMES: Final = {
    "TIMESTAMP": "arrival",
    "ContextTokens": "input_tokens",
    "GeneratedTokens": "output_tokens",
}
"""What the columns are called in the public traces of Azure's language models."""

_TOKENS: Final = Column(pl.UInt32, True, "an integer >= 0", "drop the request", 0.0, True, 2**32 - 1)
COLUMNS: Final[dict[str, Column]] = {
    "arrival": INSTANT._replace(
        hint="count seconds from the epoch of submit_time, or give dates and times in all rows"
    ),
    "input_tokens": _TOKENS,
    "output_tokens": _TOKENS,
}
_FORM: Final = Form("requests", "requests", COLUMNS, tuple(COLUMNS))


def read_requests(requests: object) -> tuple[pl.DataFrame, str]:
    """The columns of `COLUMNS`, rows in input order, and where they come from.

    requests: a frame, or the Parquet or CSV file of that name. Dates and times count from the first request.
    Raises InputError naming file, row, column, value and what was expected, for the lowest row at fault.
    """
    if isinstance(requests, str | os.PathLike):
        raw = read_columns(requests)
    elif is_table(requests):
        raw = Raw(as_polars(requests, "requests"), "<requests>", False, None, {})
    else:
        raise InputError(f"requests: expected a path or a frame, not {type(requests).__name__}")
    names = {theirs: ours for theirs, ours in OTHER_NAMES.items() if ours not in raw.frame.columns}
    frame = raw.frame.rename(names, strict=False)
    if "arrival" in frame.columns:
        frame = frame.with_columns(_seconds(frame["arrival"], raw))
    return check_table(raw._replace(frame=frame), _FORM), raw.source


def _seconds(arrival: pl.Series, raw: Raw) -> pl.Series:
    """Seconds from the first request where the column has dates and times; else the column as it is."""
    if arrival.dtype == pl.String:
        first = arrival.drop_nulls().head(1)
        if first.len() == 0 or not is_date(first[0]):
            return arrival
        time, zoned = moments(arrival.str.strip_chars())
        time = time.set(zoned != zoned[int(arrival.is_not_null().arg_max() or 0)], None)
    elif arrival.dtype == pl.Datetime:
        time = arrival.dt.epoch("us")
    else:
        return arrival
    if time.null_count():
        row = int(time.is_null().arg_max() or 0)
        raise InputError(
            "a date and a time such as 2023-11-16 18:15:46.68, as in the other rows",
            file=raw.source,
            row=row + 1,
            column=next(name for name in ("arrival", "TIMESTAMP") if name in raw.frame.columns),
            value=arrival[row],
            hint="mend it, or drop the request",
            line=None if raw.line_of is None else raw.line_of(row + 1),
        )
    seconds = divided(time - time.min(), MICRO)
    # A CSV file's cells are text up to the checks.
    return (seconds.cast(pl.String) if raw.as_text else seconds).alias("arrival")
