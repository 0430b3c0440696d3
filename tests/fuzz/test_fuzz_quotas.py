"""Files of quotas and fair shares, and columns of priorities: read and replayed, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from fuzz import explained, fuzzed
from fuzz.damage import damaged_bytes, damaged_table, damaged_text, written, written_parquet
from ringbco import replay
from ringbco.trace.fair_shares import FairShares
from ringbco.trace.jobs import JobTable, from_frame, read_jobs
from ringbco.trace.priorities import preemptible, priorities
from ringbco.trace.quotas import Quotas
from ringbco.trace.side_table import ReadContext

JOBS: Final = pl.DataFrame(
    {
        "job_id": [f"j{row}" for row in range(6)],
        "submit_time": [0.0, 0.0, 5.0, 9.5, 9.5, 40.0],
        "num_gpus": pl.Series([4, 4, 8, 2, 3, 8], dtype=pl.UInt32),
        "duration": [30.0, 45.5, 10.0, 60.0, 7.0, 5.0],
        "user": ["ann", "ann", "bob", "a, b", None, "bob"],
        "account": pl.Series([7, 7, 8, 7, 8, None], dtype=pl.Int64),
        "priority": pl.Series([0, 0, 3, None, -(2**31), 2**31 - 1], dtype=pl.Int32),
        "preemptible": [True, None, False, True, False, True],
    }
)
QUOTAS: Final = pl.DataFrame(
    {
        "user": ["ann", "bob", "a, b"],
        "gpus": pl.Series([4, 8, 2], dtype=pl.UInt64),
        "borrow": [True, False, False],
    }
)
TREE: Final = pl.DataFrame(
    {"account": [7, 7, 7, 8], "user": [None, "ann", "a, b", "bob"], "share": [2.0, 0.0, None, 1.5]}
)
SHARES: Final = pl.DataFrame({"user": ["ann", "bob", "a, b"], "share": [1.0, 0.0, 2.5]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("quotas")
    QUOTAS.write_csv(made / "sound.csv")
    JOBS.write_csv(made / "jobs.csv")
    assert Quotas.read(made / "sound.csv", ReadContext(JOBS)).column == "user"
    assert runs(read_jobs(made / "jobs.csv"), made / "sound.csv") > 0
    return made


def runs(table: JobTable, quota: Path | None) -> int:
    """A replay with eviction that explains itself, and ends; its evictions."""
    if (table.frame["duration"] < 1e-9).any():
        return 0  # run times by which no slowdown can be divided
    given = {
        "policy": "fifo",
        "model": "fixed",
        "evict": True,
        "oversize": "drop",
        "quota": quota,
        "sample": 10.0,
    }
    outcome = explained(lambda: replay(table, "2x4", queue="skip", **given))  # type: ignore[arg-type]
    if outcome is None or not outcome.jobs.height:
        return 0
    assert np.isfinite(outcome.jobs["finish_time"].to_numpy()).all()
    return int(outcome.jobs["evictions"].sum())


def use(path: Path) -> None:
    """What is read is what the engine relies on."""
    message = explained(lambda: Quotas.read(path, ReadContext(JOBS)))
    if message is None:
        return
    ((owner, gpus, borrow),) = message.engine_columns(JOBS)
    assert len(gpus) == len(borrow) == message.frame.height
    assert ((owner < len(gpus)) | (owner == 2**32 - 1)).all()
    assert set(range(len(gpus))) <= set(owner.tolist())
    assert all(0 <= most <= 2**53 for most in gpus)
    assert all(isinstance(each, bool) for each in borrow)
    again = path.with_name("again.parquet")
    message.frame.write_parquet(again)
    assert Quotas.read(again, ReadContext(JOBS)).frame.equals(message.frame)
    runs(from_frame(JOBS), path)


def share(path: Path) -> None:
    """Shares that are read divide what owners have used, and a run by them ends."""
    message = explained(lambda: FairShares.read(path, ReadContext(JOBS)))
    if message is None:
        return
    assert all(0.0 <= each < float("inf") for each in message.shares().values())
    outcome = replay(JOBS, "2x4", policy="fifo", order="fairshare", fair_shares=path, model="fixed")
    assert np.isfinite(outcome.jobs["finish_time"].to_numpy()).all()


def stand(path: Path) -> None:
    """What is read of the two columns is of the engine's types, and nothing else is lost over it."""
    table = explained(lambda: read_jobs(path))
    if table is None:
        return
    levels, able = priorities(table.frame), preemptible(table.frame)
    assert levels is None or (levels.dtype == np.int32 and levels.size == table.num_jobs)
    assert able is None or (able.dtype == np.bool_ and not able.all())
    runs(table, None)


@fuzzed
@given(data=damaged_text(QUOTAS.write_csv()))
def test_csv(folder: Path, data: bytes) -> None:
    use(written(folder / "quotas.csv", data))


@fuzzed
@given(data=damaged_bytes(QUOTAS.write_csv().encode()))
def test_bytes(folder: Path, data: bytes) -> None:
    use(written(folder / "bytes.csv", data))


@fuzzed
@given(table=damaged_table(QUOTAS.to_arrow()))
def test_columns_of_parquet(folder: Path, table: pa.Table) -> None:
    use(written_parquet(folder / "quotas.parquet", table))


@fuzzed
@given(data=damaged_text(SHARES.write_csv()))
def test_shares_of_csv(folder: Path, data: bytes) -> None:
    share(written(folder / "shares.csv", data))


@fuzzed
@given(table=damaged_table(SHARES.to_arrow()))
def test_shares_of_parquet(folder: Path, table: pa.Table) -> None:
    share(written_parquet(folder / "shares.parquet", table))


@fuzzed
@given(data=damaged_text(TREE.write_csv()))
def test_a_tree_of_csv(folder: Path, data: bytes) -> None:
    share(written(folder / "tree.csv", data))


@fuzzed
@given(table=damaged_table(TREE.to_arrow()))
def test_a_tree_of_parquet(folder: Path, table: pa.Table) -> None:
    share(written_parquet(folder / "tree.parquet", table))


@fuzzed
@given(data=damaged_text(JOBS.write_csv()))
def test_priorities_of_csv(folder: Path, data: bytes) -> None:
    stand(written(folder / "damaged.csv", data))


@fuzzed
@given(table=damaged_table(JOBS.to_arrow()))
def test_priorities_of_parquet(folder: Path, table: pa.Table) -> None:
    stand(written_parquet(folder / "damaged.parquet", table))
