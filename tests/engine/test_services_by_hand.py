"""Replays with services whose numbers were worked out on paper from docs/services.md.

The reference model must give them, and the engine what the reference model gives.
"""

import pytest

from cases import modelled
from reference import StuckError
from reference.claims import Log
from ringbco.errors import InputError
from test_priorities_by_hand import SLOTS, problem, run

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")


def chat(size: int, *rows: tuple[float, int]) -> list[tuple[str, float, int, int]]:
    """A service by (time, replicas)."""
    return [("chat", time, replicas, size) for time, replicas in rows]


def held(log: Log) -> list[tuple[int, float, float]]:
    """(server, start, end) of the replicas, in order of their starts."""
    return [(replica.server, replica.start, replica.end) for replica in log.replicas]


def test_a_service_takes_gpus_and_gives_them_back() -> None:
    # The job of 4 GPUs makes room from 20 to 60 s, then pauses for 10 s and does its other 80 s.
    case = problem([(0, 4, 100, 9)], [4], cost=10.0, loads=chat(2, (20, 1), (60, 0)))
    expected, log = run(case)
    assert expected.stays() == [[(0, 20), (60, 150)]]
    assert (log.evictions, held(log)) == ([1], [(0, 20, 60)])


def test_the_fullest_server_that_holds_a_replica() -> None:
    # The job is on server 1. The first replica goes beside it, the second to server 2, the third to server 0.
    expected, log = run(problem([(0, 1, 50, 0)], [4, 2, 2], loads=chat(1, (10, 2), (20, 4))))
    assert expected.allocations[0] == [(1, 1, 0, 50)]
    assert held(log) == [(1, 10, 50), (2, 10, 50), (2, 20, 50), (0, 20, 50)]


def test_what_was_placed_last_ends_first() -> None:
    _, log = run(problem([(0, 1, 100, 0)], [2, 2], loads=chat(1, (5, 2), (10, 3), (20, 2), (30, 1))))
    assert held(log) == [(0, 5, 100), (1, 5, 30), (1, 10, 20)]


def test_a_replica_waits_for_a_job_that_is_not_preemptible() -> None:
    # At 30 s the replica goes before the job that waits. The run ends at 40 s, and the replica with it.
    jobs = [(0, 2, 30, 0), (25, 1, 10, 9)]
    expected, log = run(problem(jobs, [2], fixed=[0], loads=chat(1, (10, 1))))
    assert expected.start == [0, 30]
    assert (log.evictions, held(log)) == ([0, 0], [(0, 30, 40)])


def test_services_go_in_the_order_of_the_file() -> None:
    rows = [("b", 10, 1), ("a", 10, 1), ("b", 20, 0), ("a", 30, 0)]
    loads = [(*row, 1) for row in rows]
    expected, log = run(problem([(0, 1, 50, 0)], [1], loads=loads))
    assert [replica.service for replica in log.replicas] == ["b", "a"]
    assert held(log) == [(0, 10, 20), (0, 20, 30)]
    assert expected.stays() == [[(0, 10), (30, 70)]]


def test_a_replica_whose_server_fails_starts_elsewhere() -> None:
    # It goes to server 0, which the job leaves. The job starts on server 1 when that is back.
    case = problem([(0, 2, 100, 0)], [2, 2], outages=[(1, 30.0, 40.0)], loads=chat(1, (10, 1)))
    expected, log = run(case)
    assert held(log) == [(1, 10, 30), (0, 30, 110)]
    assert expected.allocations[0] == [(0, 2, 0, 30), (1, 2, 40, 110)]
    assert (log.evictions, expected.failures) == ([1], [0])


def test_the_quota_of_a_ranking_is_what_replicas_leave() -> None:
    # Of both jobs row 0 makes room. srtf goes on with row 1, which has 5 s left.
    jobs = [(0, 2, 50, 0), (0, 2, 10, 0)]
    expected, log = run(problem(jobs, [4], policy="srtf", loads=chat(2, (5, 1))))
    assert expected.stays() == [[(0, 5), (10, 55)], [(0, 10)]]
    assert (log.evictions, expected.preemptions) == ([1, 0], [0, 0])


def test_a_policy_with_an_interval_waits_for_its_next_multiple() -> None:
    # The replica ends at 25 s. The job that made room starts again at 40 s.
    rules = {"policy": "tiresias", "interval": 20.0}
    expected, log = run(problem([(0, 1, 50, 0)], [1], rules, loads=chat(1, (5, 1), (25, 0))))
    assert expected.stays() == [[(0, 5), (40, 85)]]
    assert held(log) == [(0, 5, 25)]


def test_loads_between_slots() -> None:
    # In slots of 10 s: that at 12 s counts at 20 s; of those at 33 and 38 s the latter does, at 40 s.
    loads = chat(1, (12, 1), (33, 0), (38, 1), (41, 0))
    expected, log = run(problem([(0, 1, 50, 0)], [1], SLOTS, loads=loads))
    assert held(log) == [(0, 20, 50)]
    assert expected.stays() == [[(0, 20), (50, 80)]]


@pytest.mark.parametrize("priority", [0, 2**31 - 1])
def test_nobody_may_ever_run(priority: int) -> None:
    case = problem([(5, 4, 10, priority)], [4], loads=chat(1, (0, 1)))
    assert isinstance(modelled.reference_result(case), StuckError)
    with pytest.raises(InputError):
        case.replay()
