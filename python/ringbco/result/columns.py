"""A table column by column, made into a frame when somebody asks for that: few runs of a sweep are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import polars as pl
from numpy.typing import NDArray

Column = NDArray[Any] | pl.Series


class Columns:
    """Columns by name, in order.

    kept: the rows that there are in the end. framed: makes a frame of columns, of all rows.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        kept: NDArray[Any],
        framed: Callable[[Mapping[str, Column]], pl.DataFrame],
    ) -> None:
        self._columns, self._framed = columns, framed
        self._kept = None if kept.all() else kept
        self.height = int(kept.sum())

    @property
    def columns(self) -> list[str]:
        """The names."""
        return list(self._columns)

    def array(self, name: str) -> NDArray[Any]:
        """A column without nulls."""
        values = self._columns[name]
        if isinstance(values, pl.Series):
            return self.get_column(name).to_numpy()
        return values if self._kept is None else values[self._kept]

    def get_column(self, name: str) -> pl.Series:
        """A column as a frame has it."""
        values = self._columns[name]
        if not isinstance(values, pl.Series) or "frame" in self.__dict__:
            return self.frame.get_column(name)
        return values if self._kept is None else values.filter(pl.Series(self._kept))

    __getitem__ = get_column

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The table."""
        table = self._framed(self._columns)
        return table if self._kept is None else table.filter(pl.Series(self._kept))
