"""docs/published.md: every row is what its run gives beside the published data, within bounds that hold."""

import re
import shlex
from pathlib import Path

import polars as pl
import pytest

import page_published as made
import page_tables
import ringbco
from conftest import SHARED, Invoke, present

PAGE = (Path(__file__).parents[2] / "docs" / "published.md").read_text(encoding="utf-8")
ROWS = {
    (row["source"], row["run"].strip("`")): row
    for _, _, row in page_tables.rows(page_tables.marked(PAGE)["published"])
}
GIVEN = page_tables.TableInputs(SHARED / "traces", SHARED / "peers")
_LISTED = "tiresias --thresholds 3250,7200 --interval 360 --within list --cluster 8x8 --model fixed"
# The most of: difference of the mean, median job (%); the least correlation.
BOUNDS = {
    ("Lucid", "sjf"): (0.0, 0.0, 1.0),
    ("Gavel", "gavel"): (0.5, 3.5, 0.95),
    ("Pollux", "tiresias"): (0.6, 1.0, 0.99),
    ("Muri", "srtf --interval"): (3.0, 4.0, 0.99),
    ("Muri", f"{_LISTED} --preempt-cost 23.9"): (7.0, 5.0, 0.95),
    ("Muri", f"{_LISTED} --preempt-cost 0"): (10.0, 10.0, 0.95),
}


def test_the_page_has_every_row() -> None:
    assert list(ROWS) == list(made.CASES)


@pytest.mark.parametrize(("source", "run"), made.CASES)
def test_a_row_is_what_its_run_gives(source: str, run: str) -> None:
    present(GIVEN.peers)
    present(GIVEN.traces)
    if run.startswith(("gavel", "allox")):
        pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")
    figures = made.row(GIVEN, source, run)
    shown = {name: form.format_map(figures) for name, form in made.COLUMNS.items()}
    assert shown == {name: ROWS[source, run][name] for name in shown}


@pytest.mark.parametrize(("source", "run"), BOUNDS)
def test_a_row_is_near(source: str, run: str) -> None:
    rows = [row for (of, text), row in ROWS.items() if of == source and text.startswith(run)]
    assert rows
    for row in rows:
        for column, most in zip(("difference", "median job"), BOUNDS[source, run], strict=False):
            assert abs(page_tables.number(row[column])) <= most
        assert page_tables.number(row["correlation"]) >= BOUNDS[source, run][2]


def test_under_sjf_every_job_starts_and_finishes_as_in_lucids_simulator() -> None:
    theirs = pl.read_csv(present(GIVEN.peers / "lucid" / "philly-103959_sjf.csv"))
    own = ringbco.replay(GIVEN.jobs("philly/103959"), "4x8", policy="sjf", model="fixed").jobs
    both = own.join(theirs, on="job_id", how="full", validate="1:1")
    assert f"all {both.height:,} jobs" in PAGE
    assert (both["start_time"] == both["start"]).all()
    assert (both["finish_time"] == both["finish"]).all()


def test_what_the_page_says_of_the_clusters() -> None:
    folder = present(GIVEN.peers / "physical")
    _, rate, cost = made.muri_jobs(folder)
    assert f"1 / {rate:.4f} of that rate and a start takes {cost:.1f} s" in PAGE
    logs = pl.read_csv(folder / "shockwave_jct.csv").filter(set="tacc_32gpus_comparison")
    means = logs.pivot("kind", index="policy", values="jct", aggregate_function="mean")
    off = {
        row["policy"]: f"{row['simulation'] / row['physical'] - 1:+.1%}".replace("%", " %")
        for row in means.iter_rows(named=True)
    }
    assert f"off by {off['max_min_fairness']} under max-min and {off['allox']} under AlloX" in PAGE


@pytest.mark.pages
def test_the_three_commands_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.chdir(tmp_path)
    commands, shown = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    for name in ("openb_pod_list_default.csv", "openb_node_list_gpu_node.csv"):
        (tmp_path / name).symlink_to(present(GIVEN.traces / "openb" / name))
    done = [invoke(*shlex.split(line)[1:]) for line in commands.splitlines()]
    assert [each.returncode for each in done] == [0, 0, 0]
    last = [next(line for line in each.stdout.splitlines() if line.startswith(" 130 %")) for each in done[1:]]
    assert [line.rstrip() for line in last] == shown.splitlines()
