"""The queue: nobody overtakes where the discipline forbids it, and the first in line never waits in vain."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ringbco.audit.facts import Facts, Ints
from ringbco.audit.findings import Check, Finding

Fits = Callable[[int], bool]


def check_queue(order: Check, idle: Check, facts: Facts) -> None:
    """Both rules in one sweep over arrivals, starts and finishes, virtual cluster by virtual cluster."""
    if facts.preemptive or facts.options["order"] not in ("fifo", "sjf", "smallest"):
        order.not_run = idle.not_run = "the policy has no fixed order"
        return
    strict = facts.options["queue"] == "strict"
    if facts.planned and facts.options.get("dispatch") == "reserve":
        order.not_run = idle.not_run = "GPUs are reserved, each with a queue of its own"
        return
    if not strict:
        order.not_run = f"queue {facts.options['queue']} lets jobs overtake"
    stretches = _Stretches(facts)
    for v in range(len(facts.cluster.vc_names) if facts.cluster.server_vc is not None else 1):
        _sweep(order if strict else None, idle, facts, stretches, v)


def _rank(facts: Facts, jobs: Ints) -> Ints:
    """The place of each job in the queue order."""
    submit, row = facts.submit[jobs], facts.row[jobs]
    name = facts.options["order"]
    if name == "sjf":
        keys = (row, submit, facts.workload.estimate[facts.row[jobs]])
    elif name == "smallest":
        keys = (row, submit, facts.num_gpus[jobs].astype(np.float64))
    else:
        keys = (row, submit, np.zeros(jobs.size))
    rank = np.empty(jobs.size, dtype=np.int64)
    rank[np.lexsort(keys)] = np.arange(jobs.size)
    return rank


class _Stretches:
    """The (server, GPUs) of each job, by job."""

    def __init__(self, facts: Facts) -> None:
        order = np.argsort(facts.a_job, kind="stable")
        self.server = facts.a_server[order].tolist()
        self.gpus = facts.a_gpus[order].tolist()
        self.first = np.searchsorted(facts.a_job[order], np.arange(facts.num_gpus.size + 1)).tolist()

    def of(self, job: int) -> list[tuple[int, int]]:
        low, high = self.first[job], self.first[job + 1]
        return list(zip(self.server[low:high], self.gpus[low:high], strict=True))


@dataclass
class _Idle:
    """Idle GPUs of one cluster: in all, by server, and how many servers have how many."""

    sizes: dict[int, int]
    total: int = 0
    by_server: dict[int, int] = field(default_factory=dict)
    count: list[int] = field(default_factory=list)
    whole: int = 0

    def __post_init__(self) -> None:
        self.largest = max(self.sizes.values())
        self.by_server = dict(self.sizes)
        self.total = sum(self.sizes.values())
        self.count = [0] * (self.largest + 1)
        for size in self.sizes.values():
            self.count[size] += 1
        self.whole = self.count[self.largest]

    def change(self, stretches: list[tuple[int, int]], sign: int) -> None:
        for server, gpus in stretches:
            before = self.by_server[server]
            after = before + sign * gpus
            self.by_server[server] = after
            self.total += after - before
            self.count[before] -= 1
            self.count[after] += 1

    def any_gpus(self, wanted: int) -> bool:
        return self.total >= wanted

    def consolidated(self, wanted: int) -> bool:
        if wanted <= self.largest:
            return any(self.count[wanted:])
        whole, rest = divmod(wanted, self.largest)
        # Only the largest servers can have that many idle.
        ready = self.count[self.largest]
        return ready > whole or (ready == whole and (rest == 0 or any(self.count[rest : self.largest])))


def _rule(facts: Facts, idle: _Idle) -> Callable[[int], bool] | None:
    """Whether a gang of so many GPUs could be placed now; None where that depends on more than idle GPUs."""
    name, literal = facts.options["placement"], facts.options["variant"] == "literal"
    if facts.planned:
        return None
    kappa = int(facts.options["kappa"])
    if name == "consolidate":
        return idle.consolidated
    if name == "lbsgf" and literal:
        return None
    if name == "sjf-bco" and literal:
        return lambda wanted: wanted <= kappa and idle.any_gpus(wanted)
    if name in ("first-fit", "least-loaded", "random", "fa-ffp", "lbsgf", "sjf-bco"):
        return idle.any_gpus
    return None


def _sweep(order: Check | None, idle_check: Check, facts: Facts, stretches: _Stretches, v: int) -> None:
    jobs = np.flatnonzero(facts.vc == v)
    if not jobs.size:
        return
    servers = np.flatnonzero(facts.server_vc == v).tolist()
    idle = _Idle({s: int(facts.server_gpus[s]) for s in servers})
    fits = _rule(facts, idle)
    if fits is None:
        idle_check.not_run = "whether a gang fits depends on more than the idle GPUs"
    else:
        idle_check.looked_at += jobs.size
    if order is not None:
        order.looked_at += jobs.size

    rank = _rank(facts, jobs)
    start, finish = facts.start[jobs], facts.finish[jobs]
    arrival = facts.arrival()[jobs]
    wanted = facts.num_gpus[jobs].tolist()
    at_rank = np.argsort(rank).tolist()
    ranks = rank.tolist()
    instants = np.unique(np.concatenate([arrival, start, finish]))
    comes, begins, ends = (np.argsort(times, kind="stable") for times in (arrival, start, finish))
    upto = [
        np.searchsorted(times[by], instants, side="right").tolist()
        for times, by in ((arrival, comes), (start, begins), (finish, ends))
    ]
    coming, beginning, ending = comes.tolist(), begins.tolist(), ends.tolist()
    waiting: list[int] = []
    gone = [False] * jobs.size
    a = b = c = 0
    suspects: dict[int, float] = {}
    for t, come, begin, end in zip(instants.tolist(), *upto, strict=True):
        while a < come:
            heapq.heappush(waiting, ranks[coming[a]])
            a += 1
        while c < end:
            idle.change(stretches.of(int(jobs[ending[c]])), 1)
            c += 1
        behind = -1
        while b < begin:
            j = beginning[b]
            idle.change(stretches.of(int(jobs[j])), -1)
            gone[ranks[j]] = True
            behind = max(behind, ranks[j])
            b += 1
        while waiting and gone[waiting[0]]:
            heapq.heappop(waiting)
        if not waiting:
            continue
        head = waiting[0]
        if order is not None and behind > head:
            _overtaken(order, facts, jobs[at_rank[behind]], jobs[at_rank[head]], t)
        if fits is not None and head not in suspects and fits(wanted[at_rank[head]]):
            suspects[head] = t
    idle_check.add(
        (
            Finding(
                idle_check.code,
                f"first in the queue and waiting, though its {wanted[at_rank[head]]} GPUs could be placed",
                facts.id(jobs[at_rank[head]]),
                time=t,
            )
            for head, t in suspects.items()
        ),
        len(suspects),
    )


def _overtaken(order: Check, facts: Facts, late: int, head: int, time: float) -> None:
    said = f"starts before job {facts.id(head)}, which is ahead of it in the queue and waits"
    order.add([Finding(order.code, said, facts.id(late), time=time)], 1)
