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


def claim(outcome: ringbco.Outcome, **options: Any) -> ringbco.Outcome:
    """The same result, said to be of other options."""
    return dataclasses.replace(outcome, run={**outcome.run, "options": {**outcome.run["options"], **options}})


def found(outcome: ringbco.Outcome, jobs: pl.DataFrame) -> set[str]:
    return {finding.code for finding in ringbco.audit(outcome, jobs)}


@pytest.mark.parametrize("placement", ["first-fit", "consolidate", "fa-ffp"])
def test_a_job_is_on_the_first_type_that_can_place_it(two: Cluster, placement: str) -> None:
    """Slow is listed first, Fast is 4 times as fast. An hour's work costs 1 on Slow and 8 / 4 on Fast."""
    jobs = table((2, 100.0, "Slow|Fast"))
    slow = replayed(jobs, two, type_order="listed", placement=placement)
    assert slow.jobs["finish_time"].to_list() == [100.0]
    assert found(claim(slow, type_order="cheapest"), jobs) == set()
    assert found(claim(slow, type_order="fastest"), jobs) == {"placement"}
    fast = replayed(jobs, two, type_order="fastest", placement=placement)
    assert fast.jobs["finish_time"].to_list() == [25.0]
    assert found(claim(fast, type_order="listed"), jobs) == {"placement"}
    assert found(claim(fast, type_order="cheapest"), jobs) == {"placement"}


def test_a_type_too_small_for_the_job_is_not_tried(two: Cluster) -> None:
    """Three GPUs fit on Slow alone, though Fast goes first."""
    jobs = table((3, 100.0, None))
    assert replayed(jobs, two).jobs["finish_time"].to_list() == [100.0]


def test_the_head_waits_for_its_own_types_alone(two: Cluster) -> None:
    """b waits for Slow until 100 s while 2 Fast GPUs are idle. Were it allowed on Fast, it need not."""
    jobs = table((4, 100.0, "Slow"), (2, 100.0, "Slow"))
    outcome = replayed(jobs, two)
    assert outcome.jobs["start_time"].to_list() == [0.0, 100.0]
    assert outcome.jobs["wait_gpus"].to_list() == [0.0, 100.0]
    free = jobs.with_columns(gpu_type=pl.Series(["Slow", None], dtype=pl.String))
    # All jobs that use Slow still may; only that b may also use Fast is new.
    assert {"idle", "causes"} <= found(outcome, free)
    skip = replayed(jobs, two, queue="skip")
    assert {"idle", "causes"} <= found(skip, free)


def test_why_a_job_waited_is_told_by_its_types(two: Cluster) -> None:
    jobs = table((4, 100.0, "Slow"), (2, 100.0, "Slow"))
    outcome = replayed(jobs, two)
    wait = pl.Series([0.0, 100.0], dtype=pl.Float32)
    none = pl.Series([0.0, 0.0], dtype=pl.Float32)
    other = outcome.jobs.with_columns(wait_gpus=none, wait_behind=wait)
    assert found(dataclasses.replace(outcome, jobs=other), jobs) == {"causes"}


def test_the_shadow_time_is_that_of_the_heads_types(two: Cluster) -> None:
    """a holds a Fast GPU for 100 s, 400 s by its estimate; b needs both Fast GPUs, so its shadow is 400 s.

    c is estimated at 500 s. On Fast it would keep b from starting at 400 s; on Slow it keeps nobody.
    """
    harmful = table((1, 400.0, "Fast"), (2, 40.0, "Fast"), (1, 500.0, "Fast"))
    skip = replayed(harmful, two, queue="skip")
    assert skip.jobs["start_time"].to_list() == [0.0, 125.0, 0.0]
    assert "reservation" in found(claim(skip, queue="easy"), harmful)
    easy = replayed(harmful, two, queue="easy")
    assert easy.jobs["start_time"].to_list() == [0.0, 100.0, 110.0]

    harmless = table((1, 400.0, "Fast"), (2, 40.0, "Fast"), (1, 500.0, "Slow"))
    easy = replayed(harmless, two, queue="easy")
    assert easy.jobs["start_time"].to_list() == [0.0, 100.0, 0.0]


def test_consolidate_knows_the_largest_server_of_each_type() -> None:
    """4 GPUs on Fast are two whole servers of 2 there, though Slow has servers of 4."""
    cluster = cluster_of(TWO + '[[servers]]\ncount = 2\ngpus = 2\ngpu_type = "Fast"\n')
    jobs = table((4, 100.0, None))
    outcome = replayed(jobs, cluster, placement="consolidate")
    held = outcome.allocations
    assert held is not None
    assert held.select("server", "num_gpus").rows() == [(1, 2), (2, 2)]
    spread = pl.concat([held, held[1:]]).with_columns(
        server=pl.Series([1, 2, 3], dtype=pl.UInt32), num_gpus=pl.Series([2, 1, 1], dtype=pl.UInt32)
    )
    more = outcome.jobs.with_columns(num_servers=pl.lit(3, outcome.jobs.schema["num_servers"]))
    wrong = dataclasses.replace(outcome, allocations=spread, jobs=more)
    assert "placement" in found(wrong, jobs)
    assert "capacity" not in found(wrong, jobs)
