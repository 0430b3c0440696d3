"""What two jobs on the same GPUs cost: lucid in units of srtf, on jobs drawn from the data of its authors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from ringbco.cluster.spec import Cluster
from ringbco.run.replay import replay
from ringbco.trace.jobs import from_frame

SHARED = Path(os.environ.get("RINGBCO_SHARED") or Path(__file__).parents[2] / "shared")
THEIRS = SHARED / "peers" / "lucid"
JOBS = 100_000
LIMITS = {0.9: 3.0, 1.5: 6.0}
OWN_MEMORY = 2.0
"""How many times as much it may be where no two jobs need the same memory."""
GPUS = 128
CLUSTER = """
[gpu_types.RTX3090]
speed = 1.0
memory_gb = 24
[[servers]]
count = 16
gpus = 8
gpu_type = "RTX3090"
"""
WORKLOAD = ("model", "dataset", "batchsize", "amp")


def drawn(load: float, memory: bool) -> pl.DataFrame:
    """Jobs of theirs with replacement, which arrive independently of each other.

    memory: each needs as much as theirs and up to 1 GiB more, so that no two need the same.
    """
    draw = np.random.default_rng(1)
    theirs = pl.read_csv(THEIRS / "philly-103959_jobs.csv")
    jobs = theirs[draw.integers(theirs.height, size=JOBS)]
    work = float((jobs["num_gpus"] * jobs["duration"]).sum())
    gap = work / (load * GPUS * JOBS)
    needs = jobs["gmem"] + draw.uniform(0.0, 1024.0, JOBS)
    return jobs.select(
        job_id=pl.int_range(pl.len()).cast(pl.String),
        submit_time=pl.Series(np.cumsum(draw.exponential(gap, JOBS))),
        num_gpus=pl.col("num_gpus").cast(pl.UInt32),
        duration=pl.col("duration").cast(pl.Float64),
        model=pl.concat_str(WORKLOAD, separator="|"),
        estimated_duration=pl.col("ebm").cast(pl.Float64),
        colocation_score=pl.col("label").cast(pl.UInt32),
        gpu_memory_mib=needs if memory else pl.lit(None, pl.Float64),
    )


def pairs() -> pl.DataFrame:
    """Their measured pairs, for any number of GPUs."""
    beside = pl.read_csv(THEIRS / "colocate_info.csv").select(
        *(
            pl.concat_str([f"{part}{number}" for part in WORKLOAD], separator="|").alias(name)
            for number, name in ((1, "model"), (2, "partner"))
        ),
        rate="speed1",
        partner_rate="speed2",
    )
    none = pl.lit(0, pl.UInt32)
    beside = beside.unique(["model", "partner"], keep="first", maintain_order=True)
    return beside.with_columns(gpu_type=pl.lit("RTX3090"), gpus=none, servers=none)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("load", LIMITS)
def test_lucid_on_drawn_jobs(load: float, memory: bool, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """Engine time of lucid as a multiple of srtf's, against its limit."""
    if not THEIRS.is_dir():
        pytest.skip(f"no data {THEIRS}")
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    cluster = Cluster.parse(tmp_path / "cluster.toml")
    table, tables = from_frame(drawn(load, memory)), pairs()
    spent: dict[str, list[float]] = {"srtf": [], "lucid": []}

    def run(policy: str, **options: Any) -> None:
        outcome = replay(table, cluster, policy=policy, model="fixed", **options)
        spent[policy].append(outcome.summary["engine_seconds"])

    for _ in range(3):
        run("srtf")
    benchmark.pedantic(run, args=["lucid"], kwargs={"tables": tables, "jobs_per_gpu": 2}, rounds=3)
    ratio = min(spent["lucid"]) / min(spent["srtf"])
    benchmark.extra_info["srtf"] = ratio
    print(f"lucid at load {load}, memory {memory}: {ratio:.2f} x srtf, {min(spent['lucid']):.2f} s")
    assert ratio <= LIMITS[load] * (OWN_MEMORY if memory else 1.0)
