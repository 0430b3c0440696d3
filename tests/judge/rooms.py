"""Where the placements of shares put a job, by the rooms of all GPUs (docs/shares.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from judge.given import WHOLE
from judge.placing import Parts, drawn, lowest, splitmix64

State = tuple[int, ...]
"""The rooms of a server's GPUs in thousandths, ascending."""


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
        self.hidden: set[int] = set()
        """Servers that are down, which nobody sees."""
        for server in self.rooms:
            self._enter(server)

    def _enter(self, server: int) -> None:
        state = tuple(sorted(self.rooms[server]))
        self.having[state] = self.having.get(state, 0) | 1 << server

    def _leave(self, server: int) -> None:
        state = tuple(sorted(self.rooms[server]))
        self.having[state] &= ~(1 << server)
        if not self.having[state]:
            del self.having[state]

    def change(self, sites: Parts, units: int) -> None:
        """Gives so much of each GPU back; takes it where it is less than 0."""
        for server, gpu in sites:
            if server in self.hidden:
                self.rooms[server][gpu] += units
                continue
            self._leave(server)
            self.rooms[server][gpu] += units
            self._enter(server)

    def left(self) -> int:
        """Thousandths that are left of all GPUs, but of servers that are down."""
        return sum(sum(rooms) for server, rooms in self.rooms.items() if server not in self.hidden)

    def sites(self, server: int, count: int, *, taken: bool) -> Parts:
        """GPUs of a server that are taken, or empty."""
        there = [gpu for gpu, room in enumerate(self.rooms[server]) if room == (0 if taken else WHOLE)]
        return [(server, gpu) for gpu in there[:count]]

    def turn(self, server: int, *, up: bool) -> None:
        """A server goes down, or is up again."""
        if up:
            self.hidden.remove(server)
            self._enter(server)
        else:
            self._leave(server)
            self.hidden.add(server)

    def random(self, gpus: int, share: int, state: int) -> tuple[Parts | None, int]:
        """GPUs drawn of those with room, and the state of the random numbers afterwards."""
        there = [
            (server, gpu)
            for server, rooms in self.rooms.items()
            if server not in self.hidden
            for gpu, room in enumerate(rooms)
            if room >= (share or WHOLE)
        ]
        if share:
            number, after = splitmix64(state)
            return ([there[(number * len(there)) >> 64]], after) if there else (None, state)
        if len(there) < gpus:
            return None, state
        ranks, after = drawn(gpus, len(there), state)
        count: dict[int, int] = {}
        for rank in ranks:
            count[there[rank][0]] = count.get(there[rank][0], 0) + 1
        return [site for server in sorted(count) for site in self.empty(server, count[server])], after

    def choose(self, name: str, gpus: int, share: int) -> Parts | None:
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
                found.append((self._key(name, empty, state, after), lowest(servers)))
        return self.empty(min(found)[1], gpus) if found else None

    def _key(self, name: str, room: int, before: State, after: State) -> int:
        if name == "fgd":
            return self.fragmentation(after) - self.fragmentation(before)
        return {"first-fit": 0, "worst-fit": -room}.get(name, room)

    def _share(self, name: str, share: int) -> Parts | None:
        found = []
        for state, servers in self.having.items():
            server = lowest(servers)
            for room in {room for room in state if room >= share}:
                rest = list(state)
                rest.remove(room)
                after = tuple(sorted((*rest, room - share)))
                site = server, self.rooms[server].index(room)
                found.append((self._key(name, room, state, after), site))
        return [min(found)[1]] if found else None

    def empty(self, server: int, count: int) -> Parts:
        """The first empty GPUs of a server."""
        if server in self.hidden:
            return []
        gpus = [gpu for gpu, room in enumerate(self.rooms[server]) if room == WHOLE]
        return [(server, gpu) for gpu in gpus[:count]]

    def _first(self, gpus: int) -> Parts | None:
        sites: Parts = []
        for server in self.rooms:
            sites += self.empty(server, gpus - len(sites))
            if len(sites) == gpus:
                return sites
        return None

    def _whole_servers(self, gpus: int) -> Parts | None:
        """Empty servers of the largest size, and the one left with the most empty GPUs for the rest."""
        count, rest = divmod(gpus, self.largest)
        empty = {
            server: 0 if server in self.hidden else rooms.count(WHOLE) for server, rooms in self.rooms.items()
        }
        chosen = [server for server in self.rooms if empty[server] == self.largest][:count]
        sites = [site for server in chosen for site in self.empty(server, self.largest)]
        if rest:
            left = [server for server in self.rooms if server not in chosen]
            last = min(left, key=lambda server: (-empty[server], server), default=None)
            sites += self.empty(last, rest) if last is not None else []
        return sorted(sites) if len(sites) == gpus else None
