"""JSON Lines: an object a line, read as the columns of text that a CSV file of the same jobs would have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import polars as pl

from ringbco.errors import InputError
from ringbco.sources.account import ROW, Locate, Rule, drop
from ringbco.sources.opening import Opened
from ringbco.sources.tables import EXTRA

NO_OBJECT: Final[Rule] = drop("not a JSON object", pl.col(EXTRA).is_not_null(), "(the row)", "a JSON object")
"""Lines that hold anything else are dropped."""


def keys(head: str) -> tuple[str, ...] | None:
    """The keys of the object in the first line of `head` that is not blank; None where it holds none."""
    first = next((line for line in head.split("\n") if line.strip()), "")
    found = _object(first)
    return None if found is None else tuple(found)


class JsonLines:
    """A file of JSON Lines as a table of text: each key a column, of objects inside an object `outer.inner`.

    Numbers stay as they are written; a list is its JSON. Keys that a line lacks are null.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened

    @cached_property
    def _lines(self) -> list[tuple[int, str]]:
        """The lines with content, and their numbers."""
        with open(self.opened.path, "rb") as file:
            numbered = [(number, raw) for number, raw in enumerate(file, start=1) if raw.strip()]
        try:
            return [(number, raw.decode("utf-8-sig").strip()) for number, raw in numbered]
        except UnicodeDecodeError as error:
            shown = error.object.decode("utf-8", errors="replace").rstrip("\r\n")
            line = next(number for number, raw in numbered if raw == error.object)
            raise InputError(
                "UTF-8 text", file=self.opened.shown, line=line, value=shown, hint="save the file as UTF-8"
            ) from None

    @cached_property
    def _frame(self) -> pl.DataFrame:
        objects = [_object(text) for _, text in self._lines]
        names = dict.fromkeys(name for found in objects if found is not None for name in found)
        for taken in (ROW, EXTRA):
            names.pop(taken, None)
        columns = {name: [None if o is None else o.get(name) for o in objects] for name in names}
        columns[EXTRA] = [
            None if o is not None else text for o, (_, text) in zip(objects, self._lines, strict=True)
        ]
        schema = dict.fromkeys(columns, pl.String)
        return pl.DataFrame(columns, schema=schema).with_row_index(ROW)

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys, in the order in which they first occur."""
        return tuple(name for name in self._frame.columns if name not in (ROW, EXTRA))

    def read(self, query: Sequence[pl.Expr]) -> pl.DataFrame:
        """`ROW` and the expressions of `query`, for every line that is not blank."""
        return self._frame.select(ROW, *query)

    def locate(self) -> Locate:
        """Where a row stands and what it says."""

        def find(row: int, column: str) -> tuple[int | None, int | None, object]:
            line, text = self._lines[row]
            return None, line, self._frame[column][row] if column in self.columns else text

        return find


def _object(text: str) -> dict[str, str | None] | None:
    """The values of a JSON object as text, null as None; None for anything else."""
    try:
        # Digits are kept as written: an id or a time of many digits is no float.
        found = json.loads(text, parse_int=str, parse_float=str)
        plain = json.loads(text) if "[" in text else found
    except (ValueError, RecursionError):
        return None
    return dict(_flat(found, plain, "")) if isinstance(found, dict) else None


def _flat(found: Mapping[str, Any], plain: Mapping[str, Any], outer: str) -> Iterator[tuple[str, str | None]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _flat(value, plain[name], f"{outer}{name}.")
        elif value is None or isinstance(value, str):
            yield outer + name, None if value is None else value.strip()
        else:
            yield outer + name, json.dumps(plain[name])
