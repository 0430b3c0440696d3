"""What each way to write a policy in Python costs, against its aim; in `make bench` (custom-policies.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco
from ringbco.trace import workload
from ringbco.trace.jobs import JobTable, from_frame

MILLION = 1_000_000
CLUSTER = "256x8"


class Fifo(ringbco.Policy):
    def decide(self, state: Any) -> None:
        state.start(state.waiting)


class Shortest(ringbco.KeyPolicy):
    clairvoyant = True

    def key(self, state: Any, rows: Any) -> Any:
        return state.duration[rows]


class Remaining(ringbco.RankPolicy):
    """Shortest remaining time first. Notes how many rows each ranking has, and when."""

    clairvoyant = True

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def __deepcopy__(self, memo: object) -> Remaining:
        return self  # what it saw is read after the run

    def rank(self, state: Any, rows: Any) -> Any:
        self.seen.append((time.perf_counter(), rows.size))
        return state.remaining_time[rows]


class Preemptive(Remaining):
    preemptive = True


@pytest.fixture(scope="module")
def table() -> JobTable:
    """Jobs shaped like Philly's, at 90 % load for 2,048 GPUs."""
    return ringbco.generate("philly", 100_000, 1)


def test_a_column_of_keys(benchmark: BenchmarkFixture) -> None:
    """A million jobs by a column, against the built-in order that is the same. In turn, the least of each."""
    million = ringbco.generate("philly", MILLION, 1)
    work = workload.resolve(million, ringbco.Cluster.parse(CLUSTER), {"model": "fixed", "seed": 0})
    spent: dict[str, list[float]] = {"sjf": [], "column:duration": []}

    def run() -> None:
        for order, seconds in spent.items():
            outcome = ringbco.replay(
                million, CLUSTER, policy="fifo", order=order, model="fixed", workload=work
            )  # fmt: skip
            seconds.append(outcome.summary["engine_seconds"])

    benchmark.pedantic(run, rounds=5)
    ratio = min(spent["column:duration"]) / min(spent["sjf"])
    _tell(benchmark, "column of keys / built-in order", ratio, most=1.3)


def test_a_key_for_each_arrival(benchmark: BenchmarkFixture, table: JobTable) -> None:
    seconds = _cpu(benchmark, table, Shortest)
    _tell(benchmark, "us a key", seconds / table.num_jobs * 1e6)


def test_fifo_in_python(benchmark: BenchmarkFixture, table: JobTable) -> None:
    seconds = _cpu(benchmark, table, Fifo)
    _tell(benchmark, "jobs decided a second", table.num_jobs / seconds, least=20_000)


@pytest.mark.parametrize("policy", [Remaining, Preemptive])
def test_a_ranking_of_a_thousand_waiting_jobs(benchmark: BenchmarkFixture, policy: type[Remaining]) -> None:
    """From one ranking to the next, where 900 to 1,100 jobs are ranked: Python, engine and all."""
    frame = ringbco.generate("philly", 3_000, 1, gpus=512, load=0.9).frame
    first = float(frame["submit_time"].min())  # type: ignore[arg-type]
    at_once = pl.when(pl.int_range(pl.len()) < 1_300).then(first).otherwise(pl.col("submit_time"))
    jobs = from_frame(frame.with_columns(submit_time=at_once))
    result: list[float] = []

    def run() -> None:
        asked = policy()
        ringbco.replay(jobs, "16x8", policy=asked)
        result.extend(_steps(asked.seen, 900, 1_100))

    benchmark.pedantic(run, rounds=3)
    assert len(result) >= 300
    _tell(benchmark, f"us a ranking, {policy.__name__}", median(result) * 1e6, most=100)


def _steps(seen: list[tuple[float, int]], least: int, most: int) -> Iterator[float]:
    """Seconds from each ranking of so many rows to the next."""
    for (began, rows), (ended, _) in pairwise(seen):
        if least <= rows <= most:
            yield ended - began


def test_a_fork_in_mid_trace(benchmark: BenchmarkFixture) -> None:
    """200,000 jobs, half of the time gone by."""
    jobs = ringbco.generate("philly", 200_000, 1)
    run = ringbco.Simulation(jobs, CLUSTER)
    half = float(np.median(jobs.frame["submit_time"].to_numpy()))
    while run.advance(half):
        run.start(run.state.waiting)
    assert run.state.running.size > 100
    benchmark.pedantic(run.fork, rounds=10, warmup_rounds=1)
    _tell(benchmark, "s a fork", benchmark.stats.stats.median, most=0.1)


def _cpu(benchmark: BenchmarkFixture, table: JobTable, policy: type[Any]) -> float:
    """The least CPU seconds of some replays: what else the machine does hardly counts."""
    seconds: list[float] = []

    def run() -> None:
        began = time.thread_time()
        ringbco.replay(table, CLUSTER, policy=policy)
        seconds.append(time.thread_time() - began)

    benchmark.pedantic(run, rounds=3)
    return min(seconds)


def _tell(
    benchmark: BenchmarkFixture, what: str, figure: float, *, least: float = 0.0, most: float = float("inf")
) -> None:
    """Prints the figure beside its aim, which it has to reach."""
    benchmark.extra_info[what] = figure
    aim = f" (aim: >= {least:,.3g})" if least else f" (aim: <= {most:,.3g})" if most < float("inf") else ""
    print(f"{what}: {figure:,.3g}{aim}")
    assert least <= figure <= most
