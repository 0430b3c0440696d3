"""What is done and undone at one instant: who gets back what it held up to it has never left (docs/model.md).

A job whose work is below the resolution of float64 is done as it starts. So others make room for it at one
instant and have their GPUs back at it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from frames import stays, table
from ringbco.result.outcome import Outcome

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero")

AT_ONCE = 1e-15
TICKS = {"ftf", "tiresias", "gittins"}
"""Policies that decide at multiples of 60 s."""


def two(**columns: list[Any]) -> pl.DataFrame:
    """A job of 100 s, and one at 50 s that is done at once."""
    return table(job_id=["a", "b"], submit_time=[0.0, 50.0], duration=[100.0, AT_ONCE], **columns)


def replay(jobs: pl.DataFrame, cluster: str = "1x1", **options: Any) -> Outcome:
    return ringbco.replay(jobs, cluster, model="fixed", decisions=True, quantum=60.0, **options)


def times(result: Outcome) -> list[tuple[Any, ...]]:
    return result.jobs.select("start_time", "finish_time", "preemptions", "lost_time").rows()


@pytest.mark.parametrize("policy", ["srtf", "edf", "tiresias", "gittins", "ftf"])
def test_a_ranking_preempts_nobody_for_a_job_that_is_done_at_once(policy: str) -> None:
    jobs = two(deadline=[None, 60.0])
    result = replay(jobs, policy=policy, thresholds=[10.0])
    at = 60.0 if policy in TICKS else 50.0
    assert times(result) == [(0.0, 100.0, 0, 0.0), (at, at, 0, 0.0)]
    assert stays(result) == [("a", 0, 1, 0.0, 100.0), ("b", 0, 1, at, at)]


def test_time_slice_gives_a_quantum_away() -> None:
    # The turn of 60 s is b's. The next one is at 120 s, and then a pauses.
    assert times(replay(two(), policy="time-slice")) == [(0.0, 190.0, 1, 30.0), (60.0, 60.0, 0, 0.0)]


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_nor_is_anybody_evicted_for_it(policy: str) -> None:
    result = replay(two(priority=[0, 1]), policy=policy, evict=True, start_cost=0.0)
    assert times(result) == [(0.0, 100.0, 0, 0.0), (50.0, 50.0, 0, 0.0)]
    assert result.jobs["evictions"].to_list() == [0, 0]
    assert stays(result) == [("a", 0, 1, 0.0, 100.0), ("b", 0, 1, 50.0, 50.0)]


def test_a_stay_that_goes_on_is_over_quota_as_before() -> None:
    # b began over quota, beside a, and is so until its stay ends. So d may take its GPU, as c did before.
    jobs = table(
        job_id=["a", "b", "c", "d"],
        submit_time=[0.0, 0.0, 50.0, 60.0],
        num_gpus=[1, 1, 2, 2],
        duration=[30.0, 500.0, AT_ONCE, 10.0],
        user=["u", "u", "v", "v"],
    )
    quota = pl.DataFrame({"user": ["u", "v"], "gpus": [1, 2], "borrow": [True, True]})
    result = replay(jobs, "1x2", policy="fifo", quota=quota)
    assert result.jobs["evictions"].to_list() == [0, 1, 0, 0]
    assert [stay[3:] for stay in stays(result) if stay[0] == "b"] == [(0.0, 60.0), (70.0, 540.0)]


def test_a_share_goes_on_where_it_was() -> None:
    # b needs a whole GPU: a leaves its share of GPU 0 and gets it back, beside c.
    jobs = table(
        job_id=["c", "a", "b"],
        submit_time=[0.0, 0.0, 50.0],
        duration=[10.0, 100.0, AT_ONCE],
        gpu_share=[0.5, 0.25, None],
    )
    result = replay(jobs, policy="srtf", interference=1.0)
    # Beside each other until 20 s, at half their rates.
    assert [row[:3] for row in times(result)] == [(0.0, 20.0, 0), (0.0, 110.0, 0), (50.0, 50.0, 0)]
    assert result.allocations is not None
    assert result.allocations["gpu"].to_list() == [0, 0, 0]


def test_who_is_put_elsewhere_has_left() -> None:
    # c has server 0 until 50 s, a is on server 1. When b is over both are empty, and a goes to the lower one.
    jobs = table(
        job_id=["c", "a", "b"],
        submit_time=[0.0, 0.0, 50.0],
        num_gpus=[2, 1, 4],
        duration=[50.0, 100.0, AT_ONCE],
    )
    result = replay(jobs, "2x2", policy="srtf", preempt_cost=5.0)
    assert [stay for stay in stays(result) if stay[0] == "a"] == [
        ("a", 1, 1, 0.0, 50.0),
        ("a", 0, 1, 50.0, 105.0),
    ]
    assert times(result)[1] == (0.0, 105.0, 1, 5.0)


@pytest.mark.parametrize("policy", ["srtf", "ftf", "fifo"])
def test_its_log_gives_the_same_tables(policy: str, tmp_path: Path) -> None:
    jobs = two(priority=[0, 1])
    evict = {"evict": True} if policy == "fifo" else {}
    result = replay(jobs, policy=policy, **evict)
    assert result.decisions is not None
    at = 60.0 if policy == "ftf" else 50.0
    verbs = [(time, verb, job) for time, verb, job, *_ in result.decisions.rows()]
    ended = "evicted" if evict else "stop"
    assert verbs == [(0.0, "start", "a"), (at, ended, "a"), (at, "start", "b"), (at, "start", "a")]
    result.write(tmp_path / "r")
    logged = replay(jobs, policy=f"log:{tmp_path / 'r' / 'decisions.parquet'}")
    assert logged.allocations is not None
    assert logged.allocations.equals(result.allocations)
    assert logged.decisions is not None
    assert logged.decisions.equals(result.decisions)
    assert times(logged) == times(result)
