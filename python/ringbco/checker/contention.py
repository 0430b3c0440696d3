"""Who shares links with whom: p of equation 6 over time, and the jobs on GPUs of which jobs hold shares.

Job by job and instant by instant: only where jobs span, or are on GPUs with others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ringbco.checker.inputs import Floats, Ints, Stays

Change = tuple[float, list[int], list[int]]
Place = tuple[int, int]
"""(server, GPU), or (-1, seat)."""


class Spanning(NamedTuple):
    """The jobs that span, after each instant at which any of them changes: how many, and the sum of p."""

    time: Floats
    jobs: Ints
    p: Ints


class Parts(NamedTuple):
    """Stays in whose way somebody is, part by part, in order of stay and time.

    stay; from since until until; p; company, how many others are on its GPUs, and other, one of these stays.
    bandwidth, without: what a network of tiers leaves it, bytes/s, and would without uplinks; 0 elsewhere.
    tier: that of the uplink which leaves it the least, or -1.
    """

    stay: Ints
    since: Floats
    until: Floats
    p: Ints
    company: Ints
    other: Ints
    bandwidth: Floats
    without: Floats
    tier: Ints


Part = tuple[int, float, float, int, int, int, float, float, int]


def parts_of(found: list[Part]) -> Parts:
    """As columns."""
    found = sorted(found)
    stay, p, company, other, tier = (np.array([part[i] for part in found], np.int64) for i in (0, 3, 4, 5, 8))
    since, until, bandwidth, without = (
        np.array([part[i] for part in found], np.float64) for i in (1, 2, 6, 7)
    )
    return Parts(stay, since, until, p, company, other, bandwidth, without, tier)


def changes(rows: Ints, start: Floats, end: Floats) -> Iterator[Change]:
    """Each instant at which some stays end or begin: who leaves, who comes. None has no length."""
    starts, ends = rows[np.argsort(start[rows], kind="stable")], rows[np.argsort(end[rows], kind="stable")]
    times = np.unique(np.concatenate([start[starts], end[ends]]))
    left = np.searchsorted(end[ends], times, side="right").tolist()
    came = np.searchsorted(start[starts], times, side="right").tolist()
    leaving, coming = ends.tolist(), starts.tolist()
    i = j = 0
    for time, to_left, to_came in zip(times.tolist(), left, came, strict=True):
        yield time, leaving[j:to_left], coming[i:to_came]
        j, i = to_left, to_came


def contend(stays: Stays) -> tuple[Spanning, list[Part]]:
    """Writes the most of p into the stays. Returns who spans when, and the parts of those that do."""
    stays.most = np.zeros(len(stays), np.int64)
    wide = np.flatnonzero(stays.servers > 1)
    links = _Links(stays, wide)
    time: list[float] = []
    jobs: list[int] = []
    p: list[int] = []
    lasts = stays.end[wide] > stays.start[wide]
    short: dict[float, list[int]] = {}
    for row in wide[~lasts].tolist():
        short.setdefault(float(stays.start[row]), []).append(row)
    instants = sorted(short, reverse=True)
    for now, leave, come in changes(wide[lasts], stays.start, stays.end):
        while instants and instants[-1] < now:
            links.meet(short[instants.pop()])
        links.step(now, leave, come)
        time.append(now)
        jobs.append(len(links.now))
        p.append(links.total)
        if instants and instants[-1] == now:
            links.meet(short[instants.pop()])
    for now in instants:
        links.meet(short[now])
    if links.most:
        stays.most[list(links.most)] = list(links.most.values())
    return Spanning(np.array(time), np.array(jobs, np.int64), np.array(p, np.int64)), links.parts


class _Links:
    """Who spans which servers. now: of each stay, since when it has which p. total: the sum of p."""

    def __init__(self, stays: Stays, wide: Ints) -> None:
        first, last = stays.first[wide].tolist(), stays.first[wide + 1].tolist()
        self.servers = {
            row: stays.server[low:high].tolist()
            for row, low, high in zip(wide.tolist(), first, last, strict=True)
        }
        self.on: dict[int, set[int]] = {server: set() for own in self.servers.values() for server in own}
        self.now: dict[int, tuple[float, int]] = {}
        self.most: dict[int, int] = {}
        self.parts: list[Part] = []
        self.total = 0

    def step(self, time: float, leave: list[int], come: list[int]) -> None:
        """Some leave and some come."""
        on, now, before = self.on, self.now, dict[int, int]()
        for row in (*leave, *come):
            for server in self.servers[row]:
                before.setdefault(server, len(on[server]))
        for row in leave:
            for server in self.servers[row]:
                on[server].remove(row)
            self._close(row, time)
            del now[row]
        for row in come:
            for server in self.servers[row]:
                on[server].add(row)
            now[row] = time, 0
        affected = set(come)
        for server, count in before.items():
            affected |= self._moved(server, count)
        for row in affected:
            p = max([len(on[server]) for server in self.servers[row]])
            if p != now[row][1]:
                self._close(row, time)
                now[row] = time, p
                self.total += p

    def meet(self, short: list[int]) -> None:
        """Some of no length meet those that are there, and each other: as if all were there at once."""
        for row in short:
            for server in self.servers[row]:
                self.on[server].add(row)
        for server in {server for row in short for server in self.servers[row]}:
            for row in self.on[server]:
                self.most[row] = max(self.most.get(row, 0), len(self.on[server]))
        for row in short:
            for server in self.servers[row]:
                self.on[server].remove(row)

    def _moved(self, server: int, before: int) -> set[int]:
        """Those whose p may be another, now that other jobs span a server."""
        on, now, count = self.on[server], self.now, len(self.on[server])
        if count > before:
            return {row for row in on if now[row][1] < count}
        return {row for row in on if now[row][1] == before} if count < before else set()

    def _close(self, row: int, time: float) -> None:
        """Ends the part that a stay is in."""
        since, p = self.now[row]
        self.total -= p
        if p and time > since:
            self.parts.append((row, since, time, p, 0, -1, 0.0, 0.0, -1))
            if p > self.most.get(row, 0):
                self.most[row] = p


def on_shares(stays: Stays, share: Ints) -> dict[int, Place]:
    """The GPU of each stay on a share."""
    assert stays.spot is not None
    assert stays.on is not None
    assert stays.gpu is not None
    own = np.flatnonzero((share[stays.job] > 0) & (stays.end > stays.start))
    at = stays.spot[own]
    return dict(
        zip(own.tolist(), zip(stays.on[at].tolist(), stays.gpu[at].tolist(), strict=True), strict=True)
    )


def crowd(stays: Stays, place: Mapping[int, Place]) -> list[Part]:
    """The parts of stays where others may be: which are."""
    own = np.array(list(place), np.int64)
    there: dict[Place, list[int]] = {}
    since: dict[Place, float] = {}
    open_parts: dict[int, tuple[float, tuple[int, ...]]] = {}
    found: list[Part] = []

    def close(row: int, time: float) -> None:
        begun, others = open_parts.pop(row)
        found.append((row, begun, time, 0, len(others), others[0] if others else -1, 0.0, 0.0, -1))

    for time, leave, come in changes(own, stays.start, stays.end):
        for spot in {place[row] for row in (*leave, *come)}:
            rows = there.setdefault(spot, [])
            if rows and time > since[spot]:
                for row in rows:
                    others = tuple(other for other in rows if other != row)
                    if row in open_parts and open_parts[row][1] != others:
                        close(row, since[spot])
                    open_parts.setdefault(row, (since[spot], others))
            since[spot] = time
        for row in leave:
            there[place[row]].remove(row)
            if row in open_parts:
                close(row, time)
        for row in come:
            there[place[row]].append(row)
    return found
