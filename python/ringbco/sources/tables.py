"""The CSV tables that traces are published as: told apart by their columns, scanned lazily as text.

A table is known by its header (in any case of letters, whatever the separator) or, where the header line was
lost (or never published), by its number of columns and the look of some of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import InputError
from ringbco.sources.account import ROW, Locate
from ringbco.sources.opening import Opened
from ringbco.sources.parsing import filled
from ringbco.sources.records import (
    cells,
    check_quotes,
    first_record,
    header_at,
    record,
    record_ends,
    refuse_not_utf8,
    separator,
)
from ringbco.trace.jobs import near_name

EXTRA: Final = "__extra"  # what a row has beyond the header's columns
_FEWEST: Final = 3  # columns by which a table that lacks some is still known
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

    def names(self, first: Sequence[str]) -> list[str]:
        """The names in a header line, as published where upper and lower case are all the difference."""
        published = {name.lower(): name for name in self.columns}
        return [published.get(name.lower(), name) for name in first]

    def recognises(self, head: str) -> bool:
        """Whether a file that starts with `head` is this table."""
        first = first_record(head)
        return set(self.required) <= set(self.names(first)) or self.is_headerless(first)

    def is_headerless(self, first: Sequence[str]) -> bool:
        """Whether the file's first record is already a row of this table."""
        return (
            bool(self.looks)
            and len(first) == len(self.columns)
            and all(re.fullmatch(p, first[self.columns.index(c)]) for c, p in self.looks.items())
        )

    def odd_cell(self, head: str) -> tuple[str, str] | None:
        """The one cell that keeps a first record from being a row of this table: its column and its text."""
        first = first_record(head)
        if len(first) != len(self.columns) or len(self.looks) < 2:
            return None
        cells = {name: first[self.columns.index(name)] for name in self.looks}
        odd = [(name, text) for name, text in cells.items() if not re.fullmatch(self.looks[name], text)]
        return odd[0] if len(odd) == 1 else None

    def likeness(self, head: str) -> float:
        """How much of this table's required columns the header of `head` has, 0 to 1.

        A header of nothing but this table's columns is one of it too, though some be left out.
        """
        first = set(self.names(first_record(head)))
        if len(first) >= _FEWEST and first <= set(self.columns):
            return 1.0
        return len(first & set(self.required)) / len(self.required)

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError naming the required columns that the file's header lacks, and the nearest."""
        first = self.names(first_record(opened.head))
        missing = [column for column in self.required if column not in first]
        if not missing:
            return
        others = [name for name in first if name not in self.columns]
        near = near_name(missing[0], others) if not missing[1:] else None
        called = f"column{'s'[: len(missing) - 1]} {', '.join(missing)}"
        raise InputError(
            f"is {self.what} without the {called}",
            file=opened.shown,
            hint=f"is it {near}? Rename it" if near else f"its columns are {', '.join(first)[:200]}",
        )


def header_names(opened: Opened, table: CsvTable | None) -> tuple[str, ...]:
    """The names in a file's header line, as `table` spells them; InputError if two columns have the same."""
    names = first_record(opened.head)
    while names and not names[-1]:  # a separator after the last name
        names.pop()
    if table is not None:
        names = table.names(names)
    taken = {ROW, EXTRA}
    for name in names:
        if name in taken:
            raise InputError(f"has two columns named {name}", file=opened.shown, hint="rename or drop one")
        taken.add(name)
    return tuple(names)


@dataclass(frozen=True)
class CsvFile:
    """A file known to be a certain table (or, for `table` None, any CSV)."""

    opened: Opened
    table: CsvTable | None = None
    names: tuple[str, ...] = ()  # given from outside (a .header file): the file has no header of its own

    @cached_property
    def separator(self) -> str:
        """What stands between two cells."""
        return separator(self.opened.head)

    @cached_property
    def header(self) -> tuple[str, ...] | None:
        """The column names in the file, or None where its header line is missing."""
        if self.names or (
            self.table is not None and self.table.is_headerless(first_record(self.opened.head))
        ):
            return None
        return header_names(self.opened, self.table)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names, in the file's order."""
        return self.header or self.names or (self.table.columns if self.table is not None else ())

    def scan(self) -> pl.LazyFrame:
        """The rows as text, lazily, with `ROW` and `EXTRA`; published columns the file lacks are null.

        Cells lose the blanks around them. Raises InputError for quotation marks that do not match.
        """
        check_quotes(self.opened, self.separator, self.columns)
        frame = pl.scan_csv(
            self.opened.path,
            has_header=False,
            skip_lines=self._header_lines,
            schema=dict.fromkeys((*self.columns, EXTRA), pl.String),
            # A file's first row decides whether polars finds EXTRA missing, or still more cells than that.
            missing_columns="insert",
            extra_columns="ignore",
            truncate_ragged_lines=True,
            separator=self.separator,
            row_index_name=ROW,
            raise_if_empty=False,
            glob=False,
        )
        lacking = [c for c in self.table.columns if c not in self.columns] if self.table else []
        return frame.with_columns(
            *(pl.col(c).str.strip_chars() for c in self.columns),
            *(pl.lit(None, pl.String).alias(c) for c in lacking),
            filled(EXTRA),
        )

    def read(self, query: Sequence[pl.Expr]) -> pl.DataFrame:
        """`ROW` and the expressions of `query`, for every row but blank lines: those without any content.

        Raises InputError, with the line, where the file cannot be read as CSV.
        """
        rows = self.scan()
        frame = self.collect(rows.select(ROW, *query))
        # Only rows that gave nothing at all are looked at whole, which takes every column.
        empty = frame.filter(pl.all_horizontal(_is_empty(frame[c]) for c in frame.columns if c != ROW))
        if empty.is_empty():
            return frame
        content = pl.any_horizontal(pl.col(c) != "" for c in (*self.columns, EXTRA)).fill_null(False)
        blank = self.collect(rows.filter(pl.col(ROW).is_in(empty[ROW].implode()) & ~content).select(ROW))
        return frame.join(blank, on=ROW, how="anti", maintain_order="left")

    def collect(self, query: pl.LazyFrame) -> pl.DataFrame:
        """What a query on `scan` gives; InputError, with the line, where the file cannot be read as CSV."""
        try:
            return query.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as error:
            refuse_not_utf8(self.opened)
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot be read as CSV ({reason})", file=self.opened.shown) from error

    @property
    def _header_lines(self) -> int:
        """Lines before the first row."""
        if self.header is None:
            return 0
        return self.opened.head.count("\n", 0, header_at(self.opened.head)) + 1

    def locate(self) -> Locate:
        """Where a row stands and what its cell says, read again from the file once the first is asked for."""

        @cache
        def ends() -> NDArray[np.int64]:
            return record_ends(self.opened.path)

        def find(row: int, column: str) -> tuple[int | None, int | None, object]:
            line, text = record(self.opened.path, ends(), row + self._header_lines)
            if column not in self.columns:
                return None, line, text
            written = cells(text, self.separator)
            place = self.columns.index(column)
            return None, line, (written[place] if place < len(written) else "") or None

        return find

    def bad_cell(self, row: int, column: str, expected: str) -> InputError:
        """The error for a cell that is not what was expected; `row` as in `ROW`."""
        _, line, value = self.locate()(row, column)
        data_row = int((self.read([pl.col(self.columns[0])])[ROW] <= row).sum())
        return InputError(
            expected, file=self.opened.shown, row=data_row, line=line, column=column, value=value
        )


def _is_empty(column: pl.Series) -> pl.Series:
    empty = column.is_null()
    return empty | (column == "") if column.dtype == pl.String else empty
