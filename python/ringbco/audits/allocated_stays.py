"""The stays of the allocations: intervals in which a job holds the same servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ringbco.audits.facts import Bools, Floats, Ints


@dataclass(frozen=True)
class AllocatedStays:
    """Intervals in which a job holds the same servers, sorted by job, then time.

    Pairs list the servers of each stay: pair i says that stay `pair_stay[i]` (sorted) holds
    `pair_server[i]`.
    """

    job: Ints
    start: Floats
    end: Floats
    pair_stay: Ints
    pair_server: Ints


def allocated_stays(job: Ints, server: Ints, start: Floats, end: Floats) -> tuple[AllocatedStays, Ints]:
    """The stays that the given rows add up to, and the jobs whose rows overlap other than as one gang.

    Rows of a job with the same start and end are one stay. Where the rows of a job overlap in another
    way they are cut into pieces in which the servers stay the same, so that what follows is right anyway.
    """
    ragged = _ragged(job, server, start, end)
    if ragged.size:
        cut = np.isin(job, ragged)
        pieces = list(_cut(job[cut], server[cut], start[cut], end[cut]))
        extra = np.array(pieces, dtype=np.float64).reshape(-1, 4)
        job = np.concatenate([job[~cut], extra[:, 0].astype(np.int64)])
        server = np.concatenate([server[~cut], extra[:, 1].astype(np.int64)])
        start = np.concatenate([start[~cut], extra[:, 2]])
        end = np.concatenate([end[~cut], extra[:, 3]])
    if not _in_order(job, start, end, server):
        order = np.lexsort((server, end, start, job))
        job, server, start, end = job[order], server[order], start[order], end[order]
    first = _starts(job, start, end)
    numbers = np.cumsum(first) - 1
    return (
        AllocatedStays(
            job=job[first],
            start=start[first],
            end=end[first],
            pair_stay=numbers,
            pair_server=server,
        ),
        ragged,
    )


def _starts(*columns: Ints | Floats) -> Bools:
    """Where a run of equal rows begins."""
    first = np.ones(columns[0].size, dtype=bool)
    if first.size:
        first[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return first


def _in_order(*columns: Ints | Floats) -> bool:
    """Whether rows are sorted by some columns, the first of which counts most."""
    late = np.zeros(max(columns[0].size - 1, 0), bool)
    for column in reversed(columns):
        late = (column[1:] < column[:-1]) | ((column[1:] == column[:-1]) & late)
    return not late.any()


def _ragged(job: Ints, server: Ints, start: Floats, end: Floats) -> Ints:
    """Jobs with a server twice at a time, or with overlapping rows that differ in start or end."""
    if not _in_order(job, start, end, server):
        order = np.lexsort((server, end, start, job))
        job, server, start, end = job[order], server[order], start[order], end[order]
    same_job = job[1:] == job[:-1]
    together = same_job & (start[1:] == start[:-1]) & (end[1:] == end[:-1])
    twice = together & (server[1:] == server[:-1])
    overlapping = same_job & ~together & (start[1:] < end[:-1])
    return np.unique(job[1:][twice | overlapping])


def _cut(job: Ints, server: Ints, start: Floats, end: Floats) -> Iterator[tuple[float, float, float, float]]:
    rows: dict[int, list[tuple[int, float, float]]] = {}
    for j, s, a, b in zip(*(column.tolist() for column in (job, server, start, end)), strict=True):
        rows.setdefault(j, []).append((s, a, b))
    for j, held in rows.items():
        times = sorted({t for _, a, b in held for t in (a, b)})
        for t, following in pairwise(times):
            for s in sorted({s for s, a, b in held if a <= t < b}):
                yield j, s, t, following
