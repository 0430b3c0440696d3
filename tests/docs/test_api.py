"""The Python API as its users type it, and the notebook that shows it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ringbco as rb
from ringbco.errors import InputError
from ringbco.io.frames import as_polars
from ringbco.reports.charts import png

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "quickstart.ipynb"


class Cells(HTMLParser):
    """The texts of an HTML fragment's cells; complains about tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "br":  # it has no end
            self.open.append(tag)
        if tag in ("td", "th"):
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.texts[-1] += data


@pytest.fixture
def outcome(small_jobs: Path) -> rb.Outcome:
    return rb.replay(small_jobs, "2x8", policy="fifo")


# What is imported, and when


def test_the_page_lists_every_public_name() -> None:
    page = (NOTEBOOK.parents[1] / "api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)", row)} | {"Outcome", "Comparison"}
    assert set(rb.__all__) <= listed
    assert "## Outcome" in page
    assert "A `Comparison` has" in page


@pytest.mark.long
def test_importing_is_cheap_and_the_names_are_what_they_say() -> None:
    code = (
        "import sys, ringbco as rb\n"
        "heavy = {'numpy', 'polars', 'pyarrow', 'altair', 'pandas', 'distributed'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "import ringbco.run.compare, ringbco.sweeps.run, ringbco.run.replay, ringbco.audits\n"
        "print(*(name for name in rb.__all__ if callable(getattr(rb, name))))\n"
        "assert not {'altair', 'pandas', 'distributed'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == set(rb.__all__) - {"__version__", "errors"}


# Job tables of other libraries


def frames(path: Path) -> dict[str, Any]:
    """One job table as every library has it."""
    frame = pl.read_csv(path).with_columns(user=pl.Series(["x", None, "y", "x", "y", "x", "x"]))
    table = frame.to_arrow()
    pandas = table.to_pandas()
    return {
        "polars": frame,
        "lazy": frame.lazy(),
        "pyarrow": table,
        "batch": table.to_batches()[0],
        "reader": pa.table(table).to_reader(),
        "pandas": pandas,
        "pandas filtered": pd.concat([pandas, pandas]).iloc[7:],
        "pandas by id": pandas.set_index("job_id"),
        "pandas categories": pandas.astype({"user": "category", "num_gpus": "float64"}),
    }


@pytest.mark.parametrize(
    "kind",
    ["polars", "lazy", "pyarrow", "batch", "reader", "pandas", "pandas filtered", "pandas by id"]
    + ["pandas categories"],
)
def test_tables_of_other_libraries(small_jobs: Path, kind: str) -> None:
    given = frames(small_jobs)
    table = rb.from_frame(given[kind])
    expected = rb.from_frame(given["polars"]).frame
    assert table.frame.select(expected.columns).equals(expected)
    assert set(table.frame.columns) == set(expected.columns)
    fresh = frames(small_jobs)[kind]  # a reader is read once
    assert rb.replay(fresh, "2x8", seed=1).jobs.equals(rb.replay(expected, "2x8", seed=1).jobs)


def test_paths_and_job_tables(small_jobs: Path) -> None:
    table = rb.read_jobs(small_jobs)
    outcomes = [rb.replay(jobs, "2x8") for jobs in (small_jobs, str(small_jobs), table)]
    for outcome in outcomes:
        assert outcome.jobs.equals(outcomes[0].jobs)


@pytest.mark.parametrize("jobs", [[1, 2], {"job_id": ["a"]}, None, 3])
def test_what_is_no_table(jobs: Any) -> None:
    with pytest.raises(InputError, match=rf"expected a path, a JobTable, .*, not {type(jobs).__name__}$"):
        rb.replay(jobs, "2x8")


def test_tables_that_cannot_be_job_tables() -> None:
    doubled = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InputError, match="column a: expected each column once"):
        as_polars(doubled)
    with pytest.raises(InputError, match="submit_time"):
        rb.from_frame(pd.DataFrame({"job_id": ["a"], "num_gpus": [1], "duration": [1.0]}))
    holes = pd.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, None], "num_gpus": [1, 1], "duration": [1.0, 1.0]}
    )
    with pytest.raises(InputError, match="<frame>: row 2, column submit_time: null"):
        rb.from_frame(holes)
    odd = pa.table({"job_id": pa.array([None], pa.month_day_nano_interval())})
    with pytest.raises(InputError, match="jobs: this Table is no readable table"):
        as_polars(odd)


# In a notebook


def test_an_outcome_shows_itself(outcome: rb.Outcome) -> None:
    assert repr(outcome) == "<Outcome: 7 jobs on 2x8 under fifo>"
    cells = Cells(outcome._repr_html_()).texts
    assert cells[:6] == ["", "mean", "median", "p90", "p99", "completion time"]
    assert cells[6] == f"{outcome.summary['mean_jct'] / 60:.1f} min"
    outcome.run["trace"]["path"] = "<script>"
    assert "<script>" not in outcome._repr_html_()
    read = rb.Outcome(pl.DataFrame(), None, pl.DataFrame())
    assert repr(read) == "<Outcome: 0 jobs on ? under ?>"


def test_a_comparison_shows_itself(small_jobs: Path) -> None:
    comparison = rb.compare(small_jobs, "2x8", ["fifo", "time-slice"])
    assert repr(comparison) == "<Comparison: fifo, time-slice>"
    html = comparison._repr_html_()
    cells = Cells(html).texts
    assert cells[:3] == ["", "fifo", "time-slice"]
    assert cells[3] == "mean completion time"
    best = [entry.best for entries in comparison.display_rows.values() for entry in entries]
    assert html.count("<strong>") == sum(best) > 0


@pytest.mark.parametrize("chart", ["jct", "wait", "slowdown", "busy", "queue", "contention", "jct_by_size"])
def test_every_plot_draws(outcome: rb.Outcome, small_jobs: Path, chart: str) -> None:
    alone = getattr(outcome.plot, chart)()
    assert isinstance(alone, alt.Chart)
    both = outcome.compare(rb.replay(small_jobs, "2x8", policy="ff"))
    overlaid = getattr(both.plot, chart)()
    assert set(overlaid.data["policy"]) == {"fifo", "ff"}
    assert png(overlaid).startswith(b"\x89PNG")
    assert f".{chart}()" in repr(outcome.plot)


@pytest.mark.parametrize("name", ["jct", "wait", "slowdown"])
def test_a_plot_of_shares_is_of_its_own_column(outcome: rb.Outcome, name: str) -> None:
    data = getattr(outcome.plot, name)().data
    values = outcome.jobs["wait_time" if name == "wait" else name].to_numpy().clip(min=1.0)  # of a log scale
    assert data["value"].n_unique() > 2
    for value, share in data.group_by("value").agg(pl.col("share").max()).iter_rows():
        assert (values <= value * (1 + 1e-9)).mean() == pytest.approx(share)


@pytest.mark.parametrize(
    ("name", "column"), [("busy", "busy_gpus"), ("queue", "queued_gpus"), ("contention", "mean_contention")]
)
def test_a_plot_over_time_is_of_its_own_column(name: str, column: str) -> None:
    outcome = rb.replay(rb.generate("philly", 3_000, 1, gpus=128), "16x8", policy="rand")
    drawn = float(getattr(outcome.plot, name)().data["value"].mean())
    samples = outcome.timeline.filter(pl.col("time") <= outcome.jobs["submit_time"].max())
    means = samples.select(pl.col("busy_gpus", "queued_gpus", "mean_contention").mean()).row(0, named=True)
    assert drawn == pytest.approx(means[column], rel=0.1)


def test_plots_stay_small() -> None:
    outcome = rb.replay(rb.generate("philly", 20_000, 1, gpus=512), "64x8", sample=60.0)
    assert outcome.timeline.height > 20_000
    for chart in (outcome.plot.jct(), outcome.plot.queue(), outcome.plot.jct_by_size()):
        assert chart.data.height <= 500
        chart.to_dict()  # altair's own limit is 5,000 rows


# The notebook


def code_cells() -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_was_executed_in_order() -> None:
    cells = code_cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert set(kinds) == {"execute_result"}
    images = [output for cell in cells for output in cell["outputs"] if "image/png" in output["data"]]
    assert len(images) >= 3
    assert NOTEBOOK.stat().st_size < 400_000
    assert not re.search(r"/(root|home|tmp|work)/", NOTEBOOK.read_text())


def test_the_notebook_runs_and_still_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables must be those that the notebook holds; after a wanted change, execute it again (docs/api.md)."""
    monkeypatch.setenv("POLARS_TABLE_WIDTH", "100")
    names: dict[str, Any] = {}
    compared = 0
    for cell in code_cells():
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, str(NOTEBOOK), "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
            (output,) = cell["outputs"] or [None]
            if isinstance(value, pl.DataFrame):
                assert repr(value) == "".join(output["data"]["text/plain"])
                compared += 1
    alt.renderers.enable("default")
    assert compared == 4
