"""Maintenance that is known ahead: who keeps clear of it, and what the result tells of it."""

from pathlib import Path

import polars as pl
import pytest

import ringbco
from cases.case import by_hand
from cases.compare import agreed
from cases.draw import FEATURES, build, toss
from cases.run import look
from conftest import Invoke
from ringbco.audits import check_outcome
from ringbco.errors import InputError, UsageError

WINDOWS = pl.DataFrame({"server": [0], "down_at": [100.0], "up_at": [150.0]})
POLICIES = ("fifo", "sjf", "smallest", "qssf", "ff", "ls", "srtf", "srsf")


def jobs(*durations: float) -> pl.DataFrame:
    names = [f"j{number}" for number in range(len(durations))]
    return pl.DataFrame({"job_id": names, "submit_time": 0.0, "num_gpus": 4, "duration": durations})


def starts(table: pl.DataFrame, **options: object) -> list[float]:
    given = {"model": "fixed", "policy": "fifo", "maintenance": WINDOWS} | options
    outcome = ringbco.replay(table, "2x4", **given)
    assert check_outcome(outcome, ringbco.trace.jobs.from_frame(table)).findings == []
    return outcome.jobs["start_time"].to_list()


def test_who_ends_as_a_server_goes_down_may_start_and_nobody_longer() -> None:
    for queue in ("strict", "skip", "easy"):
        assert starts(jobs(60, 120, 40), queue=queue) == [0, 0, 60]
        assert starts(jobs(60, 120, 41), queue=queue) == [0, 0, 120]


def test_easy_claims_anew_when_a_job_ends_before_its_estimate() -> None:
    # Up to 9 s the head (the third) must wait for the server to come back. Then 17 s will do, and the
    # last would be in its way.
    rows = [(0.0, 1, 9.0), (6.0, 1, 4.0), (7.0, 5, 0.25), (8.0, 1, 4.5), (8.5, 3, 4.25)]
    case = by_hand(
        (5,), "submit_time num_gpus duration", rows, policy="fifo", queue="easy", estimate_factor=2.0,
        maintenance=[{"server": 0, "down_at": 18.0, "up_at": 23.0, "cause": None}],
    )  # fmt: skip
    agreed(case)
    assert case.replay().jobs["start_time"].to_list() == [0.0, 6.0, 12.5, 8.0, 23.0]


def test_the_estimate_is_multiplied_and_others_meet_an_outage() -> None:
    assert starts(jobs(60, 120, 41), queue="easy", estimate_factor=0.5) == [0, 0, 60]
    assert starts(jobs(60, 120, 41), policy="tiresias", preempt_cost=0.0) == [0, 0, 60]


@pytest.mark.parametrize("limit", [float("inf"), None])
@pytest.mark.parametrize("queue", ["strict", "skip", "easy", "conservative"])
def test_a_job_without_a_limit_runs_for_ever_by_limits(queue: str, limit: float | None) -> None:
    """It starts where no window is to come: on server 1, and on server 0 once it is back at 150 s."""
    table = jobs(60, 120, 40).with_columns(time_limit=pl.lit(limit, pl.Float64))
    assert starts(table, queue=queue, estimate="limit") == [0, 60, 150]
    table = table.with_columns(time_limit=pl.Series([limit, 100.0, limit], dtype=pl.Float64))
    assert starts(table, queue=queue, estimate="limit") == [0, 0, 60]


def test_a_shorter_job_of_the_same_size_finds_room() -> None:
    assert starts(jobs(60, 400, 300, 30), queue="skip") == [0, 0, 150, 60]
    assert starts(jobs(60, 400, 300, 30), queue="strict") == [0, 0, 150, 400]


def test_easy_reserves_when_a_server_comes_back() -> None:
    """The head begins at 150 on server 0; a job of 80 s on its GPUs is over at 140."""
    windows = pl.DataFrame({"server": [1], "down_at": [0.0], "up_at": [150.0]})
    table = jobs(60, 400, 80)
    table = table.with_columns(num_gpus=pl.Series([4, 8, 4], dtype=pl.UInt32))
    assert starts(table, queue="easy", maintenance=windows) == [0, 150, 60]
    table = table.with_columns(duration=pl.Series([60.0, 400.0, 91.0]))
    assert starts(table, queue="easy", maintenance=windows) == [0, 150, 550]


def test_easy_looks_at_a_longer_job_of_a_size_whose_shorter_one_is_in_the_way() -> None:
    """The head, the third, needs server 0 at 50 s. The fourth would be put there, and be in its way.

    The fifth is as large. It would run on into server 0's maintenance, so that it goes to server 1.
    """
    rows = [(0.0, 2, 50.0), (0.0, 1, 1000.0), (0.0, 4, 20.0), (0.0, 2, 60.0), (0.0, 2, 500.0)]
    case = by_hand(
        (4, 4), "submit_time num_gpus duration", rows, policy="fifo", queue="easy",
        maintenance=[{"server": 0, "down_at": 400.0, "up_at": 450.0, "cause": None}],
    )  # fmt: skip
    agreed(case)
    assert case.replay().jobs["start_time"].to_list() == [0.0, 0.0, 50.0, 70.0, 0.0]


def test_easy_around_maintenance_equals_its_reference() -> None:
    """Random cases with both, and what else their coins say: see `make reference-cases` for more of them."""
    for seed in range(40):
        name = f"easy and maintenance {seed}"
        others = {"own_policy", "policy", "conservative"}
        features = tuple(f for f in FEATURES if (f in toss(name) or f == "maintenance") and f not in others)
        case = build(name, features)
        case.options |= {"policy": case.options.get("policy") or "fifo", "queue": "easy"}
        seen = look(case)
        assert seen.faults == [], case.script()


@pytest.mark.parametrize("policy", POLICIES)
def test_everything_meets_maintenance(policy: str) -> None:
    """Random cases under an order, or srtf and srsf, and equal to their reference models."""
    for seed in range(4):
        name = f"{policy} {seed}"
        drawn = toss(name)
        others = {"own_policy", "policy", "order"}
        features = tuple(f for f in FEATURES if (f in drawn or f == "maintenance") and f not in others)
        case = build(name, features)
        case.options["policy"] = policy
        seen = look(case)
        assert seen.faults == [], case.script()


def test_the_result_can_be_repeated_and_its_log_followed(invoke: Invoke, tmp_path: Path) -> None:
    table, failures = tmp_path / "jobs.csv", tmp_path / "failures.csv"
    jobs(60, 120, 41).write_csv(table)
    WINDOWS.write_csv(tmp_path / "windows.csv")
    WINDOWS.with_columns(server=pl.Series([1], dtype=pl.Int64), down_at=90.0, up_at=130.0).write_csv(failures)
    known = ["--maintenance", tmp_path / "windows.csv"]
    run = ["--cluster", "2x4", "--policy", "fifo", "--model", "fixed", *known, "--outages", failures]
    assert invoke("replay", table, *run, "--decisions", "-o", "first").returncode == 0
    first = tmp_path / "first"
    assert pl.read_parquet(first / "maintenance.parquet").rows() == [(0, 100.0, 150.0, "maintenance")]
    assert pl.read_parquet(first / "outages.parquet").height == 2
    again = invoke("replay", "--again", first, "-o", "again")
    assert again.returncode == 0, again.stderr
    log = f"log:{first / 'decisions.parquet'}"
    followed = invoke("replay", table, "--cluster", "2x4", "--policy", log, *known, "-o", "followed")
    assert followed.returncode == 0, followed.stderr
    for name in ("jobs", "allocations", "stays", "servers", "outages", "maintenance"):
        told = (first / f"{name}.parquet").read_bytes()
        assert (tmp_path / "again" / f"{name}.parquet").read_bytes() == told
        assert (tmp_path / "followed" / f"{name}.parquet").read_bytes() == told
    both = ["--policy", "fifo", "--policy", "srtf"]
    compared = invoke("compare", table, "--cluster", "2x4", *both, *known, "-o", "cmp")
    assert compared.returncode == 0, compared.stderr


def test_bad_windows_are_told_in_one_line() -> None:
    for frame, said in (
        (WINDOWS.with_columns(server=pl.lit(2)), "column server: 2: expected the index of a server"),
        (WINDOWS.with_columns(up_at=pl.lit(100.0)), "column up_at: 100"),
        (WINDOWS.drop("up_at"), "has no column up_at"),
    ):
        with pytest.raises(InputError, match=said):
            starts(jobs(1), maintenance=frame)
    with pytest.raises(UsageError, match="option maintenance: 5"):
        starts(jobs(1), maintenance=5)
    with pytest.raises(UsageError, match="option maintenance: expected none: a plan is made of servers"):
        ringbco.plan(jobs(1), "2x4", model="fixed", maintenance=WINDOWS)
