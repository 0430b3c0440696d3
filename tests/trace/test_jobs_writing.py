"""Job tables that are written: what is replaced, what cannot be, what a failure leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ringbco.errors import InputError, UsageError
from ringbco.trace.jobs import from_frame, provenance, read_jobs, write_jobs
from test_jobs import GOOD, write


def test_an_existing_file_is_replaced_only_when_forced(tmp_path: Path) -> None:
    path = write(tmp_path, "old", "out.parquet")
    table = from_frame(pl.DataFrame(GOOD))
    with pytest.raises(InputError, match="already exists"):
        write_jobs(table, path)
    with pytest.raises(InputError, match="is no job table of ringbco's"):
        write_jobs(table, path, force=True)
    assert path.read_text() == "old"
    path.unlink()
    write_jobs(table, path)
    write_jobs(table, path, force=True)
    assert read_jobs(path).num_jobs == 2
    assert os.listdir(tmp_path) == ["out.parquet"]


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    table = from_frame(pl.DataFrame(GOOD))
    with pytest.raises(UsageError, match=r"ending in \.parquet or \.csv"):
        write_jobs(table, tmp_path / "out.xlsx")
    with pytest.raises(InputError, match="folder does not exist"):
        write_jobs(table, tmp_path / "none" / "out.csv")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        write_jobs(table, tmp_path / "dir.csv", force=True)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="not a regular file"):
        write_jobs(table, tmp_path / "pipe.csv", force=True)


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_a_disk_that_fills_half_way_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    # A limit on file sizes makes the write fail as a full disk does; in a process of its own, for its sake.
    script = """
import resource, sys
import numpy as np, polars as pl
from ringbco.errors import InputError
from ringbco.trace.jobs import from_frame, write_jobs
n = 20_000
random = np.random.default_rng(1).random(n)
frame = pl.DataFrame({"job_id": [str(i) for i in range(n)], "submit_time": random, "duration": random})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_jobs(from_frame(frame.with_columns(num_gpus=pl.lit(1))), sys.argv[1], force=True)
except InputError as error:
    print(error)
"""
    path = tmp_path / name
    write_jobs(from_frame(pl.DataFrame(GOOD)), path)
    before = path.read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "cannot be written: File too large" in run.stdout
    assert run.stdout.count("\n") == 1
    assert run.stderr == ""
    assert os.listdir(tmp_path) == [name]
    assert path.read_bytes() == before


def test_parquet_round_trip_with_metadata(tmp_path: Path) -> None:
    metadata = provenance(
        "helios",
        converter="convert helios",
        rows_read=5,
        dropped={"num_gpus = 0": 2, "no end": 1},
        changed={"duration capped": 1},
        epoch="2020-09-01T00:00:00+00:00",
        options={"vc": "vcvGl"},
    )
    table = from_frame(pl.DataFrame(GOOD).with_columns(x=pl.lit(1)), metadata=metadata | {"other": "dropped"})
    path = tmp_path / "out.parquet"
    write_jobs(table, path)
    back = read_jobs(path)
    assert back.frame.equals(table.frame)
    assert back.metadata == metadata
    assert metadata["ringbco.rows_dropped"] == '{"num_gpus = 0": 2, "no end": 1}'
    assert back.source == str(path)


def test_csv_round_trip_is_exact(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "job_id": ["007", "a,b", 'q"', "l\nm"],
            "submit_time": [0.1, 1e15 + 0.3, 5.0, 1 / 3],
            "num_gpus": [1, 2, 3, 4_294_967_295],
            "duration": [1e-7, 123_456_789.123, 1.0, 5e15],
            "vc": ["6214e9", "", None, " x "],
        }
    )
    table = from_frame(frame)
    path = tmp_path / "out.csv"
    write_jobs(table, path)
    assert read_jobs(path).frame.equals(table.frame)


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    table = from_frame(pl.DataFrame(GOOD), metadata={"ringbco.b": "1", "ringbco.a": "2"})
    again = from_frame(
        pl.concat([pl.DataFrame(GOOD)[:1], pl.DataFrame(GOOD)[1:]], rechunk=False),
        metadata={"ringbco.a": "2", "ringbco.b": "1"},
    )
    write_jobs(table, tmp_path / "1.parquet")
    write_jobs(again, tmp_path / "2.parquet")
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()
