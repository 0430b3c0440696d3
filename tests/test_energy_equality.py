"""Replays on servers that sleep against their oracle, on the random cases of the outages' comparison.

Slot clock: equal bit for bit. Continuous clock: the same decisions, times within 1e-9 of their size.
"""

import contextlib
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from core_run import FEW
from oracle_energy import Sleep, sleeping_world
from oracle_outages import Failures
from oracle_tables import MeasuredJob
from ringbco import _core
from test_outages_equality import (
    FURTHER,
    PREEMPT_COMBINATIONS,
    OutageCase,
    check,
    drawn,
    ranking_case,
    replay,
    with_failures,
)
from test_preempt_equality import POLICIES

KINDS = ("plain", *FURTHER)


def with_sleep(rnd: random.Random, problem: OutageCase) -> tuple[OutageCase, Sleep]:
    """The case on servers that sleep soon; without outages where it has no failures."""
    options = problem.case.options
    slotted = options.clock == "slot"
    slot = options.slot
    # Whole slots tie with stretches of whole slots; in seconds no two stretches are equal but by rounding.
    some = (0.0, slot, 2.0 * slot, rnd.uniform(0.0, 5.0) * slot)
    after = rnd.choice(some) if slotted else rnd.uniform(0.0, 5.0) * slot
    wake = slot * rnd.choice((0.0, 0.25, 1.0, 2.0, rnd.uniform(0.0, 4.0)))
    if problem.rules.policy == "time-slice":
        turn = problem.rules.interval
        most = (turn // slot - 1) * slot if slotted else 0.5 * turn
        wake = min(wake, max(0.0, most - problem.rules.cost))
    if isinstance(problem.case.jobs[0], MeasuredJob):
        # Parts of a slot: a pause to the second rounds where it is no binary fraction of one.
        rules = problem.rules
        cost, start, wake = (
            slot * math.floor(4.0 * s / slot) / 4.0 for s in (rules.cost, rules.start_cost, wake)
        )
        problem = replace(problem, rules=replace(rules, cost=cost, start_cost=start))
    opens = min(job.submit for job in problem.case.jobs)
    sleep = Sleep(after, wake, opens, slot if slotted else None, problem.facts.outages)
    base = problem.base
    told = problem.columns | {"sleep_after": after, "wake_time": wake}
    return replace(problem, base=lambda: sleeping_world(sleep, base()), columns=told), sleep


def check_spells(problem: OutageCase, sleep: Sleep, run: "_core.RunResult", allocations: list) -> int:
    """Compares when servers were asleep; how often one was woken."""
    assert run.asleep is not None
    mine = np.stack([column.astype(float) for column in run.asleep], axis=1)
    mine = mine[np.lexsort((mine[:, 1], mine[:, 0]))]  # virtual clusters come one after the other
    spells = list(sleep.spells(allocations, len(problem.case.servers)))
    theirs = np.array(spells, dtype=float).reshape(-1, 3)
    assert mine.shape == theirs.shape, (mine, theirs, problem)
    if problem.case.options.clock == "slot":
        assert np.array_equal(mine, theirs), (mine, theirs, problem)
    else:
        assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-9), (mine, theirs, problem)
    return int(np.isfinite(theirs[:, 2]).sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["queue", *POLICIES])
def test_sleep(policy: str, kind: str) -> None:
    # Shares round: in some hundred cases one differs in the last bit, with sleep or without.
    count = max(FEW // 2, 25) if kind == "shares" else FEW
    finished = woken = paused = 0
    for number in range(count):
        rnd = random.Random(f"asleep {kind} {policy} {number}")
        problem = drawn(rnd, policy, kind)
        if rnd.random() < 0.5:
            problem = replace(problem, facts=Failures((), problem.facts.intervals))
        problem, sleep = with_sleep(rnd, problem)
        truth = check(problem)
        if truth is None:
            continue
        finished += 1
        run = replay(problem)
        woken += check_spells(problem, sleep, run, truth.allocations)
        if not problem.facts.outages:
            # The same from a run that knows no outages.
            alone = replay(replace(problem, columns=problem.columns | {"outages": None}))
            assert np.array_equal(alone.finish, run.finish, equal_nan=True), problem
        with contextlib.suppress(_core.CoreError):  # it may come to no end where the other does
            awake = replay(replace(problem, columns=problem.columns | {"sleep_after": math.inf}))
            assert awake.asleep is None
            paused += not np.array_equal(awake.lost, run.lost)
    assert finished > 0.6 * count
    assert woken
    assert paused


def test_virtual_clusters_sleep_on_after_their_last_job() -> None:
    def cases() -> Iterator[tuple[OutageCase, Sleep]]:
        for number in range(FEW):
            rnd = random.Random(f"asleep vcs {number}")
            problem = ranking_case(rnd, number, "srtf", PREEMPT_COMBINATIONS)
            if problem.case.server_vc is not None:
                yield with_sleep(rnd, with_failures(rnd, problem))

    seen = 0
    for problem, sleep in cases():
        truth = check(problem)
        if truth is not None:
            seen += check_spells(problem, sleep, replay(problem), truth.allocations) > 0
    assert seen
