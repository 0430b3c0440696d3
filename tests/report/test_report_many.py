"""Reports of more results than fit beside each other: bounded charts, lines told apart, tables of rows."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from ringbco import replay
from ringbco.reports import charts
from ringbco.reports.figures import Chapter, chapters
from ringbco.reports.html import page
from ringbco.reports.plots import Plots
from ringbco.reports.reading import read_results
from ringbco.reports.series import Figure
from ringbco.reports.style import on_white
from ringbco.reports.tones import COLOURS, FIRST, GREY, tone_name
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from ringbco.run.options import resolve_policy

ALTAIR_REFUSES = 5_000
POLICIES = (
    *("fifo", "sjf", "smallest", "sjf-bco", "ff", "ls", "rand"),
    *("srtf", "tiresias", "gittins", "qssf", "ftf", "time-slice"),
)


@pytest.fixture(scope="module")
def thirteen() -> dict[str, Outcome]:
    """Thirteen policies on enough jobs that every distribution has all the points it can."""
    draw = np.random.default_rng(2)
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(600)],
            "submit_time": np.sort(draw.uniform(0, 60_000, 600)),
            "num_gpus": pl.Series(draw.choice([1, 2, 4, 8, 12], 600), dtype=pl.UInt32),
            "duration": draw.lognormal(6, 1.5, 600),
            "user": draw.choice([f"u{number}" for number in range(20)], 600),
        }
    )
    return {policy: replay(jobs, "4x8", policy=policy) for policy in POLICIES}


@pytest.fixture(scope="module")
def forty(thirteen: dict[str, Outcome]) -> dict[str, Outcome]:
    return {f"{label} {number}": outcome for number in range(4) for label, outcome in thirteen.items()}


def drawn(made: list[Chapter]) -> dict[str, Figure]:
    return {figure.name: figure for chapter in made for figure in chapter.figures}


Drawn = Callable[[str], list[Chapter]]


@pytest.fixture(scope="module")
def chapters_of(thirteen: dict[str, Outcome], forty: dict[str, Outcome]) -> Drawn:
    return cache(lambda many: chapters({"thirteen": thirteen, "forty": forty}[many]))


def rows(document: dict[str, Any]) -> int:
    return max(map(len, document["datasets"].values()))


def test_the_presets_are_policies() -> None:
    assert all(resolve_policy(policy).name == policy for policy in POLICIES)


@pytest.mark.parametrize("many", ["thirteen", pytest.param("forty", marks=pytest.mark.long)])
def test_every_chart_has_bounded_data(many: str, request: pytest.FixtureRequest, chapters_of: Drawn) -> None:
    results: dict[str, Outcome] = request.getfixturevalue(many)
    figures = drawn(chapters_of(many))
    for figure in figures.values():
        if figure.chart is not None:
            assert rows(on_white(figure)) < ALTAIR_REFUSES, figure.name
    # Every result has its line, and the page says how much of it is drawn.
    lines = figures["jct"].chart.to_dict()
    labels = {row["policy"] for row in next(iter(lines["datasets"].values()))}
    assert labels == set(results)
    each = charts.points_each(len(results))
    assert each < 400
    assert f"Lines show {each} of their points." in figures["jct"].note
    intervals = charts.intervals_each(len(results))
    assert (f"over {intervals} equal intervals" in figures["utilisation"].note) == (intervals < 160)


def test_any_number_of_results_leaves_points() -> None:
    for results in (1, 12, 13, 40, 1_000, 100_000):
        assert 2 <= charts.points_each(results) <= 400
        assert 2 <= charts.intervals_each(results) <= 160
        if results <= 1_000:
            assert results * charts.points_each(results) < ALTAIR_REFUSES


def test_a_limit_of_altairs_is_no_limit_here(thirteen: dict[str, Outcome]) -> None:
    data = pl.DataFrame({"x": range(6_000)})
    figure = Figure("x", "x", "x", alt.Chart(data).mark_point().encode(x="x:Q"))
    assert rows(on_white(figure)) == 6_000


@pytest.mark.long
def test_notebook_charts_of_many(forty: dict[str, Outcome]) -> None:
    plots = Plots(forty)
    for name in ("jct", "wait", "slowdown", "busy", "queue", "contention", "jct_by_size"):
        document = getattr(plots, name)().to_dict()  # altair's own limit holds in a notebook
        assert rows(document) < ALTAIR_REFUSES
        assert "strokeDash" in json.dumps(document)


def test_sizes_of_many_are_gathered(thirteen: dict[str, Outcome]) -> None:
    wide = {
        label: dataclasses.replace(
            outcome, jobs=outcome.jobs.with_columns(num_gpus=pl.int_range(1, 601, dtype=pl.UInt32))
        )
        for label, outcome in thirteen.items()
    }
    document = Plots(wide).jct_by_size().to_dict()
    shown = pl.DataFrame(next(iter(document["datasets"].values())))
    assert set(shown["num_gpus"]) == {2**power for power in range(11)}
    assert shown["jobs"].sum() == 600 * len(thirteen)
    assert "power of two" in document["title"]


@pytest.mark.parametrize("baseline", ["best", "worst"])
def test_the_baseline_and_the_best_have_a_colour_and_the_rest_are_grey(
    thirteen: dict[str, Outcome], baseline: str
) -> None:
    order = sorted(thirteen, key=lambda label: thirteen[label].summary["mean_jct"])
    against = order[0 if baseline == "best" else -1]
    named = [*order[:FIRST]] if baseline == "best" else [*order[: FIRST - 1], against]
    others = f"{len(order) - FIRST} others"
    compared = Comparison(thirteen, baseline=against)
    figures = drawn(chapters(compared))
    for name in ("mean", "who-sizes", "who-owners", "jct", "wait", "sizes", "groups", "waits", "utilisation"):
        document = figures[name].chart.to_dict()
        (data,) = document["datasets"].values()
        shades = {row["policy"]: row["shade"] for row in data}
        assert shades == {label: label if label in named else others for label in order}
        colour = document.get("layer", [document])[-1]["encoding"]["color"]["scale"]
        assert colour["domain"] == [*named, others]
        looks = dict(zip(colour["domain"], colour["range"], strict=True))
        assert looks[against] == COLOURS[4]
        assert looks[others] == GREY
        assert len(set(colour["range"])) == FIRST + 1
        # Grey lines and dots lie below the others.
        first = next(n for n, row in enumerate(data) if row["shade"] != others)
        assert all(row["shade"] != others for row in data[first:])
        if name in ("jct", "wait", "utilisation"):
            dashes = document["encoding"]["strokeDash"]["scale"]["range"]
            assert len({tuple(dash) for dash in dashes[:FIRST]}) == FIRST
    # The tables draw its line, too.
    text = page(compared, [], title="t")
    (line,) = set(re.findall(rf'class="name"><svg.*?var\((--c\d)\).*?</svg>{against}</th>', text))
    assert line == tone_name(COLOURS[4])


def test_six_results_have_a_legend_entry_each(thirteen: dict[str, Outcome]) -> None:
    order = sorted(thirteen, key=lambda label: thirteen[label].summary["mean_jct"])
    six = drawn(chapters({label: thirteen[label] for label in order[:6]}))["jct"].chart.to_dict()
    assert six["encoding"]["color"]["scale"]["domain"] == order[:6]
    assert len(set(six["encoding"]["color"]["scale"]["range"])) == 6


def test_of_many_the_first_eight_have_charts_of_their_own(chapters_of: Drawn) -> None:
    figures = drawn(chapters_of("thirteen"))
    for kind in ("servers", "causes"):
        own = [figure for name, figure in figures.items() if name.startswith(kind)]
        assert len(own) == 8
        assert all("first 8 of 13 results" in figure.note for figure in own if not figure.instead)


class _Tables(HTMLParser):
    """The texts of a page's table cells: a list of rows a table."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.tables[-1][-1][-1] += data


def headlines(results: dict[str, Outcome]) -> str:
    """The section of a page's headline figures."""
    text = page(results, [], title="t").partition('<h2 id="figures">')[2]
    return text.partition("</section>")[0]


def test_results_are_rows_sorted_by_mean_completion_time(thirteen: dict[str, Outcome]) -> None:
    order = sorted(thirteen, key=lambda label: thirteen[label].summary["mean_jct"])
    for few in (13, 4):
        parser = _Tables()
        parser.feed(headlines({label: one for label, one in thirteen.items() if label in order[:few]}))
        for table in parser.tables:
            assert [row[0] for row in table[1:]] == order[:few]
        assert [title.partition(",")[0] for title in parser.tables[0][0]] == [
            "",
            "mean",
            "median",
            "p90",
            "p99",
        ]
        titles = [title for table in parser.tables for title in table[0][1:]]
        assert len(titles) == len(Comparison(thirteen).display_rows)
        assert titles.index("utilisation to last submission,\N{NO-BREAK SPACE}%") < titles.index(
            "utilisation, whole run,\N{NO-BREAK SPACE}%"
        )
        assert "worst slowdown" in titles
        assert not any("fairness" in title for title in titles)


@pytest.mark.long
def test_a_page_of_forty(
    forty: dict[str, Outcome],
    thirteen: dict[str, Outcome],
    chapters_of: Drawn,
    tmp_path: Path,
    invoke: Invoke,
) -> None:
    text = page(forty, chapters_of("forty"), title="forty")
    assert text.count("<details") == len(forty) + 1 >= 40
    folders = []
    for label, outcome in thirteen.items():
        outcome.write(tmp_path / label)
        folders.append(tmp_path / label)
    assert list(read_results(folders).outcomes) == list(thirteen)
    done = invoke("report", *folders, "-o", "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "charts of fifo, sjf" in done.stdout
