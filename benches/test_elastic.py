"""What policies that resize jobs cost: 100,000 of them, in units of sorting their events; `make bench`."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable
from ringbco.trace.synthetic import generate

JOBS = 100_000
LIMITS = {"optimus": 60.0, "elastic-srtf": 60.0, "afs": 600.0}


@pytest.fixture(scope="module")
def elastic() -> JobTable:
    """Jobs shaped like Philly's, all of them elastic, at 90 % load for 2,048 GPUs."""
    return generate("philly", JOBS, 1, elastic="0.5:2", elastic_share=1.0)


@pytest.mark.parametrize("policy", LIMITS)
def test_a_policy_that_resizes_jobs(elastic: JobTable, policy: str, benchmark: BenchmarkFixture) -> None:
    """Engine time alone, against its limit."""
    events = np.random.default_rng(0).random(2 * JOBS)
    times, engine = [], []
    for _ in range(9):
        started = time.perf_counter()
        np.argsort(events, kind="stable")
        times.append(time.perf_counter() - started)

    def run() -> None:
        engine.append(replay(elastic, "256x8", policy=policy).summary["engine_seconds"])

    benchmark.pedantic(run, rounds=2)
    ratio = min(engine) / median(times)
    benchmark.extra_info["argsorts"] = ratio
    print(f"{policy}: {ratio:.1f} x argsort")
    assert ratio <= LIMITS[policy]
