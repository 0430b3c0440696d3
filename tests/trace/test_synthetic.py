"""Synthetic workloads: their figures, their exact load, their reproducibility, the command."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError
from ringbco.trace.jobs import JobTable, read_jobs, write_jobs
from ringbco.trace.profiles import resolve, vc_index
from ringbco.trace.synthetic import PRESETS, SHAPES, fit_durations, generate
from ringbco.trace.weeks import within_weeks

RunCli = Callable[..., "CompletedProcess[str]"]


def offered_load(table: JobTable, gpus: int) -> float:
    frame = table.frame
    work = (frame["num_gpus"].cast(pl.Float64) * frame["duration"]).sum()
    span = frame["submit_time"].max() - frame["submit_time"].min()  # type: ignore[operator]
    return float(work / span / gpus)


@pytest.fixture(scope="module", params=list(SHAPES))
def big(request: pytest.FixtureRequest) -> tuple[str, pl.DataFrame]:
    """60,000 jobs of each trace-like preset."""
    return request.param, generate(request.param, 60_000, 7).frame


def test_sizes_and_statuses_follow_the_published_shares(big: tuple[str, pl.DataFrame]) -> None:
    preset, frame = big
    for column, shares, slack in (
        ("num_gpus", SHAPES[preset].sizes, 1e-4),
        ("status", SHAPES[preset].statuses, 0.01),
    ):
        counted = dict(frame[column].value_counts().iter_rows())
        assert set(counted) == set(shares)
        for value, share in shares.items():
            expected = share / sum(shares.values())
            assert counted[value] / frame.height == pytest.approx(expected, abs=slack)


def test_run_times_have_the_published_median_and_mean(big: tuple[str, pl.DataFrame]) -> None:
    preset, frame = big
    shape, duration = SHAPES[preset], frame["duration"]
    assert duration.median() == pytest.approx(shape.median, rel=0.05)
    assert duration.mean() == pytest.approx(shape.mean, rel=0.1)
    assert duration.max() <= shape.longest  # type: ignore[operator]
    assert duration.min() == 1
    assert (duration == duration.round()).all()
    by_size = frame.group_by("num_gpus").agg(pl.len(), pl.col("duration").median()).sort("num_gpus")
    medians = by_size.filter(pl.col("len") > 300)["duration"].to_list()
    assert medians == sorted(medians)


@pytest.mark.parametrize("preset", list(SHAPES))
def test_the_fitted_distribution_has_exactly_the_median_and_mean(preset: str) -> None:
    shape = SHAPES[preset]
    base, sigma = fit_durations(shape, shape.sizes)
    # Numerically, on a fine grid of the truncated normal of each size.
    grid = np.linspace(-9, 9, 400_001)
    density = np.exp(-grid * grid / 2)
    below = mean = 0.0
    for size, share in shape.sizes.items():
        seconds = base * size**shape.growth * np.exp(sigma * grid)
        weight = np.where(seconds <= shape.longest, density, 0.0)
        weight *= share / sum(shape.sizes.values()) / weight.sum()
        below += weight[seconds <= shape.median].sum()
        mean += (weight * seconds).sum()
    assert below == pytest.approx(0.5, abs=1e-3)
    assert mean == pytest.approx(shape.mean, rel=1e-3)


def test_days_and_weeks_are_seen(big: tuple[str, pl.DataFrame]) -> None:
    _, frame = big
    submit = frame["submit_time"].to_numpy()
    whole_weeks = submit[submit < submit.max() // 604_800 * 604_800]
    assert whole_weeks.size > 10_000
    hours = np.bincount((whole_weeks // 3600 % 24).astype(int), minlength=24)
    days = np.bincount((whole_weeks // 86_400 % 7).astype(int), minlength=7)
    assert hours[9:18].mean() > 2 * hours[1:6].mean()
    assert days[5:].mean() < 0.75 * days[:5].mean()


def test_the_hours_of_the_week_have_their_shares() -> None:
    """Evenly drawn numbers become openings by the published daily curve, 0.55 of it on Saturday and Sunday.

    The curve stands here a second time, so that it cannot change by itself.
    """
    working_day = [5, 4, 3, 3, 3, 3, 4, 5, 7, 10, 13, 13, 9, 11, 14, 14, 14, 13, 10, 9, 10, 10, 9, 7]
    week = np.array(5 * [working_day] + 2 * [[0.55 * share for share in working_day]]).ravel()
    even = (np.arange(1_000_000) + 0.5) / 1_000_000
    for weeks in (1, 3):
        times = within_weeks(even, weeks * 604_800.0)
        counts = np.bincount((times // 3600).astype(int), minlength=168 * weeks)
        wanted = np.tile(week, weeks) / (weeks * week.sum()) * 1_000_000
        assert np.abs(counts - wanted).max() < 2
    # Ten hours into the second week: what is left out of it goes to nobody else.
    times = within_weeks(even, 604_800.0 + 36_000.0)
    assert times.max() < 604_800.0 + 36_000.0
    assert (times < 604_800.0).mean() == pytest.approx(week.sum() / (week.sum() + week[:10].sum()), abs=2e-6)


def test_submissions_come_in_bursts(big: tuple[str, pl.DataFrame]) -> None:
    preset, frame = big
    counts = np.bincount((frame["submit_time"].to_numpy() // 3600).astype(int))
    assert counts.var() > 20 * counts.mean()  # 1 x for independent submissions; the real Philly has 200 x
    shared = frame["submit_time"].is_duplicated().mean()
    assert shared is not None
    assert (0.1 < shared < 0.2) if preset == "philly" else (0.25 < shared < 0.4)
    # One user's next job is soon and mostly of the same size.
    previous = frame.select(pl.col("num_gpus").shift(1).over("user").alias("size"), "num_gpus").drop_nulls()
    assert (previous["size"] == previous["num_gpus"]).mean() > 0.75  # type: ignore[operator]


def test_users_are_few_and_uneven_and_belong_to_one_vc(big: tuple[str, pl.DataFrame]) -> None:
    preset, frame = big
    assert frame["user"].n_unique() == SHAPES[preset].users
    assert frame.select("user", "vc").unique().height == SHAPES[preset].users
    jobs = frame["user"].value_counts(sort=True)["count"]
    assert jobs[:30].sum() > 0.3 * frame.height
    assert frame["vc"].null_count() == frame["user"].null_count() == 0


def test_a_users_run_times_are_alike(big: tuple[str, pl.DataFrame]) -> None:
    # Predictors that learn from a user's earlier jobs need something to learn.
    _, frame = big
    logs = frame.filter(pl.col("num_gpus") == frame["num_gpus"].min()).select(
        "user", log=pl.col("duration").log()
    )
    within = logs.select((pl.col("log") - pl.col("log").mean().over("user")).var()).item()
    assert within < 0.85 * logs["log"].var()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("preset", "cluster"), [("philly", "preset:philly"), ("helios", "preset:helios-venus")]
)
def test_every_job_fits_in_its_virtual_cluster(preset: str, cluster: str) -> None:
    machine = Cluster.parse(cluster)
    table = generate(preset, 5_000, 3)
    index = vc_index(table, machine)
    assert index is not None
    room = np.array([machine.server_gpus[machine.vc_servers(name)].sum() for name in machine.vc_names])
    assert (table.frame["num_gpus"].to_numpy() <= room[index]).all()
    assert len(set(index)) == len(machine.vc_names)


@pytest.mark.parametrize("preset", list(SHAPES))
@pytest.mark.parametrize(
    ("jobs", "gpus", "load"), [(300, 64, 0.5), (2_000, 2048, 0.9), (5_000, 256, 1.4), (400, 10, 5.0)]
)
def test_the_offered_load_is_exact(preset: str, jobs: int, gpus: int, load: float) -> None:
    if gpus < SHAPES[preset].part * min(SHAPES[preset].sizes):
        with pytest.raises(UsageError, match=r"option gpus: 10: expected an integer from 16$"):
            generate(preset, jobs, 11, gpus=gpus, load=load)
        return
    table = generate(preset, jobs, 11, gpus=gpus, load=load)
    submit = table.frame["submit_time"]
    span = submit[-1]
    assert offered_load(table, gpus) == pytest.approx(load, rel=0.5001 / span)
    assert submit[0] == 0
    assert table.is_sorted
    assert (submit == submit.round()).all()
    assert {"philly": 10, "helios": 10, "llm": 2}[preset] * table.frame["num_gpus"].max() <= gpus  # type: ignore[operator]


def test_a_few_jobs_at_absurd_loads() -> None:
    assert generate("philly", 1, 0).frame["submit_time"].to_list() == [0.0]
    assert generate("philly", 2, 0, load=1e9).frame["submit_time"].to_list() == [0.0, 1.0]
    sparse = generate("helios", 50, 0, load=1e-9)
    assert offered_load(sparse, 2048) == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, preset: str) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        write_jobs(generate(preset, 1_000, seed), tmp_path / f"{name}.parquet")
    first, second, other = ((tmp_path / f"{name}.parquet").read_bytes() for name in "abc")
    assert first == second
    assert first != other
    assert not generate(preset, 1_000, 5).frame.equals(generate(preset, 1_000, 6).frame)


def test_the_papers_mix() -> None:
    table = generate("paper", 160, 1)
    frame = table.frame
    assert dict(frame["num_gpus"].value_counts().iter_rows()) == {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}
    assert frame["submit_time"].unique().to_list() == [0.0]
    assert frame["num_gpus"].to_list() != sorted(frame["num_gpus"])
    iterations, gradient = frame["iterations"], frame["gradient_bytes"]
    assert iterations.is_between(1000, 6000).all()
    assert gradient.is_between(1e6, 30e6).all()
    work = resolve(table, Cluster.parse("20x32"), model="rar", seed=0)
    tau = work.estimate / work.iterations
    assert ((tau > 0.01 - 1e-12) & (tau < 0.05 + 1e-12)).all()
    assert ((work.estimate >= 50 - 1e-9) & (work.estimate <= 300)).all()
    assert frame["duration"].to_list() == work.estimate.tolist()
    assert work.gradient_bytes.tolist() == gradient.to_list()


def test_the_papers_mix_is_scaled_by_largest_remainder() -> None:
    sizes = dict(generate("paper", 100, 1).frame["num_gpus"].value_counts().iter_rows())
    # 50, 8.75, 16.25, 18.75, 5, 1.25
    assert sizes == {1: 50, 2: 9, 4: 16, 8: 19, 16: 5, 32: 1}
    run_times = generate("paper", 4_000, 2).frame["duration"]
    assert run_times.min() < 55  # type: ignore[operator]
    assert run_times.max() > 290  # type: ignore[operator]


def test_the_footer_says_how_the_table_was_made(tmp_path: Path) -> None:
    write_jobs(generate("helios", 200, 9, gpus=512, load=0.7), tmp_path / "jobs.parquet")
    metadata = read_jobs(tmp_path / "jobs.parquet").metadata
    assert metadata["ringbco.source"] == "synthetic helios"
    assert metadata["ringbco.epoch"] == "2018-01-01T00:00:00+00:00"
    options = json.loads(metadata["ringbco.options"])
    assert options == {"preset": "helios", "jobs": 200, "seed": 9, "gpus": 512, "load": 0.7}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"preset": "phily"}, "did you mean philly"),
        ({"num_jobs": 0}, "option jobs: 0"),
        ({"num_jobs": 10**12}, "option jobs"),
        ({"seed": -1}, "option seed: -1"),
        ({"seed": 2**64}, "option seed"),
        ({"gpus": 9}, "option gpus: 9: expected an integer from 10"),
        ({"load": 0.0}, "option load: 0.0"),
        ({"load": float("nan")}, "option load: nan"),
        ({"load": float("inf")}, "option load: inf"),
        ({"types": {" ": 0.5}}, "option types: ' ': expected the name"),
        ({"types": {"T4": 0.0}}, "option types: T4: 0.0: expected a share above 0"),
        ({"types": {"T4": 1.1}}, "option types: T4: 1.1"),
        ({"types": {"T4": float("nan")}}, "option types: T4: nan"),
        ({"types": {"T4": 0.7, "A10": 0.6}}, "option types: shares of 1.3 in all: expected at most 1"),
    ],
)
def test_bad_options(change: dict[str, object], words: str) -> None:
    options: dict[str, object] = {"preset": "philly", "num_jobs": 10, "seed": 0}
    with pytest.raises(UsageError, match=words):
        generate(**(options | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", PRESETS)
def test_types_are_asked_for_by_shares_and_change_nothing_else(preset: str) -> None:
    table = generate(preset, 1_001, 3, types={"A100": 0.3, " V100 | T4": 0.2})
    assert table.frame.drop("gpu_type").equals(generate(preset, 1_001, 3).frame)
    assert dict(table.frame["gpu_type"].value_counts().rows()) == {"A100": 300, "V100|T4": 200, None: 501}
    assert json.loads(table.metadata["ringbco.options"])["types"] == [["A100", 0.3], [" V100 | T4", 0.2]]
    assert generate(preset, 1_001, 3, types={"A100": 0.3, " V100 | T4": 0.2}).frame.equals(table.frame)
    assert generate(preset, 10, 3, types={"T4": 1 / 3, "A10": 2 / 3}).frame["gpu_type"].null_count() == 0


def test_shapes_are_only_data() -> None:
    flat = dataclasses.replace(SHAPES["philly"], growth=0.0)
    base, _ = fit_durations(flat, flat.sizes)
    assert base == pytest.approx(flat.median, rel=0.01)


# -- the command ---


def test_generate_writes_a_table_and_says_what_is_in_it(invoke: Invoke, tmp_path: Path) -> None:
    arguments = ("generate", "--preset", "philly", "--jobs", 500, "--seed", 4, "--gpus", 128)
    done = invoke(*arguments, "-o", "jobs.parquet")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "500 jobs of preset philly, seed 4, in jobs.parquet" in done.stdout
    assert read_jobs(tmp_path / "jobs.parquet").frame.equals(generate("philly", 500, 4, gpus=128).frame)
    again = invoke(*arguments, "-o", "jobs.parquet")
    assert (again.returncode, again.stdout) == (1, "")
    assert "jobs.parquet: already exists; pass --force" in again.stderr
    assert invoke(*arguments, "-o", "jobs.parquet", "--force", "-q").stdout == ""
    assert invoke(*arguments, "-o", "jobs.csv").returncode == 0
    assert read_jobs(tmp_path / "jobs.csv").frame.equals(read_jobs(tmp_path / "jobs.parquet").frame)


def test_generate_takes_shares_of_types(invoke: Invoke, tmp_path: Path) -> None:
    start = ("generate", "--preset", "philly", "--jobs", 50, "-o", "jobs.parquet", "--types")
    assert invoke(*start, "A100:0.5, V100|T4:.3").returncode == 0
    table = generate("philly", 50, 0, types={"A100": 0.5, "V100|T4": 0.3})
    assert read_jobs(tmp_path / "jobs.parquet").frame.equals(table.frame)
    for wrong in ("", "A100", "A100:x", ":0.5", "A100:0.5,", "A100:nan"):
        done = invoke(*start, wrong, "--force")
        assert done.returncode == 2
        assert "expected TYPE:SHARE,..." in done.stderr
    assert "T4 is given twice" in invoke(*start, "T4:0.1,T4:0.1", "--force").stderr


def test_generate_refuses_bad_options_and_leaves_nothing(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("generate", "--preset", "phily", "--jobs", 5, "-o", "jobs.parquet")
    assert done.returncode == 2
    assert "did you mean philly?" in done.stderr
    assert invoke("generate", "--preset", "philly", "--jobs", 5, "-o", "jobs.xls").returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_load_at_which_jobs_would_come_for_ever_is_refused() -> None:
    with pytest.raises(UsageError, match="option load: 1e-320: expected at least"):
        generate("philly", 20, 1, load=1e-320)
