"""One list of figures: summary.json, comparisons, the terminal, sweeps, notebooks and docs tell the same."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console, RenderableType

import ringbco
from conftest import Invoke
from frames import busy_jobs
from ringbco import Outcome, plan, replay
from ringbco.cli.comparison import by_measure
from ringbco.cli.tables import summary_tables
from ringbco.result.comparison import Comparison
from ringbco.result.figures import COMPARED, FIGURES, of_jobs, rows_of
from ringbco.result.outcome import with_seconds

OUTAGES = pl.DataFrame({"server": [0, 1], "down_at": [900.0, 1500.0], "up_at": [2000.0, 2500.0]})
SERVICES = pl.DataFrame({"service": ["chat"], "time": [900.0], "replicas": [1], "gpus_per_replica": [2]})
LOST = ["failures", "lost_work_gpu_seconds", "goodput", "effective_training_time_ratio"]
PAGE = (Path(__file__).parents[2] / "docs/results-reference.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    jobs = busy_jobs(40)
    failing, well = (replay(jobs, "4x4", policy="fifo", outages=given) for given in (OUTAGES, None))
    return Comparison({"failing": failing, "well": well})


def printed(table: RenderableType) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_comparison_tells_what_outages_took(comparison: Comparison) -> None:
    rows = {row.key: (row, entries) for row, entries in comparison.rows.items()}
    summary = comparison.outcomes["failing"].summary
    assert summary["failures"] > 0
    shown = printed(by_measure(comparison))
    for key in LOST:
        row, (with_outages, without) = rows[key]
        assert with_outages.value == summary[key]
        # Goodput is told where the job table may make room, too.
        assert without.value is None
        assert row.title in shown
    measures = comparison.frame["measure"].unique().to_list()
    assert set(LOST) <= set(measures)


def test_a_line_of_the_terminal_is_a_row_of_a_comparison(comparison: Comparison) -> None:
    summary = with_seconds(comparison.outcomes["failing"].summary, 1.0)
    lines = [line.rstrip() for line in printed(summary_tables(summary)).splitlines()]
    page = comparison.outcomes["failing"]._repr_html_()
    for row in comparison.rows:
        if row.key in summary and not row.spread and row.key != "engine_seconds":
            (line,) = (line for line in lines if line.startswith(f"{row.title}  "))
            assert line.split("  ")[-1].strip() == row.show(summary[row.key])
            assert f"{row.title} {row.show(summary[row.key])}" in page.replace("&#39;", "'")


def test_figures_of_services_are_rows_made_at_run_time() -> None:
    jobs = busy_jobs(40)
    serving, alone = (replay(jobs, "4x4", policy="fifo", services=given) for given in (SERVICES, None))
    made = {row.key: entries for row, entries in Comparison({"a": serving, "b": alone}).rows.items()}
    (chat,) = serving.summary["services"]
    assert [entry.value for entry in made["attainment.chat"]] == [chat["attainment"], None]
    assert "replica_seconds_wanted.chat" not in made
    assert "attainment, chat" in printed(summary_tables(with_seconds(serving.summary, 1.0)))


def test_any_other_number_of_a_summary_is_a_row() -> None:
    jobs = busy_jobs(20).with_columns(submit_time=pl.lit(0.0))
    planned, replayed = plan(jobs, "4x4", slot=5.0), replay(jobs, "4x4", policy="fifo")
    replayed.summary["carbon_kg"] = 3.5
    rows = Comparison({"a": planned, "b": replayed}).rows
    made = {row.key: (row, entries) for row, entries in rows.items()}
    assert [entry.value for entry in made["theta"][1]] == [planned.summary["theta"], None]
    row, entries = made["carbon_kg"]
    assert (row.title, row.better, entries[1].value) == ("carbon kg", "neither", 3.5)


def test_a_sweep_tells_what_outages_took(invoke: Invoke, tmp_path: Path) -> None:
    busy_jobs(20).write_parquet(tmp_path / "jobs.parquet")
    OUTAGES.write_parquet(tmp_path / "outages.parquet")
    (tmp_path / "spec.toml").write_text(
        '[base]\ntrace = "jobs.parquet"\ncluster = "4x4"\noutages = "outages.parquet"\n'
        '[grid]\npolicy = ["fifo", "sjf"]\n'
    )
    done = invoke("sweep", "spec.toml", "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    titles = " ".join(done.stdout.split())
    assert all(key.split("_")[0] in titles for key in ("failures", "lost_work_gpu_seconds", "goodput"))
    page = invoke("report", "out", "-o", "page.html")
    assert page.returncode == 0, page.stderr
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(row.title in text for row in COMPARED if row.key in LOST[:3])


def test_figures_of_a_user_are_those_of_a_run_of_that_user(comparison: Comparison) -> None:
    jobs = comparison.outcomes["failing"].jobs
    everybody, summary = of_jobs(jobs), comparison.outcomes["failing"].summary
    assert {key: summary[key] for key in everybody} == everybody
    for (user,), own in jobs.group_by("user", maintain_order=True):
        told = of_jobs(own)
        assert told["mean_jct"] == float(np.mean(own["jct"].to_numpy()))
        assert user is None or told["jain_index_users"] == pytest.approx(1.0)


def listed() -> set[tuple[str, str, str]]:
    """Key, title and unit of every figure on the page, where statistics of one thing share a row."""
    result = set()
    for line in PAGE.split("<!-- made: figures -->")[1].split("<!-- end -->")[0].splitlines():
        keys, titles, unit = ([*line.split(" | "), "", ""])[:3]
        *firsts, last = titles.split(", ") if ", " in keys else [titles]
        own = [*(f"{first} {last.partition(' ')[2]}" for first in firsts), last]
        result |= {
            (key, title, unit) for key, title in zip(keys.removeprefix("| ").split(", "), own, strict=True)
        }
    return result


def test_the_list_is_sound() -> None:
    for scope in ("run", "vc", "class", "type", "service"):
        keys = [row.key for row in rows_of(scope)]
        assert len(set(keys)) == len(keys) or scope == "class"
    for row in FIGURES:
        assert row.unit is None or (row.key, row.title, row.unit) in listed() or row.key == "gpus"
    assert all(row.title for row in FIGURES)


def test_every_key_of_a_summary_is_in_the_list(comparison: Comparison) -> None:
    for outcome in comparison.outcomes.values():
        assert isinstance(outcome, Outcome)
        known = [row.key for row in rows_of("run")]
        recorded = [key for key in outcome.summary if key not in ("total_seconds", "jobs_per_second")]
        assert recorded == [key for key in known if key in recorded]


def test_the_audit_has_formulas_of_its_own() -> None:
    audits = Path(ringbco.__file__).parent / "audits"
    texts = [path.read_text(encoding="utf-8") for path in audits.glob("*.py")]
    assert len(texts) > 10
    assert not any(name in text for text in texts for name in ("result.figures", "result.rows"))
