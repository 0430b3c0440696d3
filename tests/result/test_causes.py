"""Why jobs wait and run long: worked by hand, and against a recomputation from the allocations."""

import random
from typing import Any

import polars as pl
import pytest

import ringbco
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.result.schema import CAUSES_SCHEMA
from ringbco.trace.jobs import from_frame


def table(rows: list[tuple[float, int, float]], **columns: list[float]) -> ringbco.JobTable:
    submit, gpus, duration = zip(*rows, strict=True)
    frame = {"job_id": [f"j{i}" for i in range(len(rows))], "submit_time": submit, "num_gpus": gpus}
    return from_frame(pl.DataFrame({**frame, "duration": duration, **columns}))


def column(outcome: ringbco.Outcome, name: str) -> list[float]:
    return outcome.jobs[name].to_list()


def test_waits_worked_by_hand() -> None:
    # One server each of 4 and 2 GPUs, consolidate, strict fifo.
    #  j0: 3 GPUs on server 0 from 0 to 10 (one GPU left there, two on server 1).
    #  j1: 3 GPUs at 1: three are idle, but apart, until 10: fragmented for 9.
    #  j2: 1 GPU at 2: would fit, but j1 is the head, until 10: behind for 8.
    #  j1 runs 10 to 20 on server 0, j2 10 to 30 on server 0 (the tightest fit).
    #  j3: 4 GPUs at 12: two idle until 20 (too few), then 5 idle, three and two apart, until 30.
    jobs = table([(0, 3, 10), (1, 3, 10), (2, 1, 20), (12, 4, 5)])
    cluster = Cluster.from_groups([ServerGroup(1, 4), ServerGroup(1, 2)])
    outcome = ringbco.replay(jobs, cluster, policy="fifo", model="fixed")
    assert column(outcome, "start_time") == [0, 10, 10, 30]
    assert column(outcome, "wait_gpus") == [0, 0, 0, 8]
    assert column(outcome, "wait_fragmented") == [0, 9, 0, 10]
    assert column(outcome, "wait_behind") == [0, 0, 8, 0]
    assert column(outcome, "run_spread") == [0, 0, 0, 0]


def test_runs_worked_by_hand() -> None:
    # Servers of 3, 4 and 2 GPUs, first-fit: j0 takes two GPUs of server 0, j1 the third and three of server
    # 1, j2 the fourth and one of server 2. j1 and j2 span and meet on server 1: p = 2, k = 2 with xi1 = 1.
    # b_i = 4e9, b_e = C = 1e9, xi2 = 1, alpha = 0; 10 iterations each.
    #  j1: x = 4e9 x 3/4 = 3e9: one server 1.5 + 3 + 1 + 1 = 6.5 s, two 6 + 3 + 2 + 1 = 12 s, p = 2 18 s.
    #  j2: x = 4e9 x 1/2 = 2e9: one server 1 + 2 + 1 + 1 = 5 s, two 4 + 2 + 2 + 1 = 9 s, p = 2 13 s.
    # j2 runs 130 s = 50 + 40 + 40. By then j1 has done 130/18 iterations; the rest takes 12 s each:
    # 130 + (10 - 130/18) x 12 = 163 1/3 = 65 + 55 + 43 1/3.
    jobs = table(
        [(0, 2, 100), (0, 4, 100), (0, 2, 100)],
        iterations=[10, 10, 10],
        gradient_bytes=[0.0, 4e9, 4e9],
        bp_time=[19.0, 1.0, 1.0],
    )
    network = Network(intra_bandwidth=4e9, inter_bandwidth=1e9, reduce_speed=1e9, xi1=1.0, xi2=1.0, alpha=0.0)
    cluster = Cluster.from_groups([ServerGroup(1, gpus) for gpus in (3, 4, 2)], network)
    outcome = ringbco.replay(jobs, cluster, policy="ff")
    assert column(outcome, "num_servers") == [1, 2, 2]
    assert column(outcome, "run_time") == pytest.approx([200, 490 / 3, 130])
    assert column(outcome, "run_spread") == pytest.approx([0, 55, 40])
    assert column(outcome, "run_contention") == pytest.approx([0, 130 / 3, 40])


@pytest.mark.parametrize("policy", ["fifo", "sjf", "ff", "sjf-bco"])
@pytest.mark.parametrize("queue", ["strict", "skip", "easy"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_parts_add_up_and_follow_from_the_allocations(policy: str, queue: str, clock: str) -> None:
    rnd = random.Random(f"{policy} {queue} {clock}")
    for _ in range(10):
        rows = [
            (float(rnd.randrange(40)), rnd.choice([1, 1, 2, 3, 4, 6]), float(rnd.randrange(1, 30)))
            for _ in range(30)
        ]
        sizes = [4, 4, 2]
        cluster = Cluster.from_groups([ServerGroup(1, size) for size in sizes])
        outcome = ringbco.replay(table(rows), cluster, policy=policy, queue=queue, model="fixed", clock=clock)
        jobs = outcome.jobs
        for name in CAUSES_SCHEMA:
            assert jobs[name].min() >= 0
        total = jobs["wait_behind"] + jobs["wait_gpus"] + jobs["wait_fragmented"]
        assert total.to_list() == pytest.approx(jobs["wait_time"].to_list(), rel=1e-5)
        idle = idle_by_second(outcome, sizes)
        for submit, gpus, start, short, apart in jobs.select(
            "submit_time", "num_gpus", "start_time", "wait_gpus", "wait_fragmented"
        ).iter_rows():
            seconds = [idle[t] for t in range(int(submit), int(start))]
            assert short == sum(sum(free) < gpus for free in seconds)
            if policy in ("fifo", "sjf"):
                want = sum(sum(free) >= gpus and not consolidates(free, sizes, gpus) for free in seconds)
                assert apart == want
            else:
                assert apart == 0


@pytest.mark.parametrize("policy", ["fifo", "rand", "sjf-bco", "srtf", "tiresias", "time-slice"])
@pytest.mark.parametrize("model", ["rar", "fixed"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_the_parts_of_a_run_add_up(policy: str, model: str, clock: str) -> None:
    """To the time on GPUs with progress, whatever the clock, and whether jobs are preempted or not."""
    rnd = random.Random(f"{policy} {model} {clock}")
    rows = [
        # Late in a long trace, where two instants are 1e-8 s apart at least.
        (6e7 + rnd.randrange(4_000), rnd.choice([1, 2, 3, 4, 6, 8]), rnd.uniform(1, 400))
        for _ in range(80)
    ]
    preempts = policy in ("srtf", "tiresias", "time-slice")
    options: dict[str, Any] = {"preempt_cost": 7.0} if preempts else {}
    options |= {"tiresias": {"thresholds": (200.0, 900.0)}, "time-slice": {"quantum": 120.0}}.get(policy, {})
    options |= {"slot": 3.0} if clock == "slot" else {}
    jobs = ringbco.replay(table(rows), "4x4", policy=policy, model=model, clock=clock, **options).jobs
    assert bool(jobs["preemptions"].sum()) == preempts
    progress = jobs["held_time"] - jobs["lost_time"] if preempts else jobs["run_time"]
    parts = jobs["ideal_run_time"] + jobs["run_spread"].cast(float) + jobs["run_contention"].cast(float)
    assert parts.to_list() == pytest.approx(progress.to_list(), rel=1e-6)
    for name in ("run_spread", "run_contention"):
        assert jobs[name].min() >= 0
        assert jobs.filter(pl.col(name).is_between(0, 1e-6, closed="none")).is_empty(), "noise"
    waits = jobs["wait_behind"].cast(float) + jobs["wait_gpus"] + jobs["wait_fragmented"]
    off = jobs["jct"] - (jobs["held_time"] if preempts else jobs["run_time"])
    assert waits.to_list() == pytest.approx(off.to_list(), rel=1e-6, abs=1e-7)
    if policy == "rand":
        assert jobs["max_contention"].max() > 2
        assert (jobs["run_contention"].max() > 0) == (model == "rar")
    if model == "fixed" and clock == "continuous":
        assert jobs["run_spread"].max() == 0


def test_a_job_that_moved_is_slower_by_each_stay() -> None:
    # Two servers of 2 GPUs, first-fit, srtf; an iteration of j1 takes 5 s on one server, 9 s on two (above).
    #  j0: 1 GPU on server 0, 10 iterations of 10 s, to 100. j1: 2 GPUs on both servers.
    #  j2: 3 GPUs at 90: 2 iterations of 9 s on one server, so it goes before j1. On two they take 10 s each:
    #  it runs to 110.
    #  j1 stops at 90 with 90 of 100 iterations left and finds too few idle GPUs up to 110. Then server 0 is
    #  its own: 7 s to resume, 450 s.
    jobs = table(
        [(0, 1, 100), (0, 2, 900), (90, 3, 20)],
        iterations=[10, 100, 2],
        gradient_bytes=[0.0, 4e9, 0.0],
        bp_time=[9.0, 1.0, 8.0],
    )
    network = Network(intra_bandwidth=4e9, inter_bandwidth=1e9, reduce_speed=1e9, xi1=1.0, xi2=1.0, alpha=0.0)
    cluster = Cluster.from_groups([ServerGroup(2, 2)], network)
    outcome = ringbco.replay(jobs, cluster, policy="srtf", placement="first-fit", preempt_cost=7.0)
    assert column(outcome, "finish_time") == pytest.approx([100, 567, 110])
    assert column(outcome, "preemptions") == [0, 1, 0]
    assert column(outcome, "held_time") == pytest.approx([100, 547, 20])
    assert column(outcome, "run_spread") == pytest.approx([0, 40, 0])
    assert column(outcome, "run_contention") == [0, 0, 0]
    assert column(outcome, "wait_gpus") == pytest.approx([0, 20, 0])
    assert column(outcome, "wait_time") == [0, 0, 0]


def test_waits_of_a_preempted_job_worked_by_hand() -> None:
    # Two servers of 2 GPUs, consolidate, srtf. j0: 1 GPU on server 0. j1: 2 GPUs on server 1.
    # At 10 come j2, j3, j4 of 1 GPU each, all shorter than j1: j2 on server 0 to 15, j3 and j4 on server 1.
    # j1 stops. Too few are idle until j3 ends at 18, then one GPU on each server until j4 ends at 50.
    jobs = table([(0, 1, 60), (0, 2, 100), (10, 1, 5), (10, 1, 8), (10, 1, 40)])
    outcome = ringbco.replay(jobs, "2x2", policy="srtf", model="fixed", preempt_cost=7.0)
    assert column(outcome, "finish_time") == [60, 147, 15, 18, 50]
    assert column(outcome, "wait_gpus") == [0, 8, 0, 0, 0]
    assert column(outcome, "wait_fragmented") == [0, 32, 0, 0, 0]
    assert column(outcome, "wait_behind") == [0, 0, 0, 0, 0]


def test_a_preempted_job_waits_for_its_turn() -> None:
    # One GPU in slices of 10 s: j1 runs from 10 to 13. Nobody looks before 20, so j0 waits 3 s for the GPU
    # and 7 s for the next slice.
    outcome = ringbco.replay(
        table([(0, 1, 30), (0, 1, 3)]),
        "1x1",
        policy="time-slice",
        quantum=10.0,
        preempt_cost=0.0,
        model="fixed",
    )
    assert column(outcome, "finish_time") == [40, 13]
    assert column(outcome, "wait_gpus") == [3, 10]
    assert column(outcome, "wait_behind") == [7, 0]


def test_a_job_that_moved_tells_spread_and_contention_apart() -> None:
    rnd = random.Random(5)
    rows = [(float(rnd.randrange(2_000)), rnd.choice([2, 3, 4]), rnd.uniform(1, 3_000)) for _ in range(80)]
    jobs = ringbco.replay(table(rows), "4x4", policy="srtf", placement="random", preempt_cost=1.0).jobs
    moved = jobs.filter((pl.col("preemptions") > 0) & (pl.col("max_contention") > 2))
    assert moved.height > 5
    assert moved["run_spread"].min() > 0
    assert moved["run_contention"].min() > 0


def test_the_slot_clocks_rounding_is_in_a_part() -> None:
    # Alone on one server, slots of 1 s. 10 iterations of 0.4 s: two a slot, so 5 s instead of 4. 7 of 0.3 s:
    # three a slot, so 3 s instead of 2.1; under `fixed` 4 s instead of 3.5.
    jobs = table(
        [(0, 1, 4.0), (0, 1, 3.5)], iterations=[10, 7], gradient_bytes=[0.0, 0.0], bp_time=[0.4, 0.3]
    )
    network = Network(xi2=1e-12)
    cluster = Cluster.from_groups([ServerGroup(1, 2)], network)
    outcome = ringbco.replay(jobs, cluster, policy="fifo", clock="slot")
    assert column(outcome, "run_spread") == pytest.approx([1, 0.9])
    assert column(outcome, "run_contention") == [0, 0]
    outcome = ringbco.replay(jobs, cluster, policy="fifo", clock="slot", model="fixed")
    assert column(outcome, "run_spread") == pytest.approx([0, 0.5])


def test_a_gang_alone_on_its_links_meets_no_contention() -> None:
    """With xi1 = 1 a spanning gang on its own has k = 1, not more: the slot's rounding counts as spread."""
    # j0 takes a GPU of the first server, so first-fit spreads j1 over both. As in the runs worked by hand, an
    # iteration of j1 takes 5 s on one server and 9 s on two, ideally 50 s in all. In slots of 20 s it does 2
    # a slot, so 10 iterations take 100 s: 40 s more for the second server, 10 s more for the rounding.
    jobs = table([(0, 1, 10), (0, 2, 10)], iterations=[20, 10], gradient_bytes=[0.0, 4e9], bp_time=[9.0, 1.0])
    network = Network(intra_bandwidth=4e9, inter_bandwidth=1e9, reduce_speed=1e9, xi1=1.0, xi2=1.0, alpha=0.0)
    cluster = Cluster.from_groups([ServerGroup(2, 2)], network)
    outcome = ringbco.replay(jobs, cluster, policy="ff", clock="slot", slot=20.0)
    assert column(outcome, "num_servers") == [1, 2]
    assert column(outcome, "max_contention") == [0, 1]
    assert column(outcome, "run_time")[1] == 100
    assert column(outcome, "run_spread")[1] == pytest.approx(50)
    assert column(outcome, "run_contention")[1] == 0


def idle_by_second(outcome: ringbco.Outcome, sizes: list[int]) -> dict[int, list[int]]:
    assert outcome.allocations is not None
    end = int(outcome.jobs["finish_time"].max())
    idle = {t: list(sizes) for t in range(end + 1)}
    for server, gpus, start, stop in outcome.allocations.select(
        "server", "num_gpus", "start_time", "end_time"
    ).iter_rows():
        for t in range(int(start), int(stop)):
            idle[t][server] -= gpus
    return idle


def consolidates(free: list[int], sizes: list[int], gpus: int) -> bool:
    largest = max(sizes)
    if gpus <= largest:
        return max(free) >= gpus
    empty = [s for s, f in enumerate(free) if f == largest][: gpus // largest]
    rest = [f for s, f in enumerate(free) if s not in empty]
    return len(empty) == gpus // largest and max(rest, default=0) >= gpus % largest
