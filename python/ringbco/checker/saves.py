"""When a stay writes checkpoints that take time, and what the latest one has saved (docs/outages.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ringbco.checker.clock import boundary, whole_slots
from ringbco.checker.inputs import Bools, Floats, Ints, RunInputs
from ringbco.checker.speed import EVEN

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

    def __init__(self, inputs: RunInputs) -> None:
        self._own, self._slot = inputs.jobs.plain.get("checkpoint_interval"), inputs.slot
        self._every = float(inputs.options.get("checkpoint_interval", 1800.0))
        cost = float(inputs.options.get("checkpoint_cost", 0.0))
        self.cost = whole_slots(cost, None if inputs.model == "table" else inputs.slot)

    def every(self, job: Ints) -> Floats:
        """Seconds between the checkpoints of each job."""
        own = np.full(job.size, np.nan) if self._own is None else self._own[job]
        return np.where(np.isnan(own), self._every, own)

    def some(self, job: Ints, begin: Floats, end: Floats) -> Bools:
        """Which stays may write any that take time: those longer than their interval."""
        every = self.every(job)
        slack = 1e-6 * np.where(np.isinf(every), 0.0, every) + (self._slot or 0.0)
        return (end - begin > every - slack) & bool(self.cost)

    def of(self, every: float, begin: float, end: float, *, by_itself: bool = False) -> Sequence[Save]:
        """Those of a stay that progresses from `begin` on, before `end`; none where they take no time.

        by_itself: whether the stay ends then because its job is done, or at a rung.
        """
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

    def latest(self, job: Ints, begin: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Of stays that fail: when the latest checkpoint was that counts, and seconds of progress since."""
        if not self.cost:
            at = self._at_once(self.every(job), begin, end)
            return at, end - at
        found, since = begin.copy(), np.maximum(0.0, end - begin)
        rows = np.flatnonzero(self.some(job, begin, end))
        each = zip(self.every(job[rows]).tolist(), begin[rows].tolist(), end[rows].tolist(), strict=True)
        for row, (every, first, last) in zip(rows.tolist(), each, strict=True):
            saves = self.of(every, first, last)
            done = (over for n, (_, over) in enumerate(saves, 1) if last >= over - rounding(over, first, n))
            at_last = max(done, default=first)
            begun = [one for one, over in saves if over > at_last and one >= at_last]
            found[row], since[row] = at_last, max(0.0, (begun[0] if begun else last) - at_last)
        return found, since

    def _at_once(self, every: Floats, begin: Floats, end: Floats) -> Floats:
        """When the latest checkpoint of each was, of those that take no time."""
        passed = end - begin
        with np.errstate(divide="ignore", invalid="ignore"):
            count = np.where(np.isinf(every), 0.0, np.floor(passed / every * EVEN))
            at = begin + count * every
            slot = self._slot
            if slot is not None:
                near = np.floor(begin / slot) * slot
                at = near + boundary((at - near) * (1.0 - 1e-12), slot)
        at = np.where(count == 0, begin, np.minimum(at, end))
        return np.where((every == 0) | (passed <= 0), end, at)
