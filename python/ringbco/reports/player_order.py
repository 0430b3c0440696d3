"""In which order the player lists who waits: that of the queue, where the record tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ringbco.result.why_order import Order
from ringbco.result.why_record import Record, job_table

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome


def ranks(outcome: Outcome, stays: pl.DataFrame) -> tuple[NDArray[np.uint32], str]:
    """The place of every stay's job while it waits, and in words by what it is.

    stays: as player_data makes them, with `of`: which of the outcome's stays each is; null of a replica,
    which never waits.
    """
    since, own = stays["since"].to_numpy(), stays["of"].is_not_null().to_numpy()
    place, told = since, "those first that have waited longest"
    if own.any():
        record = Record(outcome, job_table(outcome, None))
        order = Order(record, 0)
        if order.why_not is None and not order.moves:
            place, told = np.zeros(since.size), f"in {order.told}"
            place[own] = order.of_waits()[stays["of"].drop_nulls().to_numpy()]
    rank = np.empty(since.size, np.uint32)
    rank[np.argsort(place, kind="stable")] = np.arange(since.size, dtype=np.uint32)
    return rank, told
