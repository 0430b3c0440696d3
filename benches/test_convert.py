"""Converters on generated raw files of the real traces' sizes, beside what merely reading them takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from raw import helios, philly
from ringbco.sources import convert
from ringbco.trace.jobs import write_jobs

HELIOS_ROWS = 3_360_000  # all four clusters together
PHILLY_MEGABYTES = 120


@pytest.fixture(scope="module")
def helios_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Helios log of the real one's size, some 350 MB."""
    path = tmp_path_factory.mktemp("helios") / "cluster_log.csv"
    helios.write_large(path, HELIOS_ROWS)
    return path


@pytest.fixture(scope="module")
def philly_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Philly log."""
    path = tmp_path_factory.mktemp("philly") / "cluster_job_log"
    philly.write_large(path, PHILLY_MEGABYTES)
    return path


def convert_and_write(source: str, path: Path) -> None:
    write_jobs(convert(source, [path]).table, path.with_suffix(".parquet"), force=True)


def seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """The shortest of some runs."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def test_helios_scan_alone(benchmark: BenchmarkFixture, helios_log: Path) -> None:
    """The yardstick: polars reads the file."""
    benchmark.pedantic(lambda: pl.scan_csv(helios_log).collect(), rounds=3)


def test_helios(benchmark: BenchmarkFixture, helios_log: Path) -> None:
    """Conversion and writing within 5 times that."""
    scan = seconds(lambda: pl.scan_csv(helios_log).collect())
    benchmark.pedantic(convert_and_write, ("helios", helios_log), rounds=3)
    ratio = benchmark.stats.stats.min / scan
    benchmark.extra_info["times the scan"] = round(ratio, 2)
    assert ratio < 5


@pytest.mark.parametrize("mode", ["span", "sum", "split", "last"])
def test_philly(benchmark: BenchmarkFixture, philly_log: Path, mode: str) -> None:
    """At least 50 MB/s, writing included."""
    from ringbco.sources.source import Options

    def run() -> None:
        table = convert("philly", [philly_log], Options(mode=mode)).table
        write_jobs(table, philly_log.with_suffix(".parquet"), force=True)

    benchmark.pedantic(run, rounds=3)
    rate = philly_log.stat().st_size / 1e6 / benchmark.stats.stats.min
    benchmark.extra_info["MB/s"] = round(rate)
    assert rate > 50
