"""The preemptive engine against its reference model, on random small replays under every policy.

Slot clock: equal bit for bit. Continuous clock: the same decisions, times within 1e-9 of their size.
"""

import itertools
import math
import random
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pytest

from agreement import refused_alike, result_or_error, same, stays_of
from core_run import PAIRS, Run, run_core
from reference import Options, StuckError
from reference.elastic import POLICIES as RESIZING
from reference.mechanism import World, simulate
from reference.model import RowError, fewest_servers, iteration_time
from reference.preemption import INTERVALS, Preemption
from reference.result import PreemptResult
from ringbco import _core
from ringbco.cluster.network import Network
from ringbco.result.causes import parts
from ringbco.run.registry import PRESETS
from ringbco.trace.profiles import Profiled
from strategies import CLOCKS, MODELS, PLACEMENTS, VARIANTS, Case, build_case

POLICIES = ("srtf", "srsf", "tiresias", "gittins", "ftf", "edf", "time-slice")

COMBINATIONS = [
    Options("fifo", "strict", placement, model, clock, variant=variant)
    for placement, variant, model, clock in itertools.product(PLACEMENTS, VARIANTS, MODELS, CLOCKS)
    if variant == "practical" or placement in ("fa-ffp", "lbsgf", "sjf-bco")
]


@dataclass(frozen=True)
class PreemptCase:
    """One replay; its repr can be pasted into a test."""

    case: Case
    deadlines: tuple[float, ...]
    rules: Preemption

    def expected(self, world: type[World] = World) -> PreemptResult:
        case = self.case
        return simulate(
            case.jobs, self.deadlines, case.servers, case.net, case.options, self.rules, case.server_vc, world
        )


def build(rnd: random.Random, policy: str, base: Options) -> PreemptCase:
    case = build_case(rnd, base, vcs=rnd.random() < 0.1, oversize=rnd.random() < 0.1)
    while policy in (*INTERVALS, "srtf", "srsf") and case.jobs[0].submit > 2.0**50:
        case = build_case(rnd, base)  # the reference model counts every tick from 0 on
    return PreemptCase(case, *rules_for(rnd, policy, case))


def rules_for(rnd: random.Random, policy: str, case: Case) -> tuple[tuple[float, ...], Preemption]:
    """Deadlines of a case's jobs, and what the policy is told."""
    slot = case.options.slot
    interval = slot * rnd.choice((0.5, 1.0, 2.0, 3.0, rnd.uniform(0.3, 5.0)))
    cost = slot * rnd.choice((0.0, 0.25, 1.0, 2.0, rnd.uniform(0.0, 3.0)))
    if policy == "time-slice":
        interval = max(interval, slot * 2.0)
        cost = min(cost, interval / 2.0 if case.options.clock == "continuous" else 0.0)
        if case.options.clock == "slot" and interval >= 3.0 * slot and rnd.random() < 0.7:
            cost = slot
    size = slot * rnd.choice((2.0, 4.0, 16.0, rnd.uniform(1.0, 30.0)))
    thresholds = tuple(itertools.accumulate([size] * rnd.randint(0, 3), lambda a, b: 2.0 * a + b))
    deadlines = tuple(
        math.nan if rnd.random() < 0.2 else job.submit + slot * rnd.randint(0, 60) for job in case.jobs
    )
    admission = policy == "edf" and rnd.random() < 0.3
    spaced = interval if policy in INTERVALS or rnd.random() < 0.5 else None
    within = rnd.choice(("fifo", "list")) if policy in ("tiresias", "gittins") else "fifo"
    return deadlines, Preemption(policy, cost, thresholds, spaced, admission, within=within)


def replay(problem: PreemptCase, **more: Any) -> Run:
    """What the engine makes of a case; `more` as for `run_core`."""
    rules = problem.rules
    return run_core(
        problem.case,
        order="fifo",
        queue="strict",
        preemption=rules.policy,
        preempt_cost=rules.cost,
        thresholds=list(rules.thresholds),
        interval=rules.interval,
        quantum=rules.interval or 60.0,
        within=rules.within,
        admission=rules.admission,
        deadline=np.array(problem.deadlines) if rules.policy == "edf" else None,
        **more,
    )


def check(problem: PreemptCase) -> PreemptResult | None:
    """Compare both on one case; what the reference model gives if the run came to its end."""
    case = problem.case
    expected = result_or_error(problem.expected)
    if isinstance(expected, RowError):
        outcome = refused_alike(lambda: replay(problem), expected, problem)
        # Each gives up after a time of its own; under ftf a job may still have ended in between.
        assert isinstance(expected, StuckError) or outcome.row == expected.row, problem
        return None
    try:
        run = replay(problem)
    except _core.CoreError as error:
        # Jobs that stall each other may be placed better by chance, after any number of turns.
        if (error.kind, case.options.placement) == ("stuck", "random"):
            return None
        raise
    assert list(run.kept) == expected.kept, problem
    assert run.held is not None
    assert run.lost is not None
    assert run.refused is not None
    assert list(run.refused) == expected.refused, problem
    assert list(run.preemptions) == expected.preemptions, problem
    assert list(run.max_contention) == expected.max_contention, problem
    used = [
        max((sum(1 for a in rows if a[2] == b[2]) for b in rows), default=0) for rows in expected.allocations
    ]
    assert list(run.num_servers) == used, problem

    rows = zip(run.alloc_job, run.alloc_start, run.alloc_server, run.alloc_gpus, run.alloc_end, strict=True)
    mine = [tuple(map(float, row)) for row in rows]
    assert mine == sorted(mine, key=lambda row: row[:3]), problem
    pairs = [
        (run.start, expected.start),
        (run.finish, expected.finish),
        (np.where(run.kept, run.held, 0.0), expected.held),
        (run.lost, expected.lost),
        (np.array(mine).reshape(-1, 5), stays_of(expected.allocations)),
    ]
    for own, true in pairs:
        same(own, true, problem, exact=case.options.clock == "slot")
    check_sums(problem, run, expected)
    check_causes(problem, run, expected)
    check_timeline(problem, run, expected)
    return expected


def check_sums(problem: PreemptCase, run: Run, expected: PreemptResult) -> None:
    """Events, and the seconds of contention and of spanning."""
    dropped = sum(
        not kept and not refused for kept, refused in zip(expected.kept, expected.refused, strict=True)
    )
    # A refusal is an event in place of the completion.
    assert run.events == 2 * (len(problem.case.jobs) - dropped), problem
    contended = sum(
        before[4] * (after[0] - before[0])
        for states in expected.states
        for before, after in itertools.pairwise(states)
    )
    assert math.isclose(run.contention_seconds, contended, rel_tol=1e-9, abs_tol=1e-9), problem
    stays = ((start, end) for rows in expected.allocations for start, end in spans(rows))
    spanning = sum(end - start for start, end in stays)
    assert math.isclose(run.spanning_seconds, spanning, rel_tol=1e-9, abs_tol=1e-9), problem


def check_causes(problem: PreemptCase, run: Run, expected: PreemptResult) -> None:
    """What each job waited for, and what it took longer for."""
    case = problem.case
    jobs, net = case.jobs, Network(*astuple(case.net)[:6])
    fixed = case.options.model == "fixed"
    sizes = [
        [s for at, s in enumerate(case.servers) if case.server_vc is None or case.server_vc[at] == job.vc]
        for job in jobs
    ]
    fewest = [
        fewest_servers(job.num_gpus, own) if kept else 1
        for job, own, kept in zip(jobs, sizes, run.kept, strict=True)
    ]
    tau0 = np.array([iteration_time(job, n, 1, case.net) for job, n in zip(jobs, fewest, strict=True)])
    iterations = np.array([job.iterations for job in jobs], dtype=np.uint64)
    ideal = np.array([job.duration for job in jobs]) if fixed else iterations * tau0
    gradients, compute = np.array([(job.gradient_bytes, job.compute_time) for job in jobs]).T
    work = Profiled(iterations, gradients, compute, tau0, ideal, ideal)
    submit = np.array([job.submit for job in jobs])
    num_gpus = np.array([job.num_gpus for job in jobs], dtype=np.uint32)
    result = parts(submit, num_gpus, work, net, run.tables["jobs"], model=case.options.model)

    # The engine adds up time as differences of sums since the start, and keeps it in single precision.
    last = max((end for rows in expected.allocations for *_, end in rows), default=0.0)
    met, apart = np.array(expected.wait_gpus), np.array(expected.wait_fragmented)
    held = np.array(expected.held)
    waited = np.array(expected.waited)
    if case.options.clock == "slot":  # the reference's jobs wait from the boundary at which they are seen
        slot = case.options.slot
        waited += np.array([math.ceil(job.submit / slot) * slot for job in jobs]) - submit
    progress = held - np.array(expected.lost)
    spread, contention = np.array(expected.run_spread), np.array(expected.run_contention)
    rounding = np.array(expected.rounding) if not fixed else progress - ideal
    contended = np.logical_and(net.xi1 * np.array(expected.max_contention) > 1, not fixed)
    wanted = {
        "wait_gpus": (met, waited),
        "wait_fragmented": (apart, waited),
        "wait_behind": (waited - met - apart, waited),
        "run_spread": (spread + np.where(contended, 0.0, rounding), progress),
        "run_contention": (contention + np.where(contended, rounding, 0.0), progress),
    }
    for name, (true, whole) in wanted.items():
        far = np.abs(result[name] - true) > 2e-6 * whole + 1e-14 * last
        assert not far[run.kept].any(), (name, result[name], true, problem)


def spans(rows: list[tuple[int, int, float, float]]) -> list[tuple[float, float]]:
    """A job's stays on more than one server: (start, end)."""
    times = [(start, end) for _, _, start, end in rows]
    return [time for time in dict.fromkeys(times) if times.count(time) > 1]


def check_timeline(problem: PreemptCase, run: Run, expected: PreemptResult) -> None:
    """Every sample shows the state after the last instant at or before it."""
    times = np.asarray(run.timeline_time)
    events = np.array([state[0] for states in expected.states for state in states])
    for k in range(0, len(times), 97):
        if problem.case.options.clock == "continuous":
            near = np.isclose(events, times[k], rtol=1e-9, atol=1e-9) & (events != times[k])
            if np.any(near):
                continue
        last = [
            next((s for s in reversed(states) if s[0] <= times[k]), (0.0, 0, 0, 0, 0))
            for states in expected.states
        ]
        assert int(run.running[k]) == sum(s[1] for s in last), (problem, times[k])
        assert int(run.queued[k]) == sum(s[2] for s in last), (problem, times[k])
        assert int(run.busy_gpus[k]) == sum(s[3] for s in last), (problem, times[k])
        pressure = float(run.mean_contention[k]) * int(run.spanning[k])
        assert math.isclose(pressure, sum(s[4] for s in last), rel_tol=1e-9), (problem, times[k])


@pytest.mark.parametrize("policy", POLICIES)
def test_random_cases(policy: str) -> None:
    """Cases over all placements, models and clocks."""
    finished = preempted = 0
    for number in range(PAIRS):
        rnd = random.Random(f"{policy} {number}")
        expected = check(build(rnd, policy, COMBINATIONS[number % len(COMBINATIONS)]))
        finished += expected is not None
        preempted += expected is not None and any(expected.preemptions)
    assert finished > 0.9 * PAIRS
    assert preempted > 0.1 * PAIRS


def at_once(rnd: random.Random, case: Case) -> Case:
    """The case with jobs that are done as they start: their work is below the resolution of float64."""
    jobs = tuple(replace(job, duration=1e-18) if rnd.random() < 0.3 else job for job in case.jobs)
    return replace(case, jobs=jobs)


ROUNDED = [base for base in COMBINATIONS if (base.model, base.clock) == ("fixed", "continuous")]


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_that_are_done_as_they_start(policy: str) -> None:
    finished = 0
    for number in range(PAIRS // 2):
        rnd = random.Random(f"at once {policy} {number}")
        problem = build(rnd, policy, ROUNDED[number % len(ROUNDED)])
        finished += check(replace(problem, case=at_once(rnd, problem.case))) is not None
    assert finished > 0.4 * PAIRS


def test_every_preemptive_policy_is_here() -> None:
    registered = {name for name, policy in PRESETS.items() if policy.preemption != "none"}
    others = {
        "repack",
        "recorded",
        "lucid",
        *RESIZING,
    }  # with reference models of their own: test_repack.py, test_recorded.py, test_elastic_equality.py, seats
    assert registered == {*POLICIES, *others}
    assert set(INTERVALS) < registered


def test_a_case_can_be_told_apart() -> None:
    # The comparison must be able to fail: another resume cost gives other times.
    for number in range(200):
        problem = build(random.Random(number), "srtf", COMBINATIONS[0])
        expected = check(problem)
        if expected is not None and any(expected.lost):
            dearer = replace(problem.rules, cost=problem.rules.cost + 1.0)
            run = replay(replace(problem, rules=dearer))
            assert not np.allclose(run.finish, expected.finish, equal_nan=True)
            return
    pytest.fail("no case with a resumed job")
