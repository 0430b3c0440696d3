"""In which order the player lists who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome


def ranks(outcome: Outcome, stays: pl.DataFrame) -> tuple[NDArray[np.uint32], str]:
    """The place of every stay's job among all that may wait, and by what it is, in words."""
    order = np.argsort(stays["since"].to_numpy(), kind="stable")
    rank = np.empty(order.size, np.uint32)
    rank[order] = np.arange(order.size, dtype=np.uint32)
    return rank, "by the time since when they wait"
