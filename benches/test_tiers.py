"""What tiers cost: a million jobs in racks and pods, and 100,000 servers in four tiers, against runs without;
`make bench`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco
from ringbco.cluster.spec import Cluster

JOBS = 1_000_000
LIMITS: Final = {"consolidate": 1.5, "first-fit": 5.0, "compact": 6.5}
"""A run with tiers over the same without them; of compact over consolidate without tiers.

Where gangs share links, each start and end changes the rates of others: under first-fit, and under compact,
whose gangs share servers (mean contention 5.3, under consolidate 1.0)."""


def tree(folder: Path, servers: int, *groups: int) -> Cluster:
    """Servers of 8 GPUs in tiers of so many servers a group."""
    tier = '[[network.tiers]]\nname = "tier{}"\nservers = {}\nbandwidth = "800Gb/s"\n'
    text = "".join(tier.format(number, count) for number, count in enumerate(groups))
    (file := folder / "tree.toml").write_text(
        f"{text}[[servers]]\ncount = {servers}\ngpus = 8\n", encoding="utf-8"
    )
    return Cluster.parse(file)


def least_ratio(
    benchmark: BenchmarkFixture,
    jobs: ringbco.JobTable,
    runs: dict[str, tuple[str, Cluster]],
    **options: object,
) -> float:
    """The time of the second `replay` over that of the first: the least of three rounds each."""
    least = dict.fromkeys(runs, float("inf"))

    def run() -> None:
        for name, (placement, cluster) in runs.items():
            began = time.perf_counter()
            ringbco.replay(jobs, cluster, placement=placement, allocations=False, **options)
            least[name] = min(least[name], time.perf_counter() - began)

    benchmark.pedantic(run, rounds=3)
    without, with_tiers = least.values()
    ratio = benchmark.extra_info["ratio"] = with_tiers / without
    return ratio


@pytest.mark.parametrize("load", [0.7, 0.9])
@pytest.mark.parametrize("placement", LIMITS)
def test_a_million_jobs(placement: str, load: float, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """256 servers in racks of 8 and pods of 64."""
    jobs = ringbco.generate("philly", JOBS, 1, gpus=2048, load=load)
    plain = "consolidate" if placement == "compact" else placement
    runs = {
        "without": (plain, Cluster.parse("256x8")),
        "with tiers": (placement, tree(tmp_path, 256, 8, 64)),
    }
    ratio = least_ratio(benchmark, jobs, runs, policy="fifo")
    print(f"{placement}, load {load}: {ratio:.2f} x {plain} without tiers")
    assert ratio <= LIMITS[placement]


@pytest.mark.parametrize("placement", LIMITS)
def test_many_servers(placement: str, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """100,000 servers in four tiers: nothing looks at each of them."""
    jobs = ringbco.generate("philly", 100_000, 1, gpus=800_000, load=0.9)
    plain = "consolidate" if placement == "compact" else placement
    runs = {
        "without": (plain, Cluster.parse("100000x8")),
        "with tiers": (placement, tree(tmp_path, 100_000, 10, 100, 1_000, 10_000)),
    }
    ratio = least_ratio(benchmark, jobs, runs, policy="fifo", model="fixed")
    print(f"{placement}, 100,000 servers: {ratio:.2f} x {plain} without tiers")
    assert ratio <= 2.0
