"""Runs on GPU types that differ against their oracles, on random small replays.

Slot clock: equal bit for bit. Continuous clock: the same places, times within 1e-9 of their size.
"""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core_run import CASES, run_core
from oracle import OversizeError, RefusedError, StuckError, simulate
from oracle_preempt import simulate as simulate_preempt
from oracle_types import Choices, Types, preempt_world, queue_world
from ringbco import _core
from strategies import COMBINATIONS, PLACEMENTS, Case, build_case
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, build, replay

ORDERS = ("fastest", "cheapest", "listed")


def types_of(rnd: random.Random, case: Case) -> Types:
    """One to three types, servers of each in any order, jobs that may use some of them."""
    count = rnd.randint(1, 3)
    of = tuple(rnd.randrange(count) for _ in case.servers)
    # Numbered by first appearance, as a cluster file does.
    first = sorted(set(of), key=of.index)
    of = tuple(first.index(t) for t in of)
    count = len(first)
    speeds = [rnd.choice((0.5, 1.0, 2.0, rnd.uniform(0.2, 3.0))) for _ in range(count)]
    other = [speed * rnd.choice((1.0, 2.0)) for speed in speeds]  # for jobs of another model
    choices = []
    for _ in case.jobs:
        own = speeds if rnd.random() < 0.7 else other
        listed = list(range(count))
        rnd.shuffle(listed)
        if rnd.random() < 0.4:
            listed = listed[: rnd.randint(1, count)]
        recorded = rnd.choice((own[0], 1.0, rnd.choice(own)))
        choices.append(Choices(tuple(listed), {t: own[t] for t in listed}, recorded))
    price = tuple(rnd.choice((1.0, 2.0, rnd.uniform(0.1, 5.0))) for _ in range(count))
    return Types(of, tuple(choices), price, rnd.choice(ORDERS))


def columns(types: Types) -> dict[str, Any]:
    """What the engine is told of the types: kinds are shared by jobs of the same choices."""
    distinct = list(
        dict.fromkeys((c.recorded, tuple((t, c.speed[t]) for t in c.listed)) for c in types.choices)
    )
    of = [distinct.index((c.recorded, tuple((t, c.speed[t]) for t in c.listed))) for c in types.choices]
    kinds = [(recorded, None, list(allowed)) for recorded, allowed in distinct]
    return {
        "types": {"of": np.array(of, np.uint32), "kinds": kinds},
        "server_types": list(types.of),
        "type_prices": list(types.price),
        "type_order": types.order,
    }


def compare(case: Case, types: Types) -> bool:
    """Both on one case of jobs that run to their end; whether it came to its end."""
    try:
        truth = simulate(case.jobs, case.servers, case.net, case.options, case.server_vc, queue_world(types))
    except (OversizeError, RefusedError, StuckError) as error:
        row = error.row
    else:
        row = None
    if row is not None:
        with pytest.raises(_core.CoreError) as caught:
            run_core(case, **columns(types))
        # Of several virtual clusters the oracle names the lowest row of the first.
        assert case.server_vc is not None or caught.value.row == row, (case, types)
        return False
    run = run_core(case, **columns(types))
    assert list(run.kept) == truth.kept, (case, types)
    assert list(run.max_contention) == truth.max_contention, (case, types)
    allocations: list[dict[int, int]] = [{} for _ in case.jobs]
    for row, server, gpus in zip(run.alloc_job, run.alloc_server, run.alloc_gpus, strict=True):
        allocations[row][int(server)] = int(gpus)
    assert allocations == truth.allocations, (case, types)
    for mine, theirs in ((run.start, truth.start), (run.finish, truth.finish)):
        if case.options.clock == "slot":
            assert np.array_equal(mine, np.array(theirs), equal_nan=True), (case, types)
        else:
            assert np.allclose(mine, theirs, rtol=1e-9, atol=0.0, equal_nan=True), (case, types)
    return True


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    bases = [base for base in COMBINATIONS if base.placement == placement]
    finished = 0
    for number in range(CASES):
        rnd = random.Random(f"types {placement} {number}")
        case = build_case(rnd, bases[number % len(bases)], vcs=rnd.random() < 0.1)
        case = replace(case, options=replace(case.options, oversize="drop"))
        finished += compare(case, types_of(rnd, case))
    assert finished > 0.9 * CASES


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    finished = 0
    for number in range(CASES):
        rnd = random.Random(f"types {policy} {number}")
        problem = build(rnd, policy, PREEMPT_COMBINATIONS[number % len(PREEMPT_COMBINATIONS)])
        while problem.case.jobs[0].submit > 2.0**50:
            # Times so coarse that a stay has no length: it counts for nothing, but the oracle counts it.
            problem = build(rnd, policy, PREEMPT_COMBINATIONS[number % len(PREEMPT_COMBINATIONS)])
        case = replace(problem.case, options=replace(problem.case.options, oversize="drop"))
        problem = replace(problem, case=case)
        types, rules = types_of(rnd, case), problem.rules
        try:
            truth = simulate_preempt(
                case.jobs, problem.deadlines, case.servers, case.net, case.options, rules, case.server_vc,
                preempt_world(types),
            )  # fmt: skip
        except (RefusedError, StuckError) as error:
            with pytest.raises(_core.CoreError) as caught:
                replay(problem, **columns(types))
            kind = "stuck" if isinstance(error, StuckError) else "slot-too-short"
            assert caught.value.kind == kind, (problem, types)
            continue
        run = replay(problem, **columns(types))
        assert run.held is not None
        assert list(run.kept) == truth.kept, (problem, types)
        assert list(run.preemptions) == truth.preemptions, (problem, types)
        rows = zip(
            run.alloc_job, run.alloc_start, run.alloc_server, run.alloc_gpus, run.alloc_end, strict=True
        )
        mine = np.array([tuple(map(float, row)) for row in rows]).reshape(-1, 5)
        theirs = np.array(
            sorted(
                (float(row), start, float(server), float(gpus), end)
                for row, stretches in enumerate(truth.allocations)
                for server, gpus, start, end in stretches
            )
        ).reshape(-1, 5)
        pairs = [
            (run.start, truth.start),
            (run.finish, truth.finish),
            (mine, theirs),
            (np.where(run.kept, run.wait_gpus, 0.0), np.where(run.kept, truth.wait_gpus, 0.0)),
        ]
        for own, true in pairs[:3] if case.options.clock == "slot" else []:
            assert np.array_equal(own, np.array(true), equal_nan=True), (problem, types)
        for own, true in pairs:
            assert own.shape == np.shape(true), (problem, types)
            assert np.allclose(own, true, rtol=1e-6, atol=1e-6, equal_nan=True), (problem, types)
        finished += 1
    assert finished > 0.9 * CASES
