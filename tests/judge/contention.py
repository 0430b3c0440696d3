"""Who shares links with whom: p of equation 6 over time, and the crowds on GPUs of which jobs hold shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from judge.clock import changes
from judge.given import Stay


class Spanning(NamedTuple):
    """The jobs that span, after each instant at which any of them changes: how many, and the sum of p."""

    time: list[float]
    jobs: list[int]
    p: list[int]


def contend(stays: list[Stay]) -> Spanning:
    """Writes p into the stays that span: their parts and the most of it."""
    wide = [stay for stay in stays if len(stay.held) > 1]
    links, found = _Links(wide), Spanning([], [], [])
    short: dict[float, list[Stay]] = {}
    for stay in wide:
        if stay.end <= stay.start:
            short.setdefault(stay.start, []).append(stay)
    instants = sorted(short, reverse=True)
    for time, leave, come in changes(wide):
        while instants and instants[-1] < time:
            links.meet(short[instants.pop()])
        links.step(time, leave, come)
        found.time.append(time)
        found.jobs.append(len(links.now))
        found.p.append(links.total)
        if instants and instants[-1] == time:
            links.meet(short[instants.pop()])
    for time in instants:
        links.meet(short[time])
    return found


class _Links:
    """Who spans which servers. now: of each stay, since when it has which p. total: the sum of p."""

    def __init__(self, wide: list[Stay]) -> None:
        self.on: dict[int, dict[int, Stay]] = {server: {} for stay in wide for server, _ in stay.held}
        self.now: dict[int, tuple[float, int]] = {}
        self.total = 0

    def step(self, time: float, leave: list[Stay], come: list[Stay]) -> None:
        """Some leave and some come."""
        before: dict[int, int] = {}
        for stay in (*leave, *come):
            for server, _ in stay.held:
                before.setdefault(server, len(self.on[server]))
        for stay in leave:
            for server, _ in stay.held:
                del self.on[server][id(stay)]
            self._close(stay, time)
            del self.now[id(stay)]
        for stay in come:
            for server, _ in stay.held:
                self.on[server][id(stay)] = stay
            self.now[id(stay)] = time, 0
        affected = {id(stay): stay for stay in come}
        for server, count in before.items():
            affected |= self._moved(server, count)
        for key, stay in affected.items():
            p = max(len(self.on[server]) for server, _ in stay.held)
            if p != self.now[key][1]:
                self._close(stay, time)
                self.now[key] = time, p
                self.total += p

    def meet(self, short: list[Stay]) -> None:
        """Some of no length meet those that are there, and each other: as if all were there at once."""
        for stay in short:
            for server, _ in stay.held:
                self.on[server][id(stay)] = stay
        for server in {server for stay in short for server, _ in stay.held}:
            for stay in self.on[server].values():
                stay.most = max(stay.most, len(self.on[server]))
        for stay in short:
            for server, _ in stay.held:
                del self.on[server][id(stay)]

    def _moved(self, server: int, before: int) -> dict[int, Stay]:
        """Those whose p may be another, now that other jobs span a server."""
        on, now, count = self.on[server], self.now, len(self.on[server])
        if count > before:
            return {key: stay for key, stay in on.items() if now[key][1] < count}
        return {key: stay for key, stay in on.items() if now[key][1] == before} if count < before else {}

    def _close(self, stay: Stay, time: float) -> None:
        """Ends the part that a stay is in."""
        since, p = self.now[id(stay)]
        self.total -= p
        if p and time > since:
            if stay.parts is None:
                stay.parts = []
            stay.parts.append((since, time, p, None))
            stay.most = max(stay.most, p)


def crowd(stays: list[Stay], share: Sequence[int]) -> None:
    """Writes into the stays on a share of a GPU which other jobs are on it, part by part."""
    own = [stay for stay in stays if share[stay.job]]
    on: dict[tuple[int, int], dict[int, Stay]] = {}
    since: dict[tuple[int, int], float] = {}
    for time, leave, come in changes(own):
        touched = {stay.places[0] for stay in leave} | {stay.places[0] for stay in come}
        for place in touched:
            there = on.setdefault(place, {})
            if there and time > since[place]:
                _part(there, since[place], time)
            since[place] = time
        for stay in leave:
            del on[stay.places[0]][id(stay)]
        for stay in come:
            on[stay.places[0]][id(stay)] = stay


def _part(there: dict[int, Stay], since: float, time: float) -> None:
    jobs = [stay.job for stay in there.values()]
    for stay in there.values():
        others = tuple(job for job in jobs if job != stay.job)
        if stay.parts is None:
            stay.parts = []
        if stay.parts and stay.parts[-1][3] == others:
            stay.parts[-1] = (stay.parts[-1][0], time, 0, others)
        else:
            stay.parts.append((since, time, 0, others))
