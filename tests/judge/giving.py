"""Who gets how many GPUs of those that are free, one GPU at a time (docs/elastic-policies.md)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from judge.deciding import UnclearError
from judge.doubts import Doubts
from judge.rates import Rates

MILLION: Final = 1_000_000


def _any(_job: int) -> bool:
    return True


class Fall(NamedTuple):
    """By how much a remaining run time falls, s. slack: how far that may be off."""

    by: float
    slack: float


class Giver:
    """Gives out GPUs of one type.

    order: jobs as they stand in the base, those with a number. number: theirs, which it writes. left: work
    left, and how far that may be off. kind: of a job that has done nothing yet; None of others. Two of one
    kind tie exactly.
    """

    left: Callable[[int], tuple[float, float]]
    kind: Callable[[int], object]

    def __init__(self, rates: Rates, own: int, order: Sequence[int], number: dict[int, int]) -> None:
        self.rates, self.own, self.order, self.number = rates, own, order, number

    def caps(self, most: Callable[[int], int], doubts: Doubts) -> dict[int, int]:
        """The number beyond which one more GPU is no gain, of each."""
        caps = {}
        for job in self.order:
            cap, last = self.number[job], most(job)
            while cap < last and self.rates.gains(job, self.own, cap, doubts):
                cap += 1
            caps[job] = cap
        return caps

    # Whose remaining run time falls most.

    def fall(self, job: int, gpus: int) -> Fall:
        """T(w) - T(w + 1)."""
        now, more = self.rates.of(job, self.own, gpus), self.rates.of(job, self.own, gpus + 1)
        if now == 0.0:
            return Fall(math.inf, 0.0)
        left, slack = self.left(job)
        before, after = left / now, left / more
        return Fall(before - after, slack * (1.0 / now - 1.0 / more) + 1e-12 * before)

    def by_gain(self, free: int, caps: dict[int, int], fifo: dict[int, int], doubts: Doubts) -> None:
        """Each GPU to the job that gains most by it, ties fifo."""
        number = self.number
        turns = dict.fromkeys(self.order, Fall(math.inf, 0.0))
        heap = [
            (-self.fall(job, number[job]).by, fifo[job], job) for job in self.order if number[job] < caps[job]
        ]
        heapq.heapify(heap)
        given: list[tuple[int, Fall]] = []
        while heap and len(given) < free:
            job = heapq.heappop(heap)[2]
            turns[job] = min(turns[job], self.fall(job, number[job]))
            given.append((job, turns[job]))
            number[job] += 1
            if number[job] < caps[job]:
                heapq.heappush(heap, (-self.fall(job, number[job]).by, fifo[job], job))
        if heap and given:
            self._close(given, turns, caps, fifo, doubts)

    def _close(
        self,
        given: list[tuple[int, Fall]],
        turns: dict[int, Fall],
        caps: dict[int, int],
        fifo: dict[int, int],
        doubts: Doubts,
    ) -> None:
        """Gives the last GPUs otherwise, where those that were not given would gain as much by rounding."""
        last = min(turn for _, turn in given)
        if last.by == math.inf:
            return
        cut = last.by + last.slack, last.by - last.slack
        near = [(job, turn) for job, turn in given if turn.by - turn.slack <= cut[0]]
        first = dict(self.number)
        for job, _ in near:
            first[job] -= 1
        # From there on: up to where each job's steps are as good as the last that was given.
        upto = {}
        for job in sorted(self.order, key=fifo.__getitem__):
            at, turn = self.number[job], turns[job]
            while at < caps[job]:
                turn = min(turn, self.fall(job, at))
                if turn.by + turn.slack < cut[1]:
                    break
                at += 1
            upto[job] = at
        if upto != self.number:
            self._among([job for job in upto if first[job] < upto[job]], first, upto, len(near), doubts)

    def _among(
        self, jobs: list[int], now: dict[int, int], upto: dict[int, int], count: int, doubts: Doubts
    ) -> None:
        """Gives so many GPUs to jobs whose gains are as good as each other's, in some way."""
        at, kinds = 0, {job: self.kind(job) for job in jobs}
        for _ in range(count):
            able: list[int] = []
            seen: set[tuple[object, int]] = set()
            for place, job in enumerate(jobs):
                if now[job] == upto[job]:
                    continue
                step = kinds[job], now[job]
                # Of two of one kind the first has its turn first.
                if kinds[job] is None or step not in seen:
                    able += [place] if place >= at else []
                seen.add(step)
            if not able:
                break
            at = able[doubts.choose(len(able))]
            now[jobs[at]] += 1
        if doubts.open:
            self.number.update({job: now[job] for job in jobs})

    def one_by_one(
        self, free: int, caps: dict[int, int], fifo: dict[int, int], may: Callable[[int], bool]
    ) -> int:
        """The same among jobs that may still get more. Returns how many were looked at.

        Raises UnclearError where several gain as much as each other by rounding.
        """
        looks = 0
        while free > 0:
            able = [job for job in self.order if self.number[job] < caps[job] and may(job)]
            looks += len(able)
            if not able:
                break
            falls = {job: self.fall(job, self.number[job]) for job in able}
            best = min(able, key=lambda job: (-falls[job].by, fifo[job]))
            top, kind = falls[best], (self.kind(best), self.number[best])
            for job in able:
                like = kind[0] is not None and (self.kind(job), self.number[job]) == kind
                if job != best and not like and top.by - falls[job].by <= top.slack + falls[job].slack:
                    raise UnclearError
            self.number[best] += 1
            free -= 1
        return looks

    # AFS.

    def by_pairs(
        self, free: int, caps: dict[int, int], doubts: Doubts, may: Callable[[int], bool] = _any
    ) -> int:
        """Each GPU to the first job of the base that no later one beats. Returns how many were looked at.

        may: whether a job may still get more.
        """
        jobs = [job for job in self.order if self.number[job] < caps[job]]
        times = {job: self.times(job) for job in jobs}
        looks = 0
        while free > 0 and (jobs := [job for job in jobs if may(job)]):
            looks += len(jobs)
            job = self._unbeaten(jobs, times, doubts)
            self.number[job] += 1
            free -= 1
            if self.number[job] < caps[job]:
                times[job] = self.times(job)
            else:
                jobs.remove(job)
        return looks

    def _unbeaten(self, jobs: list[int], times: dict[int, tuple[int, int, int]], doubts: Doubts) -> int:
        least: list[tuple[int, int, int]] = []
        now = (MILLION**4,) * 3
        for job in reversed(jobs):
            least.append(now)
            now = min(now[0], times[job][0]), min(now[1], times[job][1]), min(now[2], times[job][2])
        for job, (low, plain, high) in zip(jobs, reversed(least), strict=True):
            mine = times[job]
            beaten = plain + MILLION < mine[1]
            if (low + MILLION < mine[2]) != (high + MILLION < mine[0]):
                beaten = beaten == (doubts.choose(2) == 0)
            if not beaten:
                return job
        return jobs[-1]

    def times(self, job: int) -> tuple[int, int, int]:
        """c in millionths: the least that it may be, what the figures say, and the most."""
        gpus = self.number[job]
        now, more = self.rates.of(job, self.own, gpus), self.rates.of(job, self.own, gpus + 1)
        c = now / (more - now) if more < math.inf else 0.0
        slack = c * 1e6 * (1e-14 + 1e-14 * c)
        return round(c * 1e6 - slack), round(c * 1e6), round(c * 1e6 + slack)
