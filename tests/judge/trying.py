"""A pass that is tried in several ways, until one is what the book says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from judge.deciding import UnclearError
from judge.doubts import Doubts, ManyWaysError, possible
from judge.floor import Floor
from judge.given import Given, Stay
from judge.placing import Parts
from judge.ranked import Ranking
from judge.rates import Rates
from judge.work import Worker

WORK: Final = 1e-11
"""Sums of work may be off by so much, relative to all the work of a job."""


class Trying(Ranking):
    """A policy that decides at every event.

    stirred: when something last happened to its jobs. blurred: whether several ways of placing jobs may have
    been right, so that U is not known from the next instant on.
    """

    orders = False
    """Whether doubts are about the order in which jobs are placed."""

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        self.rates = Rates(given, worker.speeds, floor.sizes)
        self.stirred = -math.inf
        self.capacity = dict(floor.capacity)
        self.blurred = False

    def look(self) -> None:
        """An instant has come."""
        self.lost |= self.blurred

    def enter(self, job: int) -> None:
        """A job waits."""
        super().enter(job)
        self.stirred = self.time

    def ended(self, stay: Stay) -> None:
        """A stay is over before the pass."""
        super().ended(stay)
        self.stirred = self.time

    def happened(self) -> bool:
        """Whether it must decide now. It may also have to after what the book does not tell."""
        sure = self.time in (self.stirred, self.opened) or self.capacity != self.floor.capacity
        self.capacity = dict(self.floor.capacity)
        return sure

    def blind(self) -> bool:
        """Where U, or the random numbers, are not known, numbers are, unless fewer GPUs may be found."""
        return self.lost and self.fails()

    def agrees(self, found: Parts | None, right: Parts | None) -> bool:
        """Whether the book has the same GPUs, or as many where nobody knows which."""
        if not self.lost or found is None or right is None:
            return found == right
        return self.floor.count(found) == self.floor.count(right)

    def least(self, job: int) -> int:
        """min_gpus."""
        return self.jobs.least[job] if self.jobs.least is not None else self.jobs.gpus[job]

    def most(self, job: int) -> int:
        """max_gpus."""
        return self.jobs.most[job] if self.jobs.most is not None else self.jobs.gpus[job]

    def left(self, job: int) -> tuple[float, float]:
        """Work left, and how far that may be off."""
        worked, whole = self.worked(job), self.worker.speeds.work(job) * self.worker.speeds.unit
        return max(0.0, whole - worked), (WORK * whole if worked else 0.0)

    def drawn(self, job: int) -> Sequence[int]:
        """The types on which a job may draw: that of its GPUs, where it has some."""
        held = self.floor.held.get(job)
        return self.floor.tries(job) if held is None else (self.floor.of[held[0][0]],)

    def possible(self, holds: Callable[[Doubts], bool]) -> bool:
        """Whether something holds in one of the ways in which doubtful comparisons may go."""
        try:
            return possible(holds)
        except ManyWaysError:
            raise UnclearError from None

    def attempt(self, decide: Callable[[Doubts], None], out: list[Stay], come: list[Stay]) -> None:
        """Decides as the book says, if that is one of the ways; else as the figures say."""
        load, on, rng = dict(self.floor.load), dict(self.floor.on), self.floor.rng

        def decided(doubts: Doubts) -> bool:
            self._take_back(on)
            self.floor.load, self.floor.rng = dict(load), rng
            decide(doubts)
            self.blurred |= doubts.met and bool(load) and (self.orders or self.fails())
            right, held = self.right(out, come), self.floor.held
            return all(self.agrees(held.get(job), parts) for job, parts in right.items())

        if not self.possible(decided):
            decided(Doubts())

    def _take_back(self, on: dict[int, list[tuple[int, int]]]) -> None:
        """All is as it was before the pass."""
        for job in self.touched:
            self._give(job)
        for job, before in self.touched.items():
            if before.parts is not None:
                self.floor.back(job, before.parts, on.get(job))
                self._own(job, before.parts)
            self.undo(job)
        self.touched.clear()
        self.evictors.clear()
