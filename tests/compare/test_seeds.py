"""A comparison of several runs: the same figures, ranges and verdicts wherever they are told."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from comparisons import printed
from ringbco import compare, replay, report
from ringbco.errors import InputError
from ringbco.reports.facts import headline
from ringbco.reports.figures import Chapter, chapters
from ringbco.reports.html import page
from ringbco.reports.notebook import comparison_html
from ringbco.reports.reading import read_results
from ringbco.result.comparison import Comparison
from ringbco.result.figures import COMPARED

SEEDS = 6
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


def figures_shown(made: Comparison, key: str) -> list[tuple[str, str]]:
    """The figure, and the range below it, as people read them, by label."""
    (measure,) = (measure for measure in COMPARED if measure.key == key)
    figures = [measure.brief(made.figure(label, key).value) for label in made.outcomes]
    below = [" ".join(made.interval_lines(label, measure)) for label in made.outcomes]
    return list(zip(figures, below, strict=True))


@pytest.mark.parametrize("key", ["mean_jct", "p99_wait", "mean_jct_over_bound", "mean_contention"])
def test_terminal_page_and_notebook_tell_the_same(comparison: Comparison, key: str) -> None:
    (measure,) = (measure for measure in COMPARED if measure.key == key)
    every = [part for both in figures_shown(comparison, key) for part in both]
    terminal, notebook = printed(comparison, 200, every=True), text(comparison_html(comparison))
    shown = text(page(comparison, [Chapter("Jobs", [])], title="t").split("<body>")[1])
    # The page's columns have one unit, which their titles tell.
    (line,) = (line for group in headline(comparison) for line in group if line.title == measure.title)
    on_page = [part for cell in line.cells for part in (cell.text, *cell.below)]
    assert len(on_page) == len([part for part in every if part])
    for where, parts in ((terminal, every), (notebook, every), (shown, on_page)):
        begin = 0 if where is shown else where.index(measure.title)
        # On a terminal the ends are a line of their own.
        row = where[begin : None if where is shown else begin + 900]
        for part in parts:
            assert part in row, (part, row)
        for note in comparison.notes():
            assert note in " ".join(where.split())
    for sentence in comparison.sentences():
        assert sentence in shown
        assert sentence in notebook
    assert all(cell in terminal for cells in comparison.lines(measure).values() for cell in cells)
    assert len(comparison.sentences()) == 1  # of sjf-bco: sjf has one run
    assert "one run, and so without a verdict: sjf" in comparison.notes()


@pytest.mark.long
def test_json_parquet_and_the_report_of_the_folder_tell_the_same(
    comparison: Comparison, tmp_path: Path
) -> None:
    comparison.write(tmp_path / "cmp")
    document: dict[str, Any] = json.loads((tmp_path / "cmp/comparison.json").read_text())
    frame = pl.read_parquet(tmp_path / "cmp/comparison.parquet")
    for row in frame.to_dicts():
        measure, label = row.pop("measure"), row.pop("policy")
        of = document["measures"][measure][label]
        assert of["by_run"] == comparison.values(label, measure)
        assert {name: of[name] for name in row} == row
        figure, result = comparison.figure(label, measure), comparison.difference(label, measure)
        assert (row["value"], row["runs"]) == (figure.value, figure.runs)
        assert (row["low"], row["high"]) == (figure.interval or (None, None))
        assert (result is None) or label != "sjf"
        if label == "sjf" and row["ratio"] is not None:
            of_base = comparison.values("rand", measure)[0]
            assert row["ratio"] == pytest.approx(row["value"] / of_base)
        assert (row["verdict"] is None) == (label in ("rand", "sjf") or result is None)
        assert (row["sentence"] is None) == (row["verdict"] is None)
    assert document["notes"] == comparison.notes()
    assert (document["kind"], document["runs"]) == ("moved", SEEDS)
    again = read_results([tmp_path / "cmp"])
    assert again.sentences() == comparison.sentences()
    assert again.notes() == comparison.notes()
    for key in ("mean_jct", "mean_jct_over_bound", "p99_slowdown"):
        assert figures_shown(again, key) == figures_shown(comparison, key)
    written = report(tmp_path / "cmp", tmp_path / "page.html", png=tmp_path / "png")
    assert comparison.sentences()[0] in text(written.path.read_text())


def test_charts_say_of_which_seed_they_are(comparison: Comparison) -> None:
    figures = [figure for chapter in chapters(comparison) for figure in chapter.figures]
    for figure in figures:
        of_first = figure.of != "sjf" and figure.name != "mean"
        assert (f"Run 0 of {SEEDS}." in figure.note) == of_first, figure.name
    body = text(page(comparison, chapters(comparison), title="t"))
    for label in LABELS:
        assert f"{label} " in body
    assert "6, seed 0 to 5" in body


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        (1, "one run: add --seeds 6 to tell differences from chance"),
        (3, "too few runs: 3, at least 6 are needed for verdicts: add --seeds 6"),
    ],
)
def test_few_runs_have_no_star(jobs: pl.DataFrame, seeds: int, said: str) -> None:
    made = compare(jobs, "3x8", ["rand", "sjf"], seeds=seeds)
    shown = printed(made, 200, every=True)
    assert said in shown
    assert "best of its measure" not in shown
    assert not made.frame["best"].any()
    if seeds > 1:
        (row,) = made.frame.filter(policy="sjf", measure="mean_jct").to_dicts()
        assert (row["verdict"], row["sentence"]) == ("too few runs", said)
        assert made.sentences() == []  # it is said once


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("summaries_by_run", {"rand": 5}, "summaries_by_run.rand"),
        ("summaries_by_run", 5, "summaries_by_run.rand"),
        ("summaries_by_run", {"rand": [{"mean_jct": "x"}]}, "summaries_by_run.rand"),
        ("mean_jct_bounds_by_run", {"rand": ["x"] * SEEDS}, "mean_jct_bounds_by_run.rand"),
        ("kind", "guessed", "kind"),
        ("changed", [5], "changed"),
        ("epoch", 5, "epoch"),
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
