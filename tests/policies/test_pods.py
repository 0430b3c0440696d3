"""Pods by hand: which servers a job gets under each placement, who refuses pods, and what is said of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.cluster.spec import Cluster
from ringbco.errors import DecisionError, InputError, UsageError


def servers(*gpus: int) -> Cluster:
    return Cluster(np.array(gpus, np.uint32))


def table(*jobs: tuple[Any, ...], **more: Any) -> pl.DataFrame:
    """Of (submit_time, num_gpus, duration, gpus_per_pod): jobs a, b, c."""
    return pl.DataFrame(
        {
            "job_id": list("abcdefgh"[: len(jobs)]),
            "submit_time": [float(job[0]) for job in jobs],
            "num_gpus": [job[1] for job in jobs],
            "duration": [float(job[2]) for job in jobs],
            "gpus_per_pod": pl.Series([job[3] for job in jobs], dtype=pl.UInt32),
            **more,
        }
    )


def run(frame: pl.DataFrame, cluster: Cluster, **options: Any) -> ringbco.Outcome:
    outcome = ringbco.replay(frame, cluster, **{"policy": "fifo", "model": "fixed"} | options)
    assert ringbco.audit(outcome, frame) == []
    return outcome


def parts(outcome: ringbco.Outcome, job: str = "a") -> dict[int, int]:
    assert outcome.allocations is not None
    held = outcome.allocations.filter(pl.col("job_id") == job)
    return dict(held.select("server", "num_gpus").rows())


WAIT = table((0, 5, 100, None), (0, 5, 200, 1), (1, 6, 50, 2), (2, 4, 30, None))


def test_pods_wait_for_servers_that_hold_them() -> None:
    # 3 + 3 GPUs are idle from 1 s on: two pods of 2, and c has three. d's GPUs may lie anywhere.
    outcome = run(WAIT, servers(8, 8), placement="emptiest", queue="skip")
    assert outcome.jobs["start_time"].to_list() == [0.0, 0.0, 100.0, 2.0]
    assert outcome.jobs["wait_fragmented"].to_list() == [0.0, 0.0, 69.0, 0.0]  # while 6 GPUs were idle


@pytest.mark.parametrize(
    ("placement", "tens", "nines"),
    [
        ("first-fit", {0: 4, 1: 6}, {0: 3, 1: 6}),
        ("emptiest", {1: 8, 0: 2}, {1: 6, 0: 3}),
        ("binpack", {2: 2, 3: 4, 0: 4}, {2: 3, 3: 3, 0: 3}),
        ("consolidate", {1: 8, 0: 2}, {1: 6, 0: 3}),
        ("best-fit", {1: 8, 0: 2}, {1: 6, 0: 3}),
        ("worst-fit", {1: 8, 0: 2}, {1: 6, 0: 3}),
        ("fgd", {1: 8, 0: 2}, {1: 6, 0: 3}),
        ("fa-ffp", {1: 8, 0: 2}, {1: 6, 0: 3}),
        ("least-loaded", {0: 4, 1: 6}, {0: 3, 1: 6}),
        ("lbsgf", {0: 4, 1: 6}, {0: 3, 1: 6}),
        ("sjf-bco", {0: 4, 1: 6}, {0: 3, 1: 6}),
    ],
)
def test_every_placement_gives_whole_pods(
    placement: str, tens: dict[int, int], nines: dict[int, int]
) -> None:
    # Ten GPUs in pods of 2, and nine in pods of 3, on servers of 5, 8, 3 and 4.
    cluster = servers(5, 8, 3, 4)
    assert parts(run(table((0, 10, 9, 2)), cluster, placement=placement)) == tens
    assert parts(run(table((0, 9, 9, 3)), cluster, placement=placement)) == nines


def test_binpack_fills_the_fullest_servers_first() -> None:
    # a leaves 5 of server 1, the fewest: b takes them, and one more of server 0.
    outcome = run(table((0, 3, 9, 1), (1, 6, 9, None)), servers(8, 8), placement="binpack")
    assert parts(outcome) == {0: 3}
    assert parts(outcome, "b") == {0: 5, 1: 1}


def test_least_loaded_goes_by_the_sum_of_a_pods_times() -> None:
    # a leaves 30 s on a GPU of server 0: a pair of 0 s and 0 s is on server 1, one GPU of 0 s on server 0.
    frame = table((0, 1, 30, None), (40, 2, 5, 2), (50, 1, 5, None))
    outcome = run(frame, servers(2, 2), placement="least-loaded")
    assert (parts(outcome, "b"), parts(outcome, "c")) == ({1: 2}, {0: 1})


def test_consolidate_takes_as_many_pods_as_the_largest_server_holds() -> None:
    # m = floor(8 / 3) = 2 pods on each of two servers with 6 idle, the fifth on the emptiest one left.
    frame = table((0, 2, 99, None), (1, 15, 9, 3))
    assert parts(run(frame, servers(8, 8, 8)), "b") == {0: 6, 1: 6, 2: 3}
    # With 3 idle GPUs besides, there is no server for the fifth pod of 4.
    frame = table((0, 5, 20, None), (1, 20, 9, 4))
    assert run(frame, servers(8, 8, 8)).jobs["start_time"].to_list() == [0.0, 20.0]


def test_a_column_of_ones_changes_nothing() -> None:
    plain = WAIT.drop("gpus_per_pod")
    ones = plain.with_columns(gpus_per_pod=pl.Series([1, None, 1, None], dtype=pl.UInt32))
    first, second = (run(frame, servers(8, 8), placement="binpack") for frame in (plain, ones))
    assert first.jobs.equals(second.jobs)
    assert first.allocations is not None
    assert first.allocations.equals(second.allocations)


def test_nobody_passes_a_head_in_pods_under_easy() -> None:
    # b needs two pods of 3: until 10 s the servers hold one. c's pair would leave 2 GPUs of server 1 at 10 s,
    # though 7 in all; two single GPUs would not, and d ends in time.
    frame = table((0, 4, 10, None), (1, 6, 5, 3), (2, 2, 30, 2), (3, 1, 4, None))
    outcome = run(frame, servers(5, 4), placement="first-fit", queue="easy")
    assert outcome.jobs["start_time"].to_list() == [0.0, 10.0, 10.0, 3.0]
    outcome = run(
        frame.with_columns(gpus_per_pod=pl.Series([1, 3, 1, 1])),
        servers(5, 4),
        placement="first-fit",
        queue="easy",
    )
    assert outcome.jobs["start_time"].to_list() == [0.0, 10.0, 2.0, 3.0]


def test_pods_make_room_over_the_whole_cluster() -> None:
    # u has four pods of 3 on servers of 6: those with 4 GPUs must go, the one with 3 need not.
    frame = table(
        (0, 4, 99, None), (0, 4, 99, None), (0, 3, 99, None), (5, 12, 10, 3),
        priority=[0, 0, 0, 1],
    )  # fmt: skip
    outcome = run(frame, servers(6, 6, 3), evict=True, preempt_cost=0.0)
    assert outcome.jobs["start_time"].to_list()[3] == 5.0
    assert outcome.jobs["evictions"].to_list() == [1, 1, 0, 0]


def test_pods_that_no_server_holds_are_too_large() -> None:
    # Nine GPUs, and servers that hold one pod of 4 each.
    frame, cluster = table((0, 8, 9, 4), (0, 12, 9, 4)), servers(5, 5, 2)
    with pytest.raises(InputError, match=r"job .b.: asks for 3 pods of 4 GPUs, but .* hold 2") as raised:
        run(frame, cluster)
    assert (raised.value.row, raised.value.column) == (2, "num_gpus")
    outcome = run(frame, cluster, oversize="drop", placement="binpack")
    assert outcome.jobs["job_id"].to_list() == ["a"]


@pytest.mark.parametrize(
    ("jobs", "more", "row", "expected"),
    [
        ([(0, 4, 9, 2), (0, 4, 9, 0)], {}, 2, "an integer >= 1 that divides num_gpus"),
        ([(0, 6, 9, 4), (0, 4, 9, 0)], {}, 1, "a divisor of num_gpus; this row has num_gpus 6"),
        ([(0, 1, 9, 2)], {"gpu_share": [0.5]}, 1, "1 for a job with a gpu_share"),
        ([(0, 4, 9, 2)], {"min_gpus": [2]}, 1, "1 for a job whose min_gpus is not num_gpus"),
        ([(0, 4, 9, 2)], {"max_gpus": [8]}, 1, "1 for a job whose max_gpus is not num_gpus"),
    ],
)
def test_bad_pods_are_refused_by_row(
    jobs: list[tuple[Any, ...]], more: dict[str, Any], row: int, expected: str
) -> None:
    with pytest.raises(InputError, match=expected) as raised:
        run(table(*jobs, **more), servers(8, 8))
    assert (raised.value.row, raised.value.column) == (row, "gpus_per_pod")
    assert "make it null" in str(raised.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"policy": "rand"}, "option placement: random: .* places GPU by GPU"),
        ({"policy": "sjf-bco", "variant": "literal"}, "option variant: literal: .* places GPU by GPU"),
        ({"policy": "repack", "placement": "binpack"}, "option placement: binpack"),
    ],
)
def test_who_refuses_pods(options: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        run(WAIT, servers(8, 8), **options)


def test_repack_needs_pods_that_divide_the_largest_server() -> None:
    frame = table((0, 4, 9, 4), (0, 3, 9, 3))
    with pytest.raises(InputError, match="gpus_per_pod: 3: expected a divisor") as raised:
        run(frame, servers(8, 8), policy="repack")
    assert raised.value.row == 2
    run(frame, servers(6, 12), policy="repack")


def test_a_plan_refuses_pods_and_a_bound_ignores_them() -> None:
    with pytest.raises(InputError, match="a plan places GPU by GPU") as raised:
        ringbco.plan(WAIT, servers(8, 8), model="fixed")
    assert (raised.value.row, raised.value.column) == (3, "gpus_per_pod")
    bounds = [
        ringbco.bound(frame, servers(8, 8), model="fixed") for frame in (WAIT, WAIT.drop("gpus_per_pod"))
    ]
    assert bounds[0] == bounds[1]


def moved(run: ringbco.Simulation) -> None:
    run.start(0, [(0, 3), (1, 3)])
    run.move({0: [(0, 2), (1, 4)]})


@pytest.mark.parametrize(
    ("verb", "match"),
    [
        (lambda run: run.start(0, [(0, 2), (1, 4)]), "pods of 3 GPUs: 2 on server 0"),
        (lambda run: run.start(0, [(0, 6), (1, 1)]), "GPUs given: 7, requested: 6"),
        (moved, "pods of 3 GPUs: 2 on server 0"),
        (lambda run: run.start(0, placement="random"), "random places GPU by GPU"),
    ],
)
def test_verbs_take_whole_pods(verb: Callable[[ringbco.Simulation], object], match: str) -> None:
    run = ringbco.Simulation(table((0, 6, 9, 3)), servers(8, 8), model="fixed")
    run.advance()
    with pytest.raises(DecisionError, match=match):
        verb(run)


def test_the_audit_finds_half_a_pod() -> None:
    outcome = run(table((0, 6, 9, 3)), servers(8, 4), placement="binpack")
    assert outcome.allocations is not None
    torn = outcome.allocations.with_columns(num_gpus=pl.Series([2, 4], dtype=pl.UInt32))
    outcome.allocations = torn
    found = [str(finding) for finding in ringbco.audit(outcome, table((0, 6, 9, 3)))]
    assert any("expected whole pods of 3" in text for text in found), found


def test_why_tells_of_pods(tmp_path: Path, invoke: Invoke) -> None:
    WAIT.write_csv(tmp_path / "jobs.csv")
    ringbco.replay(
        tmp_path / "jobs.csv", "2x8", policy="fifo", model="fixed", placement="emptiest", queue="skip"
    ).write(tmp_path / "out")
    told = " ".join(invoke("why", str(tmp_path / "out"), "c").stdout.split())
    assert "It requests 6 GPUs in pods of 2" in told
    assert "the servers held 2 of its 3 pods of 2 GPUs" in told


def test_each_type_holds_its_own_pods() -> None:
    # The T4s are enough GPUs, and no server of theirs holds the pod.
    cluster = Cluster(np.array([4, 3, 3], np.uint32), server_gpu_type=("V100", "T4", "T4"))
    frame = table((0, 4, 9, 4))
    assert parts(run(frame, cluster)) == {0: 4}
    with pytest.raises(InputError, match="asks for 1 pod of 4 GPUs, but the servers of its cluster hold 0"):
        run(frame.with_columns(gpu_type=pl.lit("T4")), cluster)
