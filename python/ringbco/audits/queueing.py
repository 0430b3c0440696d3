"""The queue: nobody overtakes where the discipline forbids it, and the first in line never waits in vain."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from ringbco.audits.backfill import Heads, Started, check_reservations
from ringbco.audits.facts import Facts
from ringbco.audits.findings import Check, Finding, number
from ringbco.audits.idling import decided
from ringbco.audits.ranking import ORDERS, places
from ringbco.audits.types import PACKING


@dataclass(frozen=True)
class _Checks:
    """What the sweep reports to; None where a rule does not apply."""

    order: Check | None
    idle: Check
    reservation: Check | None


def check_queue(order: Check, idle: Check, reservation: Check, facts: Facts) -> None:
    """The rules in one sweep over arrivals, starts and finishes, virtual cluster by virtual cluster."""
    if facts.preemptive or facts.options["order"] not in ORDERS:
        order.not_run = idle.not_run = reservation.not_run = "the policy has no queue order"
        return
    strict = facts.options["queue"] == "strict"
    if facts.planned and facts.options.get("dispatch") == "reserve":
        order.not_run = idle.not_run = "GPUs are reserved, each with a queue of its own"
        reservation.not_run = "queue strict reserves nothing"
        return
    if facts.options["queue"] != "easy":
        reservation.not_run = f"queue {facts.options['queue']} reserves nothing"
    elif not decided(facts):
        reservation.not_run = "whether a gang fits depends on more than the idle GPUs"
    else:
        reservation.looked_at = facts.num_gpus.size
    if not strict:
        order.not_run = f"queue {facts.options['queue']} lets jobs overtake"
    else:
        order.looked_at = facts.num_gpus.size
    if _undecided(facts):
        idle.not_run = "whether a gang fits depends on more than the idle GPUs"
    else:
        idle.looked_at = facts.num_gpus.size
    checks = _Checks(order if strict else None, idle, reservation if reservation.looked_at else None)
    stretches = _Stretches(facts)
    for v in range(len(facts.cluster.vc_names) if facts.cluster.server_vc is not None else 1):
        _sweep(checks, facts, stretches, v)


class _Stretches:
    """The (server, GPUs) of each job, by job."""

    def __init__(self, facts: Facts) -> None:
        order = np.argsort(facts.a_job, kind="stable")
        self.pairs = list(zip(facts.a_server[order].tolist(), facts.a_gpus[order].tolist(), strict=True))
        self.first = np.searchsorted(facts.a_job[order], np.arange(facts.num_gpus.size + 1)).tolist()

    def of(self, job: int) -> list[tuple[int, int]]:
        return self.pairs[self.first[job] : self.first[job + 1]]


class _Idle:
    """How many GPUs of a cluster are idle; enough to say whether a gang fits where any idle GPUs will do."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self.total = sum(sizes.values())

    def change(self, job: int, gpus: int, sign: int) -> None:
        """`job` takes (-1) or frees (+1) its GPUs."""
        self.total += sign * gpus

    def fits(self, wanted: int) -> bool:
        """Whether a gang of so many GPUs could be placed now."""
        return self.total >= wanted


class _IdleByServer(_Idle):
    """Idle GPUs by server, and how many servers have how many: what decides for `consolidate`."""

    def __init__(self, sizes: dict[int, int], stretches: _Stretches) -> None:
        super().__init__(sizes)
        self.stretches = stretches
        self.largest = max(sizes.values())
        self.by_server = dict(sizes)
        self.count = [0] * (self.largest + 1)
        for size in sizes.values():
            self.count[size] += 1

    def change(self, job: int, gpus: int, sign: int) -> None:
        for server, held in self.stretches.of(job):
            before = self.by_server[server]
            after = before + sign * held
            self.by_server[server] = after
            self.count[before] -= 1
            self.count[after] += 1

    def fits(self, wanted: int) -> bool:
        if wanted <= self.largest:
            return any(self.count[wanted:])
        whole, rest = divmod(wanted, self.largest)
        # Only the largest servers can have that many idle.
        ready = self.count[self.largest]
        return ready > whole or (ready == whole and (rest == 0 or any(self.count[rest : self.largest])))


class _IdleUpTo(_Idle):
    """Any idle GPUs will do for gangs up to kappa; nothing is said of larger ones."""

    def __init__(self, sizes: dict[int, int], kappa: int) -> None:
        super().__init__(sizes)
        self.kappa = kappa

    def fits(self, wanted: int) -> bool:
        return wanted <= self.kappa and super().fits(wanted)


class _Pools:
    """The idle GPUs of each type, and which of them each job tries."""

    def __init__(self, facts: Facts, servers: list[int], stretches: _Stretches) -> None:
        self.facts = facts
        self.stretches = stretches
        self.lasts = (facts.finish > facts.start).tolist()
        sizes: dict[int, dict[int, int]] = {}
        for server in servers:
            sizes.setdefault(int(facts.pool[server]), {})[server] = int(facts.server_gpus[server])
        self.by_type = {own: _idle(facts, among, stretches) for own, among in sizes.items()}

    def change(self, job: int, gpus: int, sign: int) -> None:
        """`job` takes (-1) or frees (+1) its GPUs, which are of one type.

        One of no length frees them at the instant at which it takes them.
        """
        if not self.lasts[job]:
            return
        server, _ = self.stretches.of(job)[0]
        self.by_type[int(self.facts.pool[server])].change(job, gpus, sign)

    def fits(self, job: int, wanted: int) -> bool:
        """Whether any of the types that the job tries could hold it now."""
        return any(own >= 0 and self.by_type[own].fits(wanted) for own in self.facts.tries[job].tolist())


def _idle(facts: Facts, sizes: dict[int, int], stretches: _Stretches) -> _Idle:
    """What to watch for the placement: a gang is said to fit only where that is sure."""
    name, literal = facts.options["placement"], facts.options["variant"] == "literal"
    if name in PACKING:
        return _IdleByServer(sizes, stretches)
    if _undecided(facts):
        return _IdleUpTo(sizes, 0)
    if name == "sjf-bco" and literal:
        return _IdleUpTo(sizes, int(facts.options["kappa"]))
    return _Idle(sizes)


def _undecided(facts: Facts) -> bool:
    """Whether more than idle GPUs decides if a gang fits, whatever its size."""
    name = facts.options["placement"]
    if facts.planned:
        return True  # theta
    if name == "lbsgf":
        return bool(facts.options["variant"] == "literal")
    any_idle = ("first-fit", "emptiest", "least-loaded", "random", "fa-ffp", "sjf-bco")
    return name not in PACKING and name not in any_idle


def _sweep(checks: _Checks, facts: Facts, stretches: _Stretches, v: int) -> None:
    jobs = np.flatnonzero(facts.vc == v)
    if not jobs.size:
        return
    servers = np.flatnonzero(facts.server_vc == v).tolist()
    idle = _Pools(facts, servers, stretches)

    place = places(facts, jobs)
    start, finish = facts.start[jobs], facts.finish[jobs]
    arrival = facts.arrival()[jobs]
    # One that has started before never ages.
    due = np.where(place.due <= start, place.due, np.inf)
    numbers, wanted = jobs.tolist(), facts.num_gpus[jobs].tolist()
    instants = np.unique(np.concatenate([arrival, start, finish, due[np.isfinite(due)]]))
    happens = (arrival, due, start, finish)
    coming, aging, beginning, ending = (np.argsort(times, kind="stable").tolist() for times in happens)
    upto = [np.searchsorted(np.sort(times), instants, side="right").tolist() for times in happens]

    # A job's place says whether it has aged: each has two, and is found by either.
    young, aged = place.young.tolist(), place.aged.tolist()
    now_at = list(young)
    job_at = np.concatenate([np.argsort(place.aged), np.argsort(place.young)]).tolist()
    gone = [False] * len(job_at)
    waiting: list[int] = []
    a = b = c = d = 0
    suspects: dict[int, float] = {}
    heads: Heads = {}
    for t, come, age, begin, end in zip(instants.tolist(), *upto, strict=True):
        for j in coming[a:come]:
            heapq.heappush(waiting, young[j])
        for j in aging[b:age]:
            gone[young[j]] = True
            now_at[j] = aged[j]
            heapq.heappush(waiting, aged[j])
        for j in ending[d:end]:
            idle.change(numbers[j], wanted[j], 1)
        behind = -1
        for j in beginning[c:begin]:
            idle.change(numbers[j], wanted[j], -1)
            gone[now_at[j]] = True
            behind = max(behind, now_at[j])
        began = c
        a, b, c, d = come, age, begin, end
        while waiting and gone[waiting[0]]:
            heapq.heappop(waiting)
        if not waiting:
            continue
        first = waiting[0]
        head = job_at[first]
        if checks.order is not None and behind > first:
            _overtaken(
                checks.order, facts, jobs[job_at[behind]], jobs[head], t, aged=now_at[head] == aged[head]
            )
        if begin > began:
            heads[t] = head, first
        if head not in suspects and idle.fits(numbers[head], wanted[head]):
            suspects[head] = t
    if checks.reservation is not None:
        sizes = {s: int(facts.server_gpus[s]) for s in servers}
        parts = [stretches.of(j) for j in numbers]
        check_reservations(checks.reservation, facts, Started(jobs, np.array(now_at), parts, heads), sizes)
    checks.idle.add(
        (
            Finding(
                checks.idle.code,
                f"first in the queue and waiting, though its {wanted[head]} GPUs could be placed",
                facts.id(jobs[head]),
                time=t,
            )
            for head, t in suspects.items()
        ),
        len(suspects),
    )


def _overtaken(order: Check, facts: Facts, late: int, head: int, time: float, *, aged: bool) -> None:
    since = f"after {number(facts.options['aging'])} s of waiting is" if aged else "is"
    said = f"starts before job {facts.id(head)}, which {since} ahead of it in the queue and waits"
    order.fail(said, facts.id(late), time)
