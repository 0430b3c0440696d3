"""When a stay writes checkpoints that take time, and what the latest one has saved (docs/outages.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from judge.clock import boundary, whole_slots
from judge.given import Given
from judge.speed import EVEN

Save = tuple[float, float]
"""When it begins, and when it is over."""


def rounding(time: float, begin: float, count: int) -> float:
    """An end so near to a checkpoint comes first, and a checkpoint so near to its end is over.

    begin: of the stay's progress. count: the checkpoints before.
    """
    return 1e-12 * max(0.0, time - begin) + (64 + count) * math.ulp(time)


def _even(slots: float) -> float:
    """A number of slots that is whole but for a rounding."""
    near = round(slots)
    return near if abs(slots - near) <= 1e-9 + 4.0 * math.ulp(slots) else slots


class Saves:
    """The checkpoints of a run."""

    def __init__(self, given: Given) -> None:
        self._own, self._slot = given.jobs.checkpoint, given.slot
        self._every = float(given.options.get("checkpoint_interval", 1800.0))
        cost = float(given.options.get("checkpoint_cost", 0.0))
        self.cost = whole_slots(cost, None if given.model == "table" else given.slot)

    def _interval(self, job: int) -> float:
        return self._every if self._own is None else self._own[job]

    def of(self, job: int, begin: float, end: float, *, by_itself: bool = False) -> Sequence[Save]:
        """Those of a stay that progresses from `begin` on, before `end`; none where they take no time.

        by_itself: whether the stay ends then because its job is done, or at a rung.
        """
        every = self._interval(job)
        if not self.cost or every == math.inf:
            return ()
        if self._slot is not None:
            return self._in_slots(begin, end, every, self._slot)
        found: list[Save] = []
        over = begin
        while True:
            at = begin + len(found) * self.cost + (len(found) + 1) * every
            at = max(at, math.nextafter(over, math.inf))
            if at >= (end - rounding(at, begin, len(found)) if by_itself else end):
                return found
            over = at + self.cost
            found.append((at, over))

    def _in_slots(self, begin: float, end: float, every: float, slot: float) -> Sequence[Save]:
        """The same under the slot clock: at boundaries, one for all multiples that a slot comes to."""
        base = math.floor(_even(begin / slot))
        part, cost, step = _even(begin / slot) - base, self.cost / slot, every / slot
        last, over, multiple = round(end / slot) - base, part, 0.0
        found: list[Save] = []
        while True:
            at = math.ceil((part + len(found) * cost + (multiple + 1.0) * step) * (2.0 - EVEN))
            at = max(at, math.floor(_even(over)) + 1)
            if at >= last:
                return found
            multiple = max(multiple + 1.0, math.floor((at - part - len(found) * cost) / step * EVEN))
            over = at + cost
            found.append(((base + at) * slot, (base + over) * slot))

    def time(self, saves: Sequence[Save], end: float) -> float:
        """How long they take up to an instant."""
        return math.fsum(self.cost if over <= end else end - begun for begun, over in saves)

    def latest(self, job: int, begin: float, end: float) -> tuple[float, float]:
        """When the latest checkpoint was that counts by `end`, and the seconds of progress since then."""
        if not self.cost:
            at = self._at_once(job, begin, end)
            return at, end - at
        saves = self.of(job, begin, end)
        done = (over for n, (_, over) in enumerate(saves, 1) if end >= over - rounding(over, begin, n))
        at = max(done, default=begin)
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
