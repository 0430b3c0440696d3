"""What a run of a sweep and of a comparison costs beyond the engine, on 14,783 jobs; `make bench`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco
from conftest import sorting_time
from ringbco import _core
from ringbco.sweeps.spec import read_spec
from ringbco.trace.jobs import JobTable, read_jobs
from ringbco.trace.synthetic import generate

JOBS = 14_783
SHARED = Path(os.environ.get("RINGBCO_SHARED") or Path(__file__).parents[2] / "shared")
TRACE = SHARED / "traces" / "philly" / "6c71a0.csv"
POLICIES = ("fifo", "sjf", "sjf-bco", "srtf")
PLACEMENTS = (
    *("first-fit", "consolidate", "best-fit", "worst-fit", "binpack", "emptiest"),
    *("least-loaded", "random", "fa-ffp", "lbsgf", "sjf-bco"),
)
ROUNDS = 9
LIMIT = 4.0
"""Milliseconds a run."""


@pytest.fixture(scope="module")
def trace() -> JobTable:
    """A virtual cluster of Philly as published; jobs like it where that is not available."""
    table = read_jobs(TRACE) if TRACE.is_file() else generate("philly", JOBS, 1, gpus=256, load=0.9)
    assert table.num_jobs == JOBS
    return table


def swept(table: JobTable, policy: str, folder: Path) -> Callable[[], int]:
    """A sweep of runs that differ in placement, its specification read; it returns how many there were."""
    base = {"trace": table, "cluster": "32x8", "policy": policy, "oversize": "drop"}
    spec = read_spec({"base": base, "grid": {"placement": list(PLACEMENTS)}})

    def run() -> int:
        result = ringbco.sweep(spec, folder, threads=1)
        return result.done - result.failed

    return run


def compared(table: JobTable, policy: str, _folder: Path) -> Callable[[], int]:
    """A comparison of the same runs, with the figures of each."""
    runs = {placement: {"policy": policy, "placement": placement} for placement in PLACEMENTS}

    def run() -> int:
        comparison = ringbco.compare(table, "32x8", runs=runs, threads=1, oversize="drop")
        return len([outcome.summary for outcome in comparison.outcomes.values()])

    return run


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("whole", [swept, compared])
def test_beyond_the_engine(
    whole: Callable[[JobTable, str, Path], Callable[[], int]],
    policy: str,
    trace: JobTable,
    tmp_path: Path,
    benchmark: BenchmarkFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wall time less the engine's, a run, and CPU time likewise: the machine may have other work.

    The table and the specification are read before; all else that a sweep or a comparison does is counted.
    """
    replay, rounds = _core.replay, list[tuple[float, float]]()
    engine = [0.0, 0.0]

    def timed(*args: Any, **kwargs: Any) -> Any:
        wall, spent = time.perf_counter(), time.thread_time()
        result = replay(*args, **kwargs)
        engine[0] += time.perf_counter() - wall
        engine[1] += time.thread_time() - spent
        return result

    def run() -> None:
        engine[:] = 0.0, 0.0
        ready = whole(trace, policy, tmp_path / str(len(rounds)))
        wall, spent = time.perf_counter(), time.process_time()
        runs = ready()
        wall, spent = time.perf_counter() - wall, time.process_time() - spent
        assert runs == len(PLACEMENTS)
        rounds.append((1e3 * (wall - engine[0]) / runs, 1e3 * (spent - engine[1]) / runs))

    monkeypatch.setattr(_core, "replay", timed)
    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    wall, spent = (median(values) for values in zip(*rounds[1:], strict=True))
    sorting = sorting_time(jobs=JOBS) * 1e3
    benchmark.extra_info.update(milliseconds=wall, cpu_milliseconds=spent, sorting=sorting)
    print(
        f"{whole.__name__}, {policy}: {wall:.2f} ms a run beyond the engine, {spent:.2f} ms of CPU"
        f" ({spent / sorting:.2f} sorts of {sorting:.2f} ms); aim: <= {LIMIT:g} ms"
    )
