"""Who goes first among jobs of one submission time: `rows`, `reverse` or `shuffle:SEED`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from ringbco.errors import UsageError
from ringbco.trace.splitmix import GOLDEN, mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHUFFLE: Final = re.compile(r"shuffle:(\d{1,20})")
_MASK: Final = 2**64 - 1


def check(ties: str) -> None:
    """UsageError unless `ties` is one of the three forms, the seed from 0 to 2^64 - 1."""
    shuffle = _SHUFFLE.fullmatch(ties)
    if ties not in ("rows", "reverse") and not (shuffle and int(shuffle[1]) <= _MASK):
        raise UsageError(f"option ties: {ties!r}: expected rows, reverse or shuffle:SEED (0 to 2^64 - 1)")


def key(row: NDArray[np.int64], ties: str) -> NDArray[np.uint64]:
    """What the rows of one submission time are sorted by, least first; equal keys keep the rows' order.

    `shuffle`: the first output of SplitMix64 started from the seed xor row x 0x9E3779B97F4A7C15, rows from 0.
    """
    rows = row.astype(np.uint64)
    if ties == "rows":
        return rows
    if ties == "reverse":
        return np.uint64(_MASK) - rows
    seed, golden = np.uint64(int(ties.removeprefix("shuffle:"))), np.uint64(GOLDEN)
    return mix((seed ^ (rows * golden)) + golden)
