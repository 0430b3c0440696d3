"""Policies of one's own: equal to the built-in ones, sound under audit, and refused with one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from ringbco.audits import check_outcome
from ringbco.errors import DecisionError, InputError, UsageError


def _mixed() -> ringbco.JobTable:
    """Jobs of many sizes, so that no two orders are alike, gangs over several servers among them."""
    frame = ringbco.generate("philly", 800, 7, gpus=64).frame
    sizes = np.random.default_rng(0).choice([1, 1, 1, 2, 3, 4, 8, 12, 16], frame.height).astype(np.uint32)
    return ringbco.from_frame(
        frame.with_columns(num_gpus=pl.Series(sizes), duration=pl.col("duration") * 0.3)
    )


JOBS = _mixed()
SETTINGS: list[dict[str, Any]] = [{}, {"clock": "slot", "slot": 60.0}, {"model": "fixed"}]


class Fifo(ringbco.Policy):
    """First come, first served."""

    def decide(self, state: Any) -> None:
        state.start(state.waiting)


class FifoByKey(ringbco.KeyPolicy):
    def key(self, state: Any, rows: Any) -> Any:
        return state.jobs.submit_time[rows]


class Sjf(ringbco.KeyPolicy):
    clairvoyant = True

    def key(self, state: Any, rows: Any) -> Any:
        return state.remaining[rows]


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
        return state.remaining[rows]


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
                    state.move({one: state.parts(other), other: state.parts(one)})
        waiting = state.waiting.copy()
        rng.shuffle(waiting)
        state.start(waiting, strict=bool(rng.random() < 0.5))
        if len(state.waiting) and rng.random() < 0.2:
            state.wake(state.now + 30.0)


def same(mine: ringbco.Outcome, theirs: ringbco.Outcome) -> None:
    columns = [name for name in theirs.jobs.columns if name in mine.jobs.columns]
    assert mine.jobs.select(columns).equals(theirs.jobs.select(columns))
    assert mine.allocations is not None
    assert mine.allocations.equals(theirs.allocations)


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
    trace = shared_traces / "philly" / "6214e9.csv"
    mine = ringbco.replay(trace, "32x8", policy=own)
    same(mine, ringbco.replay(trace, "32x8", policy=name))


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
    # Whether a wait was for GPUs or for whole servers hangs on the placement, and a log has none.
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
    assert simulation.state.parts(1) == [(1, 2), (2, 1)]
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


def by_hand(**options: Any) -> ringbco.Simulation:
    """Three jobs of 2 GPUs and 10 s, at 0, 0 and 5 s, on two servers of 2 GPUs."""
    frame = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0, 0.0, 5.0],
            "num_gpus": [2, 2, 2],
            "duration": [10.0, 10.0, 10.0],
        }
    )
    return ringbco.Simulation(frame, "2x2", model="fixed", **options)


def test_verbs_of_one_instant_are_netted() -> None:
    simulation = by_hand(decisions=True)
    assert simulation.advance()
    simulation.start([0], servers=[(1, 2)])
    simulation.start([1])
    assert simulation.state.parts(0) == [(1, 2)]
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
    simulation.move({0: simulation.state.parts(1), 1: simulation.state.parts(0)})
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
    assert state.remaining.tolist() == [5.0, 5.0, 10.0]
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


BAD_VERBS: list[tuple[Any, str]] = [
    (lambda s: s.start([0, 0]), "start at 5 s: job a (row 0): it holds GPUs already"),
    (lambda s: s.start([2, 2]), "start at 5 s: job c (row 2): it is named twice"),
    (lambda s: s.start([7]), "start at 5 s: there is no row 7: the job table has 3 rows"),
    (lambda s: s.start([-1]), "start at 5 s: there is no row -1: the job table has 3 rows"),
    (lambda s: s.start([0.5]), "start at 5 s: rows are integers in one dimension, not float64 in 1"),
    (
        lambda s: s.start([2], servers=[(0, 2)]),
        "start at 5 s: job c (row 2): server 0 has 0 idle GPUs for the 2",
    ),
    (
        lambda s: s.start([2], servers=[(0, 1)]),
        "start at 5 s: job c (row 2): 1 GPUs are given and it asks for 2",
    ),
    (
        lambda s: s.start([2], servers=[(9, 2)]),
        "start at 5 s: job c (row 2): there is no server 9 in its cluster",
    ),
    (lambda s: s.start([2], gpus=1), "start at 5 s: job c (row 2): 1 GPUs are given and it asks for 2"),
    (lambda s: s.stop([2]), "stop at 5 s: job c (row 2): it holds no GPUs: it waits"),
    (lambda s: s.refuse([0]), "refuse at 5 s: job a (row 0): it holds GPUs already"),
    (lambda s: s.move({0: [(1, 2)]}), "move at 5 s: job a (row 0): server 1 has 0 idle GPUs for the 2"),
    (lambda s: s.move({2: [(1, 2)]}), "move at 5 s: job c (row 2): it holds no GPUs: it waits"),
    (lambda s: s.move({0: [1]}), "move at 5 s: job a (row 0): GPUs are given as (server, GPUs) pairs"),
    (lambda s: s.wake(5.0), "wake at 5 s: 5.0 is not a time after now, 5 s"),
    (lambda s: s.wake(float("nan")), "wake at 5 s: nan is not a time after now"),
]


@pytest.mark.parametrize(("act", "said"), BAD_VERBS, ids=range(len(BAD_VERBS)))
def test_a_verb_that_cannot_be_is_refused_and_changes_nothing(act: Any, said: str) -> None:
    simulation = by_hand()
    simulation.advance()
    simulation.start([0, 1])
    simulation.advance()
    with pytest.raises(DecisionError) as refused:
        act(simulation)
    assert str(refused.value).startswith(said)
    assert refused.value.time == 5.0
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    assert simulation.outcome().jobs["finish_time"].to_list() == [10.0, 10.0, 20.0]


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


class Nothing(ringbco.Policy):
    def decide(self, state: Any) -> None:
        pass


class ForEver(ringbco.Policy):
    def decide(self, state: Any) -> None:
        state.wake(state.now + 1.0)


class InCircles(ringbco.Policy):
    """Has two jobs change places for ever, so that they are always paused."""

    def decide(self, state: Any) -> None:
        state.start(state.waiting)
        one, other = state.running
        state.move({one: state.parts(other), other: state.parts(one)})
        state.wake(state.now + 1.0)


class NoNumber(ringbco.KeyPolicy):
    def key(self, state: Any, rows: Any) -> Any:
        return np.full(rows.size, np.nan)


class TooFew(ringbco.RankPolicy):
    def rank(self, state: Any, rows: Any) -> Any:
        return [0.0]


class Peeks(ringbco.KeyPolicy):
    def key(self, state: Any, rows: Any) -> Any:
        return state.remaining[rows]


class Forgot(ringbco.RankPolicy):
    """Has no method at all."""


class Fails(ringbco.Policy):
    def decide(self, state: Any) -> None:
        raise ZeroDivisionError("mine")


@pytest.mark.parametrize(
    ("policy", "kind", "said"),
    [
        (Nothing, InputError, "policy test_own_policies:Nothing to bring every job to its end, but job 'a'"),
        (ForEver, InputError, "still waits at"),
        (InCircles, InputError, "nothing can change"),
        (NoNumber, DecisionError, "key at 0 s: job a (row 0): its key is NaN"),
        (TooFew, DecisionError, "rank at 0 s: expected 2 numbers, one a row, and got shape (1,)"),
        (Peeks, AttributeError, "remaining is not known to a scheduler"),
        (Fails, ZeroDivisionError, "mine"),
        (ringbco.Policy, UsageError, "expected a class derived from"),
        (Forgot, UsageError, "Forgot: expected a class with the method rank"),
        (lambda: None, UsageError, "a class or an object derived from"),
        ("nowhere:Fifo", UsageError, "there is no module nowhere"),
        ("/nowhere/mine.py:Fifo", InputError, "expected a file with a policy that can be read"),
    ],
)  # fmt: skip
def test_bad_policies(policy: Any, kind: type[Exception], said: str) -> None:
    frame = by_hand()._setup.table.frame
    with pytest.raises(kind) as raised:
        ringbco.replay(frame, "2x2", policy=policy, model="fixed")
    assert said in str(raised.value)
    if kind in (AttributeError, ZeroDivisionError):
        assert "at simulated time 0 s" in raised.value.__notes__[0]


MINE = '''
from dataclasses import dataclass, replace
import ringbco

@dataclass
class Mine(ringbco.RankPolicy):
    """The narrowest first."""
    times: float
    sign: int = 1
    def rank(self, state, rows):
        if self.sign == 9:
            raise ZeroDivisionError("nine")
        return self.sign * self.times * state.jobs.num_gpus[rows]
'''


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ringbco", *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "RINGBCO_DEBUG"}
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False, env=environment)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    ringbco.write_jobs(JOBS, tmp_path / "jobs.parquet")
    given = ["replay", "jobs.parquet", "--cluster", "8x8", "-q", "--policy", "mine.py:Mine"]
    done = run(*given, "-P", "times=2", "-o", "run", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = tomllib.loads((tmp_path / "run" / "run.toml").read_text())["own_policy"]
    assert told["parameters"] == {"times": 2.0, "sign": 1}
    assert (told["kind"], told["clairvoyant"], told["about"]) == ("RankPolicy", False, "The narrowest first.")
    assert run("audit", "run", "--jobs", "jobs.parquet", folder=tmp_path).returncode == 0
    assert run("replay", "--again", "run", folder=tmp_path).returncode == 0
    (tmp_path / "mine.py").write_text(MINE + "\n")
    changed = run("replay", "--again", "run", folder=tmp_path)
    assert changed.returncode == 1
    assert "expected the policy's file as it was" in changed.stderr

    failed = run(*given, "-P", "times=2", "-P", "sign=9", "-o", "bad", folder=tmp_path)
    assert failed.returncode == 1
    assert 'raise ZeroDivisionError("nine")' in failed.stderr
    assert "at simulated time" in failed.stderr
    for arguments, said in (
        (["-o", "bad"], "option P: expected a value of times"),
        (["-P", "times", "-o", "bad"], "option P: times: expected NAME=VALUE"),
        (["-P", "times=x", "-o", "bad"], "expected a value of type float"),
        (["-P", "time=1", "-o", "bad"], "option P: time: expected one of times, sign"),
    ):
        refused = run(*given, *arguments, folder=tmp_path)
        assert refused.returncode == 2
        assert said in refused.stderr
        assert refused.stderr.count("\n") == 1
    (tmp_path / "mine.py").write_text("class Mine(:\n")
    broken = run(*given, "-o", "bad", folder=tmp_path)
    assert broken.returncode == 1
    assert broken.stderr.startswith("error: mine.py: line 1: ")
    assert not (tmp_path / "bad").exists()


def test_compare_takes_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("times: float", "times: float = 1.0"))
    compared = ringbco.compare(JOBS, "8x8", ["fifo", f"{tmp_path / 'mine.py'}:Mine"], queue="skip")
    assert len(compared.outcomes) == 2


@pytest.mark.parametrize(
    ("order", "kind", "said"),
    [
        ("column", UsageError, "column:NAME"),
        ("column:nope", InputError, "expected a column with numbers; the table has"),
        ("column:job_id", InputError, "expected a column with numbers"),
        (np.zeros(3), UsageError, "numbers, one a job"),
        (np.full(800, np.nan), InputError, "row 1, column order: NaN: expected a number"),
    ],
)
def test_bad_columns(order: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as raised:
        ringbco.replay(JOBS, "8x8", policy="fifo", order=order)
    assert said in str(raised.value)


def test_sweeps_take_them_and_run_them_anew_when_the_file_changes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("times: float", "times: float = 1.0"))
    ringbco.write_jobs(JOBS, tmp_path / "jobs.parquet")
    (tmp_path / "sweep.toml").write_text(
        '[base]\ntrace = "jobs.parquet"\ncluster = "8x8"\n'
        '[grid]\npolicy = ["fifo", "mine.py:Mine"]\norder = ["column:num_gpus", "fifo"]\n'
    )
    first = ringbco.sweep(tmp_path / "sweep.toml", tmp_path / "s")
    assert (first.failed, first.done) == (0, 3)
    assert ringbco.sweep(tmp_path / "sweep.toml", tmp_path / "s").done == 0
    (tmp_path / "mine.py").write_text(MINE.replace("times: float", "times: float = -1.0"))
    again = ringbco.sweep(tmp_path / "sweep.toml", tmp_path / "s")
    assert (again.failed, again.done) == (0, 1)
    assert first.frame["mean_jct"][-1] != again.frame["mean_jct"][-1]
