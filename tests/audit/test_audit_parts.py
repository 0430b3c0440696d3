"""The audit works out the parts of waits and runs; and takes job tables in every form."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from ringbco.audits import audit
from ringbco.errors import InputError, RingbcoWarning
from ringbco.result.outcome import Outcome
from ringbco.run.replay import replay


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """Crowded: gangs of 1 to 6 on two servers of 4."""
    rows = range(40)
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in rows],
            "submit_time": [37.0 * row for row in rows],
            "num_gpus": [(1, 2, 6, 1, 4, 3)[row % 6] for row in rows],
            "duration": [60.0 + 97.0 * (row * 7 % 11) for row in rows],
        }
    )


# Parts


@pytest.mark.parametrize("policy", ["ff", "sjf", "srtf", "time-slice"])
@pytest.mark.parametrize("model", ["rar", "fixed"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_what_the_engine_says_adds_up(frame: pl.DataFrame, policy: str, model: str, clock: str) -> None:
    slot = 8.0 if clock == "slot" else 1.0
    outcome = replay(frame, "2x4", policy=policy, model=model, clock=clock, slot=slot)
    assert audit(outcome, frame) == []


PLANTED: list[tuple[str, Callable[[pl.Expr], pl.Expr]]] = [
    *((name, lambda part: part + 0.1) for name in ("wait_behind", "wait_gpus", "wait_fragmented")),
    *((name, lambda part: part - 0.1) for name in ("run_spread", "run_contention")),
    ("wait_gpus", lambda part: part * 0 + float("nan")),
    ("run_spread", lambda part: pl.when(False).then(part)),  # null
]


@pytest.mark.parametrize(("name", "spoil"), PLANTED)
@pytest.mark.parametrize("policy", ["ff", "srtf"])
def test_a_part_that_does_not_add_up(
    frame: pl.DataFrame, policy: str, name: str, spoil: Callable[[pl.Expr], pl.Expr]
) -> None:
    outcome = replay(frame, "2x4", policy=policy)
    outcome.jobs = outcome.jobs.with_columns(spoil(pl.col(name)).alias(name))
    findings = audit(outcome, frame)
    assert {finding.code for finding in findings} == {"causes"}
    assert {finding.job for finding in findings} == set(frame["job_id"])
    assert all(name in finding.message for finding in findings)


def test_a_part_that_is_no_number(frame: pl.DataFrame) -> None:
    outcome = replay(frame, "2x4", policy="ff")
    outcome.jobs = outcome.jobs.with_columns(run_contention=pl.lit("much"))
    with pytest.raises(InputError, match="column run_contention: String: expected numbers"):
        audit(outcome, frame)


def test_a_negative_part(frame: pl.DataFrame) -> None:
    outcome = replay(frame, "2x4", policy="ff")
    outcome.jobs = outcome.jobs.with_columns(
        wait_behind=pl.col("wait_behind") + pl.col("wait_gpus") + 5, wait_gpus=pl.lit(-5.0, pl.Float32)
    )
    findings = [finding for finding in audit(outcome, frame) if "wait_gpus" in finding.message]
    assert {finding.code for finding in findings} == {"causes"}
    assert all(finding.message.startswith("wait_gpus is -5; expected ") for finding in findings)
    assert {finding.job for finding in findings} <= set(frame["job_id"])


@pytest.mark.parametrize("name", ["held_gpu_time", "lost_gpu_time"])
def test_gpu_time_of_a_job_that_is_resized(frame: pl.DataFrame, name: str) -> None:
    elastic = frame.with_columns(min_gpus=pl.lit(1), max_gpus=pl.lit(8))
    outcome = replay(elastic, "2x4", policy="afs", preempt_cost=10.0)
    assert audit(outcome, elastic) == []
    outcome.jobs = outcome.jobs.with_columns(pl.col(name) + 1.0)
    assert {(finding.code, finding.message.partition(" is ")[0]) for finding in audit(outcome, elastic)} == {
        ("held", name)
    }


def test_results_without_parts(frame: pl.DataFrame) -> None:
    outcome = replay(frame, "2x4", policy="ff")
    parts = ("wait_behind", "wait_gpus", "wait_fragmented", "run_spread", "run_contention")
    outcome.jobs = outcome.jobs.drop(parts)
    assert audit(outcome, frame) == []


# Job tables


@pytest.fixture
def outcome(frame: pl.DataFrame) -> Outcome:
    return replay(frame, "2x4", policy="ff")


def test_every_form_of_a_job_table(frame: pl.DataFrame, outcome: Outcome, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    frame.write_csv(path)
    for jobs in (frame, frame.lazy(), frame.to_arrow(), ringbco.from_frame(frame)):
        assert ringbco.audit(outcome, jobs) == []
    recorded = replay(path, "2x4", policy="ff")
    for jobs in (path, str(path), frame, ringbco.read_jobs(path)):
        assert ringbco.audit(recorded, jobs) == []
    frame.with_columns(pl.col("duration") + 1).write_csv(path)
    assert {finding.code for finding in ringbco.audit(recorded, path)} >= {"trace", "inputs"}


@pytest.mark.parametrize("jobs", ["nowhere.csv", 3, None, pl.DataFrame({"job_id": ["a"]})])
def test_what_is_no_job_table(outcome: Outcome, jobs: object) -> None:
    with pytest.raises(InputError) as caught:
        ringbco.audit(outcome, jobs)
    assert "\n" not in str(caught.value)


def test_a_table_without_the_deadlines_that_admission_read(frame: pl.DataFrame) -> None:
    due = frame.with_columns(deadline=pl.col("submit_time") + 300.0)
    outcome = replay(due, "2x4", policy="edf", admission=True)
    assert outcome.summary["jobs_refused"] > 0
    assert "jobs" in {finding.code for finding in audit(outcome, frame)}


def test_a_run_of_which_nearly_all_is_cut() -> None:
    """Its parts are what is left of 1e16 s, of which two neighbours are 2 s apart."""
    rows = [("a", 0.0, 1, 9.0, None), ("b", 5.0, 1, 1e16, 2.0)]
    names = ["job_id", "submit_time", "num_gpus", "duration", "time_limit"]
    limited = pl.DataFrame(rows, schema=names, orient="row")
    down = pl.DataFrame({"server": [0], "down_at": [8.0], "up_at": [12.0]})
    options: dict[str, Any] = {"model": "fixed", "enforce_limits": True, "start_cost": 1.0, "outages": down}
    with pytest.warns(RingbcoWarning, match="longer than in any public trace"):
        outcome = replay(limited, "1x2", policy="fifo", **options)
    assert outcome.jobs["reached_limit"].to_list() == [False, True]
    assert audit(outcome, limited) == []
