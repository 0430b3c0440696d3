"""Sweeps over several seeds: what each run is of, and what is told of each point."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from ringbco import compare, generate, replay, sweep
from ringbco.errors import InputError, UsageError
from ringbco.result.figures import COMPARED
from ringbco.run.seeds import SeededTables, Seeds
from ringbco.sweeps.run import scaled
from ringbco.sweeps.spec import read_spec
from ringbco.trace.jobs import JobTable, from_frame, write_jobs

POLICIES = ["fifo", "srtf"]


@pytest.fixture(scope="module")
def made() -> JobTable:
    return generate("philly", 300, 5, gpus=64, load=0.9)


def spec(jobs: JobTable, **grid: Any) -> dict[str, Any]:
    return {"base": {"trace": jobs, "cluster": "8x8"}, "grid": {"policy": POLICIES, **grid}}


@pytest.mark.parametrize("seeds", [Seeds(6), Seeds(7, fresh=True), Seeds(3)])
def test_a_sweep_tells_what_a_comparison_tells(made: JobTable, tmp_path: Path, seeds: Seeds) -> None:
    result = sweep(spec(made), tmp_path / "s", seeds=seeds)
    comparison = compare(made, "8x8", POLICIES, **seeds._asdict())
    frame = pl.read_parquet(tmp_path / "s/seeds.parquet")
    assert result.frame.height == 2 * seeds.seeds
    of_sweep = frame.sort("measure", "policy")
    # What no row of a sweep has.
    others = ["mean_jct_over_bound", "engine_seconds"]
    of_comparison = comparison.frame.filter(~pl.col("measure").is_in(others))
    of_comparison = of_comparison.sort("measure", "policy").select(of_sweep.columns)
    assert of_sweep.rows() == of_comparison.rows()
    again = sweep(spec(made), tmp_path / "s", seeds=seeds)
    assert (again.done, again.kept) == (0, result.frame.height)


def test_parts_and_days_are_those_of_a_comparison(tmp_path: Path) -> None:
    """Of sixty days, of which one is busier than all others; a load may make so many of fewer."""
    rows = [(day, place) for day in range(60) for place in (range(24) if day == 30 else (0, 4))]
    frame = pl.DataFrame(rows, schema=["day", "place"], orient="row").select(
        job_id=pl.int_range(pl.len()).cast(pl.String),
        submit_time=86_400.0 * pl.col("day") + 900.0 * pl.col("place"),
        num_gpus=pl.when(pl.col("place") % 4 == 0).then(8).otherwise(1),
        duration=pl.when(pl.col("place") % 4 == 0).then(4_000.0).otherwise(500.0),
        model=pl.lit("VGG-16"),
    )
    jobs = replace(from_frame(frame), metadata={"ringbco.epoch": "2020-09-01"})
    short = replace(jobs, frame=jobs.frame.with_columns(pl.col("submit_time") / 16))
    load = float((frame["num_gpus"] * frame["duration"]).sum()) / np.ptp(frame["submit_time"].to_numpy()) / 8
    comparison = compare(jobs, "1x8", POLICIES)
    (measure,) = (measure for measure in comparison.rows if measure.key == "mean_jct")
    assert "2020-10-01 alone carries" in (comparison.sentence("srtf", measure) or "")
    for name, document in (
        ("a", {"base": {"trace": jobs, "cluster": "1x8"}, "grid": {"policy": POLICIES}}),
        ("b", {"base": {"trace": short, "cluster": "1x8", "load": load}, "grid": {"policy": POLICIES}}),
    ):
        sweep(document, tmp_path / name, seeds=Seeds(6))
        value = pl.read_parquet(tmp_path / name / "seeds.parquet").filter(policy="srtf", measure="mean_jct")
        (row,) = value.to_dicts()
        assert row["verdict"] == "apart on these jobs"
        assert "2020-10-01 alone carries" in row["sentence"]
        assert name == "b" or (row["sentence"], row["parts"]) == (comparison.sentence("srtf", measure), 1)


def test_each_run_says_which_it_is(made: JobTable, tmp_path: Path) -> None:
    document = spec(made)
    document["base"]["seed"] = 4
    moved = sweep(document, tmp_path / "a", seeds=Seeds(3)).frame
    assert moved["seed"].to_list() == [4, 5, 6] * 2
    assert moved["draw"].to_list() == [None, 1, 2] * 2
    second = replay(SeededTables(made, "moved", 4).table(2), "8x8", policy="fifo", seed=6)
    assert moved["mean_jct"][2] == second.summary["mean_jct"]
    anew = sweep({**document, "fresh": True}, tmp_path / "b", seeds=Seeds(2)).frame
    third = replay(generate("philly", 300, 6, gpus=64, load=0.9), "8x8", policy="fifo", seed=5)
    assert anew["mean_jct"][1] == third.summary["mean_jct"]


def test_submissions_move_once_the_load_is_applied(made: JobTable, tmp_path: Path) -> None:
    frame = sweep(spec(made, load=[0.5]), tmp_path / "s", seeds=Seeds(2)).frame
    moved = SeededTables(scaled(made, 0.5, 64), "moved", 0).table(1)
    assert frame["mean_jct"][1] == replay(moved, "8x8", policy="fifo", seed=1).summary["mean_jct"]


def test_pairs_differ_in_the_policy_alone(made: JobTable, tmp_path: Path) -> None:
    result = sweep(spec(made, load=[0.5, 0.9]), tmp_path / "s", seeds=Seeds(6), baseline="srtf")
    assert result.by_point is not None
    bases = [(point.settings, point.base) for point in result.by_point.points]
    assert bases == [
        ({"policy": "fifo", "load": 0.5}, 2),
        ({"policy": "fifo", "load": 0.9}, 3),
        ({"policy": "srtf", "load": 0.5}, 2),
        ({"policy": "srtf", "load": 0.9}, 3),
    ]
    told = list(result.by_point.sentences())
    assert len(told) == 2
    assert all(line.startswith("load 0.") and "srtf" in line for line in told)


def test_a_point_that_failed_has_no_figures(made: JobTable, tmp_path: Path) -> None:
    document = {"base": {"trace": made, "policy": "fifo"}, "grid": {"cluster": ["1x1", "8x8"]}}
    result = sweep(document, tmp_path / "s", seeds=Seeds(2))
    assert result.by_point is not None
    assert result.by_point.figure(0, "mean_jct").value is None
    assert result.by_point.figure(1, "mean_jct").value is not None


def test_what_is_refused(made: JobTable, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="seeds: the specification varies seed itself"):
        read_spec(spec(made, seed=[1, 2]), Seeds(2))
    with pytest.raises(UsageError, match=r"baseline: 'ftfo': expected one of fifo, srtf"):
        sweep(spec(made), tmp_path / "s", seeds=Seeds(2), baseline="ftfo")
    with pytest.raises(InputError, match="fresh: 5: expected true or false"):
        read_spec({**spec(made), "fresh": 5})
    changed = replace(made, metadata={})
    with pytest.raises(InputError, match="a table that ringbco generate made"):
        read_spec({**spec(changed), "fresh": True}, Seeds(2))
    assert not (tmp_path / "s").exists()


def test_the_command(invoke: Invoke, made: JobTable, tmp_path: Path) -> None:
    write_jobs(made, tmp_path / "jobs.parquet")
    (tmp_path / "s.toml").write_text(
        '[base]\ntrace = "jobs.parquet"\ncluster = "8x8"\n[grid]\npolicy = ["fifo", "srtf"]\n'
    )
    done = invoke("sweep", "s.toml", "-o", "s", "--seeds", "6")
    assert done.returncode == 0, done.stderr
    output = json.loads(invoke("sweep", "s.toml", "-o", "s", "--seeds", "6", "--json").stdout)
    printed = " ".join(done.stdout.split())
    (said,) = output["sentences"]
    for line in (*output["notes"], said):
        assert line in printed
    assert output["notes"] == [
        "6 runs: submissions moved by under a minute, unknown models drawn anew",
        "figures are those of run 0, the jobs as they are, not means over runs",
    ]
    written = json.loads((tmp_path / "s/sweep.json").read_text())
    assert (written["seeds"], written["kind"]) == (6, "moved")
    assert invoke("report", "s", "-o", "page.html", "-q").returncode == 0
    page = " ".join((tmp_path / "page.html").read_text().replace("&#39;", "'").split())
    over = pl.read_parquet(tmp_path / "s/seeds.parquet").filter(measure="mean_jct", policy="srtf")
    shown = next(row for row in COMPARED if row.key == "mean_jct")
    value, low, high = (shown.brief(over[name].item()) for name in ("value", "low", "high"))
    for line in (f'{value}<small class="below">({low} to {high})', *output["notes"], said):
        assert line in page
    (tmp_path / "s/sweep.json").write_text(json.dumps(written | {"kind": "guessed"}))
    damaged = invoke("report", "s", "-o", "page.html", "-q", "--force")
    assert damaged.returncode == 1
    assert "sweep.json: kind" in damaged.stderr
    for given, said in (
        (("--baseline", "fifo"), "option baseline: expected together with --seeds"),
        (("--fresh",), "option fresh: expected together with --seeds"),
        (("--resample",), "option resample: is no more: a trace tells nothing of other months"),
        (("--block=2d",), "option block: is no more"),
        (("--same-jobs",), "option same-jobs: is no more: all runs are of the same jobs now"),
        (("--seeds", "0"), "option seeds"),
    ):
        refused = invoke("sweep", "s.toml", "-o", "t", *given)
        assert refused.returncode == 2
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr


def test_the_old_name_of_the_module_warns() -> None:
    from ringbco.run import draws

    with pytest.warns(DeprecationWarning, match=r"is now ringbco\.run\.seeds\.Seeds$"):
        assert draws.Seeds is Seeds
    assert not hasattr(draws, "Draws")
