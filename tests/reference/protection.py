"""The reference model of protection from preemption, straight from docs/operators-reference.md.

A part of every model that preempts. Nothing here imports ringbco.
"""

import math
from typing import Any


class Protecting:
    """Of a world with `now`, `slotted`, `running`, `waiting`, `rules`, `stops` and `passed`."""

    def open_at(self, run: Any) -> float:
        """When the protection of a stay ends, s."""
        stopped = sum(how != "moved" for _, how in self.stops[run.row])
        if stopped >= self.rules.most or run.row in self.rules.kept:
            return math.inf
        after = self.rules.protected_for(run.row)
        return self.seconds(run.start) + after if after > 0 else -math.inf

    def is_protected(self, row: int) -> bool:
        own = [run for run in self.running if run.row == row and not self.is_new(run)]
        return any(self.seconds(self.now) < self.open_at(run) for run in own)

    def is_drained(self, row: int) -> bool:
        """Whether it holds GPUs of a server that drains, which is `outages`'."""
        return False

    def is_kept(self, row: int) -> bool:
        """Whether nobody takes its GPUs, but one within its quota those of a protected guest."""
        return self.is_protected(row) or self.is_drained(row)

    def is_new(self, run: Any) -> bool:
        """Whether it began at this instant, and not because a protected one was put there."""
        moved = self.kept_at == self.now and run.row in self.firm
        return bool(run.start == self.now) and not moved

    @property
    def looks(self) -> bool:
        """Whether there is a pass then; a turn of time-slice is a quantum at least."""
        quantum = self.rules.interval if self.rules.policy == "time-slice" else None
        return quantum is None or self.rules.after > quantum

    def openings(self) -> list[float]:
        """Instants to come at which a protection ends, s."""
        if not self.looks:
            return []
        times = [self.open_at(run) for run in self.running]
        return [time for time in times if self.seconds(self.now) < time < math.inf]

    def opens(self) -> bool:
        """Whether a protection has ended since the latest instant, and somebody waits."""
        before = self.seconds(self.now - 1) if self.slotted else math.nextafter(self.now, -math.inf)
        ends = any(before < self.open_at(run) <= self.seconds(self.now) for run in self.running)
        return bool(self.waiting) and ends and self.looks and self.passed != self.now
