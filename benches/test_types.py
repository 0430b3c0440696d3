"""What GPU types cost: a million jobs on a cluster of two types, against the same on GPUs that are all alike;
`make bench`."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco
from ringbco.cluster.spec import Cluster

JOBS = 1_000_000
LIMIT = 1.5
TWO = """
[gpu_types.first]
[gpu_types.second]
[[servers]]
count = 128
gpus = 8
gpu_type = "first"
[[servers]]
count = 128
gpus = 8
gpu_type = "second"
"""


@pytest.mark.parametrize("policy", ["fifo", "sjf", "sjf-bco"])
def test_two_types_on_a_million_jobs(
    policy: str, tmp_path_factory: pytest.TempPathFactory, benchmark: BenchmarkFixture
) -> None:
    """Engine time alone. Both types are as fast, so that the jobs meet about the same waits."""
    file = tmp_path_factory.mktemp("types") / "two.toml"
    file.write_text(TWO, encoding="utf-8")
    jobs = ringbco.generate("philly", JOBS, 1, gpus=2048, load=0.9)
    clusters = {"alike": Cluster.parse("256x8"), "two types": Cluster.parse(file)}
    least = dict.fromkeys(clusters, float("inf"))

    def run() -> None:
        for name, cluster in clusters.items():
            recorded = ringbco.replay(jobs, cluster, policy=policy, allocations=False).summary
            least[name] = min(least[name], recorded["engine_seconds"])

    benchmark.pedantic(run, rounds=4)
    ratio = least["two types"] / least["alike"]
    benchmark.extra_info["ratio"] = ratio
    print(f"{policy}: {ratio:.2f} x without types")
    assert ratio <= LIMIT
