"""Sums and searches in columns, and how exact they are.

A sum of n numbers of one sign, one after the other, is off by (n - 1) x 2^-53 at most, relative: less than
1e-9 for the nine million stays that no job has. numpy adds up a whole column in pairs, which is off by
(20 + log2 n) x 2^-53 at most. So neither comes near the 1e-9 to which an audit compares.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.checker.inputs import Bools, Floats, Ints


def by_group(values: NDArray[Any], head: Ints) -> NDArray[Any]:
    """The sum of each group of rows that begins at an entry of `head`."""
    if head.size == values.size:  # one row each
        return values
    return np.add.reduceat(values, head)


def most_of(values: NDArray[Any], head: Ints) -> NDArray[Any]:
    """The largest of each group."""
    return values if head.size == values.size else np.maximum.reduceat(values, head)


def total(values: Floats) -> float:
    """The sum of a column."""
    return float(np.sum(values)) if values.size else 0.0


def percentile(ordered: Floats, share: float) -> float:
    """Linear interpolation between the order statistics around (n - 1) x share."""
    at = (ordered.size - 1) * share
    low = math.floor(at)
    high = min(low + 1, ordered.size - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (at - low))


def ranges(first: Ints, count: Ints) -> Ints:
    """first[0], first[0] + 1, ..., count[0] numbers; then those from first[1] on, and so forth."""
    ends = np.cumsum(count)
    found: Ints = np.arange(int(ends[-1]) if ends.size else 0) + np.repeat(first - (ends - count), count)
    return found


def in_order(values: Ints) -> Ints:
    """The rows in order of whole numbers; those of one number as they are."""
    # Small ones sort in a pass or two.
    small = values.size and values.min() >= -(2**15) and values.max() < 2**15
    return np.argsort(values.astype(np.int16) if small else values, kind="stable")


def by_place(place: Ints, time: Floats) -> tuple[Ints, Ints]:
    """The rows in order of place, then of time, else as they are; and the rank in time of each."""
    order = np.argsort(time, kind="stable")
    rank = in_order(place[order])
    return order[rank], rank


def overlap(since: Floats, until: Floats, first: float, last: float) -> Floats:
    """Seconds of intervals between two instants."""
    found: Floats = np.maximum(0.0, np.minimum(until, last) - np.maximum(since, first))
    return found


def pairs(server: NDArray[Any], time: NDArray[Any]) -> NDArray[np.complex128]:
    """(server, time) as numbers that sort so."""
    found = np.empty(np.broadcast(server, time).shape, np.complex128)
    found.real, found.imag = server, time
    return found


def optional(values: NDArray[Any], there: Bools) -> pl.Series:
    """A column with nulls."""
    return pl.Series(values).set(pl.Series(~there), None) if values.size else pl.Series(values)


def codes(column: pl.Series) -> tuple[Ints, list[Any]]:
    """A number for each distinct value, in the order of appearance; -1 for nulls. And the values."""
    names = column.drop_nulls().unique(maintain_order=True)
    if not names.len():
        return np.full(column.len(), -1, np.int64), []
    found = column.replace_strict(names, pl.Series(range(names.len())), default=None, return_dtype=pl.Int64)
    return found.fill_null(-1).to_numpy().astype(np.int64), names.to_list()
