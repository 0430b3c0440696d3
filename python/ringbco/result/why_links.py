"""Whom a job shared links between servers with, or a GPU, while it ran (docs/model.md#contention)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from ringbco.result.why_record import Allocations, Record

MOST: Final = 5
"""Jobs that are named."""


def neighbours(record: Record, rows: Allocations, place: int, row: int, servers: list[int]) -> dict[str, Any]:
    """Those whose rings span a server of a stay while it runs, or that are on the same GPU; {} for none.

    place: of the stay among all. Each with the seconds for which they were together and on which servers.
    """
    start, end = float(record.start[place]), float(record.end[place])
    those = np.minimum(rows.end, end) > np.maximum(rows.start, start)
    those &= (rows.who >= 0) & (rows.who != row)
    those &= np.isin(rows.server, servers)
    spans = int(record.stays["num_servers"][place]) > 1
    if spans:
        others = rows.those(np.flatnonzero(those))
        wide = _spanning(record, others)
        others, what = others.those(np.flatnonzero(wide)), "links"
    else:
        own = (rows.who == row) & (rows.stay == record.number[place])
        gpu = rows.gpu[own]
        if gpu.size != 1 or gpu[0] < 0:
            return {}
        others, what = rows.those(np.flatnonzero(those & (rows.gpu == gpu[0]))), "gpu"
    found: dict[int, dict[int, float]] = {}
    on: dict[int, set[int]] = {}
    columns = (others.who, others.stay, others.server, others.start, others.end)
    for who, stay, server, begins, ends in zip(*(column.tolist() for column in columns), strict=True):
        # A stay counts once, on however many servers.
        found.setdefault(who, {})[stay] = min(end, ends) - max(start, begins)
        on.setdefault(who, set()).add(server)
    if not found:
        return {}
    together = {who: sum(stays.values()) for who, stays in found.items()}
    ranked = sorted(together, key=lambda who: (-together[who], who))
    told = [
        {"job": record.name(who), "seconds": together[who], "servers": sorted(on[who])}
        for who in ranked[:MOST]
    ]
    return {"what": what, "jobs": len(found), "with": told, "ran": end - start}


def _spanning(record: Record, rows: Allocations) -> Any:
    """Of rows of who held what: whether their stay spans servers."""
    return record.stays["num_servers"].to_numpy()[record.first[rows.who] + rows.stay] > 1
