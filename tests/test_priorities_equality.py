"""Replays with priorities, eviction, quotas and services against their oracle, from the files to the result.

Slot clock: equal bit for bit. Continuous clock: the same decisions, times within 1e-9 of their size.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ringbco
from agreement import answer, same, stays_of, stays_told
from core_run import FEW, LONG
from frames import cluster_of
from oracle.model import RowError
from oracle_priorities import Log
from oracle_result import PreemptResult
from priority_cases import Problem, build_problem, frame_of, options_of, toml_of
from ringbco.errors import InputError
from strategies import COMBINATIONS, PLACEMENTS
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, at_once

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

COUNT = FEW // 4 if LONG else 5
"""Random cases of each test."""
KINDS = ("plain", "types", "tables")


def replayed(problem: Problem) -> ringbco.Outcome:
    """What the engine makes of the files."""
    return ringbco.replay(frame_of(problem), cluster_of(toml_of(problem)), **options_of(problem))


def check(problem: Problem) -> tuple[PreemptResult, Log] | None:
    """Compare both on one case; the truth if the run came to its end."""
    found = answer(problem.truth)
    if isinstance(found, RowError):
        with pytest.raises(InputError):
            replayed(problem)
        return None
    truth, log = found
    exact = problem.case.options.clock == "slot"
    if not any(truth.kept):
        return None
    outcome = replayed(problem)
    rows = [row for row in range(len(problem.case.jobs)) if truth.kept[row]]
    assert outcome.jobs["job_id"].to_list() == [f"j{row}" for row in rows], problem
    for name, wanted in wanted_columns(problem, truth, log).items():
        if name not in outcome.jobs.columns and not any(wanted):
            continue
        mine, true = outcome.jobs[name].to_numpy().astype(float), [wanted[row] for row in rows]
        if name == "lost_time" and problem.case.options.model == "table":
            mine = np.where(np.isclose(mine, true, rtol=1e-12), true, mine)  # the oracle has parts of slots
        same(mine, true, (name, problem), exact=exact)
    if problem.interference is None:
        same(stays_told(outcome), stays_of(truth.allocations), ("allocations", problem), exact=exact)
    if problem.claims.loads:
        check_replicas(problem, outcome, log)
    check_waits(problem, outcome, [truth.wait_gpus[row] for row in rows], "wait_gpus")
    check_waits(problem, outcome, [truth.wait_fragmented[row] for row in rows], "wait_fragmented")
    return truth, log


def wanted_columns(problem: Problem, truth: PreemptResult, log: Log) -> dict[str, list[Any]]:
    """The columns of jobs.parquet, by row."""
    wanted: dict[str, list[Any]] = {
        "start_time": truth.start,
        "finish_time": truth.finish,
        "preemptions": truth.preemptions,
        "max_contention": truth.max_contention,
        "num_servers": [most_servers(stays) for stays in truth.allocations],
        "failures": truth.failures,
        "lost_work": truth.lost_work,
        "evictions": log.evictions,
    }
    claims = problem.claims
    if claims.evict or claims.quotas or problem.queue is None or problem.facts.outages:
        wanted |= {"held_time": truth.held, "lost_time": truth.lost}
    return wanted


def most_servers(stays: list[tuple[int, int, float, float]]) -> int:
    starts = [start for _, _, start, _ in stays]
    return max((starts.count(start) for start in starts), default=0)


def check_replicas(problem: Problem, outcome: ringbco.Outcome, log: Log) -> None:
    assert outcome.replicas is not None
    names = problem.claims.services()
    told = outcome.replicas.select("service", "server", "num_gpus", "start_time", "end_time").rows()
    mine = sorted((names.index(name), *place) for name, *place in told)
    theirs = sorted(
        (names.index(each.service), each.server, len(each.gpus), each.start, each.end)
        for each in log.replicas
    )
    same(mine, theirs, ("replicas", problem), exact=problem.case.options.clock == "slot")


def check_waits(problem: Problem, outcome: ringbco.Outcome, wanted: list[float], name: str) -> None:
    mine = outcome.jobs[name].to_numpy()
    last = float(outcome.jobs["finish_time"].to_numpy().max())
    assert np.allclose(mine, wanted, rtol=2e-6, atol=2e-6 + 1e-6 * last), (name, mine, wanted, problem)


def compare(cases: Iterator[Problem], count: int, *, evictions: bool) -> None:
    """Most of them come to their end, and where they should, some of them evict."""
    finished = evicted = 0
    for problem in cases:
        found = check(problem)
        finished += found is not None
        evicted += found is not None and any(found[1].evictions)
    assert finished > 0.4 * count
    # A handful may have none.
    assert not evictions or evicted > 0.04 * count or not LONG


def queue_cases(name: str, placement: str, **rules: bool) -> Iterator[Problem]:
    for number in range(COUNT):
        rnd = random.Random(f"{name} {placement} {number}")
        kind = rnd.choice(("plain", *KINDS))
        bases = [
            base
            for base in COMBINATIONS
            if base.placement == placement and (kind != "tables" or base.model == "rar")
        ]
        yield build_problem(rnd, rnd.choice(bases), None, kind=kind, **rules)


def ranking_cases(name: str, policy: str, **rules: bool) -> Iterator[Problem]:
    for number in range(COUNT):
        rnd = random.Random(f"{name} {policy} {number}")
        kind = rnd.choice(("plain", *KINDS))
        bases = [base for base in PREEMPT_COMBINATIONS if kind != "tables" or base.model == "rar"]
        base = rnd.choice(bases)
        if rnd.random() < 0.6:  # idle GPUs that lie apart are of no use to it
            base = replace(base, placement="consolidate")
        yield build_problem(rnd, base, policy, kind=kind, **rules)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_orders_of_queues(placement: str) -> None:
    compare(queue_cases("priorities", placement), COUNT, evictions=False)


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    compare(ranking_cases("priorities", policy), COUNT, evictions=False)


@pytest.mark.parametrize("policy", [None, *POLICIES])
def test_shares(policy: str | None) -> None:
    def cases() -> Iterator[Problem]:
        for number in range(COUNT):
            rnd = random.Random(f"shares {policy} {number}")
            bases = COMBINATIONS if policy is None else PREEMPT_COMBINATIONS
            yield build_problem(rnd, rnd.choice(bases), policy, kind="shares")

    compare(cases(), COUNT, evictions=False)


@pytest.mark.parametrize("rule", ["evict", "services"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues_that_make_room(placement: str, rule: str) -> None:
    compare(queue_cases(rule, placement, **{rule: True}), COUNT, evictions=True)


@pytest.mark.parametrize("rule", ["evict", "services"])
@pytest.mark.parametrize("policy", POLICIES)
def test_rankings_that_make_room(policy: str, rule: str) -> None:
    compare(ranking_cases(rule, policy, **{rule: True}), COUNT, evictions=rule == "services")


@pytest.mark.parametrize("evict", [False, True])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_quotas(placement: str, evict: bool) -> None:
    compare(queue_cases("quotas", placement, quotas=True, evict=evict), COUNT, evictions=True)


def done_at_once(policy: str | None, kind: str) -> Iterator[Problem]:
    for number in range(4 * COUNT):
        rnd = random.Random(f"done at once {policy} {kind} {number}")
        bases = [
            base
            for base in (COMBINATIONS if policy is None else PREEMPT_COMBINATIONS)
            if (base.model, base.clock) == ("fixed", "continuous")
        ]
        rules = {} if kind == "shares" else {"evict": True, "services": rnd.random() < 0.3}
        if policy is None and kind != "shares":
            rules["quotas"] = rnd.random() < 0.3
        problem = build_problem(rnd, rnd.choice(bases), policy, kind=kind, **rules)
        yield replace(problem, case=at_once(rnd, problem.case))


@pytest.mark.parametrize("kind", ["plain", "types", "shares"])
@pytest.mark.parametrize("policy", [None, *POLICIES])
def test_jobs_that_are_done_as_they_start(policy: str | None, kind: str) -> None:
    compare(done_at_once(policy, kind), 4 * COUNT, evictions=False)


@pytest.mark.long
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_all_at_once(placement: str) -> None:
    cases = queue_cases("all", placement, services=True, quotas=True, evict=True)
    compare(cases, COUNT, evictions=True)


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
def test_rankings_that_evict_beside_services(policy: str) -> None:
    compare(ranking_cases("all", policy, services=True, evict=True), COUNT, evictions=True)


def test_a_case_can_be_told_apart() -> None:
    # The comparison must be able to fail: without eviction jobs end at other times.
    bases = [base for base in COMBINATIONS if base.placement == "consolidate"]
    for number in range(100):
        rnd = random.Random(number)
        problem = build_problem(rnd, rnd.choice(bases), None, evict=True)
        found = check(problem)
        if found is not None and any(found[1].evictions):
            nobody = replace(problem, claims=replace(problem.claims, evict=False))
            times = replayed(nobody).jobs["finish_time"].to_numpy()
            assert not np.array_equal(times, np.array(found[0].finish)[found[0].kept])
            return
    pytest.fail("no case with an eviction")
