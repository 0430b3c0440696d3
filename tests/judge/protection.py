"""Who is protected from being stopped for others (docs/operators.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from judge.clock import boundary
from judge.given import Given, Stay

ENDED = ("preempted", "evicted")
"""How a stay ends that is ended for others."""


class Protection:
    """after: seconds of a stay. most: stays ended for others. stopped: those so far, by job."""

    def __init__(self, given: Given) -> None:
        options = given.options
        most = options.get("max_preemptions")
        self.after, self.slot = float(options.get("preempt_after") or 0.0), given.slot
        self.most = math.inf if most is None else int(most)
        stops = given.preempts or given.decides or bool(options.get("evict"))
        logged = str(options["policy"]).startswith("log:")
        self.is_on = stops and not logged and (self.after > 0.0 or self.most < math.inf)
        self.stopped: Counter[int] = Counter()
        quantum = options.get("quantum") if options["policy"] == "time-slice" else None
        self.looks = quantum is None or self.after > quantum
        """Whether the end of a protection is a pass: a turn of time-slice is a quantum at least."""

    def until(self, job: int, start: float) -> float:
        """When a stay of a job is protected no longer that began then."""
        if not self.is_on:
            return -math.inf
        if self.stopped[job] >= self.most:
            return math.inf
        return boundary(start + self.after, self.slot) if self.after > 0.0 else -math.inf

    def ends(self, stays: Iterable[Stay]) -> set[float]:
        """Every instant at which a protection may end."""
        if not (self.is_on and self.looks) or self.after <= 0.0:
            return set()
        return {boundary(stay.start + self.after, self.slot) for stay in stays}

    def ended(self, stay: Stay) -> None:
        """A stay is over."""
        self.stopped[stay.job] += stay.ended in ENDED
