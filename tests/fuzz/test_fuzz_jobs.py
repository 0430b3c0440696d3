"""Job tables of any kind: read, screened, given their profiles and replayed, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import explained, fuzzed
from fuzz.damage import damaged_bytes, damaged_table, damaged_text, parquet_bytes, written, written_parquet
from ringbco import replay
from ringbco.cluster.spec import Cluster
from ringbco.trace import profiles
from ringbco.trace.jobs import JobTable, read_jobs, screen_jobs

CLUSTER: Final = Cluster.parse("4x4")
TABLE: Final = pa.table(
    {
        "job_id": [f"j{row}" for row in range(6)],
        "submit_time": [0.0, 5.0, 5.0, 60.5, 61.0, 900.0],
        "num_gpus": pa.array([1, 2, 4, 8, 1, 3], pa.uint32()),
        "duration": [30.0, 5.5, 100.0, 60.0, 1.0, 7.0],
        "user": ["ann", "bob", None, "ann", "", "eve"],
        "vc": ["a", "a", "b", "b", None, "a"],
        "status": ["Pass", "Killed", "Failed", "Pass", "Pass", "Pass"],
        "model": ["GPT-2", None, "resnet-50", "", "else", "NCF"],
        "iterations": pa.array([None, 10, 20, None, 1, 5], pa.uint64()),
        "gradient_bytes": [None, 1e8, 0.0, 2e9, 1e6, 1e7],
        "batch_size": pa.array([None, 32, 1, 8, 8, 8], pa.uint32()),
        "fp_time": [None, 1e-3, 0.5, 1e-2, 0.25, 1.0],
        "bp_time": [None, 1e-3, 0.5, None, 0.25, 1.0],
        "deadline": [None, 100.0, 1e6, None, -5.0, 2e3],
        "note": ["x", "=cmd", "", None, "y", "z"],
    }
)
CSV: Final = "\n".join(
    [",".join(TABLE.column_names)]
    + [",".join("" if v is None else str(v) for v in row.values()) for row in TABLE.to_pylist()]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


def use(path: Path) -> None:
    """All that is done with a job table's file."""
    explained(lambda: screen_jobs(path))
    table = explained(lambda: read_jobs(path))
    if table is not None:
        follow(table)


def follow(table: JobTable) -> None:
    """Profiles, and a replay where it is small; both must explain themselves."""
    if explained(lambda: profiles.resolve(table, CLUSTER, model="rar", seed=0)) is None:
        return
    outcome = explained(lambda: replay(table, CLUSTER, policy="sjf-bco", oversize="drop"))
    if outcome is not None and outcome.jobs.height:
        assert np.isfinite(outcome.jobs["finish_time"].to_numpy()).all()


WHOLE: Final = [parquet_bytes(TABLE, compression) for compression in ("zstd", "none", "snappy")]


@fuzzed
@given(data=st.sampled_from(WHOLE).flatmap(damaged_bytes))
def test_bytes_of_parquet(folder: Path, data: bytes) -> None:
    use(written(folder / "bytes.parquet", data))


@fuzzed
@given(table=damaged_table(TABLE))
def test_columns_of_parquet(folder: Path, table: pa.Table) -> None:
    use(written_parquet(folder / "columns.parquet", table))


@fuzzed
@given(data=damaged_text(CSV))
def test_csv(folder: Path, data: bytes) -> None:
    use(written(folder / "table.csv", data))
