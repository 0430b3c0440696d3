"""The report: what its charts count, its labels, its size, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from frames import busy_jobs
from ringbco import replay
from ringbco.errors import InputError, UsageError
from ringbco.reports import data_jobs, series
from ringbco.reports.facts import facts, headline
from ringbco.reports.figures import chapters, charts_of
from ringbco.reports.html import page
from ringbco.reports.pictures import write_pictures
from ringbco.reports.reading import read_results
from ringbco.reports.series import Figure
from ringbco.reports.server_load import mean_spanning
from ringbco.reports.style import on_white, render_chart
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from ringbco.result.schema import ALLOCATIONS_SCHEMA
from ringbco.trace.jobs import from_frame

CAUSES = tuple(data_jobs.CAUSES)
RUN_PARTS = ("run_spread", "run_contention")


@pytest.fixture(scope="module")
def results() -> dict[str, Outcome]:
    """Three policies on jobs that wait, span and contend."""
    jobs = busy_jobs()
    return {policy: replay(jobs, "4x4", policy=policy) for policy in ("fifo", "rand", "sjf-bco")}


@pytest.fixture
def folders(results: dict[str, Outcome], tmp_path: Path) -> list[Path]:
    for label, outcome in results.items():
        outcome.write(tmp_path / label)
    return [tmp_path / label for label in results]


def rows_of(figure: Figure) -> pl.DataFrame:
    """The data of a figure, which are drawn."""
    assert figure.data is not None
    assert figure.chart is not None
    return figure.data


def million(seed: int = 1) -> Outcome:
    """A result of 10^6 jobs as a replay of a large cluster leaves, without the replay."""
    rng = np.random.default_rng(seed)
    n, servers = 1_000_000, 512
    submit = np.sort(rng.uniform(0, 8e6, n))
    wait, run = rng.exponential(3_000, n), rng.lognormal(7, 2, n)
    gpus = 2 ** rng.integers(0, 7, n)
    spans = gpus > 8
    causes = wait[:, None] * rng.dirichlet((1, 1, 1), n)
    jobs = pl.DataFrame(
        {
            "job_id": [f"job-{row}" for row in range(n)],
            "submit_time": submit,
            "start_time": submit + wait,
            "finish_time": submit + wait + run,
            "wait_time": wait,
            "run_time": run,
            "jct": wait + run,
            "waited": wait,
            "slowdown": (wait + run) / run,
            "ideal_run_time": run * 0.9,
            "num_gpus": gpus.astype(np.uint32),
            "num_servers": np.where(spans, gpus // 8, 1).astype(np.uint32),
            "max_contention": spans.astype(np.uint32),
            "preemptions": np.zeros(n, np.uint32),
            **{name: causes[:, place] for place, name in enumerate(CAUSES)},
            "run_spread": run * 0.06,
            "run_contention": run * 0.04,
            "user": [f"user-{row % 5_003}" for row in range(n)],
        }
    )
    rows = np.repeat(np.arange(n), np.where(spans, gpus // 8, 1))
    allocations = pl.DataFrame(
        {
            "job_id": jobs["job_id"].gather(rows),
            "server": rng.integers(0, servers, rows.size).astype(np.uint32),
            "num_gpus": np.minimum(gpus[rows], 8).astype(np.uint32),
            "start_time": (submit + wait)[rows],
            "end_time": (submit + wait + run)[rows],
            "stay": np.zeros(rows.size, np.uint32),
        }
    )
    points = 2_000
    state = {
        name: rng.integers(0, 4_000, points)
        for name in ("running_jobs", "queued_jobs", "busy_gpus", "queued_gpus", "spanning_jobs")
    }
    timeline = pl.DataFrame(
        {"time": np.linspace(0, 9e6, points), **state, "mean_contention": rng.uniform(0, 4, points)}
    )
    summary = {"policy": "fifo", "jobs": n, "makespan": 9e6, "utilisation": 0.5, "mean_contention": 2.0}
    summary |= {
        f"{s}_{m}": 1.0
        for s in ("mean", "median", "p90", "p99")
        for m in ("jct", "wait", "time_to_start", "slowdown")
    }
    run = {
        "ringbco": {"version": "0"},
        "trace": {"path": "jobs.parquet", "rows": n},
        "cluster": {"name": "512x8", "servers": [{"count": servers, "gpus": 8}]},
        "options": {"policy": "fifo"},
    }
    return Outcome(jobs, allocations, timeline, summary, run)


def addresses(text: str) -> list[str | None]:
    """Every address that an element of a page names."""
    result = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            result.extend(
                value for name, value in attrs if name in ("src", "href", "action", "data", "srcset")
            )

    Reader().feed(text)
    return result


def drawn(results: dict[str, Outcome]) -> dict[str, Figure]:
    """The charts of these results by name."""
    return {figure.name: figure for chapter in chapters(results) for figure in chapter.figures}


# What the charts count


def test_the_parts_of_a_jobs_time_add_up(results: dict[str, Outcome]) -> None:
    assert set(CAUSES + RUN_PARTS) <= set(results["fifo"].jobs.columns)
    data = rows_of(drawn(results)["time"])
    for label, outcome in results.items():
        seconds = data.filter(pl.col("policy") == label)["seconds"].sum()
        assert seconds == pytest.approx(outcome.summary["mean_jct"], rel=1e-4)
    assert data["part"].n_unique() == 6


def test_results_without_causes_show_waiting_as_one(results: dict[str, Outcome]) -> None:
    plain = {
        label: dataclasses.replace(outcome, jobs=outcome.jobs.drop(*CAUSES, *RUN_PARTS))
        for label, outcome in results.items()
    }
    data = rows_of(drawn(plain)["time"])
    assert data["part"].n_unique() == 3
    seconds = data.filter(pl.col("policy") == "fifo")["seconds"].sum()
    assert seconds == pytest.approx(results["fifo"].summary["mean_jct"], rel=1e-4)
    assert not [name for name in drawn(plain) if name.startswith("causes")]
    fifo = rows_of(drawn(plain)["waits"]).filter(pl.col("policy") == "fifo")
    mean = (fifo["waited"] * fifo["jobs"]).sum() / fifo["jobs"].sum()
    assert mean == pytest.approx(results["fifo"].summary["mean_wait"], rel=1e-4)


def test_causes_of_waiting_by_size(results: dict[str, Outcome]) -> None:
    figures = [figure for name, figure in drawn(results).items() if name.startswith("causes-")]
    order = sorted(results, key=lambda label: results[label].summary["mean_jct"])
    assert [figure.of for figure in figures] == order
    jobs = results[order[0]].jobs
    data = rows_of(figures[0])
    large = jobs.filter(pl.col("num_gpus").is_between(5, 8))
    shown = data.filter(pl.col("size") == f"5\N{EN DASH}8 GPUs ({large.height} jobs)")
    assert set(shown["jobs"]) == {large.height}
    assert shown["wait"].sum() == pytest.approx(large["waited"].mean(), rel=1e-4)
    worst = data_jobs.longest(results["fifo"])
    waited = sorted(results["fifo"].jobs["waited"], reverse=True)
    assert worst["waited"].to_list() == waited[: data_jobs.LONGEST]


def test_the_percentiles_by_size(results: dict[str, Outcome]) -> None:
    data = rows_of(drawn(results)["sizes"])
    jobs = results["sjf-bco"].jobs.filter(pl.col("num_gpus").is_between(2, 4))["jct"].to_numpy()
    shown = data.filter((pl.col("policy") == "sjf-bco") & pl.col("size").str.starts_with("2\N{EN DASH}4"))
    assert shown["jobs"].item() == jobs.size
    wanted = np.percentile(jobs, (10, 50, 90))
    assert [shown[name].item() for name in ("low", "median", "high")] == pytest.approx(wanted, rel=1e-4)


def test_slowdown_by_group_names_the_busiest_and_counts_the_rest() -> None:
    rows = 400
    jobs = busy_jobs(rows).with_columns(user=pl.Series([f"u{min(row % 40, 25)}" for row in range(rows)]))
    outcome = replay(jobs, "16x4", policy="fifo")
    figure = drawn({"fifo": outcome})["groups"]
    assert "user" in figure.title
    assert "of 26 shown" in figure.note
    data = rows_of(figure)
    assert data["jobs"].sum() == rows
    assert "u25" in set(data["group"])
    assert data["group"].n_unique() == data_jobs.MOST_GROUPS + 1


def test_a_result_has_one_colour_in_all_charts(results: dict[str, Outcome]) -> None:
    """Also in those of features that other results do not have."""
    down = pl.DataFrame({"server": [0], "down_at": [900.0], "up_at": [2000.0]})
    mixed = results | {"failing": replay(busy_jobs(), "4x4", policy="fifo", outages=down)}
    order = list(Comparison(mixed).best_first.outcomes)
    looks = set()
    for figure in drawn(mixed).values():
        if figure.chart is not None and "shade" in (text := json.dumps(figure.chart.to_dict())):
            for names, colours in re.findall(
                r'\{"domain": \[([^]]*)\], "range": \[([^]]*)\]\}, "type": "nominal"\}', text
            ):
                looks.add((names, colours)) if "fifo" in names and "#" in colours else None
    ((names, colours),) = looks
    assert json.loads(f"[{names}]") == order
    # The first label, against which the others are held, has a colour of its own.
    places = iter((0, 1, 2, 3))
    told = [series.COLOURS[4 if label == next(iter(mixed)) else next(places)] for label in order]
    assert json.loads(f"[{colours}]") == told


def test_no_group_no_chart(results: dict[str, Outcome]) -> None:
    bare = {label: dataclasses.replace(o, jobs=o.jobs.drop("user")) for label, o in results.items()}
    assert "groups" not in drawn(bare)
    assert "who-owners" not in drawn(bare)


@pytest.mark.parametrize("seed", range(4))
def test_spanning_jobs_on_servers_against_a_count(seed: int) -> None:
    """Against a sum over every interval and every bin, one at a time."""
    rng = np.random.default_rng(seed)
    rows = []
    for job in range(30):
        start, length = rng.uniform(-20, 100), rng.choice([0.0, rng.uniform(0, 60)])
        servers = rng.choice(5, size=rng.integers(1, 4), replace=False)
        rows += [(f"j{job}", int(server), 1, start, start + length, 0) for server in servers]
    allocations = pl.DataFrame(rows, schema=ALLOCATIONS_SCHEMA, orient="row")
    edges = np.linspace(0.0, 100.0, 8)
    wanted = np.zeros((5, 7))
    per_job = allocations.group_by("job_id").len()
    spanning = set(per_job.filter(pl.col("len") > 1)["job_id"])
    for job, server, _, start, end, _ in rows:
        for place in range(7):
            inside = min(end, edges[place + 1]) - max(start, edges[place])
            wanted[server, place] += max(inside, 0.0) * (job in spanning) / (edges[1] - edges[0])
    assert mean_spanning(allocations, np.arange(6), edges) == pytest.approx(wanted, abs=2e-6)
    by_row = [wanted[:2].mean(axis=0), wanted[2:].mean(axis=0)]
    assert mean_spanning(allocations, np.array([0, 2, 5]), edges) == pytest.approx(np.stack(by_row), abs=2e-6)


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        (1, "1 GPU"),
        (2, "2\N{EN DASH}4 GPUs"),
        (4, "2\N{EN DASH}4 GPUs"),
        (9, "9\N{EN DASH}16 GPUs"),
        (33, "33+ GPUs"),
    ],
)
def test_size_classes(results: dict[str, Outcome], gpus: int, name: str) -> None:
    jobs = results["fifo"].jobs.head(2).with_columns(num_gpus=pl.lit(gpus, dtype=pl.UInt32))
    name = name.replace("-", "\N{EN DASH}")
    both = {"a": dataclasses.replace(results["fifo"], jobs=jobs)}
    assert list(series.size_names(both).values()) == [f"{name} (2 jobs)"]
    both["b"] = dataclasses.replace(results["fifo"], jobs=jobs.head(1))
    assert list(series.size_names(both).values()) == [f"{name} (1 to 2 jobs)"]


def test_the_tables(results: dict[str, Outcome]) -> None:
    told = {fact.title: fact.values for fact in facts(results)}
    assert told["policy"] == ("fifo", "rand", "sjf-bco")
    assert told["cluster"] == ("4x4: 16 GPUs in 4 servers",) * 3
    assert "alpha 0.3" in told["network"][0]
    lines = [line for group in headline(results) for line in group]
    jct = next(line for line in lines if line.title == "mean completion time")
    means = [outcome.summary["mean_jct"] for outcome in results.values()]
    assert not any(cell.best for cell in jct.cells)  # one run each
    assert jct.cells[0].beside == ""
    assert jct.cells[2].beside == f"\N{MULTIPLICATION SIGN}{means[2] / means[0]:.2f}"


# The page


@pytest.mark.long
def test_the_page_asks_for_nothing_and_trusts_no_name(results: dict[str, Outcome]) -> None:
    evil = '</script><img src="http://example.org/x">'
    outcome = dataclasses.replace(
        results["fifo"], jobs=results["fifo"].jobs.with_columns(user=pl.lit(evil), job_id=pl.lit(evil))
    )
    named = {evil: outcome, "b": results["rand"]}
    text = page(named, chapters(named), title=evil)
    assert evil not in text
    assert "default-src 'none'" in text
    assert "<script" not in text
    kinds = {str(address).partition(",")[0].partition("#")[0] for address in addresses(text)}
    assert kinds == {"data:", "", "data:image/svg+xml", "data:text/csv", "data:text/x-tex"}


@pytest.mark.long
def test_every_chart_is_drawn_in_the_pages_colours(results: dict[str, Outcome]) -> None:
    for chapter in chapters(results):
        for figure in chapter.figures:
            drawing = render_chart(figure)
            if drawing.instead:
                continue
            svg = str(drawing.svg)
            assert not re.findall(r"(?:fill|stroke)=\"#[0-9A-Fa-f]+", svg), figure.name
            assert "currentColor" in svg
            (_, name, address), *_ = drawing.links
            file = unquote(address)
            assert name == f"{figure.name}.svg"
            assert "var(" not in file
            assert ElementTree.fromstring(file.partition(",")[2]).tag.endswith("svg")
            assert "var(" not in json.dumps(on_white(figure))


@pytest.mark.long
def test_a_million_jobs_make_a_page_below_four_hundred_kilobytes() -> None:
    results = {"a": million()}
    made = chapters(results)
    text = page(results, made, title="large")
    assert len(text.encode()) < 400_000
    names = [figure.name for chapter in made for figure in chapter.figures]
    assert len(set(names)) == len(names) == 14


@pytest.mark.long
def test_a_result_of_one_job(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [5.0], "num_gpus": [1], "duration": [0.25]})
    one = {"one": replay(jobs, "1x1", policy="fifo", model="fixed", allocations=False)}
    made = chapters(one)
    assert page(one, made, title="one").count("<figure") == sum(len(chapter.figures) for chapter in made)
    write_pictures(charts_of(made), tmp_path)
    assert "servers-1.png" not in {path.name for path in tmp_path.iterdir()}


# Reading, and the command


def test_labels_are_the_shortest_that_differ(results: dict[str, Outcome], tmp_path: Path) -> None:
    for place in ("x/fifo", "y/fifo", "y/rand"):
        results["fifo"].write(tmp_path / place)
    read = read_results([tmp_path / "x/fifo", tmp_path / "y/rand"])
    assert list(read.outcomes) == ["fifo", "rand"]
    assert list(read_results([tmp_path / "x/fifo", tmp_path / "y/fifo"]).outcomes) == ["x/fifo", "y/fifo"]
    with pytest.raises(UsageError, match="given twice"):
        read_results([tmp_path / "x/fifo", tmp_path / "x/../x/fifo"])


def test_a_comparison_stands_for_its_results(tmp_path: Path, results: dict[str, Outcome]) -> None:
    Comparison({"b": results["rand"], "a": results["fifo"]}).write(tmp_path / "cmp")
    assert list(read_results([tmp_path / "cmp"]).outcomes) == ["b", "a"]


def test_what_is_no_result_is_refused(tmp_path: Path, results: dict[str, Outcome]) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="a result folder"):
        read_results([tmp_path / "empty"])
    with pytest.raises(InputError, match="a result folder"):
        read_results([tmp_path / "absent"])
    none = dataclasses.replace(results["fifo"], jobs=results["fifo"].jobs.clear())
    none.write(tmp_path / "none")
    with pytest.raises(InputError, match="holds no job"):
        read_results([tmp_path / "none"])


@pytest.mark.long
def test_the_command(folders: list[Path], invoke: Invoke, tmp_path: Path) -> None:
    run = invoke("report", *folders, "-o", "r.html", "--png", "p", "--title", "A & B")
    assert (run.returncode, run.stderr) == (0, "")
    text = Path("r.html").read_text(encoding="utf-8")
    assert "<title>A &amp; B</title>" in text
    names = set(re.findall(r'download="([\w-]+)\.svg"', text))
    assert {path.stem for path in Path("p").glob("*.png")} == names
    assert f"{len(names)} charts of fifo, rand, sjf-bco" in run.stdout
    for picture in Path("p").glob("*.png"):
        header = picture.read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(header[16:20], "big") > 700
    # The same results give the same page.
    output = json.loads(
        invoke("report", *folders, "-o", "r.html", "--title", "A & B", "--force", "--json").stdout
    )
    assert Path("r.html").read_text(encoding="utf-8") == text
    assert output["results"] == ["fifo", "rand", "sjf-bco"]
    assert output["bytes"] == Path("r.html").stat().st_size


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["nothing", "-o", "r.html"], 1, "a result folder of"),
        (["fifo", "-o", "there.html"], 1, "already exists"),
        (["fifo", "-o", "absent/r.html"], 1, "its folder does not exist"),
        (["fifo", "-o", "r.html", "--png", "mine", "--force"], 1, "no result of ringbco's"),
        (["fifo", "fifo", "-o", "r.html"], 2, "given twice"),
    ],
)
def test_refusals_leave_nothing(
    folders: list[Path], invoke: Invoke, arguments: list[str], status: int, says: str
) -> None:
    Path("there.html").write_text("mine")
    Path("mine").mkdir()
    (Path("mine") / "holiday.jpg").write_text("mine")
    before = sorted(Path.cwd().rglob("*"))
    run: SimpleNamespace = invoke("report", *arguments)
    assert run.returncode == status
    assert says in run.stderr
    assert run.stderr.count("\n") == 1
    assert sorted(Path.cwd().rglob("*")) == before
    assert Path("there.html").read_text() == "mine"


# Dates


@pytest.mark.parametrize(
    ("epoch", "told"),
    [
        (None, "2026-03-02 00:00:10"),  # Unix seconds
        ("1999-12-31T00:00:00", "2056-02-29 00:00:10"),
    ],
)
def test_why_and_the_report_tell_the_same_date(epoch: str | None, told: str, tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["first", "second"],
            "submit_time": [1_772_409_600.0, 1_772_409_610.0],
            "num_gpus": pl.Series([8, 8], dtype=pl.UInt32),
            "duration": [600.0, 60.0],
        }
    )
    table = from_frame(jobs, metadata={} if epoch is None else {"ringbco.epoch": epoch})
    replay(table, "1x8", policy="fifo").write(tmp_path / "fifo")
    (outcome,) = read_results([tmp_path / "fifo"]).outcomes.values()
    assert outcome.why("second").sentences[0].startswith(f"Submitted at {told}.")
    text = page({"fifo": outcome}, chapters({"fifo": outcome}), title="t")
    assert f'data-title="submitted at">{told}</td>' in text


def test_tables_tell_one_unit_a_column(results: dict[str, Outcome]) -> None:
    """Of several results, and of one, whose statistics are the rows."""
    for some in (results, {"fifo": results["fifo"]}):
        text = (
            page(some, chapters(some), title="t").partition('<h2 id="figures">')[2].partition("</section>")[0]
        )
        tables = re.findall(r"<table.*?</table>", text, re.S)
        cells = re.findall(r'<td role="cell" data-title="([^"]*)"[^>]*>([^<]*)', "".join(tables))
        assert len(cells) > 20
        mixed = [
            (title, text) for title, text in cells if re.search(r"\d [a-zA-Z%]", text) and title != "value"
        ]
        assert mixed == []
        titles = {title for title, _ in cells}
        assert any(re.search(r",\N{NO-BREAK SPACE}(s|min|h|d)$", title) for title in titles)


def test_all_of_a_column_is_in_its_unit(results: dict[str, Outcome]) -> None:
    seconds = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "ms": 1e-3, "µs": 1e-6}
    compared = Comparison(results)
    lines = {line.title: line for group in headline(compared) for line in group}
    times = 0
    for measure in compared.display_rows:
        line = lines[measure.title]
        if measure.unit != "time":
            continue
        for label, cell in zip(results, line.cells, strict=True):
            value = compared.figure(label, measure.key).value
            assert value is not None
            assert float(cell.text.replace(",", "")) * seconds[line.unit] == pytest.approx(value, rel=6e-3)
            times += 1
    assert times >= 8 * len(results)
