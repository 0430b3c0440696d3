"""Runs that cannot end: a policy that ends stay after stay, none of which keeps any work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import InputError

TURNS = """\
from dataclasses import dataclass
import ringbco

@dataclass
class Turns(ringbco.Policy):
    every: float = 10.0

    def decide(self, state):
        ran = list(state.running)
        state.stop(ran)
        state.start([row for row in state.waiting if row not in ran][:1] or state.waiting)
        state.wake(state.now + self.every)
"""


@dataclass
class Turns(ringbco.Policy):
    """Two jobs take turns on a GPU, and have it for `every` seconds; `stays` is how many it has ended."""

    every: float = 10.0
    stays: int = 0

    def decide(self, state: ringbco.State) -> None:
        ran = list(state.running)
        state.stop(ran)
        self.stays += len(ran)
        state.start([row for row in state.waiting if row not in ran][:1] or state.waiting)
        state.wake(state.now + self.every)


@dataclass
class Moves(ringbco.Policy):
    """Moves a job from server to server every 10 s."""

    def decide(self, state: ringbco.State) -> None:
        state.start(state.waiting)
        for row in list(state.running):
            state.move({row: [(1 - state.allocation(row)[0][0], 1)]})
        state.wake(state.now + 10.0)


def jobs(*submits: float, duration: float = 1000.0) -> pl.DataFrame:
    names = [f"j{number}" for number in range(len(submits))]
    return pl.DataFrame({"job_id": names, "submit_time": submits, "num_gpus": 1, "duration": duration})


def ended(error: InputError) -> int:
    words = str(error).split()
    return int(words[words.index("ended") + 1])


@pytest.mark.parametrize("number", [2, 7, 400])
def test_so_many_stays_may_end_in_vain(number: int) -> None:
    """The first stays have no pause; each of the others has one of 30 s."""
    table = jobs(*[0.0] * number)
    with pytest.raises(InputError, match=r"policy \S*Turns .*work that is kept") as caught:
        ringbco.replay(table, "1x1", policy=Turns(), model="fixed")
    assert ended(caught.value) == 1000 + 2 * number
    # A second of work in each turn is enough.
    table = jobs(*[0.0] * number, duration=12.0)
    assert ringbco.replay(table, "1x1", policy=Turns(), model="fixed", preempt_cost=9.0).jobs.height == number


def test_whoever_arrives_begins_the_count_anew() -> None:
    """j0 and j1 take turns from 20 s on in vain; their 1,005 stays end at 10,070 s. j2 comes before that."""
    with pytest.raises(InputError, match="from 20 s") as caught:
        ringbco.replay(jobs(0.0, 0.0, 20_000.0), "1x1", policy=Turns(), model="fixed")
    assert ended(caught.value) == 1006
    with pytest.raises(InputError, match="from 9000 s") as caught:
        ringbco.replay(jobs(0.0, 0.0, 9005.0), "1x1", policy=Turns(), model="fixed")
    assert ended(caught.value) == 1006


def test_an_outage_begins_the_count_anew() -> None:
    """The other server fails every 5,000 s, for as long as it is said to."""
    down = [5000.0 * number for number in range(1, 5)]
    outages = pl.DataFrame({"server": 1, "down_at": down, "up_at": [time + 2500.0 for time in down]})
    with pytest.raises(InputError, match=r"to 3\d{4} s") as caught:
        ringbco.replay(
            jobs(0.0, 0.0).with_columns(num_gpus=2), "2x2", policy=Turns(), model="fixed", outages=outages
        )
    assert ended(caught.value) == 1004


def test_moves_count_and_so_does_a_simulation() -> None:
    with pytest.raises(InputError, match="ended 1002 stays"):
        ringbco.replay(jobs(0.0), "2x1", policy=Moves(), model="fixed", move_cost=20.0)
    run, turns = ringbco.Simulation(jobs(0.0, 0.0), "1x1", model="fixed"), Turns()

    def simulate() -> None:
        while run.advance():
            turns.decide(run.state)

    with pytest.raises(InputError, match="ended 1004 stays"):
        simulate()
    assert turns.stays == 1006  # the first two kept their work


def test_the_clock_of_slots() -> None:
    with pytest.raises(InputError, match="ended 1004 stays"):
        ringbco.replay(jobs(0.0, 0.0), "1x1", policy=Turns(), model="fixed", clock="slot", slot=10.0)


def test_stays_taken_up_again_at_once_are_none() -> None:
    class Restarts(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            state.stop(state.running)
            state.start(state.waiting)
            state.wake(state.now + 0.1)

    outcome = ringbco.replay(jobs(0.0), "1x1", policy=Restarts(), model="fixed")
    assert outcome.jobs["finish_time"].to_list() == [1000.0]


def test_the_error_names_policy_and_options(invoke: Invoke, tmp_path: Path) -> None:
    jobs(0.0, 0.0).write_csv(tmp_path / "jobs.csv")
    (tmp_path / "turns.py").write_text(TURNS)
    given = ("jobs.csv", "--cluster", "1x1", "--model", "fixed", "-o", "r")
    done = invoke("replay", *given, "--policy", "turns.py:Turns", "-P", "every=7.5", "--preempt-cost", "8")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    for said in ("policy turns.py:Turns ", "--preempt-cost 8", "-P every=7.5", "ended 1004 stays in a row"):
        assert said in done.stderr
    assert not (tmp_path / "r").exists()
