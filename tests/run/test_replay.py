"""`replay`: columns in, an Outcome out; the engine's own behaviour is tested beside its references."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import polars as pl
import pytest

import ringbco
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome, toml_text
from ringbco.result.schema import (
    ALLOCATIONS_SCHEMA,
    CAUSES_SCHEMA,
    JOBS_SCHEMA,
    PREEMPTION_SCHEMA,
    SEATS_SCHEMA,
    TIMELINE_SCHEMA,
)
from ringbco.run.options import policies, resolve_policy
from ringbco.run.registry import PRESETS
from ringbco.run.replay import replay
from ringbco.run.simulation import Simulation
from ringbco.trace import profiles
from ringbco.trace.jobs import JobTable, from_frame, read_jobs

BY_DEADLINE = {name for name, policy in PRESETS.items() if "by deadlines" in policy.is_}
PREEMPTIVE = {name for name, policy in PRESETS.items() if "preempt-cost" in policy.options}
TWO_VCS = """\
[[servers]]
count = 2
gpus = 4
vc = "left"
[[servers]]
gpus = 8
vc = "right"
"""


def table(**columns: Any) -> pl.DataFrame:
    """A job table from its columns; ids are the row numbers."""
    rows = len(columns["num_gpus"])
    defaults = {"job_id": [str(row) for row in range(rows)], "submit_time": [0.0] * rows}
    return pl.DataFrame({**defaults, **columns})


@pytest.fixture
def two_vcs(tmp_path: Path) -> Cluster:
    path = tmp_path / "vcs.toml"
    path.write_text(TWO_VCS)
    return Cluster.parse(path)


def test_a_schedule_worked_out_by_hand(small_jobs: Path) -> None:
    """FIFO, strict, consolidated, on 2 servers of 8; the recorded durations."""
    outcome = replay(small_jobs, "2x8", policy="fifo", model="fixed")
    jobs = outcome.jobs
    # a: server 0 (4 of 8). b needs 6: server 1. c needs 2: server 1 holds it exactly. d needs 8: server 1 is
    # free at 50 (b) and 40 (c). e is behind d: server 0. f and g come when all is quiet but d.
    assert dict(zip(jobs["job_id"], jobs["start_time"], strict=True)) == {
        "a": 0,
        "b": 0,
        "c": 10,
        "d": 50,
        "e": 50,
        "f": 1000,
        "g": 1000,
    }
    assert jobs["finish_time"].to_list() == [100, 50, 40, 250, 60, 1060, 1600]
    assert jobs["wait_time"].to_list() == [0, 0, 0, 40, 30, 0, 0]
    assert jobs["run_time"].to_list() == [100, 50, 30, 200, 10, 60, 600]
    assert jobs["jct"].to_list() == [100, 50, 30, 240, 40, 60, 600]
    assert jobs["ideal_run_time"].to_list() == jobs["run_time"].to_list()
    assert jobs["slowdown"].to_list() == [1, 1, 1, 1.2, 4, 1, 1]
    assert outcome.allocations is not None
    assert outcome.allocations.drop("stay").rows() == [
        ("a", 0, 4, 0.0, 100.0),
        ("b", 1, 6, 0.0, 50.0),
        ("c", 1, 2, 10.0, 40.0),
        ("d", 1, 8, 50.0, 250.0),
        ("e", 0, 1, 50.0, 60.0),
        ("f", 0, 3, 1000.0, 1060.0),
        ("g", 0, 1, 1000.0, 1600.0),
    ]
    held = sum(
        gpus * time for gpus, time in [(4, 100), (6, 50), (2, 30), (8, 200), (1, 10), (3, 60), (1, 600)]
    )
    summary = outcome.summary
    assert summary["makespan"] == 1600
    assert summary["utilisation"] == pytest.approx(held / (16 * 1600))
    assert (summary["jobs"], summary["jobs_dropped"], summary["jobs_spread"]) == (7, 0, 0)
    assert (summary["mean_contention"], summary["events"]) == (0.0, 14)
    assert summary["jobs_per_second"] == pytest.approx(7 / summary["total_seconds"])
    assert summary["engine_seconds"] <= summary["total_seconds"]


def test_the_timeline_counts_what_runs_and_waits(small_jobs: Path) -> None:
    timeline = replay(small_jobs, "2x8", policy="fifo", model="fixed", sample=25.0).timeline
    assert timeline["time"].to_list()[:4] == [0.0, 25.0, 50.0, 75.0]
    rows = timeline.select("running_jobs", "queued_jobs", "busy_gpus", "queued_gpus").rows()
    assert rows[:4] == [(2, 0, 10, 0), (3, 2, 12, 9), (3, 0, 13, 0), (2, 0, 12, 0)]
    assert timeline["time"].max() <= 1600.0
    default = replay(small_jobs, "2x8", policy="fifo", model="fixed").timeline
    assert default.height == 2000
    assert (default["time"][0], default["time"][-1]) == (0.0, 1600.0)


def test_two_spanning_jobs_meet(tmp_path: Path) -> None:
    """Two gangs of 6 on 3 servers of 4 must share the middle server: p = 2 for both while both run."""
    frame = table(
        num_gpus=[6, 6],
        duration=[1.0, 1.0],
        iterations=[1000, 500],
        gradient_bytes=[1e9, 1e9],
        fp_time=[0.01, 0.01],
        bp_time=[0.02, 0.02],
    )
    cluster = Cluster.parse("3x4").with_network(xi1=1.0, xi2=0.001, alpha=0.5)
    outcome = replay(frame, cluster, policy="ff")
    exchanged = 1e9 * 5 / 6
    reduced = exchanged / 500e9
    alone = 2 * exchanged / 12.5e9 + reduced + 0.001 * 2 + 0.03
    shared = 2 * exchanged / (12.5e9 / 2.5) + reduced + 0.001 * 2 + 0.03
    second = 500 * shared
    first = second + 500 * alone
    np.testing.assert_allclose(outcome.jobs["finish_time"], [first, second], rtol=1e-12)
    assert outcome.jobs["max_contention"].to_list() == [2, 2]
    assert outcome.jobs["num_servers"].to_list() == [2, 2]
    np.testing.assert_allclose(outcome.jobs["ideal_run_time"], [1000 * alone, 500 * alone], rtol=1e-12)
    assert outcome.summary["jobs_spread"] == 2
    # p = 2 for both until the second ends, then 1 for the first.
    weighted = (2 * 2 * second + (first - second)) / (first + second)
    assert outcome.summary["mean_contention"] == pytest.approx(weighted)


@pytest.mark.parametrize("policy", PRESETS)
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_every_preset_gives_whole_gangs_and_the_documented_tables(
    small_jobs: Path, policy: str, clock: str
) -> None:
    table = read_jobs(small_jobs).frame.with_columns(deadline=pl.col("submit_time") + 1e6)
    table = table if policy in BY_DEADLINE else table.drop("deadline")
    if policy == "recorded":
        table = table.with_columns(recorded_start="submit_time")
    outcome = replay(table, "3x8", policy=policy, clock=clock, slot=2.0 if clock == "slot" else 1.0)
    jobs, allocations = outcome.jobs, outcome.allocations
    assert allocations is not None
    schema = JOBS_SCHEMA | CAUSES_SCHEMA | (PREEMPTION_SCHEMA if policy in PREEMPTIVE else {})
    assert dict(jobs.schema) == schema | ({"deadline": pl.Float64()} if policy in BY_DEADLINE else {})
    assert dict(allocations.schema) == ALLOCATIONS_SCHEMA | (SEATS_SCHEMA if policy == "lucid" else {})
    assert dict(outcome.timeline.schema) == TIMELINE_SCHEMA
    assert jobs["job_id"].to_list() == list("abcdefg")
    gangs = allocations.group_by("job_id", maintain_order=True).agg(pl.col("num_gpus").sum(), pl.len())
    assert gangs["num_gpus"].to_list() == jobs["num_gpus"].to_list()
    assert gangs["len"].to_list() == jobs["num_servers"].to_list()
    assert outcome.run["options"]["policy"] == policy


def test_a_preset_is_its_parts_and_each_can_be_replaced(small_jobs: Path) -> None:
    for preset in policies():
        if preset.preemption != "none":
            continue
        by_parts = replay(
            small_jobs,
            "2x8",
            policy="rand",
            order=preset.order,
            placement=preset.placement,
            queue=preset.queue,
        )
        assert by_parts.jobs.equals(replay(small_jobs, "2x8", policy=preset.name).jobs)
    assert resolve_policy("fifo", queue="easy").queue == "easy"
    assert resolve_policy("fifo", queue="easy").placement == "consolidate"


def test_unsorted_rows_give_the_sorted_schedule_in_the_files_order(small_jobs: Path) -> None:
    jobs = read_jobs(small_jobs).frame
    shuffled = jobs.reverse()
    # Reversing swaps ties of submit_time too, so each order is compared with its own stable sorting.
    ordered = replay(shuffled.sort("submit_time", maintain_order=True), "2x8", policy="fifo")
    outcome = replay(shuffled, "2x8", policy="fifo")
    assert outcome.jobs["job_id"].to_list() == shuffled["job_id"].to_list()
    assert outcome.jobs.sort("submit_time", maintain_order=True).equals(ordered.jobs)


def test_user_and_vc_are_carried_and_other_extras_are_not() -> None:
    frame = table(num_gpus=[1, 2], duration=[5.0, 6.0], vc=["x", None], user=["u", "v"], colour=["r", "g"])
    jobs = replay(frame, "1x4").jobs
    assert jobs.columns == [*JOBS_SCHEMA, *CAUSES_SCHEMA, "user", "vc"]
    assert jobs["vc"].to_list() == ["x", None]


def test_a_job_that_never_fits_is_refused_by_name_or_dropped(small_jobs: Path) -> None:
    with pytest.raises(InputError) as caught:
        replay(small_jobs, "1x4", policy="ff")
    error = caught.value
    assert (error.row, error.column, error.value) == (2, "num_gpus", 6)
    assert "small.csv: row 2 (line 3), column num_gpus: 6" in str(error)
    assert "'b'" in str(error)
    assert "--oversize drop" in str(error)
    outcome = replay(small_jobs, "1x4", policy="ff", oversize="drop")
    assert outcome.jobs["job_id"].to_list() == list("acefg")
    assert (outcome.summary["jobs"], outcome.summary["jobs_dropped"]) == (5, 2)
    assert outcome.allocations is not None
    assert set(outcome.allocations["job_id"]) == set("acefg")
    assert not outcome.jobs["finish_time"].is_nan().any()


def test_dropping_every_job_is_refused() -> None:
    with pytest.raises(InputError, match="no job is left"):
        replay(table(num_gpus=[9], duration=[1.0]), "1x8", oversize="drop")


def test_virtual_clusters_are_clusters_of_their_own(two_vcs: Cluster) -> None:
    vcs = ["left", "right", "left", "right", "left"]
    frame = table(
        num_gpus=[4, 8, 8, 1, 1],
        duration=[10.0, 20.0, 30.0, 40.0, 50.0],
        submit_time=[0.0, 0.0, 1.0, 1.0, 2.0],
        vc=vcs,
    )
    outcome = replay(frame, two_vcs, policy="ff")
    whole = outcome.jobs.with_row_index("row")
    for name, shape in (("left", "2x4"), ("right", "1x8")):
        alone = replay(frame.filter(pl.col("vc") == name), shape, policy="ff")
        assert whole.filter(pl.col("vc") == name).drop("row").equals(alone.jobs)
        row = next(row for row in outcome.summary["vcs"] if row["vc"] == name)
        assert row["jobs"] == alone.jobs.height
        for key in ("makespan", "mean_jct", "p99_wait", "utilisation", "jobs_spread"):
            assert row[key] == alone.summary[key]
    assert outcome.allocations is not None
    right = outcome.allocations.filter(pl.col("job_id").is_in(["1", "3"]))
    assert set(right["server"]) == {2}
    assert [row["gpus"] for row in outcome.summary["vcs"]] == [8, 8]


def test_a_virtual_cluster_without_jobs_has_a_row_without_figures(two_vcs: Cluster) -> None:
    outcome = replay(table(num_gpus=[1], duration=[1.0], vc=["left"]), two_vcs)
    assert outcome.summary["vcs"][1] == {"vc": "right", "servers": 1, "gpus": 8, "jobs": 0, "jobs_dropped": 0}


@pytest.mark.parametrize("model", ["rar", "fixed"])
@pytest.mark.parametrize("vc", ["centre", None])
def test_an_unknown_virtual_cluster_is_an_error(two_vcs: Cluster, model: str, vc: str | None) -> None:
    frame = table(num_gpus=[1, 1], duration=[1.0, 1.0], vc=["left", vc])
    with pytest.raises(InputError, match="left, right") as caught:
        replay(frame, two_vcs, model=model)
    assert (caught.value.row, caught.value.column, caught.value.value) == (2, "vc", vc)


def test_without_virtual_clusters_the_column_is_ignored() -> None:
    frame = table(num_gpus=[8, 8], duration=[10.0, 10.0], vc=["a", "b"])
    outcome = replay(frame, "1x8", model="fixed")
    assert outcome.jobs["start_time"].to_list() == [0.0, 10.0]
    assert "vcs" not in outcome.summary


def test_an_iteration_longer_than_the_slot_is_refused_by_name() -> None:
    frame = table(num_gpus=[1, 1], duration=[10.0, 10.0], iterations=[5, 5], fp_time=[0.1, 3.0])
    with pytest.raises(InputError, match="job '1': one uncontended iteration takes") as caught:
        replay(frame, "1x8", clock="slot", slot=1.0)
    assert caught.value.row == 2
    replay(frame, "1x8", clock="slot", slot=4.0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("policy", "sjfbco"),
        ("order", "lifo"),
        ("placement", "best"),
        ("queue", "lax"),
        ("model", "ring"),
        ("clock", "sun"),
        ("variant", "poetic"),
        ("oversize", "keep"),
        ("slot", 0.0),
        ("slot", float("nan")),
        ("slot", float("inf")),
        ("kappa", -1),
        ("kappa", 2**32),
        ("lambda_", 0.99),
        ("lambda_", float("inf")),
        ("seed", -1),
        ("seed", 2**64),
        ("sample", 0.0),
        ("sample", -5.0),
        ("sample", 1e-9),
    ],
)
def test_a_bad_option_is_a_usage_error_that_names_it(small_jobs: Path, option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"option {option.rstrip('_')}: ") as caught:
        replay(small_jobs, "2x8", **{option: value})
    assert str(value) in str(caught.value)


def test_the_run_says_everything_needed_to_repeat_it(small_jobs: Path, tmp_path: Path) -> None:
    cluster = Cluster.parse("2x8").with_network(alpha=0.25)
    first = replay(small_jobs, cluster, policy="rand", queue="easy", seed=7, estimate_factor=1.5)
    run = tomllib.loads(toml_text(first.run))
    assert run["trace"]["sha256"] == hashlib.sha256(small_jobs.read_bytes()).hexdigest()
    assert (run["trace"]["path"], run["trace"]["rows"]) == (str(small_jobs), 7)
    assert run["ringbco"]["version"] == ringbco.__version__
    assert run["cluster"]["name"] == "2x8"
    shape = tmp_path / "again.toml"
    shape.write_text(toml_text({key: run["cluster"][key] for key in ("network", "servers")}))
    options = run["options"]
    assert options.pop("command") == "replay"
    options["lambda_"] = options.pop("lambda")
    again = replay(run["trace"]["path"], str(shape), **options)
    assert again.jobs.equals(first.jobs)
    assert again.allocations is not None
    assert again.allocations.equals(first.allocations)
    assert again.timeline.equals(first.timeline)


def test_the_same_inputs_give_the_same_bytes(small_jobs: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        replay(small_jobs, "2x8", policy="rand", seed=3).write(tmp_path / name)
    for file in ("jobs.parquet", "allocations.parquet", "timeline.parquet", "run.toml"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_seeds_matter_to_the_random_placement_only_where_they_should() -> None:
    frame = table(num_gpus=[3] * 20, duration=[10.0] * 20)
    one, two = (replay(frame, "8x8", policy="rand", model="fixed", seed=seed) for seed in (1, 2))
    assert one.allocations is not None
    assert not one.allocations.equals(two.allocations)
    fifo = [replay(frame, "8x8", policy="fifo", model="fixed", seed=seed) for seed in (1, 2)]
    assert fifo[0].allocations is not None
    assert fifo[0].allocations.equals(fifo[1].allocations)


def test_without_allocations_nothing_else_changes(small_jobs: Path) -> None:
    with_them = replay(small_jobs, "2x8")
    without = replay(small_jobs, "2x8", allocations=False)
    assert without.allocations is None
    assert without.jobs.equals(with_them.jobs)
    assert without.timeline.equals(with_them.timeline)


def test_a_job_alone_runs_as_long_as_recorded_to_half_an_iteration(shared_traces: Path) -> None:
    jobs = read_jobs(shared_traces / "philly" / "e13805.csv")
    cluster = Cluster.parse("512x8")
    tau0 = profiles.resolve(jobs, cluster, model="rar", seed=0).tau0
    outcome = replay(jobs, cluster, policy="fifo")
    off = np.abs(outcome.jobs["run_time"].to_numpy() - jobs.frame["duration"].to_numpy())
    # A duration below one iteration is still one iteration.
    allowed = np.maximum(tau0 / 2, tau0 - jobs.frame["duration"].to_numpy())
    assert (off <= allowed * (1 + 1e-9)).all()
    assert outcome.jobs["wait_time"].max() == 0.0


@pytest.fixture(scope="module")
def many_jobs() -> JobTable:
    """Enough jobs to keep the engine busy for several of the moments at which it tells its progress."""
    rng = np.random.default_rng(0)
    rows = 100_000
    return from_frame(
        table(
            submit_time=np.sort(rng.uniform(0, rows * 10.0, rows)),
            num_gpus=rng.integers(1, 17, rows),
            duration=rng.exponential(500.0, rows) + 1,
        )
    )


def test_progress_grows_to_at_most_all_jobs(many_jobs: JobTable) -> None:
    seen: list[tuple[int, int]] = []
    replay(many_jobs, "64x8", policy="ls", progress=lambda *at: seen.append(at))
    assert seen
    assert all(0 <= done <= total == many_jobs.num_jobs for done, total in seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("failure", [LookupError("enough"), KeyboardInterrupt()])
def test_what_progress_raises_ends_the_run(many_jobs: JobTable, failure: BaseException) -> None:
    def refuse(done: int, total: int) -> None:
        raise failure

    with pytest.raises(type(failure)):
        replay(many_jobs, "64x8", policy="ls", progress=refuse)


def test_public_names_are_what_they_say() -> None:
    for name in ringbco.__all__:
        assert getattr(ringbco, name) is not None
    assert ringbco.replay is replay
    assert ringbco.Outcome is Outcome
    assert callable(ringbco.audit)
    assert set(dir(ringbco)) == set(ringbco.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ringbco.nonsense


def test_the_policy_may_be_positional(small_jobs: Path) -> None:
    """As in `compare`, by position or by name."""
    assert replay(small_jobs, "2x8", "sjf").jobs.equals(replay(small_jobs, "2x8", policy="sjf").jobs)
    planned = ringbco.plan(small_jobs, "2x8", "ff")
    assert planned.jobs.equals(ringbco.plan(small_jobs, "2x8", policy="ff").jobs)
    assert planned.summary["policy"] == "ff"
    packed = [
        ringbco.pack(small_jobs, "2x8", "best-fit"),
        ringbco.pack(small_jobs, "2x8", placement="best-fit"),
    ]
    assert packed[0] == packed[1]
    assert packed[0].placement == "best-fit"
    with pytest.raises(UsageError, match="option policy: 'sjff'"):
        replay(small_jobs, "2x8", "sjff")


@pytest.mark.parametrize(
    "function",
    [*(getattr(ringbco, name) for name in ("replay", "plan", "bound", "compare")), Simulation.__init__],
)
def test_annotations_can_be_read_at_run_time(function: Any) -> None:
    hints = get_type_hints(function)
    assert {"jobs", "cluster", "options", "return"} <= set(hints)


def test_frames_and_tables_and_files_are_the_same_jobs(small_jobs: Path) -> None:
    jobs = read_jobs(small_jobs)
    by_file, by_table, by_frame = (replay(given, "2x8") for given in (small_jobs, jobs, jobs.frame))
    assert by_file.jobs.equals(by_table.jobs)
    assert by_file.jobs.equals(by_frame.jobs)
    assert "sha256" not in {k for k, v in by_frame.run["trace"].items() if v is not None}
    assert from_frame(jobs.frame).num_jobs == by_frame.run["trace"]["rows"]


def test_a_run_beyond_all_measure_is_refused(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "long.csv"
    path.write_text("job_id,submit_time,num_gpus,duration,gradient_bytes,iterations\na,0,2,5,1e200,9000000\n")
    with pytest.raises(InputError, match=r"row 1 .*job_id: a: expected a run of at most 1e\+16"):
        replay(path, "2x8")
    for slot in (1e300, -1.0):
        with pytest.raises(UsageError, match=r"option slot: .* <= 1e\+16"):
            replay(path, "2x8", model="fixed", clock="slot", slot=slot)
    assert not recwarn.list
