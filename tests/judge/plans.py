"""Who would have to move or wait so that a job finds GPUs, of the least cost (docs/repack.md, "A plan")."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Final, NamedTuple, Protocol

from judge.deciding import UnclearError
from judge.floor import Floor
from judge.given import Jobs
from judge.placing import Parts
from judge.windows import CLOSE

Order = tuple[float, int, int]
"""(key, the less the higher its priority, place by submission)."""
TRIED: Final = 3
"""Offers that are tried for one need."""
MANY: Final = 12
"""Jobs of a server of which every set is looked at."""


def reaches(one: float, other: float) -> bool:
    """Whether `one` is at least `other`. Unclear where rounding decides."""
    if (
        one != other
        and math.inf not in (one, other)
        and abs(one - other) <= CLOSE * max(abs(one), abs(other))
    ):
        raise UnclearError
    return one >= other


def in_order(
    jobs: Iterable[int], key: Callable[[int], tuple[float, ...]], exact: Callable[[int], bool]
) -> list[int]:
    """Jobs by keys, the least first. Unclear where rounding decides of the first part of two of them.

    exact: whether the first part of a job's key is known to the last bit.
    """
    found = sorted((key(job), job) for job in jobs)
    for (one, job), (other, after) in pairwise(found):
        reaches(other[0], one[0])
        if one[0] == other[0] and not (exact(job) and exact(after)):
            raise UnclearError
    return [job for _, job in found]


def freed(running: Iterable[tuple[float, int]], wanted: int) -> float:
    """When jobs that leave after so many seconds have given back so much."""
    if wanted <= 0:
        return 0.0
    for time, size in sorted(running):
        wanted -= size
        if wanted <= 0:
            return time
    return math.inf


class Rules(Protocol):
    """What a plan asks of repack: the figures of docs/repack.md, and c, s."""

    floor: Floor
    jobs: Jobs
    cost: float

    def rem(self, job: int) -> float:
        """rem of the page."""

    def takes(self, job: int) -> float:
        """r of the page."""

    def stays(self, job: int) -> float:
        """How long a job that holds GPUs stays there."""

    def order(self, job: int) -> Order:
        """By key, ties fifo."""

    def is_exact(self, job: int) -> bool:
        """Whether its key is known to the last bit."""

    def may_evict(self, job: int, winner: int) -> bool:
        """Whether a job is evictable for another."""

    def stays_put(self, job: int, winner: int) -> bool:
        """Whether a job may not even move for another."""


class Offer(NamedTuple):
    """Jobs that a server loses. movable: those that may move. keys: theirs, the greatest first."""

    server: int
    jobs: tuple[int, ...] = ()
    movable: frozenset[int] = frozenset()
    cost: float = 0.0
    keys: tuple[Order, ...] = ()


@dataclass
class Plan:
    """For `job`: its GPUs by server, those that move and where, those that wait again.

    idle: GPUs by server once it is carried out. parts: of those that it left alone. taken: servers of which
    it took GPUs.
    """

    job: int
    idle: dict[int, int]
    parts: dict[int, Parts]
    taken: set[int] = field(default_factory=set)
    mine: Parts = field(default_factory=list)
    moved: dict[int, Parts] = field(default_factory=dict)
    evicted: list[int] = field(default_factory=list)

    def again(self) -> Plan:
        """The same, to be changed."""
        return Plan(**{name: copy(value) for name, value in vars(self).items()})

    def take(self, server: int, gpus: int) -> Parts:
        """Takes idle GPUs of a server."""
        self.idle[server] -= gpus
        self.taken.add(server)
        return [(server, gpus)]


class Planner:
    """Of one GPU type. sizes: GPUs of its servers. idle: those that nobody holds. parts: of jobs, by server.

    on: the GPU of which a job has a share.
    """

    def __init__(self, rules: Rules, job: int, own: int) -> None:
        self.rules, self.job, self.own = rules, job, own
        floor = rules.floor
        self.sizes = floor.sizes[own]
        self.largest = max(self.sizes.values())
        self.parts: dict[int, Parts] = {}
        self.on: dict[int, int] = {}
        for other, held in floor.held.items():
            if floor.of[held[0][0]] != own:
                continue
            if not floor.shared:
                self.parts[other] = held
                continue
            servers = [server for server, _ in held]
            self.parts[other] = [(server, servers.count(server)) for server in dict.fromkeys(servers)]
            if floor.share(other):
                self.on[other] = held[0][1]
        if floor.shared:
            rooms = floor.rooms[own]
            self.idle = {server: len(rooms.empty(server, size)) for server, size in self.sizes.items()}
        else:
            self.idle = {server: floor.pools[own].idle[server] for server in self.sizes}
        self.there: dict[int, dict[int, int]] = {server: {} for server in self.sizes}
        """By server: the GPUs that each job holds there."""
        for other, parts in self.parts.items():
            for server, gpus in parts:
                self.there[server][other] = gpus
        floor.looks += len(self.sizes) + len(self.parts)

    def reaches(self, server: int, wanted: int) -> float:
        """When the GPUs of a server that are idle or freed are so many."""
        gpus: dict[int, float] = {}
        leaving = []
        for job, count in self.there[server].items():
            time = self.rules.stays(job)
            if job in self.on:
                gpus[self.on[job]] = max(time, gpus.get(self.on[job], 0.0))
            else:
                leaving.append((time, count))
        return freed([*leaving, *((time, 1) for time in gpus.values())], wanted - self.idle[server])

    def plan(self) -> Plan | None:
        """The plan, if there is one."""
        gpus = self.rules.jobs.gpus[self.job]
        whole, rest = divmod(gpus, self.largest)
        needs = [gpus] if gpus <= self.largest else [self.largest] * whole + [rest] * (rest > 0)
        plan: Plan | None = Plan(self.job, dict(self.idle), dict(self.parts))
        for need in needs:
            plan = plan and self._meet(plan, need)
        return plan

    def _meet(self, plan: Plan, need: int) -> Plan | None:
        """The plan, once it has so many GPUs of one more server."""
        offers = [
            offer
            for server, size in self.sizes.items()
            if size >= need and server not in plan.taken
            for offer in self._offer(plan, server, need)
        ]

        def rank(offer: Offer) -> tuple[float, int, float, int]:
            return offer.cost, len(offer.jobs), -offer.keys[0][0] if offer.keys else 0.0, offer.server

        offers.sort(key=rank)
        for one, other in pairwise(offers[: TRIED + 1]):
            reaches(other.cost, one.cost)
            if rank(one)[:2] == rank(other)[:2]:
                reaches(rank(other)[2], rank(one)[2])
                if rank(one)[2] == rank(other)[2] and not all(
                    map(self.rules.is_exact, one.jobs + other.jobs)
                ):
                    raise UnclearError
        for offer in offers[:TRIED]:
            after = self._attempt(plan.again(), offer, need)
            if after is not None:
                return after
        return None

    def _offer(self, plan: Plan, server: int, need: int) -> Iterator[Offer]:
        """The jobs that a server loses at the least cost to have so many GPUs, if there are such."""
        lacks, rules = need - plan.idle[server], self.rules
        if lacks <= 0:
            yield Offer(server)
            return
        rows = {job: gpus for job, gpus in self.there[server].items() if job in plan.parts}
        movable = frozenset(job for job in rows if job not in self.on and self._moves(plan, server, job))
        # Those that hold a GPU together go together.
        groups: dict[tuple[int, ...], int] = {
            (job,): gpus for job, gpus in rows.items() if job not in self.on
        }
        sharing: dict[int, list[int]] = {}
        for job in rows:
            if job in self.on:
                sharing.setdefault(self.on[job], []).append(job)
        groups |= {tuple(jobs): 1 for jobs in sharing.values()}
        may = {job: job in movable or rules.may_evict(job, plan.job) for job in rows}
        useful = [own for own in groups if all(may[job] for job in own)]
        if sum(groups[own] for own in useful) < lacks:
            return
        if len(useful) > MANY:
            raise UnclearError
        in_order((job for own in useful for job in own), rules.order, rules.is_exact)
        keyed = {own: max(map(rules.order, own)) for own in useful}
        takes = rules.takes(plan.job)
        best: Offer | None = None
        for count in range(1, len(useful) + 1):
            for chosen in combinations(useful, count):
                if sum(groups[own] for own in chosen) < lacks:
                    continue
                rules.floor.looks += 1
                jobs = tuple(job for own in chosen for job in own)
                evicted = [rules.jobs.gpus[job] for job in jobs if job not in movable]
                many = len(evicted) + sum(evicted) / 1000.0
                cost = rules.cost * (len(jobs) - len(evicted)) + (rules.cost + takes) * many
                keys = tuple(sorted((keyed[own] for own in chosen), reverse=True))
                offer = Offer(server, jobs, movable, cost, keys)
                if best is None or _is_better(offer, best):
                    best = offer
        if best is not None:
            yield best

    def _moves(self, plan: Plan, server: int, job: int) -> bool:
        """Whether a job may move to another server."""
        rules, gpus = self.rules, self.rules.jobs.gpus[job]
        if rules.stays_put(job, plan.job) or len(plan.parts[job]) != 1:
            return False
        if not any(idle >= gpus for other, idle in plan.idle.items() if other != server):
            return False
        return not reaches(rules.cost, rules.rem(job))

    def _attempt(self, plan: Plan, offer: Offer, need: int) -> Plan | None:
        """The plan with an offer, if all of its jobs may go."""
        rules, opened = self.rules, set[int]()
        for job in offer.jobs:
            for server, gpus in plan.parts.pop(job):
                plan.idle[server] += 0 if self.on.get(job, -1) in opened else gpus
            if job in self.on:
                opened.add(self.on[job])
        plan.mine += plan.take(offer.server, need)

        def size(job: int) -> tuple[float, ...]:
            return (-rules.jobs.gpus[job], *(-part for part in rules.order(job)))

        in_order(offer.jobs, rules.order, rules.is_exact)
        for job in sorted(offer.jobs, key=size):
            gpus = rules.jobs.gpus[job]
            roomy = [(idle, server) for server, idle in plan.idle.items() if idle >= gpus]
            if job in offer.movable and roomy:
                plan.moved[job] = plan.take(min(roomy)[1], gpus)
            elif rules.may_evict(job, plan.job):
                plan.evicted.append(job)
            else:
                return None
        return plan


def _is_better(one: Offer, other: Offer) -> bool:
    """Whether an offer is taken instead of another of its server."""
    if one.cost != other.cost:
        return not reaches(one.cost, other.cost)
    if len(one.jobs) != len(other.jobs):
        return len(one.jobs) < len(other.jobs)
    for own, its in zip(one.keys, other.keys, strict=False):
        if own != its:
            return reaches(own[0], its[0]) and own > its
    return len(one.keys) > len(other.keys)
