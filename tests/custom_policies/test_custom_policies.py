"""Custom policies: equal to the built-in ones, sound under audit, by hand and in forks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from core_run import STEP
from custom_policies import JOBS, Fifo, by_hand, same
from ringbco.audits import check_outcome
from ringbco.errors import UsageError

SETTINGS: list[dict[str, Any]] = [{}, {"clock": "slot", "slot": 60.0}, {"model": "fixed"}]


class FifoByKey(ringbco.KeyPolicy):
    def key(self, state: Any, rows: Any) -> Any:
        return state.jobs.submit_time[rows]


class Sjf(ringbco.KeyPolicy):
    clairvoyant = True

    def key(self, state: Any, rows: Any) -> Any:
        return state.remaining_time[rows]


class Smallest(ringbco.KeyPolicy):
    def key(self, state: Any, rows: Any) -> Any:
        return state.jobs["num_gpus"][rows]


class FifoByRank(ringbco.RankPolicy):
    def rank(self, state: Any, rows: Any) -> Any:
        return np.arange(rows.size)


class Srtf(ringbco.RankPolicy):
    clairvoyant = True
    preemptive = True

    def rank(self, state: Any, rows: Any) -> Any:
        return state.remaining_time[rows]


class SjfBco(ringbco.Policy):
    """The smallest first, placed by SJF-BCO."""

    def decide(self, state: Any) -> None:
        waiting = state.waiting
        order = np.argsort(state.jobs.num_gpus[waiting], kind="stable")
        state.start(waiting[order], placement="sjf-bco")


@dataclass
class Chaos(ringbco.Policy):
    """Starts, stops and moves at random."""

    seed: int = 0
    share: float = 0.3

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def decide(self, state: Any) -> None:
        rng = self.rng
        if len(state.running) and rng.random() < self.share:
            state.stop(rng.choice(state.running, 1))
        for _ in range(2):
            if len(state.running) > 1 and rng.random() < self.share:
                one, other = rng.choice(state.running, 2, replace=False)
                if state.jobs.num_gpus[one] == state.jobs.num_gpus[other]:
                    state.move({one: state.allocation(other), other: state.allocation(one)})
        waiting = state.waiting.copy()
        rng.shuffle(waiting)
        state.start(waiting, strict=bool(rng.random() < 0.5))
        if len(state.waiting) and rng.random() < 0.2:
            state.wake(state.now + 30.0)


EQUAL = [
    (Fifo, {}, "fifo", {}),
    (Fifo, {"placement": "first-fit"}, "ff", {}),
    (FifoByKey, {}, "fifo", {}),
    (FifoByKey, {"queue": "easy"}, "fifo", {"queue": "easy"}),
    (FifoByRank, {}, "fifo", {"queue": "skip"}),
    (Sjf, {}, "sjf", {}),
    (Sjf, {"queue": "skip", "aging": 9000.0}, "sjf", {"queue": "skip", "aging": 9000.0}),
    (Smallest, {"placement": "sjf-bco"}, "sjf-bco", {}),
    (SjfBco, {}, "sjf-bco", {}),
    (Srtf, {}, "srtf", {}),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=["continuous", "slot", "fixed"])
@pytest.mark.parametrize(
    ("own", "options", "name", "more"),
    EQUAL,
    ids=[f"{one[0].__name__}-{one[2]}-{i}" for i, one in enumerate(EQUAL)],
)
def test_equal_to_the_built_in(
    own: Any, options: dict[str, Any], name: str, more: dict[str, Any], setting: dict[str, Any]
) -> None:
    mine = ringbco.replay(JOBS, "8x8", policy=own, **options, **setting)
    same(mine, ringbco.replay(JOBS, "8x8", policy=name, **more, **setting))


@pytest.mark.parametrize(("own", "name"), [(Fifo, "fifo"), (Sjf, "sjf"), (Srtf, "srtf"), (SjfBco, "sjf-bco")])
def test_equal_on_a_public_trace(own: Any, name: str, shared_traces: Path) -> None:
    """The first jobs of it, and all in `make test-long`: a decision costs as much as its queue is long."""
    trace = ringbco.read_jobs(shared_traces / "philly" / "6214e9.csv")
    jobs = trace if STEP == 1 else ringbco.from_frame(trace.frame.head(5_000))
    mine = ringbco.replay(jobs, "32x8", policy=own)
    same(mine, ringbco.replay(jobs, "32x8", policy=name))


@pytest.mark.parametrize("placement", ["consolidate", "first-fit", "sjf-bco", "random"])
def test_a_column_orders_the_queue(placement: str) -> None:
    given: dict[str, Any] = {"policy": "fifo", "placement": placement}
    smallest = ringbco.replay(JOBS, "8x8", order="smallest", **given)
    same(ringbco.replay(JOBS, "8x8", order="column:num_gpus", **given), smallest)
    array: Any = JOBS.frame["num_gpus"].to_numpy()
    same(ringbco.replay(JOBS, "8x8", order=array, **given), smallest)
    assert (
        ringbco.replay(JOBS, "8x8", order="column:num_gpus", **given).run["options"]["order"]
        == "column:num_gpus"
    )


@pytest.mark.parametrize("setting", SETTINGS, ids=["continuous", "slot", "fixed"])
@pytest.mark.parametrize("seed", range(3))
def test_chaos_passes_the_audit_and_its_log_gives_it_again(
    seed: int, setting: dict[str, Any], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"decisions": True, "move_cost": 5.0 * seed, **setting}
    policy = Chaos(seed, 0.5)
    outcome = ringbco.replay(
        JOBS, "8x8", policy=policy, placement=["consolidate", "random", "fa-ffp"][seed], **options
    )
    assert check_outcome(outcome, JOBS).findings == []
    assert outcome.jobs["preemptions"].sum() > 100
    assert outcome.decisions is not None
    assert "move" in outcome.decisions["verb"]
    outcome.write(tmp_path / "run")
    log = f"log:{tmp_path / 'run' / 'decisions.parquet'}"
    again = ringbco.replay(JOBS, "8x8", policy=log, **options)
    # Whether a wait was for GPUs or for whole servers depends on the placement, and a log has none.
    waits = [name for name in outcome.jobs.columns if name.startswith("wait_") and name != "wait_time"]
    same(again, replace(outcome, jobs=outcome.jobs.drop(waits)))
    assert outcome.decisions.equals(again.decisions)


def test_each_virtual_cluster_has_a_copy_of_the_policy() -> None:
    class Counting(Fifo):
        def __init__(self) -> None:
            self.rows: list[int] = []

        def decide(self, state: Any) -> None:
            self.rows.extend(state.arrived.tolist())
            assert set(state.vc) == {"a", "b"}
            assert state.idle.size == 3
            super().decide(state)

    frame = pl.DataFrame(
        {
            "job_id": ["1", "2", "3"],
            "submit_time": [0.0, 1.0, 2.0],
            "num_gpus": [2, 3, 1],
            "duration": [10.0, 10.0, 10.0],
            "vc": ["a", "b", "a"],
        }
    )
    cluster = ringbco.Cluster(server_gpus=[2, 2, 2], server_vc=["a", "b", "b"])
    policy = Counting()
    mine = ringbco.replay(frame, cluster, policy=policy, model="fixed")
    assert policy.rows == []
    same(mine, ringbco.replay(frame, cluster, policy="fifo", model="fixed"))
    simulation = ringbco.Simulation(frame, cluster, vc="b", model="fixed")
    assert simulation.advance()
    simulation.start(simulation.state.waiting)
    assert simulation.state.allocation(1) == [(1, 2), (2, 1)]
    assert not simulation.advance()
    assert simulation.outcome().jobs["job_id"].to_list() == ["2"]


def test_a_simulation_by_hand_and_its_forks() -> None:
    theirs = ringbco.replay(JOBS, "8x8", policy="fifo")
    simulation = ringbco.Simulation(JOBS, "8x8")
    forks = []
    steps = 0
    while simulation.advance():
        steps += 1
        if steps % 400 == 0:
            forks.append(simulation.fork())
        simulation.start(simulation.state.waiting)
    same(simulation.outcome(), theirs)
    assert len(forks) > 2
    for fork in forks:
        fork.start(fork.state.waiting)
        while fork.advance():
            fork.start(fork.state.waiting)
        same(fork.outcome(), theirs)


def test_a_fork_with_a_policy_decides_itself() -> None:
    simulation = ringbco.Simulation(JOBS, "8x8")
    half = float(JOBS.frame["submit_time"][400])
    assert simulation.advance()
    fork = simulation.fork(Fifo())
    fork.start(fork.state.waiting)
    assert not fork.advance(half)
    assert fork.state.now == half
    with pytest.raises(UsageError, match="jobs are not done"):
        fork.outcome()
    assert not fork.advance()
    same(fork.outcome(), ringbco.replay(JOBS, "8x8", policy="fifo"))
    assert simulation.state.now == float(JOBS.frame["submit_time"][0])


def test_verbs_of_one_instant_are_netted() -> None:
    simulation = by_hand(decisions=True)
    assert simulation.advance()
    simulation.start([0], servers=[(1, 2)])
    simulation.start([1])
    assert simulation.state.allocation(0) == [(1, 2)]
    assert simulation.advance()  # c arrives at 5 s
    simulation.stop([0, 1])
    assert simulation.state.idle.tolist() == [2, 2]
    simulation.start([2])  # on server 0, and taken back
    simulation.stop([2])
    simulation.start([0], servers=[(1, 2)])
    simulation.start([1], servers=[(0, 2)])
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    jobs = simulation.outcome().jobs
    assert jobs["finish_time"].to_list() == [10.0, 10.0, 20.0]
    assert jobs["start_time"].to_list() == [0.0, 0.0, 10.0]
    assert jobs["preemptions"].to_list() == [0, 0, 0]


@pytest.mark.parametrize(("cost", "pause"), [(None, 30.0), (3.0, 3.0)])
def test_a_move_costs_its_pause(cost: float | None, pause: float) -> None:
    simulation = by_hand(move_cost=cost)
    assert simulation.advance()
    simulation.start([0, 1])
    simulation.advance()
    simulation.move({0: simulation.state.allocation(1), 1: simulation.state.allocation(0)})
    assert simulation.state.held.tolist() == [2, 2, 0]
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    jobs = simulation.outcome().jobs
    assert jobs["finish_time"].to_list() == [10 + pause, 10 + pause, 20 + pause]
    assert jobs["preemptions"].to_list() == [1, 1, 0]


def test_what_was_read_keeps_its_content_until_the_decision_is_over() -> None:
    simulation = by_hand()
    simulation.advance()
    state = simulation.state
    waiting, held, idle = state.waiting, state.held, state.idle
    attained = state.attained
    simulation.start([0])
    assert (waiting.tolist(), held.tolist(), idle.tolist()) == ([0, 1], [0, 0, 0], [2, 2])
    assert (state.waiting.tolist(), state.held.tolist(), state.idle.tolist()) == ([1], [2, 0, 0], [0, 2])
    with pytest.raises(ValueError, match="read-only"):
        state.held[0] = 5
    simulation.start([1])
    simulation.advance()
    assert state.now == 5.0
    assert state.attained.tolist() == [10.0, 10.0, 0.0]
    assert state.remaining_time.tolist() == [5.0, 5.0, 10.0]
    assert attained.size == 3  # stale, and still there
    assert (state.arrived.tolist(), state.completed.tolist()) == ([2], [])
    assert state.rate([0], 1).tolist() == [0.5]


def test_refused_jobs_are_counted() -> None:
    simulation = by_hand()
    simulation.advance()
    simulation.refuse([1])
    simulation.start([0])
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    outcome = simulation.outcome()
    assert outcome.jobs["job_id"].to_list() == ["a", "c"]
    assert outcome.summary["jobs_refused"] == 1


def test_verbs_act_at_the_time_that_was_asked_for() -> None:
    simulation = by_hand(decisions=True)
    assert simulation.advance()
    assert not simulation.advance(until=3.0)
    assert simulation.state.now == 3.0
    simulation.start([0])
    assert not simulation.advance(until=4.5)
    assert simulation.state.attained.tolist() == [3.0, 0.0, 0.0]
    simulation.stop([0])
    simulation.wake(4.75)
    assert simulation.advance()
    assert simulation.state.now == 4.75
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    outcome = simulation.outcome()
    assert outcome.jobs["start_time"].to_list() == [3.0, 5.0, 15.0]
    assert outcome.jobs["finish_time"].to_list() == [5.0 + 30.0 + 8.5, 15.0, 25.0]
    assert outcome.jobs["wait_time"].to_list() == [3.0, 5.0, 10.0]
    assert outcome.jobs["wait_gpus"].to_list() == pytest.approx([0.0, 0.0, 10.0])


class Blinks(ringbco.Policy):
    """Lets its jobs run for one second of ten."""

    def decide(self, state: ringbco.State) -> None:
        turn = round(state.now) % 10
        if turn == 0:
            state.start(state.waiting)
        elif turn == 1:
            state.stop(state.running)
        state.wake(state.now + 1.0)


def test_thousands_of_decisions_are_not_in_vain_if_stays_got_something_done() -> None:
    # A policy is given up after 10,000 decisions without progress; most of these meet no running job.
    frame = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1_150.0]})
    outcome = ringbco.replay(frame, "1x1", policy=Blinks(), model="fixed", preempt_cost=0.0)
    assert outcome.jobs["finish_time"].to_list() == [1_149 * 10.0 + 1.0]


class AtTicks(Fifo):
    """Decides every four seconds."""

    interval = 4.0


def test_a_policy_with_an_interval_decides_at_ticks_only() -> None:
    frame = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 5.0], "num_gpus": [2, 2], "duration": [10.0, 1.0]}
    )
    outcome = ringbco.replay(frame, "1x2", policy=AtTicks(), model="fixed")
    assert outcome.jobs["start_time"].to_list() == [0.0, 12.0]  # the GPUs are free from 10 on


def test_an_outcome_says_how_many_jobs_are_not_done() -> None:
    simulation = by_hand()
    simulation.advance()
    simulation.start([0])
    simulation.advance()  # 5 s: the third comes
    simulation.start([1])
    simulation.advance()  # 10 s: the first is done
    with pytest.raises(UsageError, match="2 jobs are not done"):
        simulation.outcome()


def test_a_column_of_the_jobs_is_not_one_of_the_state() -> None:
    class Misled(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            state.start(state.waiting[state.num_gpus > 1])

    frame = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]})
    message = r"the state has no 'num_gpus': it is a column of the jobs, state\.jobs\.num_gpus"
    with pytest.raises(AttributeError, match=message):
        ringbco.replay(frame, "1x1", policy=Misled)
