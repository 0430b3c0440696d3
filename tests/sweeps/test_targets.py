"""What meets a target, in a grid and by bisection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Invoke
from ringbco import generate, replay, sweep
from ringbco.errors import UsageError
from ringbco.run.seeds import Seeds
from ringbco.sweeps import targets
from ringbco.sweeps.run import SweepResult
from ringbco.sweeps.spec import Spec
from ringbco.sweeps.targets import Tried, asked, range_of, target_of
from ringbco.trace.jobs import JobTable, write_jobs


@pytest.fixture(scope="module")
def made() -> JobTable:
    return generate("philly", 400, 3, gpus=64, load=0.9)


def mean_wait(jobs: JobTable, servers: int) -> float:
    value: float = replay(jobs, f"{servers}x8", policy="fifo").summary["mean_wait"]
    return value


def swept(tmp_path: Path) -> Any:
    def run(wanted: Spec) -> SweepResult:
        return sweep(wanted, tmp_path / "s")

    return run


@pytest.mark.parametrize("bound", ["60s", "10min", "2h"])
def test_bisection_finds_what_trying_all_finds(made: JobTable, tmp_path: Path, bound: str) -> None:
    document = {"base": {"trace": made, "policy": "fifo"}}
    search = asked(document, Seeds(), "mean_wait", bound, "cluster=2x8..24x8")
    _, result, (actual,) = search.run(swept(tmp_path))
    target = target_of("mean_wait", bound)
    assert target is not None
    smallest = next(n for n in range(2, 25) if mean_wait(made, n) <= target.value)
    assert actual.best is not None
    assert actual.best.name == f"{smallest}x8"
    assert result.frame.height <= 8  # of 23
    assert result.kept == 0
    assert result.done == result.frame.height


def test_a_grid_names_the_smallest_cluster_of_each_policy(made: JobTable, tmp_path: Path) -> None:
    clusters = ["24x8", "4x8", "8x8", "16x8"]  # in no order
    document = {"base": {"trace": made}, "grid": {"cluster": clusters, "policy": ["fifo", "srtf"]}}
    _, _, result = asked(document, Seeds(), "mean_wait", "10min", None).run(swept(tmp_path))
    assert [one.where for one in result] == ["policy fifo", "policy srtf"]
    for one in result:
        assert [tried.place for tried in one.tried] == [32.0, 64.0, 128.0, 192.0]
        meets = [tried for tried in one.tried if tried.value is not None and tried.value <= 600.0]
        assert one.best == meets[0]


def test_the_greatest_load(made: JobTable, tmp_path: Path) -> None:
    document = {"base": {"trace": made, "cluster": "8x8", "policy": "fifo"}}
    search = asked(document, Seeds(), "mean_wait", "30min", "load=0.2..2")
    _, _, (result,) = search.run(swept(tmp_path))
    assert result.best is not None
    assert result.best.value is not None
    assert result.best.value <= 1800.0
    beyond = [one for one in result.tried if one.place > result.best.place]
    assert beyond
    assert min(one.place for one in beyond) - result.best.place <= 1.8 / 100 + 1e-9
    assert "the greatest load that meets mean waiting time at most 30.0 min" in result.lines()[0]


def test_with_runs_it_is_said_in_how_many_the_target_is_met(made: JobTable, tmp_path: Path) -> None:
    document = {"base": {"trace": made, "policy": "fifo"}}
    search = asked(document, Seeds(4), "mean_wait", "10min", "cluster=2x8..24x8")
    _, _, (result,) = search.run(swept(tmp_path))
    assert result.best is not None
    assert result.sure is not None
    assert result.best.value == result.best.values[0] == mean_wait(made, int(result.best.place) // 8)
    assert len(result.best.values) == 4
    assert result.best.place <= result.sure.place
    assert max(result.sure.values) <= 600.0
    smaller = [one for one in result.tried if one.place < result.sure.place]
    assert all(max(one.values) > 600.0 for one in smaller)
    met = sum(value <= 600.0 for value in result.best.values)
    assert ("in all 4 runs" if met == 4 else f"in {met} of 4 runs") in result.lines()[0]


def tried(*values: float | None) -> list[Tried]:
    return [
        Tried.of(float(place), f"{place}x8", [value], "moved") for place, value in enumerate(values, start=1)
    ]


def test_the_words_of_a_search_over_runs() -> None:
    target = target_of("mean_wait", "10min")
    assert target is not None
    points = [
        Tried.of(8.0, "1x8", [700.0, 500.0], "moved"),
        Tried.of(16.0, "2x8", [590.0, 700.0], "moved"),
        Tried.of(24.0, "3x8", [300.0, 400.0], "moved"),
    ]
    assert targets.settled("", "cluster", points, target).lines() == [
        "the smallest cluster that meets mean waiting time at most 10.0 min: 2x8 (16 GPUs), 9.83 min"
        " (9.83 min to 11.7 min), in 1 of 2 runs",
        "the smallest cluster that meets it in all 2 runs: 3x8 (24 GPUs), 5.00 min (5.00 min to 6.67 min),"
        " in all 2 runs",
    ]
    assert (
        targets.settled("", "cluster", points[:2], target).lines()[1] == "none tried meets it in all 2 runs"
    )


@pytest.mark.parametrize(
    ("values", "best", "strange"),
    [
        ((9.0, 5.0, 3.0), "2x8", 0),
        ((9.0, 5.0, 7.0, 3.0), "2x8", 1),  # larger, and yet too bad
        ((9.0, 8.0), None, 0),
        ((None, 5.0), "2x8", 0),
        ((4.0, 3.0), "1x8", 0),
    ],
)
def test_what_is_not_monotone_is_said(values: Any, best: str | None, strange: int) -> None:
    target = target_of("mean_slowdown", "6")
    assert target is not None
    result = targets.settled("", "cluster", tried(*values), target)
    assert (result.best and result.best.name) == best
    assert len(result.strange) == strange
    assert sum("not monotone" in line for line in result.lines()) == strange


def test_targets_and_ranges() -> None:
    target = target_of("p50_wait", "1.5h")
    assert target is not None
    assert (target.measure.key, target.value) == ("median_wait", 5400.0)
    share = target_of("deadlines_met", "95%")
    assert share is not None
    assert share.value == 0.95
    assert share.met_by(0.96)
    assert not share.met_by(0.94)
    assert target_of(None, None) is None
    kappa = range_of("kappa=1..64", "replay")
    assert (kappa.low, kappa.high, kappa.step, kappa.write(8.0)) == (1, 64, 1.0, 8)


@pytest.mark.parametrize(
    ("measure", "target", "said"),
    [
        (None, "1h", "option target: expected together with --measure"),
        ("p90_wiat", "1h", "measure: 'p90_wiat'.*did you mean p90_wait"),
        ("utilisation", "50%", "option measure"),  # of which no end is good
        ("p90_wait", "soon", "target: 'soon'"),
        ("mean_slowdown", "1h", "target: '1h': expected a number"),
        ("p90_wait", "nan", "target: 'nan'"),
    ],
)
def test_wrong_targets(measure: str | None, target: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        target_of(measure, target)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster", r"expected SETTING=LOW\.\.HIGH"),
        ("cluster=16x8..32x4", "servers with as many GPUs"),
        ("cluster=32x8..16x8", "the smaller cluster first"),
        ("cluster=a.toml..b.toml", "servers with as many GPUs"),
        ("policy=fifo..sjf", "another setting that is a number"),
        ("seed=1..9", "another setting that is a number"),
        ("load=2..1", "the lower one first"),
        ("load=x..1", "two numbers"),
    ],
)
def test_wrong_ranges(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        range_of(text, "replay")


def test_the_command(invoke: Invoke, made: JobTable, tmp_path: Path) -> None:
    write_jobs(made, tmp_path / "jobs.parquet")
    (tmp_path / "s.toml").write_text('[base]\ntrace = "jobs.parquet"\ncluster = "8x8"\npolicy = "fifo"\n')
    (tmp_path / "v.toml").write_text('[base]\ntrace = "jobs.parquet"\n[grid]\ncluster = ["8x8", "9x8"]\n')
    aim = ("--measure", "mean_wait", "--target", "10min")
    done = invoke("sweep", "s.toml", "-o", "s", *aim, "--bisect", "cluster=2x8..24x8")
    assert done.returncode == 0, done.stderr
    output = json.loads(
        invoke("sweep", "s.toml", "-o", "s", *aim, "--bisect", "cluster=2x8..24x8", "--json").stdout
    )
    (one,) = output["targets"]
    printed = " ".join(done.stdout.split())
    assert all(line in printed for line in one["told"])
    assert f"{one['best']} (" in one["told"][0]
    # What is aimed at is the first figure.
    for given, kept in (
        (("--target", "10min"), {"measure": "p90_wait", "target": 600.0, "setting": "cluster"}),
        ((), {"measure": "p90_wait"}),
    ):
        shown = invoke("sweep", "v.toml", "-o", "v", "--measure", "p90_wait", *given).stdout
        assert "cluster wait jct wait slowdown" in " ".join(shown.split())
        assert json.loads(Path("v/sweep.json").read_text())["aim"] == kept
    assert json.loads(Path("s/sweep.json").read_text())["aim"]["setting"] == "cluster"
    for file, given, said in (
        ("s.toml", aim, "expected a specification that varies cluster or load"),
        ("v.toml", (*aim, "--bisect", "cluster=2x8..4x8"), "the specification varies cluster itself"),
        ("s.toml", ("--bisect", "cluster=2x8..4x8"), "option bisect: expected together with"),
    ):
        refused = invoke("sweep", file, "-o", "t", *given)
        assert refused.returncode == 2, refused.stdout
        assert said in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
