"""GPU types that differ: by hand, what the audit finds, and what is refused."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.cluster.gpu_types import CATALOGUE, GpuType
from ringbco.cluster.spec import Cluster, preset_names
from ringbco.errors import DecisionError, InputError, UsageError
from ringbco.trace import gpu_type_choices

MIXED = """\
[gpu_types.Fast]
speed = 4
price_per_hour = 8
busy_watts = 400
idle_watts = 100
[gpu_types.Slow]
speed = 1
price_per_hour = 1
models.odd = 2
[[servers]]
gpus = 4
gpu_type = "Slow"
[[servers]]
gpus = 2
gpu_type = "Fast"
[[servers]]
gpus = 4
gpu_type = "slow"
"""


ROOT = Path(__file__).parents[2]


def test_every_type_of_a_preset_is_in_the_catalogue() -> None:
    for name in preset_names():
        assert {kind.casefold() for kind in Cluster.parse(f"preset:{name}").types} <= set(CATALOGUE)


def test_the_page_of_types_is_the_catalogue() -> None:
    page = (ROOT / "docs" / "gpu-types.md").read_text(encoding="utf-8")
    rows = [row.strip("| ").split("|") for row in page.splitlines() if row.startswith("| ")][2:]
    value: dict[str, GpuType] = {}
    for names, *cells in rows:
        figures = [float(cell.split()[0]) if cell.strip() else None for cell in cells]
        value |= {name.strip().casefold(): GpuType(name.strip(), *figures) for name in names.split(",")}  # type: ignore[arg-type]
    assert value == CATALOGUE


def test_the_cluster_file_of_the_page_is_one() -> None:
    page = (ROOT / "docs" / "heterogeneous.md").read_text(encoding="utf-8")
    cluster = Cluster.from_document(tomllib.loads(page.split("```toml")[1].partition("```")[0]), "page")
    assert cluster.types == ("V100", "B200")


@pytest.fixture
def mixed(tmp_path: Path) -> Cluster:
    path = tmp_path / "mixed.toml"
    path.write_text(MIXED, encoding="utf-8")
    return Cluster.parse(path)


def table(*rows: tuple[int, float, str | None], **columns: Any) -> pl.DataFrame:
    """Jobs of (GPUs, duration, gpu_type), all there at 0."""
    count = len(rows)
    own = {
        "job_id": [chr(ord("a") + row) for row in range(count)],
        "submit_time": [0.0] * count,
        "num_gpus": [row[0] for row in rows],
        "duration": [row[1] for row in rows],
        "gpu_type": pl.Series([row[2] for row in rows], dtype=pl.String),
    }
    return pl.DataFrame(own | columns)


def finish(outcome: ringbco.Outcome) -> list[float]:
    return [float(time) for time in outcome.jobs["finish_time"]]


def test_the_cluster_knows_its_types(mixed: Cluster) -> None:
    assert mixed.types == ("Slow", "Fast")
    assert mixed.server_types is not None
    assert mixed.server_types.tolist() == [0, 1, 0]
    assert [fact.speed for fact in mixed.type_facts] == [1.0, 4.0]
    assert [fact.name for fact in mixed.type_facts] == ["Slow", "Fast"]
    assert Cluster.parse("2x8").types == ()
    assert all(fact.speed > 0 and fact.name.casefold() == key for key, fact in CATALOGUE.items())


def test_the_order_in_which_types_are_tried(mixed: Cluster) -> None:
    jobs = table((2, 100.0, "Slow|Fast"), (2, 100.0, None), (2, 100.0, "Slow"), (2, 100.0, "fast"))
    # Recorded on the first type of each list that the cluster has, so on Slow but for the last.
    fastest = ringbco.replay(jobs, mixed, policy="fifo", queue="skip", model="fixed")
    assert finish(fastest) == [25.0, 100.0, 100.0, 125.0]
    listed = ringbco.replay(jobs, mixed, policy="fifo", queue="skip", model="fixed", type_order="listed")
    assert finish(listed) == [100.0, 100.0, 100.0, 100.0]
    cheapest = ringbco.replay(jobs, mixed, policy="fifo", queue="skip", model="fixed", type_order="cheapest")
    assert finish(cheapest) == [100.0, 100.0, 100.0, 100.0]
    assert fastest.jobs["run_on_type"].to_list() == [-75.0, 0.0, 0.0, 0.0]
    assert fastest.jobs["ideal_run_time"].to_list() == [100.0] * 4


def test_only_the_compute_part_is_faster(mixed: Cluster) -> None:
    """tau = 2 x / b_i + x / C + xi2 + compute; on Fast the compute part alone is a quarter."""
    costs = {
        "iterations": [10],
        "gradient_bytes": [75e9],
        "batch_size": [1],
        "fp_time": [3.0],
        "bp_time": [1.0],
    }
    jobs = table((2, 1.0, "Fast"), recorded_on=["Slow"], **costs)
    x = 75e9 / 2
    tau = 2 * x / 150e9 + x / 500e9 + 5e-4 + 4.0 / 4.0
    assert finish(ringbco.replay(jobs, mixed, policy="fifo")) == pytest.approx([10 * tau], rel=1e-12)


def test_a_model_may_have_a_speed_of_its_own(mixed: Cluster) -> None:
    jobs = table((1, 100.0, "Slow"), (1, 100.0, "Slow"), model=["odd", "other"], recorded_on=["V100"] * 2)
    assert finish(ringbco.replay(jobs, mixed, policy="fifo", model="fixed")) == [50.0, 100.0]


def test_a_gang_never_mixes_types(mixed: Cluster) -> None:
    jobs = table((6, 10.0, None), (4, 10.0, None))
    outcome = ringbco.replay(jobs, mixed, policy="fifo", placement="first-fit", model="fixed")
    held = outcome.allocations
    assert held is not None
    assert held.filter(pl.col("job_id") == "a")["server"].to_list() == [0, 2]
    assert finish(outcome) == [10.0, 20.0]


def test_a_ranking_has_a_quota_of_each_type(mixed: Cluster) -> None:
    """The short job may use Fast alone: who holds Slow GPUs is not stopped for it."""
    jobs = table((8, 100.0, "Slow"), (2, 400.0, "Fast"), (2, 10.0, "Fast"))
    jobs = jobs.with_columns(submit_time=pl.Series([0.0, 0.0, 5.0]))
    outcome = ringbco.replay(jobs, mixed, policy="srtf", model="fixed", preempt_cost=30.0)
    assert outcome.jobs["preemptions"].to_list() == [0, 1, 0]
    assert finish(outcome) == [100.0, 440.0, 15.0]


def test_the_summary_tells_each_type(mixed: Cluster) -> None:
    outcome = ringbco.replay(
        table((2, 3600.0, "Fast"), (4, 1800.0, "Slow")), mixed, policy="fifo", model="fixed"
    )
    slow, fast = outcome.summary["gpu_types"]
    assert (slow["gpu_type"], slow["gpus"], slow["gpu_hours"], slow["cost"]) == ("Slow", 8, 2.0, 2.0)
    assert "energy_kwh" not in slow
    assert (fast["gpu_hours"], fast["utilisation"], fast["cost"]) == (2.0, 1.0, 16.0)
    assert fast["energy_kwh"] == pytest.approx(0.8)


def test_a_pause_at_the_first_start(mixed: Cluster) -> None:
    jobs = table((2, 100.0, "Slow"))
    outcome = ringbco.replay(jobs, mixed, policy="fifo", model="fixed", start_cost=30.0)
    assert finish(outcome) == [130.0]
    assert outcome.jobs.select("held_time", "lost_time").row(0) == (130.0, 30.0)
    in_slots = ringbco.replay(
        jobs, "1x8", policy="fifo", model="fixed", start_cost=30.0, clock="slot", slot=60.0
    )
    assert finish(in_slots) == [60.0 + 120.0]
    assert ringbco.audit(outcome, jobs) == []


RATES: list[float] = []
"""What `Choose` read last; a run has a policy of its own."""


class Choose(ringbco.Policy):
    """Starts everything on the slow GPUs."""

    def decide(self, state: ringbco.State) -> None:
        assert state.type == ("Slow", "Fast", "Slow")
        RATES[:] = [float(state.rate([0], 2, name)[0]) for name in (None, "slow", "Fast")]
        state.start(state.waiting, type="slow")


class Wrong(ringbco.Policy):
    """Starts a job on servers of two types."""

    def decide(self, state: ringbco.State) -> None:
        state.start([0], [(0, 1), (1, 1)])


def test_a_policy_of_ones_own_chooses(mixed: Cluster) -> None:
    outcome = ringbco.replay(table((2, 100.0, "Fast|Slow")), mixed, policy=Choose(), model="fixed")
    # Recorded on Fast: Slow is a quarter as fast.
    assert finish(outcome) == [400.0]
    assert RATES == [1.0, 0.25, 1.0]
    with pytest.raises(DecisionError, match="servers 0 and 1 have GPUs of different types"):
        ringbco.replay(table((2, 100.0, None)), mixed, policy=Wrong(), model="fixed")
    with pytest.raises(DecisionError, match="it may not use GPUs of that type"):
        ringbco.replay(table((2, 100.0, "Fast")), mixed, policy=Choose(), model="fixed")


REFUSED = {
    "a type that the cluster lacks": (table((1, 1.0, "H100")), {}, "asks for 1 GPUs, but its cluster has 0"),
    "a gang that no type can hold": (table((9, 1.0, None)), {}, "asks for 9 GPUs, but its cluster has 8"),
    "too few of the type": (table((3, 1.0, "Fast")), {}, "it may run on Fast only"),
    "an unknown recorded_on": (
        table((1, 1.0, None), recorded_on=["H1000"]),
        {},
        "row 1, column recorded_on: H1000: expected a GPU type that the cluster file declares",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_the_job(mixed: Cluster, name: str) -> None:
    jobs, options, words = REFUSED[name]
    with pytest.raises(InputError) as caught:
        ringbco.replay(jobs, mixed, policy="fifo", **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_job_that_no_type_can_hold_is_dropped_if_wished(mixed: Cluster) -> None:
    jobs = table((3, 1.0, "Fast"), (2, 1.0, "Fast"))
    outcome = ringbco.replay(jobs, mixed, policy="fifo", oversize="drop")
    assert (outcome.summary["jobs"], outcome.summary["jobs_dropped"]) == (1, 1)
    assert ringbco.audit(outcome, jobs) == []


def test_who_takes_gpus_for_equal_says_so(mixed: Cluster) -> None:
    jobs = table((1, 1.0, None))
    with pytest.raises(InputError, match="has GPUs that differ, and a plan takes all GPUs for equal"):
        ringbco.plan(jobs, mixed)
    free = dataclasses.replace(mixed, gpu_types={**mixed.gpu_types, "fast": GpuType("Fast", 4.0)})
    with pytest.raises(UsageError, match="cheapest: expected a price of every GPU type; Fast has none"):
        ringbco.replay(jobs, free, policy="fifo", type_order="cheapest")


def test_one_type_named_or_not_is_the_same(tmp_path: Path) -> None:
    jobs = ringbco.generate("philly", 300, 3, gpus=64).frame
    (tmp_path / "c.toml").write_text(
        '[[servers]]\ncount = 8\ngpus = 8\ngpu_type = "V100"\n', encoding="utf-8"
    )
    named, plain = (ringbco.replay(jobs, cluster, policy="srtf") for cluster in (tmp_path / "c.toml", "8x8"))
    assert named.jobs.equals(plain.jobs)
    assert gpu_type_choices.resolve(ringbco.from_frame(jobs), Cluster.parse(tmp_path / "c.toml")) is None


def test_the_bound_holds_on_faster_gpus(mixed: Cluster) -> None:
    jobs = table((2, 100.0, None), (2, 100.0, None), recorded_on=["Slow"] * 2)
    for model in ("rar", "fixed"):
        mean = ringbco.replay(jobs, mixed, policy="srtf", model=model).summary["mean_jct"]
        assert 0 < ringbco.bound(jobs, mixed, model=model).mean_jct <= mean


def test_what_the_audit_finds(mixed: Cluster) -> None:
    rows = ((2, 100.0, "Slow"), (2, 100.0, "Fast"), (6, 50.0, None))
    jobs = table(*rows, recorded_on=["Slow", "Slow", "Slow"])
    outcome = ringbco.replay(jobs, mixed, policy="fifo", queue="skip", placement="first-fit", model="fixed")
    assert ringbco.audit(outcome, jobs) == []

    def found(outcome: ringbco.Outcome) -> set[str]:
        return {finding.code for finding in ringbco.audit(outcome, jobs)}

    held = outcome.allocations
    assert held is not None
    swapped = held.with_columns(
        server=pl.when(pl.col("job_id") == "a").then(1).otherwise("server").cast(pl.UInt32)
    )
    assert "types" in found(dataclasses.replace(outcome, allocations=swapped))
    across = held.with_columns(
        server=pl.when((pl.col("job_id") == "c") & (pl.col("server") == 2))
        .then(1)
        .otherwise("server")
        .cast(pl.UInt32)
    )
    assert "types" in found(dataclasses.replace(outcome, allocations=across))
    slower = outcome.jobs.with_columns(run_on_type=pl.col("run_on_type") + pl.lit(5.0, pl.Float32))
    assert found(dataclasses.replace(outcome, jobs=slower)) == {"causes"}
    cheaper = {
        **outcome.run,
        "cluster": {**outcome.run["cluster"], "gpu_types": {"Fast": {"speed": 3.0}, "Slow": {}}},
    }
    assert "run-times" in found(dataclasses.replace(outcome, run=cheaper))


def test_on_the_command_line(invoke: Invoke, mixed: Cluster) -> None:
    Path("mixed.toml").write_text(MIXED, encoding="utf-8")
    table((2, 100.0, "Slow|Fast"), (2, 100.0, None)).write_csv("jobs.csv")
    done = invoke(
        "replay",
        "jobs.csv",
        "--cluster",
        "mixed.toml",
        "--policy",
        "srtf",
        "--type-order",
        "listed",
        "-o",
        "r",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert invoke("audit", "r").returncode == 0
    again = invoke("replay", "--again", "r", "-o", "s")
    assert (again.returncode, again.stderr) == (0, "")
    assert pl.read_parquet("r/jobs.parquet").equals(pl.read_parquet("s/jobs.parquet"))
    refused = invoke("replay", "jobs.csv", "--cluster", "mixed.toml", "--type-order", "dearest", "-o", "t")
    assert refused.returncode == 2
    assert not Path("t").exists()
