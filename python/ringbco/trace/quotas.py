"""Quotas: how many GPUs the jobs of each owner may hold together (docs/priorities.md#quotas).

A file of quotas is a book; an option may name several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.trace.column import Column
from ringbco.trace.owners import OfOwners, names_of
from ringbco.trace.schema import MAX_COUNT
from ringbco.trace.side_table import Form, ReadContext

_Copy = TypeVar("_Copy")

COLUMNS: Final[dict[str, Column]] = {
    "gpus": Column(
        pl.UInt64,
        True,
        "an integer >= 0",
        "give the GPUs that the owner's jobs may hold together",
        0.0,
        True,
        MAX_COUNT,
    ),
    "borrow": Column(pl.Boolean, True, "true or false", "say whether its jobs may start beyond the quota"),
}
"""The schema, beside the column of owners."""
MOST_BOOKS: Final = 9
BOOKS: Final = ("quota", *(f"quota_{number}" for number in range(2, MOST_BOOKS + 1)))
"""What an outcome calls the tables of the books."""


@dataclass(frozen=True, eq=False)
class Quotas(OfOwners):
    """Checked quotas of the owners of a job table: those of a first book, and the books beside it."""

    others: tuple[Quotas, ...] = ()

    form: ClassVar[Form] = Form("quotas", "quota", COLUMNS, ("gpus", "borrow"), entry="quotas")

    @classmethod
    def takes(cls, value: object) -> bool:
        """Whether `read` takes it: what a book is read from, or several of these."""
        if isinstance(value, list | tuple):
            return bool(value) and all(super(Quotas, cls).takes(book) for book in value)
        return super().takes(value)

    @classmethod
    def read(cls, given: object, known: ReadContext | None = None, source: str | None = None) -> Self:
        """The quotas that `given` stands for: of one book as `SideTable.read` has them, or a list of books.

        Raises UsageError for more than `MOST_BOOKS`.
        """
        if isinstance(given, cls) and given.others:
            given = given.books
        if not isinstance(given, list | tuple):
            return super().read(given, known, source)
        if len(given) > MOST_BOOKS:
            raise UsageError(f"option quota: {len(given)} files: expected at most {MOST_BOOKS}")
        first, *others = (cls.read(book, known, source) for book in given)
        return replace(first, others=tuple(others))

    @property
    def books(self) -> tuple[Quotas, ...]:
        """All of them, each by itself."""
        return (replace(self, others=()), *self.others)

    @property
    def column(self) -> str:
        """The column of the job table that names the owners of the first book."""
        return self.columns[0]

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The copies in an outcome."""
        return {name: book.frame for name, book in zip(BOOKS, self.books, strict=False)}

    @property
    def identity(self) -> dict[str, object] | list[dict[str, object]]:  # type: ignore[override]
        """What run.toml says of the tables: of one, or a list."""
        told = [super(Quotas, book).identity for book in self.books]
        return told if self.others else told[0]

    @classmethod
    def copies(cls, find: Callable[[str], _Copy | None]) -> _Copy | list[_Copy] | None:
        """What `read` makes the table of again."""
        found = [copy for name in BOOKS if (copy := find(name)) is not None]
        return found if found[1:] else found[0] if found else None

    def engine_columns(self, jobs: pl.DataFrame) -> list[tuple[NDArray[np.uint32], list[int], list[bool]]]:
        """By book each job's owner, 2^32 - 1 for a job without a quota; GPUs; whether to borrow."""
        return [_columns(book.frame, book.column, jobs) for book in self.books]


def _columns(
    frame: pl.DataFrame, column: str, jobs: pl.DataFrame
) -> tuple[NDArray[np.uint32], list[int], list[bool]]:
    owners = frame[column]
    places = list(range(owners.len()))
    owner = names_of(jobs, column).replace_strict(
        list(owners), places, default=2**32 - 1, return_dtype=pl.UInt32
    )
    return owner.to_numpy(), frame["gpus"].to_list(), frame["borrow"].to_list()
