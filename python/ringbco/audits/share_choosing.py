"""Which GPUs: where the placements of shares put a job, worked out from the rooms of all GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from ringbco.audits.choosing import MOST, starts
from ringbco.audits.findings import Check
from ringbco.trace.shares import WHOLE

if TYPE_CHECKING:
    from ringbco.audits.episodes import Episodes
    from ringbco.audits.facts import Facts, Ints

Site = tuple[int, int]
"""(server, index of a GPU on it)."""
State = tuple[int, ...]
"""The rooms of a server's GPUs in thousandths, ascending."""

RULES: Final = {
    "first-fit": "the first GPUs with room",
    "consolidate": "the least room that is enough",
    "best-fit": "the least room that is enough",
    "worst-fit": "the most room",
    "fgd": "where fragmentation rises least",
}


@dataclass(frozen=True)
class Demand:
    """What some jobs ask for, as the servers of one type see it. share: thousandths, 0 for whole GPUs."""

    gpus: int
    share: int
    usable: bool


def fragmentation_of(demands: Counter[Demand]) -> Callable[[State], int]:
    """The fragmentation of a server by its state: idle thousandths that each demand cannot use, added up."""

    @cache
    def fragmentation(state: State) -> int:
        idle, empty, lost = sum(state), state.count(WHOLE), 0
        for demand, jobs in demands.items():
            needs = demand.share or WHOLE
            runs = state[-1] >= demand.share if demand.share else empty >= demand.gpus
            unused = sum(room for room in state if room < needs) if runs and demand.usable else idle
            lost += jobs * unused
        return lost

    return fragmentation


class Rooms:
    """The GPUs of one type: the room of each, and the servers of every state, as bits."""

    def __init__(self, sizes: dict[int, int], fragmentation: Callable[[State], int]) -> None:
        self.rooms = {server: [WHOLE] * size for server, size in sorted(sizes.items())}
        self.largest = max(sizes.values())
        self.fragmentation = fragmentation
        self.having: dict[State, int] = {}
        for server in self.rooms:
            self._enter(server)

    def _enter(self, server: int) -> None:
        state = tuple(sorted(self.rooms[server]))
        self.having[state] = self.having.get(state, 0) | 1 << server

    def change(self, sites: list[Site], units: int) -> None:
        """Gives so much of each GPU back; takes it where it is less than 0."""
        for server, gpu in sites:
            state = tuple(sorted(self.rooms[server]))
            self.having[state] &= ~(1 << server)
            if not self.having[state]:
                del self.having[state]
            self.rooms[server][gpu] += units
            self._enter(server)

    def choose(self, name: str, gpus: int, share: int) -> list[Site] | None:
        """The GPUs that a placement takes; None where it takes none."""
        if share:
            return self._share(name, share)
        if name == "first-fit":
            return self._first(gpus)
        if gpus > self.largest:
            return self._whole_servers(gpus)
        found = []
        for state, servers in self.having.items():
            empty = state.count(WHOLE)
            if empty >= gpus:
                after = tuple(sorted((*state[: len(state) - gpus], *[0] * gpus)))
                found.append((self._key(name, empty, state, after), _lowest(servers)))
        return self._empty(min(found)[1], gpus) if found else None

    def _key(self, name: str, room: int, before: State, after: State) -> int:
        if name == "fgd":
            return self.fragmentation(after) - self.fragmentation(before)
        return {"first-fit": 0, "worst-fit": -room}.get(name, room)

    def _share(self, name: str, share: int) -> list[Site] | None:
        found = []
        for state, servers in self.having.items():
            server = _lowest(servers)
            for room in {room for room in state if room >= share}:
                rest = list(state)
                rest.remove(room)
                after = tuple(sorted((*rest, room - share)))
                site = server, self.rooms[server].index(room)
                found.append((self._key(name, room, state, after), site))
        return [min(found)[1]] if found else None

    def _empty(self, server: int, count: int) -> list[Site]:
        gpus = [gpu for gpu, room in enumerate(self.rooms[server]) if room == WHOLE]
        return [(server, gpu) for gpu in gpus[:count]]

    def _first(self, gpus: int) -> list[Site] | None:
        sites: list[Site] = []
        for server in self.rooms:
            sites += self._empty(server, gpus - len(sites))
            if len(sites) == gpus:
                return sites
        return None

    def _whole_servers(self, gpus: int) -> list[Site] | None:
        """Empty servers of the largest size, and the one left with the most empty GPUs for the rest."""
        count, rest = divmod(gpus, self.largest)
        empty = {server: rooms.count(WHOLE) for server, rooms in self.rooms.items()}
        chosen = [server for server in self.rooms if empty[server] == self.largest][:count]
        sites = [site for server in chosen for site in self._empty(server, self.largest)]
        if rest:
            left = [server for server in self.rooms if server not in chosen]
            last = min(left, key=lambda server: (-empty[server], server), default=None)
            sites += self._empty(last, rest) if last is not None else []
        return sorted(sites) if len(sites) == gpus else None


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def check_shares(check: Check, facts: Facts, eps: Episodes) -> None:
    """A job is on the GPUs that its placement takes of those with room when it starts."""
    name = facts.options["placement"]
    if name not in RULES:
        check.not_run = "the placement draws GPUs at random"
        return
    if str(facts.options.get("order")).startswith("column"):
        check.not_run = "nobody knows in which order jobs of one instant started"
        return
    if name == "fgd" and facts.options.get("admission"):
        check.not_run = "nobody knows what jobs ask for that were refused"
        return
    check.looked_at = min(eps.job.size, MOST)
    sites = _sites(facts, eps)
    for vc in np.unique(facts.vc).tolist():
        _sweep(check, facts, eps, sites, vc)


def _sites(facts: Facts, eps: Episodes) -> list[list[Site]]:
    """The GPUs of each episode."""
    rows = facts.on_gpus
    assert rows is not None
    order = np.lexsort((rows.gpu, rows.server, rows.end, rows.start, rows.job))
    pairs = list(zip(rows.server[order].tolist(), rows.gpu[order].tolist(), strict=True))
    ends = np.cumsum(eps.gpus).tolist()
    return [pairs[low:high] for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def _pools(facts: Facts, vc: int) -> dict[int, Rooms]:
    sizes: dict[int, dict[int, int]] = {}
    for server in np.flatnonzero(facts.server_vc == vc).tolist():
        sizes.setdefault(int(facts.pool[server]), {})[server] = int(facts.server_gpus[server])
    mine = np.flatnonzero(facts.vc == vc)
    asked = list(zip(facts.num_gpus[mine].tolist(), facts.share[mine].tolist(), strict=True))
    tried = facts.tries[mine]
    pools = {}
    for own, among in sizes.items():
        usable = (tried == own).any(axis=1).tolist()
        demands = Counter(Demand(*asks, able) for asks, able in zip(asked, usable, strict=True))
        pools[own] = Rooms(among, fragmentation_of(demands))
    return pools


def _sweep(check: Check, facts: Facts, eps: Episodes, sites: list[list[Site]], vc: int) -> None:
    name, pools = str(facts.options["placement"]), _pools(facts, vc)
    pool, tries = facts.pool.tolist(), facts.tries[eps.job].tolist()
    gpus, share = facts.num_gpus[eps.job].tolist(), facts.share[eps.job].tolist()
    own_vc = facts.vc[eps.job] == vc
    mine = np.flatnonzero(own_vc & (eps.end > eps.start))
    instant = set(eps.start[own_vc & (eps.end <= eps.start)].tolist())
    leaving = mine[np.argsort(eps.end[mine], kind="stable")].tolist()
    ends = eps.end.tolist()
    gone, left = 0, MOST
    for t, group in _groups(facts, eps, mine, vc):
        left -= len(group)
        if left < 0:
            return
        while gone < len(leaving) and ends[leaving[gone]] <= t:
            e = leaving[gone]
            pools[pool[sites[e][0][0]]].change(sites[e], share[e] or WHOLE)
            gone += 1
        # As in `choosing`: of several, who was placed first is known where the queue has an order.
        clear = (len(group) == 1 or not facts.preemptive) and t not in instant
        for e in group:
            if clear:
                tried = (pools[own].choose(name, gpus[e], share[e]) for own in tries[e] if own >= 0)
                right = next((found for found in tried if found is not None), None)
                if right != sites[e]:
                    check.fail(_misplaced(sites[e], right, name), facts.id(eps.job[e]), t)
                    clear = False
            pools[pool[sites[e][0][0]]].change(sites[e], -(share[e] or WHOLE))


def _groups(facts: Facts, eps: Episodes, mine: Ints, vc: int) -> Iterator[tuple[float, list[int]]]:
    return starts(facts, eps, mine, vc) if mine.size else iter(())


def _misplaced(found: list[Site], right: list[Site] | None, name: str) -> str:
    def told(sites: list[Site]) -> str:
        return ", ".join(f"{gpu} of server {server}" for server, gpu in sites)

    where = "none" if right is None else told(right)
    return f"has GPU {told(found)}; {name} takes {RULES[name]}: {where}"
