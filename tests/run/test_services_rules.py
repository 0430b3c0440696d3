"""Services worked out by hand: each rule of docs/services.md with its numbers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import ringbco
from frames import services, stays, table
from ringbco.audits import check_outcome
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import as_table

Load = tuple[str, float, int, int]
Row = tuple[str, int, float, float]


def replay(jobs: pl.DataFrame, cluster: Cluster | str, *rows: Load, **options: Any) -> Outcome:
    """Every result here is one that the audit believes."""
    given = {"policy": "fifo", "model": "fixed", "preempt_cost": 0.0} | options
    result = ringbco.replay(jobs, cluster, services=services(*rows), **given)
    assert not check_outcome(result, as_table(jobs)).findings
    return result


def replicas(result: Outcome) -> list[Row]:
    """(service, server, start, end)."""
    assert result.replicas is not None
    return result.replicas.select("service", "server", "start_time", "end_time").rows()


def sizes(*gpus: int, types: tuple[str, ...] = ()) -> Cluster:
    rows = [{"count": 1, "gpus": size} for size in gpus]
    document = {"servers": [row | ({"gpu_type": types[i]} if types else {}) for i, row in enumerate(rows)]}
    return Cluster.from_document(document, "test", name="test")


# Where replicas go, and when


def test_a_service_takes_gpus_before_a_job_of_the_same_instant() -> None:
    result = replay(table(num_gpus=[8], duration=[10.0]), "1x8", ("a", 0.0, 1, 4), ("a", 50.0, 0, 4))
    assert replicas(result) == [("a", 0, 0.0, 50.0)]
    assert stays(result) == [("j0", 0, 8, 50.0, 60.0)]


def test_before_its_first_row_a_service_wants_nothing() -> None:
    result = replay(table(duration=[100.0]), "1x8", ("a", 30.0, 2, 1))
    assert replicas(result) == [("a", 0, 30.0, 100.0)] * 2


def test_rows_may_be_in_any_order() -> None:
    rows = [("a", 30.0, 2, 1), ("a", 60.0, 1, 1), ("a", 10.0, 1, 1)]
    jobs = table(duration=[100.0])
    assert replicas(replay(jobs, "1x8", *rows)) == replicas(replay(jobs, "1x8", *sorted(rows)))


def test_the_server_with_the_fewest_idle_gpus_that_holds_it_then_the_lower() -> None:
    """Idle: 8, 3, 5, 3. Replicas of 3: server 1, then 3, then 2 and last 0 twice."""
    result = replay(table(duration=[10.0]), sizes(8, 3, 5, 3), ("a", 0.0, 5, 3))
    assert sorted(server for _, server, *_ in replicas(result)) == [0, 0, 1, 2, 3]
    two = replay(table(duration=[10.0]), sizes(8, 3, 5, 3), ("a", 0.0, 2, 3))
    assert [server for _, server, *_ in replicas(two)] == [1, 3]
    # The placement of the run does not matter: this one would take server 0.
    worst = replay(table(duration=[10.0]), sizes(8, 3, 5, 3), ("a", 0.0, 1, 3), placement="least-loaded")
    assert replicas(worst)[0][1] == 1


def test_services_go_in_the_order_of_their_first_rows() -> None:
    """One server holds a replica of 8, that of the service whose row is the upper one."""
    rows = [("b", 5.0, 1, 8), ("a", 0.0, 0, 8), ("a", 5.0, 1, 8)]
    result = replay(table(duration=[20.0]), sizes(8, 1), *rows)
    assert replicas(result) == [("b", 0, 5.0, 20.0)]
    assert replicas(replay(table(duration=[20.0]), sizes(8, 1), *rows[::-1])) == [("a", 0, 5.0, 20.0)]


def test_a_service_that_cannot_place_lets_the_next_one_try() -> None:
    result = replay(table(duration=[20.0]), sizes(4, 4, 2), ("big", 0.0, 3, 4), ("small", 0.0, 1, 1))
    assert replicas(result) == [("big", 0, 0.0, 20.0), ("big", 1, 0.0, 20.0), ("small", 2, 0.0, 20.0)]


def test_replicas_go_to_gpus_of_any_type() -> None:
    cluster = sizes(2, 4, types=("V100", "T4"))
    jobs = table(gpu_type=["V100"], duration=[10.0])
    result = replay(jobs, cluster, ("a", 0.0, 1, 3))
    assert replicas(result) == [("a", 1, 0.0, 10.0)]
    assert stays(result) == [("j0", 0, 1, 0.0, 10.0)]


# Who ends


def test_the_surplus_ends_at_once_those_that_started_last_first() -> None:
    rows = [("a", 0.0, 1, 2), ("a", 10.0, 3, 2), ("a", 20.0, 2, 2), ("a", 30.0, 0, 2)]
    result = replay(table(duration=[40.0]), "4x2", *rows)
    # At 0 s on server 0, at 10 s on 2 and 3, for the job has server 1. The one on 3 was placed last.
    assert replicas(result) == [("a", 0, 0.0, 30.0), ("a", 2, 10.0, 30.0), ("a", 3, 10.0, 20.0)]


def test_those_that_wait_are_given_up_before_those_that_run() -> None:
    """One runs. Two wait, since 10 s and 15 s; at 20 s the latter is given up. At 40 s the other starts."""
    rows = [("a", 0.0, 1, 2), ("a", 10.0, 2, 2), ("a", 15.0, 3, 2), ("a", 20.0, 2, 2)]
    jobs = table(num_gpus=[2, 1], duration=[40.0, 60.0], submit_time=[0.0, 39.0], preemptible=[False, False])
    result = replay(jobs, sizes(2, 2, 1), *rows)
    assert replicas(result) == [("a", 0, 0.0, 99.0), ("a", 1, 40.0, 99.0)]
    figures = result.summary["services"][0]
    assert (figures["mean_time_to_scale_up"], figures["worst_time_to_scale_up"]) == (15.0, 30.0)


def test_the_replica_wanted_longest_starts_first() -> None:
    """Two wait, since 10 s and since 20 s. The first to start has waited 20 s, the second 30 s."""
    jobs = table(num_gpus=[2, 2], duration=[30.0, 50.0], preemptible=[False, False])
    result = replay(jobs, "2x2", ("a", 10.0, 1, 2), ("a", 20.0, 2, 2), placement="first-fit")
    # What starts as the last job is done does not count: a third job goes on.
    assert replicas(result) == [("a", 0, 30.0, 50.0)]
    assert result.summary["services"][0]["worst_time_to_scale_up"] == 20.0
    more = table(num_gpus=[2, 2, 1], duration=[30.0, 50.0, 70.0], preemptible=[False] * 3)
    result = replay(more, sizes(2, 2, 1), ("a", 10.0, 1, 2), ("a", 20.0, 2, 2), placement="first-fit")
    assert replicas(result) == [("a", 0, 30.0, 70.0), ("a", 1, 50.0, 70.0)]
    figures = result.summary["services"][0]
    assert (figures["mean_time_to_scale_up"], figures["worst_time_to_scale_up"]) == (25.0, 30.0)


def test_what_comes_as_the_last_job_is_done_does_not_count() -> None:
    result = replay(table(duration=[10.0]), "1x2", ("a", 10.0, 1, 1), ("b", 99.0, 1, 1))
    assert replicas(result) == []
    assert [row["attainment"] for row in result.summary["services"]] == [1.0, 1.0]


# Making room


def test_every_preemptible_job_makes_room_whatever_its_priority() -> None:
    """The victims of the example in docs/priorities-reference.md: keys of 4,000, 1,000 and 200."""
    jobs = table(
        num_gpus=[4, 2, 2],
        submit_time=[0.0, 500.0, 900.0],
        duration=[5000.0] * 3,
        priority=[0, 0, 0],
        checkpoint_interval=[float("inf")] * 3,
    )
    three = replay(jobs, "1x8", ("a", 1000.0, 1, 3), ("a", 1100.0, 0, 3))
    assert three.jobs["evictions"].to_list() == [0, 1, 1]
    two = replay(jobs, "1x8", ("a", 1000.0, 1, 2), ("a", 1100.0, 0, 2))
    assert two.jobs["evictions"].to_list() == [0, 0, 1]
    # j2 keeps 100 s of progress: 4,900 s are left, from 1,100 s on.
    assert stays(two)[-1] == ("j2", 0, 2, 1100.0, 6000.0)
    assert two.summary["evictions"] == 1
    assert two.summary["preemptions"] == 0
    lofty = replay(jobs.with_columns(priority=pl.Series([5, 9, 7])), "1x8", ("a", 1000.0, 1, 2))
    # The lowest priority goes first; whoever goes makes more room than needed.
    assert lofty.jobs["evictions"].to_list() == [1, 0, 0]


def test_a_job_that_is_not_preemptible_stays() -> None:
    jobs = table(num_gpus=[4, 4], duration=[100.0, 100.0], preemptible=[False, None])
    result = replay(jobs, "1x8", ("a", 10.0, 1, 8), ("a", 60.0, 0, 8))
    assert replicas(result) == []
    assert result.jobs["evictions"].to_list() == [0, 0]
    small = replay(jobs, "1x8", ("a", 10.0, 1, 4), ("a", 60.0, 0, 4))
    assert small.jobs["evictions"].to_list() == [0, 1]


def test_a_gang_gives_back_all_its_gpus() -> None:
    """j0 holds servers 0 and 1. A replica on server 0 evicts it, and j1 takes what is left of server 1."""
    jobs = table(num_gpus=[4, 2], duration=[100.0, 10.0], submit_time=[0.0, 5.0])
    result = replay(jobs, "2x2", ("a", 50.0, 1, 1), ("a", 80.0, 0, 1), queue="skip")
    assert stays(result) == [
        ("j0", 0, 2, 0.0, 50.0), ("j0", 1, 2, 0.0, 50.0),
        ("j0", 0, 2, 80.0, 130.0), ("j0", 1, 2, 80.0, 130.0),
        ("j1", 1, 2, 50.0, 60.0),
    ]  # fmt: skip


def test_an_evicted_job_starts_again_in_the_same_instant_where_there_is_room() -> None:
    """Only server 0 holds a replica of 4. The job goes to server 1 at once, and pauses there for 7 s."""
    result = replay(
        table(num_gpus=[2], duration=[100.0]), sizes(4, 2), ("a", 10.0, 1, 4), preempt_cost=7.0,
        placement="first-fit",
    )  # fmt: skip
    assert stays(result) == [("j0", 0, 2, 0.0, 10.0), ("j0", 1, 2, 10.0, 107.0)]
    assert replicas(result) == [("a", 0, 10.0, 107.0)]
    assert (result.jobs["evictions"][0], result.jobs["lost_time"][0]) == (1, 7.0)


def test_a_replica_that_nobody_makes_room_for_waits_for_the_next_event() -> None:
    jobs = table(num_gpus=[2, 1], duration=[30.0, 80.0], preemptible=[False, False])
    result = replay(jobs, sizes(2, 1), ("a", 10.0, 1, 2))
    assert replicas(result) == [("a", 0, 30.0, 80.0)]
    assert result.summary["services"][0]["attainment"] == pytest.approx(50 / 70)


# With outages


def test_a_replica_ends_with_its_server_and_another_is_wanted_from_then_on() -> None:
    down = pl.DataFrame({"server": [0], "down_at": [20.0], "up_at": [60.0]})
    jobs = table(num_gpus=[2], duration=[100.0], preemptible=[False])
    result = replay(jobs, "2x2", ("a", 0.0, 1, 2), outages=down, placement="first-fit")
    assert stays(result) == [("j0", 1, 2, 0.0, 100.0)]
    assert replicas(result) == [("a", 0, 0.0, 20.0), ("a", 0, 60.0, 100.0)]
    figures = result.summary["services"][0]
    assert (figures["attainment"], figures["worst_time_to_scale_up"]) == (0.6, 40.0)
    # A job makes room on the other server.
    gives = replay(jobs.drop("preemptible"), "2x2", ("a", 0.0, 1, 2), outages=down)
    assert replicas(gives) == [("a", 0, 0.0, 20.0), ("a", 1, 20.0, 140.0)]
    assert stays(gives)[1:] == [("j0", 0, 2, 60.0, 140.0)]


# Policies


def test_easy_works_its_reservation_out_anew() -> None:
    """j1 waits for 4 GPUs, which EASY foresees at 100 s, and j2 for j1. At 50 s the service gives 2 back."""
    jobs = table(num_gpus=[2, 4, 1], submit_time=[0.0, 1.0, 2.0], duration=[100.0, 10.0, 300.0])
    result = replay(jobs, "1x6", ("a", 0.0, 2, 1), ("a", 50.0, 0, 1), queue="easy")
    assert [(job, start) for job, _, _, start, _ in stays(result)] == [
        ("j0", 0.0),
        ("j1", 50.0),
        ("j2", 60.0),
    ]


@pytest.mark.parametrize("policy", ["srtf", "edf"])
def test_the_quota_of_a_ranking_is_what_replicas_leave(policy: str) -> None:
    """8 GPUs, 4 of them a replica's: the quota is 4. j0 fits, and j1 after it."""
    jobs = table(num_gpus=[4, 4], duration=[10.0, 20.0], deadline=[100.0, 200.0])
    result = replay(jobs, "1x8", ("a", 0.0, 1, 4), policy=policy)
    assert stays(result) == [("j0", 0, 4, 0.0, 10.0), ("j1", 0, 4, 10.0, 30.0)]
    assert result.jobs["preemptions"].to_list() == [0, 0]


def test_a_ranking_with_an_interval_decides_at_its_next_multiple() -> None:
    jobs = table(num_gpus=[8], duration=[100.0])
    result = replay(jobs, "1x8", ("a", 25.0, 1, 4), ("a", 70.0, 0, 4), policy="tiresias", interval=60.0)
    # Evicted at 25 s, free at 70 s, decided at 120 s.
    assert stays(result) == [("j0", 0, 8, 0.0, 25.0), ("j0", 0, 8, 120.0, 195.0)]
    assert result.jobs["evictions"].to_list() == [1]


def test_a_sliced_job_keeps_its_place() -> None:
    """One GPU, a quantum of 60 s: j0 ran up to 60 s, j1 is evicted at 90 s. At 120 s j1 is ahead of j0."""
    jobs = table(duration=[100.0, 100.0])
    result = replay(jobs, "1x1", ("a", 90.0, 1, 1), ("a", 100.0, 0, 1), policy="time-slice", quantum=60.0)
    ran = sorted((start, end, job) for job, _, _, start, end in stays(result))
    assert ran == [
        (0.0, 60.0, "j0"),
        (60.0, 90.0, "j1"),
        (120.0, 180.0, "j1"),
        (180.0, 220.0, "j0"),
        (240.0, 250.0, "j1"),
    ]


# The slot clock


def test_a_load_counts_at_the_first_boundary_and_of_several_the_latest() -> None:
    jobs = table(duration=[600.0])
    rows = [("a", 61.0, 3, 1), ("a", 100.0, 1, 1), ("a", 120.5, 2, 1), ("a", 240.0, 0, 1)]
    result = replay(jobs, "1x8", *rows, clock="slot", slot=60.0)
    # 61 s and 100 s count at 120 s, where the latter does; 120.5 s at 180 s.
    assert replicas(result) == [("a", 0, 120.0, 240.0), ("a", 0, 180.0, 240.0)]
    figures = result.summary["services"][0]
    assert figures["replica_seconds_wanted"] == 60 + 2 * 60


# Figures


def test_figures_by_hand() -> None:
    """4 GPUs from 10 s to 110 s. a wants 2 of 1 GPU, from 60 s on 1; b 1 of 2 GPUs from 20 s to 50 s."""
    jobs = table(submit_time=[10.0, 10.0], duration=[40.0, 100.0], preemptible=[False] * 2)
    rows = [("a", 0.0, 2, 1), ("b", 20.0, 1, 2), ("b", 50.0, 0, 2), ("a", 60.0, 1, 1)]
    result = replay(jobs, "1x4", *rows)
    assert replicas(result) == [("a", 0, 0.0, 60.0), ("a", 0, 0.0, 110.0)]
    a, b = result.summary["services"]
    assert (a["replica_seconds_wanted"], a["replica_seconds_served"]) == (150.0, 150.0)
    assert (a["attainment"], a["gpu_hours"]) == (1.0, 150 / 3600)
    # They started before the run.
    assert (a["mean_time_to_scale_up"], a["worst_time_to_scale_up"]) == (None, None)
    assert (b["replica_seconds_wanted"], b["replica_seconds_served"], b["attainment"]) == (30.0, 0.0, 0.0)
    assert result.summary["service_attainment"] == 150 / 180
    assert result.summary["service_gpu_hours"] == 150 / 3600


def test_gpu_hours_lent_to_training() -> None:
    """8 GPUs. At their largest services hold 6, which leaves 2: of a job's 8 GPUs 6 are lent, of 1 none."""
    jobs = table(num_gpus=[8, 1], submit_time=[0.0, 1.0], duration=[100.0, 50.0])
    rows = [("a", 0.0, 0, 2), ("a", 120.0, 2, 2), ("b", 120.0, 1, 2), ("b", 130.0, 0, 2)]
    result = replay(jobs, "1x8", *rows)
    assert result.summary["gpu_hours_lent_to_training"] == pytest.approx(6 * 100 / 3600)
    # Services that could never have all that they want lend what jobs hold, and no more.
    huge = replay(jobs, "1x8", ("a", 0.0, 0, 8), ("a", 500.0, 9, 8))
    assert huge.summary["gpu_hours_lent_to_training"] == pytest.approx((8 * 100 + 50) / 3600)
    # Of 16 GPUs 8 are up at first.
    down = pl.DataFrame({"server": [1], "down_at": [0.0], "up_at": [100.0]})
    failing = replay(jobs, "2x8", *rows, outages=down)
    assert failing.summary["gpu_hours_lent_to_training"] == pytest.approx(6 * 100 / 3600)


def test_a_run_that_services_never_let_go_on_ends_with_an_error() -> None:
    message = (
        r"job 'j1': still waits at 20 s, and nothing can change; services hold GPUs that it needs for good"
    )
    with pytest.raises(InputError, match=message):
        replay(table(num_gpus=[1, 8], duration=[20.0, 5.0], submit_time=[0.0, 1.0]), "1x8", ("a", 0.0, 1, 1))
    later = replay(
        table(num_gpus=[1, 8], duration=[20.0, 5.0], submit_time=[0.0, 1.0]), "1x8",
        ("a", 0.0, 1, 1), ("a", 1e6, 0, 1),
    )  # fmt: skip
    assert stays(later)[-1] == ("j1", 0, 8, 1e6, 1e6 + 5)


def test_a_trial_that_goes_on_at_once_lets_no_replica_be_tried_again() -> None:
    """At 12.02 s j11 goes on from its rung, which is no event: the second replica waits until it is done."""
    jobs = pl.DataFrame(
        {
            "job_id": ["j6", "j7", "j8", "j11"],
            "submit_time": [4.0, 5.0, 6.0, 9.0],
            "num_gpus": [1, 2, 4, 1],
            "duration": [3.0, 6.0, 2.0, 2.04],
            "preemptible": [True, False, True, True],
            "vc": ["u0", "u2", "u1", "u2"],
            "group": ["s0"] * 4,
        }
    )
    quota = pl.DataFrame({"vc": ["u1"], "gpus": [1], "borrow": [True]})
    saved = {"checkpoint_interval": 1.0, "checkpoint_cost": 2.0}
    searched = {"policy": "repack", "search": "asha:eta=2,rungs=1", "quota": quota}
    outcome = replay(jobs, "1x4", ("code", 10.0, 3, 2), ("code", 22.0, 0, 2), **searched, **saved)
    assert outcome.rungs is not None
    assert outcome.replicas is not None
    rung = outcome.rungs.filter(pl.col("job_id") == "j11").select("time", "went_on").row(0)
    assert rung == pytest.approx((12.02, 12.02))
    assert outcome.replicas["start_time"].to_list() == pytest.approx([10.0, 15.04])
