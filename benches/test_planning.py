"""How long plans take: the paper's 160 jobs, then thousands, and the slow planner where it can run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from paper_figures import NAMES, servers
from ringbco.run.plan import plan
from ringbco.trace import profiles
from ringbco.trace.synthetic import generate

DISPATCHES = ("idle", "reserve")


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_plan_paper(benchmark: BenchmarkFixture, policy: str, dispatch: str) -> None:
    table, cluster = generate("paper", 160, 1), servers(1)
    outcome = benchmark(plan, table, cluster, policy=policy, dispatch=dispatch)
    benchmark.extra_info["engine_seconds"] = outcome.summary["engine_seconds"]
    assert outcome.jobs.height == 160


@pytest.mark.parametrize("jobs", [10_000, 100_000])
@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_plan_large(benchmark: BenchmarkFixture, jobs: int, dispatch: str) -> None:
    """The paper's mix on 256 servers of 8 GPUs."""
    table = generate("paper", jobs, 1)
    outcome = benchmark.pedantic(plan, (table, "256x8"), {"dispatch": dispatch}, rounds=1 + 20_000 // jobs)
    benchmark.extra_info["engine_seconds"] = outcome.summary["engine_seconds"]
    assert outcome.jobs.height == jobs


@pytest.mark.parametrize("planner", ["fast", "slow"])
def test_plan_beside_the_slow_planner(benchmark: BenchmarkFixture, planner: str) -> None:
    """Twelve jobs of the paper's mix on three servers; both must say the same."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from reference import planner as slow
    from reference.model import Job, Net

    table = generate("paper", 12, 1)
    frame = table.frame.filter(table.frame["num_gpus"] <= 8)
    if planner == "fast":
        actual = benchmark(plan, frame, "3x8").summary["makespan"]
    else:
        from ringbco.cluster.spec import Cluster
        from ringbco.trace.jobs import from_frame

        work = profiles.resolve(from_frame(frame), Cluster.parse("3x8"), model="rar", seed=0)
        columns = (frame["num_gpus"], work.iterations, work.gradient_bytes, work.compute_time)
        jobs = [
            Job(0.0, int(gang), 1.0, int(steps), float(size), float(compute))
            for gang, steps, size, compute in zip(*columns, strict=True)
        ]
        result = benchmark.pedantic(slow.plan, (jobs, [8, 8, 8], Net(), slow.PlanOptions()), rounds=1)
        actual = result.schedule.makespan
    assert actual == plan(frame, "3x8").summary["makespan"]
