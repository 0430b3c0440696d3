"""What verbs of a custom policy are given, as the engine takes it: rows, places, numbers of GPUs."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def rows_of(rows: ArrayLike, jobs: int) -> NDArray[np.uint32]:
    """Rows of a job table of so many jobs. Raises ValueError saying what is wrong."""
    numbers = np.atleast_1d(np.asarray(rows))
    if numbers.dtype == np.uint32 and numbers.ndim == 1:
        return np.ascontiguousarray(numbers)
    if numbers.size == 0:
        return np.zeros(0, np.uint32)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(f"rows are integers in one dimension, not {numbers.dtype} in {numbers.ndim}")
    wrong = (numbers < 0) | (numbers >= jobs)
    if wrong.any():
        raise ValueError(f"there is no row {int(numbers[wrong][0])}: the job table has {jobs} rows")
    return numbers.astype(np.uint32)


def pairs_of(parts: Iterable[tuple[int, int | Iterable[int]]]) -> list[tuple[int, int]]:
    """(server, GPUs) pairs. Raises ValueError saying what is wrong."""
    try:
        pairs = [(int(server), int(count)) for server, count in parts]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError("GPUs are given as (server, GPUs) pairs") from None
    if any(not 0 <= number < 2**32 for pair in pairs for number in pair):
        raise ValueError("servers and GPUs are numbers >= 0")
    return pairs


def count_of(gpus: int) -> int:
    """A number of GPUs. Raises ValueError saying what is wrong."""
    try:
        count = operator.index(gpus)
    except TypeError:
        count = 0
    if not 0 < count < 2**32:
        raise ValueError(f"gpus is a number of GPUs >= 1, not {gpus!r}")
    return count
