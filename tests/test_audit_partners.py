"""The audit where two shares hold one GPU at measured speeds: genuine results pass, planted faults do not."""

from __future__ import annotations

import dataclasses
import random
from itertools import product
from typing import Any

import polars as pl
import pytest

import ringbco
from core_run import AUDITS
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from test_audit_shares import MIXED, PLACEMENTS, POLICIES, put, random_jobs

MODELS = ("resnet", "LM (batch size 5)", "Resnet")


def speeds(rnd: random.Random, types: tuple[str, ...]) -> pl.DataFrame:
    """Rates alone, and of some pairs, told by either or by both; types in any case of letters."""
    rows: list[tuple[str, str, int, int, float, str | None, float | None]] = []
    likely, never = rnd.choice((0.0, 0.4, 1.0)), rnd.choice((0.0, 0.1))
    for model, name in product(MODELS, types):
        rows += [(model, name, gpus, 1, gpus * rnd.uniform(0.5, 6.0), None, None) for gpus in (1, 4)]
        for partner in MODELS:
            if rnd.random() < likely:
                pair = [0.0 if rnd.random() < never else rnd.uniform(0.3, 5.0) for _ in range(2)]
                rows.append((model, rnd.choice((name, name.lower())), 1, 1, pair[0], partner, pair[1]))
                rows.append((model, name, 2, 1, 9.0, partner, 9.0))
    columns = ["model", "gpu_type", "gpus", "servers", "rate", "partner", "partner_rate"]
    return pl.DataFrame(rows, columns, orient="row")


@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_genuine_results_pass(placement: str, clock: str) -> None:
    passed = 0
    for number in range(AUDITS):
        rnd = random.Random(f"audit of partners {placement} {clock} {number}")
        jobs = random_jobs(rnd, share=0.8)
        jobs = jobs.with_columns(model=pl.Series([rnd.choice(MODELS) for _ in range(jobs.height)]))
        cluster = MIXED
        if rnd.random() < 0.5:
            cluster, jobs = Cluster.parse("2x4"), jobs.drop("gpu_type")
        types = ("V100", "T4") if cluster.server_gpu_type is not None else ("V100",)
        options: dict[str, Any] = {"policy": rnd.choice(POLICIES), "placement": placement, "clock": clock}
        options |= {"model": "table", "tables": speeds(rnd, types), "oversize": "drop", "seed": number}
        options |= {"slot": rnd.choice((7.0, 60.0))} if clock == "slot" else {}
        options |= {"interference": rnd.choice((0.0, 0.3)), "start_cost": rnd.choice((0.0, 10.0))}
        if options["policy"] == "time-slice":
            options |= {"quantum": 120.0}
        try:
            outcome = ringbco.replay(jobs, cluster, **options)
        except InputError as error:
            if "every job to finish" not in str(error):
                raise
            continue
        assert ringbco.audit(outcome, jobs) == [], (number, options)
        passed += 1
    assert passed > 0.6 * AUDITS


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
    found = ringbco.replay(JOBS, "1x1", **given, **clock)
    assert found.jobs["finish_time"].to_list() == pytest.approx([130.0, 95.0])
    assert ringbco.audit(found, JOBS) == []
    return found


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
        found = codes(dataclasses.replace(outcome, speeds=lacking))
        assert ("run-times" in found) == (lacking.height == 2)
