"""Runs on GPU types that differ against their oracles, on random small replays.

Slot clock: equal bit for bit. Continuous clock: the same places, times within 1e-9 of their size.
"""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core_run import FEW
from oracle_types import Choices, Types, preempt_world, queue_world
from strategies import COMBINATIONS, PLACEMENTS, Case, build_case
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, build
from twins import same_queue, same_ranking

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


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    bases = [base for base in COMBINATIONS if base.placement == placement]
    finished = 0
    for number in range(FEW):
        rnd = random.Random(f"types {placement} {number}")
        case = build_case(rnd, bases[number % len(bases)], vcs=rnd.random() < 0.1)
        case = replace(case, options=replace(case.options, oversize="drop"))
        types = types_of(rnd, case)
        finished += same_queue(case, queue_world(types), columns(types), (case, types))
    assert finished > 0.9 * FEW


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    finished = 0
    for number in range(FEW):
        rnd = random.Random(f"types {policy} {number}")
        problem = build(rnd, policy, PREEMPT_COMBINATIONS[number % len(PREEMPT_COMBINATIONS)])
        while problem.case.jobs[0].submit > 2.0**50:
            # Times so coarse that a stay has no length: it counts for nothing, but the oracle counts it.
            problem = build(rnd, policy, PREEMPT_COMBINATIONS[number % len(PREEMPT_COMBINATIONS)])
        case = replace(problem.case, options=replace(problem.case.options, oversize="drop"))
        problem = replace(problem, case=case)
        types = types_of(rnd, case)
        finished += same_ranking(problem, preempt_world(types), columns(types), (problem, types))
    assert finished > 0.9 * FEW
