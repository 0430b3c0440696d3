"""Requests to services: when they arrive, and how many tokens they take (docs/serving.md)."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.keys import did_you_mean
from ringbco.errors import InputError, show_value
from ringbco.io.csvtext import SEPARATORS
from ringbco.io.digests import sha256_of
from ringbco.io.frames import as_polars
from ringbco.io.marks import PARQUET, first_bytes, footer
from ringbco.io.times import MICRO, divided, moments
from ringbco.trace.column import Column
from ringbco.trace.jobs import Raw, read_columns
from ringbco.trace.schema import Fault
from ringbco.trace.serving import ServingFile, TokenKind
from ringbco.trace.side_table import (
    INSTANT,
    Form,
    ReadContext,
    SideTable,
    at_row,
    check_table,
    dated,
    is_table,
)
from ringbco.units import duration, is_date

LATEST: Final = 2**32
"""Seconds: the latest arrival, 136 years."""
_MOST: Final = 2**32 - 1
_RESPONSE: Final = "Response tokens"
"""BurstGPT's column of output tokens: 0 for a request that failed."""
OTHER_NAMES: Final = {
    "TIMESTAMP": "arrival",
    "ContextTokens": "input_tokens",
    "GeneratedTokens": "output_tokens",
    "Timestamp": "arrival",
    "Request tokens": "input_tokens",
    _RESPONSE: "output_tokens",
}
"""What the columns are called in the public traces of Azure's language models, and in BurstGPT's."""
_FROM_FIRST: Final = "TIMESTAMP"
"""The column that counts from the first request."""
_MODEL: Final = "Model"
"""BurstGPT's column of services."""

_TOKENS: Final = Column(pl.UInt32, False, "an integer >= 0", "drop the request", 0.0, True, _MOST)
COLUMNS: Final[dict[str, Column]] = {
    "service": Column(pl.String, False, "the name of a service", "drop the request"),
    "arrival": INSTANT._replace(
        hint="count seconds from the epoch of submit_time, or give dates and times in all rows", high=LATEST
    ),
    "input_tokens": _TOKENS,
    "output_tokens": _TOKENS,
    "cached_tokens": _TOKENS,
}
_NEEDED: Final = ("input_tokens", "output_tokens")
"""What requests to token services have."""
_LONGEST_HEADER: Final = 1 << 16
_LONG_SPAN: Final = 31 * 86_400.0
_LONG_GAP: Final = 60.0
"""Seconds. Of a trace of requests of both it is likely that it counts milliseconds."""


@dataclass(frozen=True, eq=False)
class Requests(SideTable):
    """Checked requests.

    frame: with the columns of `COLUMNS`, rows in input order without failed requests; input_tokens and
    output_tokens are null where the file has none. rows: their rows of the file, from 0. failed: how many
    rows were left out.
    """

    rows: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    failed: int = 0

    form: ClassVar[Form] = Form("requests", "requests", COLUMNS, ("arrival",), instants=("arrival",))
    is_copied: ClassVar[bool] = False

    @classmethod
    def read(
        cls,
        given: object,
        known: ReadContext | None = None,
        source: str | None = None,
        *,
        serving: ServingFile | None = None,
        counted: bool = False,
    ) -> Self:
        """The requests of a frame, or of the Parquet or CSV file of that name.

        known: None where there is no job table: dates in arrival then count from the first request, as
        TIMESTAMP always does. source: the file that a frame comes from. serving: the services that they are
        for, which says which requests need tokens. counted: whether all need them.
        Raises InputError naming file, row, column, value and what was expected, for the lowest row at fault.
        """
        raw, sha256 = _raw(given, source)
        names = _names(raw, serving)
        bursts = _RESPONSE in names
        form = _form(serving, counted=counted, bursts=bursts)
        before = given if isinstance(given, Requests) else None
        try:
            named = _from_first(raw._replace(frame=raw.frame.rename(names)), names, known)
            frame = check_table(named if known is None else dated(named, form, known.epoch), form)
        except InputError as error:
            theirs = {ours: theirs for theirs, ours in names.items()}
            error = error.replace(column=theirs.get(error.column or "", error.column))
            if before is not None and error.row is not None:
                error = error.replace(row=int(before.rows[error.row - 1]) + 1, line=None)
            raise error from None
        frame = frame.with_columns(pl.col("arrival") + 0.0, pl.col("cached_tokens").fill_null(0))
        rows, failed = np.arange(frame.height, dtype=np.uint32), 0
        if before is not None:
            rows, failed = before.rows, before.failed
        elif bursts:
            answered = ~_failed(frame)
            failed = int((~answered).sum())
            frame, rows = frame.filter(answered), rows[answered.to_numpy()]
            if frame.is_empty():
                raise InputError("holds failed requests alone, of 0 response tokens", file=raw.source)
        if serving is not None:
            frame = frame.with_columns(pl.col("service").fill_null(serving.names[0]))
        return cls(frame.rechunk(), raw.source, sha256, rows, failed)

    @property
    def notes(self) -> list[str]:
        """What is to be said of the file: failed requests, and times that are probably milliseconds."""
        lines = []
        if self.failed:
            of = f"{self.failed:,} of {self.frame.height + self.failed:,} requests"
            are = "is" if self.failed == 1 else "are"
            lines.append(f"{self.source}: {of} {are} left out: failed, with 0 response tokens")
        times = np.sort(self.frame["arrival"].to_numpy())
        gaps = np.diff(times)
        span = float(times[-1] - times[0])
        if span > _LONG_SPAN and float(np.median(gaps)) > _LONG_GAP:
            lines.append(
                f"{self.source}: column arrival: requests over {duration(span)}, half of them more than"
                f" {duration(_LONG_GAP)} apart; is it in milliseconds? Then they are over"
                f" {duration(span / 1000)}"
            )
        return lines

    @property
    def identity(self) -> dict[str, object]:
        """What run.toml says of them."""
        return super().identity | ({"failed": self.failed} if self.failed else {})

    @property
    def written(self) -> pl.DataFrame:
        """What a file of them holds: no column without a value, and no cached tokens where none are."""
        frame = self.frame.drop(name for name in COLUMNS if self.frame[name].is_null().all())
        return frame if (frame["cached_tokens"] > 0).any() else frame.drop("cached_tokens")

    def columns(
        self, serving: ServingFile
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], *tuple[NDArray[np.uint32], ...]]:
        """For the engine, by row: the service by its place, the arrival, s, input, output, cached tokens."""
        numbers = {name: number for number, name in enumerate(serving.names)}
        service = self.frame["service"].replace_strict(numbers, return_dtype=pl.UInt32).to_numpy()
        tokens = (self.frame[name].fill_null(0).to_numpy() for name in (*_NEEDED, "cached_tokens"))
        return service, self.frame["arrival"].to_numpy(), *tokens


def read_requests(requests: object) -> tuple[pl.DataFrame, str]:
    """The arrival, s, and the input and output tokens of requests that all have some; where they come from.

    requests: as `Requests.read` takes them, which says what is raised.
    """
    made = Requests.read(requests, counted=True)
    return made.frame.select("arrival", *_NEEDED), made.source


def names_requests(path: str | os.PathLike[str]) -> bool:
    """Whether the columns of a file are those of requests and of no jobs; False for what is no table."""
    names = _header(Path(path))
    # Other logs have a TIMESTAMP too.
    has_tokens = any(OTHER_NAMES.get(name, name) in _NEEDED for name in names)
    arrives = any(OTHER_NAMES.get(name) == "arrival" for name in names) and has_tokens
    return ("arrival" in names or arrives) and not names & {"job_id", "submit_time", "num_gpus"}


def _header(path: Path) -> set[str]:
    """The names of a file's columns, as far as its first bytes tell."""
    start = first_bytes(path) or b""
    if start.startswith(PARQUET):
        told = footer(path)
        return set() if told is None else set(told.schema.names)
    try:
        with gzip.open(path) if start.startswith(b"\x1f\x8b") else path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER).decode("utf-8-sig", "replace")
    except (OSError, EOFError, zlib.error):
        return set()
    return {name.strip().strip('"') for name in re.split(f"[{SEPARATORS}]", line)}


def _raw(given: object, source: str | None) -> tuple[Raw, str | None]:
    """The columns before any rule, and the SHA-256 of the file."""
    if isinstance(given, Requests):
        return Raw(given.frame, given.source, False, None, {}), given.sha256
    if isinstance(given, str | os.PathLike):
        return read_columns(given), sha256_of(given)
    if is_table(given):
        return Raw(as_polars(given, "requests"), source or "<requests>", False, None, {}), None
    raise InputError(f"requests: expected a path or a frame, not {type(given).__name__}")


def _names(raw: Raw, serving: ServingFile | None) -> dict[str, str]:
    """What columns of the file are called here, where that is another name."""
    columns = raw.frame.columns
    names: dict[str, str] = {}
    for theirs, ours in OTHER_NAMES.items():
        if theirs in columns and ours not in (*columns, *names.values()):
            names[theirs] = ours
    if serving is not None and _RESPONSE in names and _MODEL in columns and "service" not in columns:
        # A file with one table is for all models, unless each has its own.
        named = raw.frame[_MODEL].cast(pl.String).is_in(serving.names).all()
        if named or len(serving.names) > 1:
            names[_MODEL] = "service"
    return names


def _form(serving: ServingFile | None, *, counted: bool, bursts: bool) -> Form:
    """What the table has to be for these services."""
    kinds = [] if serving is None else [isinstance(service.kind, TokenKind) for service in serving.services]
    counted = counted or (bool(kinds) and all(kinds))
    columns = {
        name: column._replace(required=column.required or (counted and name in _NEEDED))
        for name, column in COLUMNS.items()
    }

    def beyond(frame: pl.DataFrame) -> Iterator[Fault]:
        return iter(()) if serving is None else _at_odds(frame, serving, bursts=bursts)

    needed = ("arrival", *(_NEEDED if counted else ()))
    return Requests.form._replace(columns=columns, needed=needed, beyond=beyond)


def _failed(frame: pl.DataFrame) -> pl.Series:
    """Which requests of BurstGPT failed."""
    return (frame["output_tokens"] == 0).fill_null(value=False)


def _at_odds(frame: pl.DataFrame, serving: ServingFile, *, bursts: bool) -> Iterator[Fault]:
    """The faults of requests of no service, and of tokens that their service cannot take."""
    names, service, source = serving.names, frame["service"], serving.source
    counts = ~_failed(frame) if bursts else pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
    if len(names) == 1:
        service = service.fill_null(names[0])
    bad = counts & ~service.is_in(names).fill_null(value=False)
    if bad.any():
        name = service[int(bad.arg_max() or 0)]
        rule = f"the name of a table of {source}: {', '.join(map(show_value, names))}"
        hint = (name and did_you_mean(name, names)) or "write a table for it, or drop the request"
        yield Fault("service", bad, frame["service"], rule, rule, hint)
    limits = {each.name: each.kind.kv_tokens for each in serving.services if isinstance(each.kind, TokenKind)}
    limit = service.replace_strict(limits, default=None, return_dtype=pl.UInt64)
    counts &= limit.is_not_null()
    taken, given, cached = (frame[name].cast(pl.UInt64) for name in (*_NEEDED, "cached_tokens"))
    checks = {
        "input_tokens": (taken.is_null(), "an integer >= 0"),
        "output_tokens": (given.is_null() | (given < 1), "an integer >= 1"),
        "cached_tokens": (cached > taken, "at most the input_tokens of the row"),
    }
    for column, (wrong, rule) in checks.items():
        bad = counts & wrong.fill_null(value=False)
        if bad.any():
            at = int(bad.arg_max() or 0)
            told = f"{rule}, which are {taken[at]}" if column == "cached_tokens" else rule
            told += f"; service {show_value(service[at])} counts tokens"
            yield Fault(column, bad, frame[column], rule, told, COLUMNS[column].hint)
    bad = counts & (taken + given > limit).fill_null(value=False)
    if bad.any():
        at = int(bad.arg_max() or 0)
        rule = f"with the {taken[at]} input_tokens at most {limit[at]}, {show_value(service[at])}.kv_tokens"
        hint = f"raise kv_tokens in {source}, or drop the request"
        yield Fault("output_tokens", bad, frame["output_tokens"], rule, rule, hint)


def _from_first(raw: Raw, names: Mapping[str, str], known: ReadContext | None) -> Raw:
    """The same with seconds from the first request where arrivals count from there."""
    if "arrival" not in raw.frame.columns:
        return raw
    from_first = names.get(_FROM_FIRST) == "arrival"
    if known is not None and not from_first:
        return raw
    arrival = raw.frame["arrival"]
    seconds = _since_first(arrival, raw)
    if seconds is None and from_first:
        numbers = (
            arrival.cast(pl.Float64, strict=False)
            if arrival.dtype == pl.String or arrival.dtype.is_numeric()
            else None
        )
        if numbers is not None and numbers.is_finite().all() and numbers.null_count() == 0:
            seconds = numbers - numbers.min()
    if seconds is None:
        return raw
    # A CSV file's cells are text up to the checks.
    return raw._replace(frame=raw.frame.with_columns(seconds.cast(pl.String) if raw.as_text else seconds))


def _since_first(arrival: pl.Series, raw: Raw) -> pl.Series | None:
    """Seconds from the first of dates and times, whole nanoseconds / 1e9; None where there are none."""
    beyond_micro: pl.Series | int = 0
    if arrival.dtype == pl.String:
        first = arrival.drop_nulls().head(1)
        if first.len() == 0 or not is_date(first[0]):
            return None
        time, zoned = moments(arrival.str.strip_chars())
        time = time.set(zoned != zoned[int(arrival.is_not_null().arg_max() or 0)], None)
        digits = arrival.str.extract(r"[.,]\d{6}(\d{1,3})").str.pad_end(3, "0")
        beyond_micro = digits.cast(pl.Int64).fill_null(0)
    elif isinstance(arrival.dtype, pl.Datetime):
        time = arrival.dt.epoch("us")
        if arrival.dtype.time_unit == "ns":
            beyond_micro = arrival.dt.epoch("ns") - time * 1_000
    else:
        return None
    if time.null_count():
        row = int(time.is_null().arg_max() or 0)
        told = "a date and a time such as 2023-11-16 18:15:46.68, as in the other rows"
        raise at_row(
            raw, row, told, column="arrival", value=arrival[row], hint="mend it, or drop the request"
        )
    time -= time.min()
    if (time > 2 * LATEST * MICRO).any():  # too long for nanoseconds, and refused below
        return divided(time, MICRO)
    nanos = time * 1_000 + beyond_micro
    return divided(nanos - nanos.min(), 1_000 * MICRO)
