"""The judge on conservative backfilling (docs/operators.md#conservative-backfilling)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import ringbco
import ruled
from relabelled import QUOTA, codes, jobs, told
from ringbco.trace.jobs import JobTable, from_frame

# The example of the page: b is reserved GPUs 0 to 2 from 10 s on, c all four from 15 s on. At 3 s two GPUs
# are idle, but d would keep one until 33 s; e is done by 12 s, on GPU 3.
PAGE = jobs(("a", 0, 2, 10), ("b", 1, 3, 5), ("c", 2, 4, 10), ("d", 3, 1, 30), ("e", 4, 1, 8))
# At 5 s one GPU is idle, and b waits for three. Which of them are reserved hangs on where x was before.
WHICH = jobs(("x", 0, 1, 4), ("a", 0, 2, 20), ("b", 1, 3, 10), ("c", 2, 1, 50), ("d", 5, 1, 12))


def run(table: JobTable, cluster: str = "1x4", **options: Any) -> ringbco.Outcome:
    options = {"queue": "conservative"} | options
    return ringbco.replay(table, cluster, policy="fifo", model="fixed", **options)


def test_the_example_of_the_page_is_right() -> None:
    outcome = run(PAGE)
    assert outcome.jobs["start_time"].to_list() == [0.0, 10.0, 15.0, 25.0, 4.0]
    assert ruled.audit(outcome, PAGE) == []


def test_who_starts_in_the_way_of_a_reservation_is_found() -> None:
    # By easy b alone is kept room for, and d starts at 3 s.
    outcome = run(PAGE, queue="easy")
    assert outcome.jobs["start_time"].to_list()[3] == 3.0
    found = ruled.audit(told(outcome, queue="conservative"), PAGE)
    assert ("reservation", "d", 3.0) in {(finding.code, finding.job, finding.time) for finding in found}


def test_who_could_start_beside_all_reservations_is_found() -> None:
    # With one reservation nobody behind b starts.
    outcome = run(PAGE, reservations=1)
    assert outcome.jobs["start_time"].to_list()[4] > 4.0
    found = ruled.audit(told(outcome, reservations=100), PAGE)
    assert ("idle", "e", 4.0) in {(finding.code, finding.job, finding.time) for finding in found}


def test_which_gpu_a_job_holds_follows_from_the_starts() -> None:
    outcome = run(WHICH)
    assert ruled.audit(outcome, WHICH) == []
    for other in ("easy", "skip", "strict"):
        swapped = run(WHICH, queue=other)
        if swapped.jobs["start_time"].to_list() != outcome.jobs["start_time"].to_list():
            assert codes(told(swapped, queue="conservative"), WHICH) & {"idle", "reservation", "placement"}


@pytest.mark.parametrize("placement", ["consolidate", "fa-ffp", "least-loaded", "lbsgf", "fgd", "random"])
def test_reservations_count_under_every_placement(placement: str) -> None:
    table = jobs(*((f"j{n}", n // 3, 1 + n * 7 % 5, 4 + n * 11 % 17) for n in range(40)))
    outcome = run(table, "3x4", placement=placement, seed=1)
    assert ruled.audit(outcome, table) == []
    assert codes(told(outcome, estimate_factor=3.0), table) & {"idle", "reservation", "placement"}


def test_quotas_and_evictions_count_beside_reservations() -> None:
    rows = [
        (f"j{n}", float(n // 3), 1 + n * 7 % 5, float(4 + n * 11 % 17), "ab"[n % 2], n % 3 == 0)
        for n in range(40)
    ]
    frame = pl.DataFrame(
        rows, schema=["job_id", "submit_time", "num_gpus", "duration", "user", "priority"], orient="row"
    ).with_columns(pl.col("priority").cast(pl.Int64))
    table = from_frame(frame)
    outcome = run(table, "3x4", quota=QUOTA, evict=True)
    assert outcome.jobs["evictions"].sum() > 0
    assert ruled.audit(outcome, table) == []
    assert codes(told(outcome, estimate_factor=3.0), table) & {"idle", "reservation", "placement"}
