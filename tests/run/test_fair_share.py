"""Fair share over the past: docs/operators.md by hand, bad input, and how it comes back from a folder."""

import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.case import Case, by_hand
from cases.compare import agreed
from conftest import Invoke
from frames import table
from ringbco.errors import InputError, RingbcoError
from ringbco.trace.fair_shares import FairShares
from ringbco.trace.side_table import ReadContext

JOBS = table(
    job_id=["u1", "v1", "u2", "v2"],
    submit_time=[0.0, 100.0, 150.0, 150.0],
    num_gpus=[4, 2, 4, 4],
    duration=[100.0, 100.0, 10.0, 10.0],
    user=["u", "v", "u", "v"],
)
"""The example of the page: u2 and v2 find no room before 200 s."""


def example(**options: Any) -> list[float]:
    """When the jobs of the example start."""
    given: dict[str, Any] = {"half_life": 100.0, "policy": "fifo", "order": "fairshare", "model": "fixed"}
    outcome = ringbco.replay(JOBS, "1x4", **given | options)
    assert ringbco.audit(outcome, JOBS) == []
    return outcome.jobs["start_time"].to_list()


def frame(share: list[float | None], user: tuple[str, ...] = ("u", "v")) -> pl.DataFrame:
    return pl.DataFrame({"user": user[: len(share)], "share": share})


@pytest.mark.parametrize("queue", ["strict", "skip", "easy"])
@pytest.mark.parametrize(
    ("options", "last"),
    [
        ({}, [200.0, 210.0]),  # a tie, by fifo
        ({"half_life": "99s"}, [200.0, 210.0]),  # u's GPU-seconds have faded more
        ({"half_life": 1000}, [210.0, 200.0]),
        ({"fair_shares": frame([0.99])}, [210.0, 200.0]),
        ({"fair_shares": frame([1.0, 0.0])}, [200.0, 210.0]),
        ({"fair_shares": frame([0.0, None])}, [210.0, 200.0]),
        (
            {"fair_shares": frame([0.0, 0.0]), "half_life": 1000},
            [200.0, 210.0],
        ),  # by fifo
        ({"half_life": 1000, "aging": 50.0}, [200.0, 210.0]),
    ],
)
def test_the_example_of_the_page(queue: str, options: dict[str, Any], last: list[float]) -> None:
    assert example(queue=queue, **options)[2:] == last


def test_owners_are_users_or_else_virtual_clusters() -> None:
    given: dict[str, Any] = {"policy": "fifo", "order": "fairshare", "model": "fixed", "half_life": 1000.0}
    by_vc = JOBS.with_columns(vc=pl.Series(["a", "b", "b", "a"]))
    outcome = ringbco.replay(by_vc, "1x4", **given).jobs["start_time"].to_list()
    assert outcome[2:] == [210.0, 200.0]
    outcome = ringbco.replay(by_vc.drop("user"), "1x4", **given).jobs["start_time"].to_list()
    assert outcome[2:] == [200.0, 210.0]
    with pytest.raises(InputError, match=re.escape("<frame>: a column user or vc, whose jobs share")):
        ringbco.replay(JOBS.drop("user"), "1x4", **given)


def problem(rows: list[tuple[Any, ...]], servers: list[int], **options: Any) -> Case:
    case = by_hand(servers, "submit_time num_gpus duration user", rows, **options)
    case.options |= {"order": "fairshare", "preempt_cost": 0.0}
    case.options.setdefault("half_life", 1e9)
    return case


def starts(case: Case) -> list[float]:
    """By the reference model, which must be the engine's."""
    return list(agreed(case).result.start)


def test_time_alone_makes_no_pass() -> None:
    """At 5 s both used the same, so that v's next is first, and finds no room. Later u's would be first."""
    rows = [(0.0, 2, 5.0, "u"), (0.0, 2, 103.0, "v"), (4.0, 4, 1.0, "v"), (4.0, 2, 1.0, "u")]
    for clock in ({}, {"clock": "slot", "slot": 1.0}):
        assert starts(problem(rows, [4], half_life=1.0, **clock)) == [0.0, 0.0, 104.0, 103.0]


def test_a_share_of_a_gpu_counts_its_part() -> None:
    rows = [(0.0, 1, 10.0, "u"), (0.0, 1, 10.0, "v"), (5.0, 2, 1.0, "u"), (5.0, 2, 1.0, "v")]
    case = problem(rows, [2])
    for job, share in zip(case.jobs, (None, 0.5, None, None), strict=True):
        job["gpu_share"] = share
    assert starts(case) == [0.0, 0.0, 11.0, 10.0]


def test_who_is_evicted_waits_where_its_owner_stands() -> None:
    """c evicts a at 10 s. a's owner used 20 GPU-seconds, b's none: b goes first at 20 s."""
    rows = [(0.0, 2, 30.0, "u"), (5.0, 2, 10.0, "v"), (10.0, 2, 10.0, "w")]
    case = problem(rows, [2], evict=True)
    for job, priority in zip(case.jobs, (0, 0, 1), strict=True):
        job["priority"] = priority
    result = agreed(case).result
    assert (list(result.start), list(result.finish)) == ([0.0, 20.0, 10.0], [50.0, 30.0, 20.0])


def test_each_owner_of_a_quota_is_looked_at_anew() -> None:
    """u's next goes behind v's and w's, who used less by then, and w may hold one GPU only."""
    rows = [
        (0.0, 2, 10.0, "u"),
        (1.0, 2, 10.0, "u"),
        (1.0, 2, 10.0, "v"),
        (1.0, 1, 10.0, "w"),
        (1.0, 1, 5.0, "w"),
    ]
    quota = [{"user": "w", "gpus": 1, "borrow": False}]
    assert starts(problem(rows, [2], quota=quota)) == [0.0, 35.0, 10.0, 20.0, 30.0]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("user,share\nu,1\nv,-1\n", "row 2 (line 3), column share: -1: expected a finite number >= 0"),
        ("user,share\nu,nan\n", "row 1 (line 2), column share: nan: expected a finite number >= 0"),
        ("user,share\nu,much\n", "row 1 (line 2), column share: much: expected a finite number >= 0"),
        ("user\nu\nv\nu\n", "row 3 (line 4), column user: u: expected every owner once"),
        ("user\nu\nx\n", "row 2 (line 3), column user: x: expected an owner of jobs"),
        (
            "vc\nu\n",
            "row 1 (line 2), column vc: u: expected an owner of jobs: the job table has no column vc",
        ),
        ("share\n1\n", "has no column of owners; beside share give a column of the job table, such as user"),
    ],
)
def test_a_bad_file(tmp_path: Path, rows: str, told: str) -> None:
    (tmp_path / "s.csv").write_text(rows)
    with pytest.raises(InputError) as caught:
        FairShares.read(tmp_path / "s.csv", ReadContext(JOBS))
    assert str(caught.value).startswith(f"{tmp_path / 's.csv'}: {told}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"half_life": 0.0}, "option half-life: 0.0: expected a time > 0 and <= 1e+16 s"),
        ({"half_life": math.inf}, "option half-life: inf: expected a time > 0 and <= 1e+16 s"),
        ({"order": "fifo", "fair_shares": "s.csv"}, "option fair-shares: 's.csv': expected order fairshare"),
    ],
)
def test_a_bad_option(options: dict[str, Any], told: str) -> None:
    with pytest.raises(RingbcoError, match=re.escape(told)):
        example(**options)


def test_the_folder_tells_it_all(invoke: Invoke) -> None:
    JOBS.write_csv("jobs.csv")
    Path("shares.csv").write_text("user,share\nv,2\n")
    given = ("--order", "fairshare", "--half-life", "7d", "--fair-shares", "shares.csv", "--model", "fixed")
    ran = invoke(
        *("replay", "jobs.csv", "--cluster", "1x4", "--policy", "fifo", *given, "--decisions", "-o", "r")
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    outcome = ringbco.Outcome.read("r")
    assert outcome.run["options"]["half_life"] == 604_800.0
    assert outcome.run["fair_shares"]["path"] == "shares.csv"
    assert outcome.fair_shares is not None
    assert outcome.fair_shares.rows() == [(None, "v", 2.0)]
    assert invoke("audit", "r").returncode == 0
    Path("shares.csv").unlink()  # the folder has a copy
    for more in (("--again", "r"), ("--policy", "log:r/decisions.parquet", "jobs.csv", "--cluster", "1x4")):
        assert invoke("replay", *more, *(("-o", "log") if "jobs.csv" in more else ())).returncode == 0
    assert Path("r/jobs.parquet").read_bytes() == Path("log/jobs.parquet").read_bytes()
    (queue,) = (fact for fact in outcome.why("u2").facts if fact.kind == "queue")
    assert (queue.figures["place"], queue.figures["ahead"]) == (2, ["v2"])
    assert "In the order of fairshare it was number 2" in " ".join(outcome.why("u2").sentences)


def test_why_tells_the_place_of_an_owner_without_a_share() -> None:
    jobs = table(job_id=["a", "c", "b"], submit_time=[0.0, 0.0, 1.0], num_gpus=4, user=["u", "u", "w"])
    told = pl.DataFrame({"user": ["w"], "share": [0.0]})
    outcome = ringbco.replay(jobs, "1x4", policy="fifo", order="fairshare", model="fixed", fair_shares=told)
    (queue,) = (fact for fact in outcome.why("b").facts if fact.kind == "queue")
    assert (queue.figures["place"], queue.figures["ahead"]) == (2, ["c"])


def test_a_sweep_and_a_comparison_take_shares(tmp_path: Path) -> None:
    JOBS.write_csv(tmp_path / "jobs.csv")
    frame([0.0]).write_csv(tmp_path / "s.csv")
    (tmp_path / "sweep.toml").write_text(
        '[base]\ntrace = "jobs.csv"\ncluster = "1x4"\nmodel = "fixed"\npolicy = "fifo"\norder = "fairshare"\n'
        '[grid]\nfair-shares = ["none", "s.csv"]\nhalf-life = [1e3]\n'
    )
    result = ringbco.sweep(tmp_path / "sweep.toml", tmp_path / "out").frame
    assert result["error"].null_count() == result.height == 2
    runs = {
        "fifo": {"policy": "fifo"},
        "fair": {"policy": "fifo", "order": "fairshare", "fair_shares": frame([None, 0.0])},
    }
    compared = ringbco.compare(JOBS, "1x4", runs=runs, model="fixed")
    assert compared.outcomes["fair"].fair_shares is not None
    assert compared.outcomes["fifo"].fair_shares is None
