"""Whom a job shared links between servers with, or GPUs, while it ran (docs/model.md#contention)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from ringbco.result.why_record import Allocations, Record

MOST: Final = 5
"""Jobs that are named."""


def company(record: Record, rows: Allocations, place: int, row: int) -> dict[str, Any]:
    """Those that hold the same whole GPUs as a stay, as `neighbours` has them; {} for none."""
    start, end = float(record.start[place]), float(record.end[place])
    own = (rows.who == row) & (rows.stay == record.number[place])
    seat = rows.seat[own][:1]
    if not (seat >= 0).any():
        return {}
    those = np.minimum(rows.end, end) > np.maximum(rows.start, start)
    others = rows.those(np.flatnonzero(those & (rows.seat == seat) & (rows.who != row)))
    return _met(record, others, start, end, "gpus")


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
        if (rows.seat[own] >= 0).any():
            return {}
        others, what = rows.those(np.flatnonzero(those & (rows.gpu == gpu[0]))), "gpu"
    return _met(record, others, start, end, what)


def _met(record: Record, others: Allocations, start: float, end: float, what: str) -> dict[str, Any]:
    """Whom a stay met of others, the longest first."""
    found: dict[int, dict[int, float]] = {}
    on: dict[int, set[int]] = {}
    since: dict[int, float] = {}
    columns = (others.who, others.stay, others.server, others.start, others.end)
    for who, stay, server, begins, ends in zip(*(column.tolist() for column in columns), strict=True):
        # A stay counts once, on however many servers.
        found.setdefault(who, {})[stay] = min(end, ends) - max(start, begins)
        on.setdefault(who, set()).add(server)
        since[who] = min(begins, since.get(who, begins))
    if not found:
        return {}
    together = {who: sum(stays.values()) for who, stays in found.items()}
    ranked = sorted(together, key=lambda who: (-together[who], who))
    told = [
        {"job": record.name(who), "seconds": together[who], "servers": sorted(on[who]), "since": since[who]}
        for who in ranked[:MOST]
    ]
    return {"what": what, "jobs": len(found), "with": told, "ran": end - start}


def _spanning(record: Record, rows: Allocations) -> Any:
    """Of rows of who held what: whether their stay spans servers."""
    return record.stays["num_servers"].to_numpy()[record.first[rows.who] + rows.stay] > 1
