"""The engine against the reference model, on random small replays with every combination of algorithms.

Slot clock: equal bit for bit. Continuous clock: allocations equal, times within 1e-9 of their size.
"""

import math
import random
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import ringbco
from agreement import refused_alike, result_or_error, same
from core_run import PAIRS, STEP, Run, run_core
from reference import Result, State, StuckError, simulate
from reference.model import RowError
from results import story_of, tell, write_case
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from strategies import COMBINATIONS, ORDERS, PLACEMENTS, Case, build_case


def check(case: Case) -> bool:
    """Compare both on one case; whether it ran to its end."""
    expected = result_or_error(
        lambda: simulate(case.jobs, case.servers, case.net, case.options, case.server_vc)
    )
    if isinstance(expected, RowError):
        assert refused_alike(lambda: run_core(case), expected, case).row == expected.row, case
        return False
    run = run_core(case)
    n = len(case.jobs)

    assert list(run.kept) == expected.kept, case
    assert list(run.max_contention) == expected.max_contention, case
    assert list(run.num_servers) == [len(a) for a in expected.allocations], case
    assert not np.any(run.preemptions), case
    allocations: list[dict[int, int]] = [{} for _ in range(n)]
    for row, server, gpus in zip(run.alloc_job, run.alloc_server, run.alloc_gpus, strict=True):
        assert int(server) not in allocations[row], case
        allocations[row][int(server)] = int(gpus)
    assert allocations == expected.allocations, case
    assert np.array_equal(run.alloc_start, np.asarray(run.start)[run.alloc_job]), case
    assert np.array_equal(run.alloc_end, np.asarray(run.finish)[run.alloc_job]), case
    order = list(zip(run.alloc_job, run.alloc_start, run.alloc_server, strict=True))
    assert order == sorted(order), case

    for mine, theirs in ((run.start, expected.start), (run.finish, expected.finish)):
        same(mine, theirs, case, exact=case.options.clock == "slot", atol=0.0)
    assert math.isclose(run.contention_seconds, expected.contention_seconds, rel_tol=1e-9, abs_tol=1e-9), case
    assert math.isclose(run.spanning_seconds, expected.spanning_seconds, rel_tol=1e-9, abs_tol=1e-9), case
    check_timeline(case, run, expected)
    return True


def check_timeline(case: Case, run: Run, expected: Result) -> None:
    """Every sample shows the state after the last instant at or before it."""
    times = np.asarray(run.timeline_time)
    events = np.array([s.time for states in expected.states for s in states])
    for k in range(0, len(times), 41):
        # A sample within rounding of an instant may see either side of it.
        if case.options.clock == "continuous" and np.any(
            (events != times[k]) & np.isclose(events, times[k], rtol=1e-9)
        ):
            continue
        now = [last_state(states, times[k]) for states in expected.states]
        spanning = sum(s.spanning for s in now)
        assert int(run.running[k]) == sum(s.running for s in now), (case, times[k])
        assert int(run.queued[k]) == sum(s.queued for s in now), (case, times[k])
        assert int(run.busy_gpus[k]) == sum(s.busy_gpus for s in now), (case, times[k])
        assert int(run.queued_gpus[k]) == sum(s.queued_gpus for s in now), (case, times[k])
        assert int(run.spanning[k]) == spanning, (case, times[k])
        mean = sum(s.contention for s in now) / spanning if spanning else 0.0
        assert math.isclose(run.mean_contention[k], mean, rel_tol=1e-12), (case, times[k])


def last_state(states: list[State], time: float) -> State:
    last = State(-math.inf, 0, 0, 0, 0, 0, 0)
    for state in states:
        if state.time > time:
            break
        last = state
    return last


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_random_cases(placement: str) -> None:
    """Cases over all combinations, a tenth of them in virtual clusters, a tenth with oversize jobs."""
    bases = [base for base in COMBINATIONS if base.placement == placement]
    finished = 0
    for number in range(PAIRS):
        rnd = random.Random(f"{placement} {number}")
        base = bases[number % len(bases)]
        case = build_case(
            rnd, base, vcs=rnd.random() < 0.1, oversize=rnd.random() < 0.1, pods=rnd.random() < 0.5
        )
        finished += check(case)
    assert finished > 0.9 * PAIRS


@given(
    rnd=st.randoms(use_true_random=False),
    base=st.sampled_from(COMBINATIONS),
    vcs=st.booleans(),
    oversize=st.booleans(),
    pods=st.booleans(),
)
@settings(max_examples=PAIRS, derandomize=True, suppress_health_check=list(HealthCheck))
def test_cases_that_shrink(rnd: random.Random, base: object, vcs: bool, oversize: bool, pods: bool) -> None:
    check(build_case(rnd, base, vcs=vcs, oversize=oversize, pods=pods))  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ORDERS)
def test_oversize_is_refused_by_row(order: str) -> None:
    refused = 0
    for number in range(60):
        rnd = random.Random(number)
        base = next(b for b in COMBINATIONS if b.order == order)
        case = build_case(rnd, base, oversize=True)
        options = type(base)(**{**case.options.__dict__, "oversize": "error"})
        refused += not check(Case(case.jobs, case.servers, case.net, options))
    assert refused > 20


def test_end_to_end(tmp_path: Path) -> None:
    """ringbco.replay from a file, against the reference model; and its result passes the audit."""
    audited = 0
    numbers = range(0, len(COMBINATIONS), 3 * STEP)
    for number in numbers:
        rnd = random.Random(f"end to end {number}")
        case = build_case(
            rnd,
            COMBINATIONS[number],
            vcs=rnd.random() < 0.2,
            oversize=rnd.random() < 0.2,
            pods=rnd.random() < 0.3,
        )
        try:
            story = story_of(case)
        except StuckError:
            continue
        if not story.rows:
            continue
        options = case.options if case.options.clock == "slot" else replace(case.options, slot=1.0)
        given = {name: value for name, value in asdict(options).items() if name != "tiers"}
        trace = write_case(case, tmp_path)
        outcome = ringbco.replay(trace, cluster_of(case), policy="fifo", **given)
        expected = tell(story, trace)
        exact = options.clock == "slot"
        jobs = outcome.jobs.select(expected.jobs.columns)
        assert_frame_equal(jobs, expected.jobs, check_exact=exact, rel_tol=1e-9)
        assert_frame_equal(outcome.allocations, expected.allocations, check_exact=exact, rel_tol=1e-9)
        for name, value in expected.summary.items():
            if name not in ("policy", "vcs", "events", "engine_seconds", "total_seconds", "jobs_per_second"):
                assert outcome.summary[name] == pytest.approx(value, rel=1e-9), (case, name)
        assert ringbco.audit(outcome, ringbco.read_jobs(trace)) == [], case
        audited += 1
    assert audited > 0.85 * len(numbers)


def cluster_of(case: Case) -> Cluster:
    net = case.net
    return Cluster(
        np.array(case.servers, dtype=np.uint32),
        server_vc=None if case.server_vc is None else tuple(f"vc{v}" for v in case.server_vc),
        network=Network(net.intra, net.inter, net.reduce, net.xi1, net.xi2, net.alpha),
    )
