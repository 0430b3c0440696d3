"""What outages cost: a million jobs where servers fail every 42 days, and where none does; `make bench`."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco

JOBS = 1_000_000
SERVERS = 256
DAYS_BETWEEN = 42
LIMIT = 1.3


def outages(until: float) -> pl.DataFrame:
    """Each server fails every 42 days on average, and is down for two hours on average."""
    draw = np.random.default_rng(0)
    rows = []
    for server in range(SERVERS):
        time = draw.exponential(DAYS_BETWEEN * 86400.0)
        while time < until:
            back = time + draw.exponential(7200.0)
            rows.append((server, time, back))
            time = back + draw.exponential(DAYS_BETWEEN * 86400.0)
    return pl.DataFrame(
        rows, schema={"server": pl.UInt32, "down_at": pl.Float64, "up_at": pl.Float64}, orient="row"
    )


@pytest.mark.parametrize("policy", ["fifo", "sjf", "sjf-bco", "srtf"])
def test_failing_servers_on_a_million_jobs(policy: str, benchmark: BenchmarkFixture) -> None:
    """Engine time alone."""
    jobs = ringbco.generate("philly", JOBS, 1, gpus=8 * SERVERS, load=0.9)
    fail = outages(float(jobs.frame["submit_time"].max()))
    least = {"never": float("inf"), "fail": float("inf")}

    def run() -> None:
        for name, given in (("never", None), ("fail", fail)):
            recorded = ringbco.replay(
                jobs, f"{SERVERS}x8", policy=policy, outages=given, allocations=False
            ).summary
            least[name] = min(least[name], recorded["engine_seconds"])

    benchmark.pedantic(run, rounds=4)
    ratio = least["fail"] / least["never"]
    benchmark.extra_info["ratio"] = ratio
    print(f"{policy}: {ratio:.2f} x without outages, {fail.height:,} of them")
    assert ratio <= LIMIT
