"""The audit of results with shares of a GPU: genuine ones pass, and whatever is wrong with one is found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import ringbco

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c", "d", "e"],
        "submit_time": [0.0, 0.0, 0.0, 10.0, 10.0],
        "num_gpus": [1, 1, 2, 1, 1],
        "duration": [100.0, 100.0, 50.0, 100.0, 40.0],
        "gpu_share": [0.6, 0.5, None, 0.4, 0.3],
    }
)


@pytest.fixture(scope="module")
def outcome() -> ringbco.Outcome:
    """The example of docs/shares.md."""
    options = {"policy": "fifo", "placement": "best-fit", "model": "fixed", "interference": 0.5}
    outcome = ringbco.replay(JOBS, "1x4", **options)
    assert ringbco.audit(outcome, JOBS) == []
    return outcome


def on(job: str) -> pl.Expr:
    return pl.col("job_id") == job


def put(column: str, job: str, value: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def corrupt(frame: pl.DataFrame) -> pl.DataFrame:
        dtype = frame.schema[column]
        changed = pl.when(on(job)).then(pl.lit(value, dtype)).otherwise(column)
        return frame.with_columns(changed.alias(column))

    return corrupt


@pytest.mark.parametrize(
    ("corrupt", "code", "said"),
    [
        (put("gpu", "b", 0), "capacity", "1100 thousandths of GPU 0 in use"),
        (put("gpu", "d", 2), "capacity", "1400 thousandths of GPU 2 in use"),
        (put("gpu", "d", 4), "capacity", "holds GPU 4 of server 0, which is none of it"),
        (put("gpu", "c", 2), "gangs", "holds one GPU twice"),
        (put("share", "b", 0.4), "gangs", "holds 1 x 400 thousandths of a GPU; expected 500 of one"),
        (put("share", "c", 0.5), "gangs", "holds 1 x 500 thousandths of a GPU; expected 1000 of one"),
        (put("num_gpus", "a", 2), "gangs", "2 GPUs allocated"),
        (lambda frame: frame.drop("gpu", "share"), "gangs", "holds 1 x -1 thousandths"),
        (lambda frame: frame.with_columns(pl.concat_list("gpu")), "capacity", "holds GPU -1 of server 0"),
        (lambda frame: frame.with_columns(pl.concat_list("share")), "gangs", "holds 1 x -1 thousandths"),
        # Not beside a, d would have run alone.
        (put("gpu", "e", 0), "run-times", "recorded seconds"),
    ],
)
def test_what_is_wrong_with_the_allocations(
    outcome: ringbco.Outcome, corrupt: Callable[[pl.DataFrame], pl.DataFrame], code: str, said: str
) -> None:
    assert outcome.allocations is not None
    wrong = dataclasses.replace(outcome, allocations=corrupt(outcome.allocations))
    findings = ringbco.audit(wrong, JOBS)
    assert any(finding.code == code and said in str(finding) for finding in findings), findings


def test_times_hang_on_interference(outcome: ringbco.Outcome) -> None:
    for value, codes in ((0.5, set()), (0.0, {"run-times"}), (0.25, {"run-times"})):
        options = {**outcome.run["options"], "interference": value}
        claimed = dataclasses.replace(outcome, run={**outcome.run, "options": options})
        report = {finding.code for finding in ringbco.audit(claimed, JOBS)}
        assert report - {"causes"} == codes
        assert codes or not report


def test_the_share_of_a_job_is_that_of_the_table(outcome: ringbco.Outcome) -> None:
    wrong = dataclasses.replace(outcome, jobs=put("gpu_share", "a", 0.5)(outcome.jobs))
    assert "gangs" in {finding.code for finding in ringbco.audit(wrong, JOBS)}
    missing = dataclasses.replace(outcome, jobs=outcome.jobs.drop("gpu_share"))
    assert "gangs" in {finding.code for finding in ringbco.audit(missing, JOBS)}
