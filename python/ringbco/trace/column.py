"""What is known of one column of a table."""

from __future__ import annotations

import math
from typing import NamedTuple

import polars as pl


class Column(NamedTuple):
    """One column of the schema; `rule` completes "expected ...", `hint` says how to mend a bad value.

    `{empty}` in a hint stands for how a value is left out: in CSV otherwise than elsewhere. endless: whether
    infinity is a value. absent: what the engine reads where the table says nothing, if it depends on no more
    than that.
    """

    dtype: type[pl.DataType]
    required: bool
    rule: str
    hint: str
    low: float = -math.inf
    low_included: bool = True
    high: int | None = None
    endless: bool = False
    absent: float | None = None

    def mend(self, as_text: bool) -> str:
        """The hint for a table that is text or not."""
        return self.hint.format(empty="leave it empty" if as_text else "make it null")
