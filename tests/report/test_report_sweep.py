"""The page of a sweep's folder: a chart of each setting that it varied."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from ringbco import sweep
from ringbco.errors import InputError
from ringbco.reports.series import Figure
from ringbco.reports.style import on_white
from ringbco.reports.sweep_figures import by_axis, heat_map
from ringbco.reports.sweep_page import sweep_page
from ringbco.reports.sweep_points import SweepRuns, read_sweep
from ringbco.run.seeds import Seeds
from ringbco.sweeps.targets import asked

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


def drawn(runs: SweepRuns) -> dict[str, Figure]:
    return {figure.name: figure for axis in runs.axes for figure in by_axis(runs, axis)}


def kept(figure: Figure) -> list[dict[str, Any]]:
    """The rows of the data that a reader can take along."""
    assert figure.data is not None
    return figure.data.to_dicts()


def only(runs: SweepRuns, frame: pl.DataFrame, *varied: str) -> SweepRuns:
    return replace(runs, frame=frame, varied=varied)


def layers(figure: Figure) -> dict[str, dict[str, Any]]:
    """The layers of a chart by their mark."""
    return {layer["mark"]["type"]: layer["encoding"] for layer in figure.chart.to_dict()["layer"]}


def test_a_chart_of_each_measure_for_each_axis_but_the_seeds(folder: Path) -> None:
    made = drawn(read_sweep(folder))
    measures = ("mean-jct", "p90-wait", "p99-wait", "makespan")
    assert set(made) == {f"{a}-{m}" for a in ("policy", "kappa", "inter-bandwidth") for m in measures}
    # Names are rows; numbers lines, on a logarithmic axis where they span more than a factor of 8.
    assert layers(made["policy-mean-jct"])["point"]["y"]["sort"] == ["fifo", "sjf"]
    lines, narrow = (layers(made[f"{axis}-mean-jct"])["line"] for axis in ("inter-bandwidth", "kappa"))
    assert lines["x"]["scale"]["type"] == "log"
    assert "type" not in narrow["x"]["scale"]
    assert lines["x"]["axis"]["values"] == [1e8, 1e9, 1e10]


def test_times_that_span_more_than_a_factor_of_eight_are_on_a_logarithmic_axis(folder: Path) -> None:
    runs = read_sweep(folder)
    frame = runs.frame.with_columns(mean_jct=pl.when(pl.col("kappa") == 1).then(60.0).otherwise(100.0))
    for most, kind in ((100.0, None), (900.0, "log")):
        wide = frame.with_columns(mean_jct=pl.col("mean_jct").replace(100.0, most))
        y = layers(drawn(only(runs, wide, "kappa"))["kappa-mean-jct"])["line"]["y"]
        assert y["scale"].get("type") == kind


def test_a_point_is_the_mean_over_the_seeds(folder: Path) -> None:
    runs = read_sweep(folder)
    shown = kept(drawn(runs)["inter-bandwidth-mean-jct"])
    assert len(shown) == 3 * 2 * 3
    for row in shown:
        policy, kappa = row["line"].split(", kappa ")
        mine = runs.frame.filter(policy=policy, kappa=int(kappa), inter_bandwidth=float(row["at"]))[
            "mean_jct"
        ]
        assert mine.len() == 2
        assert row["value"] == pytest.approx(mine.mean(), rel=1e-9)
        ends = (row["low"], row["high"])
        assert ends == ((None, None) if mine.n_unique() == 1 else (mine.min(), mine.max()))


def test_too_many_lines_are_averaged_and_the_page_says_so(folder: Path) -> None:
    runs = read_sweep(folder)
    many = pl.concat(runs.frame.with_columns(load=pl.lit(0.1 * number)) for number in range(1, 21))
    crowded = only(runs, many, "policy", "kappa", "inter_bandwidth", "load")
    made = drawn(crowded)
    figure = made["inter-bandwidth-mean-jct"]
    assert {row["line"] for row in kept(figure)} == {
        f"{p}, kappa {k}" for p in VARIED["policy"] for k in (1, 2, 8)
    }
    assert "Averaged over load and seed." in figure.note
    assert {row["points"] for row in kept(figure)} == {20}
    for each in made.values():
        on_white(each)
    text, _ = sweep_page(crowded, title="t")
    assert "30 of 360 points, grouped by inter-bandwidth and load; in each group the best by" in text
    assert "Figures are means over the seeds of the specification." in text


def test_loads_are_scenarios_in_which_policies_compete(folder: Path) -> None:
    """The least load has the shortest times whatever the policy: it is no choice."""
    row = read_sweep(folder).frame.head(1)
    means = {"fifo": (1.0, 2.0, 30.0, 7.0), "sjf": (1.0, 3.0, 20.0, 6.0), "rand": (1.0, 4.0, 20.0, 5.0)}
    frame = pl.concat(
        row.with_columns(policy=pl.lit(policy), load=pl.lit(0.1 * (n + 1)), mean_jct=pl.lit(3_600.0 * hours))
        for policy, those in means.items()
        for n, hours in enumerate(those)
    )
    runs = only(read_sweep(folder), frame, "policy", "load")
    assert [axis.name for axis in runs.given] == ["load"]
    led = [[point.settings["policy"] for point in scenario.leaders] for scenario in runs.scenarios]
    assert led == [[], ["fifo"], ["sjf", "rand"], ["rand"]]
    text, _ = sweep_page(runs, title="t")
    assert (
        "rand has the lowest mean completion time in 2 of 4 scenarios (load), 16.7 % below the next;"
        " fifo in 1 and sjf in 1, counting 1 tie for each.</p>\n<p>In 1 of 4 all choices are equal.</p>\n"
        "<p>One run: add --seeds 6 to tell differences from chance.</p>"
    ) in text
    # The table keeps scenarios together; green is the best of each.
    rows = re.findall(r'scope="row">([\d.]+)</th>\s<td[^>]*>(\w+)</td>\s<td [^>]*?(class="best")?>', text)
    assert [load for load, *_ in rows] == [load for load in ("0.1", "0.2", "0.3", "0.4") for _ in range(3)]
    best = [(load, policy) for load, policy, mark in rows if mark]
    assert best == [("0.2", "fifo"), ("0.3", "sjf"), ("0.3", "rand"), ("0.4", "rand")]
    assert "<caption></caption>" not in text


def test_policies_alone_and_loads_alone(folder: Path) -> None:
    row = read_sweep(folder).frame.head(1)
    both = [("fifo", 7_200.0), ("sjf", 3_600.0)]
    for name, said in (
        ("policy", "sjf has the lowest mean completion time, 60.0 min, 50.0 % below fifo (2.00 h)."),
        (
            "trace",
            "The mean completion time ranges from 60.0 min (trace sjf) to 2.00 h (trace fifo).",
        ),
    ):
        frame = pl.concat(
            row.with_columns(pl.lit(value).alias(name), mean_jct=pl.lit(mean)) for value, mean in both
        )
        text, _ = sweep_page(only(read_sweep(folder), frame, name), title="t")
        assert f'<p class="answer">{said}</p>' in text


def test_a_colour_means_one_policy_on_the_whole_page(folder: Path) -> None:
    """Hues are policies in every chart; where rows name the policies, other settings are shades of blue."""
    runs = read_sweep(folder)
    hues: dict[str, set[str]] = {}
    blues: dict[str, set[str]] = {}
    for name, figure in drawn(runs).items():
        if figure.chart is None:
            continue
        scale = layers(figure)["point"]["color"]["scale"]
        for line, colour in zip(scale["domain"], scale["range"], strict=True):
            if name.startswith("policy-"):
                blues.setdefault(line, set()).add(colour)
            else:
                hues.setdefault(line.split(",")[0], set()).add(colour)
    assert {policy: len(colours) for policy, colours in hues.items()} == {"fifo": 1, "sjf": 1}
    assert hues["fifo"] != hues["sjf"]
    assert len(blues) == 9
    assert all(len(colours) == 1 for colours in blues.values())
    assert not set().union(*hues.values()) & set().union(*blues.values())
    # Lines of one hue differ in dashes, their dots in shape.
    encodings = layers(drawn(runs)["kappa-mean-jct"])
    dashes = encodings["line"]["strokeDash"]["scale"]
    symbols = encodings["point"]["shape"]["scale"]
    assert dashes["domain"] == symbols["domain"]
    fifo = [n for n, line in enumerate(dashes["domain"]) if line.startswith("fifo")]
    assert len({str(dashes["range"][n]) for n in fifo}) == len({symbols["range"][n] for n in fifo}) == 3


def test_settings_alone_failed_runs_and_loads_as_recorded(folder: Path) -> None:
    runs = read_sweep(folder)
    frame = runs.frame.filter(kappa=1, inter_bandwidth=1e9, seed=0)
    one = only(runs, frame, "policy", "kappa")
    assert [(axis.name, axis.values, axis.places) for axis in one.axes] == [("policy", ("fifo", "sjf"), None)]
    failed = frame.with_columns(error=pl.when(pl.col("policy") == "sjf").then(pl.lit("broken")))
    made = drawn(only(runs, failed, "policy"))["policy-mean-jct"]
    assert [row["at"] for row in kept(made)] == ["fifo"]
    loads = pl.concat([frame.with_columns(load=pl.lit(load, pl.Float64)) for load in (None, 0.9)])
    made = drawn(only(runs, loads, "load"))["load-mean-jct"]
    assert {row["at"] for row in kept(made)} == {"as recorded", "0.9"}


def test_a_chart_that_would_be_empty_is_its_sentence(folder: Path) -> None:
    runs = read_sweep(folder)
    idle = only(runs, runs.frame.with_columns(p90_wait=0.0), "kappa")
    figure = drawn(idle)["kappa-p90-wait"]
    assert (figure.chart, figure.instead) == (None, "The p90 waiting time is 0 at every point.")
    text, charts = sweep_page(idle, title="t")
    assert figure.instead in text
    assert figure not in charts


@pytest.fixture
def aimed(small_jobs: Path, tmp_path: Path) -> SweepRuns:
    """A sweep over clusters, given out of order, with a target."""
    clusters = ["3x8", "1x8", "9x8", "2x8"]
    document = {"base": {"trace": str(small_jobs)}, "grid": {"cluster": clusters, "policy": ["fifo", "sjf"]}}
    search = asked(document, Seeds(2), "p90_wait", "2min", None)
    search.run(lambda spec: sweep(spec, tmp_path / "aimed"))
    return read_sweep(tmp_path / "aimed")


def test_a_cluster_counts_as_its_gpus_and_the_target_is_drawn(aimed: SweepRuns) -> None:
    cluster, policy = aimed.axes
    assert (cluster.values, cluster.places) == (("1x8", "2x8", "3x8", "9x8"), (8.0, 16.0, 24.0, 72.0))
    assert policy.places is None
    made = drawn(aimed)
    first = next(iter(made.values()))
    assert first.name == "cluster-p90-wait"
    chart = first.chart.to_dict()
    rule, text, *_ = chart["layer"]
    assert rule["mark"]["strokeDash"] == [5, 4]
    assert [row["value"] for row in chart["datasets"][rule["data"]["name"]]] == [120.0]
    assert text["encoding"]["text"]["value"] == "target 2.00 min"
    assert layers(first)["line"]["x"]["title"] == "cluster, GPUs (log scale)"
    # Of other measures it is no target.
    assert "text" not in layers(made["cluster-mean-jct"])


def test_the_first_sentence_names_the_smallest_cluster_that_meets_the_target(aimed: SweepRuns) -> None:
    text, _ = sweep_page(aimed, title="t")
    (sentence,) = re.findall('<p class="answer">(.*?)</p>', text)
    meets = [point for point in aimed.points if point.figures["p90_wait"].value <= 120.0]
    smallest = min(meets, key=lambda point: (point.gpus, point.figures["p90_wait"].value))
    settings = smallest.settings
    assert sentence.startswith(
        f"Policy {settings['policy']}: the smallest cluster that meets p90 waiting time at most 2.0 min:"
        f" {settings['cluster']} ({smallest.gpus:.0f} GPUs),"
    )
    # The same lines are printed by the sweep, and the best points are by that measure.
    assert [point.figures["p90_wait"].value for point in aimed.ranked] == sorted(
        point.figures["p90_wait"].value for point in aimed.points
    )
    # Answers stand before figures, settings come last and are folded.
    places = [text.index(part) for part in ('class="answer"', "<figure", 'id="best"', 'id="settings"')]
    assert places == sorted(places)
    assert "<details><summary>Varied and common settings" in text[places[-1] :]


def test_two_settings_of_numbers_have_a_map_with_numbers_in_its_cells(folder: Path) -> None:
    runs = read_sweep(folder)
    figure = heat_map(runs)
    assert figure is not None
    assert figure.name == "map-mean-jct"
    cells = kept(figure)
    assert len(cells) == 9
    for cell in cells:
        mine = runs.frame.filter(kappa=int(cell["x"]), inter_bandwidth=float(cell["y"]))["mean_jct"]
        assert cell["value"] == pytest.approx(mine.mean(), rel=1e-9)
    marks = [layer["mark"]["type"] for layer in figure.chart.to_dict()["layer"]]
    assert marks == ["rect", "rect", "text"]
    assert "Averaged over policy and seed." in figure.note
    assert heat_map(only(runs, runs.frame, "policy", "kappa")) is None


def test_an_endless_setting_and_one_that_some_runs_lack(small_jobs: Path, tmp_path: Path) -> None:
    (tmp_path / "down.csv").write_text("server,down_at,up_at\n0,50,60\n")
    base = {"trace": str(small_jobs), "cluster": "2x8", "policy": "srtf"}
    sides = [{}, {"outages": str(tmp_path / "down.csv")}]
    intervals = [600.0, float("inf"), 60.0]
    runs = [{**side, "checkpoint_interval": interval} for side in sides for interval in intervals]
    sweep({"base": base, "runs": runs}, tmp_path / "sweep")
    swept = read_sweep(tmp_path / "sweep")
    made = drawn(swept)
    by_interval = made["checkpoint-interval-mean-jct"]
    assert layers(by_interval)["point"]["y"]["sort"] == ["60", "600", "inf"]
    assert {row["line"] for row in kept(by_interval)} == {
        "outages none",
        f"outages {tmp_path / 'down.csv'}",
    }
    text, _ = sweep_page(swept, title="t")
    assert "as recorded" not in text
    assert "60, 600, inf" in text
    for figure in made.values():
        if figure.chart is not None:
            json.dumps(on_white(figure), allow_nan=False)


@pytest.mark.parametrize(
    ("aim", "key"),
    [
        ({"measure": "utilisation"}, "aim"),
        ({"measure": "p90_wiat"}, "aim"),
        ("p90_wait", "aim"),
        ({"measure": "p90_wait", "target": "10min"}, "aim.target"),
        ({"measure": "p90_wait", "target": True}, "aim.target"),
    ],
)
def test_a_damaged_aim_is_told(folder: Path, aim: object, key: str) -> None:
    path = folder / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "aim": aim}))
    with pytest.raises(InputError, match=f"sweep.json: {key}: expected"):
        read_sweep(folder)


@pytest.mark.long
def test_the_page_and_its_refusals(folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("report", folder, "-o", "s.html", "--png", "pictures")
    assert (done.returncode, done.stderr) == (0, "")
    assert "13 charts of a sweep of 36 runs" in done.stdout
    text = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert "<title>small.csv on 4x2</title>" in text
    assert "All points, grouped by inter-bandwidth; in each group the best by mean completion time" in text
    names = {path.stem for path in (tmp_path / "pictures").glob("*.png")}
    assert names == {*drawn(read_sweep(folder)), "map-mean-jct"}
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
    assert "nothing was varied." in text
