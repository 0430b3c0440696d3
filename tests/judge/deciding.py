"""A pass of a policy: who waits, starting and stopping jobs, making room (docs/priorities.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from judge.floor import Floor
from judge.given import Given, Stay
from judge.idle import PACKING
from judge.places import Places
from judge.placing import Parts
from judge.protection import Protection
from judge.work import Worker


class Fault(NamedTuple):
    """A decision that the policy does not make. what: order, idle, reservation, placement or evictions."""

    what: str
    job: int
    time: float
    says: str


class UnclearError(Exception):
    """The book alone does not tell what is decided."""


class Standing(NamedTuple):
    """A job on GPUs. begin: when its pause is over.

    over: whether its owner held more than a quota then; None where that hangs on who started before whom.
    """

    start: float
    begin: float
    over: bool | None = False
    before: float = 0.0
    """Work done before this stay, in units."""


class Before(NamedTuple):
    """How a job stood before a pass touched it."""

    parts: Parts | None
    standing: Standing | None


WAITED: Final = Before(None, None)


class Deciding:
    """Jobs of one (virtual) cluster, who of them waits, and a pass over them.

    places: of those that wait, in order; job_at: whose each is. touched: how those stood before the pass that
    a pass started or stopped. evictors: for whom it stopped which. refusals: whom it refuses, or does not,
    unlike the book. done: work that was done before. parting: in the stays that end in this pass.
    follows: whether the placement goes by all that was placed before; lost: whether the
    book no longer tells that.
    """

    def __init__(self, given: Given, floor: Floor, worker: Worker) -> None:
        self.given, self.floor, self.worker, self.jobs = given, floor, worker, given.jobs
        self.places = Places()
        self.job_at: dict[int, int] = {}
        self.place: dict[int, int] = {}
        self.standing: dict[int, Standing] = {}
        self.touched: dict[int, Before] = {}
        self.evictors: dict[int, int] = {}
        self.refusals: list[Fault] = []
        self.owned: dict[str, int] = {}
        self.done: dict[int, float] = {}
        self.parting: dict[int, float] = {}
        self.said: dict[int, Parts] = {}
        """What the book says of those that start now."""
        self.muddled = False
        """Whether a replica came at an instant of which the book does not tell who ran in between."""
        self.discipline = str(given.options["queue"])
        self.time = 0.0
        # Where jobs share GPUs nobody knows which a replica holds.
        self.lost = floor.shared and given.services is not None
        self.lost |= not floor.known
        self.follows = floor.by_use or floor.name == "random"
        self.evicts, self.quotas = bool(given.options.get("evict")), given.quotas or {}
        self.protection = Protection(given)
        self.opened = -math.inf
        """The latest instant at which a protection ended and somebody waited."""

    # Who waits.

    def place_of(self, job: int) -> int:
        """The place of a job in the queue now; no two have the same."""
        return job

    def enter(self, job: int) -> None:
        """A job waits from now on."""
        if job not in self.place:
            self.place[job] = place = self.place_of(job)
            self.job_at[place] = job
            self.places.add(place)

    def leave(self, job: int) -> None:
        """It waits no more."""
        if job in self.place:
            self.places.remove(self.place.pop(job))

    def moments(self) -> Sequence[tuple[float, int]]:
        """When to call `due`, and of which job."""
        return ()

    def due(self, job: int) -> bool:
        """A moment has come; whether that is a reason to decide."""
        return True

    # Who is protected.

    def is_protected(self, job: int) -> bool:
        """Whether a job that runs is not stopped for others."""
        standing = self.standing.get(job)
        if standing is not None and standing.start == self.time:  # unless it stands for a protected one
            standing = self.touched.get(job, WAITED).standing
        return standing is not None and self.protection.until(job, standing.start) > self.time

    def firm(self, jobs: Sequence[int]) -> list[int]:
        """Those that are protected go first."""
        if not self.protection.is_on:
            return list(jobs)
        return sorted(jobs, key=lambda job: not self.is_protected(job))

    def opens(self) -> bool:
        """Whether a protection ends now, and somebody waits."""
        ends = any(self.protection.until(job, own.start) == self.time for job, own in self.standing.items())
        if ends and self.places:
            self.opened = self.time
        return self.opened == self.time

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """Carries out what the policy decides now; beside it what the book says.

        Where nobody knows the policy, what is left is where a job goes that is alone in starting.
        Raises UnclearError where the book does not tell what is decided.
        """
        if out or len(come) > 1 or self.given.resizes or self.given.decides:
            raise UnclearError
        for stay in come:
            parts = self.placed(stay.job)
            if parts is None:
                raise UnclearError
            self.start(stay.job, parts)

    def rests(self) -> bool:
        """Whether there is nothing to decide at an instant at which nobody starts or stops."""
        return False

    def lets(self, stay: Stay) -> bool:
        """Starts a job that has come now, alone, and starts; whether it is known that this is right."""
        return False

    def unseen(self) -> None:
        """It has decided, and nobody looked."""

    def forget(self) -> None:
        """What it decided so far of this instant is not sure."""
        for job in self.touched:
            standing = self.standing.get(job)
            if standing is not None and standing.start == self.time and self.owner(job) is not None:
                self.standing[job] = standing._replace(over=None)

    def look(self) -> None:
        """An instant has come; all is known but what the policy decides."""

    def looked(self) -> Sequence[Fault]:
        """What is wrong once all is as the book says, whatever the policy decided."""
        return ()

    def fails(self) -> bool:
        """Whether the placement may find no room on as many idle GPUs as a job asks for."""
        least_busy = self.floor.literal and self.floor.name in ("lbsgf", "sjf-bco")
        return self.floor.name in PACKING or least_busy

    def blind(self) -> bool:
        """Whether nothing can be said of what it decides now.

        Where U, or the random numbers, are not known, who finds room is, unless the placement may find none.
        """
        return self.lost and (self.fails() or self.floor.shared or not self.floor.known)

    def agrees(self, found: Parts | None, right: Parts | None) -> bool:
        """Whether a job may hold what the book says, though the policy gives it what was found."""
        if not self.lost or found is None or right is None:
            return found == right
        return self._as_many(found, right)

    def _as_many(self, one: Parts, other: Parts) -> bool:
        """Whether these are as many GPUs of the same type."""
        same = self.floor.of[one[0][0]] == self.floor.of[other[0][0]]
        return same and self.floor.count(one) == self.floor.count(other)

    def strays(self) -> bool:
        """Whether it is not known where jobs are that have started at this pass, and may be elsewhere yet."""
        held = self.floor.held
        return self.lost and any(
            held.get(job) not in (None, before.parts) for job, before in self.touched.items()
        )

    def as_said(self, job: int, parts: Parts | None) -> Parts | None:
        """The GPUs found for a job; where nobody knows which, those on which the book starts it."""
        said = self.said.get(job)
        if not self.lost or parts is None or said is None or not self._as_many(parts, said):
            return parts
        room = all(self.floor.pools[self.floor.of[server]].idle[server] >= gpus for server, gpus in said)
        return said if room else parts

    def right(self, out: list[Stay], come: list[Stay]) -> dict[int, Parts | None]:
        """What the book says that jobs hold after a pass, of all that may have been touched."""
        found: dict[int, Parts | None] = {job: before.parts for job, before in self.touched.items()}
        found |= {stay.job: None for stay in out}
        found |= {stay.job: self.parts(stay) for stay in come}
        return found

    def early(self, job: int, where: str, waiting: list[int]) -> Fault:
        """What is wrong with a job that has GPUs, and would have none; `waiting` would have some."""
        return Fault("order", job, self.time, f"holds {where}; the policy gives it none")

    # What the book says.

    def ended(self, stay: Stay) -> None:
        """A stay is over before the pass."""
        self._give(stay.job)
        self.standing.pop(stay.job, None)
        self.protection.ended(stay)
        if stay.ended != "done":
            self.done[stay.job] = self.done.get(stay.job, 0.0) + stay.work - stay.lost

    def off(self, stay: Stay) -> None:
        """A stay is over, and its job waits: the policy said so."""
        self.protection.ended(stay)
        self.done[stay.job] = self.before(stay.job)
        self.parting.pop(stay.job, None)
        if stay.job not in self.touched or self.touched[stay.job].standing is not None:
            known = self.standing.get(stay.job)
            if known is None or known.start < self.time:
                self.standing.pop(stay.job, None)
        self.enter(stay.job)

    def parts(self, stay: Stay) -> Parts:
        """What a stay holds."""
        return list(stay.places) if self.floor.shared else list(stay.held)

    def began(self, stay: Stay) -> None:
        """A stay has begun."""
        if stay.job in self.place:
            self.leave(stay.job)
        known = self.standing.get(stay.job)
        begin, before = stay.start + stay.pause, self.done.get(stay.job, 0.0)
        if known is not None and known.start == stay.start:
            if (known.begin, known.before) == (begin, before):
                return
            over = known.over
        else:
            over = None if self.quotas and self.owner(stay.job) is not None else False
        self.standing[stay.job] = Standing(stay.start, begin, over, before)

    def passed_by(self, stay: Stay) -> None:
        """One that took no time came and went."""
        if stay.job not in self.floor.held:
            self.leave(stay.job)

    def undo(self, job: int) -> None:
        """A job stands as before the pass; what it holds is settled."""
        before = self.touched[job]
        if before.standing is None:
            self.standing.pop(job, None)
            self.enter(job)
        else:
            self.standing[job] = before.standing
            self.leave(job)

    def settle(self, job: int, parts: Parts | None) -> None:
        """A job holds those GPUs."""
        if self.floor.held.get(job) != parts:
            self._give(job)
            self._hold(job, parts)

    def _hold(self, job: int, parts: Parts | None, *, again: bool = False) -> None:
        if parts is not None:
            self.floor.take(job, parts, again=again)
            self._own(job, parts)

    def _own(self, job: int, parts: Parts) -> None:
        owner = self.owner(job) if self.quotas else None
        if owner is not None:
            self.owned[owner] = self.owned.get(owner, 0) + self.floor.count(parts)

    def _give(self, job: int) -> None:
        if job in self.floor.held:
            parts = self.floor.give(job)
            owner = self.owner(job) if self.quotas else None
            if owner is not None:
                self.owned[owner] -= self.floor.count(parts)

    # A pass.

    def start(self, job: int, parts: Parts, *, over: bool = False) -> None:
        """A job gets GPUs. Where it held the same before this pass, it never left."""
        self.leave(job)
        before = self.touched.setdefault(job, WAITED)
        again = before.parts == parts
        self._hold(job, parts, again=again)
        if again and before.standing is not None:
            self.standing[job] = before.standing
            self.evictors.pop(job, None)
        else:
            self.standing[job] = Standing(self.time, self.time, over, self.before(job))

    def stop(self, job: int, by: int | None = None) -> None:
        """It gives them back, and waits."""
        self.touched.setdefault(job, Before(self.floor.held[job], self.standing[job]))
        if self.standing[job].start == self.time:
            # It gives up at once what others gave up for it: they did so for who comes now.
            for other in [other for other, evictor in self.evictors.items() if evictor == job]:
                if by is None:
                    del self.evictors[other]
                else:
                    self.evictors[other] = by
        elif by is not None:
            self.evictors[job] = by
        self._give(job)
        del self.standing[job]
        self.enter(job)

    def placed(self, job: int) -> Parts | None:
        """Where the placement puts a job; the random numbers go on if it finds a place."""
        parts = self.as_said(job, self.floor.find(job))
        if parts is not None:
            self.floor.redraw(job, parts)
        return parts

    def before(self, job: int) -> float:
        """Work done by a job that waits, in this pass perhaps."""
        return self.done.get(job, 0.0) + self.parting.get(job, 0.0)

    def reckoned(self, job: int, before: float) -> float:
        """Seconds that its work takes after so much of it, on one server without contention."""
        whole = self.worker.speeds.estimate(job)
        if before:
            work = self.worker.speeds.work(job) * self.worker.speeds.unit
            whole = max(0.0, whole - before) if self.given.model == "fixed" else whole * (1.0 - before / work)
        return whole

    # Quotas.

    def owner(self, job: int) -> str | None:
        """Whose quota counts for a job; None where it has none."""
        if not self.quotas or self.jobs.owner is None:
            return None
        owner = self.jobs.owner[job]
        return owner if owner in self.quotas else None

    def needs(self, job: int) -> int:
        """GPUs that others make room for, and that count for its owner."""
        return self.jobs.gpus[job]

    def over_quota(self, job: int, gpus: int = 0) -> bool:
        """Whether its owner would hold more than the quota if it started now, if said on so many GPUs."""
        owner = self.owner(job)
        if owner is None:
            return False
        return self.owned.get(owner, 0) + (gpus or self.needs(job)) > self.quotas[owner][0]

    def passed_over(self, job: int, gpus: int = 0) -> bool:
        """Whether its quota keeps a job from starting at all."""
        owner = self.owner(job)
        return owner is not None and not self.quotas[owner][1] and self.over_quota(job, gpus)

    # Eviction: the rules of docs/priorities.md by their numbers.

    def make_room(self, job: int) -> Parts | None:
        """Evicts for a job that cannot be placed; where it starts then, if that helps."""
        if self.strays():
            raise UnclearError
        victims = sorted((other for other in self.standing if self._is_victim(other, job)), key=self._turn_of)
        wanted = self.needs(job)
        for own in self.floor.tries(job) if victims else ():
            sizes = self.floor.sizes[own]
            if wanted <= max(sizes.values()):
                found = self._on_a_server(wanted, own, victims)
                if found is not None:
                    server, leaving = found
                    for other in leaving:
                        self.stop(other, job)
                    return [(server, wanted)]
            else:
                needed = self._over_all(job, own, victims)
                if needed is not None:
                    for other in needed:
                        self.stop(other, job)
                    parts = self.floor.choose(own, job, self.needs(job))
                    if parts is not None:
                        self.floor.redraw(job, parts)
                    return parts
        return None

    def _is_victim(self, other: int, job: int) -> bool:
        over = self.standing[other].over
        if over:
            return True
        priority, may = self.jobs.priority, self.jobs.preemptible
        lower = priority is not None and priority[other] < priority[job]
        found = self.evicts and lower and (may is None or may[other]) and not self.is_protected(other)
        if over is None and not found:
            raise UnclearError
        return found

    def key(self, job: int) -> float:
        """Rule 1: GPUs x seconds of progress since the last checkpoint."""
        standing = self.standing[job]
        gpus = self.floor.count(self.floor.held[job])
        if self.time <= standing.begin:
            return 0.0
        return gpus * max(0.0, self.worker.saves.latest(job, standing.begin, self.time)[1])

    def _turn_of(self, job: int) -> tuple[int, float, float, int]:
        """Rule 2."""
        priority = self.jobs.priority[job] if self.jobs.priority is not None else 0
        return priority, self.key(job), -self.standing[job].start, job

    def _on_a_server(self, wanted: int, own: int, victims: list[int]) -> tuple[int, list[int]] | None:
        """Rules 3 and 4: the server, and who leaves it."""
        there: dict[int, list[tuple[int, int]]] = {}
        for other in victims:
            for server, gpus in self.floor.held[other]:
                there.setdefault(server, []).append((other, gpus))
        best: tuple[float, int, list[int]] | None = None
        for server, those in sorted(there.items()):
            if server not in self.floor.sizes[own] or not self.floor.up(server):
                continue
            idle = self.floor.pools[own].idle[server]
            if idle >= wanted:
                continue  # the placement does not want it
            taken, room = _least(those, idle, wanted)
            if room < wanted:
                continue
            total = 0.0
            for other, _ in taken:
                total += self.key(other)
            if best is None or total < best[0]:
                best = total, server, [other for other, _ in taken]
        return None if best is None else best[1:]

    def _over_all(self, job: int, own: int, victims: list[int]) -> list[int] | None:
        """Rule 5: who leaves the servers of a type so that the placement finds GPUs for a larger gang."""
        taken: list[int] = []
        for other in victims:
            if not self._without(taken, lambda: self.floor.choose(own, job, self.needs(job))) and any(
                server in self.floor.sizes[own] for server, _ in self.floor.held[other]
            ):
                taken.append(other)
        if not self._without(taken, lambda: self.floor.choose(own, job, self.needs(job))):
            return None
        for other in reversed(list(taken)):
            rest = [one for one in taken if one != other]
            if self._without(rest, lambda: self.floor.choose(own, job, self.needs(job))):
                taken = rest
        return taken

    def _without(self, gone: Sequence[int], ask: Callable[[], object]) -> bool:
        """Whether there is an answer if some held nothing."""
        kept = [(job, self.floor.held[job], self.floor.on.get(job)) for job in gone]
        for job in gone:
            self.floor.give(job)
        found = ask() is not None
        for job, parts, gpus in kept:
            self.floor.back(job, parts, gpus)
        return found


def _least(those: list[tuple[int, int]], idle: int, wanted: int) -> tuple[list[tuple[int, int]], int]:
    """Who is taken in order until there is room, without those that are not needed; and the room."""
    taken, room = [], idle
    for one in those:
        if room < wanted:
            taken.append(one)
            room += one[1]
    if room >= wanted:
        for one in reversed(list(taken)):
            if room - one[1] >= wanted:
                taken.remove(one)
                room -= one[1]
    return taken, room
