"""Replays with priorities, eviction, quotas and services whose numbers were worked out on paper.

They follow docs/priorities-reference.md and docs/services.md. The reference model must give them, and the
engine what it gives.
"""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from cases.case import Case, by_hand, outage_rows
from cases.compare import agreed
from reference.claims import Log
from reference.result import PreemptResult

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

FIFO: dict[str, Any] = {}
SKIP = {"queue": "skip"}
EASY = {"queue": "easy"}
SJF = {"order": "sjf"}
SLOTS: dict[str, Any] = {"clock": "slot", "slot": 10.0}


def problem(
    jobs: Sequence[tuple[float, int, float, int]],
    servers: Sequence[int],
    options: dict[str, Any] = FIFO,
    *,
    fixed: Sequence[int] = (),
    every: float = math.inf,
    cost: float = 0.0,
    outages: Sequence[tuple[int, float, float]] = (),
    owners: Sequence[str | None] = (),
    quotas: Sequence[tuple[str, int, bool]] = (),
    loads: Sequence[tuple[str, float, int, int]] = (),
    **more: Any,
) -> Case:
    """jobs: (submit_time, num_gpus, duration, priority). fixed: rows that are not preemptible.

    quotas: (owner, GPUs, whether it may borrow). loads: (service, time, replicas, GPUs of each).
    """
    case = by_hand(
        servers, "submit_time num_gpus duration priority", jobs,
        outages=outage_rows(outages),
        quota=[{"user": owner, "gpus": gpus, "borrow": borrow} for owner, gpus, borrow in quotas],
        services=[
            {"service": name, "time": time, "replicas": replicas, "gpus_per_replica": gpus}
            for name, time, replicas, gpus in loads
        ],
        **{"preempt_cost": cost, "checkpoint_interval": every, "placement": "consolidate", **options, **more},
    )  # fmt: skip
    for row, job in enumerate(case.jobs):
        job["preemptible"] = row not in fixed
    for job, owner in zip(case.jobs, owners, strict=False):
        job["user"] = owner
    return case


def run(case: Case) -> tuple[PreemptResult, Log]:
    """By the reference model, which must be the engine's."""
    result = agreed(case)
    assert result.log is not None
    return result.result, result.log


# Priorities.


def test_the_documented_order() -> None:
    # On one GPU that is busy until 1: a (10 s), b (5 s) and c (100 s, of higher priority). They go c, b, a.
    jobs = [(0, 1, 1, 0), (0.5, 1, 10, 0), (0.5, 1, 5, 0), (0.5, 1, 100, 1)]
    expected, _ = run(problem(jobs, [1], SJF))
    assert expected.stays() == [[(0, 1)], [(106, 116)], [(101, 106)], [(1, 101)]]


def test_fifo_is_priority_then_submission() -> None:
    jobs = [(0, 1, 10, 0), (1, 1, 10, 0), (2, 1, 10, 5), (3, 1, 10, 5), (4, 1, 10, -1)]
    expected, _ = run(problem(jobs, [1]))
    assert expected.start == [0, 30, 10, 20, 40]


def test_priorities_alone_stop_nobody() -> None:
    expected, log = run(problem([(0, 2, 10, 0), (1, 2, 10, 9)], [2]))
    assert expected.stays() == [[(0, 10)], [(10, 20)]]
    assert log.evictions == [0, 0]


def test_aged_jobs_go_before_higher_priorities() -> None:
    # At 10 s the job of 1 s has waited for 9 s and is aged; that of 5 s has waited for 5 s.
    jobs = [(0, 1, 10, 0), (1, 1, 10, 0), (5, 1, 5, 3)]
    expected, _ = run(problem(jobs, [1], SJF, aging=8.0))
    assert expected.start == [0, 10, 20]
    expected, _ = run(problem(jobs, [1], SJF))
    assert expected.start == [0, 15, 10]


def test_a_ranking_goes_by_priority_before_remaining_time() -> None:
    # srtf would go on with the short one, and not preemptible is no shield from a ranking.
    expected, _ = run(problem([(0, 2, 10, 0), (4, 2, 50, 1)], [2], fixed=[0], policy="srtf", cost=3.0))
    assert expected.stays() == [[(0, 4), (54, 63)], [(4, 54)]]
    assert (expected.preemptions, expected.lost) == ([1, 0], [3, 0])


# Eviction.

DOCUMENTED = [(0, 4, 9000, 0), (500, 2, 9000, 0), (900, 2, 9000, 0)]


def test_the_documented_eviction() -> None:
    # c started last. For 3 GPUs both b and c leave. At 1,100 s they start again in the order of fifo: b finds
    # 2 GPUs, c 2.
    expected, log = run(problem([*DOCUMENTED, (1000, 3, 100, 1)], [8], evict=True))
    assert log.evictions == [0, 1, 1, 0]
    assert expected.stays()[3] == [(1000, 1100)]
    # Of the 8 GPUs 1 is idle beside a and the new job: strict, both wait.
    assert expected.stays()[1] == [(500, 1000), (1100, 9600)]
    assert expected.stays()[2] == [(900, 1000), (1100, 10_000)]


def test_the_documented_eviction_of_one() -> None:
    expected, log = run(problem([*DOCUMENTED, (1000, 2, 100, 1)], [8], evict=True, cost=30.0))
    assert log.evictions == [0, 0, 1, 0]
    # It keeps its 100 s, and pauses for 30 s.
    assert expected.stays()[2] == [(900, 1000), (1100, 1130 + 8900)]
    assert (expected.held[2], expected.lost[2], expected.preemptions[2]) == (9030, 30, 0)


def test_those_that_are_not_needed_are_dropped() -> None:
    # For 4 GPUs all are taken, the two small ones first. Then these are dropped.
    jobs = [(0, 4, 900, 0), (100, 1, 900, 0), (200, 1, 900, 0), (300, 4, 50, 1)]
    expected, log = run(problem(jobs, [6], evict=True))
    assert log.evictions == [1, 0, 0, 0]
    assert expected.stays()[0] == [(0, 300), (350, 950)]


def test_whom_an_urgent_job_evicts() -> None:
    # Nobody loses work: of the jobs with the fewest GPUs, 1 on server 1, the upper row goes.
    jobs = [(0, 4, 1000, 0), (0, 2, 1000, 0), (0, 1, 1000, 0), (0, 1, 1000, 0), (105, 1, 50, 1)]
    expected, log = run(problem(jobs, [4, 4], SKIP, evict=True, cost=30.0))
    assert log.evictions == [0, 0, 1, 0, 0]
    assert expected.finish == [1000, 1000, 1080, 1000, 155]


def test_the_server_whose_victims_lose_least_wins() -> None:
    # 2 GPUs x 10 s on server 0, and 2 x 4 s on server 1, whose job goes and does its 4 s again.
    jobs = [(0, 2, 100, 0), (6, 2, 100, 0), (10, 2, 20, 1)]
    expected, log = run(problem(jobs, [2, 2], evict=True, evict_loses=True))
    assert log.evictions == [0, 1, 0]
    assert expected.lost_work == [0, 4, 0]
    assert expected.allocations[1:] == [[(1, 2, 6, 10), (1, 2, 30, 130)], [(1, 2, 10, 30)]]
    # One checkpoint every 5 s: at 10 s the first has just saved.
    expected, log = run(problem(jobs, [2, 2], evict=True, evict_loses=True, every=5.0))
    assert log.evictions == [1, 0, 0]
    assert expected.lost_work == [0, 0, 0]


def test_the_server_whose_victims_hold_the_fewest_gpus_wins() -> None:
    # Row 2 holds a GPU of server 1 and two of server 2, row 1 the other GPU of server 1, row 0 server 0.
    jobs = [(0, 2, 100, 1), (0, 1, 100, 1), (0, 3, 100, 0), (10, 1, 20, 9)]
    _, log = run(problem(jobs, [2, 2, 2], evict=True))
    assert log.evictions == [0, 0, 1, 0]  # the lowest priority, whatever it holds
    jobs[2] = (0, 3, 100, 1)
    _, log = run(problem(jobs, [2, 2, 2], evict=True))
    assert log.evictions == [0, 1, 0, 0]


def test_the_fewest_victims_of_as_many_gpus() -> None:
    # Two jobs of 1 GPU on server 0, one of 2 on server 1.
    jobs = [(0, 1, 100, 0), (0, 1, 100, 0), (0, 2, 100, 0), (10, 2, 20, 1)]
    _, log = run(problem(jobs, [2, 2], evict=True))
    assert log.evictions == [0, 0, 1, 0]


def test_lower_priorities_are_taken_first_on_every_server() -> None:
    # On one server of 4, and on two of 2: priority 0 goes, although priority 1 would lose less.
    jobs = [(0, 2, 100, 0), (8, 2, 100, 1), (9, 2, 20, 2)]
    for servers in ([4], [2, 2]):
        expected, log = run(problem(jobs, servers, evict=True, evict_loses=True))
        assert log.evictions == [1, 0, 0]
        assert expected.stays() == [[(0, 9), (29, 129)], [(8, 108)], [(9, 29)]]


def test_equals_go_to_the_latest_start_then_to_the_row() -> None:
    _, log = run(problem([(0, 1, 100, 0), (1, 1, 100, 0), (2, 1, 9, 1)], [2], evict=True))
    assert log.evictions == [0, 1, 0]
    _, log = run(problem([(0, 1, 100, 0), (0, 1, 100, 0), (2, 1, 9, 1)], [2], evict=True))
    assert log.evictions == [1, 0, 0]


def test_the_youngest_go_first() -> None:
    # On one server row 1, of 2 GPUs, started last; by GPUs it would be row 0.
    jobs = [(0, 1, 100, 0), (1, 2, 100, 0), (2, 1, 9, 1)]
    _, log = run(problem(jobs, [3], evict=True, victims="youngest"))
    assert log.evictions == [0, 1, 0]
    _, log = run(problem(jobs, [3], evict=True))
    assert log.evictions == [1, 0, 0]
    # Two servers: the first to start of server 0's two victims did so at 0 s, server 1's at 1 s.
    jobs = [(0, 1, 100, 0), (1, 2, 100, 0), (2, 1, 100, 0), (3, 2, 9, 1)]
    _, log = run(problem(jobs, [2, 2], evict=True, victims="youngest"))
    assert log.evictions == [0, 1, 0, 0]


@pytest.mark.parametrize("options", [FIFO, SKIP, EASY, {"queue": "conservative"}, SJF])
def test_a_job_waits_before_it_evicts(options: dict[str, Any]) -> None:
    # It is pending from 2 s on, and from 12 s on it may evict.
    jobs = [(0, 1, 100, 0), (0, 1, 100, 0), (2, 1, 9, 1)]
    expected, log = run(problem(jobs, [2], options, evict=True, evict_after=10.0))
    assert log.evictions == [1, 0, 0]
    assert expected.stays() == [[(0, 12), (21, 109)], [(0, 100)], [(12, 21)]]
    # GPUs that are free it takes as ever.
    expected, log = run(problem([(0, 1, 5, 0), *jobs[1:]], [2], options, evict=True, evict_after=10.0))
    assert (log.evictions, expected.start[2]) == ([0, 0, 0], 5)


def test_pending_begins_anew_with_the_end_of_a_stay() -> None:
    # At 11 s row 1 evicts row 0, and row 3 takes the other GPU. At 12 s row 2 evicts both.
    jobs = [(0, 2, 50, 0), (1, 1, 50, 1), (2, 2, 20, 2), (3, 1, 60, 0)]
    expected, log = run(problem(jobs, [2], SKIP, evict=True, evict_after=10.0))
    assert expected.stays() == [[(0, 11), (91, 130)], [(11, 12), (32, 81)], [(12, 32)], [(11, 12), (32, 91)]]
    # Row 2 evicts row 0 at 11 s, and row 3 evicts row 2 at 14 s. So row 2 may evict again from 20 s on.
    jobs = [(0, 1, 30, 0), (0, 1, 100, 5), (5, 1, 20, 1), (8, 1, 50, 2)]
    expected, log = run(problem(jobs, [2], SKIP, evict=True, evict_after=6.0))
    assert expected.stays()[2:] == [[(11, 14), (64, 81)], [(14, 64)]]
    assert log.evictions == [1, 0, 1, 0]


def test_who_is_within_its_quota_waits_too() -> None:
    jobs = [(0, 2, 100, 0), (10, 2, 5, 0)]
    quotas = (("a", 0, True), ("b", 2, False))
    expected, log = run(problem(jobs, [2], owners=["a", "b"], quotas=quotas, evict_after=7.0))
    assert log.evictions == [1, 0]
    assert expected.start == [0, 17]


def test_slots_count_the_first_boundary() -> None:
    # In slots of 10 s: pending from 12 s on, so the job may evict from 15 s on, at 20 s.
    expected, _ = run(problem([(0, 1, 100, 0), (12, 1, 15, 1)], [1], SLOTS, evict=True, evict_after=3.0))
    assert expected.start == [0, 20]
    expected, _ = run(problem([(0, 1, 100, 0), (12, 1, 15, 1)], [1], SLOTS, evict=True, evict_after=9.0))
    assert expected.start == [0, 30]


def test_who_is_kept_is_not_stopped() -> None:
    # srtf stops the long one but for the column.
    jobs = [(0, 2, 100, 0), (4, 2, 10, 1)]
    expected, _ = run(problem(jobs, [2], fixed=[0], policy="srtf", keep_unpreemptible=True))
    assert expected.stays() == [[(0, 100)], [(100, 110)]]
    expected, _ = run(problem(jobs, [2], policy="srtf", keep_unpreemptible=True))
    assert expected.stays()[1] == [(4, 14)]


def test_nobody_is_evicted_in_vain() -> None:
    # The job of 2 GPUs is not preemptible: 4 cannot be had.
    expected, log = run(problem([(0, 2, 100, 0), (0, 1, 100, 0), (5, 4, 9, 1)], [4], evict=True, fixed=[0]))
    assert log.evictions == [0, 0, 0]
    assert expected.start[2] == 100
    # And nobody of the same priority is.
    _, log = run(problem([(0, 2, 100, 1), (5, 2, 9, 1)], [2], evict=True))
    assert log.evictions == [0, 0]


def test_a_gang_evicts_over_the_whole_cluster() -> None:
    # 4 GPUs on two servers of 2, wholly idle ones. On three servers rows 2 and then 1 are the first to go.
    # They do, and row 0 goes on.
    jobs = [(0, 2, 100, 0), (5, 2, 100, 0), (9, 1, 100, 0), (10, 4, 20, 1)]
    expected, log = run(problem(jobs, [2, 2, 2], evict=True))
    assert log.evictions == [0, 1, 1, 0]
    assert expected.allocations[3] == [(1, 2, 10, 30), (2, 2, 10, 30)]
    assert expected.stays()[0] == [(0, 100)]


def test_a_victim_gives_back_all_its_gpus() -> None:
    # The gang of 3 holds server 0 and a GPU of server 1. For 2 GPUs it leaves; then the job of 1 GPU and
    # priority 0, which waits, gets the other server.
    jobs = [(0, 3, 100, 0), (1, 1, 100, 5), (2, 1, 10, 0), (3, 2, 20, 1)]
    expected, log = run(problem(jobs, [2, 2], SKIP, evict=True))
    assert log.evictions == [1, 0, 0, 0]
    assert expected.allocations[3] == [(0, 2, 3, 23)]
    assert expected.allocations[2] == [(1, 1, 3, 13)]
    # At 23 s server 0 is idle again, and a GPU of server 1 since 13 s.
    assert expected.stays()[0] == [(0, 3), (23, 120)]


def test_an_evicted_job_may_start_again_at_once_elsewhere() -> None:
    # From 5 s on both servers have an idle GPU. The new job gets server 1, and the victim goes to server 0.
    jobs = [(0, 1, 100, 5), (0, 1, 5, 5), (0, 1, 100, 0), (10, 2, 20, 1)]
    expected, log = run(problem(jobs, [2, 2], evict=True, cost=4.0))
    assert log.evictions == [0, 0, 1, 0]
    assert expected.allocations[3] == [(1, 2, 10, 30)]
    assert expected.allocations[2] == [(1, 1, 0, 10), (0, 1, 10, 104)]


def test_a_backfilled_job_evicts_nobody() -> None:
    # The head (priority 2, not to be placed as row 0 stays) blocks; row 3 could evict row 1 but does not.
    jobs = [(0, 2, 50, 0), (0, 2, 100, 0), (5, 4, 9, 2), (5, 2, 9, 1)]
    expected, log = run(problem(jobs, [4], EASY, evict=True, fixed=[0]))
    assert log.evictions == [0, 1, 0, 0]
    # At 50 s row 0 is done, and the head evicts row 1.
    assert expected.stays() == [[(0, 50)], [(0, 50), (59, 109)], [(50, 59)], [(59, 68)]]
    # Under skip it evicts in its turn; row 1 goes on at 14 s, and the job of 4 GPUs evicts it at 50 s.
    expected, log = run(problem(jobs, [4], SKIP, evict=True, fixed=[0]))
    assert log.evictions == [0, 2, 0, 0]
    assert expected.stays() == [[(0, 50)], [(0, 5), (14, 50), (59, 118)], [(50, 59)], [(5, 14)]]


def test_a_ranking_evicts_who_is_in_the_way_of_a_selected_job() -> None:
    # From 4 s on two servers of 2 run a job of 1 GPU each. The new one is within the quota, but the idle GPUs
    # lie apart. Row 0 leaves server 0, the lower one, and goes on beside row 2.
    jobs = [(0, 1, 50, 0), (0, 1, 4, 0), (0, 1, 50, 0), (10, 2, 9, 1)]
    expected, log = run(problem(jobs, [2, 2], evict=True, policy="srtf", cost=3.0))
    assert log.evictions == [1, 0, 0, 0]
    assert expected.preemptions == [0, 0, 0, 0]
    assert expected.allocations[3] == [(0, 2, 10, 19)]
    assert expected.allocations[0] == [(0, 1, 0, 10), (1, 1, 10, 53)]


def test_an_evicted_job_comes_of_age() -> None:
    # Row 0 leaves at 10 s. From 30 s on row 3, which needs all 4 GPUs, is the head and waits for row 2.
    # At 50 s row 0 is aged and goes ahead of it. At 130 s row 2 is done, and row 3 evicts row 0 again.
    jobs = [(0, 1, 100, 0), (10, 4, 20, 1), (15, 1, 100, 1), (20, 4, 200, 1)]
    expected, log = run(problem(jobs, [4], SJF, evict=True, aging=50.0))
    assert expected.stays() == [[(0, 10), (50, 130), (330, 340)], [(10, 30)], [(30, 130)], [(130, 330)]]
    assert log.evictions == [2, 0, 0, 0]


def test_a_job_that_comes_of_age_evicts() -> None:
    # All 4 GPUs are held. Row 3 is the head, being short, and cannot evict row 1. At 30 s rows 2 and 3 are
    # aged: row 2 goes first, and evicts row 0.
    jobs = [(0, 1, 100, 0), (0, 3, 100, 1), (10, 1, 50, 1), (10, 4, 5, 1)]
    expected, log = run(problem(jobs, [4], SJF, evict=True, aging=20.0))
    assert expected.stays() == [[(0, 30), (105, 175)], [(0, 100)], [(30, 80)], [(100, 105)]]
    assert log.evictions == [1, 0, 0, 0]


def test_an_eviction_between_slots() -> None:
    # In slots of 10 s: the job of 12 s counts at 20 s, and row 0 has done two slots of ten.
    expected, log = run(problem([(0, 1, 100, 0), (12, 1, 15, 1)], [1], SLOTS, evict=True, cost=5.0))
    assert log.evictions == [1, 0]
    assert expected.stays() == [[(0, 20), (40, 130)], [(20, 40)]]
    assert expected.lost == [10, 0]


def test_each_type_is_a_cluster_of_its_own() -> None:
    # The job may use both types and tries type 1 first; with eviction too, although type 0 costs less.
    case = problem([(0, 2, 100, 0), (0, 2, 100, 0), (10, 2, 9, 1)], [2, 2], evict=True, type_order="listed")
    case.gpu_types = {"t0": {"speed": 1.0}, "t1": {"speed": 1.0}}
    for server, name in zip(case.servers, case.gpu_types, strict=True):
        server["gpu_type"] = name
    for job, listed in zip(case.jobs, ("t0|t1", "t0|t1", "t1|t0"), strict=True):
        job["gpu_type"] = listed
    expected, log = run(case)
    assert log.evictions == [0, 1, 0]
    assert expected.allocations[2] == [(1, 2, 10, 19)]


def test_a_server_that_is_down_is_no_use() -> None:
    expected, log = run(problem([(0, 2, 100, 0), (10, 2, 9, 1)], [2], evict=True, outages=[(0, 5.0, 20.0)]))
    assert log.evictions == [0, 0]
    assert expected.failures == [1, 0]
    assert expected.stays() == [[(0, 5), (29, 129)], [(20, 29)]]


# Quotas.


def test_a_job_over_quota_is_passed_over() -> None:
    # a's quota is 2: its second job waits, and b's goes ahead although the queue is strict.
    jobs = [(0, 2, 10, 0), (1, 1, 10, 0), (2, 1, 10, 0)]
    quotas = (("a", 2, False),)
    expected, log = run(problem(jobs, [4], owners=["a", "a", "b"], quotas=quotas))
    assert expected.start == [0, 10, 2]
    assert log.evictions == [0, 0, 0]


def test_a_job_that_waited_within_the_quota_may_come_to_be_over_it() -> None:
    # All come at once. a's first job starts on borrowed GPUs. Then its second, within the quota before, would
    # be over it and evicts nobody. Those of b, which has no quota, evict a's first.
    jobs = [(10, 2, 80, 0), (10, 1, 10, 0), (10, 1, 10, 0), (10, 2, 30, 0)]
    case = problem(jobs, [2], SKIP, owners=["a", "a", "b", "b"], quotas=(("a", 1, True),))
    expected, log = run(case)
    assert expected.start == [50, 130, 10, 20]
    assert log.evictions == [0, 0, 0, 0]


def test_who_borrows_gives_back() -> None:
    # a holds 2 GPUs beyond its quota, not preemptible and of the highest priority. b is within its own.
    jobs = [(0, 2, 100, 9), (1, 2, 100, 9), (10, 2, 5, 0)]
    quotas = (("a", 2, True), ("b", 2, False))
    expected, log = run(problem(jobs, [4], owners=["a", "a", "b"], quotas=quotas, fixed=[0, 1], cost=3.0))
    assert log.evictions == [0, 1, 0]
    assert expected.stays() == [[(0, 100)], [(1, 10), (15, 15 + 3 + 91)], [(10, 15)]]


def test_over_quota_stands_until_the_stay_ends() -> None:
    # a's first job ends at 5 s; the second, which started over quota, can still be evicted at 10 s.
    jobs = [(0, 2, 5, 0), (0, 2, 100, 0), (10, 4, 5, 0)]
    expected, log = run(problem(jobs, [4], owners=["a", "a", None], quotas=(("a", 2, True),)))
    assert log.evictions == [0, 1, 0]
    # At 15 s it starts within its quota, and nobody can evict it.
    assert expected.stays()[1] == [(0, 10), (15, 105)]


def test_a_job_over_quota_evicts_nobody() -> None:
    jobs = [(0, 2, 20, 0), (5, 2, 9, 1)]
    expected, log = run(problem(jobs, [2], owners=["b", "a"], quotas=(("a", 0, True),), evict=True))
    assert log.evictions == [0, 0]
    assert expected.start == [0, 20]


def test_evicted_at_the_instant_it_started() -> None:
    # Row 0 may borrow and is first in the queue; row 1 is within its quota and takes the GPUs at once.
    jobs = [(0, 2, 10, 1), (0, 2, 5, 0)]
    case = problem(jobs, [2], owners=["a", "b"], quotas=(("a", 0, True),), cost=3.0, start_cost=1.0)
    expected, log = run(case)
    assert log.evictions == [0, 0]
    assert expected.stays() == [[(6, 17)], [(0, 6)]]


def test_a_job_beyond_any_quota_is_left_out() -> None:
    jobs = [(0, 3, 10, 0), (0, 1, 10, 0)]
    expected, _ = run(problem(jobs, [4], owners=["a", "a"], quotas=(("a", 2, False),)))
    assert expected.kept == [False, True]


def test_a_job_that_comes_of_age_takes_what_was_borrowed() -> None:
    # At 15 s row 4, which borrows, gets the GPU of row 0. Row 3 is the head and needs both. At 30 s row 2 is
    # aged: it goes first, and takes the GPU of row 4.
    jobs = [(0, 1, 15, 3), (0, 1, 100, 3), (10, 1, 50, 0), (12, 2, 5, 1), (13, 1, 60, 2)]
    owners, quotas = [None, None, None, None, "a"], (("a", 0, True),)
    expected, log = run(problem(jobs, [2], SJF, aging=20.0, owners=owners, quotas=quotas))
    # It borrows again at 80 s, and row 3 takes both GPUs at 100 s.
    assert expected.stays()[2:] == [[(30, 80)], [(100, 105)], [(15, 30), (80, 100), (105, 130)]]
    assert log.evictions == [0, 0, 0, 0, 2]


def test_an_evicted_job_that_comes_of_age_takes_what_was_borrowed() -> None:
    # Row 3 needs all 3 GPUs, cannot evict row 1, and is the head. At 10 s row 4 evicts row 0. At 20 s row 0
    # is aged, goes first, and takes the GPU of row 2, which borrows.
    jobs = [(0, 1, 100, 0), (0, 1, 100, 3), (5, 1, 100, 2), (8, 3, 5, 1), (10, 1, 40, 3)]
    owners, quotas = [None, None, "a", None, None], (("a", 0, True),)
    expected, log = run(problem(jobs, [3], SJF, aging=20.0, owners=owners, quotas=quotas, evict=True))
    assert expected.stays()[0] == [(0, 10), (20, 100), (105, 115)]
    assert expected.stays()[2:] == [[(5, 20), (50, 100), (105, 140)], [(100, 105)], [(10, 50)]]
    assert log.evictions == [2, 0, 2, 0, 0]
