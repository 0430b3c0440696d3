"""What priorities and eviction cost: a million jobs of two priorities, and of one; `make bench`."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco

JOBS = 1_000_000
SERVERS = 256
URGENT = 0.1
PRIORITIES = 1.3
# The columns of stays that end early cost 1.3 alone, as under a policy that preempts.
EVICTION = 3.5


@pytest.mark.parametrize("queue", ["strict", "skip"])
@pytest.mark.parametrize("order", ["fifo", "sjf"])
def test_urgent_jobs_on_a_million(order: str, queue: str, benchmark: BenchmarkFixture) -> None:
    """Engine time alone. One job in ten is urgent, drawn at random."""
    plain = ringbco.generate("philly", JOBS, 1, gpus=8 * SERVERS, load=0.9)
    urgent = np.random.default_rng(0).random(JOBS) < URGENT
    ranked = ringbco.from_frame(plain.frame.with_columns(priority=pl.Series(urgent).cast(pl.Int32)))
    runs = {"alike": (plain, False), "ranked": (ranked, False), "evicting": (ranked, True)}
    least = dict.fromkeys(runs, float("inf"))
    evictions = 0

    def run() -> None:
        nonlocal evictions
        for name, (jobs, evict) in runs.items():
            recorded = ringbco.replay(
                jobs, f"{SERVERS}x8", policy=order, queue=queue, evict=evict, allocations=False
            ).summary
            least[name] = min(least[name], recorded["engine_seconds"])
            evictions = recorded.get("evictions", 0)

    benchmark.pedantic(run, rounds=4)
    ratios = {name: least[name] / least["alike"] for name in ("ranked", "evicting")}
    benchmark.extra_info.update(ratios)
    print(
        f"{order} {queue}: {least['alike']:.2f} s; priorities {ratios['ranked']:.2f} x, eviction"
        f" {ratios['evicting']:.2f} x, {evictions:,} evictions"
    )
    assert ratios["ranked"] <= PRIORITIES
    assert ratios["evicting"] <= EVICTION
