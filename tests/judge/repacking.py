"""What repack decides: whose turn it is, and whether waiting costs more than a plan (docs/repack.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from judge.clock import whole_slots
from judge.deciding import WAITED, UnclearError
from judge.floor import Floor
from judge.given import WHOLE, Given, Stay
from judge.placing import Parts
from judge.plans import Order, Plan, Planner, freed, in_order, reaches
from judge.predicting import Predictor
from judge.ranked import COST, Ranking
from judge.stays import Spell
from judge.work import Worker

GRACE: Final = 5.0
"""Seconds that are added to what a wait is held against."""
Grade = tuple[int, int]
"""(0 within its quota or 1 as a guest, the less the higher its priority)."""
Size = tuple[int, int]
"""Thousandths that a job asks for, and the type where it asks for them."""


class Repacking(Ranking):
    """repack. ran: who has run before. aside: seconds that a trial was at rungs; since: from when on it is.

    Of one pass, left: run time left by job where it was recorded, without pauses; told: the same, known or
    predicted; grade: who goes before whom; urgent: whether urgent jobs have their turns; failed: sizes;
    passed: D of the page, by type; stopped: who was in the turn that is.
    """

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        self.slot = None if given.model == "table" else given.slot
        self.cost = whole_slots(given.cost("preempt_cost"), self.slot)
        self.all = sum(sum(sizes.values()) for sizes in floor.sizes.values())
        self.largest = max(max(sizes.values()) for sizes in floor.sizes.values())
        exact = given.options.get("predict") == "exact"
        self.predictor = None if exact else Predictor(given.jobs.submit, given.jobs.user)
        self.ran: set[int] = set()
        self.aside: dict[int, float] = {}
        self.since: dict[int, float] = {}
        self.sizes: dict[int, int] = {}
        self.left: dict[int, float] = {}
        self.told: dict[int, float] = {}
        self.asked: tuple[object, Counter[int]] = None, Counter()
        self.grade: dict[int, Grade] = {}
        self.failed: set[Size] = set()
        self.passed: dict[int, int] = {}
        self.stopped: list[int] = []
        self.limit, self.urgent = 0.0, False
        self.slept: Sequence[Spell] = ()
        """When servers slept."""

    # What the book says.

    def enter(self, job: int) -> None:
        """A job waits from now on."""
        super().enter(job)
        if job in self.since:
            self.aside[job] = self.aside.get(job, 0.0) + self.time - self.since.pop(job)

    def began(self, stay: Stay) -> None:
        """A stay has begun."""
        super().began(stay)
        self.ran.add(stay.job)

    def _over(self, stay: Stay) -> None:
        super()._over(stay)
        self._ends(stay)

    def passed_by(self, stay: Stay) -> None:
        """One that took no time came and went."""
        super().passed_by(stay)
        self._ends(stay)
        if self.predictor is not None:
            self.predictor.passed()

    def _ends(self, stay: Stay) -> None:
        self.ran.add(stay.job)
        if stay.ended == "rung":
            self.since[stay.job] = stay.end
        if stay.ended == "done" and self.predictor is not None:
            self.predictor.completed(stay.end, stay.job, self.size(stay.job), self.jobs.ideal[stay.job])

    def unseen(self) -> None:
        """It has decided, and nobody looked."""
        super().unseen()
        if self.predictor is not None:
            self.predictor.passed()

    def rests(self) -> bool:
        """Where nobody waits."""
        return not self.places

    # A job's figures, now.

    def size(self, job: int) -> int:
        """Thousandths of a GPU that a job asks for."""
        found = self.sizes.get(job)
        if found is None:
            found = self.sizes[job] = self.jobs.gpus[job] * self.jobs.units(job)
        return found

    def counted(self, job: int) -> float:
        """w of the page."""
        gpus = self.size(job) / WHOLE
        return min(gpus, self.largest) if self.predictor is None and 2.0 * gpus > self.all else gpus

    def left_of(self, job: int) -> float:
        """Run time left where it was recorded, without pauses."""
        left = self.left.get(job)
        if left is None:
            left, done = self.jobs.ideal[job], self.worked(job)
            if done:
                fixed = self.given.model == "fixed"
                part = left - done if fixed else left * (1.0 - done / self.worker.speeds.work(job))
                left = max(0.0, part)
            self.left[job] = left
        return left

    def known(self, job: int) -> float:
        """The same, known or predicted."""
        found = self.told.get(job)
        if found is None:
            found = self.left_of(job)
            if self.predictor is not None:
                found = self.predictor.left(job, self.size(job), self.jobs.ideal[job] - found)
            self.told[job] = found
        return found

    def rest(self, job: int) -> float:
        """What counts of the pause of a job that holds GPUs."""
        standing = self.standing.get(job)
        if standing is None:
            return 0.0
        if standing.start < self.time:
            return min(self.cost, max(0.0, self.running[job].begin - self.time))
        stopped = self.touched.get(job, WAITED).standing is not None
        name = "move_cost" if stopped else "preempt_cost" if job in self.ran else "start_cost"
        seconds = (
            float(self.given.options.get(name) or 0.0) if name == "start_cost" else self.given.cost(name)
        )
        servers = {server for server, _ in self.floor.held[job]}
        if any(spell.server in servers and spell.since < self.time <= spell.until for spell in self.slept):
            seconds += float(self.given.options.get("wake_time", 0.0))
        return min(self.cost, whole_slots(seconds, self.slot))

    def rem(self, job: int) -> float:
        """rem of the page."""
        return self.known(job) + self.rest(job)

    def takes(self, job: int) -> float:
        """r of the page."""
        return self.rem(job) + (self.cost if job in self.ran else 0.0)

    def order(self, job: int) -> Order:
        """By key, ties fifo."""
        return self.counted(job) * self.rem(job), self._tier(job), self.fifo[job]

    def _unpaused(self, job: int) -> Order:
        """The same without the rest of a pause: along it quotas are counted."""
        return self.counted(job) * self.known(job), self._tier(job), self.fifo[job]

    def _by_strain(self, job: int) -> tuple[float, int]:
        return -self.strain(job), self.fifo[job]

    def is_exact(self, job: int) -> bool:
        """Whether its key is known to the last bit: a prediction is, and what is left of whole seconds."""
        return self.predictor is not None or self._has_exact_left(job)

    def _has_exact_strain(self, job: int) -> bool:
        return self.predictor is None or self._has_exact_left(job)

    def _has_exact_left(self, job: int) -> bool:
        return not self.worked(job) or (self.given.model == "fixed" and self.left_of(job).is_integer())

    def _is_urgent(self, job: int) -> bool:
        strain = self.strain(job)
        if strain == self.limit and not self._has_exact_strain(job):
            raise UnclearError
        return reaches(strain, self.limit)

    def _tier(self, job: int) -> int:
        return -self.jobs.priority[job] if self.jobs.priority is not None else 0

    def strain(self, job: int) -> float:
        """strain of the page."""
        whole = self.jobs.ideal[job]
        span = whole if self.predictor is None else max(0.0, whole - self.left_of(job))
        return (self.time - self.jobs.submit[job] - self.aside.get(job, 0.0)) / (span + GRACE)

    def stays(self, job: int) -> float:
        """How long a job that holds GPUs stays there."""
        own = self.floor.of[self.floor.held[job][0][0]]
        return self.known(job) * self.floor.room.slower(job, own) + self.rest(job)

    def may_evict(self, job: int, winner: int) -> bool:
        """Whether a job is evictable for another."""
        if self.stays_put(job, winner):
            return False
        if self.grade[job] != self.grade[winner]:
            return self.grade[job] > self.grade[winner]
        if self.urgent:
            return reaches(self.strain(winner), 2.0 * self.strain(job))
        if not reaches(self.limit, 2.0 * self.strain(job)):
            return False
        own = self.floor.of[self.floor.held[job][0][0]]
        first = self.size(winner)
        beside = self.size(job) - first
        wanted = sum(size * count for size, count in self._asked(own).items() if size <= beside)
        wanted += 0 if first <= beside else first
        work = min(self.counted(job), wanted / WHOLE) * max(0.0, self.rem(job) - self.cost)
        return not reaches(self.counted(winner) * self.takes(winner), work)

    def _asked(self, own: int) -> Counter[int]:
        """How many of those that wait, and may use a type, ask for how much."""
        key = own, len(self.place), len(self.touched), self.floor.changes
        if self.asked[0] != key:
            self.floor.looks += len(self.place)
            sizes = Counter(self.size(job) for job in self.place if own in self.floor.tries(job))
            self.asked = key, sizes
        return self.asked[1]

    def stays_put(self, job: int, winner: int) -> bool:
        """Whether a job is protected, and no guest in the way of one within its quota."""
        return self.is_protected(job) and not self.grade[job][0] > self.grade[winner][0]

    # A pass.

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """One pass, if somebody waits."""
        if not self.places:
            return
        jobs = [*self.standing, *self.place]
        self.floor.looks += len(jobs)
        self.left.clear()
        self.told.clear()
        if self.predictor is not None:
            self.predictor.begin()
        self.limit = max(16.0, 4.0 * sum(map(self.size, jobs)) / WHOLE / self.all)
        self.grade = self._grades(jobs)
        for job in sorted(self.standing.keys() - self.grade.keys(), key=self.fifo.__getitem__):
            self.stop(job)
        urgent = {job for job in self.place if self._is_urgent(job)}
        self.failed.clear()
        self.passed.clear()
        for grade in sorted(set(self.grade.values())):
            self._relieve([job for job in urgent if self.grade.get(job) == grade])
            self._walk(grade)

    def stop(self, job: int, by: int | None = None) -> None:
        """It gives its GPUs back, and waits."""
        super().stop(job, by)
        self.stopped.append(job)

    def _grades(self, jobs: list[int]) -> dict[int, Grade]:
        """Who goes before whom; whoever may not run is left out."""
        if not self.quotas:
            return {job: (0, self._tier(job)) for job in jobs}
        ranked = sorted(in_order(jobs, self._unpaused, self.is_exact), key=self._tier)
        within, guests = self.by_owner(self.firm(ranked))
        return {job: (0, self._tier(job)) for job in within} | {job: (1, self._tier(job)) for job in guests}

    def _relieve(self, urgent: list[int]) -> None:
        """Lets the urgent jobs of a grade run."""
        self.urgent = True
        failed: set[Size] = set()
        for job in in_order(urgent, self._by_strain, self._has_exact_strain):
            if job in self.place and not self._helped(job, failed):
                self._make_way(job)

    def _helped(self, job: int, failed: set[Size]) -> bool:
        """Whether an urgent job runs, at its place or by a plan."""
        sizes = [(self.size(job), own) for own in self.floor.tries(job)]
        if failed.issuperset(sizes):
            return False
        if self._placed(job):
            return True
        for size in sizes:
            if size not in failed:
                if self.strays():
                    raise UnclearError
                plan = Planner(self, job, size[1]).plan()
                if plan is not None:
                    self._carry_out(plan)
                    return True
                failed.add(size)
        return False

    def _walk(self, grade: Grade) -> None:
        """The waiting jobs of a grade by key. Who waits again too late for its turn has none."""
        self.urgent = False
        walk = in_order(
            (job for job in self.place if self.grade.get(job) == grade), self.order, self.is_exact
        )
        self.floor.looks += COST * len(walk)
        at = 0
        while at < len(walk):
            job = walk[at]
            at += 1
            self.stopped.clear()
            own = self.order(job)
            if not self._turn(job):
                for kind in self.floor.tries(job):
                    self.passed[kind] = self.passed.get(kind, 0) + self.size(job)
            for other in self.stopped:
                if other not in self.place:
                    continue
                if self.order(other)[0] == own[0] and not (self.is_exact(other) and self.is_exact(job)):
                    raise UnclearError
                if (
                    self.grade[other] == grade
                    and reaches(self.order(other)[0], own[0])
                    and self.order(other) > own
                ):
                    walk[at:] = in_order((*walk[at:], other), self.order, self.is_exact)

    def _turn(self, job: int) -> bool:
        """Lets a job run, if that may be. False where it is passed over."""
        size = self.size(job)
        types = [own for own in self.floor.tries(job) if (size, own) not in self.failed]
        if types and self._placed(job):
            return True
        for own in types:
            if self.strays():
                raise UnclearError
            planner = Planner(self, job, own)
            wait = max(self._own_place(planner), self._all_gpus(planner))
            if reaches(wait, 2.0 * self.cost):
                plan = planner.plan()
                if plan is None:
                    self.failed.add((size, own))
                elif self._pays(plan, wait):
                    self._carry_out(plan)
                    return True
        return self._make_way(job)

    def _placed(self, job: int) -> bool:
        """Starts a job where its placement puts it; whether it can."""
        parts = self.placed(job)
        if parts is not None:
            self.start(job, parts, over=bool(self.quotas) and self.over_quota(job))
        return parts is not None

    def _make_way(self, job: int) -> bool:
        """Starts a job, but no guest, by eviction as priorities and quotas have it."""
        if not (self.evicts or self.quotas) or self.grade[job][0] > 0 or self.over_quota(job):
            return False
        parts = self.make_room(job)
        if parts is not None:
            self.start(job, parts)
        return parts is not None

    def _carry_out(self, plan: Plan) -> None:
        for job in (*plan.evicted, *plan.moved):
            self.stop(job)
        for job, parts in ((plan.job, sorted(plan.mine)), *plan.moved.items()):
            self.start(job, self._sites(parts), over=bool(self.quotas) and self.over_quota(job))

    def _sites(self, parts: Parts) -> Parts:
        """The lowest empty GPUs of servers, where jobs may share one."""
        if not self.floor.shared:
            return parts
        rooms = self.floor.rooms[self.floor.of[parts[0][0]]]
        return [site for server, gpus in parts for site in rooms.empty(server, gpus)]

    def _pays(self, plan: Plan, wait: float) -> bool:
        evictions = len(plan.evicted)
        pauses = self.cost * (evictions + len(plan.moved))
        if len(self.place) == 1 and not reaches(wait, pauses + self.takes(plan.job) * evictions):
            return False
        return reaches(wait / 2.0, pauses)

    # How long waiting takes.

    def _own_place(self, planner: Planner) -> float:
        """T_own of the page."""
        gpus, sizes, largest = self.jobs.gpus[planner.job], planner.sizes, planner.largest
        if gpus <= largest:
            return min(planner.reaches(server, gpus) for server, size in sizes.items() if size >= gpus)
        times = sorted(planner.reaches(server, size) for server, size in sizes.items() if size == largest)
        needed = math.ceil(gpus / largest)
        return times[needed - 1] if needed <= len(times) else math.inf

    def _all_gpus(self, planner: Planner) -> float:
        """T_all of the page."""
        own, floor = planner.own, self.floor
        idle = floor.rooms[own].left() if floor.shared else WHOLE * floor.pools[own].total
        wanted = self.passed.get(own, 0) + self.size(planner.job) - idle
        return freed(((self.stays(other), self.size(other)) for other in planner.parts), wanted)
