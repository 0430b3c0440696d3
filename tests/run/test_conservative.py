"""Conservative backfilling by hand: who starts, who is told what, what is refused (docs/operators.md)."""

from typing import Any

import pytest

import ringbco
from cases.case import Case, by_hand
from cases.compare import agreed
from cases.stories import facts_of
from ringbco.errors import UsageError
from strategies import PLACEMENTS

COLUMNS = "submit_time num_gpus duration"
DOCS = [(0.0, 2, 10.0), (1.0, 3, 5.0), (2.0, 4, 10.0), (3.0, 1, 30.0), (4.0, 1, 8.0)]
"""The example of docs/operators.md."""


def case_of(servers: tuple[int, ...], rows: list[tuple[float, int, float]], **options: Any) -> Case:
    return by_hand(servers, COLUMNS, rows, **{"policy": "fifo", "queue": "conservative", **options})


def starts(case: Case) -> list[float]:
    """When each job starts; as the reference model says."""
    agreed(case)
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    return outcome.jobs["start_time"].to_list()


def test_the_second_is_not_delayed_either() -> None:
    case = case_of((4,), DOCS)
    assert starts(case) == [0.0, 10.0, 15.0, 25.0, 4.0]
    assert case.replay(queue="easy").jobs["start_time"].to_list() == [0.0, 10.0, 33.0, 3.0, 15.0]
    # Nobody starts behind the second that waits.
    assert starts(case_of((4,), DOCS, reservations=2)) == [0.0, 10.0, 15.0, 25.0, 25.0]


def test_a_reservation_is_of_gpus_not_of_numbers_of_them() -> None:
    # From 4 on GPU 0 is free, from 10 on all three, and from then on the fourth job has GPUs 0 and 1. At any
    # instant from 4 on one GPU is free, but none for 9 s.
    rows = [(0.0, 1, 4.0), (0.0, 1, 10.0), (0.0, 1, 10.0), (1.0, 2, 5.0)]
    assert starts(case_of((3,), [*rows, (2.0, 1, 9.0)]))[3:] == [10.0, 10.0]
    assert starts(case_of((3,), [*rows, (2.0, 1, 6.0)]))[3:] == [10.0, 4.0]


def test_who_runs_past_its_estimate_may_end_at_any_instant() -> None:
    # The first is reckoned at 5 s: at 7 s the second is reserved its GPUs, from the next
    # instant on, and the idle one.
    rows = [(0.0, 3, 10.0), (1.0, 4, 10.0), (7.0, 1, 2.0)]
    assert starts(case_of((4,), rows, estimate_factor=0.5)) == [0.0, 10.0, 20.0]
    assert starts(case_of((4,), rows)) == [0.0, 10.0, 7.0]


def test_reservations_use_up_no_random_numbers() -> None:
    fillers = [(0.0, 2, 10.0), (0.0, 2, 10.0)]
    waiting = [(1.0, 3, 5.0), (1.0, 3, 5.0), (2.0, 1, 3.0)]
    for seed in range(4):
        case = case_of((2, 2, 2), [*fillers, *waiting], placement="random", seed=seed)
        assert starts(case)[4] == 2.0


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_reserved_set_wins(placement: str) -> None:
    rows = [(0.0, 3, 9.0), (0.0, 2, 4.0), (1.0, 5, 6.0), (2.0, 1, 20.0), (3.0, 2, 5.0), (3.0, 1, 4.0)]
    starts(case_of((4, 2, 2), rows, placement=placement, variant="literal", kappa=2))


def test_why_tells_a_reservation() -> None:
    case = case_of((4,), DOCS)
    outcome, jobs = case.replay(), case.frame()
    for job, begins in (("j1", 10.0), ("j2", 15.0), ("j3", 25.0)):
        (fact,) = facts_of(outcome.why(job, jobs), "reservation")
        assert (fact.figures["begins"], fact.figures["on"][0]["server"]) == (begins, 0)
    assert fact.sentence == (
        "By the estimates at that time, its reservation began 22.0 s after submission, on server 0."
    )
    (fact,) = facts_of(case.replay(reservations=2).why("j4", jobs), "beyond")
    assert fact.sentence == "It was not among the first 2 jobs of the queue; only these get reservations."


def test_where_estimates_are_right_and_nobody_comes_a_reservation_is_kept() -> None:
    rows = [(0.0, 4, 3.0), (0.0, 2, 5.0), (0.0, 2, 7.5)]
    rows += [(1.0, 1 + 5 * n % 4, 2.0 + 3 * n % 13) for n in range(12)]
    case = case_of((4, 4), rows)
    outcome = case.replay()
    starts(case)
    facts = {job: facts_of(outcome.why(job, case.frame()), "reservation") for job in outcome.jobs["job_id"]}
    known = {job: fact[0].figures["begins"] for job, fact in facts.items() if fact}
    assert len(known) > 3
    for job, start in outcome.jobs.select("job_id", "start_time").rows():
        assert known.get(job, start) == start


def test_what_is_refused() -> None:
    case = case_of((4,), DOCS)
    for wrong in (0, -1, 1.5):
        with pytest.raises(UsageError, match="reservations"):
            case.replay(reservations=wrong)
    shares = case.frame().with_columns(gpu_share=0.5, num_gpus=1)
    with pytest.raises(UsageError, match="queue"):
        ringbco.replay(shares, "1x4", model="fixed", policy="fifo", queue="conservative")
