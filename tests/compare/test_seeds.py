"""A comparison of several runs: the same figures, ranges and verdicts wherever they are told."""

from __future__ import annotations

import io
import json
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
from ringbco.reports.figures import Chapter, chapters
from ringbco.reports.html import page
from ringbco.reports.notebook import comparison_html
from ringbco.reports.reading import read_results
from ringbco.result.bound import of_results
from ringbco.result.comparison import Comparison
from ringbco.result.figures import COMPARED
from ringbco.run.draws import Draws
from ringbco.trace.jobs import as_table

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


def printed(made: Comparison) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    show("title", made, console, every=True)
    return console.export_text()


def told(made: Comparison, key: str) -> list[tuple[str, str]]:
    """The figure, and the range below it, as people read them, by label."""
    (measure,) = (measure for measure in COMPARED if measure.key == key)
    figures = [measure.brief(made.figure(label, key).value) for label in made.outcomes]
    below = [" ".join(made.beneath(label, measure)) for label in made.outcomes]
    return list(zip(figures, below, strict=True))


def test_each_run_is_a_replay_of_moved_submissions(jobs: pl.DataFrame, comparison: Comparison) -> None:
    draws = Draws(as_table(jobs), "moved", 0)
    for label in ("rand", "sjf-bco"):
        alone = [replay(draws.table(run), "3x8", policy=label, seed=run) for run in range(SEEDS)]
        for key in ("mean_jct", "p99_wait", "makespan"):
            values = [one.summary[key] for one in alone]
            assert comparison.values(label, key) == values
            figure = comparison.figure(label, key)
            assert (figure.value, figure.interval) == (values[0], (min(values), max(values)))
        assert comparison.outcomes[label].jobs.equals(alone[0].jobs)
        assert comparison.bounds_by_run[label] == [of_results({"": alone[0]})[""]]
    bound = comparison.figure("rand", "mean_jct_over_bound")
    assert bound.value is not None  # of run 0 alone
    assert bound.interval is None
    assert comparison.over.changed == ("submissions", "models", "placement")


@pytest.mark.parametrize("key", ["mean_jct", "p99_wait", "mean_jct_over_bound", "mean_contention"])
def test_terminal_page_and_notebook_tell_the_same(comparison: Comparison, key: str) -> None:
    (title,) = (measure.title for measure in COMPARED if measure.key == key)
    (measure,) = (measure for measure in COMPARED if measure.key == key)
    lines = [line for label in LABELS for line in comparison.beneath(label, measure)]
    parts = [value for value, _ in told(comparison, key)] + lines
    terminal = printed(comparison)
    for where in (terminal, text(comparison_html(comparison))):
        begin = where.index(title)
        # On a terminal the ends are a line of their own.
        row = where[begin : begin + 900]
        for part in parts:
            assert part in row, (part, row)
    shown = text(page(comparison, [Chapter("Jobs", [])], title="t").split("<body>")[1])
    for part in parts:
        assert part in shown, part
    for where in (shown, text(comparison_html(comparison))):
        for sentence in comparison.sentences():
            assert sentence in " ".join(where.split())
    for where in (terminal, shown, text(comparison_html(comparison))):
        for note in comparison.notes():
            assert note in " ".join(where.split())
    for cells in comparison.lines(measure).values():
        for cell in cells:
            assert cell in terminal
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
        figure, found = comparison.figure(label, measure), comparison.held(label, measure)
        assert (row["value"], row["runs"]) == (figure.value, figure.runs)
        assert (row["low"], row["high"]) == (figure.interval or (None, None))
        if label == "sjf":
            assert found is None
            assert row["ratio"] is None or row["ratio"] == pytest.approx(
                row["value"] / comparison.values("rand", measure)[0]
            )
        assert (row["verdict"] is None) == (label in ("rand", "sjf") or found is None)
        assert (row["sentence"] is None) == (row["verdict"] is None)
    assert document["notes"] == comparison.notes()
    assert (document["kind"], document["runs"]) == ("moved", SEEDS)
    again = read_results([tmp_path / "cmp"])
    assert again.sentences() == comparison.sentences()
    assert again.notes() == comparison.notes()
    for key in ("mean_jct", "mean_jct_over_bound", "p99_slowdown"):
        assert told(again, key) == told(comparison, key)
    written = report(tmp_path / "cmp", tmp_path / "page.html", png=tmp_path / "png")
    assert comparison.sentences()[0] in text(written.path.read_text())


def test_charts_say_of_which_seed_they_are(comparison: Comparison) -> None:
    figures = [figure for chapter in chapters(comparison) for figure in chapter.figures]
    for figure in figures:
        of_first = figure.of != "sjf" and figure.name != "mean"
        assert (f"The first of {SEEDS} runs." in figure.note) == of_first, figure.name
    body = text(page(comparison, chapters(comparison), title="t"))
    for label in LABELS:
        assert f"{label} " in body
    assert "6, seed 0 to 5" in body


def test_one_run_has_no_verdict_and_no_star(jobs: pl.DataFrame, tmp_path: Path) -> None:
    made = compare(jobs, "3x8", ["rand", "sjf"], seeds=1)
    assert made.frame.columns == ["measure", "policy", "value", "ratio", "best"]
    assert not made.frame["best"].any()
    assert "one run: add --seeds 6 to tell differences from chance" in printed(made)
    assert "best of its measure" not in printed(made)
    made.write(tmp_path / "cmp")
    assert (
        "by_run"
        not in json.loads((tmp_path / "cmp/comparison.json").read_text())["measures"]["mean_jct"]["sjf"]
    )


def test_two_to_five_runs_are_too_few(jobs: pl.DataFrame) -> None:
    made = compare(jobs, "3x8", ["rand", "sjf"], seeds=3)
    assert "too few runs: 3, at least 6 are needed" in printed(made)
    (verdict,) = made.frame.filter(policy="sjf", measure="mean_jct")["verdict"]
    assert verdict == "too few runs"
    assert not made.frame["best"].any()


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


def test_outcomes_stay_those_of_the_first_seed(jobs: pl.DataFrame, comparison: Comparison) -> None:
    first: Outcome = replay(jobs, "3x8", policy="rand", seed=0)
    assert comparison.outcomes["rand"].jobs.equals(first.jobs)
