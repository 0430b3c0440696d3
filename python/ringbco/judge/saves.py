"""When a stay writes checkpoints that take time, and what the latest one has saved (docs/outages.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ringbco.judge.clock import boundary, whole_slots
from ringbco.judge.given import Given
from ringbco.judge.speed import EVEN

Save = tuple[float, float]
"""When it begins, and when it is over."""


def rounding(time: float, begin: float) -> float:
    """An end so near to a checkpoint comes first, and a checkpoint so near to its end is over."""
    return 1e-12 * max(0.0, time - begin) + 8.0 * math.ulp(time)


class Saves:
    """The checkpoints of a run."""

    def __init__(self, given: Given) -> None:
        self._own, self._slot = given.jobs.checkpoint, given.slot
        self._every = float(given.options.get("checkpoint_interval", 1800.0))
        cost = float(given.options.get("checkpoint_cost", 0.0))
        self.cost = whole_slots(cost, None if given.model == "table" else given.slot)

    def _interval(self, job: int) -> float:
        return self._every if self._own is None else self._own[job]

    def of(self, job: int, begin: float, end: float) -> Sequence[Save]:
        """Those of a stay whose progress begins at an instant, before another; none where they take no time."""
        every = self._interval(job)
        if not self.cost or every == math.inf:
            return ()
        found: list[Save] = []
        progress, over = 0.0, begin
        while True:
            number = math.floor(progress / every * EVEN) + 1
            at = self._seen(over + (number * every - progress), over, begin)
            if at >= end - rounding(at, begin):
                return found
            progress += at - over
            over = at + self.cost
            found.append((at, over))

    def _seen(self, at: float, after: float, begin: float) -> float:
        """The instant of the clock at which a checkpoint can begin that is due then; later than the one before."""
        slot = self._slot
        if slot is None:
            return max(at, math.nextafter(after, math.inf))
        first = math.floor(after / slot * EVEN) * slot
        return max(first + boundary(at - rounding(at, begin) - first, slot), first + slot)

    def latest(self, job: int, begin: float, end: float) -> tuple[float, float]:
        """The instant of the latest checkpoint up to another that counts, and the seconds of progress since then."""
        if not self.cost:
            at = self._at_once(job, begin, end)
            return at, end - at
        saves = self.of(job, begin, end)
        at = max((over for _, over in saves if end >= over - rounding(over, begin)), default=begin)
        begun = [first for first, over in saves if over > at and first >= at]
        return at, max(0.0, (begun[0] if begun else end) - at)

    def _at_once(self, job: int, begin: float, end: float) -> float:
        """The same of checkpoints that take no time."""
        every, passed = self._interval(job), end - begin
        if every == 0 or passed <= 0:
            return end
        count = 0 if every == math.inf else math.floor(passed / every * EVEN)
        if count == 0:
            return begin
        at, slot = begin + count * every, self._slot
        if slot is not None:
            near = math.floor(begin / slot) * slot
            at = near + boundary((at - near) * (1.0 - 1e-12), slot)
        return min(at, end)
