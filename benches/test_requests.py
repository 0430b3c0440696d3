"""Requests to services: 10^6 on 50 replicas and 10^7 on 500, with Azure's lengths; `make bench`."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco

RINGBCO = Path(sys.executable).with_name("ringbco")
JOB = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]})
REPLICA = {
    "kind": "tokens",
    "gpus": 1,
    "step": 0.03,
    "prefill": 1.2e-4,
    "decode": 2.5e-4,
    "context": 1e-8,
    "max_running": 64,
    "kv_tokens": 60_000,
    "max_step_tokens": 2_048,
    "scale": "fixed",
}


@pytest.mark.parametrize(("requests", "replicas", "most"), [(1_000_000, 50, 5.0), (10_000_000, 500, 60.0)])
def test_engine(
    requests: int, replicas: int, most: float, tmp_path: Path, benchmark: BenchmarkFixture
) -> None:
    """Engine time on one core, s, and the most memory of the process that replays a file of requests."""
    file = tmp_path / "requests.parquet"
    # Each replica has 2.5 requests a second.
    asked = ["--requests", str(requests), "--rate", str(2.5 * replicas), "--seed", "1", "-o", str(file)]
    subprocess.run([RINGBCO, "generate", "--preset", "requests", *asked], check=True, capture_output=True)
    services = {"chat": {**REPLICA, "replicas": replicas}}

    def run() -> float:
        outcome = ringbco.replay(
            JOB, f"{replicas + 1}x1", policy="fifo", model="fixed", requests=file, services=services
        )
        return float(outcome.summary["engine_seconds"])

    began = time.perf_counter()
    spent = benchmark.pedantic(run, rounds=1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(
        f"{requests:,} requests on {replicas} replicas: {spent:.2f} s of engine, "
        f"{time.perf_counter() - began:.1f} s in all, at most {memory:.2f} GB"
    )
    assert spent <= most
    assert memory <= 1.5
