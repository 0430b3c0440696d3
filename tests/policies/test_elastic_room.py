"""Quotas, eviction and shares where jobs are resized, by hand: the examples of docs/elastic-policies.md."""

from typing import Any

import polars as pl
import pytest

import ringbco
from ringbco.run.registry import PRESETS

RESIZING = [name for name, preset in PRESETS.items() if "resizes" in preset.is_]


def replayed(jobs: pl.DataFrame, cluster: str, policy: str = "afs", **options: Any) -> list[tuple[Any, ...]]:
    """(job, GPUs, start, end) of each stay of jobs whose results the audit finds sound."""
    outcome = ringbco.replay(jobs, cluster, policy=policy, model="fixed", **options)
    assert ringbco.audit(outcome, jobs) == []
    assert outcome.allocations is not None
    return outcome.allocations.select("job_id", "num_gpus", "start_time", "end_time").rows()


def of_one_owner(borrow: bool) -> pl.DataFrame:
    return pl.DataFrame({"user": ["u"], "gpus": [4], "borrow": [borrow]})


def test_eviction_goes_before_resize_every() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": list("abc"),
            "submit_time": [0.0, 0.0, 100.0],
            "num_gpus": [2, 2, 2],
            "min_gpus": [1, 1, 1],
            "max_gpus": [2, 2, 4],
            "duration": [1000.0] * 3,
            "priority": pl.Series([0, 0, 1], dtype=pl.Int32),
        }
    )
    stays = replayed(jobs, "1x4", evict=True)
    assert [stay[:3] for stay in stays if stay[2] <= 100.0] == [
        ("a", 2, 0.0),
        ("a", 1, 100.0),
        ("b", 2, 0.0),
        ("c", 1, 100.0),
    ]
    # Without --evict c waits for the next decision.
    assert ("c", 1000.0) in [(job, start) for job, _, start, _ in replayed(jobs, "1x4")]


def test_what_is_borrowed_is_taken_back_by_a_resize() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_time": [0.0, 400.0],
            "num_gpus": [4, 4],
            "min_gpus": [2, 4],
            "max_gpus": [8, 4],
            "duration": [1000.0, 1000.0],
            "user": ["u", "v"],
        }
    )
    borrowing = [stay[:3] for stay in replayed(jobs, "1x8", quota=of_one_owner(borrow=True))]
    assert borrowing == [("a", 8, 0.0), ("a", 4, 400.0), ("b", 4, 400.0)]
    # A young stay over quota is evicted, and goes on with what is left.
    early = jobs.with_columns(submit_time=pl.Series([0.0, 100.0]))
    result = [stay[:3] for stay in replayed(early, "1x8", quota=of_one_owner(borrow=True))]
    assert [stay for stay in result if stay[2] <= 100.0] == [("a", 8, 0.0), ("a", 4, 100.0), ("b", 4, 100.0)]
    # Who may not borrow never has more than its quota, though nobody else needs it.
    alone = [stay[:2] for stay in replayed(jobs, "1x8", quota=of_one_owner(borrow=False))]
    assert alone == [("a", 4), ("b", 4)]


def test_a_young_guest_keeps_its_gpus() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": list("abc"),
            "submit_time": [0.0, 10.0, 20.0],
            "num_gpus": [4, 4, 4],
            "duration": [400.0, 50.0, 50.0],
            "user": ["u", "u", "v"],
        }
    )
    stays = replayed(jobs, "1x8", quota=of_one_owner(borrow=False))
    assert stays == [("a", 4, 0.0, 400.0), ("b", 4, 400.0, 450.0), ("c", 4, 20.0, 70.0)]
    # Of age it makes room for the shorter job that is within the quota in its place.
    old = replayed(jobs, "1x8", quota=of_one_owner(borrow=False), resize_every=5.0, preempt_cost=0.0)
    assert [stay[:3] for stay in old] == [("a", 4, 0.0), ("a", 4, 60.0), ("b", 4, 10.0), ("c", 4, 20.0)]


@pytest.mark.parametrize("policy", RESIZING)
def test_all_that_resize_take_quotas_and_evict(policy: str) -> None:
    jobs = ringbco.generate("philly", 40, 3).frame.with_columns(
        min_gpus=pl.lit(1),
        max_gpus=pl.col("num_gpus") * 2,
        priority=pl.int_range(pl.len()) % 2,
        user=pl.lit("u"),
        deadline=pl.col("submit_time") + 4.0 * pl.col("duration"),
    )
    for borrow in (True, False):
        quota = pl.DataFrame({"user": ["u"], "gpus": [8], "borrow": [borrow]})
        given = {"quota": quota, "evict": True, "oversize": "drop"}
        assert replayed(jobs, "2x8", policy, **given)


@pytest.mark.parametrize(("share", "start"), [(0.6, 10.0), (0.4, 0.0)])
def test_shares_count_in_thousandths(share: float, start: float) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": list("abc"),
            "submit_time": [0.0] * 3,
            "num_gpus": [1] * 3,
            "min_gpus": [None, None, 1],
            "max_gpus": [None, None, 2],
            "duration": [10.0, 10.0, 20.0],
            "gpu_share": [0.6, share, None],
        }
    )
    stays = replayed(jobs, "1x2", resize_every=0.0, preempt_cost=0.0)
    assert next(stay[2] for stay in stays if stay[0] == "c") == start
    assert [stay for stay in stays if stay[0] in "ab"] == [("a", 1, 0.0, 10.0), ("b", 1, 0.0, 10.0)]
    # From 10 s on both GPUs are free, and c has both: a row each, since jobs may share one.
    assert stays[-2:] == [("c", 1, 10.0, 20.0 if share == 0.6 else 15.0)] * 2


@pytest.mark.parametrize("policy", RESIZING)
@pytest.mark.parametrize("placement", ["consolidate", "fgd"])
def test_all_that_resize_take_shares(policy: str, placement: str) -> None:
    jobs = ringbco.generate("philly", 40, 3).frame.with_columns(
        gpu_share=pl.when(pl.col("num_gpus") == 1).then(0.5),
        min_gpus=pl.when(pl.col("num_gpus") > 1).then(1),
        max_gpus=pl.when(pl.col("num_gpus") > 1).then(8),
        deadline=pl.col("submit_time") + 4.0 * pl.col("duration"),
    )
    assert replayed(jobs, "2x8", policy, placement=placement, oversize="drop")
