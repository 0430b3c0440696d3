"""`ringbco replay` as a user runs it: a million jobs, Parquet in, folder out, in argsorts; `make bench`."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from conftest import sorting_time
from ringbco.trace.jobs import write_jobs
from ringbco.trace.synthetic import generate

JOBS = 1_000_000
ROUNDS = 5
START_UP = """
import ringbco.shell
ringbco.shell.prepare()
import ringbco.cli.replay, ringbco.run.replay, pyarrow.parquet
"""
CASES = {
    "fifo, fixed": (("--policy", "fifo", "--model", "fixed"), 4.5),
    "sjf-bco": (("--policy", "sjf-bco"), 6.0),
}
"""Options, and how many argsorts the whole command is to take at most, with start-up."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job table as `generate` writes it."""
    path = tmp_path_factory.mktemp("whole") / "jobs.parquet"
    write_jobs(generate("philly", JOBS, 1, gpus=2048, load=0.9), path)
    return path


def measured(*arguments: str) -> tuple[float, float]:
    """Wall and CPU seconds that Python takes with the arguments."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("case", CASES)
def test_a_million_jobs(case: str, jobs: Path, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """Each round sorts, starts up and replays in turn; figures are medians of the rounds' ratios."""
    options, limit = CASES[case]
    rounds: list[tuple[float, ...]] = []

    def run() -> None:
        out = tmp_path / "result"
        shutil.rmtree(out, ignore_errors=True)
        sorting, (start, _) = sorting_time(3, JOBS), measured("-c", START_UP)
        wall, spent = measured(
            *("-m", "ringbco", "replay", str(jobs), "--cluster", "256x8", *options),
            *("--quiet", "-o", str(out)),
        )
        engine = json.loads((out / "summary.json").read_bytes())["engine_seconds"]
        rounds.append(tuple(part / sorting for part in (wall, spent, start, engine)) + (sorting,))

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    wall, spent, start, engine, sorting = (median(values) for values in zip(*rounds[1:], strict=True))
    beyond = median(row[0] - row[2] - row[3] for row in rounds[1:])
    benchmark.extra_info.update(wall=wall, cpu=spent, start_up=start, engine=engine, beyond=beyond)
    print(
        f"{case}: {wall:.2f} sorts of {sorting:.3f} s, aim <= {limit:g} (start-up {start:.2f}, engine"
        f" {engine:.2f}, beyond them {beyond:.2f}; {spent:.2f} sorts of CPU)"
    )
