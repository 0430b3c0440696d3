"""The job table: what is read, what is refused and in which words, what is written."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ringbco.errors import InputError, RingbcoError, UsageError
from ringbco.jobs import COLUMNS, from_frame, near_name, provenance, read_jobs, write_jobs

HEADER = "job_id,submit_time,num_gpus,duration"
GOOD = {"job_id": ["a", "b"], "submit_time": [0.0, 5.0], "num_gpus": [1, 8], "duration": [10.0, 2.5]}


def write(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_jobs(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    assert caught.value.exit_code == 1
    return caught.value


# -- reading ---


def test_csv_and_parquet_give_the_same_table(tmp_path: Path) -> None:
    csv = read_jobs(write(tmp_path, f"{HEADER}\na,0,1,10\nb,5,8,2.5\n"))
    parquet = tmp_path / "jobs.parquet"
    pl.DataFrame(GOOD).write_parquet(parquet)
    assert csv.frame.equals(read_jobs(parquet).frame)
    assert csv.frame.schema == {name: COLUMNS[name].dtype for name in GOOD}
    assert csv.num_jobs == 2


def test_numeric_columns_are_handed_over_without_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    pl.concat([pl.DataFrame(GOOD), pl.DataFrame(GOOD | {"job_id": ["c", "d"]})], rechunk=False).write_parquet(
        path
    )
    frame = read_jobs(path).frame
    for name, dtype in (("submit_time", "f8"), ("num_gpus", "u4"), ("duration", "f8")):
        assert frame[name].to_numpy(allow_copy=False).dtype == np.dtype(dtype)


def test_text_stays_as_written_in_csv(tmp_path: Path) -> None:
    table = read_jobs(
        write(
            tmp_path,
            "vc,job_id,submit_time,num_gpus,duration,user,model,extra\n"
            '6214e9,007,0,1,5,1e3,"a, ""b""",08\n11cb48,7,0, 2 ,5,,,\n',
        )
    )
    assert table.frame["job_id"].to_list() == ["007", "7"]
    assert table.frame["vc"].to_list() == ["6214e9", "11cb48"]
    assert table.frame["user"].to_list() == ["1e3", None]
    assert table.frame["model"].to_list() == ['a, "b"', None]
    assert table.frame["extra"].to_list() == ["08", None]
    assert table.frame["num_gpus"].to_list() == [1, 2]


def test_integral_floats_are_accepted_as_counts(tmp_path: Path) -> None:
    csv = read_jobs(write(tmp_path, f"{HEADER},iterations\na,0,8.0,5,1e3\nb,0,2,5,\n"))
    assert csv.frame["num_gpus"].to_list() == [8, 2]
    assert csv.frame["iterations"].to_list() == [1000, None]
    parquet = from_frame(pl.DataFrame(GOOD).with_columns(pl.col("num_gpus").cast(pl.Float64)))
    assert parquet.frame.schema["num_gpus"] == pl.UInt32


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8, pl.Int32, pl.UInt64, pl.Float32])
def test_any_numeric_dtype_is_cast(dtype: type[pl.DataType]) -> None:
    columns = [pl.col(name).cast(dtype) for name in ("submit_time", "num_gpus", "duration")]
    table = from_frame(pl.DataFrame(GOOD).with_columns(columns, iterations=pl.Series([1, 2], dtype=dtype)))
    assert table.frame["num_gpus"].to_list() == [1, 8]
    assert table.frame["iterations"].to_list() == [1, 2]


def test_integer_and_categorical_ids_become_text() -> None:
    frame = pl.DataFrame(GOOD).with_columns(
        job_id=pl.Series([7, 9]), vc=pl.Series(["x", "y"], dtype=pl.Categorical)
    )
    table = from_frame(frame)
    assert table.frame["job_id"].to_list() == ["7", "9"]
    assert table.frame["vc"].to_list() == ["x", "y"]


def test_unsorted_rows_keep_their_order(tmp_path: Path) -> None:
    table = read_jobs(write(tmp_path, f"{HEADER}\nb,5,1,1\na,0,1,1\n"))
    assert table.frame["job_id"].to_list() == ["b", "a"]
    assert not table.is_sorted
    assert read_jobs(write(tmp_path, f"{HEADER}\nb,0,1,1\na,0,1,1\n")).is_sorted


def test_windows_line_ends_byte_order_mark_gzip_and_trailing_blank_lines(tmp_path: Path) -> None:
    plain = read_jobs(write(tmp_path, f"{HEADER}\na,0,1,10\n"))
    text = f"\ufeff{HEADER}\r\na,0,1,10\r\n\r\n"
    assert read_jobs(write(tmp_path, text)).frame.equals(plain.frame)
    packed = tmp_path / "jobs.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_jobs(packed).frame.equals(plain.frame)


def test_extra_columns_of_any_dtype_are_untouched() -> None:
    extra = pl.Series("tags", [["x"], []], dtype=pl.List(pl.String))
    table = from_frame(pl.DataFrame(GOOD).with_columns(extra))
    assert table.frame["tags"].equals(extra)


def test_absent_optional_values_stay_null() -> None:
    frame = pl.DataFrame(GOOD).with_columns(
        gradient_bytes=pl.lit(None), fp_time=pl.Series([None, 0.5]), user=pl.lit(None)
    )
    table = from_frame(frame)
    assert table.frame["gradient_bytes"].to_list() == [None, None]
    assert table.frame.schema["gradient_bytes"] == pl.Float64
    assert table.frame.schema["user"] == pl.String
    assert table.frame["fp_time"].to_list() == [None, 0.5]


def test_the_public_traces_are_read(shared_traces: Path) -> None:
    lines = page[: page.index("## What reading does")].splitlines()
    rows = {row.split("|")[1].strip(): row.split("|")[2:4] for row in lines if row.startswith("| ")}
    for name, column in COLUMNS.items():
        kind, required = (cell.strip() for cell in rows[name])
        assert kind.split(",")[0] == column.dtype.__name__.lower()
        assert required == ("yes" if column.required else "")
