"""Custom policies: refused with one line, and in the command line, comparisons and sweeps."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from custom_policies import JOBS, by_hand
from ringbco.errors import DecisionError, InputError, UsageError

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
        "start at 5 s: job c (row 2): GPUs given: 1, requested: 2",
    ),
    (
        lambda s: s.start([2], servers=[(9, 2)]),
        "start at 5 s: job c (row 2): there is no server 9 in its cluster",
    ),
    (lambda s: s.start([2], gpus=1), "start at 5 s: job c (row 2): GPUs given: 1, requested: 2"),
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
        state.move({one: state.allocation(other), other: state.allocation(one)})
        state.wake(state.now + 1.0)


class NoNumber(ringbco.KeyPolicy):
    def key(self, state: Any, rows: Any) -> Any:
        return np.full(rows.size, np.nan)


class TooFew(ringbco.RankPolicy):
    def rank(self, state: Any, rows: Any) -> Any:
        return [0.0]


class Peeks(ringbco.KeyPolicy):
    def key(self, state: Any, rows: Any) -> Any:
        return state.remaining_time[rows]


class Forgot(ringbco.RankPolicy):
    """Has no method at all."""


class Fails(ringbco.Policy):
    def decide(self, state: Any) -> None:
        raise ZeroDivisionError("mine")


@pytest.mark.parametrize(
    ("policy", "kind", "said"),
    [
        (Nothing, InputError, "Nothing to bring every job to its end, but job 'a'"),
        (ForEver, InputError, "still waits at"),
        (InCircles, InputError, "none of them did work that is kept"),
        (NoNumber, DecisionError, "key at 0 s: job a (row 0): its key is NaN"),
        (TooFew, DecisionError, "rank at 0 s: expected 2 numbers, one a row, and got shape (1,)"),
        (Peeks, AttributeError, "remaining_time is not known to a scheduler"),
        (Fails, ZeroDivisionError, "mine"),
        (ringbco.Policy, UsageError, "expected a class derived from"),
        (Forgot, UsageError, "Forgot: expected a class with the method rank"),
        (lambda: None, UsageError, "a class or an object derived from"),
        ("nowhere:Fifo", UsageError, "there is no module nowhere"),
        ("/nowhere/mine.py:Fifo", InputError, "/nowhere/mine.py: no such file; file.py:Class takes the path"),
        ("mine.py", UsageError, "'mine.py': expected the class's name too: mine.py:Class"),
    ],
)  # fmt: skip
def test_bad_policies(policy: Any, kind: type[Exception], said: str) -> None:
    frame = by_hand()._setup.table.frame
    with pytest.raises(kind) as raised:
        ringbco.replay(frame, "2x2", policy=policy, model="fixed")
    assert said in str(raised.value)
    if kind in (AttributeError, ZeroDivisionError):
        assert "at simulated time 0 s" in raised.value.__notes__[0]


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("options", [{}, {"clock": "slot"}, {"model": "fixed"}])
def test_rounds_within_the_pause_are_named_as_the_cause(options: dict[str, Any], gpus: int) -> None:
    pytest.importorskip("highspy")
    one = {"duration": pl.lit(1000.0), "num_gpus": pl.lit(gpus)}
    frame, cluster = by_hand()._setup.table.frame.with_columns(**one), f"1x{gpus}"
    with pytest.raises((InputError, UsageError), match="round") as raised:
        ringbco.replay(frame, cluster, policy="gavel", parameters={"round": 20.0}, **options)
    said = str(raised.value)
    assert "contention" not in said
    assert "fits in a slot" not in said
    # The round, the pause, and a way out that works.
    assert "20" in said
    assert "30 s" in said
    longer = {"round": 300.0}
    assert ringbco.replay(frame, cluster, policy="gavel", parameters=longer, **options).jobs.height == 3


class SeldomAsked(ringbco.Policy):
    """Starts what waits, once its interval is over."""

    def __init__(self, interval: float) -> None:
        self.interval = interval

    def decide(self, state: Any) -> None:
        state.start(state.waiting)


def test_the_longest_interval() -> None:
    frame = by_hand()._setup.table.frame.tail(1)
    outcome = ringbco.replay(frame, "2x2", policy=SeldomAsked(1e9), model="fixed")
    assert outcome.jobs["start_time"].to_list() == [1e9]
    said = "interval: 1000000001.0: expected None, or a number of seconds > 0 and <= 1e+09"
    with pytest.raises(UsageError, match=re.escape(said)):
        ringbco.replay(frame, "2x2", policy=SeldomAsked(1e9 + 1), model="fixed")


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


@pytest.mark.long
def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    ringbco.write_jobs(JOBS, tmp_path / "jobs.parquet")
    given = ["replay", "jobs.parquet", "--cluster", "8x8", "-q", "--policy", "mine.py:Mine"]
    done = run(*given, "-P", "times=2", "-o", "run", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    recorded = tomllib.loads((tmp_path / "run" / "run.toml").read_text())["own_policy"]
    assert recorded["parameters"] == {"times": 2.0, "sign": 1}
    assert (recorded["kind"], recorded["clairvoyant"], recorded["about"]) == (
        "RankPolicy",
        False,
        "The narrowest first.",
    )
    assert run("audit", "run", "--jobs", "jobs.parquet", folder=tmp_path).returncode == 0
    again = ["replay", "--again", "run", "--policy", "mine.py:Mine"]
    assert run(*again, folder=tmp_path).returncode == 0
    (tmp_path / "mine.py").write_text(MINE + "\n")
    changed = run(*again, folder=tmp_path)
    assert changed.returncode == 1
    assert "expected the policy's file as it was" in changed.stderr

    failed = run(*given, "-P", "times=2", "-P", "sign=9", "-o", "bad", folder=tmp_path)
    assert failed.returncode == 1
    assert 'raise ZeroDivisionError("nine")' in failed.stderr
    assert failed.stderr.count('  File "') == 1  # the author's, not the way to it
    assert "at simulated time" in failed.stderr
    for arguments, said in (
        (["-o", "bad"], "option P: expected a value of times"),
        (["-P", "times", "-o", "bad"], "option P: times: expected NAME=VALUE"),
        (["-P", "times=x", "-o", "bad"], "expected a number"),
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
