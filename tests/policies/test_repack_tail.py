"""repack's reference time, which looks ahead as far as `--tail` lets it, and the protection of its stays."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.case import by_hand
from cases.compare import agreed
from core_run import CASES, LONG
from ringbco.cluster.spec import Cluster
from ringbco.errors import RingbcoError, UsageError
from ringbco.trace.jobs import JobTable, from_frame
from test_repack import agree

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

TAILS = (0.0, 0.2, 0.5, 1.0)
EACH = CASES // 25 if LONG else 6


def busy(rnd: random.Random) -> tuple[JobTable, Cluster, dict[str, Any]]:
    """So many jobs of one and two GPUs that predictions of both are trusted while others wait."""
    servers = rnd.choice(("1x4", "2x2", "3x2"))
    gpus = {"1x4": 4, "2x2": 4, "3x2": 6}[servers]
    users = rnd.choice(((None,), ("ann", "bob", None)))
    at, rows = 0.0, []
    for number in range(rnd.randint(60, 90)):
        size = rnd.choice((1, 1, 2))
        seconds = rnd.choice((2.0, 20.0, 100.0, 100.0, 100.0, 120.0, 400.0)) * rnd.choice(
            (1.0, rnd.random() + 0.5)
        )
        rows.append((f"j{number}", float(round(at)), size, float(round(seconds + 1)), rnd.choice(users)))
        at += rnd.expovariate(1) * size * 130.0 / gpus / rnd.choice((0.7, 1.5))
    frame = pl.DataFrame(
        rows,
        schema=["job_id", "submit_time", "num_gpus", "duration", "user"],
        orient="row",
        infer_schema_length=None,
    )
    options = {"model": "fixed", "preempt_cost": rnd.choice((0.0, 5.0, 30.0, 150.0))}
    return from_frame(frame if len(users) > 1 else frame.drop("user")), Cluster.parse(servers), options


def test_the_reference_decides_the_same_where_predictions_are_trusted() -> None:
    differ = 0
    for number in range(EACH):
        rnd = random.Random(f"tail {number}")
        jobs, cluster, options = busy(rnd)
        told = [agree(jobs, cluster, options | {"tail": tail}, "history") for tail in rnd.sample(TAILS, 2)]
        differ += not told[0].jobs.equals(told[1].jobs)
    assert differ >= EACH / 2


def test_known_run_times_have_no_tail() -> None:
    jobs, cluster, options = busy(random.Random("tail"))
    told = [
        ringbco.replay(jobs, cluster, policy="repack", predict="exact", tail=tail, **options)
        for tail in (0.0, 1.0)
    ]
    assert told[0].jobs.equals(told[1].jobs)


def test_few_completed_jobs_are_not_trusted() -> None:
    """With 9 completed jobs of a size all tails give one result."""
    jobs, cluster, options = busy(random.Random("few"))
    few = from_frame(jobs.frame.filter(pl.col("num_gpus") == 1).head(10))
    told = [ringbco.replay(few, cluster, policy="repack", tail=tail, **options) for tail in (0.0, 1.0)]
    assert told[0].jobs.equals(told[1].jobs)


@pytest.mark.parametrize(
    ("given", "stops"), [({}, 60.0), ({"preempt_after": 0.0}, 10.0), ({"preempt_after": 90.0}, 90.0)]
)
def test_a_stay_is_protected_for_twice_the_cost(given: dict[str, float], stops: float) -> None:
    """b would replace a when it arrives, at 10 s; by default it does once a's stay is 2 x 30 s old."""
    case = by_hand(
        [4],
        "submit_time num_gpus duration",
        [(0, 4, 1000), (10, 4, 20)],
        policy="repack",
        predict="exact",
        **given,
    )
    stays = case.replay().allocations.sort("start_time")
    assert stays["job_id"].to_list() == ["j0", "j1", "j0"]
    assert stays["start_time"].to_list() == [0.0, stops, stops + 20.0]


@pytest.mark.parametrize(("given", "stops"), [({}, 14.0), ({"preempt_after": 90.0}, 90.0)])
def test_by_default_the_cost_is_the_job_s_own(given: dict[str, float], stops: float) -> None:
    """As above; a's own cost of 7 s protects it for 14 s, and the rest of the pauses are as they were."""
    case = by_hand(
        [4],
        "submit_time num_gpus duration preempt_cost",
        [(0, 4, 1000, 7.0), (10, 4, 20, None)],
        policy="repack",
        predict="exact",
        **given,
    )
    agreed(case)
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    stays = outcome.allocations.sort("start_time")
    assert stays["start_time"].to_list() == [0.0, stops, stops + 20.0]
    assert stays["end_time"].max() == 1000.0 + 20.0 + 7.0


@pytest.mark.parametrize(
    ("given", "stops"),
    [({}, 14.0 + 70.0 + 5.0), ({"checkpoint_interval": 20.0}, 39.0), ({"preempt_after": 12.0}, 12.0)],
)
def test_a_stay_that_loses_work_is_protected_until_it_has_saved(
    given: dict[str, float], stops: float
) -> None:
    """As above; a's own interval of 70 s, or that of the run, and what a start and a save take are added."""
    own = None if "checkpoint_interval" in given else 70.0
    case = by_hand(
        [4],
        "submit_time num_gpus duration preempt_cost checkpoint_interval",
        [(0, 4, 1000, 7.0, own), (10, 4, 20, None, None)],
        policy="repack",
        predict="exact",
        preempt_loses=True,
        start_cost=3.0,
        checkpoint_cost=2.0,
        **given,
    )
    agreed(case)
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    assert outcome.allocations.sort("start_time")["start_time"][1] == stops


@pytest.mark.parametrize("seed", range(1, 5))
def test_jobs_that_lose_work_come_to_their_end_under_load(seed: int) -> None:
    """With a protection of twice the cost alone urgent jobs take turns without saving anything."""
    jobs = ringbco.generate("philly", 300, seed=seed, gpus=64)
    told = {"policy": "repack", "preempt_loses": True}
    assert ringbco.replay(jobs, "3x8", **told).summary["lost_gpu_hours_by_cause"]["preemption"] > 0.0
    with pytest.raises(RingbcoError, match="expected every job to come to its end"):
        ringbco.replay(jobs, "3x8", preempt_after=60.0, **told)


@pytest.mark.parametrize("seed", [9, 66])
def test_a_job_that_loses_work_and_waits_again_is_in_no_two_places(seed: int) -> None:
    """It left the queue and joined it with another reference time since it was urgent, all at one instant."""
    rnd, time, rows = random.Random(seed), 0.0, []
    for _ in range(14):
        time += rnd.randint(0, 60)
        gpus, duration = rnd.choice((1, 1, 2, 3, 4)), float(rnd.randint(50, 600))
        rows.append((time, gpus, duration, rnd.choice(("a", "b", "c"))))
    limits = [{"vc": "a", "gpus": 2, "borrow": False}, {"vc": "b", "gpus": 4, "borrow": True}]
    told = {"preempt_loses": True, "preempt_after": 0.0, "preempt_cost": 0.0, "checkpoint_interval": 200.0}
    case = by_hand([4, 4], "submit_time num_gpus duration vc", rows, policy="repack", quota=limits, **told)
    assert list(ringbco.audit(case.replay(), case.frame())) == []


def test_a_tail_beyond_one_is_refused() -> None:
    with pytest.raises(UsageError, match=r"option tail: 1.5: expected a number >= 0 and <= 1"):
        ringbco.replay(*busy(random.Random(0))[:2], policy="repack", tail=1.5)
