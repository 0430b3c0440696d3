"""Priorities, eviction and quotas as users meet them: columns, own keys, refusals, the audit."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.case import by_hand
from conftest import Invoke
from ringbco.audits import check_outcome
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import as_table, from_frame, read_jobs
from ringbco.trace.priorities import preemptible, priorities

HEAD = "job_id,submit_time,num_gpus,duration"
QUOTAS = pl.DataFrame({"user": ["u1", "u2"], "gpus": [6, 4], "borrow": [True, False]})


def crowded(seed: int = 0, count: int = 60) -> pl.DataFrame:
    """Gangs of 1 to 8 on 32 GPUs, four users, three priorities; one job in four may not be evicted."""
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(count)],
            "submit_time": np.sort(draw.uniform(0.0, 2_000.0, count)).round(1),
            "num_gpus": draw.choice([1, 2, 3, 4], count).astype(np.uint32),
            "duration": draw.uniform(50.0, 900.0, count).round(1),
            "priority": draw.choice([0, 0, 1, 2], count).astype(np.int32),
            "preemptible": draw.random(count) < 0.75,
            "user": draw.choice(["u0", "u1", "u2", None], count).tolist(),
        }
    )


def replayed(jobs: pl.DataFrame, **options: Any) -> Outcome:
    given = {"policy": "fifo", "queue": "skip", "model": "fixed"} | options
    return ringbco.replay(jobs, "2x8", **given)


# The two columns

LEVELS = "an integer from -2147483648 to 2147483647"


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("priority", "1.5", f"{LEVELS}; leave it empty for priority 0"),
        ("priority", "high", f"{LEVELS}; leave it empty for priority 0"),
        ("priority", "2147483648", f"{LEVELS}; leave it empty for priority 0"),
        ("priority", "-2147483649", f"{LEVELS}; leave it empty for priority 0"),
        ("priority", "nan", f"{LEVELS}; leave it empty for priority 0"),
        ("preemptible", "yes", "true or false; leave it empty for true"),
        ("preemptible", "1", "true or false; leave it empty for true"),
        ("preemptible", "nope", "true or false; leave it empty for true"),
    ],
)
def test_bad_cells_of_csv(tmp_path: Path, column: str, cell: str, expected: str) -> None:
    good = "3" if column == "priority" else "false"
    path = tmp_path / "j.csv"
    path.write_text(f"{HEAD},{column}\na,0,1,5,{good}\nb,0,1,5,\nc,0,1,5,{cell}\nd,0,1,5,worse\n")
    with pytest.raises(InputError) as caught:
        read_jobs(path)
    assert str(caught.value) == f"{path}: row 3 (line 4), column {column}: {cell}: expected {expected}"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (pl.Series("priority", [0, 2**31]), f"row 2, column priority: 2147483648: expected {LEVELS}"),
        (pl.Series("priority", [0.0, 0.5]), f"row 2, column priority: 0.5: expected {LEVELS}"),
        (pl.Series("priority", ["0", "1"]), f"row 1, column priority: 0: expected {LEVELS}"),
        (pl.Series("preemptible", ["true", "no"]), "row 2, column preemptible: no: expected true or false"),
        (pl.Series("preemptible", [1, 0]), "column preemptible: expected true or false, not Int64"),
    ],
)
def test_bad_columns_of_parquet(tmp_path: Path, values: pl.Series, told: str) -> None:
    path = tmp_path / "j.parquet"
    usual = {"job_id": ["a", "b"], "submit_time": [0.0, 0.0], "num_gpus": [1, 1], "duration": [5.0, 5.0]}
    pl.DataFrame(usual).with_columns(values).write_parquet(path)
    with pytest.raises(InputError) as caught:
        read_jobs(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {told}")
    assert "\n" not in message


def test_csv_and_parquet_give_the_same(tmp_path: Path) -> None:
    text = f"{HEAD},priority,preemptible\na,0,1,5,-3,false\nb,0,1,5,,\nc,0,1,5,2147483647,true\n"
    (tmp_path / "j.csv").write_text(text)
    result = read_jobs(tmp_path / "j.csv").frame
    assert result.select("priority", "preemptible").rows() == [(-3, False), (None, None), (2**31 - 1, True)]
    assert (result.schema["priority"], result.schema["preemptible"]) == (pl.Int32(), pl.Boolean())
    wide = result.with_columns(pl.col("priority").cast(pl.Int64))
    wide.write_parquet(tmp_path / "j.parquet")
    assert read_jobs(tmp_path / "j.parquet").frame.equals(result)


def test_what_the_engine_gets() -> None:
    """Nothing where all are alike, so that such a table costs nothing."""
    frame = from_frame(crowded()).frame
    result = priorities(frame.with_columns(priority=pl.Series([1, None] * 30, dtype=pl.Int32)))
    assert result is not None
    assert result.tolist() == [1, 0] * 30
    for same in (frame.drop("priority"), frame.with_columns(priority=pl.lit(7, pl.Int32))):
        assert priorities(same) is None
    may = preemptible(frame.with_columns(preemptible=pl.Series([False, None] * 30)))
    assert may is not None
    assert may.tolist() == [False, True] * 30
    for every in (frame.drop("preemptible"), frame.with_columns(preemptible=pl.lit(None, pl.Boolean))):
        assert preemptible(every) is None


def test_one_priority_for_all_is_none() -> None:
    """The same bytes as without the column, and nothing is said of it."""
    jobs = crowded()
    plain = replayed(jobs.drop("priority", "preemptible"))
    same = replayed(jobs.with_columns(priority=pl.lit(5)))
    assert same.jobs.equals(plain.jobs)
    assert same.allocations is not None
    assert same.allocations.equals(plain.allocations)
    ranked = replayed(jobs)
    assert ranked.jobs["priority"].equals(jobs["priority"])
    assert not ranked.jobs["finish_time"].equals(plain.jobs["finish_time"])


# Keys of one's own


class Shortest(ringbco.KeyPolicy):
    """sjf, as one writes it."""

    clairvoyant = True

    def key(self, state: Any, rows: Any) -> Any:
        return state.duration[rows]


@pytest.mark.parametrize("queue", ["strict", "skip", "easy"])
@pytest.mark.parametrize(
    "options", [{}, {"evict": True}, {"quota": QUOTAS}, {"evict": True, "quota": QUOTAS}]
)
def test_own_keys_go_as_the_orders_do(queue: str, options: dict[str, Any]) -> None:
    """Priority comes before the key; who evicts and who is held back is the same."""
    jobs = crowded(3)
    mine = replayed(jobs, policy=Shortest(), queue=queue, **options)
    built_in = replayed(jobs, policy="sjf", queue=queue, **options)
    assert mine.jobs.equals(built_in.jobs)
    assert mine.allocations is not None
    assert mine.allocations.equals(built_in.allocations)
    assert not options or "evict" not in options or int(mine.jobs["evictions"].sum()) > 0
    assert not check_outcome(mine, as_table(jobs)).findings


SEEN: list[tuple[list[int], list[int]]] = []


class Watcher(ringbco.Policy):
    """Starts the first that waits, in the order in which it is told of them."""

    def decide(self, state: Any) -> None:
        SEEN.append((state.waiting.tolist(), state.running.tolist()))
        state.start(state.waiting)


def test_a_policy_sees_priorities_and_waits_in_their_order() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": list("abcd"),
            "submit_time": [0.0, 1.0, 2.0, 2.0],
            "num_gpus": [8, 8, 8, 8],
            "duration": [10.0] * 4,
            "priority": pl.Series([0, None, 3, 3], dtype=pl.Int32),
        }
    )
    SEEN.clear()
    outcome = ringbco.replay(jobs, "1x8", policy=Watcher(), model="fixed")
    assert ([2, 3, 1], [0]) in SEEN
    assert outcome.jobs["start_time"].to_list() == [0.0, 30.0, 10.0, 20.0]
    simulation = ringbco.Simulation(jobs, "1x8", model="fixed")
    assert simulation.advance()
    assert np.nan_to_num(np.asarray(simulation.state.jobs.priority, float)).tolist() == [0, 0, 3, 3]


# Who refuses what


@pytest.mark.parametrize(("name", "value"), [("evict", True), ("quota", QUOTAS)])
def test_shares_refuse_eviction_and_quotas(name: str, value: object) -> None:
    jobs = crowded().with_columns(gpu_share=pl.when(pl.col("num_gpus") == 1).then(0.5))
    with pytest.raises(UsageError, match=r"expected job tables without shares of a GPU$"):
        ringbco.replay(jobs, "2x8", policy="fifo", **{name: value})


@pytest.mark.parametrize(
    ("policy", "given"), [("fifo", {"evict": True}), ("srtf", {"evict": True}), ("fifo", {"quota": QUOTAS})]
)
@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
def test_elastic_jobs_make_room_as_rigid_ones_do(policy: str, given: dict[str, Any]) -> None:
    rigid = ringbco.replay(crowded(), "2x8", policy=policy, **given)
    elastic = crowded().with_columns(min_gpus=pl.lit(1), max_gpus=pl.col("num_gpus") + 1)
    outcome = ringbco.replay(elastic, "2x8", policy=policy, **given)
    assert outcome.jobs.select(rigid.jobs.columns).equals(rigid.jobs)
    assert ringbco.audit(outcome, elastic) == []


@pytest.mark.parametrize("policy", ["srtf", "tiresias", "gittins", "ftf", "time-slice"])
def test_rankings_take_quotas_and_evict(policy: str) -> None:
    for given in ({"quota": QUOTAS}, {"evict": True}, {"quota": QUOTAS, "evict": True}):
        outcome = ringbco.replay(crowded(), "2x8", policy=policy, **given)
        assert "evictions" in outcome.jobs.columns
        assert ringbco.audit(outcome, crowded()) == []


@pytest.mark.parametrize(
    ("borrow", "starts", "finishes"),
    [(True, [0.0, 10.0, 0.0], [10.0, 30.0, 30.0]), (False, [0.0, 10.0, 0.0], [10.0, 30.0, 30.0])],
)
def test_a_guest_ranks_behind_those_within(borrow: bool, starts: list[float], finishes: list[float]) -> None:
    # The page's example: u's second job, of 20 s, goes behind v's of 30 s. At 10 the first is done.
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0] * 3,
            "num_gpus": [2] * 3,
            "duration": [10.0, 20.0, 30.0],
            "user": ["u", "u", "v"],
        }
    )
    quota = pl.DataFrame({"user": ["u"], "gpus": [2], "borrow": [borrow]})
    outcome = ringbco.replay(jobs, "1x4", policy="srtf", model="fixed", quota=quota)
    assert outcome.jobs["start_time"].to_list() == starts
    assert outcome.jobs["finish_time"].to_list() == finishes
    alone = ringbco.replay(jobs, "1x4", policy="srtf", model="fixed")
    assert alone.jobs["start_time"].to_list() == [0.0, 0.0, 10.0]
    # A guest that runs gives its GPUs to who comes within a quota.
    later = jobs.with_columns(submit_time=pl.Series([0.0, 0.0, 5.0]))
    result = ringbco.replay(later, "1x4", policy="srtf", model="fixed", quota=quota, preempt_cost=0.0).jobs
    assert result["start_time"].to_list() == ([0.0, 0.0, 5.0] if borrow else [0.0, 10.0, 5.0])
    assert result["preemptions"].to_list() == ([0, 1, 0] if borrow else [0, 0, 0])


@pytest.mark.parametrize(("name", "value"), [("evict", True), ("quota", QUOTAS)])
def test_plans_know_neither(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"option {name}: expected none: a plan "):
        ringbco.plan(crowded(), "2x8", **{name: value})  # type: ignore[arg-type]


def test_a_plan_refuses_priorities_that_differ() -> None:
    with pytest.raises(UsageError, match="option priority: priorities that differ: expected one priority"):
        ringbco.plan(crowded().with_columns(submit_time=pl.lit(0.0)), "2x8")


def test_evict_is_yes_or_no() -> None:
    with pytest.raises(UsageError, match="option evict: 7: expected True or False"):
        ringbco.replay(crowded(), "2x8", policy="fifo", evict=7)  # type: ignore[arg-type]


# What the audit finds


def failed_checks(table: pl.DataFrame, result: Outcome, **other: Any) -> set[str]:
    return {finding.code for finding in check_outcome(replace(result, **other), as_table(table)).findings}


@pytest.fixture(scope="module")
def sound() -> tuple[pl.DataFrame, Outcome]:
    jobs = crowded(5)
    result = replayed(jobs, evict=True)
    assert not check_outcome(result, as_table(jobs)).findings
    assert result.summary["evictions"] > 3
    return jobs, result


@pytest.mark.parametrize("by", [1, -1])
def test_a_changed_count_of_evictions_is_found(sound: tuple[pl.DataFrame, Outcome], by: int) -> None:
    jobs, result = sound
    row = int((result.jobs["evictions"] > 0).arg_max() or 0)
    at = pl.int_range(pl.len()) == row
    count = (pl.col("evictions").cast(pl.Int64) + pl.when(at).then(by).otherwise(0)).cast(pl.UInt32)
    assert failed_checks(jobs, result, jobs=result.jobs.with_columns(count)) == {"evictions"}
    recorded = {**result.summary, "evictions": result.summary["evictions"] + by}
    assert failed_checks(jobs, result, summary=recorded) == {"summary"}


def test_lost_columns_are_found(sound: tuple[pl.DataFrame, Outcome]) -> None:
    jobs, result = sound
    assert "evictions" in failed_checks(jobs, result, jobs=result.jobs.drop("evictions"))
    assert "inputs" in failed_checks(jobs, result, jobs=result.jobs.drop("priority"))
    odd = result.jobs.with_columns(priority=pl.lit("x"), evictions=pl.lit("y"))
    assert {"inputs", "evictions"} <= failed_checks(jobs, result, jobs=odd)
    risen = result.jobs.with_columns(pl.col("priority") + 1)
    assert "inputs" in failed_checks(jobs, result, jobs=risen)


def test_an_eviction_that_nobody_asked_for_is_found() -> None:
    """By a job table with other priorities, or in which nobody may evict the one that made room."""
    jobs = pl.DataFrame(
        {
            "job_id": ["low", "high"],
            "submit_time": [0.0, 10.0],
            "num_gpus": [8, 8],
            "duration": [100.0, 50.0],
            "priority": pl.Series([0, 1], dtype=pl.Int32),
        }
    )
    result = ringbco.replay(jobs, "1x8", policy="fifo", evict=True, model="fixed")
    assert result.jobs["evictions"].to_list() == [1, 0]
    assert not check_outcome(result, as_table(jobs)).findings
    for changed in (
        jobs.with_columns(priority=pl.Series([1, 1], dtype=pl.Int32)),
        jobs.with_columns(priority=pl.Series([2, 1], dtype=pl.Int32)),
        jobs.with_columns(preemptible=pl.Series([False, True])),
    ):
        assert "evictions" in failed_checks(changed, result)


def test_a_quota_that_is_exceeded_is_found() -> None:
    jobs = crowded(7)
    firm = pl.DataFrame({"user": ["u1"], "gpus": [6], "borrow": [False]})
    result = replayed(jobs, quota=firm)
    assert not check_outcome(result, as_table(jobs)).findings
    assert result.quota is not None
    held = most_held(jobs, result, "u1")
    assert 4 < held <= 6
    smaller = result.quota.with_columns(gpus=pl.lit(held - 1, pl.UInt64))
    assert "evictions" in failed_checks(jobs, result, quota=smaller)
    assert "evictions" not in failed_checks(jobs, result, quota=smaller.with_columns(borrow=pl.lit(True)))


def most_held(jobs: pl.DataFrame, result: Outcome, user: str) -> int:
    assert result.allocations is not None
    own = result.allocations.join(jobs.filter(pl.col("user") == user).select("job_id"), on="job_id")
    gpus = pl.col("num_gpus").cast(pl.Int64)
    changes = pl.concat(
        (own.select(time="end_time", change=-gpus), own.select(time="start_time", change=gpus))
    )
    most = changes.sort("time", "change")["change"].cum_sum().max()
    assert isinstance(most, int)
    return most


def test_what_evictions_take_is_in_the_summary() -> None:
    """120 of 40,420 GPU-seconds are pauses."""
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c", "h"],
            "submit_time": [0.0, 500.0, 900.0, 1000.0],
            "num_gpus": [4, 2, 2, 3],
            "duration": [5000.0, 5000.0, 5000.0, 100.0],
            "priority": [0, 0, 0, 1],
        }
    )
    options: dict[str, Any] = {
        "policy": "fifo",
        "model": "fixed",
        "evict": True,
        "checkpoint_interval": math.inf,
    }
    outcome = ringbco.replay(jobs, "1x8", **options)
    assert outcome.jobs["evictions"].to_list() == [0, 1, 1, 0]
    assert outcome.summary["goodput"] == pytest.approx(1 - 120 / 40420)
    ratio = (1 + 2 * 5000 / 5130 + 1) / 4
    assert outcome.summary["effective_training_time_ratio"] == pytest.approx(ratio)
    assert ringbco.audit(outcome, jobs) == []


def test_a_run_says_once_that_unpreemptible_jobs_were_stopped(invoke: Invoke, tmp_path: Path) -> None:
    """Under srtf j0 is stopped for j1 at 10 s, and for j2 at 30 s."""
    rows = [(0.0, 1, 60.0, False), (10.0, 1, 5.0, True), (30.0, 1, 9.0, None)]
    by_hand((1,), "submit_time num_gpus duration preemptible", rows).frame().write_csv(tmp_path / "jobs.csv")
    arguments = (tmp_path / "jobs.csv", "--cluster", "1x1", "--model", "fixed", "--preempt-cost", "0")
    line = (
        "note: srtf: 1 job with preemptible = false stopped 2 times (by the policy 2): the column shields"
        " from --evict and services alone; --keep-unpreemptible shields from policies, too"
        " (docs/priorities.md)"
    )
    run = invoke("replay", *arguments, "--policy", "srtf", "-o", tmp_path / "r")
    assert run.stderr.splitlines().count(line) == 1
    pair = ("--policy", "fifo", "--policy", "srtf")
    run = invoke("compare", *arguments, *pair, "-o", tmp_path / "c")
    assert run.stderr.splitlines().count(line) == 1
    assert run.stderr.count("preemptible = false") == 1
    for number, options in enumerate((("--max-preemptions", "0"), ("--keep-unpreemptible",))):
        out = tmp_path / f"p{number}"
        run = invoke("replay", *arguments, "--policy", "srtf", *options, "-o", out)
        assert "preemptible" not in run.stderr
        assert invoke("audit", out).returncode == 0
    jobs = pl.read_csv(arguments[0]).drop("preemptible")
    jobs.write_csv(tmp_path / "plain.csv")
    plain = (tmp_path / "plain.csv", *arguments[1:], "--policy", "srtf", "--keep-unpreemptible")
    run = invoke("replay", *plain, "-o", tmp_path / "n")
    assert "note: srtf: no job has preemptible = false for --keep-unpreemptible to keep" in run.stderr


def test_an_owner_within_its_quota_stops_them_too(invoke: Invoke, tmp_path: Path) -> None:
    rows = [(0.0, 1, 60.0, "u", False), (10.0, 1, 5.0, "v", True)]
    case = by_hand((1,), "submit_time num_gpus duration user preemptible", rows)
    case.frame().write_csv(tmp_path / "jobs.csv")
    (tmp_path / "quota.csv").write_text("user,gpus,borrow\nu,0,true\nv,1,true\n")
    run = invoke(
        "replay", tmp_path / "jobs.csv", "--cluster", "1x1", "--model", "fixed", "--policy", "fifo",
        "--quota", tmp_path / "quota.csv", "-o", tmp_path / "r",
    )  # fmt: skip
    assert "fifo: 1 job with preemptible = false stopped 1 time (over quota, for an owner" in run.stderr
