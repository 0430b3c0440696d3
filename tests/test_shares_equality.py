"""Runs with shares of a GPU against their oracle, on random small replays.

Slot clock: equal bit for bit. Continuous clock: the same places, times within 1e-9 of their size.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from agreement import answer, same
from core_run import FEW, run_core
from oracle import Options, RefusedError, StuckError, simulate
from oracle.model import RowError
from oracle_shares import PLACEMENTS, Sharing, preempt_world, queue_world
from ringbco import _core
from strategies import CLOCKS, MODELS, ORDERS, Case, build_case
from test_preempt_equality import POLICIES, PreemptCase, build
from test_preempt_equality import replay as replay_preempt
from test_types_equality import columns as type_columns
from test_types_equality import types_of

SHARES = (1, 100, 200, 250, 300, 333, 500, 500, 600, 750, 999)
INTERFERENCE = (0.0, 0.0, 0.25, 0.5, 1.0, 0.1)


def shared(rnd: random.Random, case: Case) -> Case:
    """The case with shares for some of its jobs, and more of such jobs."""
    likely = rnd.choice((0.3, 0.7, 1.0))
    jobs = list(case.jobs)
    for _ in range(rnd.randint(0, 12)):
        jobs.append(replace(rnd.choice(jobs), submit=rnd.choice(jobs).submit))
    jobs = [
        replace(job, num_gpus=1, share=rnd.choice(SHARES), gradient_bytes=0.0)
        if rnd.random() < likely
        else job
        for job in jobs
    ]
    if not any(job.share for job in jobs):
        jobs[0] = replace(jobs[0], num_gpus=1, share=500)
    servers = case.servers if rnd.random() < 0.5 else case.servers[: max(1, len(case.servers) // 2)]
    if case.server_vc is not None:
        servers = case.servers
    return replace(case, jobs=tuple(jobs), servers=servers, options=replace(case.options, oversize="drop"))


def with_jobs_of(problem: PreemptCase, case: Case) -> PreemptCase:
    """The problem with a case that `shared` made of its own: the jobs that it added have a deadline too."""
    more = len(case.jobs) - len(problem.deadlines)
    return replace(problem, case=case, deadlines=(*problem.deadlines, *problem.deadlines[:1] * more))


def columns(case: Case, sharing: Sharing) -> dict[str, Any]:
    told = type_columns(sharing.types) if sharing.types is not None else {}
    shares = np.array([job.share for job in case.jobs], np.uint32)
    return {**told, "shares": shares, "interference": sharing.interference}


REFUSALS = {RefusedError: ("slot-too-short",), StuckError: ("stuck", "starved")}
"""By the oracle's error: what the engine may call it."""


def rows_of(run: "_core.RunResult") -> np.ndarray:
    parts = (run.alloc_job, run.alloc_start, run.alloc_end, run.alloc_server, run.alloc_gpu, run.alloc_share)
    assert (run.alloc_gpus == 1).all()
    return np.array(list(zip(*parts, strict=True)), np.float64).reshape(-1, 6)


def check(
    problem: object,
    run: "_core.RunResult",
    sharing: Sharing,
    times: list[tuple[Any, Any]],
    *,
    exact: bool,
) -> None:
    mine, theirs = rows_of(run), np.array(sorted(sharing.rows), np.float64).reshape(-1, 6)
    for own, true in [(mine, theirs), *times]:
        same(own, true, (problem, sharing), exact=exact)


def bases() -> Iterator[tuple[str, str, str, str, str]]:
    yield from product(ORDERS, ("strict", "skip"), MODELS, CLOCKS, ("alike", "typed"))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    finished = 0
    combinations = list(bases())
    for number in range(FEW):
        rnd = random.Random(f"shares {placement} {number}")
        order, queue, model, clock, kind = combinations[number % len(combinations)]
        case = build_case(rnd, Options(order, queue, placement, model, clock), vcs=rnd.random() < 0.1)
        case = shared(rnd, case)
        if case.jobs[0].submit > 2.0**50:
            continue
        sharing = Sharing(types_of(rnd, case) if kind == "typed" else None, rnd.choice(INTERFERENCE))
        more = columns(case, sharing)
        finished += same_queue(case, sharing, more)
    assert finished > 0.85 * FEW


def same_queue(case: Case, sharing: Sharing, more: dict[str, Any]) -> bool:
    """Compares a run without preemption; whether it came to its end. more: what the engine is told."""
    world = queue_world(sharing)
    truth = answer(lambda: simulate(case.jobs, case.servers, case.net, case.options, case.server_vc, world))
    if isinstance(truth, RowError):
        with pytest.raises(_core.CoreError) as caught:
            run_core(case, **more)
        assert caught.value.kind in REFUSALS[type(truth)], (case, sharing)
        return False
    run = run_core(case, **more)
    assert list(run.kept) == truth.kept, (case, sharing)
    assert list(run.max_contention) == truth.max_contention, (case, sharing)
    exact = case.options.clock == "slot"
    check(case, run, sharing, [(run.start, truth.start), (run.finish, truth.finish)], exact=exact)
    return True


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    finished = 0
    combinations = list(product(PLACEMENTS, MODELS, CLOCKS, ("alike", "typed")))
    for number in range(FEW):
        rnd = random.Random(f"shares {policy} {number}")
        placement, model, clock, kind = combinations[number % len(combinations)]
        problem = build(rnd, policy, Options("fifo", "strict", placement, model, clock))
        case = shared(rnd, problem.case)
        if min(job.submit for job in case.jobs) > 2.0**50:
            continue
        problem = with_jobs_of(problem, case)
        sharing = Sharing(types_of(rnd, case) if kind == "typed" else None, rnd.choice(INTERFERENCE))
        more = columns(case, sharing)
        finished += same_ranking(problem, sharing, more)
    assert finished > 0.85 * FEW


def same_ranking(problem: PreemptCase, sharing: Sharing, more: dict[str, Any]) -> bool:
    """The same of a run under a ranking that preempts."""
    case = problem.case
    truth = answer(lambda: problem.truth(preempt_world(sharing)))
    if isinstance(truth, RowError):
        with pytest.raises(_core.CoreError) as caught:
            replay_preempt(problem, **more)
        assert caught.value.kind in REFUSALS[type(truth)], (problem, sharing)
        return False
    run = replay_preempt(problem, **more)
    assert run.held is not None
    assert list(run.kept) == truth.kept, (problem, sharing)
    assert list(run.preemptions) == truth.preemptions, (problem, sharing)
    times = [(run.start, truth.start), (run.finish, truth.finish)]
    check(problem, run, sharing, times, exact=case.options.clock == "slot")
    for own, true in ((run.wait_gpus, truth.wait_gpus), (run.wait_fragmented, truth.wait_fragmented)):
        kept = np.where(run.kept, own, 0.0), np.where(run.kept, true, 0.0)
        assert np.allclose(*kept, rtol=1e-6, atol=1e-6), (problem, sharing)
    return True
