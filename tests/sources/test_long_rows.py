"""Rows that no trace has: refused by file and row, before a reader copies them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Invoke
from ringbco.io.csvtext import LONGEST_ROW

HELIOS = "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc\n"
JOB = "{0},u,1,1,1,COMPLETED,2020-05-01 00:00:0{0},2020-05-01 00:00:1{0},2020-05-01 00:00:2{0},10,0,{1}\n"
OURS = "job_id,submit_time,num_gpus,duration,note\n1,0,1,10,a\n2,0,1,10,{}\n3,0,1,10,c\n"
_JOB = '{{"status": "Pass", "vc": "v", "jobid": "a", "attempts": [], "submitted_time": "None", "user": "%s"}}'
JSON = f"[{_JOB % 'u'}, {_JOB % '{}'}]"
LONG = LONGEST_ROW + 1
CELLS: dict[str, Callable[[], str]] = {
    "one line": lambda: "x" * LONG,
    "lines": lambda: '"' + "x\n" * (LONG // 2) + '"',
    "marks": lambda: '"' + 'x""\n' * (LONG // 4) + '"',
}


def write(folder: Path, name: str, text: str) -> str:
    data = text.encode()
    (folder / name).write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
    return name


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_row_of_a_job_table_that_is_too_long(invoke: Invoke, tmp_path: Path, name: str, cell: str) -> None:
    run = invoke("inspect", write(tmp_path, name, OURS.format(CELLS[cell]())))
    assert run.returncode == 1
    assert run.stderr == (
        f"error: {name}: row 2 (line 3): expected a row of at most 16 MiB;"
        " mend it: a quotation mark or a line end may be missing\n"
    )


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_row_of_a_trace_that_is_too_long(invoke: Invoke, tmp_path: Path, name: str, cell: str) -> None:
    text = HELIOS + JOB.format(1, "vc1") + JOB.format(2, CELLS[cell]())
    run = invoke("convert", "helios", write(tmp_path, name, text), "-o", "y.parquet")
    assert run.returncode == 1
    assert run.stderr.startswith(f"error: {name}: row 2 (line 3): expected a row of at most")
    assert not (tmp_path / "y.parquet").exists()


def test_a_job_in_json_that_is_too_long(invoke: Invoke, tmp_path: Path) -> None:
    """An array may be one line: what counts is one job of it."""
    run = invoke("convert", "philly", write(tmp_path, "t.json", JSON.format("x" * LONG)), "-o", "y.parquet")
    assert run.returncode == 1
    assert run.stderr.startswith("error: t.json: row 2: expected a row of at most 16 MiB")


def test_rows_as_long_as_they_may_be(invoke: Invoke, tmp_path: Path) -> None:
    short = LONGEST_ROW - len("2,0,1,10,\n")
    run = invoke("inspect", write(tmp_path, "t.csv.gz", OURS.format("x" * short)), "--json")
    assert run.returncode == 0, run.stderr
    text = HELIOS + JOB.format(1, "vc1") + JOB.format(2, "x" * (LONGEST_ROW - len(JOB.format(2, ""))))
    run = invoke("convert", "helios", write(tmp_path, "h.csv", text), "-o", "y.parquet")
    assert run.returncode == 0, run.stderr
