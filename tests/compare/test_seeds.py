"""A comparison over several seeds: the same means and ends wherever they are told."""

from __future__ import annotations

import io
import json
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from ringbco import Outcome, compare, replay, report
from ringbco.cli.comparison import show
from ringbco.errors import InputError
from ringbco.reports.digits import told_all
from ringbco.reports.figures import Chapter, chapters
from ringbco.reports.html import page
from ringbco.reports.notebook import comparison_html
from ringbco.reports.reading import read_results
from ringbco.result.bound import of_results
from ringbco.result.comparison import Comparison
from ringbco.result.figures import COMPARED
from ringbco.result.seeds import over_seeds
from ringbco.result.told import difference, differences, notes

SEEDS = 4
LABELS = ["rand", "sjf-bco", "sjf"]


@pytest.fixture(scope="module")
def jobs() -> pl.DataFrame:
    """Jobs without models: each seed draws others, and so other run times and bounds."""
    numbers = range(40)
    return pl.DataFrame(
        {
            "job_id": [f"j{number}" for number in numbers],
            "submit_time": [13.0 * (number // 3) for number in numbers],
            "num_gpus": [1 + 7 * number % 12 for number in numbers],
            "duration": [40.0 + 97 * number % 600 for number in numbers],
        }
    )


@pytest.fixture(scope="module")
def comparison(jobs: pl.DataFrame) -> Comparison:
    return compare(jobs, "3x8", ["rand", "sjf-bco"], results=[replay(jobs, "3x8", policy="sjf")], seeds=SEEDS)


def text(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def printed(made: Comparison) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    show("title", made, console, every=True)
    return console.export_text()


def told(made: Comparison, key: str) -> list[tuple[str, str]]:
    """The mean, and the interval and the ends below it, as people read them, by label."""
    (measure,) = (measure for measure in COMPARED if measure.key == key)
    figures = [made.figure(label, key) for label in made.outcomes]
    means = measure.show_all([None if one is None else one.mean for one in figures])
    below = [" ".join(made.beneath(label, measure)) for label in made.outcomes]
    return list(zip(means, below, strict=True))


def test_what_is_told_of_a_figure() -> None:
    half = 4.302653 / math.sqrt(3)  # Student's t with two degrees; the standard deviation is 1
    assert over_seeds([3.0, 1, 2.0]) == (2.0, 1.0, 3.0, 3, pytest.approx((2 - half, 2 + half), rel=1e-6))
    assert over_seeds([5]) == (5.0, 5.0, 5.0, 1, None)
    assert over_seeds([3.0, None]) is None
    assert over_seeds([]) is None


def test_each_seed_has_a_bound_of_its_own(jobs: pl.DataFrame, comparison: Comparison) -> None:
    alone = [replay(jobs, "3x8", policy="rand", seed=seed) for seed in range(SEEDS)]
    bounds = [of_results({"": outcome})[""] for outcome in alone]
    assert comparison.bounds_by_seed["rand"] == bounds
    assert None not in bounds
    assert comparison.bounds["rand"] == pytest.approx(sum(bound or 0.0 for bound in bounds) / SEEDS)
    assert len(comparison.bounds_by_seed["sjf"]) == 1
    ratios = [one.summary["mean_jct"] / bound for one, bound in zip(alone, bounds, strict=True) if bound]
    figure = comparison.figure("rand", "mean_jct_over_bound")
    assert figure is not None
    assert figure[:4] == (pytest.approx(sum(ratios) / SEEDS), min(ratios), max(ratios), SEEDS)
    assert figure.least < figure.greatest


@pytest.mark.parametrize("key", ["mean_jct", "p99_wait", "mean_jct_over_bound", "mean_contention"])
def test_terminal_page_and_notebook_tell_the_same(comparison: Comparison, key: str) -> None:
    (title,) = (measure.title for measure in COMPARED if measure.key == key)
    (measure,) = (measure for measure in COMPARED if measure.key == key)
    lines = [line for label in LABELS for line in comparison.beneath(label, measure)]
    parts = [mean for mean, _ in told(comparison, key)] + lines
    terminal = printed(comparison)
    for where in (terminal, text(comparison_html(comparison))):
        begin = where.index(title)
        # On a terminal the ends are a line of their own.
        row = where[begin : begin + 900]
        for part in parts:
            assert part in row, (part, row)
    shown = text(page(comparison, [Chapter("Jobs", [])], title="t").split("<body>")[1])
    for part in (*told_all(measure, [entry.value for entry in comparison.rows[measure]]), *lines):
        assert part in shown, part
    for where in (terminal, shown, text(comparison_html(comparison))):
        assert f"over {SEEDS} seeds" in " ".join(where.split()).lower()
        for sentence in (*notes(comparison), *differences(comparison)):
            assert sentence in " ".join(where.split())
    assert len(differences(comparison)) == 3
    assert "of one run: sjf\n" in terminal


@pytest.mark.long
def test_json_parquet_and_the_report_of_the_folder_tell_the_same(
    comparison: Comparison, tmp_path: Path
) -> None:
    comparison.write(tmp_path / "cmp")
    document: dict[str, Any] = json.loads((tmp_path / "cmp/comparison.json").read_text())
    frame = pl.read_parquet(tmp_path / "cmp/comparison.parquet")
    for measure in comparison.rows:
        for label in LABELS:
            figure = comparison.figure(label, measure.key)
            of = document["measures"][measure.key]
            assert of["values"][label] == (figure and figure.mean)
            spread = comparison.spread(label, measure.key)
            assert of["spread"][label] == (spread and list(spread))
            if measure.key == "engine_seconds":  # which no Parquet file holds
                continue
            row = frame.row(
                by_predicate=(pl.col("measure") == measure.key) & (pl.col("policy") == label), named=True
            )
            assert (row["value"], row["seeds"]) == ((figure.mean, figure.seeds) if figure else (None, None))
            assert (row["least"], row["greatest"]) == (spread or (None, None))
            interval = figure and figure.interval
            assert of["interval"][label] == (interval and list(interval))
            assert (row["low"], row["high"]) == (interval or (None, None))
            pair = comparison.paired(label, measure.key) if label != "rand" else None
            assert row["difference"] == (pair and pair.share)
            assert (row["difference_low"], row["difference_high"]) == (
                (pair and pair.interval) or (None, None)
            )
            assert row["told"] == difference(comparison, label, measure)
            assert (of["difference"].get(label) or {}).get("told") == row["told"]
    assert document["mean_jct_bounds_by_seed"]["rand"] == comparison.bounds_by_seed["rand"]
    assert document["told"] == differences(comparison)
    assert document["notes"] == notes(comparison)
    again = read_results([tmp_path / "cmp"])
    assert differences(again) == differences(comparison)
    for key in ("mean_jct", "mean_jct_over_bound", "p99_slowdown"):
        assert told(again, key) == told(comparison, key)
    written = report(tmp_path / "cmp", tmp_path / "page.html", png=tmp_path / "png")
    assert f"Over {SEEDS} seeds" in text(written.path.read_text())


def test_charts_say_of_which_seed_they_are(comparison: Comparison) -> None:
    figures = [figure for chapter in chapters(comparison) for figure in chapter.figures]
    for figure in figures:
        of_first = figure.of != "sjf" and figure.name != "mean"
        assert (f"The first of {SEEDS} seeds." in figure.note) == of_first, figure.name
    body = text(page(comparison, chapters(comparison), title="t"))
    for label in LABELS:
        assert f"{label} " in body
    assert "4: 0 to 3" in body


def test_one_seed_says_nothing_of_seeds(jobs: pl.DataFrame) -> None:
    made = compare(jobs, "3x8", ["rand", "sjf"])
    body = page(made, [Chapter("Jobs", [])], title="t").split("<body>")[1].split("<script")[0]
    for where in (printed(made), text(body), text(comparison_html(made))):
        assert "seeds" not in where
        assert "always" not in where


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("summaries_by_seed", {"rand": 5}, "summaries_by_seed.rand"),
        ("summaries_by_seed", 5, "summaries_by_seed.rand"),
        ("summaries_by_seed", {"rand": [{"mean_jct": "x"}]}, "summaries_by_seed.rand"),
        ("mean_jct_bounds_by_seed", {"rand": [1.0]}, "mean_jct_bounds_by_seed.rand"),
        ("mean_jct_bounds_by_seed", {"rand": ["x"] * SEEDS}, "mean_jct_bounds_by_seed.rand"),
    ],
)
def test_a_damaged_document_is_named(
    comparison: Comparison, tmp_path: Path, key: str, value: object, named: str
) -> None:
    comparison.write(tmp_path / "cmp")
    path = tmp_path / "cmp/comparison.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InputError, match=re.escape(named)):
        read_results([tmp_path / "cmp"])


def test_a_document_of_an_earlier_version_has_no_bounds(comparison: Comparison, tmp_path: Path) -> None:
    comparison.write(tmp_path / "cmp")
    path = tmp_path / "cmp/comparison.json"
    document = json.loads(path.read_text())
    del document["mean_jct_bounds_by_seed"]
    path.write_text(json.dumps(document))
    read = read_results([tmp_path / "cmp"])
    assert read.bounds["rand"] is None
    assert told(read, "mean_jct") == told(comparison, "mean_jct")


def test_outcomes_stay_those_of_the_first_seed(jobs: pl.DataFrame, comparison: Comparison) -> None:
    first: Outcome = replay(jobs, "3x8", policy="rand", seed=0)
    assert comparison.outcomes["rand"].jobs.equals(first.jobs)
