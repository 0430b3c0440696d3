"""Damaged results: one line that names file, row, column and value, before anything is drawn."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from frames import busy_jobs
from ringbco import replay
from ringbco.errors import InputError
from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_drawable, check_tables
from ringbco.run.loaded import read_result
from test_report import million

Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """A good result, whose allocations begin with job j0."""
    return replay(busy_jobs(), "4x4", policy="rand", seed=3)


def put(column: str, value: Any, row: int = 0) -> Change:
    """The table with one other value."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        there = pl.int_range(pl.len()) == row
        other = pl.lit(value, dtype=frame.schema[column])
        return frame.with_columns(pl.when(there).then(other).otherwise(column).alias(column))

    return change


def cast(column: str, dtype: Any) -> Change:
    return lambda frame: frame.with_columns(pl.col(column).cast(dtype, strict=False))


def text(column: str) -> Change:
    return lambda frame: frame.with_columns(pl.col(column).cast(pl.String))


NO_ROWS: Change = pl.DataFrame.clear

# file, what is done to it, what the line says of it
DAMAGED_TABLES: list[tuple[str, Change, str]] = [
    ("jobs", NO_ROWS, "holds no job"),
    ("jobs", put("finish_time", math.nan), "row 1, column finish_time: NaN: expected a finite number, "),
    ("jobs", put("finish_time", math.nan, 7), "row 8, column finish_time: NaN: .* of job j7;"),
    ("jobs", put("jct", math.inf), "row 1, column jct: inf: expected a finite number, in this row of job j0"),
    ("jobs", put("slowdown", 1e200), r"column slowdown: .*: expected a number of at most 1e\+150"),
    ("jobs", put("wait_time", None), "row 1, column wait_time: null: expected a finite number"),
    ("jobs", put("num_gpus", 0), "row 1, column num_gpus: 0: expected 1 GPU or more"),
    ("jobs", put("job_id", None), "row 1, column job_id: null: expected a text"),
    ("jobs", put("job_id", "j0", 4), "row 5, column job_id: j0: expected each job once"),
    ("jobs", put("wait_gpus", math.nan), "row 1, column wait_gpus: NaN: expected a finite number"),
    ("jobs", put("run_spread", None), "row 1, column run_spread: null: expected a finite number"),
    ("jobs", text("wait_behind"), "column wait_behind: String: expected numbers"),
    ("jobs", cast("wait_gpus", pl.Decimal(38, 3)), r"column wait_gpus: .*: expected numbers"),
    ("jobs", put("run_contention", math.inf), "row 1, column run_contention: inf: expected a finite"),
    ("jobs", cast("user", pl.Int64), "column user: Int64: expected texts"),
    ("allocations", NO_ROWS, "holds no stay"),
    ("allocations", put("server", 99), "row 1, column server: 99: expected 0 to 3, .* of job j0;"),
    ("allocations", put("start_time", None), "row 1, column start_time: null: expected a finite number"),
    ("allocations", put("end_time", math.inf), "row 1, column end_time: inf: expected a finite number"),
    ("allocations", put("end_time", 1e304), r"row 1, column end_time: .*: expected a number of at most"),
    ("allocations", put("end_time", -1.0), "row 1, column end_time: -1: expected no time before start_time"),
    ("allocations", put("num_gpus", 0), "row 1, column num_gpus: 0: expected 1 GPU or more"),
    ("allocations", put("job_id", "who", 2), "row 3, column job_id: who: expected a job of jobs.parquet"),
    ("allocations", put("job_id", None, 2), "row 3, column job_id: null: expected a text"),
    ("timeline", NO_ROWS, "holds no sample"),
    ("timeline", put("time", 1e9), "row 2, column time: .*: expected no time before the row above"),
    ("timeline", put("mean_contention", math.nan), "row 1, column mean_contention: NaN: expected a finite"),
    ("timeline", put("queued_gpus", None), "row 1, column queued_gpus: null: expected a finite number"),
]


def refusals(invoke: Invoke) -> list[str]:
    """What both commands say of the result r, which is one line, and the same."""
    lines = []
    for verb, out in (("report", "out.html"), ("timeline", "out.json")):
        run = invoke(verb, "r", "-o", out)
        assert run.returncode == 1, (verb, run.stdout)
        assert run.stderr.count("\n") == 1
        assert "unexpected" not in run.stderr
        assert not Path(out).exists()
        lines.append(run.stderr)
    assert lines[0] == lines[1]
    return lines


@pytest.mark.parametrize(("name", "change", "says"), DAMAGED_TABLES)
def test_a_damaged_table(
    outcome: Outcome, tmp_path: Path, invoke: Invoke, name: str, change: Change, says: str
) -> None:
    outcome.write(tmp_path / "r")
    file = tmp_path / "r" / f"{name}.parquet"
    change(pl.read_parquet(file)).write_parquet(file)
    line, _ = refusals(invoke)
    assert line.startswith(f"error: r/{name}.parquet: ")
    assert "run `ringbco audit r`" in line
    assert re.search(says, line), line


@pytest.mark.parametrize(
    ("summary", "says"),
    [
        ({}, "policy: expected a policy's name; there is none"),
        ([], "expected an object"),
        (None, "expected an object"),
        ({"policy": 3}, "policy: 3: expected a policy's name"),
        ({"policy": "rand", "jobs": 5}, "jobs: 5: expected 60, the rows of jobs.parquet"),
        ({"policy": "rand", "jobs": 60}, "makespan: expected a finite number; there is none"),
        ({"mean_jct": "long"}, "mean_jct: long: expected a finite number"),
        ({"p99_wait": math.nan}, "p99_wait: NaN: expected a finite number"),
        ({"utilisation": math.inf}, "utilisation: inf: expected a finite number"),
        ({"mean_jct": -5}, "mean_jct: -5: expected 0 or more"),
        ({"utilisation": True}, "utilisation: True: expected a finite number"),
        ({"makespan": 10**400}, "makespan: 10+\\.\\.\\.: expected a finite number"),
        ({"jain_index_users": None}, "jain_index_users: null: expected a finite number"),
        ({"jobs_refused": "two"}, "jobs_refused: two: expected a finite number"),
        ({"gpu_types": 3}, "gpu_types: 3: expected GPU types, each with its figures"),
        ({"gpu_types": [{"gpu_type": "T4"}]}, "gpu_types: .*: expected GPU types, each with its figures"),
    ],
)
def test_a_damaged_summary(outcome: Outcome, tmp_path: Path, invoke: Invoke, summary: Any, says: str) -> None:
    written = outcome.write(tmp_path / "r")
    if isinstance(summary, dict) and summary and "policy" not in summary:
        summary = written | summary
    with pytest.raises(InputError, match=says) as raised:
        check_drawable(dataclasses.replace(outcome, summary=summary), Path("r"))
    assert str(raised.value).startswith("r/summary.json: ")
    assert "run `ringbco audit r`" in str(raised.value)
    (tmp_path / "r" / "summary.json").write_text(json.dumps(summary))
    line, _ = refusals(invoke)
    assert line.startswith("error: r/summary.json: ")


@pytest.mark.parametrize(
    ("found", "replaced", "says"),
    [
        (r"\nservers = ", "\nmachines = ", "cluster.servers: .*there is none"),
        (
            r'clock = "continuous"\nslot = 1.0',
            'clock = "slot"\nslot = 0',
            "options.slot: 0: expected a number of seconds",
        ),
        (r'clock = "continuous"\nslot = 1.0', 'clock = "slot"', "options.slot: .*there is none"),
        ("count = 4", "count = 0", "cluster.servers: .*count and gpus"),
        ("gpus = 4", 'gpus = "4"', "cluster.servers: .*count and gpus"),
        ("count = 4", "count = 400000000000", "cluster.servers: expected at most"),
        ("alpha = .*", 'alpha = "steep"', "cluster.network.alpha: steep: expected a finite number"),
        ("seed = .*", "seed = nan", "options.seed: NaN: expected a finite number"),
        (r"\nrows = .*", '\nrows = "many"', "trace.rows: many: expected a number of rows"),
        (r"\nversion = .*", "\nversion = 1", "ringbco.version: 1: expected a text"),
    ],
)
def test_a_damaged_run(
    outcome: Outcome, tmp_path: Path, invoke: Invoke, found: str, replaced: str, says: str
) -> None:
    outcome.write(tmp_path / "r")
    file = tmp_path / "r" / "run.toml"
    text, times = re.subn(found, replaced, file.read_text(encoding="utf-8"), count=1)
    assert times == 1
    file.write_text(text, encoding="utf-8")
    line, _ = refusals(invoke)
    assert line.startswith("error: r/run.toml: ")
    assert "run `ringbco audit r`" in line
    assert re.search(says, line), line


def test_charts_in_memory_are_checked_too(outcome: Outcome) -> None:
    broken = dataclasses.replace(outcome, jobs=put("jct", math.nan)(outcome.jobs))
    with pytest.raises(InputError, match=r"^jobs.parquet: row 1, column jct: NaN: expected a finite number"):
        broken.plot.jct()
    # A frame of one's own needs neither a summary nor a cluster.
    assert dataclasses.replace(outcome, summary={}, run={}).plot.jct() is not None


@pytest.mark.parametrize("policy", ["fifo", "time-slice", "edf"])
def test_good_results_pass(policy: str, tmp_path: Path) -> None:
    jobs = busy_jobs().with_columns(vc=pl.lit(None, pl.String), deadline=pl.col("submit_time") + 900)
    for name, allocations in (("with", True), ("without", False)):
        replay(jobs, "4x4", policy=policy, allocations=allocations).write(tmp_path / name)
        assert read_result(tmp_path / name).jobs.height == 60


@pytest.mark.long
def test_a_million_jobs_are_checked_in_a_moment() -> None:
    large = million()
    started = time.process_time()
    check_tables(large)
    check_drawable(large, Path("r"))
    assert time.process_time() - started < 5  # some 0.5 s
