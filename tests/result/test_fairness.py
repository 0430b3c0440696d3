"""Figures by owner, how unequal users fare, and who pays, against what is worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from ringbco import Outcome, compare, replay
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
    # 1,220, 500 and 320 GPU-seconds, and 30 of the job that names no user.
    assert frame["owner"].to_list() == ["b", "a", "c", "nobody"]
    hours = [1220 / 3600, 500 / 3600, 320 / 3600, 30 / 3600]
    assert frame["gpu_hours"].to_list() == pytest.approx(hours)
    assert frame["share"].to_list() == pytest.approx([hour / sum(hours) for hour in hours])
    assert frame["due"].to_list() == pytest.approx([1 / 4] * 4)
    assert frame["ratio"].to_list() == pytest.approx([4 * hour / sum(hours) for hour in hours])
    for row in frame.iter_rows(named=True):
        own = outcome.jobs.filter(pl.col("user").fill_null("nobody") == row["owner"])
        assert row["jobs"] == own.height
        assert row["mean_wait"] == pytest.approx(own["waited"].mean())
        assert row["mean_slowdown"] == pytest.approx(own["slowdown"].mean())


def test_the_others_fare_as_their_rows_do(jobs: pl.DataFrame) -> None:
    outcome = replay(jobs, "1x8", policy="fifo", model="fixed")
    frame = by_owner(outcome, "user").filter(~pl.col("owner").is_in(["b", "nobody"]))
    own = outcome.jobs.filter(pl.col("user").is_in(["a", "c"]))
    told = others(outcome, "user", ["b", "nobody"])
    assert told is not None
    assert told["jobs"] == own.height == 3
    assert told["gpu_hours"] == pytest.approx((500 + 320) / 3600)
    assert told["due"] == pytest.approx(2 / 4)
    assert told["ratio"] == pytest.approx(frame["share"].sum() / (2 / 4))
    assert told["mean_wait"] == pytest.approx(own["waited"].mean())
    assert told["mean_slowdown"] == pytest.approx(own["slowdown"].mean())
    assert others(outcome, "user", ["a", "b", "c", "nobody"]) is None


def test_quotas_say_what_is_due(jobs: pl.DataFrame) -> None:
    quota = pl.DataFrame({"user": ["a", "b"], "gpus": [6, 2], "borrow": [True, True]})
    frame = by_owner(replay(jobs, "1x8", policy="fifo", quota=quota), "user")
    due = dict(zip(frame["owner"], frame["due"], strict=True))
    assert due == {"a": 0.75, "b": 0.25, "c": None, "nobody": None}
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
    with pytest.raises(UsageError, match=r"by: usr: .* has no column of that name; did you mean user\?"):
        by_owner(outcome, "usr")
    with pytest.raises(
        UsageError, match="by: duration: expected a column of text or of integers, not of Flo"
    ):
        by_owner(outcome, "duration")
    silent = replay(jobs.with_columns(account=pl.lit(None, pl.String)), "1x8")
    with pytest.raises(UsageError, match="by: account: expected a job table whose column account says"):
        by_owner(silent, "account")


def test_owners_of_any_column_are_those_of_the_job_table(jobs: pl.DataFrame, tmp_path: Path) -> None:
    table = jobs.with_columns(account=pl.Series([7, 8, 7, None, 8, 8]))
    table.write_parquet(tmp_path / "jobs.parquet")
    replay(tmp_path / "jobs.parquet", "1x8", policy="fifo", model="fixed").write(tmp_path / "r")
    outcome = Outcome.read(tmp_path / "r")
    frame = by_owner(outcome, "account")
    owners = dict(frame.select("owner", "jobs").rows())
    assert owners == {"7": 2, "8": 3, "nobody": 1}
    assert by_owner(outcome, "num_gpus")["owner"].n_unique() == 4
    (tmp_path / "jobs.parquet").unlink()
    with pytest.raises(UsageError, match=r"by: account: expected .*, but .*jobs\.parquet is not there"):
        by_owner(outcome, "account")


def test_what_is_due_is_of_the_first_file(jobs: pl.DataFrame) -> None:
    quotas = [
        pl.DataFrame({"user": ["a", "b"], "gpus": [6, 2], "borrow": [True, True]}),
        pl.DataFrame({"user": ["a", "b"], "gpus": [8, 8], "borrow": [False, False]}),
        pl.DataFrame({"account": ["x"], "gpus": [8], "borrow": [True]}),
    ]
    table = jobs.with_columns(account=pl.Series(["x", "x", "x", "y", "y", None]))
    outcome = replay(table, "1x8", policy="fifo", quota=quotas)
    due = dict(by_owner(outcome, "user").select("owner", "due").rows())
    assert due == {"a": 0.75, "b": 0.25, "c": None, "nobody": None}
    assert by_owner(outcome, "account")["due"].to_list() == pytest.approx([1 / 3] * 3)


def test_the_command(invoke: Invoke, jobs: pl.DataFrame, tmp_path: Path) -> None:
    jobs.write_csv(tmp_path / "jobs.csv")
    policies = ("--policy", "fifo", "--policy", "srtf")
    given = ("compare", "jobs.csv", "--cluster", "1x8", *policies)
    done = invoke(*given, "--by", "user", "-o", "cmp")
    assert (done.returncode, done.stderr) == (0, "")
    output = json.loads(invoke(*given, "--by", "user", "-o", "cmp", "--force", "--json").stdout)
    assert {row["owner"] for row in output["by_user"]} == {"a", "b", "c", "nobody"}
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


def test_by_twice_in_compare_diff_and_report(invoke: Invoke, jobs: pl.DataFrame) -> None:
    """What each prints are the figures of the owners' rows, of a column that no result has."""
    table = jobs.with_columns(account=pl.Series(["x", "x", "y", None, "y", "y"]))
    table.write_csv("jobs.csv")
    given = ("compare", "jobs.csv", "--cluster", "1x8", "--model", "fixed", "--seeds", "1")
    done = invoke(
        *given,
        "--policy",
        "fifo",
        "--policy",
        "srtf",
        "--by",
        "account",
        "--by",
        "user",
        "-o",
        "cmp",
        "--json",
    )
    output = json.loads(done.stdout)
    wait = {(row["policy"], row["owner"]): row["mean_wait"] for row in output["by_account"]}
    assert {owner for _, owner in wait} == {"x", "y", "nobody"}
    assert {row["owner"] for row in output["by_user"]} == {"a", "b", "c", "nobody"}
    own = Outcome.read("cmp/fifo").jobs.filter(table["account"] == "y")
    assert wait["fifo", "y"] == pytest.approx(own["waited"].mean())
    assert any("account" in line for line in output["who_pays"])
    found = json.loads(invoke("diff", "cmp/fifo", "cmp/srtf", "--by", "account", "--json").stdout)
    told = {group["owner"]: group["mean_jct"]["difference"] for group in found["by_account"]}
    jct = {name: Outcome.read(f"cmp/{name}").jobs["jct"] for name in ("fifo", "srtf")}
    difference = (jct["srtf"] - jct["fifo"]).filter(table["account"] == "y")
    assert told["y"] == pytest.approx(difference.mean())
    assert set(told) == {"x", "y", "nobody"}
    printed = invoke("diff", "cmp/fifo", "cmp/srtf", "--by", "account", "--by", "vc", "-o", "d.html")
    assert printed.returncode == 2
    assert "option by: vc: the job table has no column of that name" in printed.stderr
    printed = invoke("diff", "cmp/fifo", "cmp/srtf", "--by", "account", "-o", "d.html")
    assert " account " in printed.stdout
    assert "By account" in Path("d.html").read_text()
    assert invoke("report", "cmp", "--by", "account", "--by", "user", "-o", "r.html").returncode == 0
    page = Path("r.html").read_text()
    for title in ("Delay by account", "Delay by user", "Slowdown by account", "Slowdown by user"):
        assert title in page
    refused = invoke("report", "cmp", "--by", "acount", "-o", "s.html")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert (
        "option by: acount: the job table has no column of that name; did you mean account?" in refused.stderr
    )
