"""The contention that the allocations imply: who spanned which servers when, and p_j (eq. 6) over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ringbco.audits.facts import Bools, Floats, Ints

BLOCK = 4_000_000
"""Changes of contention looked at together: bounds the memory."""


@dataclass(frozen=True)
class Episodes:
    """Stretches of time in which a job holds the same servers, sorted by job, then time.

    gpus: how many it holds there. Pairs list the servers of each episode: pair i says that episode
    `pair_episode[i]` (sorted) holds `pair_server[i]`.
    """

    job: Ints
    start: Floats
    end: Floats
    servers: Ints
    gpus: Ints
    pair_episode: Ints
    pair_server: Ints


@dataclass(frozen=True)
class Segments:
    """Stretches of time in which an episode's p is constant, sorted by episode and time.

    slowed: how many times as long the job takes for others on its GPU; None where nobody slows it down.
    """

    episode: Ints
    start: Floats
    end: Floats
    p: Ints
    slowed: Floats | None = None

    @property
    def length(self) -> Floats:
        """Seconds."""
        return self.end - self.start


def episodes(job: Ints, server: Ints, gpus: Ints, *, start: Floats, end: Floats) -> tuple[Episodes, Ints]:
    """The episodes of the given stretches, and the jobs whose stretches overlap other than as one gang.

    Stretches of a job with the same start and end are one episode. Where a job's stretches overlap in another
    way they are cut into pieces in which the servers stay the same, so that what follows is right anyway.
    """
    ragged = _ragged(job, server, start, end)
    if ragged.size:
        cut = np.isin(job, ragged)
        pieces = list(_cut(job[cut], server[cut], gpus[cut], start[cut], end[cut]))
        extra = np.array(pieces, dtype=np.float64).reshape(-1, 5)
        job = np.concatenate([job[~cut], extra[:, 0].astype(np.int64)])
        server = np.concatenate([server[~cut], extra[:, 1].astype(np.int64)])
        start = np.concatenate([start[~cut], extra[:, 2]])
        end = np.concatenate([end[~cut], extra[:, 3]])
        gpus = np.concatenate([gpus[~cut], extra[:, 4].astype(np.int64)])
    order = np.lexsort((server, end, start, job))
    job, server, start, end = job[order], server[order], start[order], end[order]
    gpus = gpus[order]
    first = _starts(job, start, end)
    numbers = np.cumsum(first) - 1
    return (
        Episodes(
            job=job[first],
            start=start[first],
            end=end[first],
            servers=np.bincount(numbers, minlength=int(first.sum())),
            gpus=np.bincount(numbers, gpus, int(first.sum())).astype(np.int64),
            pair_episode=numbers,
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


def _ragged(job: Ints, server: Ints, start: Floats, end: Floats) -> Ints:
    """Jobs with a server twice at a time, or with overlapping stretches that differ in start or end."""
    order = np.lexsort((server, end, start, job))
    job, server, start, end = job[order], server[order], start[order], end[order]
    same_job = job[1:] == job[:-1]
    together = same_job & (start[1:] == start[:-1]) & (end[1:] == end[:-1])
    twice = together & (server[1:] == server[:-1])
    overlapping = same_job & ~together & (start[1:] < end[:-1])
    return np.unique(job[1:][twice | overlapping])


def _cut(
    job: Ints, server: Ints, gpus: Ints, start: Floats, end: Floats
) -> Iterator[tuple[float, float, float, float, float]]:
    rows: dict[int, list[tuple[int, int, float, float]]] = {}
    columns = (column.tolist() for column in (job, server, gpus, start, end))
    for j, s, g, a, b in zip(*columns, strict=True):
        rows.setdefault(j, []).append((s, g, a, b))
    for j, stretches in rows.items():
        times = sorted({t for _, _, a, b in stretches for t in (a, b)})
        for t, following in pairwise(times):
            there = {s: g for s, g, a, b in stretches if a <= t < b}
            for s, g in sorted(there.items()):
                yield j, s, t, following, g


def at_best(eps: Episodes) -> Segments:
    """Every episode in whole, as if its job shared no server."""
    return Segments(np.arange(eps.job.size), eps.start, eps.end, (eps.servers > 1).astype(np.int64))


def segments(eps: Episodes) -> Segments:
    """p of every episode over its time: 0 on one server, else the spanning jobs on its busiest server.

    One of no length shares its servers with nobody for any time: its p is 1.
    """
    lasts = eps.end > eps.start
    spanning = (eps.servers > 1) & lasts
    alone = np.flatnonzero(~spanning)
    p = np.where((eps.servers > 1) & ~lasts, 1, 0)[alone]
    parts = [Segments(alone, eps.start[alone], eps.end[alone], p)]
    if spanning.any():
        parts += _spanning(eps, spanning)
    episode = np.concatenate([part.episode for part in parts])
    start = np.concatenate([part.start for part in parts])
    order = np.lexsort((start, episode))
    return Segments(
        episode[order],
        start[order],
        np.concatenate([part.end for part in parts])[order],
        np.concatenate([part.p for part in parts])[order],
    )


def _spanning(eps: Episodes, spanning: Bools) -> Iterator[Segments]:
    kept = spanning[eps.pair_episode]
    episode = eps.pair_episode[kept]
    _, server = np.unique(eps.pair_server[kept], return_inverse=True)
    times, ranks = np.unique(np.concatenate([eps.start[episode], eps.end[episode]]), return_inverse=True)
    begin, stop = ranks[: episode.size], ranks[episode.size :]

    # Every change of a server's number of spanning jobs has a key, sorted by server, then time. The changes
    # of one server add up to nothing, so one running sum over all keys gives each server's number after each.
    # Where one job leaves as another comes nothing changes: such keys go.
    scale = times.size
    keys = np.concatenate([server * scale + begin, server * scale + stop])
    order = np.argsort(keys)
    total = np.cumsum(np.where(order < episode.size, 1, -1))
    keys = keys[order]
    last = np.append(keys[1:] != keys[:-1], True)
    keys, total = keys[last], total[last]
    changed = total != np.append(0, total[:-1])
    keys, total = keys[changed], total[changed]
    # The changes while the pair lasts, its beginning not counted.
    low = np.searchsorted(keys, server * scale + begin, side="right")
    high = np.maximum(low, np.searchsorted(keys, server * scale + stop, side="left"))

    # Pairs are sorted by episode; blocks hold whole episodes.
    first = np.flatnonzero(_starts(episode))
    block = np.cumsum(np.add.reduceat(high - low + 1, first)) // BLOCK
    bounds = [*first[_starts(block)].tolist(), episode.size]
    for a, b in pairwise(bounds):
        pairs = _Pairs(episode[a:b], server[a:b], begin[a:b], low[a:b], high[a:b])
        yield _block(pairs, keys, total, times, eps)


@dataclass(frozen=True)
class _Pairs:
    """Spanning episodes and their servers; the rank of the time at which each begins, and the range of the
    server's changes after that.
    """

    episode: Ints
    server: Ints
    begin: Ints
    low: Ints
    high: Ints


def _block(pairs: _Pairs, keys: Ints, total: Ints, times: Floats, eps: Episodes) -> Segments:
    """The segments of the episodes of some pairs."""
    scale = times.size
    length = pairs.high - pairs.low
    head = np.flatnonzero(_starts(pairs.episode))
    width = np.diff(np.append(head, pairs.episode.size))
    # The beginning of every episode and every change on any of its servers, each moment once, in order.
    ranks = keys[_ranges(pairs.low, length)] % scale
    points = np.concatenate(
        [pairs.episode[head] * scale + pairs.begin[head], np.repeat(pairs.episode, length) * scale + ranks]
    )
    points.sort()
    points = points[_starts(points)]
    at, rank = points // scale, points % scale
    # At each point, the last known number of every server of the episode; p is the largest.
    mine = np.searchsorted(pairs.episode[head], at)
    width = width[mine]
    wanted = pairs.server[_ranges(head[mine], width)] * scale + np.repeat(rank, width)
    numbers = total[np.searchsorted(keys, wanted, side="right") - 1]
    p = np.maximum.reduceat(numbers, np.cumsum(width) - width)

    kept = _starts(at, p)
    at, start, p = at[kept], times[rank[kept]], p[kept]
    last = np.append(at[1:] != at[:-1], True)
    end = np.where(last, eps.end[at], np.append(start[1:], 0.0))
    return Segments(at, start, end, p)


def _ranges(start: Ints, length: Ints) -> Ints:
    """start[0], start[0] + 1, ... (length[0] of them), then the same for the next."""
    total = int(length.sum())
    offset = np.repeat(np.cumsum(length) - length, length)
    return np.repeat(start, length) + np.arange(total, dtype=np.int64) - offset
