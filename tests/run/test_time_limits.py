"""Time limits by hand: EASY's estimates by them, who is ended, and what is refused (docs/operators.md)."""

import math
from pathlib import Path

import polars as pl
import pytest

import ringbco
from cases.case import Case, by_hand, outage_rows
from cases.compare import agreed
from ringbco.errors import InputError, RingbcoError, UsageError
from ringbco.result.validation import check_tables

COLUMNS = "submit_time num_gpus duration time_limit"


def frame(*rows: tuple[float, int, float, float | None]) -> pl.DataFrame:
    return by_hand((), COLUMNS, rows).frame()


def ends(case: Case) -> list[tuple[float, bool]]:
    """When each job ends, and whether at its limit; as the reference model says."""
    agreed(case)
    outcome = case.replay()
    assert list(ringbco.audit(outcome, case.frame())) == []
    return outcome.jobs.select("finish_time", "reached_limit").rows()


def test_a_job_ends_at_its_limit_unless_it_is_done_then() -> None:
    rows = [(0.0, 1, 9.0, 4.0), (0.0, 1, 4.0, 4.0), (0.0, 1, 3.0, None), (0.0, 1, 3.0, 2.5)]
    case = by_hand((2,), COLUMNS, rows, policy="fifo", enforce_limits=True)
    assert ends(case) == [(4.0, True), (4.0, False), (7.0, False), (6.5, True)]
    outcome = case.replay()
    assert outcome.stays["ended"].to_list() == ["limit", "done", "done", "limit"]
    assert outcome.jobs["run_cut"].to_list() == [-5.0, 0.0, 0.0, -0.5]
    assert outcome.summary["jobs_over_limit"] == 2
    assert outcome.summary["mean_jct_completed"] == 5.5
    assert "reached_limit" not in case.replay(enforce_limits=False).jobs.columns


def test_where_all_are_ended_nobody_is_completed() -> None:
    case = by_hand((1,), COLUMNS, [(0.0, 1, 9.0, 4.0)], policy="fifo", enforce_limits=True)
    assert ends(case) == [(4.0, True)]
    assert case.replay().summary["mean_jct_completed"] is None


def test_a_pause_counts_and_a_wait_does_not() -> None:
    # The long one holds its GPU for 20 s, then for 30 s of pause and 10 s of work.
    rows = [(0.0, 1, 100.0, 60.0), (20.0, 1, 30.0, None)]
    case = by_hand((1,), COLUMNS, rows, policy="srtf", preempt_cost=30.0, enforce_limits=True)
    assert ends(case) == [(90.0, True), (50.0, False)]
    assert case.replay().jobs["run_cut"].to_list() == [-70.0, 0.0]


def test_what_a_failure_ended_counts() -> None:
    # 5 s up to the failure, then 10 of its limit.
    rows = [(0.0, 1, 10.0, 15.0)]
    case = by_hand(
        (1,), COLUMNS, rows, policy="fifo", preempt_cost=2.0, enforce_limits=True,
        outages=outage_rows([(0, 5.0, 8.0)]),
    )  # fmt: skip
    assert ends(case) == [(18.0, True)]
    assert case.replay().jobs.select("lost_work", "failures").row(0) == (5.0, 1)


def test_slots_are_whole() -> None:
    rows = [(0.0, 1, 9.0, 4.1), (0.0, 1, 5.0, 4.1)]
    case = by_hand((2,), COLUMNS, rows, policy="fifo", clock="slot", slot=2.0, enforce_limits=True)
    assert ends(case) == [(6.0, True), (6.0, False)]


def test_a_trial_does_not_reach_a_rung_at_its_limit() -> None:
    rows = [(0.0, 1, 8.0, None, "s"), (0.0, 1, 8.0, 4.0, "s"), (0.0, 1, 8.0, 5.0, "s")]
    case = by_hand(
        (3,), f"{COLUMNS} group", rows, policy="fifo", search="asha:eta=2,rungs=1", enforce_limits=True
    )
    agreed(case)
    outcome = case.replay()
    assert outcome.rungs is not None
    assert "j1" not in outcome.rungs["job_id"].to_list()
    assert outcome.jobs.filter(pl.col("job_id") == "j1")["reached_limit"].to_list() == [True]


def test_easy_reckons_by_limits() -> None:
    # j1 asks for all. j2 would leave room by its run time, and by its limit it would not; j3 has none, and
    # so runs for ever.
    rows = [(0.0, 3, 10.0, 12.0), (1.0, 4, 5.0, None), (2.0, 1, 7.0, 20.0), (3.0, 1, 9.0, None)]
    outcome = {"policy": "fifo", "queue": "easy", "estimate_factor": 1.0}
    case = by_hand((4,), COLUMNS, rows, **outcome, estimate="limit")
    agreed(case)
    assert case.replay().jobs["start_time"].to_list() == [0.0, 10.0, 15.0, 15.0]
    assert case.replay(estimate="run-time").jobs["start_time"].to_list() == [0.0, 10.0, 2.0, 15.0]
    outcome = case.replay().why("j2", jobs=case.frame()).sentences
    assert any("this job would last until 20.0 s after submission" in one for one in outcome)
    outcome = case.replay().why("j3", jobs=case.frame()).sentences
    assert any("this job would run for ever: it has no limit." in one for one in outcome)


@pytest.mark.parametrize("queue", ["easy", "conservative"])
@pytest.mark.parametrize("limit", [None, math.inf])
def test_who_waits_for_a_job_without_a_limit_holds_up_nobody(queue: str, limit: float | None) -> None:
    # j1 is reckoned never to start, so j2 and j3, which have no limit either, need not wait for it.
    rows = [(0.0, 3, 10.0, limit), (1.0, 4, 5.0, 9.0), (2.0, 1, 30.0, limit), (40.0, 1, 2.0, 2.0)]
    case = by_hand((4,), COLUMNS, rows, policy="fifo", queue=queue, estimate="limit")
    agreed(case)
    assert case.replay().jobs["start_time"].to_list() == [0.0, 32.0, 2.0, 40.0]
    # If its limit is known, a job that is over by then may start, and one without a limit may not.
    rows = [(0.0, 3, 10.0, 20.0), (1.0, 4, 5.0, 9.0), (2.0, 1, 30.0, limit), (2.0, 1, 18.0, 18.0)]
    case = by_hand((4,), COLUMNS, rows, policy="fifo", queue=queue, estimate="limit")
    agreed(case)
    assert case.replay().jobs["start_time"].to_list() == [0.0, 20.0, 25.0, 2.0]


@pytest.mark.parametrize("queue", ["easy", "conservative"])
def test_nothing_reads_the_run_time_of_a_job_without_a_limit(queue: str) -> None:
    rows = [(0.0, 3, 10.0, 12.0), (1.0, 4, 5.0, None), (2.0, 1, 7.0, None), (3.0, 1, 9.0, 8.0)]
    options = {"policy": "fifo", "queue": queue, "estimate": "limit"}
    case = by_hand((4,), COLUMNS, rows, **options)
    agreed(case)
    for other in (0.5, 3.0, 100.0):
        rows[2] = (2.0, 1, other, None)
        again = by_hand((4,), COLUMNS, rows, **options).replay().jobs["start_time"].to_list()
        assert again[:2] + again[3:] == [0.0, 12.0, 3.0]


def test_what_reads_limits_needs_them() -> None:
    jobs = frame((0.0, 1, 1.0, None)).drop("time_limit")
    with pytest.raises(InputError, match=r"time_limit.*leave --enforce-limits out"):
        ringbco.replay(jobs, "1x1", model="fixed", enforce_limits=True)
    with pytest.raises(InputError, match=r"time_limit.*leave --estimate limit out"):
        ringbco.replay(jobs, "1x1", model="fixed", policy="fifo", queue="easy", estimate="limit")
    empty = frame((0.0, 1, 1.0, None))
    assert ringbco.replay(empty, "1x1", model="fixed", enforce_limits=True).summary["jobs_over_limit"] == 0


def test_a_bad_limit_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_time,num_gpus,duration,time_limit\na,0,1,5,\nb,0,1,5,0\n")
    with pytest.raises(InputError) as caught:
        ringbco.replay(path, "1x1", model="fixed")
    assert str(caught.value) == (
        f"{path}: row 2 (line 3), column time_limit: 0: expected a number of seconds > 0, or inf; give the"
        " longest time that the job may hold its GPUs, or leave it empty for none"
    )


def test_bounds_and_plans_refuse_to_end_jobs() -> None:
    jobs = frame((0.0, 1, 5.0, 3.0))
    with pytest.raises(UsageError, match="bound is of all work"):
        ringbco.bound(jobs, "1x1", model="fixed", enforce_limits=True)
    with pytest.raises(RingbcoError, match="lets every job run to its end"):
        ringbco.plan(jobs, "1x1", model="fixed", enforce_limits=True)  # type: ignore[call-arg]


def test_the_audit_knows_limits() -> None:
    case = by_hand((1,), COLUMNS, [(0.0, 1, 9.0, 4.0)], policy="fifo", enforce_limits=True)
    outcome, longer = case.replay(), case.frame().with_columns(time_limit=5.0)
    assert "its limit is 5" in str(next(iter(ringbco.audit(outcome, longer))))


def test_a_damaged_column_is_told(tmp_path: Path) -> None:
    case = by_hand((1,), COLUMNS, [(0.0, 1, 9.0, 4.0)], policy="fifo", enforce_limits=True)
    case.replay().write(tmp_path / "r")
    path = tmp_path / "r" / "jobs.parquet"
    pl.read_parquet(path).with_columns(reached_limit=pl.lit("yes")).write_parquet(path)
    with pytest.raises(InputError, match=r"reached_limit.*expected true or false"):
        check_tables(ringbco.Outcome.read(tmp_path / "r"))
