"""What a policy decides that ranks all jobs and preempts those that fall behind (docs/policies.md)."""

from __future__ import annotations

import math
import struct
from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from judge.clock import boundary
from judge.deciding import Deciding, UnclearError
from judge.floor import Floor
from judge.given import WHOLE, Given, Stay
from judge.queue import fifo
from judge.windows import CLOSE, Windows
from judge.work import Worker

SURELY_TIED: Final = 1e-13
"""Of jobs that have not run: a tie of ftf, 1e-12, less rounding."""
TICKS: Final = {"tiresias": "interval", "gittins": "interval", "ftf": "interval", "time-slice": "quantum"}
"""Policies that decide at multiples of an option."""
SPACED: Final = ("srtf", "srsf")
"""Those that do so where the interval is given."""
RANKED: Final = (*SPACED, "edf", *TICKS)
LISTING: Final = ("tiresias", "gittins")
"""Those whose queues may be lists."""
FEW: Final = 20_000
"""Ticks up to which all are looked at; of more, those that follow a change."""
RENEWED: Final = 1_023
"""Completions up to which gittins knows each of them at once."""
COST: Final = 8
"""Looks at waiting jobs that a job takes in a ranking."""


class Ranking(Deciding):
    """A ranking.

    served: seconds on GPUs up to the last stay. line: of time-slice, by which turns go. pace: of those that
    run at one rate throughout, from when on and how fast. listed: under `within list` the queue of each job,
    all lists in one. unlisted: whether nobody knows them any more.
    """

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker)
        self.name = str(given.options["policy"])
        period = given.options.get(TICKS.get(self.name, "interval"))
        self.period = period if self.name in SPACED else None
        if self.name in TICKS:
            self.period = 60.0 if period is None else period
        self.ticks = self._ticks(stays)
        self.turns = set(self.ticks)
        self.openings = self.protection.ends(stays)
        self.windows = Windows(given, floor)
        self.lists = self.name in LISTING and given.options.get("within") == "list"
        self.listed: dict[int, int] = {}
        self.listed_at = -math.inf
        self.unlisted = self.lists and max(stay.end for stay in stays) / (self.period or 1.0) > FEW
        self.fifo = {job: at for at, job in enumerate(fifo(given, sorted({stay.job for stay in stays})))}
        self.running: dict[int, Stay] = {}
        self.pace: dict[int, tuple[float, float]] = {}
        self.served: dict[int, float] = {}
        self.line: dict[int, tuple[float, int, int]] = {}
        self.gpu_times: list[float] = []
        self.thresholds = [float(at) for at in given.options.get("thresholds") or (18_000.0,)]

    def _ticks(self, stays: list[Stay]) -> list[float]:
        """The instants at which it decides; none of those that decide at every event."""
        if self.period is None:
            return []
        last, slot = max(stay.end for stay in stays), self.given.slot
        if last / self.period <= FEW:
            numbers = set(range(int(last / self.period) + 2))
        else:
            times = {time for stay in stays for time in (stay.since, stay.start, stay.end)}
            numbers = {int(time / self.period) + more for time in times for more in (0, 1)}
        return sorted({boundary(number * self.period, slot) for number in numbers})

    def moments(self) -> Sequence[tuple[float, int]]:
        """The ticks."""
        return [(time, -1) for time in self.ticks]

    # What the book says.

    def enter(self, job: int) -> None:
        """A job waits. It joins the end of the line, unless it has a place there."""
        super().enter(job)
        self.line.setdefault(job, (self.time, 0, self.fifo[job]))

    def began(self, stay: Stay) -> None:
        """A stay has begun."""
        super().began(stay)
        self.running[stay.job] = stay
        if self.given.slot is None and stay.parts is None and not stay.marks and not stay.saves:
            self.pace[stay.job] = stay.start + stay.pause, self.worker.speeds.rate(stay, 0, ())

    def _over(self, stay: Stay) -> None:
        self.pace.pop(stay.job, None)
        self.served[stay.job] = self.served.get(stay.job, 0.0) + self._units(stay.end - stay.start)
        self.running.pop(stay.job, None)
        if stay.ended in ("done", "limit", "rung"):
            self.line.pop(stay.job, None)
            self.listed.pop(stay.job, None)
        if stay.ended == "done":
            insort(self.gpu_times, self.attained(stay.job))

    def ended(self, stay: Stay) -> None:
        """A stay is over before the pass."""
        super().ended(stay)
        self._over(stay)
        ticks = self.time in self.turns or self.time in self.openings
        if stay.ended == "preempted" and self.name == "time-slice" and ticks:
            # A replica has its GPUs, but it was the pass that stopped it: it ran at this tick.
            self.line[stay.job] = (self.time, 1, self.fifo[stay.job])

    def off(self, stay: Stay) -> None:
        """A stay is over, and its job waits."""
        self._over(stay)
        super().off(stay)

    def passed_by(self, stay: Stay) -> None:
        """One that took no time came and went."""
        super().passed_by(stay)
        if stay.ended == "done":
            insort(self.gpu_times, self.attained(stay.job))
        if stay.job not in self.floor.held:
            self.line.pop(stay.job, None)
            self.listed.pop(stay.job, None)

    # A job's figures, now.

    def _gpus(self, job: int) -> float:
        return self.jobs.gpus[job] * self.jobs.weight(job)

    def worked(self, job: int) -> float:
        """Work done up to now."""
        done, pace = self.done.get(job, 0.0), self.pace.get(job)
        if pace is not None:
            return done + max(0.0, self.time - pace[0]) * pace[1]
        stay = self.running.get(job)
        return done if stay is None else self.worker.up_to(stay, done, self.time)

    def _units(self, seconds: float) -> float:
        """A length of time in slots, of which there are whole ones, or seconds."""
        slot = self.given.slot
        return seconds if slot is None else round(seconds / slot)

    def attained(self, job: int) -> float:
        """GPU-seconds, with all pauses."""
        stay, held = self.running.get(job), self.served.get(job, 0.0)
        if stay is not None:
            held += self._units(self.time - stay.start)
        return self._gpus(job) * (held * (self.given.slot or 1.0))

    def level(self, job: int) -> int:
        """How many thresholds it has reached."""
        attained = self.attained(job)
        if any(0.0 < abs(attained - at) <= CLOSE * at for at in self.thresholds):
            raise UnclearError
        return sum(attained >= at for at in self.thresholds)

    def gittins(self, job: int) -> float:
        """The index: of all delta the most likely end for the time it takes. In single precision."""
        attained, known = self.attained(job), self.gpu_times
        first = bisect_right(known, attained)
        near = known[max(0, first - 1) : first + 1]
        if any(0.0 < abs(time - attained) <= CLOSE * attained for time in near):
            raise UnclearError
        beyond = [time - attained for time in known[first:]]
        best = 0.0
        for at, (delta, total) in enumerate(zip(beyond, accumulate(beyond), strict=True)):
            if at + 1 == len(beyond) or beyond[at + 1] > delta:
                best = max(best, (at + 1) / (total + delta * (len(beyond) - at - 1)))
        return float(struct.unpack("f", struct.pack("f", best))[0])

    def rank(self, job: int) -> tuple[float, ...]:
        """By which the ranking goes, the least first."""
        if self.name in SPACED:
            left = self.reckoned(job, self.worked(job))
            return (left if self.name == "srtf" else left * self._gpus(job),)
        if self.name == "tiresias":
            return (float(self.level(job)),)
        if self.name == "gittins":
            return float(self.level(job)), -self.gittins(job)
        if self.name == "ftf":
            left = self.reckoned(job, self.worked(job))
            return (-(self.time - self.jobs.submit[job] + left) / self.jobs.ideal[job],)
        deadline = self.jobs.deadline[job] if self.jobs.deadline is not None else None
        return (math.inf if deadline is None else deadline,)

    def unseen(self) -> None:
        """Whoever runs at a tick of time-slice goes to the end of the line. Lists are not known any more."""
        ticks = self.time in self.turns or self.time == self.opened
        self.unlisted |= self.lists and ticks
        if self.name == "time-slice" and ticks:
            for job in self.running:
                self.line[job] = (self.time, 1, self.fifo[job])

    def ranking(self) -> list[int]:
        """All jobs that run or wait, the first first."""
        jobs = [*self.running, *self.place]
        self.floor.looks += COST * len(jobs)
        priority = self.jobs.priority
        level = {job: -priority[job] if priority is not None else 0 for job in jobs}
        if self.name == "time-slice":
            self.unseen()
            return self._in_order(sorted(jobs, key=lambda job: (level[job], self.line[job])))
        if self.name == "gittins" and len(self.gpu_times) > RENEWED:
            raise UnclearError
        keys = {job: self.rank(job) for job in jobs}
        place = self._list() if self.lists else self.fifo
        ranked = sorted(jobs, key=lambda job: (level[job], keys[job], place[job]))
        if self.name == "ftf":
            return self._in_order(self._leveled(ranked, level, keys))
        if self.name in SPACED:
            for one, other in pairwise(ranked):
                gap = abs(keys[one][0] - keys[other][0])
                near = level[one] == level[other] and gap <= CLOSE * max(1.0, abs(keys[one][0]))
                if near and not (gap == 0.0 and self._alike(one, other)):
                    raise UnclearError
        return self._in_order(ranked)

    def _leveled(
        self, ranked: list[int], level: dict[int, int], keys: dict[int, tuple[float, ...]]
    ) -> list[int]:
        """The same with those in order of fifo that tie with the first of them (docs/policies.md).

        Raises UnclearError where rounding may decide: what jobs that have run have left is not exact.
        """
        groups: list[list[int]] = []
        for job in ranked:
            first = groups[-1][0] if groups else job
            greatest = abs(keys[first][0])
            gap = abs(keys[job][0] - keys[first][0])
            if level[job] != level[first] or gap > CLOSE * max(1.0, greatest) or not groups:
                groups.append([job])
            elif gap <= SURELY_TIED * greatest and not (self.worked(job) or self.worked(first)):
                groups[-1].append(job)
            else:
                raise UnclearError
        return [job for group in groups for job in sorted(group, key=self.fifo.__getitem__)]

    def _in_order(self, ranked: list[int]) -> list[int]:
        within, guests = self.by_owner(self.firm(ranked))
        return within + guests

    def by_owner(self, ranked: list[int]) -> tuple[list[int], list[int]]:
        """Those within their quotas along a ranking, and guests; who may not borrow is in neither."""
        if not self.quotas:
            return ranked, []
        held: dict[str, int] = {}
        within, guests = [], []
        for job in ranked:
            owner = self.owner(job)
            gpus = 0 if owner is None else held.get(owner, 0) + self.needs(job)
            if owner is None or gpus <= self.quotas[owner][0]:
                within.append(job)
                if owner is not None:
                    held[owner] = gpus
            elif self.quotas[owner][1]:
                guests.append(job)
        return within, guests

    def _list(self) -> dict[int, int]:
        """The place of each job: those that run move ahead; who comes from elsewhere joins the end."""
        if self.listed_at < self.time and not self.unlisted:
            self.listed_at, self.unlisted = self.time, True  # in case a level is not clear
            level = {job: self.level(job) for job in (*self.running, *self.place)}
            joins = {job for job, own in level.items() if self.listed.get(job) != own}
            ahead = [job for job in self.listed if job not in joins]
            order = sorted(ahead, key=lambda job: job not in self.running)
            order += sorted(joins, key=self.fifo.__getitem__)
            self.listed, self.unlisted = {job: level.get(job, 0) for job in order}, False
        if self.unlisted:
            raise UnclearError
        return {job: at for at, job in enumerate(self.listed)}

    def _alike(self, one: int, other: int) -> bool:
        """Whether two keys are the same however they are worked out: of jobs that have not run."""
        if self.worked(one) or self.worked(other):
            return False
        jobs = self.jobs
        if self.name == "srsf":
            return jobs.gpus[one] == jobs.gpus[other] and self._gpus(one) == self._gpus(other)
        return True

    # A pass.

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """One pass, if it decides now."""
        if self.period is not None and self.time not in self.turns and self.time != self.opened:
            return
        selected = self._selected()
        for job in sorted(self.running.keys() - set(selected)):
            self.stop(job)
        for job in selected:
            if job in self.place:
                self._try(job)

    def _selected(self) -> list[int]:
        """Who should run: the ranking walked with a quota of all GPUs that are up, in thousandths."""
        floor = self.floor
        quota = {own: WHOLE * gpus for own, gpus in floor.capacity.items()}
        selected = []
        for job in self.ranking():
            need = floor.share(job) or self.jobs.gpus[job] * WHOLE
            held = floor.held.get(job)
            draws = floor.tries(job) if held is None else (floor.of[held[0][0]],)
            enough = next((own for own in draws if quota[own] >= need), None)
            if enough is not None:
                quota[enough] -= need
                selected.append(job)
        return selected

    def _try(self, job: int) -> None:
        over = bool(self.quotas) and self.over_quota(job)
        shut = set[int]()
        if self.name in SPACED and self.windows.all:
            left = self.reckoned(job, self.worked(job))
            shut = self.windows.met(self.time, self.time, self.time + left)
        with self.floor.without(shut):
            parts = self.placed(job)
            if parts is None and (self.evicts or self.quotas) and not over:
                parts = self.make_room(job)
        if parts is not None:
            self.start(job, parts, over=over)
