"""Why a job waited: who was idle when, and where its placement could have put it (docs/results.md)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from operator import attrgetter

from judge.clock import changes
from judge.given import WHOLE, Book, Given, Jobs, Stay
from judge.speed import EVEN, Speeds
from ringbco.checker.settings import Outage

PACKING = frozenset({"consolidate", "best-fit", "worst-fit", "fgd"})
"""Placements that take one server, or whole ones of the largest size and one more."""
REPLICA, DOWN = -1, -2
"""In place of a job: of what else keeps GPUs from being idle."""


class Pool:
    """The GPUs of one type in one virtual cluster.

    idle: thousandths. holding: how many servers have so many empty GPUs. most: the most that one has. empty:
    of all servers. rooms: how many GPUs have so many thousandths left. busy, rank: of servers, the mean
    accumulated time of their GPUs, and in that order.
    """

    def __init__(self, gpus: Sequence[int], servers: Sequence[int]) -> None:
        self.servers, self.busy = servers, dict.fromkeys(servers, 0.0)
        self.rank = [(0.0, server) for server in sorted(servers)]
        sizes = [gpus[server] for server in servers]
        self.largest = max(sizes)
        self.holding = [0] * (self.largest + 1)
        for size in sizes:
            self.holding[size] += 1
        self.most, self.empty = self.largest, sum(sizes)
        self.idle = WHOLE * self.empty
        self.rooms: dict[int, int] = {WHOLE: self.empty}
        self.bounds: list[int] = []
        self.same: tuple[float, float, int] = (0, 0, 0)
        self.shared = False

    def move(self, before: int, after: int) -> None:
        """A server has another number of empty GPUs."""
        holding = self.holding
        holding[before] -= 1
        holding[after] += 1
        self.empty += after - before
        self.most = after if after > self.most else self.most
        while not holding[self.most]:
            self.most -= 1

    def use(self, server: int, seconds: float) -> None:
        """Adds to the accumulated time of a server."""
        del self.rank[bisect_left(self.rank, (self.busy[server], server))]
        self.busy[server] += seconds
        insort(self.rank, (self.busy[server], server))

    def packs(self, gpus: int) -> bool:
        """Whether so many empty GPUs are one server's, or whole largest servers' and one more's."""
        if gpus <= self.largest:
            return gpus <= self.most
        whole, rest = divmod(gpus, self.largest)
        ready = self.holding[self.largest] >= whole
        return ready and (not rest or sum(self.holding[rest:]) > whole)

    def room(self, share: int) -> bool:
        """Whether some GPU has so many thousandths left."""
        return any(count and left >= share for left, count in self.rooms.items())

    def changed(self) -> bool:
        """Whether another gang may fit than before, or another no more; larger ones than a server aside."""
        if self.same[0] <= self.idle < self.same[1] and self.most == self.same[2] and not self.shared:
            return False
        at, bounds = bisect_right(self.bounds, self.idle), [-math.inf, *self.bounds, math.inf]
        self.same = bounds[at], bounds[at + 1], self.most
        return True


class Demand:
    """Jobs that wait for the same, in pools. packing: whether a gang takes one server, or whole ones.

    few, apart: seconds up to `since` with too few idle GPUs, or enough apart. busy: of a literal lbsgf, the
    GPUs of the least busy servers among which it looks. never: in a plan theta decides, not who is idle.
    """

    def __init__(self, pools: Sequence[Pool], gpus: int, share: int, *, packing: bool = False) -> None:
        self.pools, self.gpus, self.share, self.packing = pools, gpus, share, packing
        self.asks = share or WHOLE * gpus
        self.busy, self.never = 0.0, False
        self.room: State | None = None
        self.large = packing and any(gpus > pool.largest for pool in pools)
        self.few = self.apart = self.since = 0.0
        self.state, self.waiting = "fits", 0

    def begin(self, time: float) -> None:
        """Somebody waits again for the first time since nobody did."""
        self.since, self.state = time, self.now()

    def fits(self, pool: Pool) -> bool:
        """Whether the placement finds GPUs in a pool."""
        if self.share:
            return pool.room(self.share)
        if self.never:
            return False
        if self.room is not None:
            return self.room.among(pool, self.busy) >= self.gpus
        return pool.packs(self.gpus) if self.packing else self.gpus <= pool.empty

    def now(self) -> str:
        """Whether it fits and, if not, whether too few GPUs are idle or enough apart."""
        state = "few"
        for pool in self.pools:
            if pool.idle >= self.asks:
                if self.fits(pool):
                    return "fits"
                state = "apart"
        return state

    def at(self, time: float) -> tuple[float, float]:
        """few and apart up to a time."""
        passed = time - self.since
        return self.few + passed * (self.state == "few"), self.apart + passed * (self.state == "apart")

    def look(self, time: float) -> None:
        """What is so from now on."""
        state = self.now()
        if state != self.state:
            self.few, self.apart = self.at(time)
            self.since, self.state = time, state


class Room:
    """The pools of a cluster, who may go where, and what is idle over time."""

    def __init__(self, given: Given, speeds: Speeds) -> None:
        self.given, self.speeds, self.jobs, self.cluster = given, speeds, given.jobs, given.cluster
        self.shared = given.jobs.share is not None
        self.planned = given.options.get("command") == "plan"
        self.packing = given.options["placement"] in PACKING
        servers: dict[tuple[int, int], list[int]] = {}
        keys = [
            (self.cluster.in_vc(server), self.type_of(server)) for server in range(len(self.cluster.gpus))
        ]
        for server, key in enumerate(keys):
            servers.setdefault(key, []).append(server)
        self.pools = {key: Pool(self.cluster.gpus, own) for key, own in servers.items()}
        self.of = [self.pools[key] for key in keys]
        self.demands: dict[tuple[object, ...], Demand] = {}
        self.fewest = cache(self._fewest)

    def type_of(self, server: int) -> int:
        """Which GPUs a gang may not mix; where no job says anything of types, all are alike."""
        return self.cluster.of_type(server) if self.jobs.types is not None else 0

    def tries(self, job: int) -> tuple[int, ...]:
        """The types that a job tries, as numbers in order: those that could hold it if all were idle."""
        jobs = self.jobs
        allowed = sorted(jobs.types[job]) if jobs.types is not None else [0]
        few = {own: self.fewest(jobs.in_vc(job), own, jobs.gpus[job]) for own in allowed}
        return tuple(own for own, servers in few.items() if servers and self._moves(job, own, servers))

    def in_order(self, job: int) -> tuple[int, ...]:
        """The types that a job tries, in the order of --type-order (docs/heterogeneous.md)."""
        if self.jobs.types is None:
            return self.tries(job)
        order = str(self.given.options.get("type_order", "fastest"))
        if order == "listed":
            return tuple(own for own in self.jobs.types[job] if own in self.tries(job))
        price = [kind.price_per_hour or 0.0 for kind in self.cluster.types]

        def turn(own: int) -> float:
            rate = self._alone(job, own)
            return price[own] / rate if order == "cheapest" else -rate

        return tuple(sorted(self.tries(job), key=turn))

    def _alone(self, job: int, own: int) -> float:
        """Work a second on the fewest servers of a type, without contention."""
        gpus = self.jobs.gpus[job]
        servers = self.fewest(self.jobs.in_vc(job), own, gpus)
        speedup = self.jobs.speedup[job][own] if self.jobs.speedup is not None else 1.0
        if self.given.model == "fixed":
            return speedup
        if self.given.model == "table":
            return self.speeds.measured(job, own, gpus, servers)
        return 1.0 / self.speeds.tau(job, gpus, servers, 0, speedup)

    def slower(self, job: int, own: int) -> float:
        """How many times as long a job takes on a type as where it was recorded, on the fewest servers."""
        if self.jobs.types is None:
            return 1.0
        fixed = self.given.model == "fixed"
        return (1.0 if fixed else self.jobs.iterations[job] / self.jobs.ideal[job]) / self._alone(job, own)

    def _fewest(self, vc: int, own: int, gpus: int) -> int:
        """The fewest servers of a type that hold so many GPUs; 0 where the placement never finds them."""
        if (vc, own) not in self.pools:
            return 0
        sizes = sorted((self.cluster.gpus[server] for server in self.pools[vc, own].servers), reverse=True)
        whole = Pool(sizes, range(len(sizes)))
        if not Demand([whole], gpus, 0, packing=self.packing).fits(whole):
            return 0
        return bisect_left(list(accumulate(sizes)), gpus) + 1

    def _moves(self, job: int, own: int, servers: int) -> bool:
        """Whether a job makes progress on so many servers of a type, if it has them to itself."""
        given, gpus = self.given, self.jobs.gpus[job]
        if self.jobs.types is None or given.model == "fixed" or (given.slot is None and given.model == "rar"):
            return True
        if given.model == "table":
            rate = self.speeds.measured(job, own, gpus, servers)
        else:
            speedup = self.jobs.speedup[job][own] if self.jobs.speedup is not None else 1.0
            rate = 1.0 / self.speeds.tau(job, gpus, servers, 0, speedup)
        return rate > 0 and (given.slot is None or math.floor(given.slot * rate * EVEN) > 0)

    def placeable(self, job: int) -> bool:
        """Whether the empty cluster, and its owner's quota, could ever hold a job."""
        owner = self.jobs.owner[job] if self.jobs.owner is not None else None
        quota = (self.given.quotas or {}).get(owner) if owner is not None else None
        if quota is not None and not quota[1] and self.jobs.gpus[job] > quota[0]:
            return False
        return bool(self.tries(job))

    def waits(self, book: Book, down: list[Outage]) -> None:
        """Writes into the stays for how long their jobs waited for which reason."""
        turns = self._turns(book) if self.planned else []
        waiting = [stay for stay in (*book.stays, *(turn for turn, _ in turns)) if stay.start > stay.since]
        if not waiting:
            return
        state = State(self.cluster.gpus, self.jobs, self.speeds, self.of)
        wants = {id(stay): self._demand(stay.job, state) for stay in waiting}
        self._bound()
        begins, ends = sorted(waiting, key=attrgetter("since")), sorted(waiting, key=attrgetter("start"))
        held = book.stays + [
            Stay(REPLICA, replica.start, replica.end, ((replica.server, replica.gpus),))
            for replica in book.replicas
        ]
        held += [Stay(DOWN, outage.down, outage.up, ((outage.server, 0),)) for outage in down]
        counts = any(demand.busy for demand in self.demands.values())
        large = any(demand.large for demand in self.demands.values())
        # Their ends are never: outages may last for ever.
        since = [*(stay.since for stay in begins), math.nan]
        start = [*(stay.start for stay in ends), math.nan]
        active: dict[int, Demand] = {}
        i = j = 0
        for time, leave, come in changes(held):
            while since[i] <= time:
                stay = begins[i]
                demand = wants[id(stay)]
                if not demand.waiting:
                    state.tell()
                    demand.begin(stay.since)
                    active[id(demand)] = demand
                demand.waiting += 1
                few, apart = demand.at(stay.since)
                stay.few, stay.apart = -few, -apart
                i += 1
            while start[j] <= time:
                demand = wants[id(ends[j])]
                _end(ends[j], demand)
                demand.waiting -= 1
                if not demand.waiting:
                    del active[id(demand)]
                j += 1
            state.apply(leave, come, counts=counts)
            if active and (state.tell() or large):
                for demand in active.values():
                    demand.look(time)
        for stay in ends[j:]:
            _end(stay, wants[id(stay)])
        for turn, stay in turns:
            stay.apart -= turn.apart

    def _turns(self, book: Book) -> list[tuple[Stay, Stay]]:
        """The stays of a plan, each behind one that starts once theta, not the order, is in its way."""
        if self.given.options.get("dispatch") == "reserve":
            return []
        gpus = self.jobs.gpus if self.given.options["order"] == "smallest" else [0] * len(self.jobs.gpus)
        turns, at = [], dict[int, float]()
        for stay in sorted(book.stays, key=lambda stay: (gpus[stay.job], stay.job)):
            vc = self.jobs.in_vc(stay.job)
            turn, at[vc] = at.get(vc, 0.0), stay.start
            turns.append((Stay(stay.job, turn, turn, stay.held), stay))
        return turns

    def _demand(self, job: int, state: State) -> Demand:
        """What a job waits for."""
        jobs = self.jobs
        share = jobs.share[job] if jobs.share is not None else 0
        types = self.tries(job) if jobs.types is not None else (0,)
        key = jobs.in_vc(job), jobs.gpus[job], share, types
        if key not in self.demands:
            pools = [self.pools[key[0], own] for own in types if (key[0], own) in self.pools]
            demand = Demand(pools, jobs.gpus[job], share, packing=self.packing)
            demand.never = self.planned
            if self._least_busy(jobs.gpus[job]):
                demand.busy = float(self.given.options.get("lambda", 1.0)) * jobs.gpus[job]
                demand.room, demand.large = state, True
            self.demands[key] = demand
        return self.demands[key]

    def _least_busy(self, gpus: int) -> bool:
        """Whether a gang goes to idle GPUs of the least busy servers, or waits: lbsgf, read literally."""
        options, name = self.given.options, self.given.options["placement"]
        if self.planned:
            return False
        looks = name == "lbsgf" or (name == "sjf-bco" and gpus > int(options["kappa"]))
        return looks and options.get("variant") == "literal"

    def _bound(self) -> None:
        for demand in self.demands.values():
            for pool in demand.pools:
                pool.bounds.append(demand.share or WHOLE * demand.gpus)
                pool.shared |= self.shared
        for pool in self.pools.values():
            pool.bounds.sort()


def _end(stay: Stay, demand: Demand) -> None:
    few, apart = demand.at(stay.start)
    stay.few, stay.apart = max(0.0, stay.few + few), max(0.0, stay.apart + apart)


class State:
    """What is idle now: GPUs of each server, whether it is down, and what is left of each GPU.

    told, seen: the same as the pools know it. touched: servers of which they have not been told everything.
    """

    def __init__(self, gpus: Sequence[int], jobs: Jobs, speeds: Speeds, of: Sequence[Pool]) -> None:
        self.gpus, self.jobs, self.speeds, self.of = gpus, jobs, speeds, of
        self.touched: set[int] = set()
        self.idle, self.told, self.down = list(gpus), list(gpus), [False] * len(gpus)
        self.left = [[WHOLE] * count for count in gpus] if jobs.share is not None else None
        self.seen: list[tuple[int, ...]] = [(WHOLE,) * count for count in gpus]

    def among(self, pool: Pool, wanted: float) -> int:
        """The idle GPUs of the least busy servers of a pool that have so many GPUs together."""
        found, there = 0, 0
        for _, server in pool.rank:
            if there >= wanted:
                break
            there += self.gpus[server]
            found += self.told[server]
        return found

    def apply(self, leave: list[Stay], come: list[Stay], *, counts: bool) -> None:
        """Takes GPUs back and gives others away. counts: whether anybody asks who is busy."""
        touched, idle, left = self.touched, self.idle, self.left
        for stays, sign in ((leave, 1), (come, -1)):
            for stay in stays:
                if stay.job == DOWN:
                    self.down[stay.held[0][0]] = sign < 0
                if left is not None and stay.places:
                    self._parts(stay, sign)
                    continue
                for server, gpus in stay.held:
                    touched.add(server)
                    idle[server] += sign * gpus
                    if counts and sign < 0 <= stay.job:
                        self.of[server].use(server, self.speeds.estimate(stay.job) * gpus / self.gpus[server])

    def tell(self) -> bool:
        """Tells the pools; whether another gang fits than before, larger than servers aside."""
        told, pools, changed = self.told, set[Pool](), False
        for server in self.touched:
            pool, before = self.of[server], told[server]
            after = 0 if self.down[server] or self.idle[server] < 0 else self.idle[server]
            if after != before:
                pool.move(before, after)
                told[server] = after
            if self.left is not None:
                self._tell(server, pool)
            elif after != before:
                pool.idle += WHOLE * (after - before)
            pools.add(pool)
        for pool in pools:  # of each, so that all remember
            changed |= pool.changed()
        self.touched.clear()
        return changed

    def _parts(self, stay: Stay, sign: int) -> None:
        """Gives a stay's parts of GPUs back, or takes them."""
        assert self.left is not None
        assert self.jobs.share is not None
        units = self.jobs.share[stay.job] or WHOLE
        for server, gpu in stay.places:
            self.touched.add(server)
            left = self.left[server]
            self.idle[server] -= left[gpu] == WHOLE
            left[gpu] += sign * units
            self.idle[server] += left[gpu] == WHOLE

    def _tell(self, server: int, pool: Pool) -> None:
        """What is left now of the GPUs of a server."""
        assert self.left is not None
        now = () if self.down[server] else tuple(self.left[server])
        for units in self.seen[server]:
            pool.rooms[units] -= 1
        for units in now:
            pool.rooms[units] = pool.rooms.get(units, 0) + 1
        pool.idle += sum(now) - sum(self.seen[server])
        self.seen[server] = now
