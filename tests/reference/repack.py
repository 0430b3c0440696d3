"""The reference model of `repack`, straight from docs/repack-reference.md.

Nothing is kept between two passes but when the next look is due, and what the predictions say that they keep.
Of a server's jobs every set is looked at. Who carries the decisions out is a `View`: a custom policy in
repack_custom.py, and the models of the other features in repack_world.py.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from reference.predictions import Predictions
from reference.repack_view import Parts, View

TRIED = 3
"""Offers that are tried for one need."""
TRUSTED = 10
"""Jobs of a size that are done before a prediction counts in a reference time."""

Order = tuple[float, int, tuple[float, ...]]
"""(key, the less the higher its priority, fifo)."""
Size = tuple[float, int]
"""GPUs by which a job counts, and the type where it asks for them."""
Grade = tuple[int, int]
"""(0 within its quota or 1 as a guest, the less the higher its priority)."""


@dataclass(frozen=True)
class Offer:
    """What a server loses so that a job finds GPUs on it."""

    server: int
    rows: tuple[int, ...]
    movable: frozenset[int]
    cost: float
    keys: tuple[Order, ...]
    """Of its rows, the greatest first."""

    @property
    def rank(self) -> tuple[float, int, float, int]:
        greatest = self.keys[0][0] if self.keys else 0.0
        return self.cost, len(self.rows), -greatest, self.server


@dataclass
class ClusterCopy:
    """A copy of the servers, on which a plan for the job `row` is worked out."""

    row: int
    sizes: dict[int, int]
    idle: dict[int, int]
    parts: dict[int, Parts]
    """Of the jobs that may still be sent away; a job that was sent away is in `moved` or `evicted`."""
    taken: set[int] = field(default_factory=set)
    mine: Parts = field(default_factory=list)
    moved: dict[int, Parts] = field(default_factory=dict)
    evicted: list[int] = field(default_factory=list)

    def copy(self) -> ClusterCopy:
        return ClusterCopy(
            self.row,
            self.sizes,
            dict(self.idle),
            dict(self.parts),
            set(self.taken),
            list(self.mine),
            dict(self.moved),
            list(self.evicted),
        )

    def take(self, server: int, gpus: int) -> Parts:
        self.idle[server] -= gpus
        self.taken.add(server)
        return [(server, gpus)]


class Rule:
    """`repack` from scratch at each pass.

    predictions: of what is left of a job; None where that is known. tail: `--tail`.
    """

    def __init__(self, view: View, predictions: Predictions | None = None, tail: float = 0.5) -> None:
        self.view, self.predictions, self.tail = view, predictions, tail
        self.ahead: dict[int, float] = {}
        """Of a job, what was predicted to be left when it joined the queue."""
        self.queued: set[int] = set()
        """Who waited at the end of the last pass."""
        self.next = math.inf
        """When the next pass is due if nothing happens."""

    # A job's figures, now.

    def gpus(self, row: int) -> float:
        """The GPUs by which a job counts: of one that takes a share as much of one."""
        return self.view.share(row) or self.view.gpus(row)

    def known(self, row: int) -> float:
        """Run time left where the job was recorded, without pauses, known or predicted."""
        return self.left[row] if self.predictions is None else self.predictions.left(row)

    def rem(self, row: int) -> float:
        return self.known(row) + self.rest(row)

    def rest(self, row: int) -> float:
        """What counts of the rest of a pause."""
        return min(self.view.rest(row), self.view.cost) if row in self.parts else 0.0

    def stays(self, row: int) -> float:
        """How long a running job stays where it is."""
        return self.known(row) * self.view.ratio(row, self.view.type_of(row)) + self.rest(row)

    def weight(self, row: int) -> float:
        """w of the page."""
        gpus, sizes = self.gpus(row), self.view.sizes
        known = self.predictions is None
        return min(gpus, max(sizes.values())) if known and 3 * gpus >= sum(sizes.values()) else gpus

    def key(self, row: int) -> float:
        return self.weight(row) * self.rem(row)

    def takes(self, row: int) -> float:
        """r of the page."""
        return self.rem(row) + (self.view.cost if self.view.has_run(row) else 0.0)

    def order(self, row: int) -> Order:
        """By key, then fifo."""
        return self.key(row), self.view.tier(row), self.view.fifo(row)

    def unpaused(self, row: int) -> tuple[float, tuple[float, ...]]:
        """The same without the rest of a pause: along it quotas are counted, priorities first."""
        return self.weight(row) * self.known(row), self.view.fifo(row)

    def strain(self, row: int) -> float:
        """strain of the page."""
        return (self.view.now - self.view.origin(row)) / (self.yardstick(row) + 5)

    def wanted(self, row: int, winner: int) -> float:
        """GPUs of `row` that count if `winner` takes its place: num_gpus + others of the page."""
        beside, gpu_type = self.gpus(row) - self.gpus(winner), self.view.type_of(row)
        others = [
            self.gpus(other)
            for other in self.view.waiting()
            if other != winner and gpu_type in self.view.tried(other)
        ]
        return self.gpus(winner) + sum(gpus for gpus in others if gpus <= beside)

    def yardstick(self, row: int) -> float:
        """ref of the page."""
        if self.predictions is None:
            return self.view.whole(row)
        progress = max(0.0, self.view.whole(row) - self.left[row])
        if self.tail == 0:
            return progress + self.ahead[row]
        unseen = 10 + max(0.0, self.view.cost - 120)
        return progress + min(self.ahead[row], (unseen + progress) * ((1 - self.tail) / self.tail))

    def join(self, rows: Iterable[int]) -> None:
        """These begin to wait, or did since the last pass."""
        if self.predictions is not None:
            for row in rows:
                many = self.predictions.counts[self.predictions.gpus[row]] >= TRUSTED
                trusted = many or self.predictions.is_told(row)
                self.ahead[row] = self.predictions.left(row) if trusted else 0.0

    # One pass.

    @property
    def parts(self) -> dict[int, Parts]:
        return self.view.parts()

    def look_again(self) -> None:
        """When the next pass is due if nothing happens."""
        now = self.view.now
        due = [self.view.origin(row) + 16 * (self.yardstick(row) + 5) for row in self.view.waiting()]
        times = [time for time in due if time > now]
        if any(time <= now for time in due):
            times.append(now + max(60.0, 1e-4 * (now - min(due))))
        self.next = max(min(times, default=math.inf), math.nextafter(now, math.inf))

    def one_pass(self) -> None:
        view = self.view
        rows = [*self.parts, *view.waiting()]
        self.left = {row: view.left(row) for row in rows}
        if self.predictions is not None:
            self.predictions.begin(self.left)
        self.join(set(view.waiting()) - self.queued)
        self.limit = max(16.0, 4 * sum(map(self.gpus, rows)) / sum(view.sizes.values()))
        self.grade = self.grades(rows)
        held_back = [row for row in sorted(self.parts, key=view.fifo) if row not in self.grade]
        view.stop(held_back)
        self.look()
        self.join(held_back)
        urgent = {row: self.strain(row) for row in view.waiting() if self.strain(row) >= self.limit}
        self.failed: set[Size] = set()
        self.passed: dict[int, float] = {}  # D of the page, by type
        for grade in sorted(set(self.grade.values())):
            self.relieve([row for row in urgent if self.grade.get(row) == grade])
            self.walk(grade)
        self.look_again()
        self.queued = set(view.waiting())

    def look(self) -> None:
        """Who was evicted may have lost work, and has it again where it moved."""
        self.left = {row: self.view.left(row) for row in self.left}
        if self.predictions is not None:
            self.predictions.see(self.left)

    def grades(self, rows: list[int]) -> dict[int, Grade]:
        """Who goes before whom; whoever may not run is left out."""
        grades: dict[int, Grade] = {}
        within: Counter[tuple[int, str]] = Counter()
        for row in sorted(
            rows, key=lambda row: (not self.view.is_kept(row), self.view.tier(row), self.unpaused(row))
        ):
            quotas = self.view.quotas(row)
            beyond = [borrows for owner, most, borrows in quotas if within[owner] + self.gpus(row) > most]
            if not beyond:
                within.update({owner: self.gpus(row) for owner, *_ in quotas})
                grades[row] = 0, self.view.tier(row)
            elif all(beyond) or self.view.is_drained(row):
                grades[row] = 1, self.view.tier(row)
        return grades

    def may_evict(self, row: int, winner: int) -> bool:
        """Whether `row` is evictable."""
        if self.stays_put(row, winner):
            return False
        if self.grade[row] != self.grade[winner]:
            return self.grade[row] > self.grade[winner]
        if self.urgent:
            return 2 * self.strain(row) <= self.strain(winner)
        counted = min(self.weight(row), self.wanted(row, winner))
        work = counted * max(0.0, self.rem(row) - self.view.cost)
        return 2 * self.strain(row) <= self.limit and work > self.weight(winner) * self.takes(winner)

    def stays_put(self, row: int, winner: int) -> bool:
        """Whether `row` is protected, and no guest in the way of one within its quota."""
        gives_way = self.grade[row][0] > self.grade[winner][0]
        return self.view.is_drained(row) or (self.view.is_protected(row) and not gives_way)

    def walk(self, grade: Grade) -> None:
        """The waiting jobs of a grade by key. Who waits again too late for its turn has none."""
        self.urgent = False
        walk = [row for row in self.view.waiting() if self.grade.get(row) == grade]
        while walk:
            row = min(walk, key=self.order)
            walk.remove(row)
            now = self.order(row)
            evicted = self.turn(row)
            if evicted is None:
                for gpu_type in self.view.tried(row):
                    self.passed[gpu_type] = self.passed.get(gpu_type, 0.0) + self.gpus(row)
            else:
                walk += [other for other in evicted if self.grade[other] == grade and self.order(other) > now]

    def turn(self, row: int) -> list[int] | None:
        """Lets a job run, if that may be: who is evicted for it. None where it is passed over."""
        gpus = self.gpus(row)
        if any((gpus, gpu_type) not in self.failed for gpu_type in self.view.tried(row)):
            if self.view.place(row):
                self.look()
                return []
            for gpu_type in self.view.tried(row):
                if (gpus, gpu_type) in self.failed:
                    continue
                if (wait := self.wait(row, gpu_type)) >= 2 * self.view.cost:
                    plan = self.plan(row, gpu_type)
                    if plan is None:
                        if not self.view.is_bound(row):
                            self.failed.add((gpus, gpu_type))
                    elif self.pays(plan, wait):
                        return self.carry_out(plan)
        return self.make_room(row)

    def relieve(self, urgent: list[int]) -> None:
        """Lets the urgent jobs of a grade run."""
        self.urgent = True
        failed: set[Size] = set()
        for row in sorted(urgent, key=lambda row: (-self.strain(row), self.view.fifo(row))):
            if not self.helped(row, failed):
                self.make_room(row)

    def helped(self, row: int, failed: set[Size]) -> bool:
        """Whether an urgent job runs, at its place or by a plan."""
        sizes = [(self.gpus(row), gpu_type) for gpu_type in self.view.tried(row)]
        if failed.issuperset(sizes):
            return False
        if self.view.place(row):
            self.look()
            return True
        for size in sizes:
            if size not in failed:
                plan = self.plan(row, size[1])
                if plan is not None:
                    self.carry_out(plan)
                    return True
                if not self.view.is_bound(row):
                    failed.add(size)
        return False

    def make_room(self, row: int) -> list[int] | None:
        """By the machine's eviction, but no guest: who was evicted; None where that cannot be."""
        if not self.view.evicts or self.grade[row][0] != 0:
            return None
        waited = set(self.view.waiting())
        evicted = self.view.make_room(row)
        self.look()
        self.join(set(self.view.waiting()) - waited)
        return evicted

    def carry_out(self, plan: ClusterCopy) -> list[int]:
        self.view.stop([*plan.evicted, *plan.moved])
        self.view.put(plan.row, plan.mine)
        for row, parts in plan.moved.items():
            self.view.put(row, parts)
        self.look()
        self.join(plan.evicted)
        return plan.evicted

    def pays(self, plan: ClusterCopy, wait: float) -> bool:
        evictions, moves = len(plan.evicted), len(plan.moved)
        pauses = self.view.cost * (evictions + moves)
        alone = len(self.view.waiting()) == 1
        if alone and pauses + self.takes(plan.row) * evictions > wait:
            return False
        return pauses <= wait / 2

    def wait(self, row: int, gpu_type: int) -> float:
        """T of the page."""
        return max(self.wait_for_place(row, gpu_type), self.wait_for_gpus(row, gpu_type))

    def wait_for_place(self, row: int, gpu_type: int) -> float:
        """T_own of the page."""
        sizes = self.view.of_type(gpu_type)
        wanted, largest = self.view.gpus(row), max(sizes.values())
        if wanted <= largest:
            return min(self.reaches(s, wanted) for s, size in sizes.items() if size >= wanted)
        times = sorted(self.reaches(s, size) for s, size in sizes.items() if size == largest)
        needed = math.ceil(wanted / largest)
        return times[needed - 1] if needed <= len(times) else math.inf

    def reaches(self, server: int, wanted: int) -> float:
        """When the GPUs of the server that are idle or freed reach `wanted`."""
        idle = self.view.idle(server)
        if server in self.view.draining:  # what is given back there is nobody's
            return self.freed([], wanted - idle)
        there = [
            (self.stays(row), gpus)
            for row, parts in self.parts.items()
            for s, gpus in parts
            if s == server and not self.view.share(row)
        ]
        here = [row for row, parts in self.parts.items() if self.view.share(row) and parts[0][0] == server]
        opened = {self.view.gpu_of(row) for row in here}
        there += [(max(self.stays(row) for row in here if self.view.gpu_of(row) == gpu), 1) for gpu in opened]
        return self.freed(there, wanted - idle)

    def wait_for_gpus(self, row: int, gpu_type: int) -> float:
        """T_all of the page."""
        there = [other for other in self.parts if self.view.type_of(other) == gpu_type]
        everybody = [(self.stays(other), self.gives_back(other)) for other in there]
        wanted = self.passed.get(gpu_type, 0.0) + self.gpus(row) - self.view.idle_gpus(gpu_type)
        return self.freed(everybody, round(wanted, 6))

    def gives_back(self, row: int) -> float:
        """GPUs that come free when it ends: not those of servers that drain."""
        stuck = sum(gpus for server, gpus in self.parts[row] if server in self.view.draining)
        return self.gpus(row) * (1.0 - stuck / sum(gpus for _, gpus in self.parts[row]))

    @staticmethod
    def freed(running: Sequence[tuple[float, float]], wanted: float) -> float:
        """When jobs that are done after so many seconds have given back `wanted` GPUs."""
        if wanted <= 0:
            return 0.0
        for time, gpus in sorted(running):
            wanted = round(wanted - gpus, 6)
            if wanted <= 0:
                return time
        return math.inf

    # A plan.

    def plan(self, row: int, gpu_type: int) -> ClusterCopy | None:
        sizes = self.view.of_type(gpu_type)
        there = {other: own for other, own in self.parts.items() if self.view.type_of(other) == gpu_type}
        cluster: ClusterCopy | None = ClusterCopy(row, sizes, {s: self.view.idle(s) for s in sizes}, there)
        gpus, largest = self.view.gpus(row), max(sizes.values())
        whole, rest = divmod(gpus, largest)
        needs = [gpus] if gpus <= largest else [largest] * whole + [rest] * (rest > 0)
        for need in needs:
            cluster = cluster and self.meet(cluster, need)
        return cluster if cluster and self.view.in_tier(row, cluster.mine) else None

    def meet(self, cluster: ClusterCopy, need: int) -> ClusterCopy | None:
        offers = [
            offer
            for server, size in cluster.sizes.items()
            if size >= need and server not in cluster.taken
            for offer in self.offer(cluster, server, need)
        ]
        for offer in sorted(offers, key=lambda offer: offer.rank)[:TRIED]:
            if (after := self.attempt(cluster.copy(), offer, need)) is not None:
                return after
        return None

    def offer(self, cluster: ClusterCopy, server: int, need: int) -> Iterator[Offer]:
        lacks = need - cluster.idle[server]
        if lacks <= 0:
            yield Offer(server, (), frozenset(), 0.0, ())
            return
        rows = {row: dict(parts)[server] for row, parts in cluster.parts.items() if server in dict(parts)}
        movable = {row for row in rows if not self.view.share(row) and self.movable(cluster, server, row)}
        there: dict[tuple[int, ...], int] = {(row,): n for row, n in rows.items() if not self.view.share(row)}
        shares = [row for row in rows if self.view.share(row)]
        for gpu in sorted({self.view.gpu_of(row) for row in shares}):
            there[tuple(row for row in shares if self.view.gpu_of(row) == gpu)] = 1  # they go together
        useful = [
            own for own in there if all(row in movable or self.may_evict(row, cluster.row) for row in own)
        ]
        keyed = {own: max(map(self.order, own)) for own in useful}
        pause, takes = self.view.cost, self.takes(cluster.row)
        best: Offer | None = None
        for count in range(1, len(useful) + 1):
            for chosen in itertools.combinations(useful, count):
                if sum(there[own] for own in chosen) < lacks:
                    continue
                leaving = tuple(row for own in chosen for row in own)
                evicted = [self.view.gpus(row) for row in leaving if row not in movable]
                # One product for all, so that equal sums are equal floats.
                many = len(evicted) + sum(evicted) / 1000
                cost = pause * (len(leaving) - len(evicted)) + (pause + takes) * many
                keys = tuple(sorted((keyed[own] for own in chosen), reverse=True))
                if best is None or (cost, len(leaving)) < (best.cost, len(best.rows)):
                    better = True
                else:
                    better = (cost, len(leaving)) == (best.cost, len(best.rows)) and keys > best.keys
                if better:
                    best = Offer(server, leaving, frozenset(movable), cost, keys)
        if best is not None:
            yield best

    def movable(self, cluster: ClusterCopy, server: int, row: int) -> bool:
        return (
            not self.stays_put(row, cluster.row)
            and len(cluster.parts[row]) == 1
            and self.rem(row) > self.view.cost
            and any(idle >= self.view.gpus(row) for s, idle in cluster.idle.items() if s != server)
        )

    def attempt(self, cluster: ClusterCopy, offer: Offer, need: int) -> ClusterCopy | None:
        opened = set()
        for row in offer.rows:
            for server, gpus in cluster.parts.pop(row):
                gpu = self.view.gpu_of(row) if self.view.share(row) else None
                cluster.idle[server] += 0 if gpu in opened else gpus
                opened |= {gpu} - {None}
        cluster.mine += cluster.take(offer.server, need)
        for row in sorted(offer.rows, key=lambda row: (self.view.gpus(row), self.order(row)), reverse=True):
            gpus = self.view.gpus(row)
            roomy = [(idle, s) for s, idle in cluster.idle.items() if idle >= gpus]
            if row in offer.movable and roomy:
                cluster.moved[row] = cluster.take(min(roomy)[1], gpus)
            elif self.may_evict(row, cluster.row):
                cluster.evicted.append(row)
            else:
                return None
        return cluster
