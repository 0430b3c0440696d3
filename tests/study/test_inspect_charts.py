"""The sheet of charts of `inspect`: what is drawn, and the files it becomes."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from ringbco.cluster.spec import Cluster
from ringbco.reports.pictures import sheet
from ringbco.reports.sheet import figures
from ringbco.reports.sheet_page import inspect_page
from ringbco.study.inspection import inspect_jobs
from ringbco.trace.jobs import from_frame, write_jobs
from ringbco.trace.synthetic import generate

Invoke = Callable[..., SimpleNamespace]

# What makes a browser fetch something.
LOADS = re.compile(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//|@import|url\(\s*["']?https?:|<link""", re.I)


def drawn(frame: pl.DataFrame, cluster: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """What each chart draws, of a table without an epoch."""
    seen = inspect_jobs(from_frame(frame), None if cluster is None else Cluster.parse(cluster))
    return {figure.name: figure.data.to_dicts() for figure in figures(frame, seen) if figure.data is not None}


FRAME = pl.DataFrame(
    {
        "job_id": list("abcde"),
        "submit_time": [0.0, 7_200.0, 7_200.0, 90_000.0, 90_001.0],
        "num_gpus": [1, 1, 2, 8, 64],
        "duration": [1.0, 100.0, 50.0, 1_000.0, 10.0],
        "user": ["u", "v", "u", None, "</script><script>alert(1)</script>"],
        "status": ["Pass", "Failed", "odd", None, "Pass"],
    },
    schema_overrides={"num_gpus": pl.UInt32},
)
WORK = 1 + 100 + 100 + 8_000 + 640


def test_synthetic_jobs_have_days_and_weekdays_but_no_dates() -> None:
    table = generate("philly", 300, seed=1)
    made = {figure.name: figure for figure in figures(table.frame, inspect_jobs(table, None))}
    arrivals, weekdays = made["arrivals"], made["weekdays"]
    assert arrivals.data is not None
    assert arrivals.data["from"].dtype.is_numeric()
    assert "day (synthetic jobs)" in json.dumps(arrivals.chart.to_dict())
    assert weekdays.data is not None
    assert weekdays.data["day"][0] == "Mon"


def test_sizes_and_days_and_cycles() -> None:
    data = drawn(FRAME)
    sizes = {(row["name"], row["of"]): row["share"] for row in data["sizes"]}
    assert sizes["1 GPU", "of jobs"] == 0.4
    assert sizes["8 GPUs", "of GPU time"] == 8_000 / WORK
    assert [(row["from"], row["to"], row["jobs"]) for row in data["arrivals"]] == [(0, 1, 3), (1, 2, 2)]
    hours = {row["hour"]: row["share"] for row in data["hours"]}
    assert (hours[0], hours[1], hours[2], len(hours)) == (0.2, 0.4, 0.4, 24)
    assert sum(row["share"] for row in data["weekdays"]) == pytest.approx(1)
    offered = [row["offered"] for row in data["load"]]
    assert offered == pytest.approx([201 / 86_400, 8_640 / 86_400])


def test_run_times_end_at_every_job_and_never_come_early() -> None:
    rows = drawn(FRAME)["run-times"]
    one = [(row["value"], row["share"]) for row in rows if row["size"] == "1 GPU: 2 jobs"]
    assert one[0][1] == 0.0
    # 1 s and 100 s: the second job may appear up to one bin late, never before it ended.
    assert one[1] == (1.0, 0.5)
    assert one[-1][1] == 1.0
    assert 100.0 * (1 - 1e-9) <= one[-1][0] < 105.0
    sizes = {row["size"].split(":")[0] for row in rows}
    assert sizes == {"1 GPU", "2\N{EN DASH}4 GPUs", "5\N{EN DASH}8 GPUs", "33+ GPUs"}


@pytest.mark.long
def test_statuses_and_users_sum_up() -> None:
    data = drawn(FRAME)
    every = {row["status"]: row["jobs"] for row in data["statuses"] if row["name"] == "all jobs"}
    assert every == {"Pass": 2, "Failed": 1, "odd": 1, "(none)": 1}
    assert list(every) == ["Pass", "Failed", "(none)", "odd"]  # by fate
    users = [row["name"] for row in data["top-users"] if row["of"] == "of jobs"]
    assert users[0] == "(none)"
    many = FRAME.head(1).join(pl.DataFrame({"n": range(30)}), how="cross")
    many = many.with_columns(user=pl.format("u{}", "n"), job_id=pl.format("j{}", "n")).drop("n")
    rest = drawn(many)["top-users"][-1]
    assert (rest["name"], rest["share"]) == ("20 others", pytest.approx(2 / 3))


@pytest.mark.long
def test_load_needs_a_cluster_and_virtual_clusters_have_their_own(tmp_path: Path) -> None:
    offered = [row["offered"] for row in drawn(FRAME, "2x8")["load"]]
    assert offered == pytest.approx([201 / 86_400 / 16, 8_640 / 86_400 / 16])
    frame = FRAME.with_columns(vc=pl.Series(["x", "x", "y", "y", "y"]))
    (tmp_path / "c.toml").write_text(
        '[[servers]]\ncount = 1\ngpus = 8\nvc = "x"\n[[servers]]\ncount = 1\ngpus = 8\nvc = "y"\n'
    )
    rows = drawn(frame, str(tmp_path / "c.toml"))["vc-loads"]
    assert [(row["vc"], row["level"]) for row in rows] == [
        *(("x (8 GPUs)", level) for level in ("below 20 %", "none")),
        *(("y (8 GPUs)", "below 20 %"),) * 2,
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "frame",
    [
        FRAME.head(1),
        FRAME.select("job_id", "submit_time", "num_gpus", "duration"),
        FRAME.with_columns(submit_time=pl.lit(0.0)),
        FRAME.with_columns(submit_time=pl.col("submit_time") * 1e6),
        FRAME.with_columns(duration=pl.lit(0.5)),
        FRAME.with_columns(user=pl.lit(None, pl.String), status=pl.lit(None, pl.String)),
    ],
    ids=["one job", "bare", "one instant", "centuries", "short runs", "nothing named"],
)
def test_odd_tables_can_be_drawn(frame: pl.DataFrame) -> None:
    seen = inspect_jobs(from_frame(frame), Cluster.parse("1x8"))
    assert sheet(figures(frame, seen), "t", ["s"]).startswith(b"\x89PNG\r\n\x1a\n")
    assert "NaN" not in inspect_page(frame, seen, title="t", said=["s"])


@pytest.mark.long
def test_a_large_table_makes_a_small_page() -> None:
    table = generate("helios", 200_000, 2)
    seen = inspect_jobs(table, Cluster.parse("preset:helios-venus"))
    text = inspect_page(table.frame, seen, title="t", said=["s"])
    assert len(text) < 700_000


# -- the command ---


@pytest.mark.long
def test_the_command_writes_a_picture_and_a_page(invoke: Invoke, tmp_path: Path) -> None:
    write_jobs(from_frame(FRAME), tmp_path / "jobs.parquet")
    done = invoke("inspect", "jobs.parquet", "--png", "a.png", "--html", "a.html", "--cluster", "16x8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "charts in a.png\ncharts in a.html\n" in done.stdout
    picture = (tmp_path / "a.png").read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert width > 1_500
    assert height > 2_000
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert not LOADS.search(text.replace('<link rel="icon" href="data:,">', ""))
    assert text.count("<svg") == text.count("<figure") > 6
    # Each chart has a heading of its own, and whoever looks first sees what the file holds.
    assert '<p class="answer">' in text
    names = re.findall(r'<figure id="([^"]+)"', text)
    assert len(set(names)) == len(names)
    assert "<title>jobs.parquet</title>" in text
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png", "jobs.parquet"]


@pytest.mark.long
def test_json_is_all_that_is_printed(invoke: Invoke, tmp_path: Path) -> None:
    write_jobs(from_frame(FRAME), tmp_path / "jobs.parquet")
    done = invoke("inspect", "jobs.parquet", "--json", "--png", "a.png", "--shape", "philly")
    seen = json.loads(done.stdout)
    assert seen["ties"]["jobs"] == 2
    assert seen["published"]["shape"] == "philly"
    assert {"demand", "account", "cluster"} <= seen.keys()
    assert (tmp_path / "a.png").is_file()


def test_the_published_figures_and_the_account_are_printed(invoke: Invoke, tmp_path: Path) -> None:
    from ringbco.sources.account import Account, Entry
    from ringbco.trace.jobs import provenance

    account = Account("jobs", 9, 5, (Entry("dropped", "never ran (no attempt)", 4, 4),))
    metadata = provenance("philly", converter="convert", rows_read=9, epoch="2017-08-07T10:00:00")
    write_jobs(from_frame(FRAME, metadata=metadata | account.to_metadata()), tmp_path / "jobs.parquet")
    done = invoke("inspect", "jobs.parquet")
    for words in (
        "published of philly",
        "117,325",
        "112,956",
        "never ran (no attempt)",
        "not the whole trace",
    ):
        assert words in done.stdout
    assert re.search(r"equal submit_time +2 jobs, 40\.0 %", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--png", "there.png"), 1, "there.png: already exists"),
        (("--html", "a.html", "--png", "there.png"), 1, "there.png: already exists"),
        (("--png", "none/a.png"), 1, "its folder does not exist"),
        (("--png", "a.svg"), 2, "option png: a.svg: expected a name that ends in .png"),
        (("--html", "a.png"), 2, "option html: a.png: expected a name that ends in .html"),
        (("--shape", "philli"), 2, "did you mean philly?"),
        (("--png", "a.png", "--cluster", "0x8"), 1, "0x8"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    invoke: Invoke, tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    write_jobs(from_frame(FRAME), tmp_path / "jobs.parquet")
    (tmp_path / "there.png").write_bytes(b"mine")
    refused = invoke("inspect", "jobs.parquet", *arguments)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (status, "", 1)
    assert words in refused.stderr
    assert (tmp_path / "there.png").read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.parquet", "there.png"]


@pytest.mark.long
def test_force_replaces_charts_but_not_the_table(invoke: Invoke, tmp_path: Path) -> None:
    write_jobs(from_frame(FRAME), tmp_path / "jobs.parquet")
    assert invoke("inspect", "jobs.parquet", "--png", "there.png").returncode == 0
    assert invoke("inspect", "jobs.parquet", "--png", "there.png", "--force").returncode == 0
    assert (tmp_path / "there.png").read_bytes()[:4] == b"\x89PNG"
    (tmp_path / "there.png").write_bytes(b"old")
    refused = invoke("inspect", "jobs.parquet", "--png", "there.png", "--force")
    assert "there.png: already exists and is no picture of `ringbco inspect`" in refused.stderr
    assert (tmp_path / "there.png").read_bytes() == b"old"
    (tmp_path / "link.png").symlink_to("jobs.parquet")
    before = (tmp_path / "jobs.parquet").read_bytes()
    refused = invoke("inspect", "jobs.parquet", "--png", "link.png", "--force")
    assert "link.png: is the job table itself" in refused.stderr
    assert (tmp_path / "jobs.parquet").read_bytes() == before


def test_shares_of_the_least_run_times_are_finite() -> None:
    times = [5e-324, 1e-320]
    frame = pl.DataFrame({"job_id": ["a", "b"], "submit_time": 0.0, "num_gpus": [1, 2], "duration": times})
    text = json.dumps(drawn(frame))
    assert "Infinity" not in text
    assert "NaN" not in text
