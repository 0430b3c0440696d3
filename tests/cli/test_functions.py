"""The verbs as functions: `ringbco.convert`, `inspect`, `report` and `timeline`."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import ringbco as rb
from conftest import Invoke
from raw import elasticflow, helios
from ringbco.errors import InputError, UsageError


@pytest.fixture
def outcome(small_jobs: Path) -> rb.Outcome:
    return rb.replay(small_jobs, "2x8", policy="fifo")


@pytest.mark.long
def test_a_name_is_the_function_whatever_was_imported_before() -> None:
    """`ringbco.report` is the function; no module is called so, and the parts are importable beside it."""
    code = """
import sys
for first in (
    "import ringbco.reports",
    "import ringbco.reports.charts",
    "from ringbco.reports import pictures",
    "import ringbco.audits.facts",
    "rb.report",
):
    # As in a new process, but that compiled code is loaded once.
    for name in [name for name in sys.modules if name.startswith("ringbco") and name != "ringbco._core"]:
        del sys.modules[name]
    import ringbco as rb
    exec(first)
    assert all(callable(f) for f in (rb.report, rb.timeline, rb.inspect, rb.convert, rb.audit)), first
    from ringbco.reports.html import page
    from ringbco.reports import figures
    from ringbco import report
    assert report is rb.report is rb.__dict__["report"] and callable(page), first
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# convert


def test_convert_gives_what_the_command_writes(invoke: Invoke, tmp_path: Path) -> None:
    log, gpus = helios.generate().write(tmp_path / "in")
    done = invoke("convert", "helios", log, gpus, "-o", "jobs.parquet", "--cluster-out", "c.toml")
    assert done.returncode == 0
    made = rb.convert("helios", [log, str(gpus)], cluster=True)
    assert made.table.frame.equals(rb.read_jobs("jobs.parquet").frame)
    assert made.table.metadata == rb.read_jobs("jobs.parquet").metadata
    assert made.cluster == rb.Cluster.parse("c.toml")
    rb.write_jobs(made.table, "again.parquet")
    assert Path("again.parquet").read_bytes() == Path("jobs.parquet").read_bytes()
    assert rb.convert("helios", log).cluster is None


def test_convert_takes_the_options_of_its_source(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("id,when,gpus,length\na,0,1,5\nb,4,2,0\n")
    names = {"job_id": "id", "submit_time": "when", "num_gpus": "gpus", "duration": "length"}
    made = rb.convert("csv", tmp_path / "mine.csv", column_map=names)
    assert made.table.frame.select("job_id", "num_gpus").rows() == [("a", 1)]
    assert sum(made.account.dropped.values()) == 1
    with pytest.raises(InputError, match="row 2"):
        rb.convert("csv", tmp_path / "mine.csv", column_map=names, strict=True)
    with pytest.raises(UsageError, match="--mode is not an option of csv"):
        rb.convert("csv", tmp_path / "mine.csv", mode="span")
    with pytest.raises(UsageError, match="option inputs"):
        rb.convert("csv", [3])  # type: ignore[list-item]
    [clean] = elasticflow.generate().write(tmp_path / "in")
    with pytest.raises(UsageError, match="does not say which servers"):
        rb.convert("elasticflow", clean, cluster=True)


# inspect


def test_inspect_gives_what_the_command_prints(invoke: Invoke, small_jobs: Path) -> None:
    said = json.loads(invoke("inspect", small_jobs, "--cluster", "2x8", "--json").stdout)
    for jobs in (small_jobs, str(small_jobs)):
        assert json.loads(json.dumps(rb.inspect(jobs, "2x8"))) == said
    cluster = rb.Cluster.parse("2x8")
    assert json.loads(json.dumps(rb.inspect(rb.read_jobs(small_jobs), cluster))) == said
    assert json.loads(json.dumps(rb.inspect(pl.read_csv(small_jobs), cluster))) == said | {
        "source": "<frame>"
    }


def test_inspect_counts_rows_that_replay_refuses(small_jobs: Path) -> None:
    lines = small_jobs.read_text().splitlines()
    small_jobs.write_text("\n".join([*lines, "h,5,0,10"]))
    inspection = rb.inspect(small_jobs)
    assert inspection["jobs"] == 7
    assert [row["rows"] for row in inspection["cleaning"]["dropped"]] == [1]
    small_jobs.write_text("\n".join([lines[0], "h,5,0,10"]))
    with pytest.raises(InputError, match="and no row is usable"):
        rb.inspect(small_jobs)
    with pytest.raises(UsageError, match="phily"):
        rb.inspect(small_jobs, shape="phily")


# report


@pytest.mark.long
def test_report_takes_outcomes_comparisons_and_folders(
    invoke: Invoke, outcome: rb.Outcome, small_jobs: Path, tmp_path: Path
) -> None:
    outcome.write(tmp_path / "fifo")
    assert invoke("report", "fifo", "-o", "cli.html").returncode == 0
    page = Path("cli.html").read_bytes()
    told = rb.report(tmp_path / "fifo", "folder.html")
    assert Path("folder.html").read_bytes() == page
    assert (told.path, told.bytes, told.results) == (Path("folder.html"), len(page), ("fifo",))
    assert told.charts > 5
    assert rb.report(outcome, "outcome.html").results == ("fifo",)
    assert Path("outcome.html").read_bytes() == page
    assert rb.report({"first come": outcome}, "label.html", title="A title of mine").results == (
        "first come",
    )
    assert "A title of mine" in Path("label.html").read_text()
    comparison = rb.compare(small_jobs, "2x8", ["fifo", "sjf"])
    comparison.write("cmp")
    rb.report(comparison, "comparison.html", png="pictures")
    charts = rb.report(["cmp"], "of-folder.html").charts
    assert Path("comparison.html").read_bytes() == Path("of-folder.html").read_bytes()
    assert len(list(Path("pictures").glob("*.png"))) == charts


def test_report_refuses(outcome: rb.Outcome, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("mine")
    for wrong in ([], {}, 3, [outcome], {"a": 3}):
        with pytest.raises(UsageError, match="option results: expected outcomes by label"):
            rb.report(wrong, tmp_path / "page.html")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"expected a name that ends in \.html"):
        rb.report(outcome, tmp_path / "page.pdf")
    with pytest.raises(InputError, match="already exists and is no page"):
        rb.report(outcome, tmp_path / "mine.html", force=True)
    outcome.jobs = outcome.jobs.with_columns(finish_time=pl.lit(float("inf")))
    with pytest.raises(InputError, match="finish_time"):
        rb.report(outcome, tmp_path / "page.html")
    assert [path.name for path in tmp_path.glob("*.html")] == ["mine.html"]


# timeline


@pytest.mark.long
def test_timeline_takes_an_outcome_or_a_folder(invoke: Invoke, outcome: rb.Outcome, tmp_path: Path) -> None:
    outcome.write(tmp_path / "r")
    cut = ("--from", "5", "--to", "200", "--servers", "1")
    assert invoke("timeline", "r", *cut, "-o", "cli.json").returncode == 0
    options = {"start": 5.0, "end": 200.0, "servers": "1"}
    for number, result in enumerate((outcome, tmp_path / "r")):
        settings = rb.timeline(result, f"{number}.json", **options)  # type: ignore[arg-type]
        assert Path(f"{number}.json").read_bytes() == Path("cli.json").read_bytes()
        events = json.loads(Path("cli.json").read_text())["traceEvents"]
        assert (settings.events, settings.window.servers) == (len(events), (1,))
        with pytest.raises(UsageError, match=r"ringbco play .+ --from 5 --to 200 --servers 1 -o 1\.html$"):
            rb.timeline(result, "2.json", png="1.png", **options)  # type: ignore[arg-type]
        assert not Path("2.json").exists()
    rb.timeline(outcome, "packed.json.gz")
    assert json.loads(gzip.decompress(Path("packed.json.gz").read_bytes()))["traceEvents"]
    with pytest.raises(UsageError, match=r"expected a name that ends in \.json"):
        rb.timeline(outcome, "trace.txt")
    outcome.allocations = None
    with pytest.raises(InputError, match="no allocations"):
        rb.timeline(outcome, "none.json")
