"""What a queue decides: order, discipline, aging, backfilling (docs/policies.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from judge.clock import boundary
from judge.deciding import Deciding, Fault, Standing, UnclearError
from judge.floor import Floor
from judge.given import Given, Stay
from judge.placing import Parts
from judge.windows import Windows, near
from judge.work import Worker

ROUNDING: Final = 1e-13
"""By so much, relative, two ways of working a key out may differ."""
NOBODY: Final = -1
"""Stands for no job: a server comes back."""


def fifo(given: Given, jobs: Sequence[int], *, ties: bool = True) -> list[int]:
    """Jobs by priority, submission and ties; without ties by priority, submission and row."""
    own = given.jobs
    priority, tied = own.priority, own.tied if ties else None
    if priority is None and tied is None:
        return sorted(jobs, key=lambda job: (own.submit[job], job))
    return sorted(
        jobs,
        key=lambda job: (
            -priority[job] if priority is not None else 0,
            own.submit[job],
            tied[job] if tied is not None else job,
            job,
        ),
    )


class Queue(Deciding):
    """A queue that lets jobs run to their end. aged: the places of those that have waited too long.

    stuck: the first place of a strict queue for whose job there was no room, as the floor was then.
    """

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker)
        self.factor = float(given.options.get("estimate_factor", 1.0))
        self.limits = given.jobs.limit if given.options.get("estimate") == "limit" else None
        self.past: dict[int, list[Stay]] = {}
        for stay in stays if self.limits is not None else ():
            self.past.setdefault(stay.job, []).append(stay)
        self.windows = Windows(given, floor)
        self.drawn = floor.rng
        """The random numbers once a job starts that has just been placed."""
        jobs = sorted({stay.job for stay in stays})
        order = fifo(given, jobs)
        self.aged = {job: place for place, job in enumerate(order)}
        keys, priority = self._keys(jobs, stays), given.jobs.priority
        level = {job: -priority[job] if priority is not None else 0 for job in jobs}
        ranked = sorted(order, key=lambda job: (level[job], keys[job])) if any(keys.values()) else order
        self.young = {job: len(jobs) + place for place, job in enumerate(ranked)}
        self.doubtful = self._doubtful(ranked, keys, level)
        self.stuck = -1, -1
        self.aging: dict[int, float] = {}
        if given.options.get("aging") is not None:
            after = float(given.options["aging"])
            self.aging = {job: boundary(given.jobs.submit[job] + after, given.slot) for job in jobs}

    def _doubtful(
        self, ranked: list[int], keys: dict[int, float], level: dict[int, int]
    ) -> dict[int, list[int]]:
        """By job: those beside it whose estimate is the same but for rounding, of other figures."""
        if self.given.options["order"] != "sjf" or self.given.model == "fixed":
            return {}
        own, found = self.jobs, dict[int, list[int]]()
        columns = (own.iterations, own.gradient, own.compute, own.gpus, own.model, own.recorded)

        def figures(job: int) -> list[object]:
            return [None if column is None else column[job] for column in columns]

        for one, other in pairwise(ranked):
            near = abs(keys[one] - keys[other]) <= ROUNDING * abs(keys[other])
            if near and level[one] == level[other] and figures(one) != figures(other):
                found.setdefault(one, []).append(other)
                found.setdefault(other, []).append(one)
        return found

    def _keys(self, jobs: list[int], stays: list[Stay]) -> dict[int, float]:
        """What the queue is ordered by, least first."""
        name, own = str(self.given.options["order"]), self.jobs
        if name == "sjf":
            return {job: self.worker.speeds.estimate(job) for job in jobs}
        if name == "smallest":
            return {job: float(own.gpus[job]) for job in jobs}
        if name == "qssf":
            if self.given.options.get("predict") == "exact":
                return {job: own.duration[job] * own.gpus[job] * own.weight(job) for job in jobs}
            return self._predicted(jobs, stays)
        if own.column is not None:
            return {job: own.column[job] for job in jobs}
        return dict.fromkeys(jobs, 0.0)

    def _predicted(self, jobs: list[int], stays: list[Stay]) -> dict[int, float]:
        """QSSF: the mean duration of the jobs done when a job comes, times its GPUs.

        Of the same user and size, else of the same user, else of all; 0 before any. Those done at one instant
        count in fifo order, as sums of floats depend on it. What takes no time is done after the others come.
        """
        own, users = self.jobs, self.jobs.user
        came = {stay.job: stay.since for stay in reversed(stays) if stay.number == 0}
        ends = sorted(
            (stay.end, stay.start == stay.end and stay.number == 0, self.aged[stay.job], stay.job)
             for stay in stays if stay.ended == "done"
        )  # fmt: skip
        known: dict[object, tuple[float, int]] = {}
        predicted = dict.fromkeys(jobs, 0.0)
        at = 0
        for job in sorted(jobs, key=came.__getitem__):
            while (
                at < len(ends) and ends[at][0] <= came[job] and not (ends[at][1] and ends[at][0] == came[job])
            ):
                other = ends[at][3]
                at += 1
                user = users[other] if users is not None else None
                for key in ((user, own.gpus[other]), (user,), ()):
                    total, count = known.get(key, (0.0, 0))
                    known[key] = total + own.duration[other], count + 1
            user = users[job] if users is not None else None
            for key in ((user, own.gpus[job]), (user,), ()):
                if key in known:
                    total, count = known[key]
                    predicted[job] = total / count * (own.gpus[job] * own.weight(job))
                    break
        return predicted

    def place_of(self, job: int) -> int:
        """The place of a job, which ages at its moment."""
        return (self.aged if self.time >= self.aging.get(job, math.inf) else self.young)[job]

    def moments(self) -> Sequence[tuple[float, int]]:
        """When jobs age."""
        return [(time, job) for job, time in self.aging.items()]

    def due(self, job: int) -> bool:
        """It ages, if it waits."""
        waits = job in self.place
        if waits:
            self.leave(job)
            self.enter(job)
        return waits

    def early(self, job: int, where: str, waiting: list[int]) -> Fault:
        """It has overtaken somebody, or is where its placement finds no room."""
        first = min((*self.place, *waiting), key=self.place_of, default=job)
        head = first if self.place_of(first) < self.place_of(job) else None
        if head is None or (self.discipline == "skip" and not waiting):
            return Fault("placement", job, self.time, f"holds {where}, where the placement finds no room")
        name = self.jobs.id[head]
        if self.discipline == "easy" and not waiting:
            end = f"{self._estimated_end(job, self.before(job), self.time):.12g}"
            said = (
                f"overtakes job {name}, which could start at {self._shadow(head):.12g} s by the estimates;"
                f" expected it to end by then or to leave room, not to last until {end} s"
            )
            return Fault("reservation", job, self.time, said)
        aged = self.place_of(head) == self.aged[head] and self.aging
        since = f"after {self.given.options['aging']:.12g} s of waiting is" if aged else "is"
        said = f"starts before job {name}, which {since} ahead of it in the queue and waits"
        return Fault("order", job, self.time, said)

    # A pass.

    def rests(self) -> bool:
        """Where nobody waits, or the first still finds no room."""
        first = self.places.after(-1)
        return first < 0 or (first, self.floor.changes) == self.stuck

    def lets(self, stay: Stay) -> bool:
        """Where nobody waits and no quota counts, as is so of most."""
        job = stay.job
        if self.places or self.quotas or self.lost or self.windows.all:
            return False
        parts = self.floor.find(job)
        if parts is None or parts != self.parts(stay):
            return False
        self.floor.looks += 1
        self.floor.redraw(job, parts)
        self._hold(job, parts)
        self.standing[job] = Standing(stay.start, stay.start + stay.pause, False, self.done.get(job, 0.0))
        return True

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """One pass over those that wait: each has one turn, those evicted meanwhile if theirs is to come."""
        head: int | None = None
        floor = self.floor
        turn, places = -1, self.places
        # Where U counts, one that starts may make room for what found none before.
        overtakes = self.discipline != "strict" and not floor.by_use and not self.windows.all
        failed: set[object] = set()
        self.shadow: float | None = None
        while (turn := places.after(turn)) >= 0:
            job = self.job_at[turn]
            floor.looks += 1
            if self.quotas and self.passed_over(job):
                continue
            if job in self.doubtful and any(other in self.place for other in self.doubtful[job]):
                raise UnclearError
            # The same as one for which there was no room: as most are where many wait and jobs overtake.
            asks = (self.jobs.gpus[job], floor.share(job), floor.tries(job)) if overtakes else None
            parts = None if asks in failed else self._found(job, floor.find)
            if parts is not None:
                if head is None or self._harmless(job, parts, head):
                    self._begin(job, parts)
                continue
            if overtakes:
                failed.add(asks)
            if head is None:
                if (self.evicts or self.quotas) and self._evicts(job):
                    failed.clear()
                elif self.discipline == "strict":
                    if not (self.evicts or self.quotas):
                        self.stuck = turn, floor.changes
                    return
                elif self.discipline == "easy":
                    head = job

    def _found(self, job: int, find: Callable[[int], Parts | None]) -> Parts | None:
        """What is found for a job, which does not see servers that go down before it ends by its estimate."""
        if not self.windows.all:
            return self.as_said(job, find(job)) if find == self.floor.find else find(job)
        end = self._estimated_end(job, self.before(job), self.time)
        with self.floor.without(self.windows.met(self.time, self.time, end)):
            parts = find(job)
            if find == self.floor.find:
                parts = self.as_said(job, parts)
            if parts is not None:
                self.drawn = self.floor.redrawn(job, parts)
        return parts

    def _evicts(self, job: int) -> bool:
        """Whether a job that cannot be placed gets room from others."""
        if self.over_quota(job):
            return False
        parts = self._found(job, self.make_room)
        if parts is not None:
            self.start(job, parts)
        return parts is not None

    def placed(self, job: int) -> Parts | None:
        """Where the placement puts a job; the random numbers go on if it finds a place."""
        parts = self._found(job, self.floor.find)
        if parts is not None:
            self._redraw(job, parts)
        return parts

    def _redraw(self, job: int, parts: Parts) -> None:
        if self.windows.all:
            self.floor.rng = self.drawn  # they were drawn where those are hidden that it does not see
        else:
            self.floor.redraw(job, parts)

    def _begin(self, job: int, parts: Parts) -> None:
        self._redraw(job, parts)
        self.start(job, parts, over=bool(self.quotas) and self.over_quota(job))

    # Backfilling.

    def near(self, one: float, other: float) -> bool:
        """Whether rounding may have made two estimated ends of one."""
        return near(self.time, one, other)

    def _end(self, job: int) -> float:
        standing = self.standing[job]
        return self._estimated_end(job, standing.before, standing.start)

    def _estimated_end(self, job: int, before: float, start: float) -> float:
        """Of a stay that begins at `start`, before which so much was done."""
        return start + self.estimate(job, before, start)

    def estimate(self, job: int, before: float, time: float) -> float:
        """Seconds that a job takes from an instant on, before which so much was done.

        Where limits say it, a job without one runs for ever.
        """
        if self.limits is not None:
            held = math.fsum(stay.end - stay.start for stay in self.past[job] if stay.end <= time)
            return max(0.0, self.limits[job] - held)
        return self.factor * self.reckoned(job, before)

    def _shadow(self, head: int) -> float:
        """When the head could be placed if nothing else started and no server changed."""
        ends: list[tuple[float, int]] = [(self._end(job), job) for job in self.standing]
        ends += [(up, NOBODY) for up in self.windows.ends(self.time)]
        ends.sort()
        found, gone, floor = math.inf, [], self.floor
        floor.looks += len(ends)
        try:
            for at, (end, job) in enumerate(ends):
                if job != NOBODY:
                    gone.append((job, floor.held[job], floor.on.get(job)))
                    floor.give(job)
                after = ends[at + 1][0] if at + 1 < len(ends) else math.inf
                if self.near(end, after):
                    raise UnclearError
                if after != end and self._then(end, head):
                    found = end
                    break
        finally:
            for job, parts, gpus in gone:
                floor.back(job, parts, gpus)
        return found

    def _harmless(self, job: int, parts: Parts, head: int) -> bool:
        """Over before the head's shadow time, or not in its way then."""
        if self.shadow is None:
            self.shadow = self._shadow(head)
        shadow = self.shadow
        end = self._estimated_end(job, self.before(job), self.time)
        if self.near(end, shadow):
            raise UnclearError
        if end <= shadow:
            return True
        gone = [other for other in self.standing if self._end(other) <= shadow]
        self.floor.looks += len(self.standing)
        load = dict(self.floor.load)
        self.floor.take(job, parts)
        fits = self._without(gone, lambda: self._then(shadow, head) or None)
        self.floor.give(job)
        self.floor.load = load
        return fits

    def _then(self, time: float, head: int) -> bool:
        """Whether there is room for the head at an instant to come, on servers up for its whole estimate."""
        if not self.windows.all:
            return self.floor.find(head) is not None
        then = max(time, self.time)
        end = then + self.estimate(head, self.before(head), self.time)
        shut, back = self.windows.met(self.time, then, end), self.windows.over(self.time, time)
        with self.floor.without(shut, back):
            return self.floor.find(head) is not None
