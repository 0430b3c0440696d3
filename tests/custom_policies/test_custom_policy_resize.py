"""Elastic jobs under custom policies: resize, end, and starts on other GPUs than asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from core_run import LONG
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.errors import DecisionError, InputError
from ringbco.trace.jobs import from_frame

JOBS = {
    "job_id": ["a", "b"],
    "submit_time": [0.0, 0.0],
    "num_gpus": [2, 2],
    "duration": [100.0, 100.0],
    "min_gpus": [1, None],
    "max_gpus": [4, None],
}


def elastic(**columns: Any) -> ringbco.JobTable:
    return from_frame(pl.DataFrame({**JOBS, **columns}))


def sim(jobs: ringbco.JobTable | None = None, cluster: str = "2x4", **options: Any) -> ringbco.Simulation:
    given = {"model": "fixed", "preempt_cost": 10.0, **options}
    return ringbco.Simulation(elastic() if jobs is None else jobs, cluster, **given)


def sound(outcome: ringbco.Outcome, jobs: ringbco.JobTable) -> None:
    assert ringbco.audit(outcome, jobs) == []


def test_a_job_on_half_of_its_gpus_takes_twice_as_long() -> None:
    run = sim()
    assert run.advance()
    assert run.start([0], gpus=1) == 1
    run.start([1])
    assert run.state.held.tolist() == [1, 2]
    assert run.state.rate([0, 0], [1, 4]).tolist() == [0.5, 2.0]
    while run.advance():
        pass
    outcome = run.outcome()
    assert outcome.jobs["finish_time"].to_list() == [200.0, 100.0]
    assert outcome.jobs["run_resized"].to_list() == [100.0, 0.0]
    assert outcome.jobs["held_gpu_time"].to_list() == [200.0, 200.0]
    assert outcome.summary["utilisation"] == 400.0 / (8 * 200.0)
    sound(outcome, elastic())


def test_a_resize_pauses_and_keeps_its_progress() -> None:
    run = sim(resize_cost=5.0, decisions=True)
    assert run.advance()
    run.start([0, 1])
    run.wake(40.0)
    assert run.advance()
    run.resize(0, 4)  # 40 s of work done, 60 s left: 5 s of pause and 30 s on twice the GPUs
    assert run.state.held.tolist() == [4, 2]
    assert run.state.attained.tolist() == [80.0, 80.0]
    while run.advance():
        pass
    outcome = run.outcome()
    assert outcome.jobs["finish_time"].to_list() == [75.0, 100.0]
    assert outcome.jobs["preemptions"].to_list() == [1, 0]
    assert outcome.jobs["lost_gpu_time"].to_list() == [20.0, 0.0]
    assert outcome.jobs["run_resized"].to_list() == [-30.0, 0.0]
    assert outcome.decisions is not None
    assert outcome.decisions["verb"].to_list()[-1] == "resize"
    sound(outcome, elastic())


def test_thirds_of_slots_that_add_up_to_a_whole_number_are_one() -> None:
    """4 slots, of which 2/3, 1 and 4/3 are done by 4 s. In float64 4 - 2/3 - 1 - 4/3 is more than 1."""
    row = {"job_id": "a", "submit_time": 0.0, "num_gpus": 3, "duration": 4.0, "min_gpus": 2}
    jobs = from_frame(pl.DataFrame([row]))
    run = sim(jobs, clock="slot", preempt_cost=0.0)
    run.advance(), run.start(0, gpus=2)
    for at, gpus in ((1.0, 3), (2.0, 2), (4.0, 3)):
        run.wake(at), run.advance()
        run.resize(0, gpus)
    run.advance()
    out = run.outcome()
    assert out.jobs["finish_time"].to_list() == [5.0]
    sound(out, jobs)


@pytest.mark.parametrize(("noise", "finish"), [(1e6, 6.0), (1e10, 6.0), (1e14, 5.0), (None, 5.0)])
def test_what_falls_short_of_a_slot_takes_another_one(noise: float | None, finish: float) -> None:
    """10 slots at 2 (phi + 1) / (phi + 2) a slot: 5 slots do less, unless that is 2 to one part in 10^12."""
    row = {"job_id": "a", "submit_time": 0.0, "num_gpus": 1, "duration": 10.0, "max_gpus": 2}
    frame = pl.DataFrame([row]).with_columns(noise_scale=pl.lit(noise, pl.Float64))
    jobs = from_frame(frame)
    run = sim(jobs, clock="slot")
    run.advance(), run.start(0, gpus=2), run.advance()
    out = run.outcome()
    assert out.jobs["finish_time"].to_list() == [finish]
    sound(out, jobs)
    late = out.jobs.with_columns(pl.col("finish_time", "run_time", "jct") + 1.0)
    held = out.allocations.with_columns(pl.col("end_time") + 1.0)
    assert out.stays_written is not None
    stays = out.stays_written.with_columns(pl.col("end_time") + 1.0)
    wrong = replace(out, jobs=late, allocations=held, stays_written=stays)
    assert "run-times" in {report.code for report in ringbco.audit(wrong, jobs)}


@pytest.mark.parametrize("model", ["fixed", "rar"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_a_stay_of_absurd_length_is_found(model: str, clock: str) -> None:
    run = sim(elastic(), model=model, clock=clock)
    run.advance(), run.start(0, gpus=4), run.start(1), run.advance(), run.advance()
    out = run.outcome()
    for name in ("allocations", "jobs"):
        column = "end_time" if name == "allocations" else "finish_time"
        damaged = getattr(out, name).with_columns(pl.lit(1.7e308).alias(column))
        assert ringbco.audit(replace(out, **{name: damaged}), elastic()) != []


def test_resizing_there_and_back_at_one_instant_is_nothing() -> None:
    run = sim()
    assert run.advance()
    run.start([0, 1])
    run.wake(40.0)
    assert run.advance()
    there = run.state.allocation(0)
    run.resize(0, 4)
    run.resize(0, 1)
    run.move({0: there})
    while run.advance():
        pass
    outcome = run.outcome()
    assert outcome.jobs["finish_time"].to_list() == [100.0, 100.0]
    assert outcome.jobs["preemptions"].to_list() == [0, 0]
    sound(outcome, elastic())


@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_ended_jobs_have_no_row_and_are_counted(clock: str) -> None:
    run = sim(clock=clock, **({"slot": 10.0} if clock == "slot" else {}))
    assert run.advance()
    run.start([0], gpus=4)
    run.start([1])
    run.wake(30.0)
    assert run.advance()
    run.end([0])
    while run.advance():
        pass
    outcome = run.outcome()
    assert outcome.jobs["job_id"].to_list() == ["b"]
    assert (outcome.summary["jobs"], outcome.summary["jobs_ended"]) == (1, 1)
    assert "jobs_dropped" in outcome.summary
    assert outcome.summary["jobs_dropped"] == 0
    assert outcome.summary["utilisation"] == (4 * 30.0 + 2 * 100.0) / (8 * 100.0)
    assert outcome.allocations is not None
    assert outcome.allocations.filter(pl.col("job_id") == "a")["end_time"].to_list() == [30.0]
    sound(outcome, elastic())


class Restless(ringbco.Policy):
    """Starts, stops, moves, resizes, refuses and ends at random."""

    clairvoyant = True

    def __init__(self, seed: int = 0) -> None:
        self.draws = np.random.default_rng(seed)
        self.asked = 0

    def decide(self, state: Any) -> None:
        self.asked += 1
        draws = self.draws
        least, most = (state.jobs[name] for name in ("min_gpus", "max_gpus"))
        if self.asked < 200:
            for row in state.running:
                what = draws.integers(12)
                if what == 0:
                    state.stop(row)
                elif what < 3:
                    try:
                        state.resize(row, int(draws.integers(least[row], most[row] + 1)))
                    except DecisionError as error:
                        assert "places no" in str(error)  # noqa: PT017 - it need not raise
                elif what == 3 and draws.integers(4) == 0:
                    state.end(row)
            if len(state.waiting) and draws.integers(10) == 0 and state.attained[state.waiting[0]] == 0.0:
                state.refuse(state.waiting[0])
        for row in draws.permutation(state.waiting.tolist()).astype(int):
            if draws.integers(3):
                state.start(row, gpus=int(draws.integers(least[row], most[row] + 1)), strict=False)
        state.start(state.waiting, strict=False)


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
@pytest.mark.parametrize("model", ["rar", "fixed"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("placement", ["consolidate", "sjf-bco", "random"])
def test_whatever_is_done_at_random_is_sound_and_repeats(
    seed: int, model: Any, clock: Any, placement: Any, tmp_path: Path
) -> None:
    frame = ringbco.generate("philly", 80, seed=seed, gpus=32, load=1.5).frame
    draws = np.random.default_rng(seed)
    asked = frame["num_gpus"].to_numpy()
    least = draws.integers(1, asked + 1)
    frame = frame.with_columns(
        min_gpus=pl.Series(least, dtype=pl.UInt32),
        max_gpus=pl.Series(asked + draws.integers(0, 5, 80), dtype=pl.UInt32),
        noise_scale=pl.Series(draws.choice([0.0, 3.5, 700.0, 1e6, np.inf], 80)),
        batch_size=pl.Series(draws.integers(1, 500, 80), dtype=pl.UInt32),
    )
    jobs = from_frame(frame)
    options: dict[str, Any] = {"model": model, "clock": clock, "placement": placement, "decisions": True}
    if clock == "slot":
        options["slot"] = 300.0
    options |= {"move_cost": 20.0, "resize_cost": 45.0, "preempt_cost": 70.0}
    outcome = ringbco.replay(jobs, "4x8", policy=Restless(seed), **options)
    assert outcome.decisions is not None
    assert outcome.allocations is not None
    assert {"resize", "end", "stop"} <= set(outcome.decisions["verb"])
    sound(outcome, jobs)
    outcome.decisions.write_parquet(tmp_path / "log.parquet")
    del options["placement"]
    again = ringbco.replay(jobs, "4x8", policy=f"log:{tmp_path / 'log.parquet'}", **options)
    assert again.jobs.drop("wait_gpus", "wait_fragmented", "wait_behind").equals(
        outcome.jobs.drop("wait_gpus", "wait_fragmented", "wait_behind")
    )
    assert again.allocations is not None
    assert again.allocations.equals(outcome.allocations)
    sound(again, jobs)


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (
            lambda run: run.start([1], gpus=3),
            "start at 0 s: job b (row 1): GPUs given: 3, requested: 2",
        ),
        (
            lambda run: run.start([0], gpus=5),
            "start at 0 s: job a (row 0): GPUs given: 5, allowed: 1 to 4",
        ),
        (lambda run: run.start([0], gpus=0), "gpus is a number of GPUs >= 1, not 0"),
        (lambda run: run.start([0], [(0, 2)], gpus=1), "servers give other GPUs than 1"),
        (lambda run: run.resize(0, 2), "resize at 0 s: job a (row 0): it holds no GPUs"),
        (lambda run: run.resize(0, 1.5), "gpus is a number of GPUs >= 1, not 1.5"),
        (lambda run: run.end([0]), "end at 0 s: job a (row 0): it has never run: refuse it"),
        (lambda run: (run.start([0]), run.resize(0, 5)), "GPUs given: 5, allowed: 1 to 4"),
        (lambda run: (run.start([0]), run.start([1]), run.end([0, 0])), "it is named twice"),
        (lambda run: (run.start([0]), run.end([0]), run.end([0])), "it was ended"),
        (lambda run: (run.start([0], [(0, 2)]), run.start([1], [(0, 2)]), run.resize(0, 4)), None),
    ],
)
def test_what_cannot_be_done(verb: Any, said: str | None) -> None:
    run = sim(cluster="1x4" if said is None else "2x4")
    assert run.advance()
    with pytest.raises(DecisionError) as raised:
        verb(run)
    assert (said or "consolidate places no 4 GPUs for it") in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "column", "said"),
    [
        ({"min_gpus": [3, 1]}, "min_gpus", "an integer from 1 to num_gpus, which is 2"),
        ({"min_gpus": [0, 1]}, "min_gpus", "an integer from 1 to num_gpus"),
        ({"max_gpus": [None, 1]}, "max_gpus", "an integer >= num_gpus, which is 2"),
    ],
)
def test_a_table_whose_ranges_leave_num_gpus_out(columns: Any, column: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        elastic(**columns)
    assert column in str(raised.value)
    assert said in str(raised.value)


def test_a_built_in_policy_takes_elastic_jobs_as_rigid() -> None:
    rigid = from_frame(elastic().frame.drop("min_gpus", "max_gpus"))
    one, other = (ringbco.replay(jobs, "1x4", policy="srtf") for jobs in (elastic(), rigid))
    assert one.jobs.select(other.jobs.columns).equals(other.jobs)


class EndsAllOf(ringbco.Policy):
    """Starts everybody, and ends the jobs of a virtual cluster or refuses them."""

    def __init__(self, verb: str) -> None:
        self.verb = verb

    def decide(self, state: Any) -> None:
        waiting = state.waiting
        of_b = waiting[state.jobs["vc"][waiting] == "B"]
        if self.verb == "refuse" and of_b.size:
            state.refuse(of_b[-1:])
        state.start(state.waiting)
        if self.verb == "end" and state.now >= 10.0:
            state.end([row for row in state.running if state.jobs["vc"][row] == "B"])
        elif self.verb == "end":
            state.wake(10.0)


@pytest.mark.long
@pytest.mark.parametrize("verb", ["end", "refuse"])
def test_virtual_clusters_whose_jobs_are_ended_or_refused(verb: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({
        "job_id": ["a", "b", "c"], "submit_time": [0.0] * 3, "num_gpus": [2] * 3, "duration": [90.0] * 3,
        "vc": ["A", "B", "B"],
    })  # fmt: skip
    jobs = from_frame(frame)
    groups = [ServerGroup(1, 4, vc="A"), ServerGroup(1, 4, vc="B")]
    outcome = ringbco.replay(jobs, Cluster.from_groups(groups), policy=EndsAllOf(verb), model="fixed")
    recorded = {row["vc"]: row for row in outcome.summary["vcs"]}
    assert (recorded["B"]["jobs"], recorded["B"][f"jobs_{verb.rstrip('e')}ed"]) == (
        (0, 2) if verb == "end" else (1, 1)
    )
    sound(outcome, jobs)
    outcome.write(tmp_path / "result")
    for results in (tmp_path / "result", outcome):
        page = tmp_path / "page.html"
        ringbco.report(results, page, force=True)
        assert ("ended before they were done" if verb == "end" else "refused") in page.read_text()
        ringbco.timeline(results, tmp_path / "trace.json", force=True)
        assert (tmp_path / "trace.json").stat().st_size > 0
