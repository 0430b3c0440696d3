"""Who goes first under repack where priorities, quotas and urgency differ: the examples of docs/repack.md."""

from __future__ import annotations

import polars as pl

import ringbco

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
