"""The CSV tables that traces are published as: told apart by their columns, scanned lazily as text.

A table is known by its header or, where the header line was lost (or never published), by its number of
columns and the look of some of them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import polars as pl

from ringbco.errors import InputError
from ringbco.jobs import near_name
from ringbco.sources.account import ROW, Locate
from ringbco.sources.opening import Opened

EXTRA: Final = "__extra"  # what a row has beyond the header's columns
TIME_LIKE: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@dataclass(frozen=True)
class CsvTable:
    """One published CSV table.

    `columns` is the published order, `required` those without which it cannot be read. `looks` gives, for
    recognising a file without its header, patterns that the first row's cells must match whole.
    """

    role: str
    what: str
    columns: tuple[str, ...]
    required: tuple[str, ...]
    looks: dict[str, str] = field(default_factory=dict)

    def recognises(self, head: str) -> bool:
        """Whether a file that starts with `head` is this table."""
        first = first_record(head)
        return set(self.required) <= set(first) or self.is_headerless(first)

    def is_headerless(self, first: Sequence[str]) -> bool:
        """Whether the file's first record is already a row of this table."""
        return (
            bool(self.looks)
            and len(first) == len(self.columns)
            and all(re.fullmatch(p, first[self.columns.index(c)]) for c, p in self.looks.items())
        )

    def likeness(self, head: str) -> float:
        """How much of this table's required columns the header of `head` has: 0 to 1."""
        first = set(first_record(head))
        return len(first & set(self.required)) / len(self.required)

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError naming the first required column that the file's header lacks, and the nearest."""
        first = first_record(opened.head)
        for column in self.required:
            if column not in first:
                near = near_name(column, [name for name in first if name not in self.columns])
                raise InputError(
                    f"is {self.what} without the column {column}",
                    file=opened.shown,
                    hint=f"is it {near}? Rename it" if near else f"its columns are {', '.join(first)[:200]}",
                )


@dataclass(frozen=True)
class CsvFile:
    """A file known to be a certain table (or, for `table` None, any CSV)."""

    opened: Opened
    table: CsvTable | None = None
    separator: str = ","
    names: tuple[str, ...] = ()  # given from outside (a .header file): the file has no header of its own

    @cached_property
    def header(self) -> tuple[str, ...] | None:
        """The column names in the file, or None where its header line is missing."""
        first = first_record(self.opened.head, self.separator)
        if self.names or (self.table is not None and self.table.is_headerless(first)):
            return None
        for i, name in enumerate(first):
            if name in first[:i]:
                raise InputError(
                    f"has two columns named {name}", file=self.opened.shown, hint="rename or drop one"
                )
        return tuple(first)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names, in the file's order."""
        return self.header or self.names or (self.table.columns if self.table is not None else ())

    def scan(self) -> pl.LazyFrame:
        """The rows as text, lazily, with `ROW` and `EXTRA`; published columns the file lacks are null."""
        frame = pl.scan_csv(
            self.opened.path,
            has_header=False,
            skip_rows=self._header_lines,
            schema=dict.fromkeys((*self.columns, EXTRA), pl.String),
            # A file's first row decides whether polars finds EXTRA missing, or still more cells than that.
            missing_columns="insert",
            extra_columns="ignore",
            truncate_ragged_lines=True,
            separator=self.separator,
            row_index_name=ROW,
            raise_if_empty=False,
        )
        lacking = [c for c in self.table.columns if c not in self.columns] if self.table else []
        return frame.with_columns(pl.lit(None, pl.String).alias(c) for c in lacking)

    def read(self, query: Sequence[pl.Expr], needs: Sequence[str]) -> pl.DataFrame:
        """`ROW` and the expressions of `query`, for every row but blank lines (all of `needs` empty).

        Raises InputError, with the line, where the file cannot be read as CSV.
        """
        blank = pl.all_horizontal(pl.col(c).is_null() for c in needs)
        try:
            return self.scan().filter(~blank).select(ROW, *query).collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as error:
            self._explain(error)
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot be read as CSV ({reason})", file=self.opened.shown) from error

    @property
    def _header_lines(self) -> int:
        """Lines before the first row."""
        if self.header is None:
            return 0
        head = self.opened.head
        return head[: len(head) - len(head.lstrip("\r\n"))].count("\n") + 1

    def locate(self) -> Locate:
        """Where a row stands and what its cell says, read again from the file (only on errors)."""

        def find(row: int, column: str) -> tuple[int, int | None, object]:
            for at, (line, cells) in enumerate(self._records(), start=-self._header_lines):
                if at == row:
                    if column not in self.columns:
                        return row + 1, line, ",".join(cells)
                    place = self.columns.index(column)
                    return row + 1, line, (cells[place] if place < len(cells) else "") or None
            return row + 1, None, None

        return find

    def bad_cell(self, row: int, column: str, expected: str) -> InputError:
        """The error for a cell that is not what was expected; `row` as in `ROW`."""
        data_row, line, value = self.locate()(row, column)
        return InputError(
            expected, file=self.opened.shown, row=data_row, line=line, column=column, value=value
        )

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Every record with the line it begins on, blank ones included, one by one."""
        with open(self.opened.path, encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=self.separator)
            line = 1
            for cells in reader:
                yield line, cells
                line = reader.line_num + 1

    def _explain(self, error: Exception) -> None:
        """Raise InputError for the first line that keeps the file from being CSV, if one can be found."""
        for line, cells in self._records():
            if any("\ufffd" in cell for cell in cells):
                raise InputError(
                    "UTF-8 text",
                    file=self.opened.shown,
                    line=line,
                    value=",".join(cells),
                    hint="save the file as UTF-8",
                ) from error


def first_record(head: str, separator: str = ",") -> list[str]:
    """The cells of the first line of `head`."""
    line = head.lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
    try:
        return next(csv.reader(io.StringIO(line), delimiter=separator), [])
    except csv.Error:
        return []
