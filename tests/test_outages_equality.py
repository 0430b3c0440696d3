"""Runs with outages against their oracle, on random small replays.

Slot clock: equal bit for bit. Continuous clock: the same places, times within 1e-9 of their size.
"""

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core_run import FEW, run_core
from oracle import RefusedError, StuckError
from oracle_outages import Failing, Outage, merged, queue_world, ranked_world
from oracle_preempt import Preemption, PreemptResult, simulate
from ringbco import _core
from strategies import COMBINATIONS, PLACEMENTS, Case, build_case
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, PreemptCase, build
from test_preempt_equality import replay as replay_preempt


def failing_for(rnd: random.Random, case: Case) -> Failing:
    """Outages: some overlap, touch, lie inside a slot, fall on a submission, never end."""
    slot, submits = case.options.slot, [job.submit for job in case.jobs]
    last = max(submits) + slot * rnd.choice((5, 20, 60))
    never = rnd.random() < 0.1
    found: list[Outage] = []
    for _ in range(rnd.randint(0, 8)):
        down = rnd.choice(
            (
                rnd.uniform(min(submits), last),
                float(math.floor(rnd.uniform(min(submits), last))),
                rnd.choice(submits),
                rnd.choice([up for _, _, up in found] or [0.0]),
            )
        )
        length = slot * rnd.choice((0.125, 1.0, 3.0, rnd.uniform(0.05, 10.0)))
        up = math.inf if never and rnd.random() < 0.3 else down + length
        if down < math.inf and down < up:
            servers = range(len(case.servers)) if rnd.random() < 0.1 else [rnd.randrange(len(case.servers))]
            found += [(server, down, up) for server in servers]
    common = rnd.choice((0.0, slot, 2.5 * slot, 0.3 * slot, math.inf, rnd.uniform(0.01, 5.0) * slot))
    own = rnd.random() < 0.5
    every = [rnd.choice((common, 0.0, math.inf, slot, 0.7 * slot)) if own else common for _ in case.jobs]
    return Failing(found, every, rnd.choice((0.0, 0.0, slot, 0.4 * slot)))


def columns(failing: Failing) -> dict[str, Any]:
    rows = merged(failing.outages)
    column = [np.array([row[i] for row in rows], dtype) for i, dtype in enumerate((np.uint32, float, float))]
    return {
        "outages": tuple(column),
        "intervals": np.array(failing.interval, np.float64),
        "start_cost": failing.start_cost,
    }


def check(run: "_core.RunResult", truth: PreemptResult, failing: Failing, case: Case, said: object) -> None:
    assert run.held is not None
    assert run.failures is not None
    exact = case.options.clock == "slot"
    rows = range(len(case.jobs))
    assert list(run.kept) == truth.kept, said
    assert list(run.preemptions) == truth.preemptions, said
    assert list(run.failures) == [failing.failures.get(row, 0) for row in rows], said
    assert list(run.max_contention) == truth.max_contention, said
    lost = np.array([failing.lost_work.get(row, 0.0) for row in rows])
    assert np.allclose(run.lost_work, lost, rtol=1e-6, atol=1e-6 * case.options.slot), said
    stays = zip(run.alloc_job, run.alloc_start, run.alloc_server, run.alloc_gpus, run.alloc_end, strict=True)
    mine = np.array([tuple(map(float, stay)) for stay in stays]).reshape(-1, 5)
    theirs = np.array(
        sorted(
            (float(row), start, float(server), float(gpus), end)
            for row, stretches in enumerate(truth.allocations)
            for server, gpus, start, end in stretches
        )
    ).reshape(-1, 5)
    for own, true in ((run.start, truth.start), (run.finish, truth.finish), (mine, theirs)):
        assert np.shape(own) == np.shape(true), said
        if exact:
            assert np.array_equal(own, np.array(true), equal_nan=True), said
        else:
            assert np.allclose(own, true, rtol=1e-9, atol=1e-9, equal_nan=True), said
    for own, true in ((run.wait_gpus, truth.wait_gpus), (run.wait_fragmented, truth.wait_fragmented)):
        kept = np.where(run.kept, own, 0.0), np.where(run.kept, true, 0.0)
        assert np.allclose(*kept, rtol=1e-6, atol=1e-6), said


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    bases = [base for base in COMBINATIONS if base.placement == placement]
    finished = failures = 0
    for number in range(FEW):
        rnd = random.Random(f"outages {placement} {number}")
        case = build_case(rnd, bases[rnd.randrange(len(bases))], vcs=rnd.random() < 0.1)
        if case.jobs[0].submit > 2.0**50:
            continue
        case = replace(case, options=replace(case.options, oversize="drop"))
        failing = failing_for(rnd, case)
        cost = case.options.slot * rnd.choice((0.0, 1.0, rnd.uniform(0.0, 3.0)))
        said = (case, failing, cost)
        more = columns(failing) | {"preempt_cost": cost}
        try:
            truth = simulate(
                case.jobs, [math.nan] * len(case.jobs), case.servers, case.net, case.options,
                Preemption("queue", cost), case.server_vc, queue_world(failing),
            )  # fmt: skip
        except (RefusedError, StuckError):
            with pytest.raises(_core.CoreError):
                run_core(case, **more)
            continue
        check(run_core(case, **more), truth, failing, case, said)
        finished += 1
        failures += sum(failing.failures.values())
    assert finished > 0.6 * FEW
    assert failures > 0.3 * FEW


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    finished = failures = 0
    for number in range(FEW):
        rnd = random.Random(f"outages {policy} {number}")
        base = PREEMPT_COMBINATIONS[rnd.randrange(len(PREEMPT_COMBINATIONS))]
        problem = build(rnd, policy, base)
        case = replace(problem.case, options=replace(problem.case.options, oversize="drop"))
        if case.jobs[0].submit > 2.0**50:
            continue
        problem = PreemptCase(case, problem.deadlines, problem.rules)
        failing = failing_for(rnd, case)
        said = (problem, failing)
        try:
            truth = simulate(
                case.jobs, problem.deadlines, case.servers, case.net, case.options, problem.rules,
                case.server_vc, ranked_world(failing),
            )  # fmt: skip
        except (RefusedError, StuckError):
            with pytest.raises(_core.CoreError):
                replay_preempt(problem, **columns(failing))
            continue
        check(replay_preempt(problem, **columns(failing)), truth, failing, case, said)
        finished += 1
        failures += sum(failing.failures.values())
    assert finished > 0.6 * FEW
    assert failures > 0.3 * FEW
