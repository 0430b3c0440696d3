"""The report's chapter on jobs on the same GPUs, by hand."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

import ringbco
from frames import cluster_of, table
from ringbco import Outcome
from ringbco.reports import data_seats
from ringbco.reports.figures import chapters, charts_of
from ringbco.result.comparison import as_comparison

PAIR = {"model": "lm", "gpu_type": "V100", "gpus": 0, "servers": 0, "rate": 0.8}
PAIRS = pl.DataFrame([{**PAIR, "partner": "resnet", "partner_rate": 1.25}])


def run(scores: Sequence[int] = (0, 1, 2), **options: Any) -> Outcome:
    """a is on 4 GPUs from 0 to 108 s, b beside it from 10 to 50 s, c on one of its own from 0 to 20 s."""
    jobs = table(
        job_id=["a", "b", "c"],
        submit_time=[0.0, 10.0, 0.0],
        num_gpus=[4, 4, 1],
        duration=[100.0, 50.0, 20.0],
        model=["lm", "resnet", "lm"],
        estimated_duration=[100.0, 50.0, 20.0],
        colocation_score=scores,
    ).with_columns(pl.col("colocation_score").cast(pl.UInt32))
    given = {"policy": "lucid", "model": "fixed", "tables": PAIRS, **options}
    return ringbco.replay(jobs, cluster_of("[[servers]]\ncount = 2\ngpus = 4\n"), **given)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    found = run()
    assert found.jobs["finish_time"].to_list() == [108.0, 50.0, 20.0]
    return found


def test_gpus_by_how_many_jobs_they_have(outcome: Outcome) -> None:
    """Areas times time: 4 GPUs x 40 s with two; 4 x 68 s and 20 s with one."""
    (part,) = data_seats.fill({"own": outcome})
    sums = {}
    for state, rows in part.data.group_by("state"):
        lasts = rows.sort("day")["day"].diff().drop_nulls()
        sums[state[0]] = float((rows.sort("day")["gpus"].head(lasts.len()) * lasts).sum()) * 86_400.0
    # The axis ends when nobody waits any more: at the last submission, 10 s.
    assert sums == {"one job": pytest.approx(50.0, rel=1e-4), "several jobs": pytest.approx(0.0, abs=1e-3)}


def test_what_each_job_met(outcome: Outcome) -> None:
    told = data_seats.beside(outcome)
    assert told["job_id"].to_list() == ["a", "b"]
    assert told["met"].to_list() == [160.0, 160.0]
    assert told["part"].to_list() == [80.0, 80.0]
    assert told["longer"].to_list() == pytest.approx([32.0, -40.0])


def test_time_without_progress_is_not_met() -> None:
    """b is there from 10 to 55 s, and works from 15 s on; a works all that time."""
    told = data_seats.beside(run(start_cost=5.0))
    assert told["job_id"].to_list() == ["a", "b"]
    assert told["met"].to_list() == [180.0, 160.0]  # GPU-seconds: a from 10 s on, b from 15 s on
    assert told["part"].to_list() == [90.0, 90.0]


def test_slow_down_beside_others(outcome: Outcome) -> None:
    (part,) = data_seats.slowdowns({"own": outcome})
    rows = part.data.group_by("slowdown").agg(pl.col("share").max()).sort("slowdown").rows()
    assert rows == [(pytest.approx(0.8), 0.5), (pytest.approx(1.25), 1.0)]


def test_what_sharing_cost_and_gave(outcome: Outcome) -> None:
    """In 40 s on 4 GPUs, 32 and 50 s of work: 42 s more than alone."""
    (part,) = data_seats.hours({"own": outcome})
    seconds = {what: hours * 3600.0 for what, hours in part.data.select("what", "hours").iter_rows()}
    assert seconds == {
        "with several jobs": pytest.approx(160.0),
        "longer runs": pytest.approx(-8.0),
        "work beyond one job": pytest.approx(168.0),
    }
    assert part.note == " Mean slow-down beside others: 0.976."


def test_the_chapter_is_there_where_jobs_may_sit_together(outcome: Outcome) -> None:
    names = {figure.name for figure in charts_of(chapters(as_comparison({"own": outcome})))}
    assert {"seats-fill-1", "seats-slowdown", "seats-hours"} <= names
    alone = run(jobs_per_gpu=1, tables=None)
    assert not any(
        figure.name.startswith("seats") for figure in charts_of(chapters(as_comparison({"own": alone})))
    )


def test_nobody_sat_together() -> None:
    found = run(scores=[2, 1, 2])
    (part,) = data_seats.slowdowns({"own": found})
    assert part.instead == "No job was on the same GPUs as another."
    assert list(data_seats.hours({"own": found})) == []
