"""Converters on generated raw files of the real traces' sizes, beside what merely reading them takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from raw import helios, philly, slurm
from ringbco.sources import convert
from ringbco.trace.jobs import write_jobs

HELIOS_ROWS = 3_360_000  # all four clusters together
PHILLY_MEGABYTES = 120
SLURM_ROWS = 1_000_000
MEMORY = 2e9  # bytes


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


@pytest.mark.parametrize(
    ("write", "most"), [(slurm.write_large, 20), (slurm.write_large_json, 100)], ids=["sacct -P", "--json"]
)
def test_slurm(
    benchmark: BenchmarkFixture, tmp_path: Path, write: Callable[[Path, int], None], most: float
) -> None:
    """A million rows: of text, steps included, in 20 s; of JSON, 6 GB, in 100 s; both in 2 GB of memory."""
    log = tmp_path / "log"
    write(log, SLURM_ROWS)
    command = [sys.executable, "-m", "ringbco", "convert", "slurm", str(log), "-o", "jobs.parquet"]

    def run() -> int:
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_maxrss * 1024

    memory = benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["MB of memory"] = round(memory / 1e6)
    assert benchmark.stats.stats.min < most
    assert memory < MEMORY
