"""The audit where two shares hold one GPU at measured speeds: genuine results pass, planted faults do not."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest

import ringbco
from ringbco.errors import InputError
from test_audit_shares import put

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b"],
        "submit_time": [0.0, 20.0],
        "num_gpus": 1,
        "duration": 100.0,
        "model": ["resnet", "lm"],
        "iterations": [1000, 300],
        "gpu_share": 0.5,
    }
)
SPEEDS = pl.DataFrame(
    {
        "model": ["resnet", "lm", "resnet"],
        "gpu_type": "V100",
        "gpus": 1,
        "servers": 1,
        "rate": [10.0, 5.0, 6.0],
        "partner": [None, None, "lm"],
        "partner_rate": [None, None, 4.0],
    }
)


@pytest.fixture(params=["continuous", "slot"])
def outcome(request: pytest.FixtureRequest) -> ringbco.Outcome:
    """The example of docs/tables.md."""
    clock = {"clock": request.param, "slot": 5.0} if request.param == "slot" else {}
    given = {"policy": "fifo", "placement": "first-fit", "model": "table", "tables": SPEEDS}
    outcome = ringbco.replay(JOBS, "1x1", **given, **clock)
    assert outcome.jobs["finish_time"].to_list() == pytest.approx([130.0, 95.0])
    assert ringbco.audit(outcome, JOBS) == []
    return outcome


def codes(outcome: ringbco.Outcome) -> set[str]:
    return {finding.code for finding in ringbco.audit(outcome, JOBS)}


@pytest.mark.parametrize(("job", "time"), [("a", 125.0), ("a", 100.0), ("b", 80.0), ("b", 100.0)])
def test_a_finish_without_the_partner_is_found(outcome: ringbco.Outcome, job: str, time: float) -> None:
    assert outcome.allocations is not None
    late = time - outcome.jobs.filter(job_id=job)["finish_time"][0]
    jobs = outcome.jobs
    for column in ("finish_time", "run_time", "jct"):
        jobs = put(column, job, jobs.filter(job_id=job)[column][0] + late)(jobs)
    allocations = put("end_time", job, time)(outcome.allocations)
    assert "run-times" in codes(dataclasses.replace(outcome, jobs=jobs, allocations=allocations))


@pytest.mark.parametrize(
    ("column", "factor"), [("rate", 1.3), ("rate", 0.7), ("partner_rate", 1.3), ("partner_rate", 0.0)]
)
def test_another_rate_of_the_pair_is_found(outcome: ringbco.Outcome, column: str, factor: float) -> None:
    assert outcome.speeds is not None
    paired = pl.col("partner").is_not_null()
    changed = outcome.speeds.with_columns(pl.when(paired).then(pl.col(column) * factor).otherwise(column))
    assert "run-times" in codes(dataclasses.replace(outcome, speeds=changed))


def test_without_the_pair_the_times_are_others(outcome: ringbco.Outcome) -> None:
    assert outcome.speeds is not None
    for lacking in (outcome.speeds.head(2), outcome.speeds.with_columns(gpu_type=pl.lit("v100"))):
        result = codes(dataclasses.replace(outcome, speeds=lacking))
        assert ("run-times" in result) == (lacking.height == 2)


@pytest.mark.parametrize("factor", [1.3, 0.7])
def test_another_rate_alone_is_found(outcome: ringbco.Outcome, factor: float) -> None:
    assert outcome.speeds is not None
    alone = pl.col("partner").is_null()
    changed = outcome.speeds.with_columns(pl.when(alone).then(pl.col("rate") * factor).otherwise("rate"))
    assert "run-times" in codes(dataclasses.replace(outcome, speeds=changed))


def test_a_result_without_its_speeds_is_refused(outcome: ringbco.Outcome) -> None:
    with pytest.raises(InputError, match=r"expected speeds.parquet"):
        codes(dataclasses.replace(outcome, speeds=None))
