"""Who is protected from being stopped for others (docs/operators.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ringbco.checker.clock import instant
from ringbco.checker.inputs import EVICTED, PREEMPTED, RunInputs

STOPPED = (PREEMPTED, EVICTED)
"""How a stay ends that is ended for others."""


class Protection:
    """after: seconds of a stay. most: stays ended for others. stopped: those so far, by job.

    kept: of each job whether it is protected for good; None if none is.
    """

    def __init__(self, inputs: RunInputs) -> None:
        options, may = inputs.options, inputs.jobs.plain.get("preemptible")
        most = options.get("max_preemptions")
        self.after, self.slot = self._after(options), inputs.slot
        self.most = math.inf if most is None else int(most)
        stops = inputs.preempts or inputs.decides or bool(options.get("evict"))
        self.kept = None if may is None or not options.get("keep_unpreemptible") else ~may.astype(bool)
        given = self.after > 0.0 or self.most < math.inf or self.kept is not None
        self.is_on = stops and not inputs.follows and given
        self.stopped: Counter[int] = Counter()

    @staticmethod
    def _after(options: Mapping[str, Any]) -> float:
        said = options.get("preempt_after")
        usual = 2.0 * options["preempt_cost"] if options["policy"] == "repack" else 0.0
        return float(usual if said is None else said)

    def keeps(self, job: int) -> bool:
        """Whether a job is protected for good."""
        return self.kept is not None and bool(self.kept[job])

    def until(self, job: int, start: float) -> float:
        """When a stay of a job is protected no longer that began then."""
        if not self.is_on:
            return -math.inf
        if self.stopped[job] >= self.most or self.keeps(job):
            return math.inf
        return instant(start + self.after, self.slot) if self.after > 0.0 else -math.inf

    def ended(self, job: int, ended: int) -> None:
        """A stay is over."""
        self.stopped[job] += ended in STOPPED
