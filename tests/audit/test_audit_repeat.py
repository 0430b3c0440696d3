"""The seal and the repeat: what was edited since the run, and what another policy decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from frames import busy_jobs
from ringbco.audits import NOT_MADE, RULES, check_folder
from ringbco.audits.findings import Check, Report
from ringbco.io.manifest import write_manifest
from ringbco.result.folder import RESULT, WALL_TIME
from ringbco.result.tables import TABLES
from ringbco.run.again import compare_results

OWN = """\
from ringbco import KeyPolicy


class Longest(KeyPolicy):
    clairvoyant = True

    def key(self, state, rows):
        return -state.duration[rows]
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.parquet"
    ringbco.write_jobs(ringbco.from_frame(busy_jobs(60)), path)
    return path


@pytest.fixture
def result(jobs: Path, tmp_path: Path) -> Path:
    ringbco.replay(jobs, "4x4", policy="srtf").write(tmp_path / "r")
    return tmp_path / "r"


def seal_anew(folder: Path) -> None:
    (folder / "ringbco.json").unlink()
    write_manifest(folder, RESULT)


def check(report: Report, code: str) -> Check:
    return next(check for check in report.checks if check.code == code)


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def test_a_genuine_result_is_sealed_and_comes_out_again(invoke: Invoke, result: Path) -> None:
    done = invoke("audit", result)
    assert (done.returncode, done.stderr) == (0, "")
    assert NOT_MADE not in done.stdout
    report = check_folder(result, repeat=True)
    files = 1 + sum((result / table.file).exists() for table in TABLES.values())
    assert (check(report, "seal").looked_at, check(report, "repeat").looked_at) == (files, files)
    assert [check.code for check in report.checks] == list(RULES)


@pytest.mark.parametrize("table", ["jobs", "allocations", "timeline", "stays"])
def test_an_edited_cell_is_found_by_the_seal_and_named_by_the_repeat(result: Path, table: str) -> None:
    path = result / f"{table}.parquet"
    frame = pl.read_parquet(path)
    name = frame.columns[-1]
    cells = frame[name].to_list()
    cells[3] = {pl.String: "x", pl.Boolean: True}.get(type(frame[name].dtype), 77)
    frame.with_columns(pl.Series(name, cells, frame[name].dtype, strict=False)).write_parquet(path)
    report = check_folder(result, repeat=True)
    (seal,) = check(report, "seal").findings
    assert seal.message.startswith(f"{table}.parquet has changed since the run: its SHA-256 begins with ")
    (repeat,) = check(report, "repeat").findings
    assert f"{table}.parquet: 1 of {frame.height:,} rows differ; row 4, column {name}: was " in repeat.message
    seal_anew(result)
    assert check(check_folder(result), "seal").passed


def test_files_that_came_or_went(result: Path) -> None:
    (result / "rungs.parquet").write_bytes((result / "stays.parquet").read_bytes())
    edit(result, "ringbco.json", '"stays.parquet"', '"quota.parquet"')
    said = {finding.message for finding in check(check_folder(result), "seal").findings}
    assert said == {
        "quota.parquet is not there any more",
        "rungs.parquet was not written by the run",
        "stays.parquet was not written by the run",
    }


def test_any_figure_changed_by_a_digit(result: Path) -> None:
    summary = json.loads((result / "summary.json").read_text())
    tried = 0
    for key, value in summary.items():
        if not isinstance(value, int | float) or key in WALL_TIME:
            continue
        changed = summary | {key: value + 1 if isinstance(value, int) else value * (1 + 1e-15) + 1e-300}
        (result / "summary.json").write_text(json.dumps(changed))
        assert check(check_folder(result), "seal").failed == 1, key
        seal_anew(result)
        (finding,) = check(check_folder(result, repeat=True), "repeat").findings
        assert finding.message.startswith(f"summary.json: {key} was ")
        tried += 1
    assert tried > 30


def leaves(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Where the figures of a summary are, those of rows of its tables too."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, *path, key)
    elif path[0] not in WALL_TIME:
        yield path


def another(value: Any) -> Any:
    """A figure that is off by one digit, or a word by one letter."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, str):
        return value + "1"
    return value + 1 if isinstance(value, int) else value * (1 + 1e-15) + 1e-300


def test_any_field_of_the_summary_changed_by_a_digit(jobs: Path, tmp_path: Path) -> None:
    """Of every part of it: rows of size classes, of types, of services."""
    services = pl.DataFrame({"service": ["chat"], "time": [50.0], "replicas": [1], "gpus_per_replica": [1]})
    for name in ("r", "again"):
        ringbco.replay(jobs, "4x4", policy="srtf", services=services).write(tmp_path / name)
    right = json.loads((tmp_path / "r" / "summary.json").read_text())
    tried = list(leaves(right))
    for path in tried:
        changed = json.loads(json.dumps(right))
        part = changed
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = another(part[path[-1]])
        (tmp_path / "r" / "summary.json").write_text(json.dumps(changed))
        result = compare_results(tmp_path / "r", tmp_path / "again")
        assert [name for name, said in result.items() if said is not None] == ["summary.json"], path
    assert len(tried) > 80
    assert {path[0] for path in tried} == {*right} - {*WALL_TIME}
    done = check_folder(tmp_path / "r", repeat=True)
    assert [check.code for check in done.checks if check.failed][-1] == "repeat"


def test_wall_time_may_be_any(invoke: Invoke, result: Path) -> None:
    summary = json.loads((result / "summary.json").read_text())
    summary |= {"engine_seconds": 2.0, "total_seconds": 4.0, "jobs_per_second": 15.0}
    (result / "summary.json").write_text(json.dumps(summary))
    assert invoke("audit", result).returncode == 0


@pytest.mark.parametrize(
    ("number", "until"), [(200, 20_000.0), pytest.param(10_000, 70_000.0, marks=pytest.mark.long)]
)
def test_a_run_of_another_policy_under_a_name_is_found(
    invoke: Invoke, tmp_path: Path, number: int, until: float
) -> None:
    """The shortest first, and from some time on the longest; labelled srtf."""
    jobs = tmp_path / "jobs.parquet"
    table = ringbco.generate("philly", number, seed=3, gpus=64, load=2.0)
    ringbco.write_jobs(table, jobs)

    class Turns(ringbco.RankPolicy):
        clairvoyant, preemptive = True, True

        def rank(self, state: ringbco.State, rows: Any) -> Any:
            return state.remaining_time[rows] * (1.0 if state.now < until else -1.0)

    true = ringbco.replay(jobs, "4x8", policy="srtf", placement="consolidate")
    true.write(tmp_path / "r")
    assert invoke("audit", "r").returncode == 0
    other = ringbco.replay(jobs, "4x8", policy=Turns, placement="consolidate")
    other.write(tmp_path / "o")
    record = (tmp_path / "r" / "run.toml").read_text()
    (tmp_path / "o" / "run.toml").write_text(record)
    edit(tmp_path / "o", "summary.json", other.summary["policy"], "srtf")
    seal_anew(tmp_path / "o")
    done = invoke("audit", "o")
    assert done.returncode == 3
    assert "repeat" in done.stderr
    result = [line for line in done.stdout.splitlines() if line.startswith("repeat: jobs.parquet: ")]
    assert result
    assert "row " in result[0]
    assert ": was " in result[0]


def test_a_policy_of_ones_own_is_repeated_if_the_caller_names_it(
    invoke: Invoke, jobs: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    assert (
        invoke(
            "replay", jobs.name, "--cluster", "4x4", "--policy", "mine.py:Longest", "-o", "r", "-q"
        ).returncode
        == 0
    )
    alone = invoke("audit", "r")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout.splitlines()[-1] == NOT_MADE
    assert "code is not run because a folder names it" in " ".join(alone.stdout.split())
    required = invoke("audit", "r", "--require-repeat")
    assert required.returncode == 3
    assert required.stderr.startswith(
        "error: r: was not repeated: r/run.toml: options.policy: mine.py:Longest"
    )
    named = invoke("audit", "r", "--policy", "mine.py:Longest", "--require-repeat")
    assert (named.returncode, named.stderr) == (0, "")
    assert NOT_MADE not in named.stdout
    (tmp_path / "mine.py").write_text(OWN.replace("-state", "+state"))
    other = invoke("audit", "r", "--policy", "mine.py:Longest")
    assert other.returncode == 1
    assert "expected the policy's file as it was" in other.stderr


def test_a_table_made_in_memory_is_repeated_where_it_is_given(invoke: Invoke, jobs: Path) -> None:
    ringbco.replay(ringbco.from_frame(ringbco.read_jobs(jobs).frame), "4x4").write("r")
    assert invoke("audit", "r", "--jobs", jobs, "--require-repeat").returncode == 0


def test_an_order_by_an_array_of_keys_is_not_repeated(invoke: Invoke, jobs: Path) -> None:
    ringbco.replay(jobs, "4x4", order=list(range(60))).write("r")
    done = invoke("audit", "r")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, NOT_MADE)
    assert "order='column:NAME'" in " ".join(done.stdout.split())
    assert invoke("audit", "r", "--require-repeat").returncode == 3


def test_another_version(invoke: Invoke, result: Path) -> None:
    here = ringbco.Outcome.read(result).run["ringbco"]["version"]
    edit(result, "run.toml", f'version = "{here}"', 'version = "0.0.1"')
    assert invoke("audit", result).returncode == 0
    edit(result, "run.toml", "preempt_cost = 30.0", "preempt_cost = 60.0")
    done = invoke("audit", result)
    assert done.returncode == 3
    assert f"the result was made with version 0.0.1 (here {here})" in done.stdout


def test_an_option_of_another_version_is_not_repeated(invoke: Invoke, result: Path) -> None:
    edit(result, "run.toml", "[options]", "[options]\nwarp = 9")
    done = invoke("audit", result)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, NOT_MADE)
    assert "an option of replay that this version" in " ".join(done.stdout.split())


def test_a_changed_table_is_a_finding(invoke: Invoke, result: Path, jobs: Path) -> None:
    frame = ringbco.read_jobs(jobs).frame
    ringbco.write_jobs(frame.with_columns(pl.col("duration") + 1), jobs, force=True)
    done = invoke("audit", result)
    assert done.returncode == 3
    assert "failed its audit: trace" in done.stderr
    assert check(check_folder(result, repeat=True), "repeat").not_run == "trace failed"


@pytest.mark.parametrize("other", [("--require-repeat",), ("--policy", "a.py:B")])
def test_what_excludes_each_other(invoke: Invoke, result: Path, other: tuple[str, ...]) -> None:
    done = invoke("audit", result, "--no-repeat", *other)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: option {other[0][2:]}: expected no --no-repeat beside it\n"
