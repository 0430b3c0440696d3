"""What the judge says of gavel, sia and allox: what holds of them whichever optimum they find."""

from typing import Any

import pytest

from cases import judged
from cases.of_policies import IN_PYTHON
from cases.run import meet
from judge.deciding import Fault
from judge.given import Book, Cluster, Given, Jobs, Stay
from judge.rules import faults
from physics import judge
from ringbco.checker.settings import Network
from ringbco.trace.jobs import as_table

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

NET = Network(150e9, 12.5e9, 500e9, 0.5, 0.0, 0.3)
ONCE = (8705, 55767, 56808, 108750, "96.435")
"""Cases of which it once said otherwise: equal gangs in another order, shares worked out anew at once, the
boundary after an eviction."""


def given(policy: str, gpus: int, rows: list[tuple[float, int, float]], **more: Any) -> Given:
    """A run on one server, of jobs by submit_time, num_gpus and duration. more: fields, and of the jobs."""
    submit, asked, duration = (list(column) for column in zip(*rows, strict=True))
    none, fields = [0.0] * len(rows), more.pop("fields", {})
    told = {"iterations": none, "gradient": none, "compute": none, "ideal": duration, **more}
    jobs = Jobs([chr(97 + row) for row in range(len(rows))], submit, asked, duration, **told)
    options = {"model": "fixed", "clock": "continuous", "placement": "consolidate", "queue": "strict"}
    options |= {"variant": "practical", "kappa": 8, "order": "fifo", "policy": policy}
    run = Given(jobs, Cluster([gpus], NET), options, preempts=True, resizes=policy == "sia", decides=True)
    run.fields = fields
    return run


def found(run: Given, stays: list[Stay]) -> list[tuple[str, float]]:
    """The faults of a book whose work is right: what, and when."""
    book = Book(stays)
    assert judge(run, book).off == pytest.approx(dict.fromkeys(sorted({stay.job for stay in stays}), 0.0))
    return [_short(fault) for fault in faults(run, book)]


def _short(fault: Fault) -> tuple[str, float]:
    return fault.what, fault.time


def one(job: int, start: float, end: float, gpus: int = 1) -> Stay:
    return Stay(job, start, end, ((0, gpus),))


def test_sia_decides_in_rounds() -> None:
    # The second job comes within a round, and waits for its end.
    run = given("sia", 2, [(0.0, 1, 100.0), (10.0, 1, 100.0)], fields={"round": 60.0})
    assert found(run, [one(0, 0.0, 100.0), one(1, 60.0, 160.0)]) == []
    assert found(run, [one(0, 0.0, 100.0), one(1, 10.0, 110.0)]) == [("order", 10.0)]
    assert ("idle", 100.0) in found(run, [one(0, 0.0, 100.0), one(1, 120.0, 220.0)])


def test_sia_grows_to_twice_as_many() -> None:
    # Who never ran gets its least number, and no more than twice that a round later.
    elastic = {"least": [1], "most": [4], "fields": {"round": 60.0}}
    run = given("sia", 4, [(0.0, 1, 600.0)], **elastic)
    small = Stay(0, 0.0, 60.0, ((0, 1),), "resized")
    assert found(run, [small, one(0, 60.0, 330.0, 2)]) == []
    assert found(run, [small, one(0, 60.0, 195.0, 4)]) == [("placement", 60.0)]
    assert found(run, [small, one(0, 60.0, 240.0, 3)]) == [("placement", 60.0)]


def test_gavel_waits_for_shares() -> None:
    # Who comes later has no share before the old ones have held for 100 s.
    rows = [(0.0, 1, 300.0), (10.0, 1, 100.0)]
    run = given("gavel", 2, rows, fields={"round": 60.0, "renew": 100.0})
    assert found(run, [one(0, 0.0, 300.0), one(1, 120.0, 220.0)]) == []
    assert found(run, [one(0, 0.0, 300.0), one(1, 60.0, 160.0)]) == [("order", 60.0)]
    assert ("order", 130.0) in found(run, [one(0, 0.0, 300.0), one(1, 130.0, 230.0)])
    newcomers = given("gavel", 2, rows, fields={"round": 60.0, "newcomers": True})
    assert found(newcomers, [one(0, 0.0, 300.0), one(1, 60.0, 160.0)]) == []


def test_allox_lets_nobody_wait_for_idle_gpus() -> None:
    run = given("allox", 2, [(0.0, 1, 300.0), (10.0, 1, 100.0)])
    assert found(run, [one(0, 0.0, 300.0), one(1, 10.0, 110.0)]) == []
    assert ("idle", 10.0) in found(run, [one(0, 0.0, 300.0), one(1, 300.0, 400.0)])
    stopped = Stay(0, 0.0, 10.0, ((0, 1),), "preempted")
    assert found(run, [stopped, one(0, 110.0, 400.0), one(1, 10.0, 110.0)]) != []


@pytest.mark.parametrize("seed", ONCE)
def test_genuine_runs_have_no_fault(seed: int | str) -> None:
    """Of the first cases test_cases says the same, by their audits."""
    case = meet(seed, check=False).seen
    assert case.case.policy in IN_PYTHON
    assert case.outcome is not None
    run, book = judged.book(case.outcome, as_table(case.case.frame()))
    judge(run, book)
    assert list(faults(run, book)) == []
