"""`lucid`: job by job and pair by pair as its authors' simulator, and its rules by hand (docs/lucid.md)."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import SHARED, present
from frames import cluster_of

RTX_3090 = """
[gpu_types.RTX3090]
speed = 1.0
memory_gb = 24
[[servers]]
count = 4
gpus = 8
gpu_type = "RTX3090"
"""
UNSLOWED = ("NeuMF", "ResNet50", "BERT", "Transformer")
"""Models beside which, and of which, that simulator slows nobody down."""
WORKLOAD = ("model", "dataset", "batchsize", "amp")


def workload(number: str = "") -> pl.Expr:
    return pl.concat_str([f"{name}{number}" for name in WORKLOAD], separator="|")


def jobs(folder: Path) -> pl.DataFrame:
    """Iterations are thousandths of a second."""
    given = pl.read_csv(folder / "philly-103959_jobs.csv")
    return given.select(
        "job_id",
        pl.col("submit_time").cast(pl.Float64),
        pl.col("num_gpus").cast(pl.UInt32),
        pl.col("duration").cast(pl.Float64),
        model=workload(),
        iterations=(pl.col("duration") * 1000).cast(pl.UInt64),
        gpu_memory_mib=pl.col("gmem"),
        estimated_duration=pl.col("ebm").cast(pl.Float64),
        colocation_score=pl.col("label").cast(pl.UInt32),
    )


def tables(folder: Path, table: pl.DataFrame) -> pl.DataFrame:
    """1,000 a second alone, on any GPUs; fractions beside another."""
    alone = table.select("model", gpus="num_gpus").unique(maintain_order=True)
    pairs = pl.read_csv(folder / "colocate_info.csv")
    whole = pl.col("model1").is_in(UNSLOWED) | pl.col("model2").is_in(UNSLOWED)
    speed = [pl.when(whole).then(1.0).otherwise(pl.col(f"speed{number}")) for number in (1, 2)]
    beside = pairs.select(
        model=workload("1"), partner=workload("2"), rate=speed[0], partner_rate=speed[1]
    ).unique(["model", "partner"], keep="first", maintain_order=True)
    none = pl.lit(0, pl.UInt32)
    rows = [
        alone.with_columns(servers=pl.lit(1, pl.UInt32), rate=pl.lit(1000.0)),
        beside.with_columns(gpus=none, servers=none),
    ]
    return pl.concat(rows, how="diagonal").with_columns(gpu_type=pl.lit("RTX3090"))


@pytest.fixture(scope="module")
def theirs() -> Path:
    return present(SHARED / "peers" / "lucid")


@pytest.fixture(scope="module")
def ours(theirs: Path) -> ringbco.Outcome:
    table = jobs(theirs)
    options: dict[str, Any] = {"model": "table", "tables": tables(theirs, table), "decisions": True}
    options |= {"clock": "slot", "slot": 1.0, "start_cost": 1.0, "jobs_per_gpu": 2}
    return ringbco.replay(table, cluster_of(RTX_3090), policy="lucid", **options)


def test_every_job_is_as_its_authors_have_it(theirs: Path, ours: ringbco.Outcome) -> None:
    them = pl.read_csv(theirs / "philly-103959_lucid_fixed.csv").select("job_id", "start", "finish", "jct")
    both = ours.jobs.select("job_id", "start_time", "finish_time", mine="jct").join(them, on="job_id")
    assert both.height == ours.jobs.height == 2677
    assert (both["start_time"] - both["start"]).abs().max() <= 1
    assert (both["finish_time"] - both["finish"]).abs().max() <= 1
    assert both["mine"].mean() == pytest.approx(both["jct"].mean(), rel=1e-6)


def test_every_pair_is_as_its_authors_have_it(theirs: Path, ours: ringbco.Outcome) -> None:
    them = pl.read_csv(theirs / "philly-103959_lucid_fixed_pairs.csv")
    assert ours.decisions is not None
    pairs = ours.decisions.filter(pl.col("beside").is_not_null()).select("time", "job_id", "beside")
    both = pairs.join(them, left_on=("job_id", "beside"), right_on=("job", "beside"), suffix="_there")
    assert both.height == pairs.height == them.height == 1281
    assert (both["time"] - both["time_there"]).abs().max() <= 1


def test_gpus_of_a_pair_are_busy_once(ours: ringbco.Outcome) -> None:
    assert ours.allocations is not None
    seats = ours.allocations.group_by("seat").agg(
        pl.col("start_time").min(), pl.col("end_time").max(), pl.col("num_gpus", "stay").first()
    )
    whole = ours.allocations.group_by("seat", "job_id", "stay").agg(pl.col("num_gpus").sum())
    gpus = whole.unique("seat").select("seat", gpus="num_gpus")
    held = seats.join(gpus, on="seat").select(
        (pl.col("gpus") * (pl.col("end_time") - pl.col("start_time"))).sum()
    )
    length = ours.jobs["finish_time"].max() - ours.jobs["submit_time"].min()  # type: ignore[operator]
    assert ours.summary["utilisation"] == pytest.approx(held.item() / (32 * length), rel=1e-9)
    assert ours.timeline["busy_gpus"].max() <= 32
