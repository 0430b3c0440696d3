"""The whole of a run: from the first submission to the last finish, and what of its servers was up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ringbco.checker.arrays import overlap, total
from ringbco.checker.draining import Drained
from ringbco.checker.inputs import Bools, Floats, Ints, Replicas, RunInputs, StayLog, Stays
from ringbco.checker.settings import Outage
from ringbco.checker.stays import SleepInterval

HOUR: Final = 3600.0


@dataclass
class RunInterval:
    """down, drains: at instants of the clock. drained: idle GPUs of servers that drained.

    stays: of jobs that were done or ended, all of the stay log.
    """

    inputs: RunInputs
    stays: Stays
    replicas: Replicas
    down: list[Outage]
    drains: list[Outage]
    drained: list[Drained]
    slept: list[SleepInterval]
    first: float
    last: float

    @classmethod
    def of(
        cls,
        inputs: RunInputs,
        stay_log: StayLog,
        closed: tuple[list[Outage], list[Outage], list[Drained]],
        slept: list[SleepInterval],
    ) -> RunInterval:
        """That of a stay log. closed: down, drains and drained."""
        stays, first, last = stay_log.stays, 0.0, 0.0
        if len(stays):
            first, last = float(inputs.jobs.submit[stays.job[stays.head]].min()), float(stays.end.max())
        return cls(inputs, stays, stay_log.replicas, *closed, slept, first, last)

    @property
    def closes(self) -> float:
        """When a run with requests was over: a replica gave its last answer, or the last job was done."""
        return max(float(self.stays.end.max(initial=0.0)), float(self.replicas.end.max(initial=0.0)))

    def measured(self) -> RunInterval:
        """That of figures of time: what of the window is in the run."""
        since, until = self.inputs.window or (self.first, self.last)
        return replace(self, first=max(self.first, since), last=min(self.last, until))

    def up(self, servers: Bools, first: float, last: float) -> float:
        """GPU-seconds of servers that were up between two instants."""
        gpus = self.inputs.cluster.gpus
        lacking = 0.0
        if self.down:
            server = np.array([outage.server for outage in self.down])
            down, up = (np.array([outage[i] for outage in self.down]) for i in (1, 2))
            lacking = total((gpus[server] * overlap(down, up, first, last))[servers[server]])
        every = int(gpus[servers].sum()) * (last - first)
        there = every - lacking - self.drained_in(servers, first, last)
        return there if there > 1e-12 * every else 0.0  # no more than rounding

    def drained_in(self, servers: Bools, first: float, last: float) -> float:
        """Idle GPU-seconds of servers that drained, between two instants."""
        server = np.array([drained.server for drained in self.drained], np.int64)
        since, until, gpus = (
            np.array([drained[i] for drained in self.drained], np.float64) for i in (1, 2, 3)
        )
        return total((gpus * overlap(since, until, first, last))[servers[server]])

    def hours(self, gpus: Ints, since: Floats, until: Floats) -> float:
        """GPU-hours in the run of so many GPUs, from when until when."""
        return total(gpus * overlap(since, until, self.first, self.last)) / HOUR

    def held(self, rows: Bools | slice, first: float, last: float) -> float:
        """GPU-seconds that some stays held between two instants; those of jobs on the same GPUs once."""
        stays, jobs = self.stays, self.inputs.jobs
        gpus = stays.gpus[rows] if jobs.share is None else stays.gpus[rows] * jobs.weight[stays.job[rows]]
        return total(gpus * overlap(stays.busy_from[rows], stays.end[rows], first, last))
