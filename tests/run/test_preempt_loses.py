"""Preemptions that lose work by hand, and jobs with a cost of their own (docs/policies.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

import ringbco
from cases.case import Case, by_hand
from cases.compare import agreed
from conftest import Invoke
from ringbco.errors import InputError, UsageError

COLUMNS = "submit_time num_gpus duration"
OPTIONS: dict[str, Any] = {"policy": "srtf", "preempt_loses": True, "checkpoint_interval": 300.0}


def preempted(**options: Any) -> Case:
    """On a GPU j0 has 300 s left at 700 s, when j1 comes for 200 s."""
    return by_hand([1], COLUMNS, [(0.0, 1, 1000.0), (700.0, 1, 200.0)], **OPTIONS | options)


def sound(case: Case) -> ringbco.Outcome:
    """The result of a case, which passes its audit and is that of the reference model."""
    agreed(case)
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    return outcome


def test_a_preempted_job_falls_back_to_its_checkpoint() -> None:
    """As docs/policies.md tells it."""
    outcome = sound(preempted())
    assert outcome.jobs["finish_time"].to_list() == [1330.0, 900.0]
    assert outcome.jobs["lost_work"].to_list() == [100.0, 0.0]
    first = outcome.stays.row(0, named=True)
    assert (first["ended"], first["work"], first["lost"], first["lost_time"]) == (
        "preempted",
        700.0,
        100.0,
        100.0,
    )
    summary = outcome.summary
    assert summary["lost_gpu_hours_by_cause"] == {"preemption": 100.0 / 3600.0}
    assert summary["lost_work_gpu_seconds"] == 100.0
    assert summary["goodput"] == pytest.approx(1.0 - 130.0 / 1330.0)
    kept = sound(preempted(preempt_loses=False))
    assert kept.jobs["finish_time"].to_list() == [1230.0, 900.0]
    assert not {"lost_work", "failures"} & {*kept.jobs.columns}


@pytest.mark.parametrize(("every", "end"), [(0.0, 1230.0), (700.0, 1230.0), (1e9, 1930.0)])
def test_checkpoints_decide_how_much(every: float, end: float) -> None:
    """One at the instant of the preemption counts."""
    assert sound(preempted(checkpoint_interval=every)).jobs["finish_time"][0] == end


def test_slots_and_checkpoints_that_take_time() -> None:
    assert sound(preempted(clock="slot", slot=50.0)).jobs["lost_work"].to_list() == [100.0, 0.0]
    # The second checkpoint would be over at 720 s.
    outcome = sound(preempted(checkpoint_cost=60.0))
    assert outcome.stays["lost_time"].to_list() == [300.0, 0.0, 0.0]


@pytest.mark.parametrize("loses", [False, True])
def test_evictions_follow_their_own_option(loses: bool) -> None:
    """A service has the GPU from 700 to 900 s."""
    loads = [
        {"service": "chat", "time": time, "replicas": replicas, "gpus_per_replica": 1}
        for time, replicas in ((700.0, 1), (900.0, 0))
    ]
    options = OPTIONS | {"preempt_loses": not loses, "evict_loses": loses}
    outcome = sound(by_hand([1], COLUMNS, [(0.0, 1, 1000.0)], services=loads, **options))
    assert outcome.stays["ended"].to_list() == ["evicted", "done"]
    assert outcome.jobs["lost_work"].to_list() == [100.0 * loses]


class Moves(ringbco.Policy):
    """Moves the job from server to server every 100 s: by the verb, or stopped and started at one instant."""

    verb = True

    def decide(self, state: ringbco.State) -> None:
        state.start(state.waiting)
        if state.now > 0.0:
            (row,) = state.running
            server = 1 - state.allocation(row)[0][0]
            if self.verb:
                state.move({row: [(server, 1)]})
            else:
                state.stop([row])
                state.start(row, [(server, 1)])
        state.wake(state.now + 100.0)


class Stops(Moves):
    verb = False


class Restarts(ringbco.Policy):
    """Stops the job every 100 s and starts it again on its GPU."""

    def decide(self, state: ringbco.State) -> None:
        state.stop(state.running)
        state.start(state.waiting)
        state.wake(state.now + 100.0)


@pytest.mark.parametrize("policy", [Moves, Stops, Restarts])
def test_whoever_moves_or_goes_on_loses_nothing(policy: type[ringbco.Policy]) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": 0.0, "num_gpus": 1, "duration": 350.0})
    outcome = ringbco.replay(
        jobs, "2x1", policy=policy(), model="fixed", preempt_loses=True, preempt_cost=10.0
    )
    assert outcome.jobs["lost_work"].to_list() == [0.0]
    assert outcome.jobs["finish_time"].to_list() == [350.0 if policy is Restarts else 380.0]
    assert list(ringbco.audit(outcome, jobs)) == []


class Sees(ringbco.Policy):
    """Stops the job once, and notes what is left of it before and after."""

    clairvoyant = True
    left: ClassVar[list[float]] = []

    def decide(self, state: ringbco.State) -> None:
        if state.now == 100.0:
            self.left.append(float(state.remaining_time[0]))
            state.stop([0])
            self.left.append(float(state.remaining_time[0]))
        elif state.waiting.size:
            state.start(state.waiting)
        if state.now < 150.0:
            state.wake(100.0 if state.now < 100.0 else 150.0)


def test_a_policy_sees_all_progress_of_who_runs() -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": 0.0, "num_gpus": 1, "duration": 350.0})
    Sees.left.clear()
    options: dict[str, Any] = {"model": "fixed", "preempt_loses": True, "preempt_cost": 0.0}
    outcome = ringbco.replay(jobs, "1x1", policy=Sees(), checkpoint_interval=80.0, **options)
    assert Sees.left == [250.0, 270.0]
    assert outcome.jobs["finish_time"].to_list() == [150.0 + 270.0]


def test_runs_in_which_nothing_is_ever_saved_are_ended(invoke: Invoke, tmp_path: Path) -> None:
    rows = "a,0,1,1000\nb,0,1,1000\n"
    (tmp_path / "jobs.csv").write_text(f"job_id,submit_time,num_gpus,duration\n{rows}")
    given = ("jobs.csv", "--cluster", "1x1", "--model", "fixed", "--policy", "time-slice", "--quantum", "100")
    given += ("--preempt-loses", "--checkpoint-interval", "200", "-o", "r")
    done = invoke("replay", *given)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    for said in ("policy time-slice ", "--quantum 100", "--preempt-loses", "ended 1004 stays in a row"):
        assert said in done.stderr
    # A checkpoint in each quantum is enough.
    assert invoke("replay", *given[:-4], "--checkpoint-interval", "60", "-o", "r").returncode == 0


@pytest.mark.parametrize("policy", ["srtf", "time-slice", "repack", "afs"])
def test_a_log_is_followed_to_the_byte(policy: str, tmp_path: Path) -> None:
    jobs = ringbco.generate("philly", 150, 3, gpus=16, load=2.0)
    more: dict[str, Any] = {"time-slice": {"quantum": 3600.0}, "repack": {"predict": "exact"}}.get(policy, {})
    outcome = ringbco.replay(
        jobs, "2x8", policy=policy, model="fixed", preempt_loses=True, decisions=True, **more
    )
    assert outcome.summary["lost_work_gpu_seconds"] > 0.0 or policy == "afs"
    outcome.write(tmp_path / "first")
    followed = ringbco.replay(jobs, "2x8", policy=f"log:{tmp_path}/first/decisions.parquet", decisions=True)
    assert followed.jobs.equals(outcome.jobs)
    assert followed.stays.equals(outcome.stays)
    assert followed.decisions is not None
    assert followed.decisions.equals(outcome.decisions)


def test_who_never_preempts_refuses_it() -> None:
    with pytest.raises(UsageError, match=r"option preempt-loses: .*fifo ignores it"):
        preempted(policy="fifo").replay()
    with pytest.raises(UsageError, match="preempt_loses: expected none: a plan stops no job"):
        ringbco.plan(preempted().frame(), "1x1", preempt_loses=True)  # type: ignore[call-arg]


def test_a_job_has_a_cost_of_its_own() -> None:
    rows = [(0.0, 1, 100.0, 7.0), (10.0, 1, 20.0, None), (12.0, 1, 5.0, 3.0)]
    case = by_hand([1], f"{COLUMNS} preempt_cost", rows, policy="srtf", preempt_cost=2.0, start_cost=1.0)
    outcome = sound(case)
    # j0 is stopped at 10 s, j1 at 12 s for j2, which runs up to 18 s and pays its start alone.
    assert outcome.stays["pause"].to_list() == [1.0, 7.0, 1.0, 2.0, 1.0]


def test_moves_cost_as_much_unless_they_have_their_own() -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a"], "submit_time": 0.0, "num_gpus": 1, "duration": 350.0, "preempt_cost": 10.0}
    )
    for given, end in (({}, 380.0), ({"move_cost": 20.0}, 430.0)):
        outcome = ringbco.replay(jobs, "2x1", policy=Moves(), model="fixed", **given)
        assert outcome.jobs["finish_time"].to_list() == [end]
        assert list(ringbco.audit(outcome, jobs)) == []


@pytest.mark.parametrize("cost", [-1.0, float("inf"), float("nan")])
def test_a_cost_that_is_none_is_named_by_row(cost: float) -> None:
    rows = [(0.0, 1, 100.0, 1.0), (10.0, 1, 20.0, cost)]
    with pytest.raises(InputError, match="preempt_cost") as caught:
        by_hand([1], f"{COLUMNS} preempt_cost", rows, policy="srtf").replay()
    assert (caught.value.row, caught.value.column) == (2, "preempt_cost")
