"""Replays with outages whose numbers were worked out on paper from docs/outages.md.

The reference model must give them, and the engine what the reference model gives.
"""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from cases import modelled
from cases.case import Case, by_hand, outage_rows
from cases.compare import agreed
from reference import StuckError
from reference.result import PreemptResult
from ringbco.errors import InputError

NEVER = math.inf
FIFO: dict[str, Any] = {"placement": "first-fit"}
SJF = FIFO | {"order": "sjf"}
EASY = FIFO | {"queue": "easy"}
SLOTS = FIFO | {"clock": "slot", "slot": 10.0}

Asks = tuple[float, int, float]
"""submit_time, num_gpus, duration."""


def problem(
    jobs: Sequence[Asks],
    servers: Sequence[int],
    outages: Sequence[tuple[int, float, float]],
    options: dict[str, Any] = FIFO,
    *,
    every: float | tuple[float, ...] = 1800.0,
    cost: float = 0.0,
    start_cost: float = 0.0,
    **more: Any,
) -> Case:
    """more: further options."""
    settings = {"preempt_cost": cost, "start_cost": start_cost, **options, **more}
    case = by_hand(servers, "submit_time num_gpus duration", jobs, outages=outage_rows(outages), **settings)
    if isinstance(every, tuple):
        for job, own in zip(case.jobs, every, strict=True):
            job["checkpoint_interval"] = own
    else:
        case.options["checkpoint_interval"] = every
    return case


def expected_of(case: Case) -> PreemptResult:
    """By the reference model, which must be the engine's."""
    return agreed(case).result


def test_the_documented_example() -> None:
    expected = expected_of(problem([(0, 1, 10_000)], [1], [(0, 4000, 5000)], cost=30.0))
    assert expected.stays() == [[(0, 4000), (5000, 11_430)]]
    assert (expected.failures, expected.lost_work) == ([1], [400])
    assert (expected.held, expected.lost) == ([10_430], [30])


def test_a_checkpoint_at_the_failing_instant_counts() -> None:
    # At 2000 s two thirds are done, and saved. At 2500 s what was done since 2000 s is lost.
    job = (0, 1, 3000)
    expected = expected_of(problem([job], [1], [(0, 2000, 2100)], every=1000.0))
    assert (expected.finish, expected.lost_work) == ([3100], [0])
    expected = expected_of(problem([job], [1], [(0, 2500, 2600)], every=1000.0))
    assert (expected.finish, expected.lost_work) == ([3600], [500])


def test_a_failure_in_a_pause() -> None:
    # 100 s are done and saved. The second stay would make progress from 230 s on; it ends at 210 s.
    # The third pauses until 330 s and has 900 s left.
    expected = expected_of(
        problem([(0, 1, 1000)], [1], [(0, 100, 200), (0, 210, 300)], every=100.0, cost=30.0)
    )
    assert expected.stays() == [[(0, 100), (200, 210), (300, 1230)]]
    assert (expected.failures, expected.lost_work) == ([2], [0])
    assert (expected.held, expected.lost) == ([1040], [40])


def test_a_first_pause_and_checkpoints_after_it() -> None:
    # Progress from 5 s on, checkpoints at 15 s and 25 s: 2 s are lost at 27 s. 30 s of pause, 80 s of work.
    expected = expected_of(problem([(0, 1, 100)], [1], [(0, 27, 40)], every=10.0, cost=30.0, start_cost=5.0))
    assert expected.stays() == [[(0, 27), (40, 150)]]
    assert (expected.lost_work, expected.lost) == ([2], [35])


def test_a_job_that_completes_as_its_server_fails() -> None:
    expected = expected_of(problem([(0, 1, 100), (50, 1, 10)], [1], [(0, 100, 200)]))
    assert expected.stays() == [[(0, 100)], [(200, 210)]]
    assert expected.failures == [0, 0]
    assert expected.wait_gpus == [0, 150]


def test_a_gang_falls_back_on_both_servers() -> None:
    jobs, outages = [(0, 4, 100), (10, 1, 100)], [(1, 50.0, 80.0)]
    # Of its 50 s, 40 are saved. Nobody passes it in a strict queue: it pauses from 80 to 110 s.
    expected = expected_of(problem(jobs, [2, 2], outages, every=40.0, cost=30.0))
    assert expected.allocations[0] == [(0, 2, 0, 50), (1, 2, 0, 50), (0, 2, 80, 170), (1, 2, 80, 170)]
    assert expected.stays()[1] == [(170, 270)]
    assert (expected.failures, expected.lost_work) == ([1, 0], [10, 0])
    # Skipped, it waits for the job that took a GPU of server 0 at 50 s.
    expected = expected_of(problem(jobs, [2, 2], outages, queue="skip", every=40.0, cost=30.0))
    assert expected.stays() == [[(0, 50), (150, 240)], [(50, 150)]]


def test_both_servers_of_a_gang_fail_at_once() -> None:
    expected = expected_of(problem([(0, 2, 100)], [1, 1], [(0, 50, 60), (1, 50, 70)], every=0.0))
    assert expected.stays() == [[(0, 50), (70, 120)]]
    assert expected.failures == [1]


def test_it_starts_at_once_on_another_server() -> None:
    expected = expected_of(problem([(0, 1, 100)], [1, 1], [(0, 50, NEVER)], every=NEVER, cost=30.0))
    assert expected.allocations == [[(0, 1, 0, 50), (1, 1, 50, 180)]]
    assert expected.lost_work == [50]


def test_each_job_has_checkpoints_of_its_own() -> None:
    jobs = [(0, 1, 100), (0, 1, 100), (0, 1, 100)]
    expected = expected_of(problem(jobs, [3], [(0, 50, 60)], every=(0.0, 30.0, NEVER)))
    assert expected.finish == [110, 130, 160]
    assert expected.lost_work == [0, 20, 50]


def test_its_old_place_in_a_fifo_queue() -> None:
    jobs = [(0, 1, 100), (1, 1, 100), (2, 1, 10)]
    expected = expected_of(problem(jobs, [1], [(0, 150, 160)], every=NEVER))
    assert expected.stays() == [[(0, 100)], [(100, 150), (160, 260)], [(260, 270)]]


def test_its_old_place_under_sjf() -> None:
    # The second job (20 s) fails with 5 s left. One of 10 s goes first: sjf goes by the whole run time.
    jobs = [(0, 1, 100), (1, 1, 20), (2, 1, 30), (110, 1, 10)]
    expected = expected_of(problem(jobs, [1], [(0, 115, 130)], SJF, every=5.0))
    assert expected.stays() == [[(0, 100)], [(100, 115), (140, 145)], [(145, 175)], [(130, 140)]]


def test_easy_reckons_with_what_remains() -> None:
    # The first job goes on at 60 s on server 1 with 40 s left. So the head, which wants all, starts at 100 s.
    # Server 0 is back at 70 s. A job of 25 s is over in time, one of 35 s is not.
    outages = [(0, 60.0, 70.0)]
    for seconds, begins in ((25.0, 71.0), (35.0, 110.0)):
        jobs = [(0, 2, 100), (61, 4, 10), (71, 2, seconds)]
        expected = expected_of(problem(jobs, [2, 2], outages, EASY, every=10.0))
        assert expected.stays() == [[(0, 60), (60, 100)], [(100, 110)], [(begins, begins + seconds)]]


def test_easy_does_not_foresee_that_servers_come_back() -> None:
    # The head wants both servers. As far as EASY knows it can never start, so it is in nobody's way.
    expected = expected_of(problem([(0, 4, 10), (1, 2, 500)], [2, 2], [(1, 0, 100)], EASY))
    assert expected.stays() == [[(501, 511)], [(1, 501)]]


def test_accumulated_time_is_not_given_back() -> None:
    # Server 0 was given 100 s twice, server 1 150 s once: the last job goes to server 1.
    jobs = [(0, 1, 100), (0, 1, 150), (200, 1, 1)]
    expected = expected_of(problem(jobs, [1, 1], [(0, 10, 20)], placement="least-loaded", every=NEVER))
    assert expected.stays() == [[(0, 10), (20, 120)], [(0, 150)], [(200, 201)]]
    assert expected.allocations[2][0][0] == 1


def test_iterations_at_a_checkpoint() -> None:
    # 8 s an iteration: 1.5 are saved after 12 s, 98.5 are left, which take 788 s.
    case = problem([(0, 1, 800)], [1], [(0, 20, 30)], model="rar", every=12.0)
    case.jobs[0] |= {
        "iterations": 100,
        "gradient_bytes": 0.0,
        "batch_size": 1,
        "fp_time": 8.0,
        "bp_time": 0.0,
    }
    expected = expected_of(case)
    assert (expected.finish, expected.lost_work) == ([818], [8])


def test_outages_that_overlap_or_touch_are_one() -> None:
    outages = [(0, 50.0, 60.0), (0, 55.0, 70.0), (0, 70.0, 80.0), (0, 52.0, 53.0)]
    expected = expected_of(problem([(0, 1, 100)], [1], outages, every=0.0))
    assert expected.stays() == [[(0, 50), (80, 130)]]
    assert expected.failures == [1]


def test_down_from_the_start() -> None:
    expected = expected_of(problem([(0, 1, 100)], [1], [(0, 0, 10)], cost=30.0))
    assert expected.stays() == [[(10, 110)]]
    assert (expected.failures, expected.wait_gpus) == ([0], [10])


def test_an_outage_inside_a_slot() -> None:
    # It counts at 30 s. Two slots are saved, one is lost. A slot of pause, three of work.
    expected = expected_of(problem([(0, 1, 50)], [1], [(0, 22, 25)], SLOTS, every=20.0, cost=5.0))
    assert expected.stays() == [[(0, 30), (30, 70)]]
    assert (expected.failures, expected.lost_work, expected.lost) == ([1], [10], [10])


@pytest.mark.parametrize(
    ("every", "lost", "finish"), [(15, 10, 90), (25, 10, 90), (35, 0, 80), (45, 40, 120)]
)
def test_a_checkpoint_inside_a_slot(every: float, lost: float, finish: float) -> None:
    # The outage counts from 40 to 60 s. Checkpoints at 25 s and 30 s count at 30 s, and one at 35 s at 40 s.
    expected = expected_of(problem([(0, 1, 60)], [1], [(0, 38, 55)], SLOTS, every=every))
    assert expected.stays() == [[(0, 40), (60, finish)]]
    assert expected.lost_work == [lost]


def test_the_checkpoint_after_a_pause_that_ends_inside_a_slot() -> None:
    # An iteration a second. Progress starts at 5 s, and the checkpoint there saves nothing of the stay. The
    # server is down from 10 to 20 s; from there on 45 iterations take five slots.
    case = problem([(0, 1, 45)], [1], [(0, 8, 15)], SLOTS, model="table", every=NEVER, start_cost=5.0)
    case.files["tables"] = [{"model": "m0", "gpu_type": "t0", "gpus": 1, "servers": 1, "rate": 1.0}]
    case.gpu_types["t0"] = {"speed": 1.0}
    case.servers[0]["gpu_type"] = "t0"
    case.jobs[0] |= {"model": "m0", "iterations": 45}
    expected = expected_of(case)
    assert (expected.finish, expected.lost_work) == ([70], [5])


def test_a_share_whose_neighbour_ends_during_its_checkpoint() -> None:
    # Together they do 0.8 a slot. The second is done at 3, as the first begins to save; from 4 on it does 1.
    text = "submit_time num_gpus duration gpu_share checkpoint_interval"
    rows = [(0, 1, 3.0, 0.1, 1.0), (0, 1, 1.0, 0.5, 0.25)]
    clock = {"clock": "slot", "slot": 1.0, "interference": 0.25, "checkpoint_cost": 0.5}
    case = by_hand([8], text, rows, policy="fifo", **clock)
    # 0 to 1 and 2 to 3 at 0.8, 4 to 5 at 1, and what is left from 6 on: it saves in between.
    assert expected_of(case).finish == [7.0, 3.0]


def test_outages_that_touch_on_the_slot_clock_are_one() -> None:
    # On the clock: from 20 to 20 s, and from 20 to 40 s.
    expected = expected_of(problem([(0, 1, 50)], [1], [(0, 12, 13), (0, 19, 31)], SLOTS, every=0.0))
    assert expected.stays() == [[(0, 20), (40, 70)]]
    assert expected.failures == [1]


@pytest.mark.parametrize("options", [FIFO, SLOTS])
def test_a_server_that_never_comes_back(options: dict[str, Any]) -> None:
    case = problem([(0, 2, 100), (0, 1, 10)], [1, 1], [(0, 50, NEVER)], options)
    stuck = modelled.reference_result(case)
    assert isinstance(stuck, StuckError)
    assert stuck.row == 0
    with pytest.raises(InputError, match=r"row 1: .* job 'j0'"):
        case.replay()


def test_srtf_with_a_quota_that_shrinks() -> None:
    # From 20 s on there is room for one: the job with 30 s left takes it from the one with 80 s.
    jobs = [(0, 2, 100), (0, 2, 50)]
    expected = expected_of(problem(jobs, [2, 2], [(0, 20, 40)], every=0.0, policy="srtf"))
    assert expected.allocations == [[(1, 2, 0, 20), (0, 2, 40, 120)], [(0, 2, 0, 20), (1, 2, 20, 50)]]
    assert (expected.preemptions, expected.failures) == ([1, 0], [0, 1])


def test_tiresias_keeps_what_a_failed_stay_attained() -> None:
    # 60 s before the failure and 40 s from 70 s on: at 110 s the first job goes to the second queue.
    jobs = [(0, 1, 200), (95, 1, 50)]
    rules: dict[str, Any] = {"policy": "tiresias", "thresholds": [100.0], "interval": 10.0}
    expected = expected_of(problem(jobs, [1], [(0, 60, 70)], every=NEVER, **rules))
    assert expected.stays() == [[(0, 60), (70, 110), (160, 320)], [(110, 160)]]
    assert expected.lost_work == [60, 0]


def test_time_slice_keeps_the_place_in_the_list() -> None:
    # At 10 s the first job went to the end. The second fails at 15 s; at 20 s it is still the first.
    jobs = [(0, 1, 30), (0, 1, 30)]
    rules: dict[str, Any] = {"policy": "time-slice", "quantum": 10.0}
    expected = expected_of(problem(jobs, [1], [(0, 15, 18)], every=0.0, **rules))
    assert expected.stays() == [
        [(0, 10), (30, 40), (50, 60)],
        [(10, 15), (20, 30), (40, 50), (60, 65)],
    ]
    assert (expected.preemptions, expected.failures) == ([2, 2], [0, 1])
