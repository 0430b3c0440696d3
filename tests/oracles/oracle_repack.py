"""The slow truth of `repack`: a policy of one's own, straight from docs/repack.md.

Nothing is kept between two passes but how long a job runs, when its pause ends, when the next look is due,
and what the predictions say that they keep. Of a server's jobs every set is looked at. The engine carries the
decisions out: oracle_preempt.py is the truth about that part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ringbco
from oracle_predictions import Predictions

TRIED = 3
"""Offers that are tried for one need."""

Parts = list[tuple[int, int]]


@dataclass(frozen=True)
class Offer:
    """What a server loses so that a job finds GPUs on it."""

    server: int
    rows: tuple[int, ...]
    movable: frozenset[int]
    cost: float
    keys: tuple[tuple[float, int], ...]
    """(key, place in fifo order) of its rows, the greatest first."""

    @property
    def rank(self) -> tuple[float, int, float, int]:
        greatest = self.keys[0][0] if self.keys else 0.0
        return self.cost, len(self.rows), -greatest, self.server


@dataclass
class Floor:
    """A copy of the servers, on which a plan for the job `row` is worked out."""

    row: int
    idle: dict[int, int]
    parts: dict[int, Parts]
    """Of the jobs that may still be sent away; a job that was sent away is in `moved` or `evicted`."""
    taken: set[int] = field(default_factory=set)
    mine: Parts = field(default_factory=list)
    moved: dict[int, Parts] = field(default_factory=dict)
    evicted: list[int] = field(default_factory=list)

    def copy(self) -> Floor:
        return Floor(
            self.row,
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


class Repack(ringbco.Policy):
    """`repack` from scratch at each pass.

    tau: by row, seconds per iteration on the fewest servers without contention; 1 under `fixed`.
    cost: `--preempt-cost` in seconds, under the slot clock that of whole slots.
    predictions: of what is left of a job; None where that is known.
    """

    clairvoyant = True

    def __init__(self, tau: NDArray[np.float64], cost: float, predictions: Predictions | None = None) -> None:
        self.tau = tau
        self.cost = cost
        self.predictions = predictions
        self.resumes: dict[int, float] = {}
        """When the pause of a running job ends."""
        self.ran: set[int] = set()
        self.whole: dict[int, float] = {}
        """S of the page."""
        self.changed = False
        """Whether somebody came or went since the last pass."""
        self.next = math.inf
        """When the next pass is due if nothing happens."""

    def decide(self, state: Any) -> None:
        self.state = state
        self.look()
        self.before = self.parts
        for row in state.completed:
            self.resumes.pop(int(row), None)
        left = state.left * self.tau
        self.whole |= {int(row): float(left[row]) for row in state.arrived}
        self.changed |= len(state.arrived) + len(state.completed) > 0
        if self.predictions is not None:
            self.predictions.news(state.completed)
        if len(state.waiting) and (self.changed or state.now >= self.next):
            self.changed = False
            self.one_pass()
            self.look_again()
        for row in self.parts:
            self.resumes[row] = self.resume(row)
        self.ran |= set(self.parts)
        del self.state

    def look(self) -> None:
        """Who runs where."""
        self.parts = {int(row): self.state.parts(row) for row in self.state.running}

    def resume(self, row: int) -> float:
        """When the pause ends of a job that runs now."""
        if self.parts[row] == self.before.get(row):
            return self.resumes[row]  # as if it had never left
        return float(self.state.now) + (self.cost if row in self.ran else 0.0)

    # A job's figures, now.

    def gpus(self, row: int) -> int:
        return int(self.state.jobs.num_gpus[row])

    def rem(self, row: int) -> float:
        left = self.left[row] if self.predictions is None else self.predictions.left(row)
        return left + self.rest[row]

    def weight(self, row: int) -> int:
        """w of the page."""
        gpus = self.gpus(row)
        known = self.predictions is None
        return min(gpus, max(self.sizes.values())) if known and 2 * gpus > sum(self.sizes.values()) else gpus

    def key(self, row: int) -> float:
        return self.weight(row) * self.rem(row)

    def takes(self, row: int) -> float:
        """r of the page."""
        return self.rem(row) + (self.cost if row in self.ran else 0.0)

    def order(self, row: int) -> tuple[float, int]:
        """By key, then fifo."""
        return self.key(row), self.fifo[row]

    def strain(self, row: int) -> float:
        """strain of the page."""
        return (self.state.now - self.state.jobs.submit_time[row]) / (self.yardstick(row) + 5)

    def wanted(self, row: int, winner: int) -> int:
        """GPUs of `row` that count if `winner` takes its place: num_gpus + others of the page."""
        beside = self.gpus(row) - self.gpus(winner)
        others = [self.gpus(other) for other in map(int, self.state.waiting) if other != winner]
        return self.gpus(winner) + sum(gpus for gpus in others if gpus <= beside)

    def yardstick(self, row: int) -> float:
        """span of the page."""
        return self.whole[row] if self.predictions is None else max(0.0, self.whole[row] - self.left[row])

    # One pass.

    def look_again(self) -> None:
        """Asks for the next pass if nothing happens."""
        now, submit = self.state.now, self.state.jobs.submit_time
        due = [submit[row] + 16 * (self.yardstick(row) + 5) for row in map(int, self.state.waiting)]
        times = [time for time in due if time > now]
        if any(time <= now for time in due):
            times.append(now + max(60.0, 1e-4 * (now - min(due))))
        self.next = max(min(times, default=math.inf), math.nextafter(now, math.inf))
        if self.next < math.inf:
            self.state.wake(self.next)

    def one_pass(self) -> None:
        state = self.state
        rows = [*self.parts, *map(int, state.waiting)]
        submit = state.jobs.submit_time
        self.fifo = {row: n for n, row in enumerate(sorted(rows, key=lambda row: (submit[row], row)))}
        self.rest = {row: max(0.0, self.resumes[row] - state.now) for row in self.parts}
        self.rest |= {int(row): 0.0 for row in state.waiting}
        left = state.left * self.tau
        self.left = {row: float(left[row]) for row in rows}
        if self.predictions is not None:
            self.predictions.begin(self.left)
        own = None if state.vc is None else state.jobs.vc[state.waiting[0]]
        sizes = enumerate(map(int, state.gpus))
        self.sizes = {s: size for s, size in sizes if own is None or state.vc[s] == own}
        limit = max(16.0, 4 * sum(map(self.gpus, rows)) / sum(self.sizes.values()))
        self.relieve(limit)
        self.may_evict = lambda row, winner: (
            2 * self.strain(row) <= limit
            and min(self.weight(row), self.wanted(row, winner)) * max(0.0, self.rem(row) - self.cost)
            > self.weight(winner) * self.takes(winner)
        )
        failed: set[int] = set()
        passed = 0  # D of the page
        walk = [int(row) for row in state.waiting]
        while walk:
            row = min(walk, key=self.order)
            walk.remove(row)
            if self.gpus(row) not in failed and state.start([row]):
                self.started([row])
            elif self.gpus(row) not in failed and (wait := self.wait(row, passed)) >= 2 * self.cost:
                plan = self.plan(row)
                if plan is None:
                    failed.add(self.gpus(row))
                if plan is not None and self.pays(plan, wait):
                    self.carry_out(plan)
                    walk += plan.evicted
                else:
                    passed += self.gpus(row)
            else:
                passed += self.gpus(row)

    def relieve(self, limit: float) -> None:
        """Lets the urgent jobs run. limit: the strain from which on they are."""
        self.may_evict = lambda row, winner: 2 * self.strain(row) <= self.strain(winner)
        urgent = [row for row in map(int, self.state.waiting) if self.strain(row) >= limit]
        failed: set[int] = set()
        for row in sorted(urgent, key=lambda row: (-self.strain(row), self.fifo[row])):
            if self.gpus(row) in failed:
                continue
            if self.state.start([row]):
                self.started([row])
            elif (plan := self.plan(row)) is not None:
                self.carry_out(plan)
            else:
                failed.add(self.gpus(row))

    def started(self, rows: Iterable[int]) -> None:
        """Anew, or elsewhere: a first start has no pause, even if the job moves in the same pass."""
        self.look()
        for row in rows:
            self.rest[row] = max(0.0, self.resume(row) - self.state.now)

    def carry_out(self, plan: Floor) -> None:
        self.state.stop([*plan.evicted, *plan.moved])
        for row in plan.evicted:
            self.rest[row] = 0.0
        self.state.start(plan.row, plan.mine)
        for row, parts in plan.moved.items():
            self.state.start(row, parts)
        self.started([plan.row, *plan.moved])

    def pays(self, plan: Floor, wait: float) -> bool:
        evictions, moves = len(plan.evicted), len(plan.moved)
        pauses = self.cost * (evictions + moves)
        alone = len(self.state.waiting) == 1
        if alone and pauses + self.takes(plan.row) * evictions > wait:
            return False
        return pauses <= wait / 2

    def wait(self, row: int, passed: int) -> float:
        """T of the page."""
        return max(self.wait_for_place(row), self.wait_for_gpus(row, passed))

    def wait_for_place(self, row: int) -> float:
        """T_own of the page."""
        wanted, largest = self.gpus(row), max(self.sizes.values())
        if wanted <= largest:
            return min(self.reaches(s, wanted) for s, size in self.sizes.items() if size >= wanted)
        times = sorted(self.reaches(s, size) for s, size in self.sizes.items() if size == largest)
        needed = math.ceil(wanted / largest)
        return times[needed - 1] if needed <= len(times) else math.inf

    def reaches(self, server: int, wanted: int) -> float:
        """When the GPUs of the server that are idle or freed reach `wanted`."""
        idle = int(self.state.idle[server])
        there = [
            (self.rem(row), gpus) for row, parts in self.parts.items() for s, gpus in parts if s == server
        ]
        return self.freed(there, wanted - idle)

    def wait_for_gpus(self, row: int, passed: int) -> float:
        """T_all of the page."""
        everybody = [(self.rem(other), self.gpus(other)) for other in self.parts]
        return self.freed(everybody, passed + self.gpus(row) - int(self.state.idle.sum()))

    @staticmethod
    def freed(running: list[tuple[float, int]], wanted: int) -> float:
        """When jobs that are done after so many seconds have given back `wanted` GPUs."""
        if wanted <= 0:
            return 0.0
        for time, gpus in sorted(running):
            wanted -= gpus
            if wanted <= 0:
                return time
        return math.inf

    # A plan.

    def plan(self, row: int) -> Floor | None:
        idle = {s: int(self.state.idle[s]) for s in self.sizes}
        floor: Floor | None = Floor(row, idle, dict(self.parts))
        whole, rest = divmod(self.gpus(row), largest := max(self.sizes.values()))
        needs = [self.gpus(row)] if self.gpus(row) <= largest else [largest] * whole + [rest] * (rest > 0)
        for need in needs:
            floor = floor and self.meet(floor, need)
        return floor

    def meet(self, floor: Floor, need: int) -> Floor | None:
        offers = [
            offer
            for server, size in self.sizes.items()
            if size >= need and server not in floor.taken
            for offer in self.offer(floor, server, need)
        ]
        for offer in sorted(offers, key=lambda offer: offer.rank)[:TRIED]:
            if (after := self.attempt(floor.copy(), offer, need)) is not None:
                return after
        return None

    def offer(self, floor: Floor, server: int, need: int) -> Iterator[Offer]:
        lacks = need - floor.idle[server]
        if lacks <= 0:
            yield Offer(server, (), frozenset(), 0.0, ())
            return
        there = {row: dict(parts)[server] for row, parts in floor.parts.items() if server in dict(parts)}
        movable = {row for row in there if self.movable(floor, server, row)}
        useful = [row for row in there if row in movable or self.may_evict(row, floor.row)]
        best: Offer | None = None
        for count in range(1, len(useful) + 1):
            for rows in itertools.combinations(useful, count):
                if sum(there[row] for row in rows) < lacks:
                    continue
                cost = self.price(floor.row, [row for row in rows if row not in movable], count)
                keys = tuple(sorted(map(self.order, rows), reverse=True))
                if best is None or (cost, count) < (best.cost, len(best.rows)):
                    better = True
                else:
                    better = (cost, count) == (best.cost, len(best.rows)) and keys > best.keys
                if better:
                    best = Offer(server, rows, frozenset(movable), cost, keys)
        if best is not None:
            yield best

    def movable(self, floor: Floor, server: int, row: int) -> bool:
        return (
            len(floor.parts[row]) == 1
            and self.rem(row) > self.cost
            and any(idle >= self.gpus(row) for s, idle in floor.idle.items() if s != server)
        )

    def price(self, winner: int, evicted: list[int], count: int) -> float:
        """What a set of `count` jobs costs. One product for all, so that equal sums are equal floats."""
        shares = len(evicted) + sum(map(self.gpus, evicted)) / 1000
        return self.cost * (count - len(evicted)) + (self.cost + self.takes(winner)) * shares

    def attempt(self, floor: Floor, offer: Offer, need: int) -> Floor | None:
        for row in offer.rows:
            for server, gpus in floor.parts.pop(row):
                floor.idle[server] += gpus
        floor.mine += floor.take(offer.server, need)
        for row in sorted(offer.rows, key=lambda row: (self.gpus(row), self.order(row)), reverse=True):
            gpus = self.gpus(row)
            roomy = [(idle, s) for s, idle in floor.idle.items() if idle >= gpus]
            if row in offer.movable and roomy:
                floor.moved[row] = floor.take(min(roomy)[1], gpus)
            elif self.may_evict(row, floor.row):
                floor.evicted.append(row)
            else:
                return None
        return floor
