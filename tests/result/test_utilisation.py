"""Utilisation up to the last submission, against what the allocations say of each run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from ringbco import audit, plan, replay
from ringbco.cluster.spec import Cluster
from ringbco.result.outcome import Outcome

KEY = "utilisation_to_last_submission"
NAMES = ("fifo", "sjf-bco", "srtf", "tiresias", "gittins", "time-slice", "ftf", "qssf", "edf")


@pytest.fixture
def frame() -> pl.DataFrame:
    """Jobs that queue for two virtual clusters, the last of them while many still run."""
    draw = np.random.default_rng(5)
    jobs = 120
    submit = np.sort(draw.uniform(0, 9_000, jobs)).round(1)
    return pl.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(jobs)],
            "submit_time": submit,
            "num_gpus": pl.Series(draw.choice([1, 2, 4, 8], jobs), dtype=pl.UInt32),
            "duration": draw.lognormal(6.5, 1.2, jobs).round(1),
            "user": draw.choice(["u", "v", "w"], jobs),
            "vc": draw.choice(["left", "right"], jobs),
            "deadline": submit + 4_000.0,
        }
    )


@pytest.fixture
def parted(tmp_path: Path) -> Cluster:
    text = '[[servers]]\ncount = 2\ngpus = 8\nvc = "left"\n[[servers]]\ngpus = 8\nvc = "right"\n'
    (tmp_path / "parted.toml").write_text(text)
    return Cluster.parse(tmp_path / "parted.toml")


def held(outcome: Outcome, jobs: pl.DataFrame, gpus: int) -> float:
    """The same figure, second by second of the allocations of `jobs`."""
    first, last = jobs["submit_time"].min(), jobs["submit_time"].max()
    assert outcome.allocations is not None
    mine = outcome.allocations.join(jobs.select("job_id"), on="job_id")
    seconds = (mine["end_time"].clip(upper_bound=last) - mine["start_time"]).clip(lower_bound=0)
    return float((mine["num_gpus"] * seconds).sum() / (gpus * (last - first)))


@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("policy", NAMES)
def test_it_is_what_the_allocations_say(frame: pl.DataFrame, policy: str, clock: str) -> None:
    outcome = replay(frame, "2x8", policy=policy, clock=clock, admission=policy == "edf")
    if policy in ("srtf", "tiresias", "time-slice"):
        assert outcome.summary["preemptions"] > 0
    if policy == "edf":
        assert outcome.summary["jobs_refused"] > 0
    assert outcome.summary[KEY] == pytest.approx(held(outcome, outcome.jobs, 16), rel=1e-12)
    assert 0.3 < outcome.summary[KEY] <= 1.0 + 1e-12
    assert audit(outcome, frame) == []
    alone = replay(frame, "2x8", policy=policy, clock=clock, admission=policy == "edf", allocations=False)
    assert alone.summary[KEY] == outcome.summary[KEY]


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_each_virtual_cluster_has_a_window_of_its_own(
    frame: pl.DataFrame, parted: Cluster, policy: str
) -> None:
    # The left one takes its last job long before the right one does.
    frame = frame.filter((pl.col("vc") == "right") | (pl.col("submit_time") < 4_000))
    outcome = replay(frame, parted, policy=policy)
    assert outcome.summary[KEY] == pytest.approx(held(outcome, outcome.jobs, 24), rel=1e-12)
    for row, gpus in zip(outcome.summary["vcs"], (16, 8), strict=True):
        mine = outcome.jobs.filter(pl.col("vc") == row["vc"])
        assert row[KEY] == pytest.approx(held(outcome, mine, gpus), rel=1e-12)
    assert audit(outcome, frame) == []


def test_without_a_window_there_is_no_such_share(frame: pl.DataFrame) -> None:
    at_once = frame.with_columns(submit_time=pl.lit(3.0))
    outcome = replay(at_once, "2x8", policy="fifo")
    assert KEY not in outcome.summary
    assert KEY not in plan(at_once.drop("vc"), "2x8").summary
    assert audit(outcome, at_once) == []
    outcome.summary[KEY] = 0.5
    assert [finding.message.split(" is ")[0] for finding in audit(outcome, at_once)] == [KEY]


def test_where_every_server_was_down_it_is_null(parted: Cluster) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c", "d"],
            "submit_time": [0.0, 5.0, 10.0, 10.0],
            "num_gpus": [1, 2, 1, 1],
            "duration": [10.0, 20.0, 5.0, 5.0],
            "vc": ["left", "right", "left", "right"],
        }
    )
    down = pl.DataFrame({"server": [0, 1, 2], "down_at": [0.0] * 3, "up_at": [20.0, 20.0, 7.5]})
    whole = down.with_columns(up_at=pl.lit(20.0))
    outcome = replay(jobs, parted, policy="fifo", outages=whole)
    assert KEY in outcome.summary
    assert outcome.summary[KEY] is None
    assert [row[KEY] for row in outcome.summary["vcs"]] == [None, None]
    assert audit(outcome, jobs) == []
    outcome.summary[KEY] = 0.5
    del outcome.summary["vcs"][0][KEY]
    outcome.summary["vcs"][1][KEY] = 0.0
    said = [finding.message for finding in audit(outcome, jobs)]
    assert said == [f"{KEY} is 0.5; expected none", f"right: {KEY} is 0; expected none"]

    apart = replay(jobs, parted, policy="fifo", outages=down)
    assert [row[KEY] for row in apart.summary["vcs"]] == [None, pytest.approx(0.25)]
    assert apart.summary[KEY] == pytest.approx(0.25)
    assert audit(apart, jobs) == []
    apart.summary[KEY] = None
    assert [finding.message.split(" is ")[0] for finding in audit(apart, jobs)] == [KEY]

    at_once = replay(jobs.with_columns(submit_time=0.0), "2x8", policy="fifo", outages=whole[:2])
    assert KEY not in at_once.summary


@pytest.mark.usefixtures("unvalidated")
def test_what_reads_results_copes_with_null(invoke: Invoke, tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 5.0], "num_gpus": [1, 1], "duration": [9.0, 9.0]}
    )
    down = pl.DataFrame({"server": [0], "down_at": [0.0], "up_at": [20.0]})
    jobs.write_csv(tmp_path / "jobs.csv")
    down.write_csv(tmp_path / "down.csv")
    (tmp_path / "sweep.toml").write_text(
        '[base]\ntrace = "jobs.csv"\ncluster = "1x8"\noutages = "down.csv"\n[grid]\npolicy = ["fifo"]\n'
    )
    arguments = (tmp_path / "jobs.csv", "--cluster", "1x8", "--outages", tmp_path / "down.csv")
    for command in (
        ("replay", *arguments, "--policy", "fifo", "-o", tmp_path / "one"),
        ("audit", tmp_path / "one", "--jobs", tmp_path / "jobs.csv"),
        ("compare", *arguments, "--policy", "fifo", "--policy", "sjf", "-o", tmp_path / "both"),
        ("sweep", tmp_path / "sweep.toml", "-o", tmp_path / "sweep"),
        ("report", tmp_path / "one", "-o", tmp_path / "one.html"),
        ("report", tmp_path / "both", "-o", tmp_path / "both.html"),
        ("report", tmp_path / "sweep", "-o", tmp_path / "sweep.html"),
    ):
        result = invoke(*command)
        assert result.returncode == 0, (command, result.stderr)
    assert Outcome.read(tmp_path / "one").summary[KEY] is None


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_the_audit_works_it_out_again(frame: pl.DataFrame, parted: Cluster, policy: str) -> None:
    outcome = replay(frame, parted, policy=policy)
    outcome.summary[KEY] += 1e-6
    assert [finding.message.split(" is ")[0] for finding in audit(outcome, frame)] == [KEY]
    outcome.summary[KEY] -= 1e-6
    outcome.summary["vcs"][1][KEY] += 1e-6
    assert [finding.message.split(" is ")[0] for finding in audit(outcome, frame)] == [f"right: {KEY}"]
