"""Sweeps over several seeds: what each run is of, and what is told of each point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from ringbco import compare, generate, replay, sweep
from ringbco.errors import UsageError
from ringbco.reports.digits import told_all
from ringbco.result.figures import COMPARED
from ringbco.run.draws import Seeds
from ringbco.sweeps.run import scaled
from ringbco.sweeps.spec import read_spec
from ringbco.trace.jobs import JobTable, write_jobs
from ringbco.trace.resample import resampled

POLICIES = ["fifo", "srtf"]


@pytest.fixture(scope="module")
def made() -> JobTable:
    return generate("philly", 300, 5, gpus=64, load=0.9)


def spec(jobs: JobTable, **grid: Any) -> dict[str, Any]:
    return {"base": {"trace": jobs, "cluster": "8x8"}, "grid": {"policy": POLICIES, **grid}}


@pytest.mark.parametrize("seeds", [Seeds(3), Seeds(3, resample=True, block="2d"), Seeds(3, same_jobs=True)])
def test_a_sweep_tells_what_a_comparison_tells(made: JobTable, tmp_path: Path, seeds: Seeds) -> None:
    result = sweep(spec(made), tmp_path / "s", seeds=seeds)
    comparison = compare(made, "8x8", POLICIES, **seeds._asdict())
    frame = pl.read_parquet(tmp_path / "s/seeds.parquet")
    assert result.frame.height == 2 * seeds.runs
    assert result.over is not None
    for row in frame.filter(pl.col("measure").is_in(["mean_jct", "p90_wait", "makespan"])).to_dicts():
        figure = comparison.figure(row["policy"], row["measure"])
        assert figure is not None
        assert (row["value"], row["least"], row["greatest"], row["seeds"]) == figure[:4]
        assert (row["low"], row["high"]) == (figure.interval or (None, None))
        pair = comparison.paired(row["policy"], row["measure"]) if row["policy"] != "fifo" else None
        assert row["difference"] == (pair and pair.share)
        assert (row["told"] is None) == (pair is None)
    again = sweep(spec(made), tmp_path / "s", seeds=seeds)
    assert (again.done, again.kept) == (0, result.frame.height)


def test_each_run_says_of_which_draw_it_is(made: JobTable, tmp_path: Path) -> None:
    document = spec(made)
    document["base"]["seed"] = 4
    drawn = sweep(document, tmp_path / "a", seeds=Seeds(2, resample=True)).frame
    assert drawn["seed"].to_list() == [4, 4, 5] * 2
    assert drawn["draw"].to_list() == [None, 1, 2] * 2
    second = replay(resampled(made, 5), "8x8", policy="fifo", seed=5)
    assert drawn["mean_jct"][2] == second.summary["mean_jct"]
    anew = sweep(document, tmp_path / "b", seeds=Seeds(2)).frame
    assert anew["seed"].to_list() == [4, 5] * 2
    assert anew["draw"].to_list() == [None, 1] * 2


def test_days_drawn_are_moved_as_the_recorded_ones_are(made: JobTable, tmp_path: Path) -> None:
    frame = sweep(spec(made, load=[0.5]), tmp_path / "s", seeds=Seeds(2, resample=True)).frame
    draw = resampled(made, 0)
    factor = scaled(made, 0.5, 64).frame["submit_time"][-1] / made.frame["submit_time"][-1]
    first = draw.frame["submit_time"][0]
    moved = draw.frame.with_columns((pl.col("submit_time") - first) * factor + first)
    expected = replay(moved, "8x8", policy="fifo").summary["mean_jct"]
    assert frame["mean_jct"][1] == pytest.approx(expected, rel=1e-6)


def test_pairs_differ_in_the_policy_alone(made: JobTable, tmp_path: Path) -> None:
    result = sweep(spec(made, load=[0.5, 0.9]), tmp_path / "s", seeds=Seeds(2), baseline="srtf")
    assert result.over is not None
    bases = [(point.settings, point.base) for point in result.over.points]
    assert bases == [
        ({"policy": "fifo", "load": 0.5}, 2),
        ({"policy": "fifo", "load": 0.9}, 3),
        ({"policy": "srtf", "load": 0.5}, None),
        ({"policy": "srtf", "load": 0.9}, None),
    ]
    assert all(line.startswith("load 0.") and "srtf" in line for line in result.over.differences())


def test_a_point_that_failed_has_no_figures(made: JobTable, tmp_path: Path) -> None:
    document = {"base": {"trace": made, "policy": "fifo"}, "grid": {"cluster": ["1x1", "8x8"]}}
    result = sweep(document, tmp_path / "s", seeds=Seeds(2))
    assert result.over is not None
    assert result.over.points[0].figure("mean_jct") is None
    assert result.over.points[1].figure("mean_jct") is not None


def test_what_is_refused(made: JobTable, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="seeds: the specification varies seed itself"):
        read_spec(spec(made, seed=[1, 2]), Seeds(2))
    with pytest.raises(UsageError, match=r"baseline: 'ftfo': expected one of fifo, srtf"):
        sweep(spec(made), tmp_path / "s", seeds=Seeds(2), baseline="ftfo")
    assert not (tmp_path / "s").exists()


def test_the_command(invoke: Invoke, made: JobTable, tmp_path: Path) -> None:
    write_jobs(made, tmp_path / "jobs.parquet")
    (tmp_path / "s.toml").write_text(
        '[base]\ntrace = "jobs.parquet"\ncluster = "8x8"\n[grid]\npolicy = ["fifo", "srtf"]\n'
    )
    done = invoke("sweep", "s.toml", "-o", "s", "--seeds", "3")
    assert done.returncode == 0, done.stderr
    told = json.loads(invoke("sweep", "s.toml", "-o", "s", "--seeds", "3", "--json").stdout)
    printed = " ".join(done.stdout.split())
    assert len(told["told"]) == 3
    assert told["notes"] == ["each seed has jobs of its own, which generate made anew"]
    for line in (*told["notes"], *told["told"]):
        assert line in printed
    assert json.loads((tmp_path / "s/sweep.json").read_text())["seeds"]["seeds"] == 3
    assert invoke("report", "s", "-o", "page.html", "-q").returncode == 0
    page = " ".join((tmp_path / "page.html").read_text().replace("&#39;", "'").split())
    over = pl.read_parquet(tmp_path / "s/seeds.parquet").row(
        by_predicate=(pl.col("measure") == "mean_jct") & (pl.col("policy") == "srtf"), named=True
    )
    shown = next(row for row in COMPARED if row.key == "mean_jct")
    ends = told_all(shown, [over["low"], over["high"]])
    cell = '{}<small class="below">[{}, {}]'.format(*told_all(shown, [over["value"]]), *ends)
    for line in (cell, *told["notes"], *told["told"]):
        assert line in page
    document = json.loads((tmp_path / "s/sweep.json").read_text())
    document["seeds"]["drawn"] = [{"kind": "guessed"}]
    (tmp_path / "s/sweep.json").write_text(json.dumps(document))
    damaged = invoke("report", "s", "-o", "page.html", "-q", "--force")
    assert damaged.returncode == 1
    assert "sweep.json: seeds" in damaged.stderr
    for given, said in (
        (("--baseline", "fifo"), "option baseline: expected together with --seeds"),
        (("--resample",), "option resample: expected together with --seeds"),
        (("--seeds", "0"), "option seeds"),
    ):
        refused = invoke("sweep", "s.toml", "-o", "t", *given)
        assert refused.returncode == 2
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr
