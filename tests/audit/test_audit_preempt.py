"""The audit of results with preemption: right ones pass, planted faults are found."""

from collections.abc import Callable

import polars as pl
import pytest

from ringbco.audits import check_outcome
from ringbco.result.outcome import Outcome
from ringbco.run.refusals import fit
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame

POLICIES = ("srtf", "tiresias", "gittins", "ftf", "edf", "time-slice", "repack")


@pytest.fixture(scope="module")
def table() -> JobTable:
    """Crowded: gangs of 1 to 6 on two servers of 4, half of the deadlines too early."""
    rows = range(40)
    return from_frame(
        pl.DataFrame(
            {
                "job_id": [f"j{row}" for row in rows],
                "submit_time": [37.0 * row for row in rows],
                "num_gpus": [(1, 2, 6, 1, 4, 3)[row % 6] for row in rows],
                "duration": [60.0 + 97.0 * (row * 7 % 11) for row in rows],
                "deadline": [37.0 * row + 60.0 + 97.0 * (row * 5 % 11) + 100.0 for row in rows],
            }
        )
    )


def faults(outcome: Outcome, table: JobTable) -> set[str]:
    return {finding.code for finding in check_outcome(outcome, table).findings}


@pytest.mark.parametrize(("policy", "admission"), [*((policy, False) for policy in POLICIES), ("edf", True)])
@pytest.mark.parametrize("model", ["rar", "fixed"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_what_the_engine_does_passes(
    table: JobTable, policy: str, model: str, clock: str, admission: bool
) -> None:
    (period,) = fit([policy], {"interval": 100.0, "quantum": 100.0}, strict=False)  # what it has of them
    outcome = replay(
        table, "2x4", policy=policy, placement="first-fit", model=model, clock=clock,
        slot=8.0 if clock == "slot" else 1.0,
        preempt_cost=20.0, admission=admission, **period,
    )  # fmt: skip
    assert outcome.summary["preemptions"] > 0
    if admission:
        assert outcome.summary["jobs_refused"] > 0
    assert faults(outcome, table) == set()


def changed(frame: pl.DataFrame, row: int, column: str, value: float) -> pl.DataFrame:
    values = frame[column].to_list()
    values[row] = value
    return frame.with_columns(pl.Series(column, values, dtype=frame.schema[column]))


def resumed_row(outcome: Outcome) -> int:
    """The last stay on the one server of a job that was preempted."""
    assert outcome.allocations is not None
    once = outcome.jobs.filter((pl.col("preemptions") > 0) & (pl.col("num_servers") == 1))["job_id"][0]
    rows = outcome.allocations.with_row_index().filter(pl.col("job_id") == once)
    return int(rows["index"][-1])


def no_resume_cost(outcome: Outcome) -> None:
    # The run begins later by the cost, as if resuming were free.
    assert outcome.allocations is not None
    row = resumed_row(outcome)
    name, stay = outcome.allocations["job_id"][row], outcome.allocations["stay"][row]
    start = outcome.allocations["start_time"][row] + 20.0
    outcome.allocations = changed(outcome.allocations, row, "start_time", start)
    assert outcome.stays_written is not None
    its = (pl.col("job_id") == name) & (pl.col("stay") == stay)
    at = int(outcome.stays_written.select(its.arg_max()).item())
    outcome.stays_written = changed(outcome.stays_written, at, "start_time", start)


def uncounted(outcome: Outcome) -> None:
    at = int((outcome.jobs["preemptions"] > 0).arg_max() or 0)
    outcome.jobs = changed(outcome.jobs, at, "preemptions", outcome.jobs["preemptions"][at] - 1)


def run_missing(outcome: Outcome) -> None:
    assert outcome.allocations is not None
    row = resumed_row(outcome)
    kept = outcome.allocations.with_row_index().filter(pl.col("index") != row)
    outcome.allocations = kept.drop("index")


def nothing_lost(outcome: Outcome) -> None:
    outcome.summary["lost_gpu_seconds"] = 0.0


def preemptions_hidden(outcome: Outcome) -> None:
    outcome.summary["preemptions"] -= 1


def nobody_waits(outcome: Outcome) -> None:
    at = int(outcome.timeline["queued_jobs"].arg_max() or 0)
    outcome.timeline = changed(outcome.timeline, at, "queued_jobs", 0)


def refused_at_will(outcome: Outcome) -> None:
    outcome.jobs = outcome.jobs[1:]
    assert outcome.allocations is not None
    outcome.allocations = outcome.allocations.filter(pl.col("job_id") != "j0")


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (no_resume_cost, "run-times"),
        (uncounted, "stretches"),
        (run_missing, "stays"),
        (nothing_lost, "summary"),
        (preemptions_hidden, "summary"),
        (nobody_waits, "timeline"),
        (refused_at_will, "jobs"),
    ],
)
@pytest.mark.parametrize("model", ["rar", "fixed"])
def test_a_planted_fault_is_found(
    table: JobTable, plant: Callable[[Outcome], None], code: str, model: str
) -> None:
    outcome = replay(table, "2x4", policy="srtf", model=model, preempt_cost=20.0)
    assert faults(outcome, table) == set()
    plant(outcome)
    assert code in faults(outcome, table)
