"""What the audit concludes where GPU types differ, on cases worked by hand.

Server 0 has 4 slow GPUs (speed 1, price 1 an hour), server 1 has 2 fast ones (speed 4, price 8). All jobs
were recorded on slow GPUs, so that 100 s of them take 25 s on fast ones.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

import ringbco
from frames import cluster_of
from ringbco.cluster.spec import Cluster

TWO = """\
[gpu_types.Slow]
speed = 1
price_per_hour = 1
[gpu_types.Fast]
speed = 4
price_per_hour = 8
[[servers]]
gpus = 4
gpu_type = "Slow"
[[servers]]
gpus = 2
gpu_type = "Fast"
"""


@pytest.fixture
def two() -> Cluster:
    return cluster_of(TWO)


def table(*rows: tuple[int, float, str | None]) -> pl.DataFrame:
    """Jobs of (GPUs, duration, gpu_type), all there at 0."""
    return pl.DataFrame(
        {
            "job_id": [chr(ord("a") + row) for row in range(len(rows))],
            "submit_time": [0.0] * len(rows),
            "num_gpus": [row[0] for row in rows],
            "duration": [row[1] for row in rows],
            "gpu_type": pl.Series([row[2] for row in rows], dtype=pl.String),
            "recorded_on": ["Slow"] * len(rows),
        }
    )


def replayed(jobs: pl.DataFrame, two: Cluster, **options: Any) -> ringbco.Outcome:
    given = {"policy": "fifo", "placement": "first-fit", "model": "fixed"} | options
    outcome = ringbco.replay(jobs, two, **given)
    assert ringbco.audit(outcome, jobs) == []
    return outcome


def findings_of(outcome: ringbco.Outcome, jobs: pl.DataFrame) -> set[str]:
    return {finding.code for finding in ringbco.audit(outcome, jobs)}


def test_a_type_too_small_for_the_job_is_not_tried(two: Cluster) -> None:
    """Three GPUs fit on Slow alone, though Fast goes first."""
    jobs = table((3, 100.0, None))
    assert replayed(jobs, two).jobs["finish_time"].to_list() == [100.0]


def test_why_a_job_waited_is_told_by_its_types(two: Cluster) -> None:
    jobs = table((4, 100.0, "Slow"), (2, 100.0, "Slow"))
    outcome = replayed(jobs, two)
    wait = pl.Series([0.0, 100.0], dtype=pl.Float32)
    none = pl.Series([0.0, 0.0], dtype=pl.Float32)
    other = outcome.jobs.with_columns(wait_gpus=none, wait_behind=wait)
    assert findings_of(dataclasses.replace(outcome, jobs=other), jobs) == {"causes"}
