"""The timeline's counters equal timeline.parquet at every sample, its slices and waits the tables.

Whatever meets in the run.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.draw import build, toss
from core_run import CASES
from frames import rows_table
from ringbco.errors import RingbcoError
from ringbco.reports.cluster_state import cluster_state
from ringbco.reports.viewport import viewport
from ringbco.result.outcome import Outcome
from ringbco.trace.clock import first_instant
from test_timeline import check_format, events_of, slices, waits_of

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

COUNTS = ("queued_jobs", "queued_gpus", "busy_gpus", "spanning_jobs")
CHUNK = 25
DRAWN = max(CHUNK, CASES // 6)


def differs(outcome: Outcome) -> dict[str, int]:
    """In how many samples each count is another one."""
    state = cluster_state(outcome, viewport(outcome, None, None, None))
    times = outcome.timeline["time"].to_numpy()
    result = {}
    for name in COUNTS:
        told = state[name]
        at = np.searchsorted(told["time"].to_numpy(), times, side="right") - 1
        # Samples count whole GPUs, where jobs have shares of them.
        mine = np.floor(told["value"].to_numpy()[at] + 0.5)
        result[name] = int((mine != outcome.timeline[name].to_numpy()).sum())
    return {name: count for name, count in result.items() if count}


def check_slices(outcome: Outcome) -> tuple[int, int]:
    """A slice a (stay, server), replica and outage, none over another; waits as the tables have them."""
    events = events_of(outcome)
    check_format({"traceEvents": events, "displayTimeUnit": "ms"})
    assert outcome.allocations is not None
    done = outcome.allocations.join(outcome.jobs.select("job_id"), on="job_id", how="semi")
    # What begins and ends where the run ends is in no window.
    shown = viewport(outcome, None, None, None)
    some = done.filter((pl.col("start_time") < shown.end) & (pl.col("end_time") > shown.start))
    jobs = [event for event in slices(events) if "job" in event["args"]]
    assert len(jobs) == some.select("job_id", "stay", "server").n_unique()
    replicas = [event for event in slices(events) if event["cat"] == "service"]
    told = outcome.replicas
    assert len(replicas) == (0 if told is None else told.filter(pl.col("start_time") < shown.end).height)
    held: dict[str, float] = {}
    for event in jobs:
        held[event["args"]["job"]] = held.get(event["args"]["job"], 0) + event["args"]["GPUs here"]
    assert held == dict(some.group_by("job_id").agg(pl.col("num_gpus").sum()).iter_rows())
    waited: dict[str, float] = {}
    waits = waits_of(events)
    for wait, begin, end in waits:
        waited[wait["job"]] = waited.get(wait["job"], 0.0) + (end - begin) / 1e6
    # By the slot clock a job waits from the boundary on that sees it, which its causes do not know.
    submit = outcome.jobs["submit_time"].to_numpy()
    unseen = first_instant(submit, outcome.run["options"]) - submit
    causes = pl.sum_horizontal("wait_behind", "wait_gpus", "wait_fragmented")
    of = dict(outcome.stays.group_by("job_id").agg(wait=causes.sum()).iter_rows())
    wanted = {job: of[job] - late for job, late in zip(outcome.jobs["job_id"], unseen, strict=True)}
    assert {job: waited.get(job, 0.0) for job in wanted} == pytest.approx(wanted, rel=1e-6, abs=1e-3)
    # As many wait at once as the counter says, whose last value at an instant holds.
    queue = {e["ts"]: e["args"]["jobs waiting"] for e in events if e["name"] == "queue"}
    for at, count in queue.items():
        assert sum(begin <= at < end for _, begin, end in waits) == count, at
    return len(jobs), len(waits)


def elastic_jobs() -> pl.DataFrame:
    rows = [(0.0, 4, 2, 8, 100.0), (10.0, 4, 1, 8, 100.0), (20.0, 2, 2, 2, 50.0), (30.0, 8, 4, 8, 60.0)]
    return rows_table("submit_time num_gpus min_gpus max_gpus duration", rows)


def test_who_holds_more_or_less_asks_for_what_it_asked() -> None:
    assert differs(ringbco.replay(elastic_jobs(), "1x8", policy="afs", model="fixed")) == {}


def test_a_trial_at_a_rung_does_not_wait() -> None:
    trials = pl.DataFrame(
        {
            "job_id": [f"t{row}" for row in range(12)],
            "submit_time": [7.0 * row for row in range(12)],
            "num_gpus": [1, 2, 1] * 4,
            "duration": [60.0, 80.0, 100.0] * 4,
            "group": ["a"] * 12,
        }
    )
    given = {"policy": "srtf", "model": "fixed", "search": "asha:eta=2,rungs=3"}
    outcome = ringbco.replay(trials, "2x2", **given)
    assert (outcome.stays["paused_at_rung"] > 0).any()
    assert differs(outcome) == {}


class Ends(ringbco.Policy):
    """Starts jobs as they come; ends the first one at 40 s."""

    def decide(self, state: ringbco.State) -> None:
        if state.now < 40.0:
            state.wake(40.0)
        if state.now == 40.0:
            state.end(0)
        state.start(state.waiting)


def test_who_was_ended_held_gpus_until_then(tmp_path: Path) -> None:
    jobs = rows_table("submit_time num_gpus duration", [(5.0, 4, 100.0), (8.0, 4, 50.0), (20.0, 4, 50.0)])
    outcome = ringbco.replay(jobs, "1x8", policy=Ends, model="fixed")
    assert outcome.jobs.height == 2
    assert differs(outcome) == {}
    ringbco.timeline(outcome, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    held = [(event["ts"] / 1e6, event["args"]["GPUs"]) for event in events if event["name"] == "GPUs held"]
    assert held[:3] == [(5.0, 4), (8.0, 8), (58.0, 4)]
    # It has no row in jobs.parquet, and no lane.
    assert {event["args"]["job"] for event in events if event["ph"] == "X"} == {"j1", "j2"}


@pytest.mark.parametrize("chunk", range(-(-DRAWN // CHUNK)))
def test_the_counters_are_the_samples_and_the_slices_the_tables(chunk: int) -> None:
    seen = many = waited = 0
    for seed in range(CHUNK * chunk, min(DRAWN, CHUNK * (chunk + 1))):
        try:
            outcome = build(seed, toss(seed)).replay()
        except RingbcoError:
            continue
        result = differs(outcome)
        if "min_gpus" in outcome.jobs.columns and "jobs_ended" in outcome.summary:
            result.pop(
                "queued_gpus", None
            )  # a result does not tell what an elastic job asked for that was ended
        assert result == {}, seed
        seen += 1
        drawn, waits = check_slices(outcome)
        many, waited = many + drawn, waited + waits
    assert seen > 0
    assert many > waited > 0
