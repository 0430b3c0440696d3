"""The judge on queues that keep clear of maintenance (docs/operators.md#maintenance)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import ringbco
import ruled
from relabelled import told
from ringbco.trace.jobs import JobTable, from_frame

WINDOWS = pl.DataFrame(
    {"server": [0], "down_at": [100.0], "up_at": [150.0]}, schema_overrides={"server": pl.UInt32}
)


def jobs(*rows: tuple[str, float, int, float, int]) -> JobTable:
    frame = pl.DataFrame(
        rows, schema=["job_id", "submit_time", "num_gpus", "duration", "priority"], orient="row"
    )
    return from_frame(frame)


# a takes server 0 and ends at 60; b would still run there at 100, and takes server 1; c may follow a.
THREE = jobs(("a", 0, 4, 60, 0), ("b", 0, 4, 120, 0), ("c", 0, 4, 40, 0))
# d needs room of somebody, and would still run on server 0 at 100: it can only come in for b.
URGENT = jobs(("a", 0, 4, 90, 0), ("b", 0, 4, 500, 0), ("d", 50, 4, 60, 1))


def run(table: JobTable, **options: Any) -> ringbco.Outcome:
    return ringbco.replay(table, "2x4", policy="fifo", model="fixed", maintenance=WINDOWS, **options)


@pytest.mark.parametrize("queue", ["strict", "skip", "easy", "conservative"])
def test_who_keeps_clear_of_too_much_is_told(queue: str) -> None:
    outcome = run(THREE, queue=queue)
    assert outcome.jobs["start_time"].to_list() == [0.0, 0.0, 60.0]
    assert ruled.audit(outcome, THREE) == []
    # By twice the estimate a keeps clear of server 0, too.
    careful = run(THREE, queue=queue, estimate_factor=2.0)
    assert careful.jobs["start_time"].to_list() != [0.0, 0.0, 60.0]
    assert ruled.audit(careful, THREE) == []
    found = ruled.audit(told(careful, estimate_factor=1.0), THREE)
    assert {finding.code for finding in found} & {"idle", "placement", "order"}


def test_the_order_counts_beside_maintenance() -> None:
    by_length = run(THREE, order="sjf")
    assert ruled.audit(by_length, THREE) == []
    assert ruled.audit(told(by_length, order="fifo"), THREE) != []


def test_nobody_is_evicted_where_maintenance_is_near() -> None:
    outcome = run(URGENT, evict=True)
    assert outcome.jobs["evictions"].to_list() == [0, 1, 0]
    assert ruled.audit(outcome, URGENT) == []
    # By half of the estimate it could have come in for a, which has less to lose.
    found = ruled.audit(told(outcome, estimate_factor=0.5), URGENT)
    assert {finding.code for finding in found} & {"idle", "placement", "order", "evictions"}
