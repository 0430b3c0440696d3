"""`--sharing off`: nobody slows anybody."""

from __future__ import annotations

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import UsageError

# Two gangs on two servers each, which share the one between: with xi1 = 1, k is 2.
JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b"],
        "submit_time": [0.0, 0.0],
        "num_gpus": [3, 3],
        "duration": [10.0, 10.0],
        "iterations": pl.Series([10, 10], dtype=pl.UInt64),
        "gradient_bytes": [7.5e8, 7.5e8],
        "batch_size": pl.Series([1, 1], dtype=pl.UInt32),
        "fp_time": [0.5, 0.5],
        "bp_time": [0.0, 0.0],
    }
)
CLUSTER = ringbco.Cluster.from_groups(
    [ringbco.cluster.spec.ServerGroup(3, 2)],
    ringbco.Network(xi1=1.0, xi2=0.0, alpha=0.0, inter_bandwidth=1e9),
)


def replay(**options: str) -> ringbco.Outcome:
    return ringbco.replay(JOBS, CLUSTER, policy="ff", **options)


def test_nobody_slows_anybody() -> None:
    """x = 5e8 bytes: an iteration has 1 s on the link, 1 ms of sums and 0.5 s of work; k = 2: 1 s more."""
    shared, alone = replay(), replay(sharing="off")
    assert shared.jobs["max_contention"].to_list() == alone.jobs["max_contention"].to_list() == [2, 2]
    assert shared.jobs["finish_time"].to_list() == pytest.approx([25.01, 25.01])
    assert alone.jobs["finish_time"].to_list() == pytest.approx([15.01, 15.01])
    assert alone.jobs["run_contention"].to_list() == [0.0, 0.0]
    assert shared.jobs["run_contention"].to_list() == pytest.approx([10.0, 10.0])
    assert alone.timeline["mean_contention"].max() == 2.0
    assert ringbco.audit(alone, JOBS) == ringbco.audit(shared, JOBS) == []


def test_the_audit_tells_them_apart() -> None:
    alone = replay(sharing="off")
    alone.run["options"]["sharing"] = "count"
    assert ringbco.audit(alone, JOBS) != []


def test_a_word_that_is_none(invoke: Invoke) -> None:
    with pytest.raises(
        UsageError, match=r"option sharing: 'of': expected .* did you mean off\? Else one of count, off"
    ):
        replay(sharing="of")
