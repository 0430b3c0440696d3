"""`lucid`: job by job and pair by pair as its authors' simulator, and its rules by hand (docs/lucid.md)."""

import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import SHARED, present
from frames import cluster_of
from ringbco.errors import InputError, UsageError

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


PAGE = Path(__file__).parents[2] / "docs" / "lucid.md"


def own_policy() -> type[ringbco.Policy]:
    """That of the page."""
    (code,) = re.findall(r"```python title=.my_lucid.py.\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) < 40
    names: dict[str, Any] = {}
    exec(code, names)
    return names["MyLucid"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(4))
def test_the_policy_of_the_page_is_lucid(seed: int) -> None:
    given = ringbco.generate("philly", 400, seed, gpus=32, load=1.2).frame
    rows = pl.int_range(pl.len())
    table = given.filter(pl.col("num_gpus") <= 32).with_columns(
        estimated_duration=pl.col("duration") * (0.5 + rows * 7 % 5 / 4.0),
        colocation_score=(rows * 5 % 3).cast(pl.UInt32),
        gpu_memory_mib=(rows * 11 % 7) * 1500.0,
        model=pl.concat_str([pl.lit("m"), (rows % 3).cast(pl.String)]),
    )
    pairs = [("m0", "m1", 0.9, 0.7), ("m1", "m1", 0.8, 0.6), ("m2", "m0", 1.1, 0.95)]
    tables = pl.DataFrame(
        [{"model": m, "gpu_type": "V100", "gpus": 0, "servers": 0, "rate": r, "partner": p, "partner_rate": q}
         for m, p, r, q in pairs]
    )  # fmt: skip
    cluster = cluster_of(
        '[gpu_types.V100]\nmemory_gb = 14\n[[servers]]\ncount = 4\ngpus = 8\ngpu_type = "V100"\n'
    )
    options: dict[str, Any] = {"model": "fixed", "tables": tables, "interference": 0.3, "jobs_per_gpu": 2}
    built_in = ringbco.replay(table, cluster, policy="lucid", **options)
    own = ringbco.replay(table, cluster, policy=own_policy(), **options)
    assert built_in.allocations is not None
    assert own.allocations is not None
    columns = ("job_id", "server", "start_time", "end_time", "seat")
    assert built_in.allocations.select(columns).equals(own.allocations.select(columns))
    seats = built_in.allocations.group_by("seat").agg(pl.col("job_id").n_unique())
    assert (seats["job_id"] > 1).sum() > 20
    assert math.isclose(built_in.summary["utilisation"], own.summary["utilisation"], rel_tol=1e-12)


def two(**columns: Any) -> pl.DataFrame:
    """That of the page: b joins a."""
    given = {"job_id": ["a", "b"], "submit_time": [0.0, 10.0], "num_gpus": 4, "duration": [100.0, 20.0]}
    own = {"model": ["lm", "resnet"], "estimated_duration": [100.0, 20.0], "colocation_score": [0, 1]}
    return pl.DataFrame({**given, **own, **columns})


def pair(**cells: Any) -> pl.DataFrame:
    row = {"model": "lm", "gpu_type": "V100", "gpus": 0, "servers": 0, "rate": 0.8, "partner": "resnet"}
    return pl.DataFrame([{**row, "partner_rate": 0.5, **cells}])


def test_the_example_of_the_page() -> None:
    outcome = ringbco.replay(two(), "1x4", policy="lucid", model="fixed", tables=pair())
    assert outcome.jobs["finish_time"].to_list() == [108.0, 50.0]
    assert outcome.summary["utilisation"] == 1.0
    apart = ringbco.replay(two(), "1x4", policy="lucid", model="fixed", jobs_per_gpu=1)
    assert apart.jobs["start_time"].to_list() == [0.0, 100.0]


def test_a_gpu_counts_once_and_each_job_for_itself() -> None:
    cluster = cluster_of(
        """
        [gpu_types.V100]
        speed = 1.0
        idle_watts = 50
        busy_watts = 300
        price_per_hour = 2.0
        [[servers]]
        gpus = 4
        gpu_type = "V100"
        """
    )
    outcome = ringbco.replay(two(), cluster, policy="lucid", model="fixed", tables=pair())
    assert outcome.jobs["finish_time"].to_list() == [108.0, 50.0]
    # 4 GPUs were busy for 108 s.
    assert outcome.summary["energy_kwh"] == pytest.approx(4 * 300 * 108 / 3.6e6)
    assert outcome.summary["cost"] == pytest.approx(4 * 2.0 * 108 / 3600)
    assert set(outcome.timeline["busy_gpus"]) == {4, 0}
    # Each held 4 of them.
    assert outcome.jobs["held_time"].to_list() == [108.0, 40.0]


@pytest.mark.parametrize(("gpus", "begins"), [(8, 10.0), (7, 100.0)])
def test_quotas_count_the_gpus_of_each_job(gpus: int, begins: float) -> None:
    quota = pl.DataFrame({"user": ["u"], "gpus": [gpus], "borrow": [False]})
    jobs = two(user=["u", "u"])
    outcome = ringbco.replay(jobs, "1x4", policy="lucid", model="fixed", tables=pair(), quota=quota)
    assert outcome.jobs["start_time"].to_list() == [0.0, begins]


@pytest.mark.parametrize(
    ("columns", "joins"),
    [
        ({"colocation_score": [1, 1]}, True),
        ({"colocation_score": [2, 1]}, False),
        ({"estimated_duration": [10.0, 20.0]}, True),
        ({"estimated_duration": [9.9, 20.0]}, False),
        ({"gpu_memory_mib": [8192.0, 8191.0]}, True),
        ({"gpu_memory_mib": [8192.0, 8192.0]}, False),
        ({"gpu_memory_mib": [16384.0, None]}, True),
        ({"num_gpus": [4, 2]}, False),
        ({"min_gpus": [4, 2]}, False),
    ],
)
def test_who_may_join(columns: dict[str, Any], joins: bool) -> None:
    cluster = cluster_of(
        '[gpu_types.A]\nspeed = 1.0\nmemory_gb = 16\n[[servers]]\ngpus = 4\ngpu_type = "A"\n'
    )
    outcome = ringbco.replay(two(**columns), cluster, policy="lucid", model="fixed")
    assert (outcome.jobs["start_time"][1] == 10.0) is joins


@pytest.mark.parametrize(("rate", "score"), [(0.95, 0), (0.9495, 0), (0.9494, 1), (0.85, 1), (0.8494, 2)])
def test_scores_follow_from_pairs(rate: float, score: int) -> None:
    """b joins a, of score 1, unless its own score is 2."""
    table = two(colocation_score=[1, None])
    outcome = ringbco.replay(
        table, "1x4", policy="lucid", model="fixed", tables=pair(rate=1.0, partner_rate=rate)
    )
    assert (outcome.jobs["start_time"][1] == 10.0) is (score <= 1)
    other = ringbco.replay(
        two(colocation_score=[2, None]), "1x4", policy="lucid", model="fixed", tables=pair(partner_rate=rate)
    )
    assert (other.jobs["start_time"][1] == 10.0) is (score == 0)


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (pair(servers=1), "row 1, column servers: 1: expected 0 beside 0 gpus"),
        (pair(rate=-0.1), "row 1, column rate: -0.1: expected"),
        (pair(partner=None, partner_rate=None), "row 1, column gpus: 0: expected an integer >= 1"),
        (pair(gpus=4), "row 1, column servers: 0: expected an integer from 1 to gpus"),
    ],
)
def test_bad_pairs_are_told_in_a_line(tables: pl.DataFrame, says: str) -> None:
    with pytest.raises(InputError) as told:
        ringbco.replay(two(), "1x4", policy="lucid", model="fixed", tables=tables)
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"colocation_score": [0, 3]}, "row 2, column colocation_score: 3: expected 0, 1 or 2; make it null"),
        (
            {"gpu_memory_mib": [-1.0, 0.0]},
            "row 1, column gpu_memory_mib: -1: expected a finite number of MiB >= 0",
        ),
        (
            {"estimated_duration": [0.0, 1.0]},
            "row 1, column estimated_duration: 0: expected a finite number",
        ),
    ],
)
def test_bad_columns_are_told_in_a_line(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as told:
        ringbco.replay(two(**columns), "1x4", policy="lucid", model="fixed")
    assert says in str(told.value)


@pytest.mark.parametrize("policy", ["fifo", "sjf-bco", "srtf"])
def test_a_policy_that_pairs_nobody_runs_as_without_seats(policy: str) -> None:
    with_, without = (
        ringbco.replay(two(), "1x4", policy=policy, model="fixed", jobs_per_gpu=most) for most in (2, 1)
    )
    assert with_.jobs.equals(without.jobs)
    assert with_.allocations is not None
    assert with_.allocations["seat"].n_unique() == with_.allocations.height


def test_what_nobody_reads_is_refused() -> None:
    with pytest.raises(UsageError, match=r"tables.*jobs-per-gpu 2"):
        ringbco.replay(two(), "1x4", policy="fifo", model="fixed", tables=pair())
    with pytest.raises(UsageError, match="jobs-per-gpu: 2: expected 1"):
        ringbco.bound(two(), "1x4", model="fixed", jobs_per_gpu=2)
