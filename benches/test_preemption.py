"""What preemption costs: a million jobs, in units of sorting their events; `make bench`."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from conftest import sorting_time
from ringbco.cluster.spec import Cluster
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable
from ringbco.trace.synthetic import generate
from ringbco.trace.workload import Workload, resolve

JOBS = 1_000_000
LIMITS = {"srtf": 20.0, "tiresias": 60.0}


@pytest.fixture(scope="module")
def million() -> JobTable:
    """Jobs shaped like Philly's, at 90 % load for 2,048 GPUs."""
    return generate("philly", JOBS, 1)


@pytest.fixture(scope="module")
def workload(million: JobTable) -> Workload:
    """Their iterations and gradients."""
    return resolve(million, Cluster.parse("256x8"), {"model": "rar", "seed": 0})


@pytest.mark.parametrize("policy", LIMITS)
def test_a_preemptive_policy_on_a_million_jobs(
    million: JobTable, workload: Workload, policy: str, benchmark: BenchmarkFixture
) -> None:
    """Engine time alone, against its limit."""
    sorting = sorting_time(5, JOBS)
    engine = []

    def run() -> None:
        engine.append(replay(million, "256x8", policy=policy, workload=workload).summary["engine_seconds"])

    benchmark.pedantic(run, rounds=2)
    ratio = min(engine) / sorting
    benchmark.extra_info["argsorts"] = ratio
    print(f"{policy}: {ratio:.1f} x argsort")
    assert ratio <= LIMITS[policy]
