"""Resizes in the summary and its audit, the report's chapter on elastic jobs, and resizes in a timeline."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from frames import rows_table
from ringbco.errors import InputError
from ringbco.reports.data_parts import MOST_LANES
from ringbco.reports.elastic_lanes import MOST_STAYS, lanes_of
from ringbco.reports.figures import Chapter, chapters
from ringbco.reports.html import page
from ringbco.reports.perfetto import _threads, write_trace
from ringbco.reports.series import MOST_BESIDE, Figure
from ringbco.reports.viewport import viewport
from ringbco.result.outcome import Outcome
from ringbco.result.stays import stays_of_done
from ringbco.result.validation import check_drawable

DAY = 86_400.0


class ByPlan(ringbco.Policy):
    """Starts jobs on min_gpus and resizes job 0 at each wake to the next of PLAN."""

    PLAN = ((100.0, 8), (200.0, 2), (300.0, 4))

    def decide(self, state: Any) -> None:
        for row in state.waiting.tolist():
            state.start(row, gpus=2)
        for time, gpus in self.PLAN:
            if state.now == time and 0 in state.running.tolist():
                state.resize(0, gpus)
            if state.now < time:
                state.wake(time)


def frame(rows: list[tuple[float, int, int, int, float]]) -> pl.DataFrame:
    return rows_table("submit_time num_gpus min_gpus max_gpus duration", rows)


ONE = frame([(0.0, 4, 2, 16, 500.0), (150.0, 2, 2, 2, 60.0)])


def planned(jobs: pl.DataFrame = ONE, cluster: str = "1x16", **options: Any) -> Outcome:
    return ringbco.replay(jobs, cluster, policy=ByPlan, **{"model": "fixed", "resize_cost": 10.0} | options)


def drawn_jobs(count: int = 120) -> pl.DataFrame:
    rnd = random.Random(7)
    rows = []
    for number in range(count):
        gpus = rnd.choice((1, 2, 4, 8))
        rows.append((number * 300.0, gpus, max(1, gpus // 4), gpus * 4, rnd.uniform(500.0, 9000.0)))
    return frame(rows)


@pytest.fixture(scope="module")
def results() -> dict[str, Outcome]:
    jobs = drawn_jobs()
    return {name: ringbco.replay(jobs, "4x8", policy=name, resize_cost=40.0) for name in ("afs", "optimus")}


def chapter_of(results: dict[str, Outcome]) -> Chapter:
    return next(chapter for chapter in chapters(results) if chapter.title == "Elastic jobs")


def figure_of(results: dict[str, Outcome], name: str) -> Figure:
    return next(figure for figure in chapter_of(results).figures if figure.name == name)


# The summary


def test_what_a_summary_says_of_resizes() -> None:
    """8 GPUs from 100 on, 2 from 200, 4 from 300: each with a pause of 10 s."""
    outcome = planned()
    result = stays_of_done(outcome.stays, outcome.jobs)
    own = result.filter(pl.col("job_id") == "j0").select("start_time", "num_gpus", "before")
    assert own.rows() == [(0.0, 2, None), (100.0, 8, 2), (200.0, 2, 8), (300.0, 4, 2)]
    recorded = {key: outcome.summary[key] for key in ("resizes", "jobs_resized", "resize_lost_gpu_seconds")}
    assert recorded == {"resizes": 3, "jobs_resized": 1, "resize_lost_gpu_seconds": 10.0 * (8 + 2 + 4)}
    assert outcome.summary["lost_gpu_seconds"] == 140.0
    assert outcome.jobs.select("min_gpus", "max_gpus").rows() == [(2, 16), (2, 2)]
    assert ringbco.audit(outcome, ONE) == []


def test_a_stay_shorter_than_its_pause_counts_with_its_length() -> None:
    """Resized at 100 and, 10 s before the pause is over, at 200; then at 300."""
    summary = planned(resize_cost=110.0).summary
    assert summary["resize_lost_gpu_seconds"] == 100.0 * 8 + 100.0 * 2 + 110.0 * 4


def test_pauses_of_the_slot_clock_are_whole_slots() -> None:
    outcome = planned(clock="slot", slot=50.0)
    assert outcome.summary["resize_lost_gpu_seconds"] == 50.0 * (8 + 2 + 4)
    assert ringbco.audit(outcome, ONE) == []


def test_who_starts_again_is_not_resized() -> None:
    """The server fails at 150 s: j0 goes on from 160 s on 2 GPUs in place of 8."""
    outages = pl.DataFrame({"server": [0], "down_at": [150.0], "up_at": [160.0]})
    outcome = planned(outages=outages)
    own = stays_of_done(outcome.stays, outcome.jobs).filter(pl.col("job_id") == "j0")
    assert own.select("start_time", "began", "before").rows()[1:3] == [
        (100.0, "resized", 2),
        (160.0, "restarted", None),
    ]


@pytest.mark.parametrize(
    "change", [{"resizes": 2}, {"jobs_resized": 2}, {"resize_lost_gpu_seconds": 141.0}], ids=str
)
def test_the_audit_finds_other_figures(change: dict[str, Any]) -> None:
    outcome = planned()
    outcome.summary = {**outcome.summary, **change}
    (report,) = ringbco.audit(outcome, ONE)
    assert report.code == "summary"
    assert next(iter(change)) in report.message


def test_the_audit_finds_another_range() -> None:
    outcome = planned()
    outcome.jobs = outcome.jobs.with_columns(max_gpus=pl.col("max_gpus") + 1)
    assert "max_gpus is 17" in ringbco.audit(outcome, ONE)[0].message


def test_who_resizes_nobody_says_nothing_of_it() -> None:
    for outcome in (
        ringbco.replay(ONE, "1x16", policy="srtf"),
        ringbco.replay(ONE.drop("min_gpus", "max_gpus"), "1x16", policy="afs"),
    ):
        assert "resizes" not in outcome.summary
        assert all(chapter.title != "Elastic jobs" for chapter in chapters({"a": outcome}))
    never = ringbco.replay(ONE, "1x4", policy="afs", model="fixed", resize_every=1e6)
    assert never.summary["resizes"] == 0
    assert all(chapter.title != "Elastic jobs" for chapter in chapters({"a": never}))


def test_the_terminal_tells_resizes(tmp_path: Path, invoke: Any) -> None:
    drawn_jobs(40).write_parquet(tmp_path / "jobs.parquet")
    shown = invoke(
        "replay", tmp_path / "jobs.parquet", "--cluster", "2x8", "--policy", "afs", "-o", tmp_path / "r"
    )
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["resizes"] > 1
    output = " ".join(shown.stdout.split())
    assert (
        f"resizes, among the preemptions {summary['resizes']} jobs resized {summary['jobs_resized']}"
        in output
    )


# The report


def test_lanes_are_the_stays() -> None:
    outcome = planned()
    result = stays_of_done(outcome.stays, outcome.jobs)
    lanes = lanes_of(outcome, result, 12)
    assert (lanes.jobs, lanes.averaged) == (1, False)
    bars = lanes.bars.filter(pl.col("state") != "pause")
    assert bars["gpus"].to_list() == [2.0, 8.0, 2.0, 4.0]
    assert bars["state"].to_list() == [
        "fewer than num_gpus",
        "more than num_gpus",
        "fewer than num_gpus",
        "num_gpus",
    ]
    assert (bars["day"] * DAY).to_list() == pytest.approx([0.0, 100.0, 200.0, 300.0])
    tall = (bars["base"] - bars["top"]).to_list()
    assert [one / tall[0] for one in tall] == pytest.approx([1.0, 4.0, 1.0, 2.0])
    pauses = lanes.bars.filter(pl.col("state") == "pause")
    assert ((pauses["end_day"] - pauses["day"]) * DAY).to_list() == pytest.approx([10.0] * 3)
    assert lanes.rules["line"].to_list() == ["num_gpus", "bound", "bound"]
    assert sorted(lanes.ticks.values()) == ["16", "4"]  # 2 would touch 4
    assert lanes.names["name"].to_list() == ["j0: 2 to 16 GPUs, asks for 4, 3 resizes"]


def test_the_most_resized_jobs_have_lanes(results: dict[str, Outcome]) -> None:
    one = {"afs": results["afs"]}
    data = figure_of(one, "elastic-lanes-1")
    stays = stays_of_done(one["afs"].stays, one["afs"].jobs)
    resized = stays.filter(pl.col("before").is_not_null())
    counts = dict(resized.group_by("job_id").len().iter_rows())
    first = max(counts, key=lambda job: counts[job])
    facts = one["afs"].jobs.filter(pl.col("job_id") == first).row(0, named=True)
    during = resized.filter(pl.col("start_time").is_between(facts["submit_time"], facts["finish_time"]))
    within = dict(during.group_by("job_id").len().iter_rows())
    bars = data.data
    assert bars is not None
    drawn = bars["job_id"].unique().to_list()
    assert len(drawn) == MOST_LANES
    assert first in drawn
    assert min(within[job] for job in drawn) >= max(within[job] for job in within if job not in drawn)
    assert bars["day"].min() * DAY >= facts["submit_time"] - 1
    assert bars["end_day"].max() * DAY <= facts["finish_time"] + 1
    assert bars.height <= MOST_LANES * 2 * MOST_STAYS
    summary = one["afs"].summary
    assert f"{summary['resizes']:,} resizes of {summary['jobs_resized']} jobs" in data.note
    assert f"{summary['resize_lost_gpu_seconds'] / 3600:,.1f} GPU-hours" in data.note


def test_shares_of_jobs_and_of_gpu_time(results: dict[str, Outcome]) -> None:
    data = figure_of(results, "elastic-resized").data
    held = figure_of(results, "elastic-held").data
    for label, outcome in results.items():
        assert data.filter(pl.col("policy") == label)["amount"].sum() == outcome.jobs.height
        own = held.filter(pl.col("policy") == label)
        hours = outcome.jobs["held_gpu_time"].sum() / 3600
        assert own["amount"].sum() == pytest.approx(hours, rel=1e-3)
        assert own["share"].sum() == pytest.approx(1.0, rel=1e-3)
    own = figure_of({"a": planned()}, "elastic-held").data
    jobs = planned().jobs
    assert dict(own.select("group", "amount").iter_rows()) == pytest.approx(
        {
            "\N{LESS-THAN OR EQUAL TO} 1/2": 2 * 200 / 3600,
            "1": 4 * (jobs["finish_time"][0] - 300) / 3600,
            "\N{LESS-THAN OR EQUAL TO} 2": 8 * 100 / 3600,
        },
        rel=1e-3,
    )


def test_a_job_of_very_many_stays_is_drawn_by_means() -> None:
    outcome = planned()
    number, last = 1000, outcome.jobs["finish_time"][0]
    step = last / number
    rows = pl.DataFrame(
        {
            "job_id": ["j0"] * number,
            "began": ["first"] + ["resized"] * (number - 1),
            "pause": [0.0] * number,
            "num_gpus": [2 + 6 * (at % 2) for at in range(number)],
            "start_time": [at * step for at in range(number)],
            "end_time": [(at + 1) * step for at in range(number)],
        }
    )
    many = replace(outcome, stays_written=rows)
    result = stays_of_done(many.stays, many.jobs)
    lanes = lanes_of(many, result, 12)
    assert lanes.averaged
    assert lanes.bars.height == MOST_STAYS
    assert lanes.bars["gpus"].mean() == pytest.approx(5.0, rel=0.01)
    assert "averaged, without pauses" in figure_of({"a": many}, "elastic-lanes-1").note


def test_the_page_has_the_chapter(results: dict[str, Outcome]) -> None:
    chapter = chapter_of(results)
    names = [figure.name for figure in chapter.figures]
    assert names == ["elastic-lanes-1", "elastic-lanes-2", "elastic-resized", "elastic-held"]
    text = page(results, chapters(results), title="t")
    assert '<h2 id="elastic-jobs">Elastic jobs</h2>' in text
    assert "GPU time lost to resizes" in text


def test_of_many_results_the_first_have_lanes(results: dict[str, Outcome]) -> None:
    many = {f"r{number}": results["afs"] for number in range(MOST_BESIDE + 1)}
    chapter = chapter_of(many)
    assert len(chapter.figures) == MOST_BESIDE + 2
    assert f"Only the first {MOST_BESIDE} of {MOST_BESIDE + 1} results are shown." in chapter.figures[0].note


def test_results_that_may_not_resize_are_left_out(results: dict[str, Outcome]) -> None:
    rigid = ringbco.replay(drawn_jobs(), "4x8", policy="srtf")
    bare = replace(results["afs"], allocations=None)
    chapter = chapter_of({"afs": bare, "rigid": rigid})
    names = [figure.name for figure in chapter.figures]
    assert names == ["elastic-lanes-1", "elastic-resized", "elastic-held"]
    assert "Results without resizing are not shown." in chapter.figures[-1].note


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (pl.lit("x").alias("min_gpus"), "column min_gpus: String: expected numbers"),
        (pl.lit(None, pl.UInt32).alias("max_gpus"), "column max_gpus: null: expected a finite number"),
    ],
)
def test_damaged_ranges_are_told(tmp_path: Path, change: pl.Expr, says: str) -> None:
    outcome = planned()
    with pytest.raises(InputError, match=says):
        check_drawable(replace(outcome, jobs=outcome.jobs.with_columns(change)), tmp_path)


def test_a_damaged_cost_is_told(tmp_path: Path) -> None:
    outcome = planned()
    outcome.run["options"]["resize_cost"] = "long"
    with pytest.raises(InputError, match=r"options\.resize_cost: long: expected a time >= 0"):
        check_drawable(outcome, tmp_path)


# The timeline


def test_who_is_resized_keeps_its_thread_from_who_starts() -> None:
    """b, on thread 1, shrinks as c, which ends sooner, starts: c takes thread 3. At 20 two are free."""
    rows = pl.DataFrame(
        {
            "server": [0, 0, 0, 0, 0],
            "start": [0.0, 0.0, 10.0, 10.0, 20.0],
            "end": [10.0, 20.0, 20.0, 30.0, 40.0],
            "job_id": ["b", "d", "c", "b", "e"],
            "before": [None, None, None, 2, None],
        }
    )
    assert _threads(rows) == [1, 2, 3, 1, 2]


def test_slices_tell_the_gpus_held() -> None:
    outcome = planned()
    file = io.BytesIO()
    write_trace(outcome, viewport(outcome, None, None, None), file, compress=False)
    slices = [event for event in json.loads(file.getvalue())["traceEvents"] if event["ph"] == "X"]
    told = {
        (
            event["ts"] / 1e6,
            event["args"]["GPUs"],
            event["args"]["GPUs asked for"],
            event["args"].get("resized from"),
        )
        for event in slices
        if event["args"]["job"] == "j0"
    }
    assert told == {(0.0, 2, 4, None), (100.0, 8, 4, 2), (200.0, 2, 4, 8), (300.0, 4, 4, 2)}
    mine = [event for event in slices if event["args"]["job"] == "j0"]
    assert [event["args"]["GPUs here"] for event in mine] == [2, 8, 2, 4]
    assert {event["tid"] for event in mine} == {1}
