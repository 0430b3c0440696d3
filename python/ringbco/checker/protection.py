"""Who is protected from being stopped for others (docs/operators.md)."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from ringbco.checker.clock import instant
from ringbco.checker.inputs import EVICTED, PREEMPTED, Floats, RunInputs
from ringbco.checker.saves import Saves

STOPPED = (PREEMPTED, EVICTED)
"""How a stay ends that is ended for others."""


class Protection:
    """after: seconds of a stay, by job. most: stays ended for others. stopped: those so far, by job.

    kept: of each job whether it is protected for good; None if none is.
    """

    def __init__(self, inputs: RunInputs) -> None:
        options, may = inputs.options, inputs.jobs.plain.get("preemptible")
        most = options.get("max_preemptions")
        self.after, self.slot = self._after(inputs), inputs.slot
        self.most = math.inf if most is None else int(most)
        stops = inputs.preempts or inputs.decides or bool(options.get("evict"))
        self.kept = None if may is None or not options.get("keep_unpreemptible") else ~may.astype(bool)
        given = bool((self.after > 0.0).any()) or self.most < math.inf or self.kept is not None
        self.is_on = stops and not inputs.follows and given
        self.stopped: Counter[int] = Counter()

    @staticmethod
    def _after(inputs: RunInputs) -> Floats:
        said = inputs.options.get("preempt_after")
        if said is not None or not inputs.protects:
            return np.full(inputs.jobs.submit.size, said or 0.0)
        cost, own = inputs.cost("preempt_cost"), inputs.jobs.plain.get("preempt_cost")
        costs = np.full(inputs.jobs.submit.size, cost) if own is None else np.where(np.isnan(own), cost, own)
        if not inputs.options.get("preempt_loses"):
            return 2.0 * costs
        every = Saves(inputs).every(np.arange(costs.size))
        return 2.0 * costs + (every + (inputs.cost("start_cost") + inputs.cost("checkpoint_cost")))

    def keeps(self, job: int) -> bool:
        """Whether a job is protected for good."""
        return self.kept is not None and bool(self.kept[job])

    def until(self, job: int, start: float) -> float:
        """When a stay of a job is protected no longer that began then."""
        if not self.is_on:
            return -math.inf
        if self.stopped[job] >= self.most or self.keeps(job):
            return math.inf
        after = float(self.after[job])
        return instant(start + after, self.slot) if after > 0.0 else -math.inf

    def ended(self, job: int, ended: int) -> None:
        """A stay is over."""
        self.stopped[job] += ended in STOPPED
