"""Outages of servers: reading and checking them (docs/outages.md)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import InputError, show_path
from ringbco.io.csvtext import refuse_doubled
from ringbco.io.frames import ArrowTable, as_polars
from ringbco.trace.jobs import read_columns
from ringbco.trace.schema import MOST_SECONDS, Column, Fault, check_column

COLUMNS: Final[dict[str, Column]] = {
    "server": Column(
        pl.UInt32,
        True,
        "the index of a server, from 0",
        "count the servers of the cluster file from 0",
        0.0,
        True,
        2**32 - 1,
    ),
    "down_at": Column(
        pl.Float64,
        True,
        "a finite number of seconds >= 0",
        "count from the same epoch as submit_time",
        0.0,
        True,
        MOST_SECONDS,
    ),
    "up_at": Column(
        pl.Float64,
        False,
        "a number of seconds after down_at",
        "{empty} for a server that never comes back",
        0.0,
        True,
        None,
        True,
    ),
    "cause": Column(pl.String, False, "text or nothing", "store cause as text, or leave it out"),
}
"""The schema, in canonical order."""

SCHEMA: Final = {name: column.dtype() for name, column in COLUMNS.items()}
_REQUIRED: Final = ("server", "down_at", "up_at")


@dataclass(frozen=True, eq=False)
class Outages:
    """Checked outages: the columns of `COLUMNS`, rows in input order; up_at null where it never comes back.

    source: where they come from. sha256: of the file's bytes; None for a frame.
    """

    frame: pl.DataFrame
    source: str
    sha256: str | None = None

    @cached_property
    def merged(self) -> pl.DataFrame:
        """In order of (server, down_at), those that overlap or touch as one, with the cause of the first."""
        end = pl.col("up_at").fill_null(float("inf"))
        ordered = self.frame.with_columns(up_at=end).sort("server", "down_at", maintain_order=True)
        latest = pl.col("up_at").cum_max().over("server")
        begins = (pl.col("down_at") > latest.shift().over("server")).fill_null(value=True)
        return (
            ordered.with_columns(number=begins.cum_sum())
            .group_by("number", maintain_order=True)
            .agg(pl.col("server", "down_at").first(), pl.col("up_at").max(), pl.col("cause").first())
            .drop("number")
        )

    @property
    def num_overlapping(self) -> int:
        """Rows that another row took in, because they overlap or touch."""
        return self.frame.height - self.merged.height

    def columns(self) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64]]:
        """Servers, when they go down and when they come back, s; infinite where they never do."""
        server, down, up = (self.merged[name].to_numpy() for name in ("server", "down_at", "up_at"))
        return np.ascontiguousarray(server), np.ascontiguousarray(down), np.ascontiguousarray(up)

    def told(self) -> dict[str, object]:
        """What run.toml says of them."""
        return {
            "path": show_path(self.source),
            "sha256": self.sha256,
            "rows": self.frame.height,
            "overlapping": self.num_overlapping,
        }


def as_outages(outages: object, num_servers: int) -> Outages:
    """What `outages` stands for: itself, a frame, or the Parquet or CSV file of that name.

    Raises InputError naming file, row, column, value and what was expected, for the lowest row at fault.
    """
    if isinstance(outages, Outages):
        _check_servers(outages.frame, outages.source, num_servers, None)
        return outages
    if isinstance(outages, str | os.PathLike):
        raw = read_columns(outages)
        with open(outages, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        frame = _checked(raw.frame, raw.source, as_text=raw.as_text, line_of=raw.line_of)
        _check_servers(frame, raw.source, num_servers, raw.line_of)
        return Outages(frame, raw.source, digest)
    frame = _checked(as_polars(outages), "<outages>", as_text=False)
    _check_servers(frame, "<outages>", num_servers, None)
    return Outages(frame, "<outages>")


def checkpoint_interval(frame: pl.DataFrame) -> NDArray[np.float64] | None:
    """Seconds of progress between checkpoints of each job; NaN, or None for all, where the option says it."""
    if "checkpoint_interval" not in frame.columns:
        return None
    return frame["checkpoint_interval"].fill_null(float("nan")).to_numpy()


def is_outages(value: object) -> bool:
    """Whether `as_outages` takes it."""
    return isinstance(value, Outages | str | os.PathLike | pl.LazyFrame | ArrowTable)


def _checked(
    frame: pl.DataFrame, source: str, *, as_text: bool, line_of: Callable[[int], int] | None = None
) -> pl.DataFrame:
    refuse_doubled(source, frame.columns)
    missing = [name for name in _REQUIRED if name not in frame.columns]
    if missing:
        raise InputError(
            f"has no column {', '.join(missing)}",
            file=source,
            hint=f"outages have the columns {', '.join(_REQUIRED)}, and may have cause",
        )
    if as_text:
        # An empty cell of CSV is no text.
        frame = frame.with_columns(
            pl.col(name).replace("", None) for name in COLUMNS if name in frame.columns
        )
    columns: list[pl.Series] = []
    faults: list[Fault] = []
    for name, column in COLUMNS.items():
        if name not in frame.columns:
            columns.append(pl.repeat(None, frame.height, dtype=column.dtype(), eager=True).rename(name))
            continue
        cells, fault = check_column(frame[name], column, source, as_text)
        columns.append(cells)
        faults += [] if fault is None else [fault]
    made = pl.DataFrame(columns)
    early = (made["up_at"] <= made["down_at"]).fill_null(value=False)
    if early.any():
        down = made["down_at"][int(early.arg_max() or 0)]
        column, told = COLUMNS["up_at"], f"a time after down_at, which is {down:g}"
        faults.append(Fault("up_at", early, frame["up_at"], column.rule, told, column.mend(as_text)))
    if faults:
        worst = min(faults, key=lambda fault: fault.first)
        raise InputError(
            worst.expected,
            file=source,
            row=worst.first + 1,
            column=worst.column,
            value=worst.value,
            hint=worst.hint,
            line=None if line_of is None else line_of(worst.first + 1),
        )
    never = pl.when(pl.col("up_at").is_finite()).then("up_at")  # infinity is never, as null is
    return made.with_columns(up_at=never).rechunk()


def _check_servers(
    frame: pl.DataFrame, source: str, num_servers: int, line_of: Callable[[int], int] | None
) -> None:
    beyond = frame["server"] >= num_servers
    if beyond.any():
        row = int(beyond.arg_max() or 0)
        raise InputError(
            f"a server of the cluster, 0 to {num_servers - 1}",
            file=source,
            row=row + 1,
            column="server",
            value=frame["server"][row],
            hint="drop the row, or give the cluster that failed",
            line=None if line_of is None else line_of(row + 1),
        )
