"""Figures by owner, how unequal users fare, and who pays, against what is worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from ringbco import compare, replay
from ringbco.errors import UsageError
from ringbco.result.fairness import by_owner, inequality, others, payers
from ringbco.result.metrics import gini

ROWS = {
    "job_id": ["a0", "b0", "a1", "b1", "c0", "n0"],
    "user": ["a", "b", "a", "b", "c", None],
    "submit_time": [0.0, 0.0, 0.0, 10.0, 10.0, 10.0],
    "num_gpus": [4, 4, 2, 1, 8, 1],
    "duration": [100.0, 300.0, 50.0, 20.0, 40.0, 30.0],
}


@pytest.fixture(scope="module")
def jobs() -> pl.DataFrame:
    return pl.DataFrame(ROWS)


def test_figures_of_each_user_are_those_of_its_rows(jobs: pl.DataFrame) -> None:
    outcome = replay(jobs, "1x8", policy="fifo", model="fixed")
    frame = by_owner(outcome, "user")
    assert frame["owner"].to_list() == ["b", "a", "c"]  # 1,220, 500 and 320 GPU-seconds
    hours = [1220 / 3600, 500 / 3600, 320 / 3600]
    assert frame["gpu_hours"].to_list() == pytest.approx(hours)
    assert frame["share"].to_list() == pytest.approx([hour / sum(hours) for hour in hours])
    assert frame["due"].to_list() == pytest.approx([1 / 3] * 3)
    assert frame["ratio"].to_list() == pytest.approx([3 * hour / sum(hours) for hour in hours])
    for row in frame.iter_rows(named=True):
        own = outcome.jobs.filter(pl.col("user") == row["owner"])
        assert row["jobs"] == own.height
        assert row["mean_wait"] == pytest.approx(own["waited"].mean())
        assert row["mean_slowdown"] == pytest.approx(own["slowdown"].mean())


def test_the_others_fare_as_their_rows_do(jobs: pl.DataFrame) -> None:
    outcome = replay(jobs, "1x8", policy="fifo", model="fixed")
    frame = by_owner(outcome, "user").filter(pl.col("owner") != "b")
    own = outcome.jobs.filter(pl.col("user").is_in(["a", "c"]))
    told = others(outcome, "user", ["b"])
    assert told is not None
    assert told["jobs"] == own.height == 3
    assert told["gpu_hours"] == pytest.approx((500 + 320) / 3600)
    assert told["due"] == pytest.approx(2 / 3)
    assert told["ratio"] == pytest.approx(frame["share"].sum() / (2 / 3))
    assert told["mean_wait"] == pytest.approx(own["waited"].mean())
    assert told["mean_slowdown"] == pytest.approx(own["slowdown"].mean())
    assert others(outcome, "user", ["a", "b", "c"]) is None


def test_quotas_say_what_is_due(jobs: pl.DataFrame) -> None:
    quota = pl.DataFrame({"user": ["a", "b"], "gpus": [6, 2], "borrow": [True, True]})
    frame = by_owner(replay(jobs, "1x8", policy="fifo", quota=quota), "user")
    due = dict(zip(frame["owner"], frame["due"], strict=True))
    assert due == {"a": 0.75, "b": 0.25, "c": None}
    ratio = dict(zip(frame["owner"], frame["ratio"], strict=True))
    assert ratio["c"] is None
    share = dict(zip(frame["owner"], frame["share"], strict=True))
    assert ratio["a"] == pytest.approx(share["a"] / 0.75)


def test_inequality_is_that_of_users_speeds(jobs: pl.DataFrame) -> None:
    outcome = replay(jobs, "1x8", policy="fifo", model="fixed")
    own = outcome.jobs.filter(pl.col("user").is_not_null())
    speeds = (
        own.group_by("user").agg((pl.col("ideal_run_time") / pl.col("jct")).mean().alias("speed"))["speed"]
    ).to_list()
    told = inequality(outcome)
    assert told["jain"] == pytest.approx(outcome.summary["jain_index_users"])
    assert told["jain"] == pytest.approx(sum(speeds) ** 2 / (3 * sum(x * x for x in speeds)))
    pairs = sum(abs(x - y) for x in speeds for y in speeds)
    assert told["gini"] == pytest.approx(pairs / (2 * 9 * (sum(speeds) / 3)))
    assert told["worst"] == pytest.approx(min(speeds))
    assert inequality(replay(jobs.drop("user"), "1x8")) == {}


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 1.0, 1.0], 0.0), ([0.0, 0.0, 0.0, 1.0], 0.75), ([3.0, 1.0], 0.25), ([5.0], 0.0)],
)
def test_gini(values: list[float], expected: float) -> None:
    assert gini(np.array(values)) == pytest.approx(expected)


def test_who_pays_is_who_waits_longer(jobs: pl.DataFrame) -> None:
    comparison = compare(jobs, "1x8", ["srtf", "fifo"], model="fixed")
    frame = comparison.by("user")
    wait = {(row["policy"], row["owner"]): row["mean_wait"] for row in frame.iter_rows(named=True)}
    longer = {owner for owner in "abc" if wait["fifo", owner] > wait["srtf", owner]}
    assert longer
    (line,) = payers(comparison.outcomes, "srtf", "user")
    assert line.startswith("longer waits under fifo than under srtf: user ")
    assert {owner for owner in "abc" if f"user {owner} " in line} == longer
    same = compare(jobs, "1x8", ["fifo"], runs={"again": {"policy": "fifo"}}, model="fixed")
    assert list(payers(same.outcomes, "fifo", "user")) == [
        "no user and no job size waits longer under again than under fifo"
    ]


def test_what_is_refused(jobs: pl.DataFrame) -> None:
    outcome = replay(jobs, "1x8")
    with pytest.raises(UsageError, match="by: 'group': expected one of user, vc"):
        by_owner(outcome, "group")
    with pytest.raises(UsageError, match="by: vc: expected a job table whose column vc"):
        by_owner(outcome, "vc")


def test_the_command(invoke: Invoke, jobs: pl.DataFrame, tmp_path: Path) -> None:
    jobs.write_csv(tmp_path / "jobs.csv")
    policies = ("--policy", "fifo", "--policy", "srtf")
    given = ("compare", "jobs.csv", "--cluster", "1x8", *policies)
    done = invoke(*given, "--by", "user", "-o", "cmp")
    assert (done.returncode, done.stderr) == (0, "")
    output = json.loads(invoke(*given, "--by", "user", "-o", "cmp", "--force", "--json").stdout)
    assert {row["owner"] for row in output["by_user"]} == {"a", "b", "c"}
    printed = " ".join(done.stdout.split())
    assert all(line in printed for line in output["who_pays"])
    assert f"Gini {output['inequality']['fifo']['gini']:.3f}" in printed
    many = [{"job_id": f"j{n}", "user": f"u{n}", "submit_time": 0, "num_gpus": 8} for n in range(23)]
    pl.DataFrame(many).with_columns(duration=pl.int_range(100, 77, -1)).write_csv(tmp_path / "many.csv")
    output = invoke(
        "compare", "many.csv", *given[2:], "--by", "user", "-o", "many", "--model", "fixed"
    ).stdout
    row = next(line.split() for line in output.splitlines() if line.strip().startswith("3 more"))
    # Of 23 jobs srtf, the best, runs the last three first: after 0, 78, 157 s; fifo last: 1810, 1890, 1969.
    assert row == ["3", "more", "3", "0.53", "13.0", "%", "78.3", "s", "31.5", "min"]
    refused = invoke(*given, "--by", "vc", "-o", "cmp2")
    assert refused.returncode == 2
    assert "option by: vc: the job table has no column" in refused.stderr
    assert not (tmp_path / "cmp2").exists()
