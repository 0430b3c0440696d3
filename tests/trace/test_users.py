"""Who submitted each job, by number."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from ringbco.result.figures import of_jobs
from ringbco.run.options import checked
from ringbco.trace import users
from ringbco.trace.jobs import from_frame
from ringbco.trace.users import Users, ranks
from ringbco.trace.workload import resolve

NAMES = st.lists(st.one_of(st.none(), st.sampled_from(["ann", "Ann", "bob", "", "zoë", "bo"])), max_size=12)


@given(NAMES, st.integers(1, 5))
def test_a_number_is_the_rank_among_the_names(names: list[str | None], block: int) -> None:
    known = sorted({name for name in names if name is not None})
    expected = [-1 if name is None else known.index(name) for name in names]
    assert ranks(pl.Series(names, dtype=pl.String), block).tolist() == expected


def test_they_may_be_worked_out_beside_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "_MANY", 2)
    found = Users(pl.Series(["b", None, "a", "b"]))
    found.begin()
    assert found.numbers.tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize("oversize", [0, 40])
def test_runs_of_one_workload_share_them(oversize: int) -> None:
    """Figures of users are those that the jobs of the result tell, also where jobs were left out."""
    frame = ringbco.generate("philly", 300, 3, gpus=32, load=0.9).frame
    wide = pl.when(pl.int_range(pl.len()) < oversize).then(64).otherwise("num_gpus")
    table = from_frame(frame.with_columns(num_gpus=wide.cast(pl.UInt32)))
    options: dict[str, Any] = {"policy": "fifo", "oversize": "drop"}
    workload = resolve(table, ringbco.Cluster.parse("4x8"), checked(options))
    for _ in range(2):
        outcome = ringbco.replay(table, workload.cluster, workload=workload, **options)
        assert outcome.jobs.height == 300 - oversize
        assert outcome.summary["jain_index_users"] == of_jobs(outcome.jobs)["jain_index_users"]
