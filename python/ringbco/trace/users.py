"""The users of a job table by number: of every figure by user, and no run changes them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK: Final = 1 << 17
"""Rows at a time."""


class Users:
    """Who submitted each job, worked out when somebody first asks: runs of one table share it."""

    def __init__(self, names: pl.Series) -> None:
        self._names = names

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """Each job's user: the rank of the name among the distinct ones, -1 without a name."""
        return ranks(self._names)


def ranks(names: pl.Series, block: int = _BLOCK) -> NDArray[np.int32]:
    """Each name's rank among the distinct ones, -1 for null; a block of rows at a time to save memory."""
    found = np.full(names.len(), -1, np.int32)
    parts = [names.slice(first, block).drop_nulls().unique() for first in range(0, names.len(), block)]
    distinct = pl.concat(parts).unique().sort() if parts else names
    # A cast costs the distinct names, too.
    block = max(block, distinct.len())
    for first in range(0, names.len() if distinct.len() else 0, block):
        ranked = names.slice(first, block).cast(pl.Enum(distinct)).to_physical().cast(pl.Int32)
        found[first : first + block] = ranked.fill_null(-1).to_numpy()
    return found
