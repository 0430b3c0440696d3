"""Priorities, quotas and urgency under repack: the examples of docs/repack-reference.md, and more."""

from __future__ import annotations

import random

import polars as pl

import ringbco
from ringbco.cluster.spec import Cluster, ServerGroup

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c"],
        "submit_time": [0.0, 0.0, 50.0],
        "num_gpus": [1, 1, 1],
        "duration": [100.0, 1.0, 1000.0],
        "priority": [5, 0, 5],
        "user": ["ann", "bob", "cyd"],
    }
)
QUOTA = pl.DataFrame({"user": ["cyd"], "gpus": [0], "borrow": [True]})


def starts(**options: object) -> dict[str, float]:
    jobs = ringbco.replay(JOBS, "1x1", policy="repack", predict="exact", model="fixed", **options).jobs
    return dict(jobs.select("job_id", "start_time").iter_rows())


def test_priorities_go_before_urgency() -> None:
    assert starts() == {"a": 0.0, "c": 100.0, "b": 1100.0}


def test_quotas_go_before_priorities() -> None:
    assert starts(quota=QUOTA) == {"a": 0.0, "b": 100.0, "c": 101.0}


def test_the_rest_of_a_pause_does_not_count_for_a_quota() -> None:
    """Two jobs of an owner who may hold one GPU are protected for less than a pause."""
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_time": 0.0, "num_gpus": 1, "duration": 1000.0})
    jobs = jobs.with_columns(user=pl.lit("u"))
    quota = pl.DataFrame({"user": ["u"], "gpus": [1], "borrow": [False]})
    outcome = ringbco.replay(jobs, "1x2", policy="repack", model="fixed", quota=quota, preempt_after=10.0)
    stays = outcome.stays
    assert stays["work"].sum() == 2000.0
    # Whoever has resumed keeps its GPU until it has done some work.
    resumed = stays.filter(pl.col("pause") > 0.0, pl.col("ended") != "done")
    assert resumed["work"].min() > 0.0


def test_small_cases_with_quotas_end_by_themselves() -> None:
    """With the default history, a pause of two minutes and no protection."""
    for seed in range(60):
        draw = random.Random(seed)
        submits = [draw.choice([0.0, 30.0, 90.0]) for _ in range(6)]
        sizes = [draw.choice([1, 1, 2]) for _ in range(6)]
        rows = [
            (f"j{number}", submit, gpus, draw.choice([60.0, 600.0, 3000.0]), "uv"[number % 2])
            for number, (submit, gpus) in enumerate(zip(submits, sizes, strict=True))
        ]
        jobs = pl.DataFrame(rows, ["job_id", "submit_time", "num_gpus", "duration", "user"], orient="row")
        quota = pl.DataFrame({"user": ["u", "v"], "gpus": [2, 3], "borrow": [draw.random() < 0.5, False]})
        outcome = ringbco.replay(jobs, "1x4", policy="repack", model="fixed", quota=quota, preempt_cost=120.0)
        assert outcome.stays.height < 60, seed


def test_who_moves_at_once_has_still_evicted() -> None:
    """j6, within its quota, evicts j2; a plan for j3 then moves j6, which never held the first server."""
    jobs = pl.DataFrame(
        {
            "job_id": ["j2", "j3", "j6"],
            "submit_time": [3.0, 4.0, 5.0],
            "num_gpus": [3, 2, 1],
            "duration": [2.0, 6.0, 2.0],
            "vc": ["u2", "u0", "u1"],
        }
    )
    quota = pl.DataFrame({"vc": ["u0", "u2"], "gpus": [1, 1], "borrow": [True, True]})
    cluster = Cluster.from_groups([ServerGroup(1, 2), ServerGroup(1, 1)])
    options = {
        "policy": "repack",
        "model": "fixed",
        "predict": "exact",
        "preempt_cost": 2.0,
        "start_cost": 2.0,
    }
    outcome = ringbco.replay(jobs, cluster, quota=quota, **options)
    first = outcome.stays.row(0, named=True)
    assert (first["job_id"], first["end_time"], first["ended"], first["by_job"]) == (
        "j2",
        5.0,
        "evicted",
        "j6",
    )
    assert outcome.jobs["evictions"].to_list() == [1, 0, 0]
    assert outcome.jobs["preemptions"].to_list() == [0, 0, 0]
