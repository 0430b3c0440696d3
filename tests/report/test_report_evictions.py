"""A report's chapter on evictions, its table by priority, and how a timeline tells who made room."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest

import ringbco
from frames import rows_table
from ringbco.reports.figures import chapters
from ringbco.reports.html import page
from ringbco.reports.perfetto import write_trace
from ringbco.reports.tables import by_priority
from ringbco.reports.viewport import viewport
from ringbco.result.outcome import Outcome

DAY = 86_400.0


def replayed(rows: list[tuple[float, int, float, int]], cluster: str = "1x8", **options: Any) -> Outcome:
    frame = rows_table("submit_time num_gpus duration priority", rows)
    given = {"policy": "fifo", "queue": "skip", "model": "fixed", "preempt_cost": 10.0, "evict": True}
    return ringbco.replay(frame, cluster, **given | options)


# j0 is evicted at 10 by j1 and at 100 by j2, starts again at 60 and 150, and pauses for 10 s each time.
TWICE = [(0.0, 8, 100.0, 0), (10.0, 8, 50.0, 1), (100.0, 8, 50.0, 2)]


def evicted(outcome: Outcome) -> pl.DataFrame:
    return outcome.stays.filter(ended="evicted").select("job_id", "start_time", "end_time")


def test_the_stays_that_evictions_ended() -> None:
    outcome = replayed(TWICE)
    result = evicted(outcome)
    assert result.rows() == [("j0", 0.0, 10.0), ("j0", 60.0, 100.0)]
    assert outcome.jobs["evictions"].to_list() == [2, 0, 0]
    assert outcome.jobs["priority"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(("clock", "down"), [("continuous", 40.0), ("slot", 37.5)])
def test_a_stay_that_an_outage_ended_is_none(clock: str, down: float) -> None:
    """Evicted at 10, back at 20; at 40 the server fails until 50."""
    outages = pl.DataFrame({"server": [0], "down_at": [down], "up_at": [50.0]})
    jobs = [(0.0, 8, 100.0, 0), (10.0, 8, 10.0, 1)]
    slots = {"slot": 10.0} if clock == "slot" else {}
    outcome = replayed(jobs, outages=outages, preempt_cost=0.0, clock=clock, **slots)
    assert outcome.jobs.select("evictions", "failures").row(0) == (1, 1)
    result = evicted(outcome)
    assert result.rows() == [("j0", 0.0, 10.0)]


def test_also_a_policy_that_preempts_tells_and_so_does_a_result_without_allocations() -> None:
    ranked = replayed(TWICE, policy="srtf", queue=None)
    assert evicted(ranked).height == ranked.summary["evictions"]
    bare = replayed(TWICE, allocations=False)
    assert evicted(bare).height == 2
    assert any(chapter.title == "Evictions" for chapter in chapters({"a": bare}))


def test_evictions_over_time() -> None:
    """Ten days of work, evicted on the 3rd and on the 7th; the axis has 96 intervals of the whole."""
    outcome = replayed(
        [(0.0, 8, 10 * DAY, 0), (2.5 * DAY, 8, 60.0, 1), (6.5 * DAY, 8, 60.0, 1), (9 * DAY, 1, 1.0, 0)]
    )
    results = {"a": outcome, "b": replayed(TWICE, evict=False)}
    (chapter,) = (chapter for chapter in chapters(results) if chapter.title == "Evictions")
    (figure,) = chapter.figures
    data = figure.chart.data
    assert set(data["policy"]) == {"a"}
    assert data["stays"][:-1].sum() == 2
    at = data.filter(pl.col("stays") > 0)["day"].to_list()
    last = data["day"].max()
    for day, wanted in zip(at, (2.5, 6.5), strict=True):
        assert wanted - last / 96 <= day + 1e-3
        assert day <= wanted
    # Two in so many days: the mean rate of the intervals.
    assert data["evictions"][:-1].mean() == pytest.approx(2 / last, rel=1e-3)


def test_without_evictions_nothing_is_said_of_them() -> None:
    plain = {"fifo": replayed(TWICE, evict=False)}
    assert all(chapter.title != "Evictions" for chapter in chapters(plain))
    assert by_priority(plain) is None
    assert "Jobs by priority" not in page(plain, [], title="t")


def test_jobs_by_priority() -> None:
    """Also of the result beside it that evicts nobody."""
    results = {"with": replayed(TWICE), "without": replayed(TWICE, evict=False)}
    table = by_priority(results)
    assert table is not None
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["with", "2", "1", "50.0", "0", "0", "0.111"],
        ["with", "1", "1", "50.0", "0", "0", "0.111"],
        ["with", "0", "1", "220", "1.67", "2", "0.267"],
        ["without", "2", "1", "50.0", "0", "", "0.111"],
        ["without", "1", "1", "190", "2.33", "", "0.111"],
        ["without", "0", "1", "100", "0", "", "0.222"],
    ]
    assert [title.replace("\N{NO-BREAK SPACE}", " ") for title in table.columns[3:5]] == [
        "mean completion time, s",
        "mean wait, min",
    ]
    assert len(table.columns) == len(table.rows[0])
    text = page(results, chapters(results), title="t")
    assert text.count("Jobs by priority") == 1
    assert ">220</td>" in text


def test_many_priorities_are_summed_up() -> None:
    """The eleven highest, then the others; GPU-hours add up to what was held."""
    outcome = replayed([(0.0, 1, 3600.0, level) for level in range(30)], "4x8")
    table = by_priority({"a": outcome})
    assert table is not None
    assert [row[1].text for row in table.rows] == [*map(str, range(29, 18, -1)), "all lower"]
    assert [row[2].text for row in table.rows] == ["1"] * 11 + ["19"]
    assert [row[6].text for row in table.rows] == ["1.00"] * 11 + ["19.0"]


def test_quotas_alone_have_one_row() -> None:
    quota = pl.DataFrame({"user": ["ann"], "gpus": [1], "borrow": [True]})
    frame = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 0.0], "num_gpus": [4, 4], "duration": [10.0, 10.0]}
    ).with_columns(user=pl.lit("ann"))
    table = by_priority({"a": ringbco.replay(frame, "1x8", policy="fifo", quota=quota)})
    assert table is not None
    assert [[cell.text for cell in row][1:3] for row in table.rows] == [["all", "2"]]


# The timeline


def test_slices_tell_that_they_were_evicted() -> None:
    outcome = replayed(TWICE)
    file = io.BytesIO()
    write_trace(outcome, viewport(outcome, None, None, None), file, compress=False)
    slices = [event for event in json.loads(file.getvalue())["traceEvents"] if event["ph"] == "X"]
    names = ("job", "began", "ended", "ended by job")
    told = {(event["ts"] / 1e6, *(event["args"].get(name) for name in names)) for event in slices}
    assert told == {
        (0.0, "j0", None, "evicted", "j1"),
        (10.0, "j1", None, None, None),
        (60.0, "j0", "resumed", "evicted", "j2"),
        (100.0, "j2", None, None, None),
        (150.0, "j0", "resumed", None, None),
    }
