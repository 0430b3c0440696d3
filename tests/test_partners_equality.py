"""Shares under model `table` against their oracle, with what was measured of pairs and without.

Slot clock: equal bit for bit. Continuous clock: the same places, times within 1e-9 of their size.
"""

import random
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from core_run import FEW
from oracle import Options
from oracle_shares import PLACEMENTS, Pair, Sharing
from oracle_tables import MeasuredJob, rate
from strategies import CLOCKS, ORDERS, Case, build_case
from test_preempt_equality import POLICIES, build
from test_shares_equality import INTERFERENCE, same_queue, same_ranking, shared, with_jobs_of
from test_tables_equality import MODELS, measured, speed_table


def pairs_of(rnd: random.Random, jobs: tuple[MeasuredJob, ...], types: int) -> tuple[Pair, ...]:
    """What was measured of two jobs on one GPU: of none, some or all pairs, now and then with a rate of 0."""
    likely, never = rnd.choice((0.0, 0.3, 0.7, 1.0)), rnd.choice((0.0, 0.0, 0.1))

    def beside(model: int, gpu_type: int) -> float:
        alone = rate(jobs[0].rows, model, gpu_type, 1, 1) or 1.0
        return 0.0 if rnd.random() < never else alone * rnd.choice((1.0, 0.75, rnd.uniform(0.4, 1.2)))

    return tuple(
        (model, gpu_type, partner, beside(model, gpu_type), beside(partner, gpu_type))
        for model, gpu_type, partner in product(range(MODELS), range(types), range(MODELS))
        if rnd.random() < likely
    )


def drawn(rnd: random.Random, case: Case) -> tuple[Case, Sharing, dict[str, Any]]:
    """The case with shares and measured speeds: for the oracle, and as the engine is told."""
    case = shared(rnd, case)
    # On less a job that stalls has its service so late that the oracle has given up by then.
    jobs = tuple(replace(job, share=max(100, job.share)) if job.share else job for job in case.jobs)
    found = measured(rnd, replace(case, jobs=jobs))
    jobs, types = found.case.jobs, max(found.types.of) + 2
    pairs = pairs_of(rnd, jobs, types)
    sharing = Sharing(found.types, rnd.choice(INTERFERENCE), pairs=pairs)
    speeds = found.columns["speeds"] | {"table": speed_table(jobs[0].rows, types, pairs)}
    shares = np.array([job.share for job in jobs], np.uint32)
    more = {"speeds": speeds, "shares": shares, "interference": sharing.interference}
    return found.case, sharing, found.columns | more


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    finished = 0
    bases = list(product(ORDERS, ("strict", "skip"), CLOCKS))
    for number in range(FEW):
        rnd = random.Random(f"partners {placement} {number}")
        order, queue, clock = bases[number % len(bases)]
        # Drawn for `rar`, of which `measured` makes `table`.
        case = build_case(rnd, Options(order, queue, placement, "rar", clock), vcs=rnd.random() < 0.1)
        if case.jobs[0].submit > 2.0**50:
            continue
        finished += same_queue(*drawn(rnd, case))
    assert finished > 0.75 * FEW


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    finished = 0
    bases = list(product(PLACEMENTS, CLOCKS))
    for number in range(FEW):
        rnd = random.Random(f"partners {policy} {number}")
        placement, clock = bases[number % len(bases)]
        problem = build(rnd, policy, Options("fifo", "strict", placement, "rar", clock))
        if min(job.submit for job in problem.case.jobs) > 2.0**50:
            continue
        case, sharing, more = drawn(rnd, problem.case)
        finished += same_ranking(with_jobs_of(problem, case), sharing, more)
    assert finished > 0.75 * FEW
