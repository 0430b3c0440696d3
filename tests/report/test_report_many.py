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
from ringbco.reports.series import COLOURS, Figure
from ringbco.reports.style import on_page, on_white
from ringbco.reports.tables import swatch
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
        for document in (on_page(figure), on_white(figure)):
            assert rows(document) < ALTAIR_REFUSES, figure.name
    # Every result has its line, and the page says how much of it is drawn.
    lines = figures["jct"].chart.to_dict()
    labels = {row["policy"] for row in next(iter(lines["datasets"].values()))}
    assert labels == set(results)
    each = charts.points_each(len(results))
    assert each < 400
    assert f"through {each} of its points" in figures["jct"].note
    stretches = charts.stretches_each(len(results))
    assert (f"over {stretches} even stretches" in figures["utilisation"].note) == (stretches < 160)


def test_any_number_of_results_leaves_points() -> None:
    for results in (1, 12, 13, 40, 1_000, 100_000):
        assert 2 <= charts.points_each(results) <= 400
        assert 2 <= charts.stretches_each(results) <= 160
        if results <= 1_000:
            assert results * charts.points_each(results) < ALTAIR_REFUSES


def test_a_limit_of_altairs_is_no_limit_here(thirteen: dict[str, Outcome]) -> None:
    data = pl.DataFrame({"x": range(6_000)})
    figure = Figure("x", "x", "x", alt.Chart(data).mark_point().encode(x="x:Q"))
    assert rows(on_page(figure)) == 6_000


@pytest.mark.long
def test_notebook_charts_of_many(forty: dict[str, Outcome]) -> None:
    plots = Plots(forty)
    for name in ("jct", "wait", "slowdown", "busy", "queue", "contention", "sizes"):
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
    document = Plots(wide).sizes().to_dict()
    shown = pl.DataFrame(next(iter(document["datasets"].values())))
    assert set(shown["num_gpus"]) == {2**power for power in range(11)}
    assert shown["jobs"].sum() == 600 * len(thirteen)
    assert "power of two" in document["title"]


def test_sixty_four_lines_can_be_told_apart() -> None:
    pairs = {(COLOURS[n % len(COLOURS)], tuple(dash)) for n, dash in enumerate(charts.dashes(64))}
    assert len(pairs) == 64
    assert len({swatch(number) for number in range(64)}) == 64
    assert charts.dashes(len(charts.COLOURS)) == [[1, 0]] * len(charts.COLOURS)


def test_maps_take_the_place_of_bars_beside_each_other(
    thirteen: dict[str, Outcome], chapters_of: Drawn
) -> None:
    figures = drawn(chapters_of("thirteen"))
    eight = drawn(chapters(dict(list(thirteen.items())[:8])))
    for name, value in (("sizes", "median"), ("groups", "median"), ("waits", "hours")):
        document = figures[name].chart.to_dict()
        assert "xOffset" not in json.dumps(document["encoding"])
        assert document["encoding"]["y"]["field"] == "policy"
        assert document["encoding"]["opacity"]["field"] == value
    assert "waits" not in eight
    assert "waits-8" in eight
    (data,) = figures["sizes"].chart.to_dict()["datasets"].values()
    ones = thirteen["srtf"].jobs.filter(pl.col("num_gpus") == 1)["jct"].to_numpy()
    (shown,) = (row for row in data if (row["policy"], row["size"]) == ("srtf", "1"))
    assert shown["median"] == pytest.approx(np.median(ones), rel=1e-4)
    # Of servers there are eight maps, and they say so.
    servers = [figure for name, figure in figures.items() if name.startswith("servers")]
    assert len(servers) == 8
    assert all("first 8 results of 13" in figure.note for figure in servers)


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
    text = page(results, [], title="t").partition("<h2>Headline figures</h2>")[2]
    return text.partition("</section>")[0]


def test_many_results_are_rows_sorted_by_mean_completion_time(thirteen: dict[str, Outcome]) -> None:
    parser = _Tables()
    text = headlines(thirteen)
    parser.feed(text)
    order = sorted(thirteen, key=lambda label: thirteen[label].summary["mean_jct"])
    for table in parser.tables:
        assert [row[0] for row in table[1:]] == order
    assert parser.tables[0][0] == ["", "mean", "median", "p90", "p99"]
    titles = [title for table in parser.tables for title in table[0][1:]]
    assert len(titles) == len(Comparison(thirteen).shown)
    assert titles.index("utilisation to last submission") < titles.index("utilisation, whole run")
    assert "worst slowdown" in titles
    assert not any("fairness" in title for title in titles)
    # Values for the script, unrounded.
    values = re.findall(r'data-value="([^"]+)"', text)
    assert float(values[0]) == thirteen[order[0]].summary["mean_jct"]
    four = dict(list(thirteen.items())[:4])
    few = _Tables()
    few.feed(headlines(four))
    assert few.tables[0][0] == ["", *four]


@pytest.mark.long
def test_a_page_of_forty(
    forty: dict[str, Outcome],
    thirteen: dict[str, Outcome],
    chapters_of: Drawn,
    tmp_path: Path,
    invoke: Invoke,
) -> None:
    text = page(forty, chapters_of("forty"), title="forty")
    assert text.count('type="checkbox"') == len(forty) >= 40
    folders = []
    for label, outcome in thirteen.items():
        outcome.write(tmp_path / label)
        folders.append(tmp_path / label)
    assert list(read_results(folders).outcomes) == list(thirteen)
    done = invoke("report", *folders, "-o", "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "charts of fifo, sjf" in done.stdout
