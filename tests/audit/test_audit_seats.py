"""The audit where jobs hold the same GPUs: genuine results pass, and whatever is wrong with one is found."""

import dataclasses
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import ringbco
from frames import cluster_of
from ringbco.audits import check_outcome
from ringbco.trace.jobs import as_table
from test_audit_shares import put

CLUSTER = """
[gpu_types.V100]
speed = 1.0
memory_gb = 32
idle_watts = 50
busy_watts = 300
price_per_hour = 2.0
[[servers]]
count = 3
gpus = 4
gpu_type = "V100"
"""
JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c", "d", "e"],
        "submit_time": [0.0, 10.0, 20.0, 30.0, 40.0],
        "num_gpus": pl.Series([4, 4, 4, 2, 2], dtype=pl.UInt32),
        "duration": [100.0, 20.0, 30.0, 50.0, 60.0],
        "model": ["lm", "resnet", "lm", "resnet", "resnet"],
        "gpu_memory_mib": [16000.0, 16000.0, 20000.0, 8000.0, None],
        "estimated_duration": [100.0, 20.0, 30.0, 50.0, 60.0],
        "colocation_score": pl.Series([0, 1, 0, 1, 1], dtype=pl.UInt32),
    }
)
PAIRS = pl.DataFrame(
    {
        "model": ["lm", "resnet"],
        "gpu_type": "V100",
        "gpus": pl.Series([0, 0], dtype=pl.UInt32),
        "servers": pl.Series([0, 0], dtype=pl.UInt32),
        "rate": [0.8, 0.9],
        "partner": ["resnet", "resnet"],
        "partner_rate": [0.5, 1.25],
    }
)
OPTIONS: dict[str, Any] = {"policy": "lucid", "model": "fixed", "tables": PAIRS}


@pytest.fixture(scope="module", params=["continuous", "slot"])
def outcome(request: pytest.FixtureRequest) -> ringbco.Outcome:
    """b sits beside a, and e beside d: both of a model, of which the later has 0.9 and the other 1.25."""
    clock = {"clock": "slot", "slot": 2.0} if request.param == "slot" else {}
    found = ringbco.replay(JOBS, cluster_of(CLUSTER), **OPTIONS, **clock)
    assert found.allocations is not None
    assert found.allocations["seat"].to_list() == [0, 0, 1, 2, 2]
    assert found.jobs["run_contention"].min() < 0
    report = check_outcome(found, as_table(JOBS))
    assert report.findings == []
    assert next(check for check in report.checks if check.code == "seats").looked_at > 0
    return found


def told(outcome: ringbco.Outcome, jobs: pl.DataFrame = JOBS) -> list[tuple[str, str]]:
    return [(finding.code, str(finding)) for finding in ringbco.audit(outcome, jobs)]


def set_to(column: str, **values: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def corrupt(frame: pl.DataFrame) -> pl.DataFrame:
        for job, value in values.items():
            frame = put(column, job, value)(frame)
        return frame

    return corrupt


@pytest.mark.parametrize(
    ("corrupt", "code", "said"),
    [
        (put("seat", "b", 3), "capacity", "8 GPUs in use; it has 4"),
        (put("server", "b", 1), "seats", "holds other GPUs than those who sat down first on its seat"),
        (put("num_gpus", "e", 1), "seats", "holds other GPUs than"),
        (set_to("seat", d=0, e=0), "seats", "holds other GPUs than"),
        (set_to("seat", c=2, d=1, e=1), "seats", "expected seats numbered from 0 as they come to be"),
        (put("seat", "c", None), "seats", "holds whole GPUs and has no seat"),
        (set_to("seat", c=0, d=1, e=1), "seats", "is one of 3 jobs on seat 0; jobs_per_gpu is 2"),
        (lambda frame: frame.drop("seat"), "seats", "holds whole GPUs and has no seat"),
        (lambda frame: frame.with_columns(pl.concat_list("seat")), "seats", "has no seat"),
    ],
)
def test_what_is_wrong_with_seats(
    outcome: ringbco.Outcome, corrupt: Callable[[pl.DataFrame], pl.DataFrame], code: str, said: str
) -> None:
    assert outcome.allocations is not None
    changed = corrupt(outcome.allocations)
    if code == "seats" and "3 jobs" in said:
        changed = put("server", "c", 0)(changed)
    findings = told(dataclasses.replace(outcome, allocations=changed))
    assert any(found == code and said in text for found, text in findings), findings


def test_an_empty_seat_is_over(outcome: ringbco.Outcome) -> None:
    """As c did, late, after a and b had left."""
    late = ringbco.replay(JOBS.with_columns(submit_time=pl.col("submit_time") * 100.0), "3x4", **OPTIONS)
    assert late.allocations is not None
    one = late.allocations.with_columns(seat=pl.lit(0, pl.UInt32), server=pl.lit(0, pl.UInt32))
    findings = told(dataclasses.replace(late, allocations=one), JOBS)
    assert any("which is empty since" in text for _, text in findings), findings


@pytest.mark.parametrize(
    ("policy", "memory_gb", "said"),
    [
        ("lucid", 31.25, "needs 32000 MiB of a GPU with the others on seat 0; expected less than 32000"),
        ("lucid", 31.0, "needs 32000 MiB of a GPU with the others on seat 0; expected less than 31744"),
        ("log:decisions.parquet", 31.25, None),
        ("log:decisions.parquet", 31.0, "expected at most 31744"),
        ("lucid", 31.5, None),
    ],
)
def test_memory_fits(outcome: ringbco.Outcome, policy: str, memory_gb: float, said: str | None) -> None:
    cluster = outcome.run["cluster"]
    types = {name: {**facts, "memory_gb": memory_gb} for name, facts in cluster["gpu_types"].items()}
    run = {**outcome.run, "cluster": {**cluster, "gpu_types": types}}
    run["options"] = {**run["options"], "policy": policy}
    findings = [text for code, text in told(dataclasses.replace(outcome, run=run)) if code == "seats"]
    assert any(said in text for text in findings) if said else not findings


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("column", ["rate", "partner_rate"])
def test_a_rate_that_is_not_the_pairs_is_found(outcome: ringbco.Outcome, row: int, column: str) -> None:
    assert outcome.speeds is not None
    changed = pl.when(pl.int_range(pl.len()) == row).then(pl.col(column) * 0.5).otherwise(column)
    speeds = outcome.speeds.with_columns(changed.alias(column))
    assert "run-times" in {code for code, _ in told(dataclasses.replace(outcome, speeds=speeds))}


def test_without_pairs_interference_counts(outcome: ringbco.Outcome) -> None:
    options = {**outcome.run["options"], "interference": 0.25}
    same = dataclasses.replace(outcome, run={**outcome.run, "options": options})
    assert told(same) == []
    assert outcome.speeds is not None
    lacking = dataclasses.replace(same, speeds=outcome.speeds.head(1).with_columns(model=pl.lit("other")))
    assert "run-times" in {code for code, _ in told(lacking)}


def twice(outcome: ringbco.Outcome) -> float:
    """Seconds x GPUs for which a GPU is held a second time."""
    assert outcome.allocations is not None
    held = {job: (start, end, gpus) for job, start, end, gpus in outcome.allocations.select(
        "job_id", "start_time", "end_time", "num_gpus").iter_rows()}  # fmt: skip
    return float(
        sum(
            held[one][2] * (min(held[one][1], held[two][1]) - max(held[one][0], held[two][0]))
            for one, two in (("a", "b"), ("d", "e"))
        )
    )


def test_gpus_are_counted_once(outcome: ringbco.Outcome) -> None:
    """The time for which two jobs held a GPU, counted twice, is found in every figure and sample."""
    extra = twice(outcome) / 3600.0
    figures = outcome.summary
    span = figures["makespan"] * 12 / 3600.0
    (kind,) = figures["gpu_types"]
    wrong = {
        "utilisation": figures["utilisation"] + extra / span,
        "cost": figures["cost"] + extra * 2.0,
        "energy_kwh": figures["energy_kwh"] + extra * 0.25,
    }
    for name, value in wrong.items():
        changed = dataclasses.replace(outcome, summary={**figures, name: value})
        assert any(code == "summary" and name in text for code, text in told(changed)), name
    hours = [{**kind, "gpu_hours": kind["gpu_hours"] + extra}]
    changed = dataclasses.replace(outcome, summary={**figures, "gpu_types": hours})
    assert any(code == "summary" and "gpu_hours" in text for code, text in told(changed))
    busy = pl.when(pl.col("running_jobs") > 2).then(pl.col("busy_gpus") + 2).otherwise("busy_gpus")
    assert outcome.timeline is not None
    changed = dataclasses.replace(outcome, timeline=outcome.timeline.with_columns(busy.alias("busy_gpus")))
    assert {code for code, _ in told(changed)} == {"timeline"}


def test_held_time_counts_every_job(outcome: ringbco.Outcome) -> None:
    """What b held is not less for a's being there."""
    less = outcome.jobs.with_columns(
        held_time=pl.when(pl.col("job_id") == "b").then(0.0).otherwise("held_time")
    )
    assert "held" in {code for code, _ in told(dataclasses.replace(outcome, jobs=less))}


@pytest.mark.parametrize("lower", ["a", "b"])
def test_two_of_a_model_that_start_at_once(lower: str) -> None:
    """Which of both is the later no table says: either is possible, and no third."""

    class Both(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            if len(state.waiting) == 2:
                first = 0 if lower == "a" else 1
                state.start(first)
                state.start(1 - first, beside=first)

    jobs = JOBS.filter(pl.col("job_id").is_in(["d", "e"])).with_columns(submit_time=pl.lit(0.0))
    found = ringbco.replay(jobs, cluster_of(CLUSTER), **{**OPTIONS, "policy": Both}, jobs_per_gpu=2)
    assert sorted(found.jobs["run_contention"].to_list())[0] < 0
    assert told(found, jobs) == []
    changed = PAIRS.with_columns(partner_rate=pl.lit(1.0))
    assert "run-times" in {code for code, _ in told(dataclasses.replace(found, speeds=changed), jobs)}


def test_eviction_takes_all_of_a_seat() -> None:
    """c evicts a and b; had b stayed, a would have made no room."""
    jobs = JOBS.head(3).with_columns(priority=pl.Series([0, 0, 1], dtype=pl.Int32))
    cluster = cluster_of(CLUSTER.replace("count = 3", "count = 1"))
    found = ringbco.replay(jobs, cluster, **OPTIONS, evict=True)
    assert found.stays_written is not None
    assert found.allocations is not None
    gone = found.stays_written.filter(pl.col("ended") == "evicted")
    assert gone.select("job_id", "end_time").rows() == [("a", 20.0), ("b", 20.0)]
    assert told(found, jobs) == []
    longer = (pl.col("job_id") == "b") & (pl.col("end_time") == 20.0)
    end = pl.when(longer).then(21.0).otherwise("end_time").alias("end_time")
    changed = dataclasses.replace(
        found,
        allocations=found.allocations.with_columns(end),
        stays_written=found.stays_written.with_columns(end),
    )
    assert any("others stay on its seat" in text for _, text in told(changed, jobs))


def test_what_a_partner_costs_a_job_that_hardly_runs_is_lost_in_rounding() -> None:
    jobs = JOBS.filter(pl.col("job_id").is_in(["d", "e"])).with_columns(
        submit_time=pl.lit(0.0), time_limit=pl.Series([None, 1e-9], dtype=pl.Float64)
    )
    cluster = cluster_of(CLUSTER.replace("count = 3", "count = 1"))
    found = ringbco.replay(jobs, cluster, **OPTIONS, enforce_limits=True)
    assert found.allocations is not None
    assert found.allocations["seat"].to_list() == [0, 0]
    assert found.jobs["run_contention"][1] == 0
    assert told(found, jobs) == []
