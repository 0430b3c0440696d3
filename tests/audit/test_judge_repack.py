"""The judge on repack (docs/repack.md)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import ringbco
import ruled
from judge.deciding import UnclearError
from judge.predicting import bin_of, index
from relabelled import QUOTA, codes, jobs, told
from ringbco.trace.jobs import JobTable, from_frame

MANY = jobs(*((f"j{n}", 5.0 * (n // 2), 1 + n * 7 % 5, 20.0 + n * 53 % 400) for n in range(80)))
DECISIONS = {"order", "idle", "placement"}


def run(table: JobTable, cluster: str = "2x8", **options: Any) -> ringbco.Outcome:
    options = {"policy": "repack", "predict": "exact"} | options
    return ringbco.replay(table, cluster, model="fixed", **options)


def test_a_plan_that_pays_is_carried_out() -> None:
    # The example of the page: waiting takes 1,000 s, the plan 30 + 100.
    table = jobs(("resident", 0, 4, 1_000), ("small", 0.5, 8, 100))
    outcome = run(table, "1x8", preempt_cost=30.0)
    assert outcome.jobs["preemptions"].to_list() == [1, 0]
    assert ruled.audit(outcome, table) == []
    # With pauses of 600 s it would cost more than half of the wait.
    assert codes(told(outcome, preempt_cost=600.0), table)


def test_a_job_that_is_in_the_way_moves() -> None:
    # b's end leaves two GPUs idle on each server, and a is in the way of c.
    table = jobs(("a", 0, 2, 900), ("b", 1, 2, 10), ("d", 2, 2, 900), ("e", 3, 2, 10), ("c", 20, 4, 300))
    outcome = run(table, "2x4", preempt_cost=1.0)
    assert ruled.audit(outcome, table) == []
    assert outcome.jobs["start_time"].to_list()[4] == 20.0
    assert outcome.jobs["moves"].sum() == 1
    still = run(table, "2x4", preempt_cost=1.0, policy="fifo")
    assert codes(told(still, policy="repack", preempt_cost=1.0), table) & DECISIONS


@pytest.mark.parametrize("predict", ["exact", "history"])
def test_the_run_of_another_policy_is_found(predict: str) -> None:
    outcome = run(MANY, predict=predict)
    assert outcome.jobs["preemptions"].sum() > 0
    assert ruled.audit(outcome, MANY) == []
    for policy in ("srtf", "gittins", "tiresias"):
        other = run(MANY, policy=policy)
        assert codes(told(other, policy="repack", predict=predict), MANY) & DECISIONS, policy


def test_what_was_known_of_run_times_is_found() -> None:
    outcome = run(MANY, predict="history")
    assert codes(told(outcome, predict="exact"), MANY) & DECISIONS


def test_grades_count() -> None:
    frame = MANY.frame.with_columns(
        priority=pl.int_range(pl.len()) % 3, user=pl.Series(["a", "b"] * 40, dtype=pl.String)
    )
    table = from_frame(frame)
    outcome = run(table, quota=QUOTA, evict=True)
    assert ruled.audit(outcome, table) == []
    plain = run(table)
    assert codes(told(plain, evict=True), table) & DECISIONS


def test_a_prediction_gives_up_where_that_pays() -> None:
    # The example of the page: half of the jobs run for 10 s, half for 1,000 s.
    weights = {bin_of(10.0): 0.5, bin_of(1_000.0): 0.5}
    assert index(weights, bin_of(0.0)) == pytest.approx(20.0, rel=0.05)
    assert index(weights, bin_of(12.0)) == pytest.approx(990.0, rel=0.05)
    assert index(weights, bin_of(2_000.0)) == pytest.approx(2_000.0, rel=0.08)


def test_a_time_beside_an_edge_is_in_no_sure_bin() -> None:
    assert (bin_of(0.0), bin_of(1.0), bin_of(1.08), bin_of(1e300)) == (0, 0, 1, 259)
    with pytest.raises(UnclearError):
        bin_of(1.08 * (1.0 + 1e-13))
