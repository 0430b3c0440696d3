"""Verbs of the reference model, and of the engine beside it, against numbers that somebody worked out.

A policy is a list of what it does at which instant (docs/custom-policies-reference.md).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import ringbco
from cases.case import Case, by_hand, outage_rows
from cases.compare import differences
from cases.modelled import Model, ReferenceResult
from reference.deciding import ImpossibleError
from ringbco.errors import DecisionError

Verbs = Mapping[float, Callable[[Any], None]]
NUMBERS = "submit_time num_gpus duration"


def played(case: Case, verbs: Verbs) -> tuple[ReferenceResult, list[float]]:
    """What the reference model makes of the verbs, as the engine does too; and when it was asked."""
    asked: list[float] = []

    def decide(state: Any) -> None:
        asked.append(float(state.now))
        verbs.get(round(float(state.now), 6), lambda _: None)(state)

    class Own(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            decide(state)

    expected = Model(case, decides=lambda _: decide).simulate()
    by_reference = asked[:]
    asked.clear()
    assert list(differences(case, case.replay(policy=Own), expected)) == []
    assert asked == by_reference
    return expected, asked


def refuses(verb: Callable[[], object]) -> None:
    with pytest.raises((ImpossibleError, DecisionError)):
        verb()


def both(state: Any) -> None:
    state.start([0, 1])


@pytest.mark.parametrize(("times", "ends"), [(1, [105.0, 55.0]), (2, [100.0, 50.0])])
def test_two_jobs_change_places_once_or_there_and_back(times: int, ends: list[float]) -> None:
    case = by_hand([4, 4], NUMBERS, [(0, 4, 100), (0, 4, 50)], move_cost=5.0)

    def swap(state: Any) -> None:
        for _ in range(times):
            state.move({0: state.allocation(1), 1: state.allocation(0)})

    def begin(state: Any) -> None:
        both(state)
        state.wake(20.0)

    expected, asked = played(case, {0.0: begin, 20.0: swap})
    assert expected.result.finish == ends
    assert expected.result.preemptions == [times % 2] * 2
    assert asked == [0.0, 20.0, ends[1]]


def test_the_elastic_policy_of_the_page() -> None:
    jobs = f"{NUMBERS} min_gpus max_gpus"
    case = by_hand([8], jobs, [(0, 4, 300, 2, 8), (60, 2, 50, 2, 2)], resize_cost=5.0)

    def shrink(state: Any) -> None:
        state.resize(0, 2)
        state.start(1, gpus=2)
        state.resize(0, 6)

    def begin(state: Any) -> None:
        state.start(0, gpus=2)
        state.resize(0, 8)

    expected, _ = played(case, {0.0: begin, 60.0: shrink, 110.0: lambda state: state.resize(0, 8)})
    assert expected.result.finish == [171.25, 110.0]
    assert expected.result.preemptions == [2, 0]


def test_start_on_fewer_gpus_and_on_given_servers() -> None:
    case = by_hand([4, 4], f"{NUMBERS} min_gpus max_gpus", [(0, 4, 100, 1, 4), (0, 2, 60, 1, 4)])

    def begin(state: Any) -> None:
        assert state.start(0, gpus=2) == 1
        assert state.start(1, [(0, 1), (1, 2)]) == 1
        refuses(lambda: state.start(1))
        assert list(state.idle) == [1, 2]

    expected, _ = played(case, {0.0: begin})
    assert expected.result.finish == [200.0, 40.0]
    assert expected.result.allocations[1] == [(0, 1, 0.0, 40.0), (1, 2, 0.0, 40.0)]


def test_start_on_a_type() -> None:
    case = by_hand([2, 2], NUMBERS, [(0, 2, 60), (0, 2, 60)])
    case.gpu_types = {"fast": {"speed": 3.0}, "slow": {"speed": 1.0}}
    for server, name in zip(case.servers, case.gpu_types, strict=True):
        server["gpu_type"] = name
    for job in case.jobs:
        job["recorded_on"] = "slow"

    def begin(state: Any) -> None:
        assert state.start(1, type="slow") == 1
        assert state.start(0, type="slow", strict=False) == 0
        assert state.start(0) == 1

    expected, _ = played(case, {0.0: begin})
    assert expected.result.finish == [20.0, 60.0]


def test_who_is_stopped_pauses_when_it_starts_again() -> None:
    case = by_hand([1], NUMBERS, [(0, 1, 100), (10, 1, 20)], preempt_cost=7.0)

    def change(state: Any) -> None:
        state.stop([0])
        assert state.start([1, 0]) == 1

    expected, _ = played(case, {0.0: both_first, 10.0: change, 30.0: both_first})
    assert expected.result.finish == [30.0 + 7.0 + 90.0, 30.0]
    assert expected.result.lost == [7.0, 0.0]


def both_first(state: Any) -> None:
    state.start(state.waiting, strict=False)


def test_end_and_refuse() -> None:
    case = by_hand([2], NUMBERS, [(0, 1, 100), (0, 1, 50), (0, 1, 50)])

    def begin(state: Any) -> None:
        both(state)
        refuses(lambda: state.end(2))
        refuses(lambda: state.refuse(0))
        state.refuse(2)
        state.wake(30.0)

    expected, _ = played(case, {0.0: begin, 30.0: lambda state: state.end([1])})
    assert expected.result.kept == [True, False, False]
    assert expected.result.refused == [False, False, True]
    assert expected.result.allocations[1] == [(0, 1, 0.0, 30.0)]


def test_a_wake_is_due_at_the_first_boundary_not_before_it() -> None:
    # 30 slots of 0.7 s are 21 s, though 21 / 0.7 is above 30 in float64.
    case = by_hand([1], NUMBERS, [(0, 1, 70)], clock="slot", slot=0.7)

    def begin(state: Any) -> None:
        both_first(state)
        refuses(lambda: state.wake(0.0))
        state.wake(21.0)

    _, asked = played(case, {0.0: begin})
    assert asked == pytest.approx([0.0, 21.0])


def test_nobody_is_asked_before_the_first_job_comes() -> None:
    outages = outage_rows([(0, 1.0, 2.0), (0, 12.0, 13.0)])
    case = by_hand([1, 1], NUMBERS, [(5, 1, 20)], outages=outages)
    _, asked = played(case, {5.0: lambda state: state.start(0, [(1, 1)])})
    assert asked == [5.0, 12.0, 13.0]


def test_eviction_by_verbs() -> None:
    case = by_hand([2], f"{NUMBERS} priority", [(0, 2, 100, 0), (10, 1, 20, 1)], evict=True, preempt_cost=0.0)

    def evict(state: Any) -> None:
        refuses(lambda: state.evict_for(0))
        assert state.evict_for(1)

    expected, _ = played(case, {0.0: both_first, 10.0: evict, 30.0: both_first})
    assert expected.result.finish == [120.0, 30.0]
    assert expected.log is not None
    assert expected.log.evictions == [1, 0]


def test_who_started_and_made_room_in_one_call_is_not_counted() -> None:
    rows = [(0, 1, 100, "u"), (0, 2, 10, "v")]
    quota = [{"user": "u", "gpus": 0, "borrow": True}]
    case = by_hand([2], f"{NUMBERS} user", rows, quota=quota)

    def begin(state: Any) -> None:
        assert state.start([0, 1]) == 1
        assert [int(row) for row in state.running] == [1]

    expected, _ = played(case, {0.0: begin, 10.0: both_first})
    assert expected.result.start == [10.0, 0.0]


def test_a_quota_without_borrowing_refuses_what_is_beyond_it() -> None:
    rows = [(0, 2, 30, "u", 1, 4), (0, 1, 30, "u", 1, 4)]
    quota = [{"user": "u", "gpus": 2, "borrow": False}]
    case = by_hand([8], f"{NUMBERS} user min_gpus max_gpus", rows, quota=quota)

    def begin(state: Any) -> None:
        assert state.quota(0)[1:3] == (2, 0)
        assert state.start([0, 1]) == 1
        refuses(lambda: state.start(1))
        refuses(lambda: state.resize(0, 3))
        refuses(lambda: state.move({0: [(0, 3)]}))

    expected, _ = played(case, {0.0: begin, 30.0: both_first})
    assert expected.result.finish == [30.0, 60.0]


def test_protected_jobs_are_not_stopped_but_moved() -> None:
    case = by_hand([1, 1], NUMBERS, [(0, 1, 50)], preempt_after=20.0, move_cost=1.0)

    def begin(state: Any) -> None:
        both_first(state)
        state.wake(10.0)

    def move(state: Any) -> None:
        assert [int(row) for row in state.protected] == [0]
        refuses(lambda: state.stop(0))
        state.move({0: [(1, 1)]})

    expected, _ = played(case, {0.0: begin, 10.0: move})
    assert expected.result.finish == [51.0]


IMPOSSIBLE: Sequence[tuple[str, Callable[[Any], object]]] = (
    ("nobody waits", lambda state: state.start(0)),
    ("nobody runs", lambda state: state.stop(2)),
    ("too few idle GPUs", lambda state: state.start(2, [(0, 3)])),
    ("not num_gpus", lambda state: state.start(2, [(1, 1)])),
    ("one of two moves cannot be", lambda state: state.move({0: [(1, 2)], 1: [(0, 4)]})),
    ("above max_gpus", lambda state: state.resize(0, 3)),
    ("has never run", lambda state: state.end(2)),
)


@pytest.mark.parametrize(("why", "verb"), IMPOSSIBLE, ids=[why for why, _ in IMPOSSIBLE])
def test_what_cannot_be_changes_nothing(why: str, verb: Callable[[Any], object]) -> None:
    case = by_hand([2, 4], NUMBERS, [(0, 2, 100), (0, 2, 60), (0, 3, 40)])

    def begin(state: Any) -> None:
        both(state)
        refuses(lambda: verb(state))

    expected, _ = played(case, {0.0: begin, 60.0: both_first})
    assert expected.result.finish == [100.0, 60.0, 100.0], why
    assert not any(expected.result.preemptions)
    assert all(math.isfinite(at) for at in expected.result.start)
