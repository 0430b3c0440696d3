"""For how long a gang could not be placed: idle GPUs over time, worked out from the stretches alone."""

from __future__ import annotations

import numpy as np

from ringbco.audits.episodes import Episodes
from ringbco.audits.facts import Bools, Facts, Floats, Ints, policy_is
from ringbco.audits.findings import Check, blame, number
from ringbco.audits.types import PACKING

ANY_IDLE = frozenset({"first-fit", "emptiest", "least-loaded", "random", "fa-ffp", "sjf-bco"})
"""Placements for which any idle GPUs will do; of the literal sjf-bco that holds up to kappa only."""


def any_idle_will_do(facts: Facts) -> bool:
    """Whether a gang of any size can be placed once enough GPUs are idle, wherever they are."""
    name, literal = facts.options["placement"], facts.options["variant"] == "literal"
    if facts.planned:
        return False  # theta decides
    if name == "lbsgf":
        return not literal
    return name in ANY_IDLE and not (name == "sjf-bco" and literal)


def decided(facts: Facts) -> bool:
    """Whether idle GPUs, and where they are, say if a gang can be placed."""
    return any_idle_will_do(facts) or (facts.options["placement"] in PACKING and not facts.planned)


class IdleGpus:
    """The idle GPUs of a type in one (virtual) cluster from beginning to end.

    The changes of its other types count as changes of nothing, so that all its types have the same instants.
    """

    def __init__(self, facts: Facts, vc: int, gpu_type: int) -> None:
        chosen = (facts.server_vc[facts.a_server] == vc) & (facts.a_end > facts.a_start)
        server, gpus = facts.a_server[chosen], facts.a_gpus[chosen]
        server = np.concatenate([server, server])
        time = np.concatenate([facts.a_start[chosen], facts.a_end[chosen]])
        change = np.concatenate([-gpus, gpus]) * (facts.pool[server] == gpu_type)
        order = np.lexsort((time, server))
        server, time, change = server[order], time[order], change[order]
        sizes = facts.server_gpus[(facts.server_vc == vc) & (facts.pool == gpu_type)]
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

    The last array says where the second is known: for `consolidate` and its like, and where any idle GPUs
    will do.
    """
    few, apart = np.zeros(job.size), np.zeros(job.size)
    known = np.full(job.size, decided(facts))
    if facts.options["placement"] == "sjf-bco" and not facts.planned:
        known |= facts.num_gpus[job] <= int(facts.options["kappa"])
    together = facts.options["placement"] in PACKING and not facts.planned
    waits = np.flatnonzero(end > begin)
    for vc in np.unique(facts.vc[job[waits]]).tolist():
        mine = waits[facts.vc[job[waits]] == vc]
        wanted, tried = facts.num_gpus[job[mine]], facts.tries[job[mine]]
        pools = {own: IdleGpus(facts, vc, own) for own in np.unique(tried[tried >= 0]).tolist()}
        # Jobs of as many GPUs that try the same types, in whatever order, wait for the same.
        alike = wanted
        for own in pools:
            alike = np.unique(2 * alike + (tried == own).any(axis=1), return_inverse=True)[1]
        _, first, which = np.unique(alike, return_index=True, return_inverse=True)
        for group, one in enumerate(first.tolist()):
            at, size = mine[which == group], int(wanted[one])
            idle = [pools[own] for own in tried[one].tolist() if own >= 0]
            if not idle:
                continue
            short = np.logical_and.reduce([pool.too_few(size) for pool in idle])
            few[at] = idle[0].seconds(short, begin[at], end[at])
            if together:
                split = np.logical_and.reduce([pool.apart(size) for pool in idle])
                apart[at] = idle[0].seconds(split & ~short, begin[at], end[at])
    return few, apart, known


def check_nobody_waits_in_vain(check: Check, facts: Facts, eps: Episodes) -> None:
    """Where a pass tries every waiting job, none goes on waiting at a moment when it could be placed.

    That holds of the discipline `skip` and, where any idle GPUs will do, of the policies that preempt at
    arrivals and completions: who is not selected does not fit in what the selected ones leave.
    """
    # A job that loses its GPUs of one type waits for the next pass, though those of another may be idle.
    ranked = policy_is(facts.options, "ranks") and not policy_is(facts.options, "at intervals")
    if facts.preemptive and not (ranked and facts.types is None and any_idle_will_do(facts)):
        return
    if not facts.preemptive and not (facts.options["queue"] == "skip" and decided(facts)):
        return
    check.looked_at, check.not_run = facts.start.size, None
    job, since, until = _waits(facts, eps)
    few, apart, _ = obstacles(facts, job, since, until)
    vain = (until - since) - few - apart
    slack = 1e-9 * (until - since) + 1e-6 + 64 * np.spacing(until)
    bad = np.flatnonzero(vain > slack)
    blame(
        check,
        facts,
        bad,
        lambda i: (
            f"waits until {number(until[i])} s, for {number(vain[i])} s of that though its"
            f" {facts.num_gpus[job[i]]} GPUs could be placed"
        ),
        job=job,
        time=since,
    )


def _waits(facts: Facts, eps: Episodes) -> tuple[Ints, Floats, Floats]:
    """Every wait: whose, from when, until when. Those for a first start come first, one a job."""
    first: Ints = np.arange(facts.start.size)
    if not facts.preemptive:
        return first, facts.arrival(), facts.start
    again = np.flatnonzero(eps.job[1:] == eps.job[:-1])
    return (
        np.concatenate([first, eps.job[again]]),
        np.concatenate([facts.arrival(), eps.end[again]]),
        np.concatenate([facts.start, eps.start[again + 1]]),
    )
