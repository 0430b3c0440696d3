"""The timeline's cluster counters: exact in every window, however far apart the samples of the result are."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from frames import busy_jobs
from ringbco import plan, replay
from ringbco.reports import cluster_state, perfetto
from ringbco.reports.viewport import viewport
from ringbco.result.outcome import Outcome
from ringbco.trace.clock import first_instant

COLUMNS = ("queued_jobs", "queued_gpus", "busy_gpus", "spanning_jobs", "mean_contention")
COUNTERS = ("queue", "GPUs asked for by the queue", "GPUs held", "jobs on several servers", "mean contention")


def shown(
    outcome: Outcome, times: list[float], start: float | None = None, end: float | None = None
) -> list[tuple[float, ...]]:
    """What the trace's counters show at each time, as `COLUMNS`."""
    events = list(perfetto.trace_events(outcome, viewport(outcome, start, end, None)))
    result = []
    for name in COUNTERS:
        mine = [event for event in events if event["ph"] == "C" and event["name"] == name]
        at = (
            np.searchsorted([event["ts"] for event in mine], (np.array(times) * 1e6).round(), side="right")
            - 1
        )
        assert (at >= 0).all(), "no counter at the window's start"
        values = [next(iter(event["args"].values())) for event in mine]
        assert all(a != b for a, b in pairwise(values)), "told twice"
        result.append([values[place] for place in at])
    return list(zip(*result, strict=True))


def expected_state(outcome: Outcome, time: float) -> tuple[float, ...]:
    """The state after what happens at `time`, job by job; continuous clock, no preemption."""
    waiting = held = asked = 0
    running = set()
    for row in outcome.jobs.iter_rows(named=True):
        if row["submit_time"] <= time < row["start_time"]:
            waiting, asked = waiting + 1, asked + row["num_gpus"]
        if row["start_time"] <= time < row["finish_time"]:
            held += row["num_gpus"]
            running.add(row["job_id"])
    assert outcome.allocations is not None
    servers: dict[str, set[int]] = {job: set() for job in running}
    for job, server in outcome.allocations.select("job_id", "server").iter_rows():
        if job in running:
            servers[job].add(server)
    spanning = [of for of in servers.values() if len(of) > 1]
    met = [max(sum(server in other for other in spanning) for server in of) for of in spanning]
    return waiting, asked, held, len(spanning), sum(met) / len(met) if met else 0.0


@pytest.fixture(scope="module")
def sparse() -> Outcome:
    """Jobs that wait, span and contend, with two samples in all."""
    made = replay(busy_jobs(), "4x4", policy="rand", seed=3)
    return dataclasses.replace(made, timeline=made.timeline[[0, -1]])


def test_a_window_between_two_samples_shows_the_state_that_was(sparse: Outcome) -> None:
    rng = np.random.default_rng(1)
    starts = sparse.jobs["start_time"].to_list()
    last = float(sparse.timeline["time"][-1])
    seen = set()
    for start in (*rng.uniform(0, last - 90, 8), *rng.choice(starts, 4)):
        end = float(start) + 90.0
        times = [float(start), *rng.uniform(start, end, 6), end]
        times += [time for time in starts if start < time < end]
        states = shown(sparse, times, float(start), end)
        for time, state in zip(times, states, strict=True):
            assert state == pytest.approx(expected_state(sparse, time)), time
        seen.update(states)
    assert len(seen) > 15
    for column in range(len(COLUMNS)):
        assert len({state[column] for state in seen}) > 2, COLUMNS[column]


@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("policy", ["fifo", "sjf-bco", "srtf", "time-slice"])
def test_the_counters_at_each_sample_are_the_sample(policy: str, clock: str) -> None:
    """With breaks between stays, and under the slot clock with jobs not seen before a boundary."""
    options: dict[str, Any] = {"slot": 7.3} if clock == "slot" else {}
    made = replay(busy_jobs(90), "4x4", policy=policy, clock=clock, sample=7.3, **options)
    assert bool(made.jobs["preemptions"].sum()) == (policy in ("srtf", "time-slice"))
    times = made.timeline["time"].to_list()
    wanted = list(made.timeline.select(COLUMNS).iter_rows())
    assert shown(made, times, end=times[-1] + 1) == wanted


@pytest.mark.parametrize("slot", [0.1, 0.3, 0.7])
def test_a_job_is_seen_at_the_boundary_however_the_quotient_is_rounded(slot: float) -> None:
    """Submissions at, just before and just after boundaries of a slot that binary fractions cannot hold."""
    boundaries = np.arange(1, 200) * slot
    submit = np.sort(np.concatenate((boundaries, np.nextafter(boundaries, 0), np.nextafter(boundaries, 999))))
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(submit.size)],
            "submit_time": submit,
            "num_gpus": np.ones(submit.size, np.int64),
            "duration": np.ones(submit.size),
        }
    )
    # Nobody waits for GPUs, so each starts as soon as it is seen.
    idle = replay(jobs, "999x1", policy="fifo", model="fixed", clock="slot", slot=slot)
    seen = first_instant(submit, idle.run["options"])
    assert seen.tolist() == idle.jobs["start_time"].to_list()


def test_the_counters_of_a_plan_are_its_samples() -> None:
    made = plan(busy_jobs(24), "4x4", slot=5.0)
    times = made.timeline["time"].to_list()
    wanted = list(made.timeline.select(COLUMNS).iter_rows())
    assert shown(made, times) == wanted


def test_refused_jobs_wait_for_nothing() -> None:
    # Half of the deadlines cannot be met even alone.
    slack = pl.when(pl.int_range(pl.len()) % 2 == 0).then(3_000).otherwise(0)
    jobs = busy_jobs().with_columns(deadline=pl.col("submit_time") + 0.9 * pl.col("duration") + slack)
    made = replay(jobs, "4x4", policy="edf", admission=True, sample=11.0)
    assert made.summary["jobs_refused"] > 5
    times = made.timeline["time"].to_list()
    wanted = list(made.timeline.select(COLUMNS).iter_rows())
    assert shown(made, times) == wanted


@pytest.mark.parametrize("edge", ["start_time", "finish_time"])
def test_an_instant_at_a_windows_edge_is_told_once(sparse: Outcome, edge: str) -> None:
    """Windows from a job's start or finish to another's: each counter has one value an instant, the last."""
    spanning = sparse.jobs.filter(pl.col("num_servers") > 1)
    instants = spanning[edge].unique().sort().to_list()
    assert len(instants) > 20
    for start, end in zip(instants[5:15], instants[8:18], strict=True):
        events = list(perfetto.trace_events(sparse, viewport(sparse, start, end, None)))
        told: dict[tuple[int, str], list[float]] = {}
        for event in events:
            if event["ph"] == "C":
                told.setdefault((event["pid"], event["name"]), []).append(event["ts"])
        assert len(told) > len(COUNTERS), "no counter of a server"
        for counter, times in told.items():
            assert all(a < b for a, b in pairwise(times)), counter
            assert round(start * 1e6) <= times[0], counter
            assert times[-1] <= round(end * 1e6), counter
        # What ends where the window starts, and what starts where it ends, is not in it.
        assert all(event["dur"] > 0 for event in events if event["ph"] == "X")


def test_a_sample_at_a_windows_start_is_told_once(sparse: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the samples tell the contention, what the window finds replaces the one at its start."""
    monkeypatch.setattr(cluster_state, "MOST_CHANGES", 2)
    full = replay(busy_jobs(), "4x4", policy="rand", seed=3)
    sampled = full.timeline.filter(pl.col("mean_contention") > 0)["time"].to_list()
    for start in sampled[3:300:50]:
        shown = cluster_state._contention(full, viewport(full, start, None, None))
        assert shown["time"][0] == start
        assert shown["time"].is_unique().all()
        assert shown["value"][0] == pytest.approx(expected_state(full, start)[-1])


def test_many_changes_are_told_at_even_instants(sparse: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_state, "MOST_CHANGES", 20)
    whole = viewport(sparse, None, None, None)
    state = cluster_state.cluster_state(sparse, whole)
    instants = np.linspace(whole.start, whole.end, 20).tolist()
    for place, column in enumerate(COLUMNS[:-1]):
        assert set(state[column]["time"]) <= set(instants)
        values = dict(state[column].iter_rows())
        for time in instants:
            values.setdefault(time, values.get(max(t for t in values if t <= time)))
            assert values[time] == expected_state(sparse, time)[place]
    # The contention's are the samples then, after what the window finds.
    start = float(sparse.jobs.filter(pl.col("max_contention") > 1)["start_time"].sort()[9])
    (result, *rest) = cluster_state.cluster_state(sparse, viewport(sparse, start, None, None))[
        "mean_contention"
    ].iter_rows()
    assert result == (start, pytest.approx(expected_state(sparse, start)[-1]))
    assert result[1] > 0
    assert all(time > start for time, _ in rest)
    assert set(rest) <= set(sparse.timeline.select("time", "mean_contention").iter_rows())


def test_much_contention_is_told_by_the_samples(sparse: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_state, "MOST_LOOKED_AT", 50)
    start = float(sparse.jobs.filter(pl.col("max_contention") > 1)["start_time"].sort()[9])
    state = cluster_state.cluster_state(sparse, viewport(sparse, start, None, None))["mean_contention"]
    assert state.height == 2
    assert state["value"].to_list() == [pytest.approx(expected_state(sparse, start)[-1]), 0.0]
