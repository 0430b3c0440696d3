"""A hundred thousand synthetic jobs, and the floor that every figure is compared with."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ringbco.cluster.spec import Cluster
from ringbco.trace.jobs import JobTable, write_jobs
from ringbco.trace.synthetic import generate

if TYPE_CHECKING:
    from pytest_benchmark.session import BenchmarkSession

JOBS = 100_000
OTHER_SIZES = (
    *("test_convert", "test_gym", "test_quotas", "test_runs", "test_shares", "test_sia"),
    "test_whole_command",
)
"""Modules whose figures are not of so many jobs."""


@pytest.fixture(scope="session")
def table() -> JobTable:
    """Jobs shaped like Philly's, at 90 % load for 2,048 GPUs."""
    return generate("philly", JOBS, 1)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """256 servers of 8 GPUs."""
    return Cluster.parse("256x8")


@pytest.fixture(scope="session")
def files(table: JobTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the jobs as jobs.parquet and jobs.csv."""
    folder = tmp_path_factory.mktemp("jobs")
    for ending in ("parquet", "csv"):
        write_jobs(table, folder / f"jobs.{ending}")
    return folder


def sorting_time(rounds: int = 9, jobs: int = JOBS) -> float:
    """Median seconds of numpy's stable argsort of two random float64 a job: a submission and a completion."""
    events = np.random.default_rng(0).random(2 * jobs)
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        np.argsort(events, kind="stable")
        times.append(time.perf_counter() - started)
    return median(times)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says how each median compares with sorting the events."""
    session: BenchmarkSession | None = getattr(config, "_benchmarksession", None)
    done = [bench for bench in session.benchmarks if bench.stats.data] if session else []
    done = [bench for bench in done if not any(name in bench.fullname for name in OTHER_SIZES)]
    if not done:
        return
    floor = sorting_time()
    terminalreporter.section(f"{JOBS:,} jobs, in units of sorting their events ({floor * 1e3:.2f} ms)")
    for bench in sorted(done, key=lambda bench: bench.stats.median):
        terminalreporter.write_line(f"{bench.stats.median / floor:8.2f}  {bench.name}")
