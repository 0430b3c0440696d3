"""For how long a gang could not be placed: idle GPUs over time, worked out from the stretches alone."""

from __future__ import annotations

import numpy as np

from ringbco.audits.facts import Bools, Facts, Floats, Ints

ANY_IDLE = frozenset({"first-fit", "least-loaded", "random", "fa-ffp", "sjf-bco"})
"""Placements for which any idle GPUs will do; of the literal sjf-bco that holds up to kappa only."""


def any_idle_will_do(facts: Facts) -> bool:
    """Whether a gang of any size can be placed once enough GPUs are idle, wherever they are."""
    name, literal = facts.options["placement"], facts.options["variant"] == "literal"
    if facts.planned or facts.types is not None:
        return False  # theta decides, or the types that a job may use
    if name == "lbsgf":
        return not literal
    return name in ANY_IDLE and not (name == "sjf-bco" and literal)


def decided(facts: Facts) -> bool:
    """Whether idle GPUs, and where they are, say if a gang can be placed."""
    consolidates = facts.options["placement"] == "consolidate" and not facts.planned
    return any_idle_will_do(facts) or (consolidates and facts.types is None)


class IdleGpus:
    """The idle GPUs of one (virtual) cluster from beginning to end."""

    def __init__(self, facts: Facts, vc: int) -> None:
        chosen = (facts.server_vc[facts.a_server] == vc) & (facts.a_end > facts.a_start)
        server, gpus = facts.a_server[chosen], facts.a_gpus[chosen]
        server = np.concatenate([server, server])
        time = np.concatenate([facts.a_start[chosen], facts.a_end[chosen]])
        change = np.concatenate([-gpus, gpus])
        order = np.lexsort((time, server))
        server, time, change = server[order], time[order], change[order]
        sizes = facts.server_gpus[facts.server_vc == vc]
        self.largest = int(sizes.max())
        self._sizes = sizes
        # The changes of one server add up to nothing, so one running sum gives each server's own.
        self._idle = facts.server_gpus[server] + np.cumsum(change)
        self._before = self._idle - change
        self._order = np.argsort(time, kind="stable")
        self.time = time[self._order]
        total = int(sizes.sum())
        self._total = np.append(total, total + np.cumsum(change[self._order]))
        self._holding: dict[int, Ints] = {}

    def too_few(self, wanted: int) -> Bools:
        """Whether fewer than `wanted` GPUs are idle: before the first change, then after each."""
        return self._total < wanted

    def holding(self, wanted: int) -> Ints:
        """How many servers have so many idle GPUs: before the first change, then after each."""
        if wanted not in self._holding:
            crossing = (self._idle >= wanted).astype(np.int64) - (self._before >= wanted)
            at_first = int(np.count_nonzero(self._sizes >= wanted))
            self._holding[wanted] = np.append(at_first, at_first + np.cumsum(crossing[self._order]))
        return self._holding[wanted]

    def apart(self, wanted: int) -> Bools:
        """Whether `consolidate` could not place so many GPUs: too few idle ones, or not together."""
        if wanted <= self.largest:
            return np.asarray(self.holding(wanted) == 0)
        whole, rest = divmod(wanted, self.largest)
        # Only the largest servers can have that many idle; one more has to hold the rest.
        ready = self.holding(self.largest) >= whole
        return np.asarray(~(ready & (self.holding(rest) > whole) if rest else ready))

    def seconds(self, when: Bools, begin: Floats, end: Floats) -> Floats:
        """For how long `when` held between each `begin` and `end`."""
        if self.time.size == 0:
            return np.zeros(begin.size)
        until = np.append(0.0, np.cumsum(np.where(when[1:-1], np.diff(self.time), 0.0)))

        def up_to(times: Floats) -> Floats:
            # `until` is the sum at each change; what held before the first counts backwards from it.
            at = np.searchsorted(self.time, times, side="right")
            since = np.maximum(at - 1, 0)
            return np.asarray(until[since] + np.where(when[at], times - self.time[since], 0.0))

        return up_to(end) - up_to(begin)


def obstacles(facts: Facts, job: Ints, begin: Floats, end: Floats) -> tuple[Floats, Floats, Bools]:
    """Of each wait of a job, from `begin` to `end`: seconds with too few idle GPUs, and enough but apart.

    The last array says where the second is known; for `consolidate` and where any idle GPUs will do.
    """
    few, apart = np.zeros(job.size), np.zeros(job.size)
    known = np.full(job.size, decided(facts))
    if facts.options["placement"] == "sjf-bco" and not facts.planned:
        known |= facts.num_gpus[job] <= int(facts.options["kappa"])
    together = facts.options["placement"] == "consolidate" and not facts.planned
    waits = np.flatnonzero(end > begin)
    for vc in np.unique(facts.vc[job[waits]]).tolist():
        mine = waits[facts.vc[job[waits]] == vc]
        idle = IdleGpus(facts, vc)
        sizes = facts.num_gpus[job[mine]]
        for size in np.unique(sizes).tolist():
            at = mine[sizes == size]
            short = idle.too_few(size)
            few[at] = idle.seconds(short, begin[at], end[at])
            if together:
                apart[at] = idle.seconds(idle.apart(size) & ~short, begin[at], end[at])
    return few, apart, known
