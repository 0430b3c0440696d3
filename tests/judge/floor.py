"""The GPUs of one (virtual) cluster as its placement finds them, and where it would put a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from judge.given import WHOLE, Given
from judge.idle import Room
from judge.placing import KNOWN, Parts, Servers, by_server, drawn
from judge.rooms import Demand, Rooms, fragmentation_of
from judge.speed import Speeds
from judge.splitmix import GOLDEN, MASK

Gpu = tuple[int, int]
"""(server, index of a GPU on it)."""
COUNTED = ("least-loaded", "lbsgf", "sjf-bco")
"""Placements that go by the accumulated time U of GPUs; fa-ffp does so where it is read literally."""
PLACEMENTS = (*KNOWN, *COUNTED, "random", "fgd")
"""All of which it is told here where they put a job."""
MOST = 2_000_000
"""Jobs and GPUs looked at in a cluster, the earliest: where jobs overtake there may be many times more."""


class Floor:
    """A cluster, some of whose GPUs jobs hold.

    sizes: GPUs of the servers of each type. capacity: those of a type that are up and that no replica holds.
    held: what each job holds. by_use: whether servers are chosen by U. on: what each holds GPU by GPU, where
    U counts or reservations are of GPUs. load: U of each GPU, s; empty where all are alike. idle: GPUs by
    server, where load is not empty. rng: the state of the random numbers. looks: at jobs and GPUs, so far.
    changes: how often anything of it was taken or given back.
    """

    def __init__(self, given: Given, speeds: Speeds, room: Room, vc: int, jobs: list[int]) -> None:
        options = given.options
        self.speeds, self.jobs = speeds, given.jobs
        self.name, self.kappa = str(options["placement"]), int(options["kappa"])
        self.literal = options["variant"] == "literal"
        self.plain = self.name in KNOWN and not (self.literal and self.name == "fa-ffp")
        self.ratio = float(options.get("lambda", 1.0))
        self.sizes: dict[int, dict[int, int]] = {}
        for server, gpus in enumerate(given.cluster.gpus):
            if given.cluster.in_vc(server) == vc:
                self.sizes.setdefault(room.type_of(server), {})[server] = gpus
        self.shared = given.jobs.share is not None
        self.pools = {own: Servers(sizes) for own, sizes in self.sizes.items() if not self.shared}
        self.rooms: dict[int, Rooms] = {}
        self.capacity = {own: sum(sizes.values()) for own, sizes in self.sizes.items()}
        self.of = {server: own for own, sizes in self.sizes.items() for server in sizes}
        self.looks = self.changes = 0
        self.held: dict[int, Parts] = {}
        self.on: dict[int, list[Gpu]] = {}
        self.load: dict[Gpu, float] = {}
        self.idle: dict[int, list[int]] = {}
        self.by_use = self.name in COUNTED or (self.name in KNOWN and not self.plain)
        self.adds = self.by_use or self.name == "fa-ffp"
        """Whether GPUs have U."""
        if self.by_use or (options["queue"] == "conservative" and not self.shared):
            for sizes in self.sizes.values():
                self.idle |= {server: list(range(gpus)) for server, gpus in sizes.items()}
            self.load = {(server, gpu): 0.0 for server, gpus in self.idle.items() for gpu in gpus}
        self.lodgers: dict[int, list[Gpu]] = {}
        self.lodged: dict[int, Parts] = {}
        self.room, self.tried = room, dict[int, tuple[int, ...]]()
        self.empty: dict[int, Parts] = {}
        """By job: its GPUs one by one, where fgd counts them though no job has a share."""
        if self.shared or self.name == "fgd":
            for own, sizes in self.sizes.items():
                asks = Counter(
                    Demand(given.jobs.gpus[job], self.share(job), own in self.tries(job))
                    for job in (jobs if self.name == "fgd" else ())
                )
                self.rooms[own] = Rooms(sizes, fragmentation_of(asks))
        self.rng = (int(options.get("seed") or 0) + vc * GOLDEN) & MASK

    def tries(self, job: int) -> tuple[int, ...]:
        """The types that a job tries, in its order. Where all are alike, its GPUs decide."""
        key = job if self.jobs.types is not None else -self.jobs.gpus[job]
        found = self.tried.get(key)
        if found is None:
            found = self.tried[key] = self.room.in_order(job)
        return found

    @contextmanager
    def without(self, servers: Iterable[int], back: Iterable[int] = ()) -> Iterator[None]:
        """Where some servers are meanwhile as those that are down, and of those that are down some are up."""
        shut = set(servers)
        changed = [(server, False) for server in shut if self.up(server)]
        changed += [(server, True) for server in back if not self.up(server) and server not in shut]
        for server, up in changed:
            self._show(server, up=up)
        try:
            yield
        finally:
            for server, up in changed:
                self._show(server, up=not up)

    @contextmanager
    def only(self, free: dict[int, list[int]]) -> Iterator[None]:
        """Where just those GPUs are idle meanwhile, by server."""
        idle, shown, posed = self.idle, list[int](), list[tuple[int, int, Parts]]()
        self.looks += len(self.of)
        for server, own in self.of.items():
            more = len(free.get(server, ()))
            if not self.up(server):
                if not more:
                    continue
                shown.append(server)
                self._show(server, up=True)
            more -= len(idle[server])
            if more:
                sites = self.rooms[own].sites(server, abs(more), taken=more > 0) if self.rooms else []
                posed.append((server, more, sites))
                self._pose(server, more, sites)
        self.idle = free
        try:
            yield
        finally:
            self.idle = idle
            for server, more, sites in posed:
                self._pose(server, -more, sites)
            for server in shown:
                self._show(server, up=False)

    def _pose(self, server: int, more: int, sites: Parts) -> None:
        """So many more GPUs of a server are as if idle, of which the placement sees these."""
        own = self.of[server]
        self.pools[own].change([(server, more)], 1)
        if self.rooms:
            self.rooms[own].change(sites, WHOLE if more > 0 else -WHOLE)

    def find(self, job: int) -> Parts | None:
        """Where the placement would put a job now."""
        for own in self.tries(job):
            found = self.choose(own, job)
            if found is not None:
                return found
        return None

    def share(self, job: int) -> int:
        """Thousandths that a job asks for; 0 for whole GPUs."""
        return self.jobs.share[job] if self.jobs.share is not None else 0

    def _sites(self, own: int, job: int, gpus: int) -> Parts | None:
        """The GPUs of a type on which the placement would put a job, where jobs may share one."""
        share = self.share(job)
        if self.name == "random":
            return self.rooms[own].random(gpus, share, self.rng)[0]
        found = self.rooms[own].choose(self.name, gpus, share)
        return found if self.shared or found is None else by_server(found)

    def _change(self, job: int, parts: Parts, sign: int) -> None:
        own = self.of[parts[0][0]]
        self.changes += 1
        if self.shared:
            self.rooms[own].change(parts, sign * (self.share(job) or WHOLE))
            return
        self.pools[own].change(parts, sign)
        if self.rooms:
            if sign < 0:
                self.empty[job] = [site for part in parts for site in self.rooms[own].empty(*part)]
            self.rooms[own].change(self.empty[job], sign * WHOLE)

    def count(self, parts: Parts) -> int:
        """How many GPUs those are."""
        return len(parts) if self.shared else sum(gpus for _, gpus in parts)

    def turn(self, server: int, *, up: bool) -> None:
        """A server goes down, or is up again."""
        own = self.of[server]
        self.changes += 1
        self.capacity[own] += self.sizes[own][server] * (1 if up else -1)
        self._show(server, up=up)

    def _show(self, server: int, *, up: bool) -> None:
        """Lets the placement see a server, or not."""
        for pools in (self.pools, self.rooms):
            if (own := self.of[server]) in pools:
                pools[own].turn(server, up=up)

    def lodge(self, replica: int, server: int, gpus: int, *, comes: bool) -> None:
        """A replica comes, or goes. It takes the GPUs with the least U."""
        own, sign = self.of[server], -1 if comes else 1
        self.capacity[own] += sign * gpus
        self.changes += 1
        if self.shared:
            return
        self.pools[own].change([(server, gpus)], sign)
        if self.load and comes:
            self.lodgers[replica] = self._gpus([(server, gpus)])
        elif self.load:
            self.idle[server] += [gpu for _, gpu in self.lodgers.pop(replica)]
        if self.rooms:
            if comes:
                self.lodged[replica] = self.rooms[own].empty(server, gpus)
            self.rooms[own].change(self.lodged[replica], sign * WHOLE)

    @property
    def known(self) -> bool:
        """Whether it is told here where the placement puts a job."""
        return self.name in PLACEMENTS

    def rule(self, wanted: int) -> str:
        """The rule by which the placement chooses so many GPUs."""
        name = self.name
        if name == "sjf-bco":
            name = "fa-ffp" if wanted <= self.kappa else "lbsgf"
        return "least-loaded" if name == "fa-ffp" and self.literal else name

    def choose(self, own: int, job: int, gpus: int = 0) -> Parts | None:
        """Where the placement would put a job on so many GPUs of a type, or on those that it asks for."""
        wanted = gpus or self.jobs.gpus[job]
        if self.rooms:
            return self._sites(own, job, wanted)
        pool = self.pools[own]
        if self.plain:
            return pool.choose[self.name](wanted)
        name = self.rule(wanted)
        if name not in ("random", "least-loaded", "lbsgf"):
            return pool.choose[name](wanted)
        if pool.total < wanted:
            return None
        if name == "random":
            ranks = drawn(wanted, pool.total, self.rng)[0]
            idle = [server for server in self.sizes[own] for _ in range(pool.idle[server])]
            return by_server([(idle[rank], 0) for rank in ranks])
        among = self.least_busy(own, wanted) if name == "lbsgf" else list(self.sizes[own])
        found = self.least(among, wanted)
        return by_server(found) if len(found) == wanted else None

    def least_busy(self, own: int, wanted: int) -> list[int]:
        """The servers of a type with the least mean U that have enough GPUs for `lbsgf`."""
        pool, sizes = self.pools[own], self.sizes[own]
        found: list[int] = []
        there = 0
        self.looks += len(self.load)
        for server in sorted(sizes, key=lambda server: (self.mean(server, sizes[server]), server)):
            if there >= self.ratio * wanted:
                break
            found.append(server)
            there += sizes[server] if self.literal else pool.idle[server]
        return found

    def mean(self, server: int, gpus: int) -> float:
        """The mean U of a server's GPUs, added up in their order."""
        total = 0.0
        for gpu in range(gpus):
            total += self.load[server, gpu]
        return total / gpus

    def least(self, servers: Iterable[int], wanted: int) -> list[Gpu]:
        """The idle GPUs with the least U of some servers; where U does not count, so many of them."""
        idle = [(server, gpu) for server in servers if self.up(server) for gpu in self.idle.get(server, ())]
        self.looks += len(idle)
        return sorted(idle, key=lambda gpu: (self.load[gpu], gpu))[:wanted]

    def up(self, server: int) -> bool:
        """Whether a server is up."""
        return server not in (self.rooms if self.shared else self.pools)[self.of[server]].hidden

    def take(self, job: int, parts: Parts, *, again: bool = False, gpus: Sequence[Gpu] | None = None) -> None:
        """A job gets GPUs, `gpus` if it is said which.

        again: it had them just before, so that U does not grow.
        """
        self.held[job] = parts
        self._change(job, parts, -1)
        if self.load:
            self.on[job] = taken = self._gpus(parts, gpus)
            seconds = self.speeds.estimate(job) if self.adds and not again else 0.0
            for gpu in taken:
                self.load[gpu] += seconds

    def least_of(self, parts: Parts) -> list[Gpu]:
        """The idle GPUs of each server with the least U."""
        return [gpu for server, count in parts for gpu in self.least([server], count)]

    def _gpus(self, parts: Parts, said: Sequence[Gpu] | None = None) -> list[Gpu]:
        """Takes GPUs of servers, those with the least U first, or those that are said."""
        gpus = self.least_of(parts) if said is None else list(said)
        for server, gpu in gpus:
            self.idle[server].remove(gpu)
        return gpus

    def back(self, job: int, parts: Parts, gpus: list[Gpu] | None) -> None:
        """A job has again what `give` took from it."""
        self.held[job] = parts
        self._change(job, parts, -1)
        if gpus is not None:
            self.on[job] = gpus
            for server, gpu in gpus:
                self.idle[server].remove(gpu)

    def give(self, job: int) -> Parts:
        """A job gives its GPUs back."""
        parts = self.held.pop(job)
        self._change(job, parts, 1)
        if self.load:
            for server, gpu in self.on.pop(job):
                self.idle[server].append(gpu)
        return parts

    def redraw(self, job: int, parts: Parts) -> None:
        """A job starts at random: the random numbers go on. Called before it takes its GPUs."""
        self.rng = self.redrawn(job, parts)

    def redrawn(self, job: int, parts: Parts) -> int:
        """The random numbers once a job starts there."""
        if self.name != "random":
            return self.rng
        own, gpus = self.of[parts[0][0]], self.count(parts)
        if self.shared:
            return self.rooms[own].random(gpus, self.share(job), self.rng)[1]
        return drawn(gpus, self.pools[own].total, self.rng)[1]
