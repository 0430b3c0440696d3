"""The policies that resize jobs against their oracle, from the files to the result: equal bit for bit."""

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from agreement import answer, same, stays_of, stays_told
from core_run import FEW, LONG
from elastic_cases import ElasticCase, build_elastic, cases
from frames import cluster_of
from oracle.model import RowError, fewest_servers
from oracle_elastic import POLICIES, alike, elastic_world
from oracle_preempt import Preemption, PreemptResult
from ringbco.errors import InputError
from strategies import COMBINATIONS, PLACEMENTS

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

BASES = [base for base in COMBINATIONS if base.order == "fifo" and base.queue == "strict"]
COUNT = FEW // 2 if LONG else 6
"""Random cases of each placement under each policy."""


def replayed(problem: ElasticCase) -> ringbco.Outcome:
    """What the engine makes of the files."""
    return ringbco.replay(problem.frame(), cluster_of(problem.toml()), **problem.options())


def check(problem: ElasticCase) -> PreemptResult | None:
    """Compare both on one case; the truth if the run came to its end."""
    truth = answer(problem.truth)
    if isinstance(truth, RowError):
        with pytest.raises(InputError):
            replayed(problem)
        return None
    rows = [row for row, kept in enumerate(truth.kept) if kept]
    if not rows:
        return None
    outcome = replayed(problem)
    assert outcome.jobs["job_id"].to_list() == [f"j{row}" for row in rows], problem
    assert outcome.summary.get("jobs_refused", 0) == sum(truth.refused), problem
    same(stays_told(outcome), stays_of(truth.allocations), ("allocations", problem), exact=True)
    wanted: dict[str, list[Any]] = {
        "start_time": truth.start,
        "finish_time": truth.finish,
        "preemptions": truth.preemptions,
        "max_contention": truth.max_contention,
        "held_time": truth.held,
    }
    if problem.facts.outages:
        wanted |= {"failures": truth.failures, "lost_work": truth.lost_work}
    for name, values in wanted.items():
        same(outcome.jobs[name], [values[row] for row in rows], (name, problem), exact=True)
    return truth


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_engine_decides_as_the_page_says(policy: str, placement: str) -> None:
    bases = [base for base in BASES if base.placement == placement]
    finished = resized = 0
    for problem in cases(placement, COUNT, policy, bases):
        truth = check(problem)
        finished += truth is not None
        resized += truth is not None and any(truth.preemptions)
    assert finished > 0.6 * COUNT
    # A handful may have none.
    assert resized > 0.1 * COUNT or not LONG


@pytest.mark.parametrize("number", range(12))
def test_speeds_are_those_of_own_policies(number: int) -> None:
    # What the decisions go by is `state.rate`, to the last bit.
    problem = build_elastic(random.Random(f"speeds {number}"), BASES[number % len(BASES)], "optimus")
    case = replace(
        problem.case, server_vc=None, jobs=tuple(replace(job, vc=None) for job in problem.case.jobs)
    )
    problem = replace(problem, case=case, facts=replace(problem.facts, outages=()))
    types = problem.types or alike(case.jobs, case.servers)
    sizes, jobs = dict(enumerate(case.servers)), dict(enumerate(case.jobs))
    world = elastic_world(problem.rules, types, problem.facts)(
        sizes, jobs, problem.rules.deadlines, case.net, case.options, Preemption("optimus"), 0, None
    )
    given = {name: problem.options()[name] for name in ("model", "tables") if name in problem.options()}
    run = ringbco.Simulation(problem.frame(), cluster_of(problem.toml()), **given, oversize="drop")
    checked = 0
    for row in jobs:
        for gpu_type in types.choices[row].listed:
            name = None if problem.types is None else f"t{gpu_type}"
            own = list(types.sizes(gpu_type, sizes).values())
            for gpus in range(problem.rules.least[row], min(problem.rules.most[row], sum(own)) + 1):
                mine = run.state.rate([row], [gpus], name, fewest_servers(gpus, own))[0]
                if not math.isnan(mine):  # a job that was left out
                    assert mine == world.speed(row, gpus, gpu_type), (row, gpus, gpu_type, problem)
                    checked += 1
    assert checked > 0


def test_the_audit_knows_whom_elasticflow_may_refuse() -> None:
    due = [100.0, 120.0, None]
    jobs = {"job_id": ["a", "b", "c"], "submit_time": [0.0] * 3, "num_gpus": [4] * 3, "duration": [100.0] * 3}
    frame = pl.DataFrame({**jobs, "deadline": due})
    outcome = ringbco.replay(frame, "1x4", policy="elasticflow", model="fixed")
    assert outcome.jobs["job_id"].to_list() == ["a", "c"]
    assert ringbco.audit(outcome, frame) == []
    # Nobody refuses a job without a deadline.
    other = frame.with_columns(deadline=pl.Series([100.0, None, None]))
    assert any("b: has no row" in str(found) for found in ringbco.audit(outcome, other))


def test_the_audit_knows_that_a_refused_job_comes() -> None:
    # At 400 b comes and is refused, and a, which is no longer young, gets the GPUs that c has left.
    jobs = {
        "job_id": ["a", "c", "b"],
        "submit_time": [0.0, 0.0, 400.0],
        "num_gpus": [2, 2, 4],
        "duration": [1000.0, 200.0, 1000.0],
        "min_gpus": [2, 2, 4],
        "max_gpus": [4, 2, 4],
        "deadline": [2000.0, 2000.0, 500.0],
    }
    frame = pl.DataFrame(jobs)
    outcome = ringbco.replay(frame, "1x4", policy="elasticflow", model="fixed")
    assert outcome.allocations is not None
    stays = outcome.allocations.filter(pl.col("job_id") == "a")
    assert stays["start_time"].to_list() == [0.0, 400.0]
    assert ringbco.audit(outcome, frame) == []
    # Without that job nobody decides then.
    other = frame.with_columns(submit_time=pl.Series([0.0, 0.0, 401.0]))
    assert any("nobody arrives" in str(found) for found in ringbco.audit(outcome, other))


def test_a_case_can_be_told_apart() -> None:
    # The comparison must be able to fail: with another policy jobs end at other times.
    for problem in cases("apart", 20, "optimus", BASES):
        other = replace(problem, rules=replace(problem.rules, policy="afs"))
        truth = check(problem)
        if truth is not None and truth.finish != other.truth().finish:
            times = replayed(other).jobs["finish_time"].to_numpy()
            assert not np.array_equal(times, np.array(truth.finish)[truth.kept])
            return
    pytest.fail("no case in which the policies differ")
