"""What policies that resize jobs cost: 100,000 of them, in units of sorting their events; `make bench`."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from conftest import JOBS, sorting_time
from ringbco.run.replay import replay
from ringbco.trace.synthetic import generate

LIMITS = {
    ("optimus", 0.9): 60.0,
    ("elastic-srtf", 0.9): 60.0,
    ("afs", 0.9): 60.0,
    ("optimus", 1.2): 100.0,
    ("elastic-srtf", 1.2): 100.0,
    ("afs", 1.2): 170.0,
}
"""By policy and load."""


@pytest.mark.parametrize(("policy", "load"), LIMITS)
def test_a_policy_that_resizes_jobs(policy: str, load: float, benchmark: BenchmarkFixture) -> None:
    """Jobs shaped like Philly's, all elastic, on 2,048 GPUs: engine time alone, against its limit."""
    jobs = generate("philly", JOBS, 1, load=load, elastic="0.5:2", elastic_share=1.0)
    sorting = sorting_time()
    engine, resizes = [], []

    def run() -> None:
        summary = replay(jobs, "256x8", policy=policy).summary
        engine.append(summary["engine_seconds"])
        resizes.append(summary["preemptions"])

    benchmark.pedantic(run, rounds=2)
    ratio = min(engine) / sorting
    benchmark.extra_info["argsorts"] = ratio
    print(f"{policy} at {load:.0%}: {ratio:.1f} x argsort, {resizes[0]:,} resizes and restarts")
    assert ratio <= LIMITS[policy, load]
