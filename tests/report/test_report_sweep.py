"""The page of a sweep's folder: a chart of each setting that it varied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from ringbco import sweep
from ringbco.errors import InputError
from ringbco.reports.series import Figure
from ringbco.reports.style import on_white
from ringbco.reports.sweep_figures import axes, figures
from ringbco.reports.sweep_page import read_sweep, sweep_page

VARIED = {
    "policy": ["fifo", "sjf"],
    "kappa": [1, 2, 8],
    "inter_bandwidth": [1e8, 1e9, 1e10],
    "seed": [0, 1],
}


@pytest.fixture
def folder(small_jobs: Path, tmp_path: Path) -> Path:
    sweep({"base": {"trace": str(small_jobs), "cluster": "4x2"}, "grid": VARIED}, tmp_path / "sweep")
    return tmp_path / "sweep"


def drawn(folder: Path) -> dict[str, Figure]:
    runs = read_sweep(folder)
    return {
        figure.name: figure
        for _, group in figures(runs.frame, axes(runs.frame, runs.varied))
        for figure in group
    }


def rows(figure: Figure) -> list[dict[str, Any]]:
    (data,) = figure.chart.to_dict()["datasets"].values()
    found: list[dict[str, Any]] = data
    return found


def test_a_chart_or_two_for_each_axis_but_the_seeds(folder: Path) -> None:
    made = drawn(folder)
    names = {
        f"{axis}-{measure}" for axis in ("policy", "kappa", "inter-bandwidth") for measure in ("jct", "wait")
    }
    assert {name.replace("-mean", "") for name in made} == names
    # Names are a map, numbers lines; a range of a hundred is logarithmic, one of eight is not.
    assert made["policy-mean-jct"].chart.to_dict()["mark"]["type"] == "rect"
    lines, narrow = (made[f"{axis}-mean-jct"].chart.to_dict() for axis in ("inter-bandwidth", "kappa"))
    assert lines["layer"][0]["mark"]["type"] == "line"
    assert lines["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert "type" not in narrow["layer"][0]["encoding"]["x"]["scale"]


def test_a_point_is_the_mean_over_the_seeds(folder: Path) -> None:
    frame = pl.read_parquet(folder / "runs.parquet")
    shown = rows(drawn(folder)["inter-bandwidth-mean-jct"])
    assert len(shown) == 3 * 2 * 3
    for row in shown:
        policy, kappa = row["line"].split(", ")
        mine = frame.filter(policy=policy, kappa=int(kappa), inter_bandwidth=row["value"])["mean_jct"] / 3_600
        assert row["runs"] == mine.len() == 2
        for name, value in (("hours", mine.mean()), ("least", mine.min()), ("most", mine.max())):
            assert row[name] == pytest.approx(value, rel=1e-4)


def test_too_many_lines_are_averaged_and_the_page_says_so(folder: Path) -> None:
    frame = pl.read_parquet(folder / "runs.parquet")
    many = pl.concat(frame.with_columns(load=pl.lit(0.1 * number)) for number in range(1, 21))
    swept = axes(many, ["policy", "kappa", "inter_bandwidth", "load"])
    (figure,) = (
        figure
        for axis, group in figures(many, swept)
        for figure in group
        if figure.name == "inter-bandwidth-mean-jct"
    )
    assert {row["line"] for row in rows(figure)} == {f"{p}, {k}" for p in VARIED["policy"] for k in (1, 2, 8)}
    assert "Means of up to 40 runs, over load" in figure.note
    for _, group in figures(many, swept):
        for each in group:
            assert len(rows(each)) < 5_000
            on_white(each)


def test_settings_alone_failed_runs_and_loads_as_recorded(folder: Path) -> None:
    frame = pl.read_parquet(folder / "runs.parquet").filter(kappa=1, inter_bandwidth=1e9, seed=0)
    swept = axes(frame, ["policy", "kappa"])
    assert [(axis.name, axis.values) for axis in swept] == [("policy", ("fifo", "sjf"))]
    ((_, group),) = figures(frame, swept)
    assert group[0].chart.to_dict()["mark"]["type"] == "bar"
    failed = frame.with_columns(error=pl.when(pl.col("policy") == "sjf").then(pl.lit("broken")))
    ((_, group),) = figures(failed, axes(failed, ["policy"]))
    assert [row["value"] for row in rows(group[0])] == ["fifo"]
    loads = pl.concat([frame.with_columns(load=pl.lit(load, pl.Float64)) for load in (None, 0.9)])
    made = {axis.name: group for axis, group in figures(loads, axes(loads, ["load"]))}
    assert {row["value"] for row in rows(made["load"][0])} == {"as recorded", "0.9"}


def test_an_endless_setting_and_one_that_some_runs_lack(small_jobs: Path, tmp_path: Path) -> None:
    (tmp_path / "down.csv").write_text("server,down_at,up_at\n0,50,60\n")
    base = {"trace": str(small_jobs), "cluster": "2x8", "policy": "srtf"}
    sides = [{}, {"outages": str(tmp_path / "down.csv")}]
    intervals = [600.0, float("inf"), 60.0]
    runs = [{**side, "checkpoint_interval": interval} for side in sides for interval in intervals]
    sweep({"base": base, "runs": runs}, tmp_path / "sweep")
    made = drawn(tmp_path / "sweep")
    by_interval = made["checkpoint-interval-mean-jct"].chart.to_dict()
    assert by_interval["encoding"]["y"]["sort"] == ["60", "600", "inf"]
    assert {row["line"] for row in rows(made["checkpoint-interval-mean-jct"])} == {
        "none",
        str(tmp_path / "down.csv"),
    }
    text, _ = sweep_page(read_sweep(tmp_path / "sweep"), title="t")
    assert "as recorded" not in text
    assert "60, 600, inf" in text
    for figure in made.values():
        json.dumps(on_white(figure), allow_nan=False)


@pytest.mark.long
def test_the_page_and_its_refusals(folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("report", folder, "-o", "s.html", "--png", "pictures")
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 charts of a sweep of 36 runs" in done.stdout
    text = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert "<title>small.csv on 4x2</title>" in text
    assert "0, 1; charts average over it" in text
    assert "The 30 of 36 runs" in text
    assert {path.stem for path in (tmp_path / "pictures").glob("*.png")} == set(drawn(folder))
    again = invoke("report", folder, "-o", "s.html", "--png", "pictures", "--force")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "s.html").read_text(encoding="utf-8") == text
    both = invoke("report", folder, folder, "-o", "t.html")
    assert (both.returncode, both.stderr.count("\n")) == (2, 1)
    assert "expected it alone" in both.stderr
    (folder / "sweep.json").write_text(json.dumps({"spec": 3}))
    bad = invoke("report", folder, "-o", "t.html")
    assert (bad.returncode, bad.stderr.count("\n")) == (1, 1)
    assert "sweep.json" in bad.stderr
    assert not (tmp_path / "t.html").exists()


def test_a_damaged_table_is_told(folder: Path) -> None:
    table = folder / "runs.parquet"
    frame = pl.read_parquet(table)
    frame.with_columns(error=pl.lit("broken")).write_parquet(table)
    with pytest.raises(InputError, match="a run that did not fail"):
        read_sweep(folder)
    table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(InputError, match="truncated or damaged"):
        read_sweep(folder)


def test_a_sweep_that_varies_nothing(small_jobs: Path, tmp_path: Path) -> None:
    sweep({"base": {"trace": str(small_jobs), "cluster": "4x2"}}, tmp_path / "one")
    text, made = sweep_page(read_sweep(tmp_path / "one"), title="one")
    assert made == []
    assert "Nothing: all runs have the same settings" in text
