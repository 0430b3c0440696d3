"""How many jobs share links in a part of a run (equation 6): of a whole run the engine tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def mean_contention(allocated: Mapping[str, NDArray[Any]], since: float, until: float) -> float:
    """p_j averaged over all the time that jobs spanned servers from `since` to `until`, s; 0 if none did.

    allocated: the engine's table of allocations, in which the rows of a stay follow each other.
    """
    job, stay, server, start, end = (allocated[name] for name in ("job", "stay", "server", "start", "end"))
    if not stay.size:  # every job has one
        stay = np.zeros_like(job)
    new = np.flatnonzero(np.append(True, (job[1:] != job[:-1]) | (stay[1:] != stay[:-1])))
    rows = np.diff(np.append(new, job.size))
    # Where jobs have shares a row is of one GPU. Who begins and ends at once meets nobody for any time.
    wide = (rows > 1) & (server[new] != server[new + rows - 1]) & (start[new] < end[new])
    wide &= (start[new] < until) & (end[new] > since)
    stays = {
        at: set(server[at : at + count].tolist())
        for at, count in zip(new[wide].tolist(), rows[wide].tolist(), strict=True)
    }
    events = [(float(start[at]), True, at) for at in stays] + [(float(end[at]), False, at) for at in stays]
    events.sort(key=lambda event: event[0])
    on: dict[int, set[int]] = {}
    p: dict[int, int] = {}
    total, met, spanned, before = 0, 0.0, 0.0, since
    for time, comes, at in events:
        length = max(0.0, min(time, until) - max(before, since))
        met, spanned, before = met + total * length, spanned + len(p) * length, time
        for number in stays[at]:
            there = on.setdefault(number, set())
            (there.add if comes else there.remove)(at)
        if comes:
            p[at] = 0
        else:
            total -= p.pop(at)
        for other in {other for number in stays[at] for other in on[number]}:
            most = max(len(on[number]) for number in stays[other])
            total, p[other] = total + most - p[other], most
    return met / spanned if spanned > 0 else 0.0
