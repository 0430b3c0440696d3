"""What placement `compact` costs: a million jobs in racks and pods, against consolidate without tiers;
`make bench`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco
from ringbco.cluster.spec import Cluster

JOBS = 1_000_000
LIMIT = 1.5


def tree(folder: Path, servers: int, *groups: int) -> Cluster:
    """Servers of 8 GPUs in tiers of so many servers a group."""
    tier = '[[network.tiers]]\nname = "tier{}"\nservers = {}\nbandwidth = "800Gb/s"\n'
    text = "".join(tier.format(number, count) for number, count in enumerate(groups))
    (file := folder / "tree.toml").write_text(
        f"{text}[[servers]]\ncount = {servers}\ngpus = 8\n", encoding="utf-8"
    )
    return Cluster.parse(file)


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_compact_on_a_million_jobs(policy: str, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """Engine time alone: 256 servers in racks of 8 and pods of 64."""
    jobs = ringbco.generate("philly", JOBS, 1, gpus=2048, load=0.9)
    runs = {"consolidate": Cluster.parse("256x8"), "compact": tree(tmp_path, 256, 8, 64)}
    least = dict.fromkeys(runs, float("inf"))

    def run() -> None:
        for placement, cluster in runs.items():
            told = ringbco.replay(
                jobs, cluster, policy=policy, placement=placement, allocations=False
            ).summary
            least[placement] = min(least[placement], told["engine_seconds"])

    benchmark.pedantic(run, rounds=3)
    ratio = least["compact"] / least["consolidate"]
    benchmark.extra_info["ratio"] = ratio
    print(f"{policy}: {ratio:.2f} x consolidate without tiers")
    assert ratio <= LIMIT


def test_compact_on_many_servers(tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """100,000 servers in four tiers: no placement looks at each of them."""
    jobs = ringbco.generate("philly", 100_000, 1, gpus=800_000, load=0.9)
    runs = {
        "consolidate": Cluster.parse("100000x8"),
        "compact": tree(tmp_path, 100_000, 10, 100, 1_000, 10_000),
    }
    least = dict.fromkeys(runs, float("inf"))

    def run() -> None:
        for placement, cluster in runs.items():
            told = ringbco.replay(
                jobs, cluster, policy="fifo", placement=placement, model="fixed", allocations=False
            ).summary
            least[placement] = min(least[placement], told["engine_seconds"])

    benchmark.pedantic(run, rounds=3)
    ratio = least["compact"] / least["consolidate"]
    benchmark.extra_info["ratio"] = ratio
    print(f"100,000 servers: {ratio:.2f} x consolidate without tiers")
    assert ratio <= 2 * LIMIT
