"""A bare Simulation: what it is called, and how it is not copied."""

from __future__ import annotations

import copy
import pickle
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ringbco
from conftest import Invoke
from custom_policies import JOBS
from ringbco.errors import InputError, RingbcoError, UsageError
from ringbco.result.outcome import Outcome


def ended() -> Outcome:
    simulation = ringbco.Simulation(JOBS, "4x8", model="fixed")
    while simulation.advance():
        simulation.start(simulation.state.waiting)
    return simulation.outcome()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("moved_on", [False, True])
def test_it_is_forked_not_copied(copied: Callable[[Any], Any], moved_on: bool) -> None:
    simulation = ringbco.Simulation(JOBS, "4x8", model="fixed")
    if moved_on:
        simulation.advance()
    with pytest.raises(UsageError) as raised:
        copied(simulation)
    said = "a Simulation cannot be copied or pickled: fork() gives one that goes on from here"
    assert str(raised.value) == said


def test_a_policy_is_not_ignored() -> None:
    with pytest.raises(UsageError) as raised:
        ringbco.Simulation(JOBS, "4x8", policy="srtf")  # type: ignore[call-arg]
    said = "option policy: 'srtf': expected none: who holds a Simulation decides; replay() runs a policy,"
    assert str(raised.value) == said + " and fork() goes on with one"


def test_a_result_names_it(tmp_path: Path, invoke: Invoke) -> None:
    outcome = ended()
    assert outcome.summary["policy"] == "Simulation"
    outcome.write(tmp_path / "r")
    record = (tmp_path / "r" / "run.toml").read_text()
    assert "_Bare" not in record
    read = tomllib.loads(record)
    assert (read["options"]["policy"], read["own_policy"]["name"]) == ("Simulation", "Simulation")
    assert not ringbco.audit(outcome, JOBS)
    ringbco.write_jobs(JOBS, tmp_path / "jobs.csv")
    again = invoke("replay", tmp_path / "jobs.csv", "--again", tmp_path / "r")
    assert again.returncode == 1
    assert "options.policy: Simulation: expected" in again.stderr


def never_started() -> object:
    simulation = ringbco.Simulation(JOBS, "4x8", model="fixed")
    while simulation.advance():
        pass
    return None


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (never_started, InputError),
        (lambda: ringbco.Simulation(JOBS, "4x8", order="sjf"), RingbcoError),
        (lambda: ringbco.Simulation(JOBS, "4x8", queue="easy"), RingbcoError),
    ],
)
def test_messages_name_it(call: Callable[[], object], kind: type[RingbcoError]) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert "_Bare" not in str(raised.value)
    assert "ringbco.run" not in str(raised.value)
