"""Replays with outages against their oracle, on random small cases of every policy.

Slot clock: equal bit for bit. Continuous clock: the same decisions, times within 1e-9 of their size.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from agreement import answer, refused_alike, same, stays_of
from core_run import FEW, run_core
from oracle import Options, RefusedError, StuckError
from oracle.model import RowError
from oracle_outages import Failures, Queue, simulate
from oracle_preempt import INTERVALS, Preemption
from oracle_preempt import World as PreemptWorld
from oracle_result import PreemptResult
from oracle_shares import PLACEMENTS as SHARE_PLACEMENTS
from oracle_shares import Sharing
from oracle_shares import preempt_world as share_world
from oracle_tables import table_preempt_world
from oracle_types import preempt_world
from outage_cases import build_failures, columns
from ringbco import _core
from strategies import COMBINATIONS, ORDERS, PLACEMENTS, QUEUES, Case, build_case
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, build
from test_shares_equality import INTERFERENCE, shared
from test_shares_equality import columns as share_columns
from test_tables_equality import measured
from test_types_equality import columns as type_columns
from test_types_equality import types_of


@dataclass(frozen=True)
class OutageCase:
    """One replay; its repr can be pasted into a test. queue: None where `rules` rank."""

    case: Case
    facts: Failures
    rules: Preemption
    deadlines: tuple[float, ...] = ()
    queue: Queue | None = None
    base: Callable[[], type[PreemptWorld]] = lambda: PreemptWorld
    """Of types, tables or shares."""
    columns: dict[str, Any] = field(default_factory=dict)
    """What the engine is told of these."""

    def truth(self, facts: Failures) -> PreemptResult:
        case = self.case
        return simulate(
            case.jobs, case.servers, case.net, case.options, facts, self.rules, self.deadlines,
            case.server_vc, self.queue, self.base(),
        )  # fmt: skip


def replay(problem: OutageCase) -> "_core.RunResult":
    """What the engine makes of it."""
    rules, queue = problem.rules, problem.queue
    given = problem.columns | columns(problem.facts)
    given |= {"preempt_cost": rules.cost, "start_cost": rules.start_cost}
    if queue is None:
        given |= {
            "order": "fifo",
            "queue": "strict",
            "preemption": rules.policy,
            "thresholds": list(rules.thresholds),
            "interval": rules.interval,
            "quantum": rules.interval,
            "admission": rules.admission,
            "deadline": np.array(problem.deadlines) if rules.policy == "edf" else None,
        }
    else:
        given |= {
            "aging": queue.aging,
            "estimate_factor": queue.factor,
            "predict": "exact" if queue.exact else "history",
            "user": None if queue.users is None else np.array(queue.users, np.uint32),
        }
    return run_core(problem.case, **given)


def stays(run: "_core.RunResult") -> np.ndarray:
    """(row, start, server, GPUs, end), however a job's GPUs of a server are listed."""
    rows = zip(run.alloc_job, run.alloc_start, run.alloc_server, run.alloc_end, run.alloc_gpus, strict=True)
    found: dict[tuple[float, ...], float] = {}
    for *place, gpus in rows:
        key = tuple(map(float, place))
        found[key] = found.get(key, 0.0) + float(gpus)
    rows = [(row, start, server, gpus, end) for (row, start, server, end), gpus in found.items()]
    return np.array(sorted(rows)).reshape(-1, 5)


def check(problem: OutageCase) -> PreemptResult | None:
    """Compare both on one case; the truth if the run came to its end."""
    case = problem.case
    truth = answer(lambda: problem.truth(problem.facts))
    if isinstance(truth, RowError):
        refused_alike(lambda: replay(problem), truth, problem)
        return None
    run = replay(problem)
    assert run.held is not None
    assert run.lost is not None
    assert run.failures is not None
    assert run.lost_work is not None
    assert list(run.kept) == truth.kept, problem
    assert list(run.preemptions) == truth.preemptions, problem
    assert list(run.failures) == truth.failures, problem
    assert list(run.max_contention) == truth.max_contention, problem
    if run.refused is not None:
        assert list(run.refused) == truth.refused, problem
    exact = case.options.clock == "slot"
    pairs = {
        "start": (run.start, truth.start),
        "finish": (run.finish, truth.finish),
        "held": (np.where(run.kept, run.held, 0.0), truth.held),
        "lost_work": (run.lost_work, truth.lost_work),
        "allocations": (stays(run), stays_of(truth.allocations)),
    }
    for name, (own, true) in pairs.items():
        same(own, true, (name, problem), exact=exact)
    same(run.lost, truth.lost, ("lost", problem), exact=False)
    # With measured speeds a pause ends inside a slot; the oracle adds up parts of slots.
    assert not exact or np.allclose(run.lost, truth.lost, rtol=1e-12, atol=0.0), problem
    waits = {
        "wait_gpus": (run.wait_gpus, truth.wait_gpus),
        "wait_fragmented": (run.wait_fragmented, truth.wait_fragmented),
    }
    for name, (own, true) in waits.items():
        kept = np.where(run.kept, own, 0.0)
        assert np.allclose(kept, np.where(run.kept, true, 0.0), rtol=1e-6, atol=1e-6), (
            name,
            own,
            true,
            problem,
        )
    return truth


def soon(case: Case) -> bool:
    """Whether its times are not so coarse that a stay has no length."""
    return case.jobs[0].submit < 2.0**50


def with_failures(rnd: random.Random, problem: OutageCase) -> OutageCase:
    """The case with outages, some at the very instants of what happens without them."""
    problem = replace(
        problem, case=replace(problem.case, options=replace(problem.case.options, oversize="drop"))
    )
    none = Failures((), (0.0,) * len(problem.case.jobs))
    try:
        instants = tuple(problem.truth(none).finish)
    except (RefusedError, StuckError):
        instants = ()
    return replace(problem, facts=build_failures(rnd, problem.case, instants))


def build_queue(rnd: random.Random, case: Case) -> OutageCase:
    slot = case.options.slot
    cost, start = (slot * rnd.choice((0.0, 0.25, 1.0, 2.0, rnd.uniform(0.0, 3.0))) for _ in range(2))
    rules = Preemption("queue", cost, start_cost=rnd.choice((0.0, start)))
    queue = Queue(factor=rnd.choice((1.0, 1.0, 0.5, rnd.uniform(0.1, 4.0))))
    if rnd.random() < 0.3:
        order = rnd.choice(("sjf", "smallest", "qssf"))
        case = replace(case, options=replace(case.options, order=order))
        aging = rnd.choice((None, 0.0, 1.0, 5.0, rnd.uniform(0.0, 20.0)))
        queue = replace(
            queue,
            aging=None if aging is None else aging * slot,
            exact=rnd.random() < 0.3,
            users=rnd.choice((None, tuple(rnd.randrange(3) for _ in case.jobs))),
        )
    return OutageCase(case, Failures((), ()), rules, queue=queue)


def queue_case(rnd: random.Random, number: int, bases: Sequence[Options]) -> OutageCase:
    case = build_case(rnd, bases[number % len(bases)], vcs=rnd.random() < 0.1)
    while not soon(case):
        case = build_case(rnd, bases[number % len(bases)])
    return build_queue(rnd, case)


def ranking_case(rnd: random.Random, number: int, policy: str, bases: Sequence[Options]) -> OutageCase:
    base = bases[number % len(bases)]
    problem = build(rnd, policy, base)
    while not soon(problem.case):
        problem = build(rnd, policy, base)
    rules = problem.rules
    if rnd.random() < 0.3:
        rules = replace(rules, start_cost=rules.cost)
    return OutageCase(problem.case, Failures((), ()), rules, problem.deadlines)


def with_types(rnd: random.Random, problem: OutageCase) -> OutageCase:
    types = types_of(rnd, problem.case)
    return with_failures(
        rnd, replace(problem, base=lambda: preempt_world(types), columns=type_columns(types))
    )


def with_tables(rnd: random.Random, problem: OutageCase) -> OutageCase:
    drawn = measured(rnd, problem.case)
    return with_failures(
        rnd,
        replace(
            problem,
            case=drawn.case,
            base=lambda: table_preempt_world(drawn.types),
            columns=drawn.columns,
        ),
    )


def with_shares(rnd: random.Random, problem: OutageCase) -> OutageCase:
    options = replace(problem.case.options, placement=rnd.choice(SHARE_PLACEMENTS))
    if options.queue == "easy":
        options = replace(options, queue="strict")
    case = shared(rnd, replace(problem.case, options=options))
    deadlines = (*problem.deadlines, *problem.deadlines[:1] * (len(case.jobs) - len(problem.deadlines)))
    sharing = Sharing(types_of(rnd, case) if rnd.random() < 0.3 else None, rnd.choice(INTERFERENCE))
    queue = None if problem.queue is None else replace(problem.queue, users=None)
    told = share_columns(case, sharing)
    return with_failures(
        rnd,
        replace(
            problem,
            case=case,
            deadlines=deadlines,
            queue=queue,
            base=lambda: share_world(sharing),
            columns=told,
        ),
    )


def compare(cases: Iterator[OutageCase], count: int) -> None:
    finished = failed = 0
    for problem in cases:
        truth = check(problem)
        finished += truth is not None
        failed += truth is not None and any(truth.failures)
    assert finished > 0.6 * count
    assert failed > 0.1 * count


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    bases = [base for base in COMBINATIONS if base.placement == placement]

    def cases() -> Iterator[OutageCase]:
        for number in range(FEW):
            rnd = random.Random(f"outages {placement} {number}")
            yield with_failures(rnd, queue_case(rnd, number, bases))

    compare(cases(), FEW)


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    def cases() -> Iterator[OutageCase]:
        for number in range(FEW):
            rnd = random.Random(f"outages {policy} {number}")
            yield with_failures(rnd, ranking_case(rnd, number, policy, PREEMPT_COMBINATIONS))

    compare(cases(), FEW)


FURTHER = {"types": with_types, "tables": with_tables, "shares": with_shares}


def drawn(rnd: random.Random, policy: str, kind: str) -> OutageCase:
    """A case with outages under a ranking, or an order of the queue; `kind` may be one of FURTHER."""
    bases = COMBINATIONS if policy == "queue" else PREEMPT_COMBINATIONS
    if kind == "tables":  # these jobs have iterations
        bases = [base for base in bases if base.model == "rar"]
    number = rnd.randrange(len(bases))
    case = queue_case(rnd, number, bases) if policy == "queue" else ranking_case(rnd, number, policy, bases)
    return FURTHER.get(kind, with_failures)(rnd, case)


@pytest.mark.parametrize("kind", FURTHER)
@pytest.mark.parametrize("policy", ["queue", *POLICIES])
def test_what_else_jobs_may_have(policy: str, kind: str) -> None:
    count = max(8, FEW // 3)
    seeds = (random.Random(f"outages {kind} {policy} {number}") for number in range(count))
    compare((drawn(rnd, policy, kind) for rnd in seeds), count)


def test_all_is_covered() -> None:
    """The cases have every order and every discipline."""
    cases = [queue_case(random.Random(n), n, COMBINATIONS).case.options for n in range(200)]
    assert {options.order for options in cases} == {*ORDERS, "qssf"}
    assert {options.queue for options in cases} == set(QUEUES)
    assert set(INTERVALS) < set(POLICIES)


def test_a_case_can_be_told_apart() -> None:
    # The comparison must be able to fail: with other checkpoints jobs end at other times.
    for number in range(200):
        rnd = random.Random(number)
        problem = with_failures(rnd, ranking_case(rnd, number, "srtf", PREEMPT_COMBINATIONS))
        truth = check(problem)
        if truth is not None and any(truth.lost_work):
            saved = replace(problem.facts, intervals=(0.0,) * len(problem.case.jobs))
            run = replay(replace(problem, facts=saved))
            assert not np.allclose(run.finish, truth.finish, equal_nan=True)
            return
    pytest.fail("no case with lost work")
