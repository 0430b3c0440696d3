"""Tables of measured speeds of any kind: read, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from fuzz import explained, fuzzed
from fuzz.damage import damaged_bytes, damaged_table, damaged_text, written, written_parquet
from ringbco import replay
from ringbco.trace.rate_table import RateTable

TABLE: Final = pl.DataFrame(
    {
        "model": ["LM", "LM", "LM", "A3C", "A3C"],
        "gpu_type": ["V100", "V100", "V100", "V100", "T4"],
        "gpus": [1, 2, 1, 1, 1],
        "servers": [1, 2, 1, 1, 1],
        "rate": [10.0, 15.0, 6.0, 4.0, 1.5],
        "partner": [None, None, "A3C", None, None],
        "partner_rate": [None, None, 2.0, None, None],
    }
)
JOBS: Final = pl.DataFrame(
    {
        "job_id": ["a", "b", "c"],
        "submit_time": [0.0, 1.0, 2.0],
        "num_gpus": [1, 2, 1],
        "duration": [10.0, 20.0, 30.0],
        "iterations": [100, 300, 100],
        "model": ["LM", "LM", "A3C"],
        "gpu_type": ["V100", "V100", "V100|T4"],
    }
)
CLUSTER: Final = """[[servers]]
count = 2
gpus = 1
gpu_type = "V100"
[[servers]]
gpus = 1
gpu_type = "T4"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables")
    (made / "c.toml").write_text(CLUSTER)
    TABLE.write_csv(made / "sound.csv")
    outcome = replay(JOBS, made / "c.toml", policy="fifo", model="table", tables=made / "sound.csv")
    assert outcome.jobs.height == 3
    return made


def use(folder: Path, path: Path) -> None:
    """All that is done with such a file: it is read, and jobs run by it."""
    table = explained(lambda: RateTable.read(path))
    if table is not None:
        explained(lambda: replay(JOBS, folder / "c.toml", policy="fifo", model="table", tables=path))


@fuzzed
@given(data=damaged_text(TABLE.write_csv()))
def test_csv(folder: Path, data: bytes) -> None:
    use(folder, written(folder / "speeds.csv", data))


@fuzzed
@given(data=damaged_bytes(TABLE.write_csv().encode()))
def test_bytes(folder: Path, data: bytes) -> None:
    use(folder, written(folder / "bytes.csv", data))


@fuzzed
@given(table=damaged_table(TABLE.to_arrow()))
def test_columns_of_parquet(folder: Path, table: pa.Table) -> None:
    use(folder, written_parquet(folder / "speeds.parquet", table))
