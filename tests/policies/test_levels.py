"""gavel, allox and sia with priorities, quotas, eviction and shares (docs/gavel.md): worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

import ringbco

pytest.importorskip("highspy")

POLICIES = ("gavel", "allox", "sia")
ROUND = {"gavel": {"round": 10.0}, "sia": {"round": 10.0}, "allox": {}}


def jobs(*rows: tuple[float, int, float, int, str | None], **columns: Sequence[Any]) -> pl.DataFrame:
    """(submit_time, num_gpus, duration, priority, user) of jobs a, b, c ..."""
    frame = pl.DataFrame(
        rows, schema=["submit_time", "num_gpus", "duration", "priority", "user"], orient="row"
    )
    names = pl.Series("job_id", [chr(97 + at) for at in range(len(rows))])
    return frame.with_columns(names, *(pl.Series(name, values) for name, values in columns.items()))


def quota(*rows: tuple[str, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["user", "gpus", "borrow"], orient="row")


def run(policy: str, frame: pl.DataFrame, cluster: str, **options: Any) -> ringbco.Outcome:
    """A result without findings."""
    outcome = ringbco.replay(
        frame, cluster, policy=policy, parameters=ROUND[policy], model="fixed", preempt_cost=0.0, **options
    )
    assert ringbco.audit(outcome, frame) == []
    return outcome


def finish(found: ringbco.Outcome) -> list[float]:
    return found.jobs.sort("job_id")["finish_time"].to_list()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_higher_priority_goes_first(policy: str) -> None:
    frame = jobs((0, 4, 100, 0, "u"), (0, 4, 100, 1, "u"))
    assert finish(run(policy, frame, "1x4")) == [200.0, 100.0]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("borrow", [True, False])
def test_who_is_within_a_quota_goes_before_guests(policy: str, *, borrow: bool) -> None:
    # The example of docs/gavel.md: b is over u's quota of 2 beside a, and c is v's.
    frame = jobs((0, 2, 100, 0, "u"), (0, 2, 100, 0, "u"), (0, 2, 100, 0, "v"))
    result = run(policy, frame, "1x4", quota=quota(("u", 2, borrow)))
    assert finish(result) == [100.0, 200.0, 100.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_guests_have_what_is_idle_if_they_may_borrow(policy: str) -> None:
    frame = jobs((0, 2, 100, 0, "u"), (0, 2, 100, 0, "u"))
    assert finish(run(policy, frame, "1x4", quota=quota(("u", 2, True)))) == [100.0, 100.0]
    assert finish(run(policy, frame, "1x4", quota=quota(("u", 2, False)))) == [100.0, 200.0]


def test_allox_evicts_for_those_that_cannot_be_placed() -> None:
    # b of u is a guest from 0 s on. c of v comes at 1 s, and b makes room; it goes on when a is done.
    frame = jobs((0, 2, 100, 0, "u"), (0, 2, 100, 0, "u"), (1, 2, 100, 0, "v"))
    result = run("allox", frame, "1x4", quota=quota(("u", 2, True)))
    assert finish(result) == [100.0, 199.0, 101.0]
    assert result.jobs["evictions"].sum() == 1
    frame = jobs((0, 4, 100, 0, "u"), (10, 2, 100, 1, "v"))
    assert finish(run("allox", frame, "1x4", evict=True)) == [200.0, 110.0]
    assert finish(run("allox", frame, "1x4")) == [100.0, 200.0]


def test_sia_grows_no_job_beyond_a_quota() -> None:
    # Each may hold 4 of 8 GPUs. With a quota of 3 both are within by one GPU each, and a has the third.
    columns = {"min_gpus": [1, 1], "max_gpus": [4, 4]}
    frame = jobs((0, 1, 1000, 0, "u"), (0, 1, 1000, 0, "u"), **columns)
    free = run("sia", frame, "1x8").stays
    assert free["num_gpus"].max() == 4
    for borrow in (True, False):
        held = run("sia", frame, "1x8", quota=quota(("u", 3, borrow))).stays
        most = {job: stays["num_gpus"].max() for (job,), stays in held.group_by("job_id")}
        assert most == {"a": 2, "b": 2}  # b grows once a is done
        together = held.filter(pl.col("start_time") < 100.0)
        assert (
            together.group_by("job_id").agg(pl.col("num_gpus").max()).sort("job_id")["num_gpus"].to_list()[1]
            == 1
        )


@pytest.mark.parametrize("policy", POLICIES)
def test_shares_of_a_gpu_run_side_by_side(policy: str) -> None:
    frame = jobs(*[(0, 1, 100, 0, "u")] * 3, gpu_share=[0.5, 0.3, 0.2])
    assert finish(run(policy, frame, "1x1", placement="best-fit")) == [100.0, 100.0, 100.0]


@pytest.mark.parametrize("policy", ["allox", "sia"])
def test_shares_and_whole_gpus(policy: str) -> None:
    # Two halves fill a GPU, a whole one has the other, and the job of 0.6 waits for one of them.
    frame = jobs(*[(0, 1, 100, 0, "u")] * 4, gpu_share=[0.5, 0.5, None, 0.6])
    assert sorted(finish(run(policy, frame, "1x2", placement="best-fit"))) == [100.0, 100.0, 100.0, 200.0]
