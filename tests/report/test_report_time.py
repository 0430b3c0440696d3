"""Where a job's time goes: the parts shown add up to the mean completion time, whatever was run."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

from frames import busy_jobs
from ringbco import Outcome, plan, replay
from ringbco.reports.data_jobs import time_columns
from ringbco.result.schema import CAUSES_SCHEMA
from test_report import drawn, rows_of

PREEMPTIVE = {
    "srtf": {"preempt_cost": 11.0},
    "tiresias": {"thresholds": (300.0, 2_000.0)},
    "time-slice": {"quantum": 90.0},
}
RESUMING, LOST = "pausing, saving", "lost work"


def parts_of(outcome: Outcome) -> dict[str, float]:
    """The parts that the chart shows, in seconds."""
    data = rows_of(drawn({"it": outcome})["time"])
    assert data["seconds"].min() >= 0
    return dict(data.select("part", "seconds").iter_rows())


def check(outcome: Outcome) -> None:
    """The parts add up, in the chart to its five digits and job by job."""
    shown = parts_of(outcome)
    assert sum(shown.values()) == pytest.approx(outcome.summary["mean_jct"], rel=1e-4)
    jobs = outcome.jobs.with_columns(total=pl.sum_horizontal(time_columns(outcome).values()))
    assert jobs["total"].to_list() == pytest.approx(jobs["jct"].to_list(), rel=1e-6)
    preempted = bool(outcome.jobs["preemptions"].sum())
    assert (RESUMING in shown) == preempted
    if preempted:
        assert shown[RESUMING] == pytest.approx(outcome.jobs["lost_time"].mean(), rel=1e-4)


@pytest.mark.parametrize("policy", ["fifo", "rand", "sjf-bco", *PREEMPTIVE])
@pytest.mark.parametrize("model", ["rar", "fixed"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_the_parts_of_a_replay_add_up(policy: str, model: str, clock: str) -> None:
    options: dict[str, Any] = {**PREEMPTIVE.get(policy, {}), **({"slot": 5.0} if clock == "slot" else {})}
    outcome = replay(busy_jobs(), "4x4", policy=policy, model=model, clock=clock, **options)
    assert bool(outcome.jobs["preemptions"].sum()) == (policy in PREEMPTIVE)
    check(outcome)


@pytest.mark.parametrize("policy", ["sjf-bco", "ff", "rand"])
@pytest.mark.parametrize("model", ["rar", "fixed"])
def test_the_parts_of_a_plan_add_up(policy: str, model: str) -> None:
    jobs = busy_jobs(24).with_columns(submit_time=pl.lit(0.0))
    check(plan(jobs, "4x4", policy=policy, model=model, slot=5.0))


@pytest.mark.parametrize("policy", ["rand", "srtf"])
def test_without_causes_what_is_left_is_told_as_one(policy: str) -> None:
    outcome = replay(busy_jobs(), "4x4", policy=policy)
    check(dataclasses.replace(outcome, jobs=outcome.jobs.drop(*CAUSES_SCHEMA)))


@pytest.mark.parametrize("model", ["rar", "fixed"])
def test_lost_work_is_a_part(model: str) -> None:
    downs = [(server, 150.0 + 400.0 * place) for place in range(4) for server in range(4)]
    outages = pl.DataFrame(downs, schema=["server", "down_at"], orient="row").with_columns(
        pl.col("server").cast(pl.UInt32), up_at=pl.col("down_at") + 50.0
    )
    outcome = replay(busy_jobs(), "4x4", policy="fifo", model=model, outages=outages, preempt_cost=11.0)
    shown = parts_of(outcome)
    assert shown[LOST] == pytest.approx(outcome.jobs["lost_work"].mean(), rel=1e-4)
    assert sum(shown.values()) == pytest.approx(outcome.summary["mean_jct"], rel=1e-4)


def test_preemption_has_no_part_where_nothing_preempts() -> None:
    results = {policy: replay(busy_jobs(), "4x4", policy=policy) for policy in ("fifo", "srtf")}
    data = rows_of(drawn(results)["time"])
    parts = dict(data.group_by("policy").agg("part").iter_rows())
    assert RESUMING in parts["srtf"]
    assert RESUMING not in parts["fifo"]
