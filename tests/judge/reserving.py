"""What conservative backfilling decides (docs/operators.md).

Which GPU of a server a job holds is in no table, and reservations hang on it. It follows from the starts, one
after the other: each takes the GPUs on which its reservation was. Where a start cannot be followed, nothing
is known of its servers until they are empty once; where GPUs have U, never again. Until then what is known of
a pass is who may start in it at all, who must, since nobody before it has a reservation, and that there is
room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from judge.deciding import Fault, UnclearError
from judge.floor import MOST, Floor, Gpu
from judge.given import Given, Stay
from judge.placing import Parts
from judge.queue import Queue
from judge.work import Worker


class Booking(NamedTuple):
    """GPUs that are somebody's from one instant until before another, s."""

    begin: float
    end: float
    gpus: list[Gpu]


class Reserving(Queue):
    """A queue whose first jobs have reservations at each pass.

    dim: servers of which it is not known who holds which GPU. unsure: the last instant at which what was
    decided is not known. gpus: those of a reservation that begins now, by job.
    """

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        self.most = int(given.options["reservations"])
        self.dim: set[int] = set()
        self.unsure = -math.inf
        self.gpus: dict[int, list[Gpu]] = {}

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """Starts those whose reservation is now."""
        floor, places, turn, looked = self.floor, self.places, -1, 0
        begun = {stay.job: stay for stay in come}
        self._clear()
        plan: Plan | None = None
        blocked: list[int] = []
        known = not self.dim and not self.lost and floor.looks < MOST // 2
        while looked < self.most and (turn := places.after(turn)) >= 0:
            if blocked and not (begun if not known else any(pool.total for pool in floor.pools.values())):
                break
            job = self.job_at[turn]
            floor.looks += 1
            if self.quotas and self.passed_over(job):
                continue
            looked += 1
            if job in self.doubtful and any(other in self.place for other in self.doubtful[job]):
                raise UnclearError
            stay = begun.pop(job, None)
            parts = self._found(job, floor.find)
            if not blocked:
                if parts is not None:
                    self._begin(job, parts)
                elif not ((self.evicts or self.quotas) and self._evicts(job)):
                    blocked.append(job)
            elif not known:
                self._as_it_is(job, stay, parts)
            elif parts is not None:
                plan = plan or Plan(self)
                for other in blocked[len(plan.made) :]:
                    plan.reserve(other)
                if not self._at_once(job, plan):
                    blocked.append(job)
            else:
                blocked.append(job)

    def _at_once(self, job: int, plan: Plan) -> bool:
        """Starts a job behind others if its reservation begins now; whether it does."""
        end = self._estimated_end(job, self.before(job), self.time)
        with self.floor.only(plan.free(self.time, end)):
            parts = self.floor.find(job)
            gpus = [] if parts is None else self.floor.least_of(parts)
            if parts is not None:
                self.floor.redraw(job, parts)
        if parts is None:
            return False
        self.gpus[job] = gpus
        self.start(job, parts, over=bool(self.quotas) and self.over_quota(job))
        plan.hold(gpus, self.leaves(job))
        return True

    def _as_it_is(self, job: int, stay: Stay | None, parts: Parts | None) -> None:
        """Starts a job behind others as the book says, if there is room. Which GPUs it has is not known."""
        if any(before.standing is not None for before in self.touched.values()):
            raise UnclearError  # whoever was evicted and has the same again leaves no trace
        if stay is not None and parts is not None:
            self.lost |= self.floor.by_use
            self._begin(job, self.parts(stay))
            self.dim |= {server for server, _ in stay.held}

    def leaves(self, job: int) -> float:
        """When a job that holds GPUs is expected to give them back: after now."""
        end = self._end(job)
        if self.near(end, self.time):
            raise UnclearError
        return max(end, math.nextafter(self.time, math.inf))

    # Which GPUs.

    def _clear(self) -> None:
        """Of a server all of whose GPUs are idle all is known, but for their U."""
        if self.dim and not self.floor.adds:
            sizes = {server: self.floor.sizes[own][server] for server, own in self.floor.of.items()}
            self.dim = {server for server in self.dim if len(self.floor.idle[server]) < sizes[server]}

    def _darken(self, parts: Sequence[tuple[int, int]] | None) -> None:
        """Which GPUs of those servers are taken is not known, but where all of one are."""
        for server, gpus in parts or ():
            if gpus < self.floor.sizes[self.floor.of[server]][server] or self.floor.adds:
                self.dim.add(server)

    def _hold(self, job: int, parts: Parts | None, *, again: bool = False) -> None:
        if parts is not None:
            self.floor.take(job, parts, again=again, gpus=self.gpus.pop(job, None))
            self._own(job, parts)

    def forget(self) -> None:
        """What it decided so far of this instant is not sure."""
        super().forget()
        self.unsure = self.time

    def settle(self, job: int, parts: Parts | None) -> None:
        """A job holds those GPUs, which were not decided."""
        if self.floor.held.get(job) != parts:
            self.unsure = self.time
            self._darken(parts)
        super().settle(job, parts)

    def undo(self, job: int) -> None:
        """A job stands as before the pass; what it holds is settled."""
        self._darken(self.touched[job].parts)
        super().undo(job)

    def began(self, stay: Stay) -> None:
        """A stay has begun."""
        if self.unsure == self.time:
            self._darken(stay.held)
        super().began(stay)

    # Faults.

    def early(self, job: int, where: str, waiting: list[int]) -> Fault:
        """It is not among the first, or where its placement finds no room, or in the way of others."""
        if not self._is_first(job):
            said = f"starts, but is not among the first {self.most} that wait, which alone have reservations"
        elif self.floor.find(job) is None:
            return Fault("placement", job, self.time, f"holds {where}, where the placement finds no room")
        else:
            said = f"holds {where}; its reservation is later, since others before it have theirs"
        return Fault("reservation", job, self.time, said)

    def _is_first(self, job: int) -> bool:
        """Whether a job that waits was among the first at this pass; those that started went before it."""
        own, waiting = self.place_of(job), [self.job_at[place] for place in self.places]
        started = [other for other in self.touched if other not in self.place]
        ahead = [other for other in waiting if not self.passed_over(other)]
        return sum(self.place_of(other) < own for other in (*started, *ahead)) < self.most


class Plan:
    """The time to come at a pass: when each GPU is free of who holds it now, and what is reserved since."""

    def __init__(self, queue: Reserving) -> None:
        self.queue, self.floor = queue, queue.floor
        floor = self.floor
        self.bookings: list[Booking] = []
        self.made: list[int] = []
        self.since: dict[Gpu, float] = {}
        """From when on a GPU is free; not at all where it is missing."""
        for server in floor.of:
            if floor.up(server):
                self.since.update(dict.fromkeys(((server, gpu) for gpu in floor.idle[server]), -math.inf))
        for job, gpus in floor.on.items():
            self.hold(gpus, queue.leaves(job))
        floor.looks += len(floor.of) + len(self.since)
        for window in queue.windows.all:
            if window.up <= queue.time:
                continue
            gpus = [
                (window.server, gpu) for gpu in range(floor.sizes[floor.of[window.server]][window.server])
            ]
            if window.down > queue.time:
                self._book(window.down, window.up, gpus)
            elif not floor.up(window.server):
                self.hold(gpus, window.up)

    def hold(self, gpus: Iterable[Gpu], end: float) -> None:
        """They are held until then."""
        self.since.update(dict.fromkeys(gpus, end))

    def _book(self, begin: float, end: float, gpus: list[Gpu]) -> None:
        if end > begin:
            self.bookings.append(Booking(begin, end, gpus))

    def reserve(self, job: int) -> None:
        """Gives a job the earliest reservation that there is for it."""
        self.made.append(job)
        queue, floor = self.queue, self.floor
        estimate = queue.estimate(job, queue.before(job), queue.time)
        for begin in self._instants():
            with floor.only(self.free(begin, begin + estimate)):
                parts = floor.find(job)
                if parts is not None:
                    self._book(begin, begin + estimate, floor.least_of(parts))
                    return

    def _instants(self) -> Iterator[float]:
        """Now, and whenever GPUs come free."""
        now, queue = self.queue.time, self.queue
        times = {end for end in self.since.values() if end > now} | {one.end for one in self.bookings}
        yield now
        later = sorted(time for time in times if now < time < math.inf)
        for one, other in pairwise(later):
            if queue.near(one, other):
                raise UnclearError
        yield from later

    def free(self, begin: float, end: float) -> dict[int, list[int]]:
        """The GPUs that nobody holds from `begin` until before `end`, by server."""
        self.floor.looks += len(self.since) + len(self.bookings)
        kept: set[Gpu] = set()
        for booking in self.bookings:
            if self.queue.near(booking.begin, end):
                raise UnclearError
            if booking.end > begin and (booking.begin < end or booking.begin <= begin):
                kept.update(booking.gpus)
        found: dict[int, list[int]] = {}
        for (server, gpu), since in self.since.items():
            if since <= begin and (server, gpu) not in kept:
                found.setdefault(server, []).append(gpu)
        return found
