"""GPU types from the cluster file and the job table to the result, against the oracle.

The engine's own comparison (test_types_equality.py) begins behind the reading of files. This one begins
before it: names, lists, records, models, the catalogue. Every result is audited too. Slot clock: equal bit
for bit. Continuous clock: the same places, times within 1e-9 of their size.
"""

import random
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from agreement import stays_of
from core_run import FEW
from frames import cluster_of
from oracle import RefusedError, StuckError, simulate
from oracle.model import fewest_servers, iteration_time
from oracle_preempt import INTERVALS
from oracle_preempt import simulate as simulate_preempt
from oracle_types import preempt_world, queue_world
from ringbco.errors import InputError
from strategies import COMBINATIONS, PLACEMENTS
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, rules_for
from types_cases import TypedCase, build_typed

TIMES = ("job_id", "start_time", "finish_time", "preemptions")


class ShortestRemaining(ringbco.RankPolicy):
    """srtf as a ranking of one's own: the same quotas, the same places."""

    clairvoyant = True
    preemptive = True

    def rank(self, state: ringbco.State, rows: Any) -> Any:
        return state.remaining[rows]


def options_of(typed: TypedCase) -> dict[str, Any]:
    options = typed.case.options
    given = asdict(options if options.clock == "slot" else replace(options, slot=1.0))
    return given | {"type_order": typed.types.order}


def replayed(typed: TypedCase, **options: Any) -> ringbco.Outcome:
    return ringbco.replay(typed.frame, cluster_of(typed.toml), **options)


def same(typed: TypedCase, outcome: ringbco.Outcome, truth: Any, stays: np.ndarray) -> None:
    """The outcome's tables say what the oracle says; stays: as `stays_of` has them."""
    case, said = typed.case, (typed.toml, typed.frame.to_dicts(), outcome.run)
    exact = case.options.clock == "slot"
    kept = [row for row in range(len(case.jobs)) if truth.kept[row]]
    assert outcome.jobs["job_id"].to_list() == [f"j{row}" for row in kept], said
    assert outcome.jobs["max_contention"].to_list() == [truth.max_contention[row] for row in kept], said
    assert outcome.allocations is not None
    held = outcome.allocations.with_columns(pl.col("job_id").str.slice(1).cast(pl.Float64))
    columns = ("job_id", "start_time", "server", "num_gpus", "end_time")
    pairs = [
        (outcome.jobs["start_time"], [truth.start[row] for row in kept]),
        (outcome.jobs["finish_time"], [truth.finish[row] for row in kept]),
        *((held[name], stays[:, i]) for i, name in enumerate(columns)),
    ]
    for mine, theirs in pairs:
        own, true = mine.to_numpy().astype(float), np.array(theirs, dtype=float)
        assert own.shape == true.shape, said
        assert np.array_equal(own, true) if exact else np.allclose(own, true, rtol=1e-9, atol=1e-9), said
    ideal = [ideal_run_time(typed, row) for row in kept]
    assert outcome.jobs["ideal_run_time"].to_list() == ideal, said
    assert ringbco.audit(outcome, typed.frame) == [], said


def ideal_run_time(typed: TypedCase, row: int) -> float:
    """On the type recorded on, on the fewest servers of whatever type, alone."""
    case, job = typed.case, typed.case.jobs[row]
    if case.options.model == "fixed":
        return job.duration
    own = [
        size
        for server, size in enumerate(case.servers)
        if case.server_vc is None or case.server_vc[server] == job.vc
    ]
    return job.iterations * iteration_time(job, fewest_servers(job.num_gpus, own), 1, case.net)


def refused(typed: TypedCase, error: RefusedError | StuckError, **options: Any) -> None:
    with pytest.raises(InputError) as caught:
        replayed(typed, **options)
    words = "slot" if isinstance(error, RefusedError) else "stuck"
    assert words in str(caught.value) or "ever" in str(caught.value), (typed.toml, typed.frame.to_dicts())


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    bases = [base for base in COMBINATIONS if base.placement == placement]
    finished, numbers = 0, range(FEW // 3)
    for number in numbers:
        rnd = random.Random(f"types from files {placement} {number}")
        typed = build_typed(rnd, rnd.choice(bases), vcs=rnd.random() < 0.2)
        case, types = typed.case, typed.types
        options = {**options_of(typed), "policy": "fifo"}
        try:
            world = queue_world(types)
            truth = simulate(case.jobs, case.servers, case.net, case.options, case.server_vc, world)
        except (RefusedError, StuckError) as error:
            refused(typed, error, **options)
            continue
        if not any(truth.kept):
            continue
        outcome = replayed(typed, **options)
        stays = [
            (row, truth.start[row], server, gpus, truth.finish[row])
            for row, parts in enumerate(truth.allocations)
            for server, gpus in parts.items()
        ]
        same(typed, outcome, truth, np.array(sorted(stays), dtype=float))
        check_on_type(typed, outcome, truth.allocations)
        finished += 1
    assert finished > 0.5 * len(numbers)


def check_on_type(typed: TypedCase, outcome: ringbco.Outcome, allocations: list[dict[int, int]]) -> None:
    """run_on_type of jobs that run once: their compute on the type that they held, less that recorded."""
    if "run_on_type" not in outcome.jobs.columns:
        return
    case, types = typed.case, typed.types
    for row, seconds in zip(outcome.jobs["job_id"], outcome.jobs["run_on_type"], strict=True):
        at = int(row[1:])
        job = case.jobs[at]
        faster = types.ratio(at, types.of[next(iter(allocations[at]))])
        work = job.duration if case.options.model == "fixed" else job.iterations * job.compute_time
        assert seconds == pytest.approx(work / faster - work, rel=1e-5, abs=1e-5), (row, typed.toml)


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    finished, numbers = 0, range(FEW // 3)
    for number in numbers:
        rnd = random.Random(f"types from files {policy} {number}")
        typed = build_typed(rnd, rnd.choice(PREEMPT_COMBINATIONS), vcs=rnd.random() < 0.2)
        case, types = typed.case, typed.types
        deadlines, rules = rules_for(rnd, policy, case)
        frame = typed.frame
        if policy == "edf":
            frame = frame.with_columns(deadline=pl.Series(deadlines).fill_nan(None))
        typed = replace(typed, frame=frame)
        options = {**options_of(typed), "policy": policy, "preempt_cost": rules.cost}
        del options["order"], options["queue"]
        if policy in INTERVALS:
            options["quantum" if policy == "time-slice" else "interval"] = rules.interval
        if policy in ("tiresias", "gittins"):
            options["thresholds"] = rules.thresholds
        if policy == "edf":
            options["admission"] = rules.admission
        try:
            world = preempt_world(types)
            truth = simulate_preempt(
                case.jobs, deadlines, case.servers, case.net, case.options, rules, case.server_vc, world
            )
        except (RefusedError, StuckError) as error:
            refused(typed, error, **options)
            continue
        if not any(truth.kept):
            continue
        outcome = replayed(typed, **options)
        kept = [n for n, keep in zip(truth.preemptions, truth.kept, strict=True) if keep]
        assert outcome.jobs["preemptions"].to_list() == kept
        same(typed, outcome, truth, stays_of(truth.allocations))
        if policy == "srtf":
            own = replayed(typed, **{**options, "policy": ShortestRemaining})
            assert own.jobs.select(TIMES).equals(outcome.jobs.select(TIMES)), (typed.toml, frame.to_dicts())
            assert own.allocations is not None
            assert own.allocations.equals(outcome.allocations)
        finished += 1
    assert finished > 0.5 * len(numbers)
