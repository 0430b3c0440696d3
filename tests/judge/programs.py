"""What holds of policies that solve programs, whichever optimum they find (docs/gavel.md, docs/sia.md)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from judge.clock import boundary
from judge.deciding import Fault, UnclearError
from judge.doubts import Doubts
from judge.floor import Floor
from judge.given import Given, Stay
from judge.orders import orders
from judge.placing import Parts
from judge.queue import fifo
from judge.trying import Trying
from judge.work import Worker


class Wish(NamedTuple):
    """A type and a number of GPUs that a job may have."""

    own: int
    gpus: int


class Solving(Trying):
    """GPUs are those of now: of servers that are up, without those that replicas hold."""

    orders = True

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        rows = fifo(given, sorted({stay.job for stay in stays}), ties=False)
        self.rows = {job: at for at, job in enumerate(rows)}
        """The order in which quotas count jobs, whatever --ties says."""

    def order(self, jobs: Sequence[int]) -> list[int]:
        """Jobs in fifo's order."""
        return sorted(jobs, key=self.fifo.__getitem__)

    def levels(self, *, keeps: bool = False) -> dict[int, tuple[bool, int]]:
        """Who goes before whom of all that run or wait, the least first; without who may not have GPUs now.

        keeps: whether those that run keep their GPUs, and only those that wait have levels.
        """
        priority, held = self.jobs.priority, dict(self.owned) if keeps else {}
        found = {}
        for job in sorted([*self.place, *(() if keeps else self.running)], key=self.rows.__getitem__):
            owner = self.owner(job)
            own = 0 if owner is None else held.get(owner, 0) + self.needs(job)
            guest = owner is not None and own > self.quotas[owner][0]
            if owner is not None and not guest:
                held[owner] = own
            if owner is None or not guest or self.quotas[owner][1]:
                found[job] = guest, -priority[job] if priority is not None else 0
        return found

    def needs(self, job: int) -> int:
        """GPUs that a job must have."""
        return self.jobs.gpus[job]

    def together(self, own: int) -> list[int]:
        """GPUs of a type's largest server, of its two largest, and so on."""
        there = dict(self.floor.pools[own].idle)
        for parts in self.floor.held.values():
            for server, gpus in parts:
                if server in there:
                    there[server] += gpus
        self.floor.looks += len(there) + len(self.floor.held)
        return list(accumulate(sorted(there.values(), reverse=True)))

    def rate(self, job: int, own: int, gpus: int, together: Sequence[int]) -> float:
        """Work a second on the fewest servers of a type; 0 where the job may not use it, or cannot."""
        if own in self.floor.tries(job):
            for servers, there in enumerate(together, 1):
                if there >= gpus:
                    return self.rates.alone(job, own, gpus, servers)
        return 0.0

    def asked(self, job: int) -> list[Wish]:
        """Of each type on which it runs, the GPUs that a job asks for."""
        gpus = self.jobs.gpus[job]
        return [
            Wish(own, gpus)
            for own in self.floor.tries(job)
            if self.rate(job, own, gpus, self.together(own)) > 0.0
        ]

    def fits(self, job: int, wish: Wish) -> bool:
        """Whether a job would find room now."""
        self.floor.looks += 1
        return self.floor.choose(wish.own, job, wish.gpus) is not None

    def idle(self, waits: dict[int, list[Wish]], *, sized: bool) -> list[Fault]:
        """Of jobs that should have what is idle, one that waits in vain.

        waits: the least that each may have of each type. sized: whether nobody else may have got less than
        was meant for it, as the placement found no room.
        """
        if self.blind():
            return []  # where there is room hangs on U, which nobody knows
        if not self.running or not self.fails():
            vain = [job for job, wishes in waits.items() if any(self.fits(job, wish) for wish in wishes)]
        elif sized:
            # Who was to have GPUs and found no room finds none now. All others were passed over.
            passed = {job for job, wishes in waits.items() if all(self.fits(job, wish) for wish in wishes)}
            vain = [
                job
                for job in waits
                if any(
                    all(
                        other in passed
                        for other, wishes in waits.items()
                        if any(w.own == own for w in wishes)
                    )
                    for own, _ in waits[job]
                )
            ]
        else:
            vain = []
        return [
            Fault("idle", job, self.time, "goes on waiting, though there is room for it") for job in vain[:1]
        ]

    def in_some_order(self, come: list[Stay]) -> None:
        """Starts those that start, in an order in which they go where they are: which one is not known.

        Raises UnclearError where they are many.
        """

        def find(stay: Stay) -> Parts | None:
            found = self.floor.choose(self.floor.of[stay.held[0][0]], stay.job, stay.gpus)
            return self.as_said(stay.job, found)

        found = orders(self.floor, come, self.parts, find, self.floor.redraw)
        for stay in found[0] if found else come[:1]:
            parts = find(stay)
            if parts is not None:
                self.floor.redraw(stay.job, parts)
                self.start(stay.job, parts)
        # Other orders led there, too, with other GPUs of a server for each.
        self.lost |= self.floor.by_use and len(found) > 1

    def place_all(self, jobs: Sequence[int], told: dict[int, Wish]) -> None:
        """Places jobs in turn. Raises UnclearError where one finds no room: nobody knows what comes then."""
        for job in jobs:
            parts = self.floor.choose(told[job].own, job, told[job].gpus)
            if parts is None:
                raise UnclearError
            self.floor.redraw(job, parts)
            self.start(job, parts)


def told(floor: Floor, stays: Sequence[Stay]) -> dict[int, Wish]:
    """What jobs have in those stays."""
    return {stay.job: Wish(floor.of[stay.held[0][0]], stay.gpus) for stay in stays}


class Rounds(Solving):
    """A policy that decides in rounds. begins: whether one begins now. ends: when it is over."""

    usual = 0.0

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        self.length = float(given.fields.get("round", self.usual))
        self.ends = self.left_at = -math.inf
        self.begins = False
        # Whom quotas count first is not known beside protection.
        self.muddled = self.protection.is_on and bool(self.quotas)

    def ended(self, stay: Stay) -> None:
        """A stay is over before the pass."""
        super().ended(stay)
        self.left_at = self.time

    def goes_on(self) -> bool:
        """Whether rounds followed each other since the last instant."""
        return bool(self.running) or self.left_at == self.time

    def look(self) -> None:
        """A round begins when the last one is over, and at an event at which nobody runs."""
        super().look()
        while self.goes_on() and (at := boundary(self.ends, self.given.slot)) < self.time:
            self.floor.looks += 1
            self.ends = at + self.length
            if self.ends <= at:
                break  # too short for float64
            self.renew(at)
        self.begins = not self.running or self.time >= self.ends
        if self.begins:
            self.ends = self.time + self.length

    def renew(self, time: float) -> None:
        """A round began between two instants."""

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """Nothing changes between rounds. Where nobody ran for an instant one began, and nobody knows."""
        if self.muddled:
            raise UnclearError
        if self.begins and (self.running or self.place):
            # Whoever is placed and taken back, as another finds no room then, leaves U behind and no trace.
            self.lost |= self.floor.by_use and self.fails() and bool(self.place)
            if self.floor.shared or self.blind() or any(self.is_protected(stay.job) for stay in out):
                raise UnclearError
            self.round(out, come)

    @abstractmethod
    def round(self, out: list[Stay], come: list[Stay]) -> None:
        """A round begins: who runs on what is the book's word, where is not."""


class Sia(Rounds):
    """grown: the most GPUs that each job has held. waited: who waited as this round began."""

    usual = 60.0

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        self.grown: dict[int, int] = {}
        power, incentive = given.fields.get("power", -0.5), given.fields.get("incentive", 1.1)
        self.every = power < 0.0 and incentive > 1.01
        """Whether every job gains enough by any GPUs."""
        self.waited: list[int] = []

    def look(self) -> None:
        """Who waits before a round."""
        super().look()
        self.waited = self.order(list(self.place))

    def began(self, stay: Stay) -> None:
        """A stay has begun."""
        super().began(stay)
        self.grown[stay.job] = max(self.grown.get(stay.job, 0), stay.gpus)

    def passed_by(self, stay: Stay) -> None:
        """One that took no time came and went."""
        super().passed_by(stay)
        self.grown[stay.job] = max(self.grown.get(stay.job, 0), stay.gpus)

    def needs(self, job: int) -> int:
        """GPUs that a job must have."""
        return self.least(job)

    def menu(self, job: int) -> list[Wish]:
        """What a job may have, however large it has grown, and whatever its owner's quota leaves."""
        found, least, most = [], self.least(job), self.most(job)
        held = self.running.get(job)
        for own in self.floor.tries(job):
            together = self.together(own)
            usual = {1 << power for power in range(together[0].bit_length())} | {*together}
            sizes = {gpus for gpus in usual if least <= gpus <= most} | {least, self.jobs.gpus[job]}
            if held is not None and self.drawn(job)[0] == own:
                sizes.add(held.gpus)
            found += [Wish(own, gpus) for gpus in sorted(sizes) if self.rate(job, own, gpus, together) > 0.0]
        return found

    def rigid(self, jobs: Sequence[int]) -> bool:
        """Whether none of these may have another number of GPUs."""
        return all(self.least(job) == self.most(job) for job in jobs)

    def round(self, out: list[Stay], come: list[Stay]) -> None:
        """Those that change give all back, and are placed, the largest first."""
        right, present = told(self.floor, come), [*self.order(list(self.running)), *self.waited]
        for job, wish in right.items():
            menu = self.menu(job)
            most = max(min((each.gpus for each in menu), default=0), 2 * self.grown.get(job, 0))
            if wish not in menu or wish.gpus > most:
                said = f"holds {wish.gpus} GPUs, which is no configuration that it may have"
                self.refusals.append(Fault("placement", job, self.time, said))
        same = {
            job
            for job in right.keys() & self.running.keys()
            if right[job] == Wish(self.drawn(job)[0], self.running[job].gpus)
        }
        changed = [job for job in present if job in right and job not in same]
        if self.fails():
            # Others may have been tried before, or larger numbers.
            later = {stay.job for stay in out if stay.job not in right}
            if later or not self.rigid(present) or any(job not in right for job in self.waited):
                raise UnclearError
        level = self.levels()
        for job in right:
            if job not in level:
                self.refusals.append(Fault("order", job, self.time, "holds GPUs beyond its owner's quota"))
        if not right.keys() <= level.keys():
            raise UnclearError
        changed.sort(key=lambda job: (level[job], -right[job].gpus))

        def decide(doubts: Doubts) -> None:
            del doubts
            for stay in out:
                if stay.job not in same:
                    self.stop(stay.job)
            self.place_all(changed, right)

        self.attempt(decide, out, come)

    def looked(self) -> Sequence[Fault]:
        """Whoever waits with room for its least configuration would gain by it."""
        if not (self.begins and self.every) or self.muddled or self.floor.shared:
            return ()
        waits, level = {}, self.levels()
        for job in self.waited:
            if job in self.place and job in level:
                least: dict[int, Wish] = {}
                for wish in self.menu(job):
                    least.setdefault(wish.own, wish)
                waits[job] = list(least.values())
        lost = len(waits) < len(self.place)  # who lost GPUs may have been meant to have others
        return self.idle(waits, sized=not lost and self.rigid([*self.running, *self.place]))


class Gavel(Rounds):
    """known: jobs with a share, since `renewed`, and of which members and GPUs there were then.

    present, there: members and GPUs since the last instant. unsure: whether nobody knows who has a share.
    """

    usual = 360.0

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        fields = given.fields
        self.hold = float(fields.get("renew", 1920.0))
        self.unsure = bool(fields.get("newcomers", False)) or fields.get("shares", "max-min") == "first-come"
        # Where a gang that is given GPUs may find no room on the empty cluster, shares may be renewed unseen.
        self.unsure |= self.fails() and (given.outages is not None or given.services is not None)
        self.known: frozenset[int] = frozenset()
        self.members: frozenset[int] = frozenset()
        self.present: frozenset[int] = frozenset()
        self.gpus: dict[int, int] = {}
        self.there: dict[int, int] = {}
        self.renewed = -math.inf
        self.open = False
        """Whether a round began of which nobody knows how it ended."""

    def goes_on(self) -> bool:
        """Whether rounds followed each other: also where nobody runs, as long as shares are due."""
        return super().goes_on() or (bool(self.present) and self.members != self.present)

    def renew(self, time: float) -> None:
        """Shares are worked out, if they are due."""
        changed = self.present != self.members or self.there != self.gpus
        if changed and (time - self.renewed >= self.hold or not self.present & self.known):
            self._renew(time)

    def _renew(self, time: float) -> None:
        self.known = self.members = self.present
        self.gpus, self.renewed = dict(self.there), time

    def look(self) -> None:
        """Who has a share as a round begins."""
        super().look()
        self.unsure |= self.open
        self.present, self.there = frozenset((*self.running, *self.place)), dict(self.floor.capacity)
        self.open = self.begins and bool(self.present)
        if self.open:
            self.renew(self.time)
            self._again()

    def _again(self) -> None:
        """Where nobody could run with the shares, as GPUs have changed, they are worked out anew."""
        if self.floor.shared:
            return
        able = any(
            wish.gpus <= self.there[wish.own] for job in self.known & self.present for wish in self.asked(job)
        )
        if not able and self.there != self.gpus:
            self._renew(self.time)

    def round(self, out: list[Stay], come: list[Stay]) -> None:
        """All give their GPUs back, and are placed, the largest first."""
        right = told(self.floor, come)
        gone = {stay.job for stay in out if stay.job not in right}
        for job in right if not self.unsure else ():
            if job not in self.known:
                said = "is given GPUs before it has a share"
                self.refusals.append(Fault("order", job, self.time, said))
        before = {job: Wish(self.drawn(job)[0], stay.gpus) for job, stay in self.running.items()}
        right |= {job: wish for job, wish in before.items() if job not in gone and job not in right}
        old = {job: self.floor.held[job] for job, wish in right.items() if before.get(job) == wish}
        if self.fails() and len(right) < len(self.present):
            raise UnclearError  # others may have been tried before
        level = self.levels()
        for job in right.keys() - level.keys():
            self.refusals.append(Fault("order", job, self.time, "holds GPUs beyond its owner's quota"))
        if not right.keys() <= level.keys():
            raise UnclearError

        firm = {job for job in old if self.is_protected(job)}

        def turn(job: int) -> tuple[bool, tuple[bool, int], int, bool]:
            return job not in firm, level[job], -right[job].gpus, job not in old

        order = sorted(self.order(list(right)), key=turn)
        groups = [list(own) for _, own in groupby(order, turn)]

        def decide(doubts: Doubts) -> None:
            for job in self.order(list(self.running)):
                self.stop(job)
            for group in groups:
                left = list(group)
                while left:
                    # Their order among each other is not known. It is no matter where all get what they had.
                    job = left.pop(0 if self._free(left, old) else doubts.choose(len(left)))
                    if self._free([job], old):
                        self.start(job, old[job])
                    else:
                        self.place_all([job], right)

        self.attempt(decide, out, come)
        # Of those that got what they had, too, nobody knows who has which GPU of a server.
        self.blurred |= self.floor.by_use and any(len(group) > 1 for group in groups)

    def _free(self, jobs: Sequence[int], old: dict[int, Parts]) -> bool:
        """Whether jobs can all have what they had."""
        need: Counter[int] = Counter()
        for job in jobs:
            if job not in old:
                return False
            need.update(dict(old[job]))
        self.floor.looks += len(need)
        return all(
            self.floor.pools[self.floor.of[server]].idle[server] >= gpus for server, gpus in need.items()
        )

    def looked(self) -> Sequence[Fault]:
        """Whoever has a share has what is idle, as a round begins."""
        if not self.open:
            return ()
        self.open = False
        if self.unsure or self.muddled or self.floor.shared:
            return ()
        may = self.levels().keys() & self.known
        waits = {job: self.asked(job) for job in self.order(list(self.place)) if job in may}
        return self.idle(waits, sized=True)
