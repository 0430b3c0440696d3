"""The account of a conversion: how many rows were read, kept, dropped or changed, by reason.

A cleaning rule is data: what it does, why, which rows it meets. Rules are tried in order, and a row is
dropped for the first reason that meets it, so that the rows dropped and kept add up to the rows read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import InputError, show_value

if TYPE_CHECKING:
    from rich.table import Table

Kind = Literal["dropped", "changed", "noted"]

ROW: Final = "__row"  # position of the row in its file, from 0, header and blank lines not counted out
_KEY: Final = "ringbco.account"

# Where a row stands: (data row from 1 or None for its place in the frame, line of the file or None, the cell
# as written). Called once for each reason that a row is met by.
Locate = Callable[[int, str], tuple[int | None, int | None, object]]


@dataclass(frozen=True)
class Entry:
    """One reason. `rows` had it as their first; `matching` counts every row it meets, whatever its fate.

    line, value: where the first of `rows` stands in its file, and what it says in the column that the reason
    speaks of ("null" for an empty cell), None where that is not known.
    """

    kind: Kind
    reason: str
    rows: int
    matching: int
    line: int | None = None
    value: str | None = None

    @property
    def first(self) -> str:
        """Where the first row stands and what it says; "" where that is not known."""
        if self.line is None:
            return ""
        return f"line {self.line}" + ("" if self.value is None else f": {self.value}")


@dataclass(frozen=True)
class Account:
    """Rows read, kept, and dropped or changed by reason. `unit` names what a row is: jobs, pods, attempts."""

    unit: str
    rows_read: int
    rows_kept: int
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        missing = self.rows_read - self.rows_kept - sum(self.dropped.values())
        if missing:
            raise ValueError(f"{missing} rows are neither kept nor dropped for a reason")

    def plus(self, entries: Sequence[Entry]) -> Account:
        """The same account with notes added."""
        return replace(self, entries=(*self.entries, *entries))

    def without(self, reason: str, rows: int) -> Account:
        """The same account with `rows` of the kept rows dropped after all."""
        entry = Entry("dropped", reason, rows, rows)
        return replace(self, rows_kept=self.rows_kept - rows, entries=(*self.entries, entry))

    @property
    def dropped(self) -> dict[str, int]:
        """Rows dropped, by reason."""
        return self._of("dropped")

    @property
    def changed(self) -> dict[str, int]:
        """Rows kept with a value changed, by reason."""
        return self._of("changed")

    @property
    def noted(self) -> dict[str, int]:
        """Rows kept as they are that a reader should know of, by reason."""
        return self._of("noted")

    def _of(self, kind: Kind) -> dict[str, int]:
        return {e.reason: e.rows for e in self.entries if e.kind == kind and e.rows}

    def to_dict(self) -> dict[str, Any]:
        """The account as plain values, for JSON."""
        return {
            "unit": self.unit,
            "rows_read": self.rows_read,
            "rows_kept": self.rows_kept,
            "dropped": self.dropped,
            "changed": self.changed,
            "noted": self.noted,
            "matching": {e.reason: e.matching for e in self.entries},
            "first": {e.reason: {"line": e.line, "value": e.value} for e in self.entries if e.first},
        }

    def to_metadata(self) -> dict[str, str]:
        """The account as key-value pairs for a Parquet footer, beside those of `jobs.provenance`."""
        return {
            "ringbco.rows_kept": str(self.rows_kept),
            _KEY: json.dumps(
                {
                    "unit": self.unit,
                    "rows_read": self.rows_read,
                    "rows_kept": self.rows_kept,
                    "entries": [
                        [e.kind, e.reason, e.rows, e.matching, *([e.line, e.value] if e.first else [])]
                        for e in self.entries
                    ],
                }
            ),
        }

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> Account | None:
        """The account that a converter left in a footer, or None where there is none (or a damaged one)."""
        try:
            stored = json.loads(metadata[_KEY])
            entries = tuple(Entry(*entry) for entry in stored["entries"])
            account = cls(stored["unit"], stored["rows_read"], stored["rows_kept"], entries)
        except (KeyError, ValueError, TypeError, RecursionError):
            return None
        return account if account._is_sound() else None

    def _is_sound(self) -> bool:
        """Whether its parts are of their types: a footer may hold anything."""
        counts = [self.rows_read, self.rows_kept]
        counts += (count for entry in self.entries for count in (entry.rows, entry.matching))
        counts += (entry.line for entry in self.entries if entry.line is not None)
        texts = [self.unit, *(entry.reason for entry in self.entries)]
        texts += (entry.value for entry in self.entries if entry.value is not None)
        return (
            all(type(count) is int and count >= 0 for count in counts)
            and all(isinstance(text, str) for text in texts)
            and all(entry.kind in get_args(Kind) for entry in self.entries)
        )

    def to_table(self, title: str | None = None) -> Table:
        """The account as a table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        shown = [e for e in self.entries if e.rows]
        overlap = any(e.matching != e.rows for e in shown)
        table = Table(
            title=None if title is None else Text(title),
            title_justify="left",
            show_edge=False,
            pad_edge=False,
        )
        table.add_column(Text(self.unit))
        table.add_column("why", overflow="fold")
        table.add_column("rows", justify="right")
        if overlap:
            table.add_column("of all that match", justify="right")
        blank = [""] * overlap
        table.add_row("read", "", f"{self.rows_read:,}", *blank, style="bold")
        for e in shown:
            # Below the reason: a terminal is too narrow for both side by side.
            why = Text(f"{e.reason}\n  first in {e.first}" if e.first else e.reason)
            table.add_row(e.kind, why, f"{e.rows:,}", *[f"{e.matching:,}"] * overlap)
        table.add_row("kept", "", f"{self.rows_kept:,}", *blank, style="bold")
        return table


@dataclass(frozen=True)
class Rule:
    """A cleaning rule over the columns of a frame.

    `when` is true for the rows it meets (null counts as false). A "changed" rule gives the new values in
    `becomes`. The account shows what the first row met says in `column`; `--strict` stops there with
    `expected`.
    """

    kind: Kind
    reason: str
    when: pl.Expr
    column: str
    expected: str
    becomes: Mapping[str, pl.Expr] = field(default_factory=dict)


def drop(reason: str, when: pl.Expr, column: str, expected: str) -> Rule:
    """A rule that drops rows."""
    return Rule("dropped", reason, when, column, expected)


def change(reason: str, when: pl.Expr, column: str, expected: str, **becomes: pl.Expr) -> Rule:
    """A rule that keeps rows but changes values."""
    return Rule("changed", reason, when, column, expected, becomes)


def note(reason: str, when: pl.Expr, column: str) -> Rule:
    """A rule that only counts kept rows."""
    return Rule("noted", reason, when, column, "")


def clean(
    frame: pl.DataFrame,
    rules: Sequence[Rule],
    *,
    unit: str,
    file: str,
    locate: Locate,
    strict: bool = False,
    unique: str = "job_id",
    unique_column: str | None = None,
) -> tuple[pl.DataFrame, Account]:
    """Apply `rules` in order to `frame` (which has the column `ROW`) and keep the account.

    First all "dropped" rules, then rows whose `unique` value an earlier kept row has, then the others on what
    is kept. Under `strict` the first row of the file that any of them drops or changes is an InputError with
    the cell as it stands in the file.
    """
    drops = [r for r in rules if r.kind == "dropped"]
    masks = frame.select(r.when.fill_null(False).alias(str(i)) for i, r in enumerate(drops))
    fate = np.zeros(frame.height, dtype=np.uint8)
    met: list[tuple[Rule, int, int, int | None]] = []  # rule, its rows, all that match, the first of its rows
    for i, rule in enumerate(drops):
        matching = masks[str(i)].to_numpy()
        first = matching & (fate == 0)
        fate[first] = i + 1
        met.append((rule, int(first.sum()), int(matching.sum()), _first_row(frame, first)))
    again = drop(
        f"{unique_column or unique} occurred before",
        pl.lit(False),
        unique_column or unique,
        "a value of its own; an earlier row has it",
    )
    kept = frame.filter(pl.Series(fate == 0))
    first_seen = kept[unique].is_first_distinct()
    if not first_seen.all():
        given = frame[unique].drop_nulls()
        repeats = (~first_seen).to_numpy()
        count = given.len() - given.n_unique()
        met.append((again, int(repeats.sum()), count, _first_row(kept, repeats)))
        kept = kept.filter(first_seen)
    for rule in (r for r in rules if r.kind != "dropped"):
        meets = kept.select(rule.when.fill_null(False).alias("meets"))["meets"]
        matching_all = int(frame.select(rule.when.fill_null(False).sum()).item())
        met.append((rule, int(meets.sum()), matching_all, _first_row(kept, meets.to_numpy())))
        if rule.becomes and meets.any():
            kept = kept.with_columns(
                pl.when(meets).then(value).otherwise(pl.col(name)).alias(name)
                for name, value in rule.becomes.items()
            )
    culprits = [(row, rule) for rule, _, _, row in met if row is not None and rule.kind != "noted"]
    if strict and culprits:
        row, rule = min(culprits, key=lambda c: c[0])
        data_row, line, value = locate(row, rule.column)
        raise InputError(
            rule.expected,
            file=file,
            row=int((frame[ROW] <= row).sum()) if data_row is None else data_row,
            line=line,
            column=rule.column,
            value=value,
            hint=f"without --strict: {rule.kind}, {rule.reason}",
        )
    entries = []
    for rule, rows, matching_all, first_row in met:
        _, line, value = (None, None, None) if first_row is None else locate(first_row, rule.column)
        says = None if first_row is None else show_value(value)
        if matching_all:
            entries.append(Entry(rule.kind, rule.reason, rows, matching_all, line, says))
    return kept, Account(unit, frame.height, kept.height, tuple(entries))


def _first_row(frame: pl.DataFrame, met: NDArray[np.bool_]) -> int | None:
    """The lowest of the rows that are `met`, as `ROW` counts them; None if there are none."""
    lowest = frame[ROW].filter(pl.Series(met)).min()
    return lowest if isinstance(lowest, int) else None
