"""`compare` of existing results: alone, and damaged ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from ringbco import compare, replay
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome


@pytest.fixture
def results(small_jobs: Path, tmp_path: Path) -> list[Path]:
    folders = [tmp_path / policy for policy in ("fifo", "sjf")]
    for folder in folders:
        replay(small_jobs, "2x8", policy=folder.name).write(folder)
    return folders


def test_results_alone_are_compared(results: list[Path], invoke: Invoke, small_jobs: Path) -> None:
    done = invoke("compare", "--result", "fifo", "--result", "sjf", "-o", "cmp")
    assert (done.returncode, done.stderr) == (0, "")
    assert "small.csv on 2x8, results in cmp" in done.stdout
    both = compare(small_jobs, "2x8", ["fifo", "sjf"], seeds=1)
    document = json.loads(Path("cmp/comparison.json").read_text())
    assert document["policies"] == ["fifo", "sjf"]
    for measure, entries in both.rows.items():
        if measure.key != "engine_seconds":
            recorded = document["measures"][measure.key]
            for label, entry in zip(both.outcomes, entries, strict=True):
                value, ratio, best = entry
                ratio = "inf" if ratio == float("inf") else ratio
                assert recorded[label] == {"value": value, "ratio": ratio, "best": best}
    assert "one run, and so without a verdict: " in done.stdout
    assert Outcome.read("cmp/sjf").jobs.equals(both.outcomes["sjf"].jobs)
    alone = compare(results=results)
    assert list(alone.outcomes) == [str(folder) for folder in results]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--result", "fifo"), "at least two"),
        (("small.csv", "--cluster", "2x8", "--result", "fifo", "--result", "sjf"), "results alone"),
        (("--cluster", "2x8", "--result", "fifo", "--result", "sjf"), "results alone"),
        (("--result", "fifo", "--result", "sjf", "--seeds", "3"), "option seeds: existing results have one"),
        (("--result", "fifo", "--result", "sjf", "--fresh"), "option fresh: existing results have one run"),
        (("--policy", "fifo", "--result", "sjf"), "JOBS and --cluster are missing"),
        (("small.csv", "--policy", "fifo", "--result", "sjf"), "--cluster is missing"),
        (("--cluster", "2x8", "--policy", "fifo", "--result", "sjf"), "JOBS is missing"),
    ],
)
def test_what_is_missing_is_said(
    results: list[Path], invoke: Invoke, arguments: tuple[str, ...], said: str
) -> None:
    done = invoke("compare", *arguments, "-o", "cmp")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert not Path("cmp").exists()


def test_the_function_says_so_too(results: list[Path], small_jobs: Path) -> None:
    with pytest.raises(UsageError, match="results alone"):
        compare(small_jobs, "2x8", results=results)
    with pytest.raises(UsageError, match="a job table and a cluster"):
        compare(policies=["fifo"], results=results)
    with pytest.raises(UsageError, match="at least one policy or run"):
        compare()


def test_an_option_that_nothing_uses_is_told(results: list[Path], invoke: Invoke) -> None:
    arguments = ("--kappa", "4", "--lambda", "2")
    done = invoke("compare", "--result", "fifo", "--result", "sjf", *arguments, "-o", "cmp")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"note: option {name}: not used by existing results" for name in ("kappa", "lambda")
    ]


def put(column: str, value: Any) -> Any:
    return lambda frame: frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.lit(value, frame.schema[column]))
        .otherwise(column)
        .alias(column)
    )


# What else may be wrong is in tests/report/test_report_damage.py: it is the same check.
DAMAGE: list[tuple[str, Any, str]] = [
    ("jobs.parquet", put("finish_time", math.nan), "row 1, column finish_time: NaN: expected a finite"),
    ("allocations.parquet", put("server", 99), "column server: 99: expected 0 to 1"),
    ("timeline.parquet", pl.DataFrame.clear, "holds no sample"),
    (
        "summary.json",
        lambda text: json.dumps({**json.loads(text), "mean_jct": -5}),
        "mean_jct: -5: expected 0",
    ),
    ("run.toml", lambda _: 'trace = 5\n[ringbco]\nversion = "1"\n', "trace: 5: expected a table"),
    ("run.toml", lambda text: text.replace("seed = 0", "seed = nan"), "seed: NaN"),
]


@pytest.mark.parametrize(("file", "change", "said"), DAMAGE)
def test_a_damaged_result_is_named(
    results: list[Path], invoke: Invoke, file: str, change: Any, said: str
) -> None:
    path = results[1] / file
    if file.endswith(".parquet"):
        change(pl.read_parquet(path)).write_parquet(path)
    else:
        path.write_text(change(path.read_text()))
    alone = ("--result", "fifo", "--result", "sjf")
    beside = ("small.csv", "--cluster", "2x8", "--policy", "fifo", "--result", "sjf")
    for arguments in (alone, beside):
        done = invoke("compare", *arguments, "-o", "cmp")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert done.stderr.startswith(f"error: sjf/{file}: ")
        assert said in done.stderr
        assert not Path("cmp").exists()


def test_a_damaged_outcome_in_memory_is_named(small_jobs: Path) -> None:
    outcome = replay(small_jobs, "2x8")
    outcome.jobs = put("finish_time", math.nan)(outcome.jobs)
    with pytest.raises(InputError, match="finish_time: NaN"):
        compare(small_jobs, "2x8", ["fifo"], results=[outcome])
