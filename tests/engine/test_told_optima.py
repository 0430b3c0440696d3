"""What gavel, allox and sia take of many optima is one: planted choices that are none are found.

The numbers are those of docs/gavel.md and docs/sia.md.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest

from cases import decided, modelled
from cases.case import Case, by_hand
from cases.compare import agreed
from cases.watched import Decision
from reference.allox import check_matching
from reference.following import WrongError
from reference.gavel import check_finish, check_shares, first_come
from reference.sia import check_assignment, sizes_of

pytest.importorskip("highspy", reason="the policies' solver: pip install 'ringbco[lp]'")
pytest.importorskip("scipy", reason="the tests' solver: pip install scipy")

RATES = {0: [1.0, 0.5], 1: [1.0, 0.1]}
ONE_EACH = {0: 1.0, 1: 1.0}


def test_shares_of_the_page() -> None:
    check_shares({0: [0.5, 0.5], 1: [0.5, 0.5]}, RATES, ONE_EACH, [1, 1])


@pytest.mark.parametrize(
    "share",
    [
        pytest.param({0: [1.0, 0.0], 1: [0.0, 1.0]}, id="b gets less than it could"),
        pytest.param({0: [0.6, 0.5], 1: [0.5, 0.5]}, id="more than all of its time"),
        pytest.param({0: [0.5, 0.5], 1: [0.6, 0.4]}, id="more GPUs than there are"),
        pytest.param({0: [0.4, 0.4], 1: [0.4, 0.4]}, id="something is left over"),
    ],
)
def test_shares_that_are_no_optimum(share: dict[int, list[float]]) -> None:
    with pytest.raises(WrongError):
        check_shares(share, RATES, ONE_EACH, [1, 1])


def test_of_the_shares_with_the_greatest_least_worth_those_worth_most_are_taken() -> None:
    # Job 0 can use type 0 alone; job 1 is worth more where it gets all that is left.
    rates = {0: [1.0, 0.0], 1: [0.0, 1.0]}
    check_shares({0: [1.0, 0.0], 1: [0.0, 1.0]}, rates, ONE_EACH, [1, 2])
    with pytest.raises(WrongError):
        check_shares({0: [1.0, 0.0], 1: [0.0, 0.9]}, rates, ONE_EACH, [1, 2])


def test_a_job_that_can_run_nowhere_has_no_share() -> None:
    with pytest.raises(WrongError):
        check_shares({0: [0.0], 1: [0.1]}, {0: [1.0], 1: [0.0]}, ONE_EACH, [1])


FIGURES = {0: (0.0, 10.0, 10.0), 1: (0.0, 30.0, 30.0)}


def test_finish_times_of_the_page() -> None:
    check_finish({0: [0.5], 1: [0.5]}, {0: [1.0], 1: [1.0]}, ONE_EACH, [1], FIGURES)


@pytest.mark.parametrize("share", [(0.6, 0.4), (0.4, 0.4), (0.7, 0.7)])
def test_finish_times_that_are_not_the_fairest(share: tuple[float, float]) -> None:
    with pytest.raises(WrongError):
        check_finish({0: [share[0]], 1: [share[1]]}, {0: [1.0], 1: [1.0]}, ONE_EACH, [1], FIGURES)


def test_first_come_of_the_page() -> None:
    rates = {row: [2.0, 1.0] for row in (0, 1, 2)}
    share = first_come([0, 1, 2], rates, {0: 4.0, 1: 2.0, 2: 2.0}, [4, 2])
    assert share == {0: [1.0, 0.0], 1: [0.0, 1.0], 2: [0.0, 0.0]}


TIMES = {0: [10.0], 1: [30.0]}


def matching(found: list[tuple[int, int]]) -> None:
    check_matching(found, [0, 1], TIMES, ONE_EACH, [(0, 0.0, 1)])


def test_the_shorter_of_two_jobs_is_before_the_other() -> None:
    matching([(0, 2), (0, 1)])


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([(0, 1), (0, 2)], id="the longer one first"),
        pytest.param([(0, 1), (0, 1)], id="both at one place"),
        pytest.param([(0, 2)], id="one without a place"),
        pytest.param([(1, 2), (0, 1)], id="GPUs that there are not"),
    ],
)
def test_matchings_that_are_none_or_no_optimum(found: list[tuple[int, int]]) -> None:
    with pytest.raises(WrongError):
        matching(found)


def test_a_gang_waits_until_its_type_has_enough_gpus() -> None:
    # It begins no earlier than at 5 s, wherever it is put.
    slots = [(0, 0.0, 1), (0, 5.0, 1), (1, 0.0, 2)]
    check_matching([(2, 1)], [0], {0: [10.0, 14.0]}, {0: 2.0}, slots)
    with pytest.raises(WrongError):
        check_matching([(0, 1)], [0], {0: [10.0, 14.0]}, {0: 2.0}, slots)


V100, T4 = (0, 1), (1, 1)


def gain(goodput: float) -> float:
    return float(1.1 - goodput**-0.5)


GAINS = {0: {V100: gain(4.0), T4: gain(1.0)}, 1: {V100: gain(2.0), T4: gain(1.0)}}


def assignment(found: dict[int, tuple[int, int] | None], *, running: bool = False) -> None:
    gains = dict(GAINS)
    if running:  # b runs on the V100, and a change counts 0.9 times
        gains[1] = {V100: gain(2.0), T4: gain(0.9)}
    check_assignment(found, gains, {0: 1.0, 1: 1.0}, lambda _, gpus: float(gpus))


def test_assignments_of_the_page() -> None:
    assignment({0: V100, 1: T4})
    assignment({0: V100, 1: T4}, running=True)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({0: T4, 1: V100}, id="less in all"),
        pytest.param({0: V100, 1: None}, id="a GPU is left over"),
        pytest.param({0: V100, 1: V100}, id="more GPUs than there are"),
        pytest.param({0: (0, 2), 1: T4}, id="what it cannot have"),
    ],
)
def test_assignments_that_are_no_optimum(found: dict[int, tuple[int, int] | None]) -> None:
    with pytest.raises(WrongError):
        assignment(found)


def test_configurations() -> None:
    assert sizes_of([8, 8, 8]) == {1, 2, 4, 8, 16, 24}
    assert sizes_of([6, 4]) == {1, 2, 4, 6, 10}


# Whole runs: what was chosen is changed on its way to the reference model.


def typed(policy: str, **more: Any) -> Case:
    """Three jobs on a fast GPU and a slow one."""
    jobs = [(0, 1, 40), (0, 1, 90), (5, 1, 20)]
    case = by_hand([1, 1], "submit_time num_gpus duration", jobs, policy=policy, preempt_cost=0.0, **more)
    case.gpu_types = {"fast": {"speed": 3.0}, "slow": {"speed": 1.0}}
    for server, name in zip(case.servers, case.gpu_types, strict=True):
        server["gpu_type"] = name
    for job in case.jobs:
        job["recorded_on"] = "slow"
    return case


def idle_shares(chosen: Any) -> Any:
    return {row: [0.0, 0.0] for row in chosen}


def swapped(chosen: Any) -> Any:
    return list(reversed(chosen))


def nothing(chosen: Any) -> Any:
    return [None for _ in chosen]


ROUND = {"parameters": {"round": 10.0}}
RUNS: list[tuple[str, dict[str, Any], Callable[[Any], Any]]] = [
    ("gavel", ROUND, idle_shares),
    ("gavel", {"parameters": {"round": 10.0, "shares": "finish-time", "renew": 0.0}}, idle_shares),
    ("allox", {}, swapped),
    ("sia", ROUND, nothing),
]


@pytest.mark.parametrize(("policy", "more", "change"), RUNS, ids=["gavel", "finish-time", "allox", "sia"])
def test_a_planted_choice_is_found(
    policy: str, more: dict[str, Any], change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = typed(policy, **more)
    result = agreed(case).result
    assert not any(math.isnan(end) for end in result.finish)
    watched = decided.watched

    def planted(case: Case) -> list[Decision]:
        seen = watched(case)
        first = next(each for each in seen if each.chosen)
        first.chosen[0] = change(first.chosen[0])
        return seen

    monkeypatch.setattr(decided, "watched", planted)
    with pytest.raises(WrongError):
        modelled.reference_result(case)


def test_a_choice_that_the_reference_does_not_expect_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decided, "watched", lambda _: [])
    for policy in ("gavel", "allox"):
        with pytest.raises(WrongError, match=r"due at 0\.0 s"):
            modelled.reference_result(typed(policy, **(ROUND if policy == "gavel" else {})))
