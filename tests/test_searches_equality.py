"""Replays with searches against their oracle, on random small cases of every policy.

Slot clock: equal bit for bit. Continuous clock: the same decisions, times within 1e-9 of their size.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from agreement import answer, refused_alike, same, stays_of
from core_run import CASES, FEW
from oracle.model import RowError
from oracle_outages import Failures
from oracle_preempt import PreemptResult
from oracle_searches import Climbs, Search, simulate
from ringbco import _core
from search_cases import build_search, columns
from strategies import COMBINATIONS, PLACEMENTS
from test_outages_equality import (
    FURTHER,
    OutageCase,
    drawn,
    queue_case,
    ranking_case,
    replay,
    stays,
)
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, ROUNDED, at_once


@dataclass(frozen=True)
class SearchCase:
    """One replay; its repr can be pasted into a test."""

    problem: OutageCase
    search: Search
    has_outages: bool = True
    columns: dict[str, Any] = field(default_factory=dict)

    def truth(self) -> tuple[PreemptResult, Climbs]:
        problem = self.problem
        case = problem.case
        return simulate(
            case.jobs, case.servers, case.net, case.options, self.search, problem.rules, problem.deadlines,
            case.server_vc, problem.queue, problem.facts, problem.base(),
        )  # fmt: skip


def run(problem: SearchCase) -> "_core.RunResult":
    """What the engine makes of it."""
    told = problem.problem.columns | columns(problem.search)
    return replay(replace(problem.problem, columns=told))


def check(problem: SearchCase) -> Climbs | None:
    """Compare both on one case; what became of trials if the run came to its end."""
    exact = problem.problem.case.options.clock == "slot"
    found = answer(problem.truth)
    if isinstance(found, RowError):
        refused_alike(lambda: run(problem), found, problem)
        return None
    truth, climbs = found
    result = run(problem)
    assert result.ended is not None
    assert result.held is not None
    assert result.lost is not None
    assert result.pauses is not None
    assert result.climbs is not None
    rows = range(len(problem.problem.case.jobs))
    assert {row for row in rows if result.ended[row]} == climbs.ended, problem
    assert list(result.kept) == truth.kept, problem
    assert list(result.preemptions) == truth.preemptions, problem
    assert [int(count) for count in result.pauses] == [climbs.pauses.get(row, 0) for row in rows], problem
    mine = sorted(zip(*(column.tolist() for column in result.climbs), strict=True))
    theirs = sorted(
        (row, rung, time, loss, climbs.went_on.get((row, rung), np.nan))
        for row, rung, time, loss in climbs.reached
    )
    assert [climb[:2] for climb in mine] == [climb[:2] for climb in theirs], problem
    assert [climb[3] for climb in mine] == [climb[3] for climb in theirs], problem
    kept = np.array(truth.kept)
    ran = np.where(kept, 0.0, np.nan)
    pairs = {
        "start": (result.start, np.where(np.isnan(result.start), np.nan, truth.start)),
        "finish": (result.finish + ran, np.array(truth.finish) + ran),
        "held": (np.nan_to_num(result.held), truth.held),
        "climbs": (mine, theirs),
        "allocations": (stays(result), stays_of(truth.allocations)),
    }
    for name, (own, true) in pairs.items():
        same(own, true, (name, problem), exact=exact)
    return climbs


def searched(rnd: random.Random, problem: OutageCase) -> SearchCase:
    """The case with searches, on servers that never fail."""
    options = replace(problem.case.options, oversize="drop")
    problem = replace(problem, case=replace(problem.case, options=options))
    problem = replace(problem, facts=Failures((), (0.0,) * len(problem.case.jobs)))
    return SearchCase(problem, build_search(rnd, problem.case))


def compare(cases: Iterator[SearchCase], count: int) -> None:
    finished = paused = resumed = ended = 0
    for problem in cases:
        climbs = check(problem)
        if climbs is None:
            continue
        finished += 1
        paused += bool(climbs.pauses)
        ended += bool(climbs.ended)
        times = {(row, rung): time for row, rung, time, _ in climbs.reached}
        resumed += any(time > times[climb] for climb, time in climbs.went_on.items())
    assert finished > 0.6 * count
    assert paused > 0.2 * count
    assert ended > 0.3 * count
    assert resumed > 0.02 * count


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    bases = [base for base in COMBINATIONS if base.placement == placement]

    def cases() -> Iterator[SearchCase]:
        for number in range(CASES // 2):
            rnd = random.Random(f"searches {placement} {number}")
            yield searched(rnd, queue_case(rnd, number, bases))

    compare(cases(), CASES // 2)


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    def cases() -> Iterator[SearchCase]:
        for number in range(CASES // 2):
            rnd = random.Random(f"searches {policy} {number}")
            yield searched(rnd, ranking_case(rnd, number, policy, PREEMPT_COMBINATIONS))

    compare(cases(), CASES // 2)


@pytest.mark.parametrize("kind", ["plain", *FURTHER])
@pytest.mark.parametrize("policy", ["queue", *POLICIES])
def test_with_outages(policy: str, kind: str) -> None:
    def cases() -> Iterator[SearchCase]:
        for number in range(FEW):
            rnd = random.Random(f"searches {kind} {policy} {number}")
            problem = drawn(rnd, policy, kind)
            yield SearchCase(problem, build_search(rnd, problem.case))

    compare(cases(), FEW)


# The oracle's list of time-slice knows no order of a turn and what comes of it at the same instant.
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "time-slice"])
def test_trials_that_come_to_rungs_as_they_start(policy: str) -> None:
    finished = 0
    for number in range(CASES // 4):
        rnd = random.Random(f"at once {policy} {number}")
        problem = searched(rnd, ranking_case(rnd, number, policy, ROUNDED))
        case = at_once(rnd, problem.problem.case)
        finished += check(replace(problem, problem=replace(problem.problem, case=case))) is not None
    assert finished > 0.2 * CASES


def test_a_case_can_be_told_apart() -> None:
    # The comparison must be able to fail: with other losses other trials go on.
    for number in range(200):
        rnd = random.Random(number)
        problem = searched(rnd, queue_case(rnd, number, COMBINATIONS))
        climbs = check(problem)
        if climbs is not None and len(climbs.ended) > 1:
            turned = tuple(reversed(problem.search.curves))
            result = run(replace(problem, search=replace(problem.search, curves=turned)))
            assert result.ended is not None
            if set(np.flatnonzero(result.ended)) != climbs.ended:
                return
    pytest.fail("no case in which losses matter")
