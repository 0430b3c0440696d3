"""What a policy decides that resizes jobs: numbers first, then places (docs/elastic-policies.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from judge.clock import boundary
from judge.deciding import Fault, UnclearError
from judge.doubts import Doubts
from judge.filling import Line, Piece, Profile
from judge.floor import Floor
from judge.given import WHOLE, Given, Stay
from judge.giving import Giver
from judge.queue import fifo
from judge.ranked import COST
from judge.trying import WORK, Trying
from judge.work import Worker

RESIZING: Final = ("afs", "optimus", "elastic-srtf", "elasticflow")
SHORTEST: Final = ("afs", "elastic-srtf")
"""Those whose base begins with the least remaining run time."""
COARSE: Final = 1e-6
"""Seconds between neighbouring times from which on elasticflow's fillings are not known."""


class Plan(NamedTuple):
    """How many GPUs each job is to have, and of which type.

    order: those that run or wait as they stand in the base, where some may make room. within: those of them
    that are within their quotas. left: what each owner who may not borrow may still get.
    """

    number: dict[int, int]
    draws: dict[int, int]
    order: list[int]
    within: set[int]
    left: dict[str, int]


class Resizing(Trying):
    """A policy that resizes. refused: jobs by the instant at which they came and were not let in."""

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        self.period = given.options.get("interval")
        self.ticks = self._ticks(stays)
        self.age = float(given.options["resize_every"])
        self.flow = self.name == "elasticflow"
        # A replica that starts as the run ends is in no table.
        self.known_until = math.inf if given.services is None else max(stay.end for stay in stays)
        self.kinds: dict[int, tuple[object, ...]] = {}
        self.fresh: list[tuple[float, int]] = []
        self.woken: list[tuple[float, int]] = []
        self.here: set[int] = set()
        missing = self._missing(stays) if self.flow else []
        self.fifo = {job: at for at, job in enumerate(fifo(given, [*self.fifo, *missing]))}
        self.gone: dict[int, int] = {}
        """GPUs that those held whom others have evicted in this pass."""
        self.refused = [(boundary(given.jobs.submit[job], given.slot), job) for job in missing]

    def _missing(self, stays: list[Stay]) -> list[int]:
        """Jobs of this cluster without a stay that had a deadline and could have run."""
        jobs, there = self.jobs, {stay.job for stay in stays}
        return [
            job
            for job in range(len(jobs.gpus))
            if job not in there
            and jobs.in_vc(job) == jobs.in_vc(stays[0].job)
            and self.deadline(job) < math.inf
            and self.floor.tries(job)
            and self._fits_quota(job)
        ]

    def _fits_quota(self, job: int) -> bool:
        """Whether it does not ask for more than its owner may ever hold."""
        most, borrows = self.quotas.get(self.owner(job) or "", (0, True))
        return borrows or self.jobs.gpus[job] <= most

    # What the book says.

    def moments(self) -> Sequence[tuple[float, int]]:
        """The ticks, and when jobs came that were refused."""
        return [*super().moments(), *self.refused]

    def due(self, job: int) -> bool:
        """A tick, or a job that is refused."""
        if job >= 0:
            self.fresh.append((self.time, job))
        elif self.running or self.place:
            self.stirred = self.time
        return True

    def blind(self) -> bool:
        """Also where deadlines are so late that float64 knows them to a microsecond at best."""
        return super().blind() or (self.flow and math.ulp(self.time) > COARSE)

    def enter(self, job: int) -> None:
        """A job waits."""
        super().enter(job)
        if job not in self.here:
            self.here.add(job)
            self.fresh.append((self.time, job))
        elif self.flow and self.given.searched:
            self.woken.append((self.time, job))

    def stop(self, job: int, by: int | None = None) -> None:
        """It gives its GPUs back, and waits."""
        if by is not None:
            self.gone[job] = self.floor.count(self.floor.held[job])
        super().stop(job, by)

    def needs(self, job: int) -> int:
        """min_gpus."""
        return self.least(job)

    # What is known of it.

    def kind(self, job: int) -> tuple[object, ...] | None:
        """Of a job that has done nothing: what it shares with others that are as fast."""
        if self.worked(job):
            return None
        if job not in self.kinds:
            self.kinds[job] = self.rates.kind(job)
        return self.kinds[job]

    def deadline(self, job: int) -> float:
        """Infinite where it has none."""
        said = self.jobs.deadline[job] if self.jobs.deadline is not None else None
        return math.inf if said is None or math.isnan(said) else said

    def unit(self, job: int) -> int:
        """Thousandths of each of its GPUs that it takes."""
        return self.floor.share(job) or WHOLE

    def _capacity(self) -> dict[int, int]:
        """Thousandths of GPUs of each type."""
        return {own: WHOLE * gpus for own, gpus in self.floor.capacity.items()}

    def young(self, job: int) -> bool:
        """Whether a job that runs keeps its GPUs."""
        return self.time - self.running[job].start < self.age

    # The base.

    def base(self, jobs: Sequence[int], doubts: Doubts) -> list[int]:
        """Jobs in the order of the base."""
        priority, fifo = self.jobs.priority, self.fifo
        level = {job: -priority[job] if priority is not None else 0 for job in jobs}
        if self.name not in SHORTEST:
            due = {job: self.deadline(job) if self.flow else 0.0 for job in jobs}
            return sorted(jobs, key=lambda job: (level[job], due[job], fifo[job]))
        remaining = {job: self.reckoned(job, self.worked(job)) for job in jobs}
        ranked = sorted(jobs, key=lambda job: (level[job], remaining[job], fifo[job]))
        slack = {job: self._slack(job, remaining[job]) for job in jobs}
        order: list[int] = []
        top = -math.inf
        near: list[int] = []
        for job in ranked:
            if near and (level[job] != level[near[0]] or remaining[job] - slack[job] > top):
                order += self._mixed(near, remaining, slack, doubts)
                near, top = [], -math.inf
            near.append(job)
            top = max(top, remaining[job] + slack[job])
        return order + self._mixed(near, remaining, slack, doubts)

    def _slack(self, job: int, remaining: float) -> float:
        """How far a remaining run time may be off; recorded durations are exact."""
        if self.worked(job):
            return WORK * self.worker.speeds.estimate(job)
        return 0.0 if self.given.model == "fixed" else 1e-13 * remaining

    def _mixed(
        self, near: list[int], key: dict[int, float], slack: dict[int, float], doubts: Doubts
    ) -> list[int]:
        """Jobs whose keys are near each other in one of the orders in which they may be."""
        if len(near) < 2:
            return near
        # Those whose order is sure stand in one line.
        lines: dict[object, list[int]] = {}
        for job in reversed(near):
            lines.setdefault((job if self.worked(job) else self.kind(job)) if slack[job] else (), []).append(
                job
            )
        order: list[int] = []
        while lines:
            top = min(key[line[-1]] + slack[line[-1]] for line in lines.values())
            able = [name for name, line in lines.items() if key[line[-1]] - slack[line[-1]] <= top]
            able.sort(key=lambda name: (key[lines[name][-1]], self.fifo[lines[name][-1]]))
            name = able[doubts.choose(len(able))]
            order.append(lines[name].pop())
            if not lines[name]:
                del lines[name]
        return order

    # Numbers.

    def numbers(self, doubts: Doubts) -> Plan:
        """How many GPUs each job that takes part gets."""
        kept = [job for job in self.running if self.young(job)]
        part = [job for job in self.running if not self.young(job)] + list(self.place)
        self.floor.looks += COST * (len(part) + len(kept))
        free = self._capacity()
        for job in kept:
            free[self.drawn(job)[0]] -= self.running[job].gpus * self.unit(job)
        order, guests, left = self.base(part, doubts), list[int](), dict[str, int]()
        everybody, within = order, set[int]()
        if self.evicts or self.quotas:
            ranked = self.base([*part, *kept], doubts)
            place = {job: at for at, job in enumerate(ranked)}
            everybody, guests = (
                sorted(jobs, key=place.__getitem__) for jobs in self.by_owner(self.firm(ranked))
            )
            within = set(everybody)
            everybody = everybody + guests
            there = set(part)
            order = [job for job in everybody if job in there]
            left = {owner: most for owner, (most, borrows) in self.quotas.items() if not borrows}
        plan = Plan(
            dict.fromkeys(part, 0), {job: self.drawn(job)[0] for job in part}, everybody, within, left
        )
        for job in kept:
            self._spend(plan, job, self.running[job].gpus)
        tried: dict[int, Sequence[int]] = {}
        groups = [
            [job for job in order if job not in set(guests)],
            [job for job in order if job in set(guests)],
        ]
        if self.flow:
            tried = self._reserve(groups, kept, plan, free, doubts)
        for job in [*self.firm(groups[0]), *self.firm(groups[1])]:
            least = self.least(job)
            if plan.number[job] or self._room(plan, job) < least:
                continue
            units = least * self.unit(job)
            own = next((own for own in tried.get(job, self.drawn(job)) if free[own] >= units), None)
            if own is not None:
                plan.number[job], plan.draws[job] = least, own
                free[own] -= units
                self._spend(plan, job, least)
        for own, units in sorted(free.items()):
            jobs = [job for job in order if plan.number[job] and plan.draws[job] == own]
            self._rest(own, jobs, plan, units // WHOLE, doubts)
        return plan

    def _rest(self, own: int, jobs: list[int], plan: Plan, free: int, doubts: Doubts) -> None:
        """Gives out the whole GPUs that are left of a type."""
        if free <= 0 or not jobs:
            return
        giver = Giver(self.rates, own, jobs, plan.number)
        giver.left, giver.kind = self.left, self.kind
        caps, before = giver.caps(self.most, doubts), dict(plan.number)
        useful = sum(caps[job] - plan.number[job] for job in jobs)
        if useful <= free:
            plan.number.update(caps)
        elif self.name == "afs":
            self.floor.looks += giver.by_pairs(free, caps, doubts)
        else:
            self.floor.looks += COST * free
            giver.by_gain(free, caps, self.fifo, doubts)
        if plan.left:
            self._within_quotas(giver, before, plan, doubts, free=free, caps=caps)

    def _within_quotas(
        self,
        giver: Giver,
        before: dict[int, int],
        plan: Plan,
        doubts: Doubts,
        *,
        free: int,
        caps: dict[int, int],
    ) -> None:
        """If an owner who may not borrow has got too much, gives all out once more, a GPU at a time."""
        used = self._used(giver.order, before, plan)
        if any(gpus > plan.left[owner] for owner, gpus in used.items()):
            plan.number.update(before)

            def may(job: int) -> bool:
                owner = self.owner(job)
                used = self._used(giver.order, before, plan)
                return owner not in used or used[owner] < plan.left[owner]

            if self.name == "afs":
                self.floor.looks += giver.by_pairs(free, caps, doubts, may)
            else:
                self.floor.looks += giver.one_by_one(free, caps, self.fifo, may)
            used = self._used(giver.order, before, plan)
        for owner, gpus in used.items():
            plan.left[owner] -= gpus

    def _used(self, jobs: Sequence[int], before: dict[int, int], plan: Plan) -> dict[str, int]:
        """What each owner who may not borrow got of late."""
        used = dict.fromkeys(plan.left, 0)
        for job in jobs:
            owner = self.owner(job)
            if owner in used:
                used[owner] += plan.number[job] - before[job]
        return used

    def _room(self, plan: Plan, job: int) -> float:
        """What its owner may still get."""
        owner = self.owner(job)
        return math.inf if owner is None else plan.left.get(owner, math.inf)

    def _spend(self, plan: Plan, job: int, gpus: int) -> None:
        owner = self.owner(job)
        if owner in plan.left:
            plan.left[owner] -= gpus

    # ElasticFlow.

    def _lines(self, order: Sequence[int]) -> list[Line]:
        return [
            Line(job, self.least(job), self.most(job), due, self.drawn(job), self.unit(job), *self.left(job))
            for job in order
            if (due := self.deadline(job)) < math.inf
        ]

    def _profile(self, doubts: Doubts) -> Profile:
        return Profile(self.time, self._capacity(), self.rates.of, doubts)

    def _reserve(
        self, groups: list[list[int]], kept: list[int], plan: Plan, free: dict[int, int], doubts: Doubts
    ) -> dict[int, Sequence[int]]:
        """Numbers of those that need GPUs now for their deadline. Returns who draws on which type alone.

        groups: those within their quotas, and guests. Of the former the protected have min_gpus before all.
        """
        profile = self._profile(doubts)
        for job in kept:
            profile.take(self._until_done(job, self.running[job].gpus))
        tried: dict[int, Sequence[int]] = {}
        for job in groups[0]:
            if self.is_protected(job):
                self._grant(plan, job, self.least(job), free)
        for group in groups:
            firm = {job: self._until_done(job, self.least(job)) for job in group if self.is_protected(job)}
            for piece in firm.values():
                profile.take(piece)
            for job, pieces in profile.fill(self._lines(group), firm).items():
                if pieces:
                    plan.draws[job] = pieces[0].own
                    tried[job] = (pieces[0].own,)
                    asked = sum(piece.units for piece in pieces if piece.start == self.time) // self.unit(job)
                    more = int(min(max(0, asked - plan.number[job]), self._room(plan, job)))
                    if plan.number[job] + more >= self.least(job):
                        self._grant(plan, job, more, free)
        self.floor.looks += profile.looks
        return tried

    def _until_done(self, job: int, gpus: int) -> Piece:
        """What a job takes that keeps so many GPUs until it is done."""
        own = self.drawn(job)[0]
        rate = self.rates.of(job, own, gpus)
        end = self.time + self.left(job)[0] / rate if rate > 0.0 else math.inf
        return Piece(own, self.time, end, gpus * self.unit(job))

    def _grant(self, plan: Plan, job: int, gpus: int, free: dict[int, int]) -> None:
        plan.number[job] += gpus
        free[plan.draws[job]] -= gpus * self.unit(job)
        self._spend(plan, job, gpus)

    def admits(self, job: int, others: Sequence[int], doubts: Doubts) -> bool:
        """Whether a job that comes now is in time, and nobody is late because of it."""
        before, after = self._profile(doubts), self._profile(doubts)
        without = before.fill(self._lines(self.base(others, doubts)))
        found = after.fill(self._lines(self.base([*others, job], doubts)))
        self.floor.looks += before.looks + after.looks
        return found[job] is not None and all(
            found[other] is not None for other, pieces in without.items() if pieces is not None
        )

    def _admit(self) -> None:
        """Compares who is let in of those that come now."""
        fresh = sorted((job for time, job in self.fresh if time == self.time), key=self.fifo.__getitem__)
        self.fresh.clear()
        others = [*self.running, *(job for job in self.place if job not in fresh)]
        # A trial may go on because of who is refused now, and so have rested until then.
        woken = {job for time, job in self.woken if time == self.time}
        self.woken.clear()
        known_to_wait = [others] + ([[job for job in others if job not in woken]] if woken else [])
        for job in fresh:
            let = job in self.place
            known = self.time < self.known_until
            if (
                known
                and self.deadline(job) < math.inf
                and not any(self.possible(partial(self._lets, job, own, let=let)) for own in known_to_wait)
            ):
                said = "waits, though the policy refuses it" if let else "is refused, though it could wait"
                self.refusals.append(Fault("order", job, self.time, said))
            for own in known_to_wait if let else ():
                own.append(job)

    def _lets(self, job: int, others: list[int], doubts: Doubts, *, let: bool) -> bool:
        return self.admits(job, others, doubts) == let

    # A pass.

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """One pass: numbers, then places."""
        sure = self.happened()
        if self.flow:
            refused = any(time == self.time and job not in self.place for time, job in self.fresh)
            late = refused and any(time == self.time for time, _ in self.woken)
            self._admit()
            if late:
                raise UnclearError  # who goes on because of a refusal comes after this pass
        if not (self.running or self.place) or not (sure or out or come):
            return
        self.attempt(lambda doubts: self._place(self.numbers(doubts)), out, come)

    def _place(self, plan: Plan) -> None:
        """Those whose number changes give all back, and are placed, the largest first."""
        held = {job: self.floor.count(self.floor.held[job]) for job in plan.number if job in self.floor.held}
        changed = sorted(
            (job for job, number in plan.number.items() if number != held.get(job, 0)),
            key=lambda job: (-plan.number[job], self.fifo[job]),
        )
        firm = [job for job in changed if plan.number[job] and self.is_protected(job)]
        for job in changed:
            if job in held and job not in firm:
                self.stop(job)
        for job in sorted(firm, key=lambda job: plan.number[job] > held[job]):
            parts = self.floor.held[job]
            self.stop(job)
            self._start_down(job, plan.number[job], plan.draws[job])
            if job in self.place:  # no room for that: it keeps its own
                self.start(job, parts)
        for job in changed:
            if plan.number[job] and job not in firm:
                self._start_down(job, plan.number[job], plan.draws[job])
        if (self.evicts or self.quotas) and self.place:
            self._make_way(plan)

    def _start_down(self, job: int, most: int, *types: int) -> None:
        """Starts a job on so many GPUs, or on as many fewer as it takes."""
        for gpus in range(most, self.least(job) - 1, -1):
            for own in types if not self.passed_over(job, gpus) else ():
                self.floor.looks += 1
                parts = self.floor.choose(own, job, gpus)
                if parts is not None:
                    self.floor.redraw(job, parts)
                    self.start(job, parts, over=self.over_quota(job, gpus))
                    return

    def _make_way(self, plan: Plan) -> None:
        """Those that wait still make room for themselves, one after the other."""
        if self.lost:
            raise UnclearError  # where nobody knows who is where
        monotone = not (self.floor.literal and self.floor.name in ("lbsgf", "sjf-bco"))
        in_vain: set[tuple[int, Sequence[int], int]] = set()
        self.gone.clear()
        for job in plan.order:
            if job in self.place:
                self._start_down(job, self.gone.get(job, self.least(job)), *self.floor.tries(job))
            if job not in self.place or job not in plan.within or self.over_quota(job):
                continue
            priority = self.jobs.priority[job] if self.jobs.priority is not None else 0
            like = self.needs(job), self.floor.tries(job), priority
            if monotone and like in in_vain:
                continue
            self.floor.looks += COST * len(self.standing)
            parts = self.make_room(job)
            if parts is None:
                in_vain.add(like)
            else:
                self.start(job, parts)
        for job in plan.order:
            if job in self.place and job in self.gone:
                self._start_down(job, self.gone[job], *self.floor.tries(job))
