"""Who shares links with whom: p of equation 6 over time, and the crowds on GPUs of which jobs hold shares."""

from __future__ import annotations

from typing import NamedTuple

from ringbco.judge.clock import changes
from ringbco.judge.given import Stay


class Spanning(NamedTuple):
    """The jobs that span, after each instant at which any of them changes: how many, and the sum of p."""

    time: list[float]
    jobs: list[int]
    p: list[int]


def contend(stays: list[Stay]) -> Spanning:
    """Writes p into the stays that span: their parts and the most of it."""
    wide = [stay for stay in stays if len(stay.held) > 1]
    found = Spanning([], [], [])
    on: dict[int, dict[int, Stay]] = {server: {} for stay in wide for server, _ in stay.held}
    now: dict[int, tuple[Stay, float, int]] = {}
    total = 0
    for time, leave, come in changes(wide):
        before: dict[int, int] = {}
        for stay in leave:
            for server, _ in stay.held:
                before.setdefault(server, len(on[server]))
                del on[server][id(stay)]
            total -= _close(now, stay, time)
        affected: dict[int, Stay] = {}
        for stay in come:
            for server, _ in stay.held:
                before.setdefault(server, len(on[server]))
                on[server][id(stay)] = stay
            now[id(stay)] = stay, time, 0
            affected[id(stay)] = stay
        for server, count in before.items():
            if len(on[server]) > count:
                most = len(on[server])
                affected |= {key: one for key, one in on[server].items() if now[key][2] < most}
            elif len(on[server]) < count:
                affected |= {key: one for key, one in on[server].items() if now[key][2] == count}
        for key, stay in affected.items():
            p = max(len(on[server]) for server, _ in stay.held)
            old = now[key][2]
            if p != old:
                if old:
                    _close(now, stay, time)
                now[key] = stay, time, p
                total += p - old
        found.time.append(time)
        found.jobs.append(len(now))
        found.p.append(total)
    for stay in wide:
        if stay.end <= stay.start:
            stay.most = 1
    return found


def _close(now: dict[int, tuple[Stay, float, int]], stay: Stay, time: float) -> int:
    """Ends the part that a stay is in; its p."""
    _, since, p = now.pop(id(stay))
    if stay.parts is None:
        stay.parts = []
    if time > since:
        stay.parts.append((since, time, p, None))
        stay.most = max(stay.most, p)
    return p


def crowd(stays: list[Stay], share: list[int]) -> None:
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
