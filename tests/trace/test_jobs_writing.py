"""Job tables that are written: what is replaced, what cannot be, what a failure leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ringbco.errors import InputError, UsageError
from ringbco.trace.jobs import from_frame, read_jobs, write_jobs
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
