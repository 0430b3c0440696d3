"""How fast jobs run on the fewest servers that hold so many GPUs: r(w) of docs/elastic-policies.md."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

from judge.doubts import Doubts
from judge.given import Given
from judge.speed import Speeds

GAIN: Final = 1e-12
"""Less than that, relative, is no gain but rounding."""


class Rates:
    """Work a second, in iterations or recorded seconds. sizes: GPUs of the servers of each type."""

    def __init__(self, given: Given, speeds: Speeds, sizes: Mapping[int, Mapping[int, int]]) -> None:
        self.given, self.jobs, self.speeds = given, given.jobs, speeds
        self._sums = {own: list(accumulate(sorted(of.values(), reverse=True))) for own, of in sizes.items()}
        self._known: dict[tuple[int, int, int], float] = {}

    def of(self, job: int, own: int, gpus: int) -> float:
        """On so many GPUs of a type; 0 where it has fewer."""
        key = job, own, gpus
        if key not in self._known:
            self._known[key] = self._of(job, own, gpus)
        return self._known[key]

    def _of(self, job: int, own: int, gpus: int) -> float:
        sums = self._sums[own]
        if gpus > sums[-1]:
            return 0.0
        servers = 1 + bisect_left(sums, gpus)
        return self.alone(job, own, gpus, servers)

    def alone(self, job: int, own: int, gpus: int, servers: int) -> float:
        """On GPUs of so many servers."""
        speedup = 1.0 if self.jobs.speedup is None else self.jobs.speedup[job][own]
        if self.given.model == "fixed":
            return self.speeds.relative(job, gpus) * speedup
        if self.given.model == "table":
            rate = self.speeds.measured(job, own, gpus, servers)
            return 0.0 if math.isnan(rate) else rate
        tau = self.speeds.iteration(job, gpus, servers, 1, speedup)
        return self.speeds.relative(job, gpus) / tau if tau > 0.0 else math.inf

    def gains(self, job: int, own: int, gpus: int, doubts: Doubts) -> bool:
        """Whether one GPU more makes a job faster."""
        now, more = self.of(job, own, gpus), self.of(job, own, gpus + 1)
        return not doubts.up_to(more, now * (1.0 + GAIN), now * GAIN / 8.0)

    def kind(self, job: int) -> tuple[object, ...]:
        """Jobs of one kind are as fast as each other on any GPUs, and have as much to do."""
        jobs = self.jobs
        columns = (
            *(jobs.gpus, jobs.duration, jobs.iterations, jobs.gradient, jobs.compute, jobs.noise, jobs.batch),
            *(jobs.model, jobs.recorded),
        )
        speedup = None if jobs.speedup is None else tuple(jobs.speedup[job])
        return (*(None if own is None else own[job] for own in columns), speedup)
