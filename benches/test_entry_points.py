"""How long the Python entry points take; `make bench`. `ringbco bench` measures the engine at many sizes."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from ringbco.cluster.spec import Cluster
from ringbco.result import metrics
from ringbco.run.options import policies
from ringbco.run.registry import PRESETS
from ringbco.run.replay import replay
from ringbco.trace import profiles
from ringbco.trace.jobs import JobTable, from_frame, read_jobs


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_load(benchmark: BenchmarkFixture, files: Path, ending: str) -> None:
    table = benchmark(read_jobs, files / f"jobs.{ending}")
    assert table.num_jobs == 100_000


def test_profile(benchmark: BenchmarkFixture, table: JobTable, cluster: Cluster) -> None:
    workload = benchmark(profiles.resolve, table, cluster, model="rar", seed=0)
    assert workload.iterations.min() >= 1


@pytest.mark.parametrize("policy", [policy.name for policy in policies()])
def test_replay(benchmark: BenchmarkFixture, table: JobTable, cluster: Cluster, policy: str) -> None:
    if "by deadlines" in PRESETS[policy].is_:
        due = pl.col("submit_time") + 2 * pl.col("duration") + 3600
        table = from_frame(table.frame.with_columns(deadline=due))
    if "as recorded" in PRESETS[policy].is_:
        table = from_frame(table.frame.with_columns(recorded_start="submit_time"))
    outcome = benchmark(replay, table, cluster, policy=policy)
    benchmark.extra_info["engine_seconds"] = outcome.summary["engine_seconds"]
    assert outcome.jobs.height == table.num_jobs


def test_metrics(benchmark: BenchmarkFixture, table: JobTable, cluster: Cluster) -> None:
    jobs = replay(table, cluster, policy="fifo").jobs
    summary = benchmark(metrics.summarise, jobs, cluster.num_gpus)
    assert summary["jobs"] == table.num_jobs


def test_write(benchmark: BenchmarkFixture, table: JobTable, cluster: Cluster, tmp_path: Path) -> None:
    outcome = replay(table, cluster, policy="sjf-bco")
    number = itertools.count()
    benchmark(lambda: outcome.write(tmp_path / str(next(number))))
    assert (tmp_path / "0" / "jobs.parquet").stat().st_size > 0
