"""Decision logs in the reference model: what comes of them is what the engine says; a wrong row is found."""

import dataclasses
from collections.abc import Callable

import polars as pl
import pytest

from cases import decided, modelled
from cases.case import Case, by_hand
from cases.compare import differences
from cases.modelled import Model, ReferenceResult
from cases.run import meet
from core_run import FEW
from reference.following import Entry, WrongError
from ringbco.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

IDS = ["j0", "j1", "j2"]


def test_logs_of_random_cases() -> None:
    followed = 0
    for seed in range(FEW):
        seen = meet(f"log {seed}", check=False).seen
        if seen.outcome is None or not decided.follows(seen.case):
            continue
        expected = modelled.by_log(seen.case)
        assert isinstance(expected, ReferenceResult), seen.case.script()
        assert list(differences(seen.case, seen.outcome, expected)) == [], seen.case.script()
        followed += 1
    assert followed > FEW // 2


def evicting() -> Case:
    """j1 evicts j0, rather than j2: their keys are the same, and server 0 is the lower one."""
    rows = [(0, 1, 100, 0), (10, 2, 30, 1), (5, 2, 50, 0)]
    return by_hand([2, 2], "submit_time num_gpus duration priority", rows, evict=True)


def log_of(case: Case) -> list[Entry]:
    outcome = case.replay(decisions=True)
    assert outcome.decisions is not None
    return decided.entries(outcome.decisions, IDS)


def test_what_a_log_says() -> None:
    assert log_of(evicting()) == [
        Entry(0.0, "start", 0, [(0, 1)]),
        Entry(5.0, "start", 2, [(1, 2)]),
        Entry(10.0, "evicted", 0, by=1),
        Entry(10.0, "start", 1, [(0, 2)]),
        Entry(40.0, "start", 0, [(0, 1)]),
    ]


def elsewhere(log: list[Entry]) -> None:
    log[-1] = log[-1]._replace(parts=[(1, 1)])


def too_early(log: list[Entry]) -> None:
    log[-1] = log[-1]._replace(time=30.0)


def nobody_evicted(log: list[Entry]) -> None:
    del log[2]


def another_victim(log: list[Entry]) -> None:
    log[2] = log[2]._replace(row=2)


def another_server(log: list[Entry]) -> None:
    log[3] = log[3]._replace(parts=[(1, 2)])


@pytest.mark.parametrize("change", [elsewhere, too_early, nobody_evicted, another_victim, another_server])
def test_a_wrong_row_is_found(change: Callable[[list[Entry]], None]) -> None:
    case = evicting()
    log = log_of(case)
    change(log)
    with pytest.raises(WrongError):
        Model(case, log=log).simulate()


def test_another_time_that_can_be_is_a_difference() -> None:
    case = evicting()
    log = log_of(case)
    log[-1] = log[-1]._replace(time=45.0)
    expected = Model(case, log=log).simulate()
    assert "finish_time" in dict(differences(case, case.replay(), expected))


def test_the_engine_refuses_such_a_log_too(tmp_path: object) -> None:
    case = evicting()
    outcome = case.replay(decisions=True)
    assert outcome.decisions is not None
    moved = outcome.decisions.with_columns(server=pl.Series([0, 1, None, 0, 1], dtype=pl.UInt32))
    moved.write_parquet(f"{tmp_path}/log.parquet")
    followed = dataclasses.replace(case, options={**case.options, "policy": f"log:{tmp_path}/log.parquet"})
    with pytest.raises(InputError, match="j0"):
        followed.replay()
