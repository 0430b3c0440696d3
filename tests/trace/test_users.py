"""Who submitted each job, by number."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from ringbco.result.figures import of_jobs
from ringbco.run.options import checked
from ringbco.trace.jobs import from_frame, read_jobs, write_jobs
from ringbco.trace.users import ranks
from ringbco.trace.workload import resolve

NAMES = st.lists(st.one_of(st.none(), st.sampled_from(["ann", "Ann", "bob", "", "zoë", "bo"])), max_size=12)


@given(NAMES, st.integers(1, 5))
def test_a_number_is_the_rank_among_the_names(names: list[str | None], block: int) -> None:
    known = sorted({name for name in names if name is not None})
    expected = [-1 if name is None else known.index(name) for name in names]
    assert ranks(pl.Series(names, dtype=pl.String), block).tolist() == expected


@pytest.mark.parametrize("most", [2, 1000])
def test_they_and_the_digest_may_be_worked_out_beside_the_engine(
    most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ringbco.trace.workload._MANY", most)
    path = tmp_path / "jobs.parquet"
    write_jobs(ringbco.generate("philly", 40, 3, gpus=32, load=0.9), path)
    table = read_jobs(path)
    workload = resolve(table, ringbco.Cluster.parse("4x8"), checked({}))
    workload.begin()
    assert workload.users is not None
    assert workload.users.numbers.tolist() == ranks(table.frame["user"]).tolist()
    assert table.identity["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


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
