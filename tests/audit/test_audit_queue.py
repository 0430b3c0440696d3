"""The audit of the queue: aging, QSSF's predictions, and the instants at which they count."""

import itertools
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core_run import AUDITS
from ringbco.audits import Finding, audit, check_folder, check_outcome
from ringbco.errors import InputError
from ringbco.result.outcome import Outcome
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame


def table(rows: list[tuple[str, float, int, float]], **columns: list[Any]) -> JobTable:
    """Rows of (job_id, submit_time, num_gpus, duration)."""
    names = ("job_id", "submit_time", "num_gpus", "duration")
    return from_frame(
        pl.DataFrame(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) | columns)
    )


def found(outcome: Outcome, jobs: JobTable) -> set[tuple[str, str | None, float | None]]:
    return {(finding.code, finding.job, finding.time) for finding in audit(outcome, jobs)}


def claims(outcome: Outcome, **options: object) -> Outcome:
    """The same result, said to be of other options."""
    run = outcome.run | {"options": outcome.run["options"] | options}
    return Outcome(
        outcome.jobs,
        outcome.allocations,
        outcome.timeline,
        outcome.summary,
        run,
        stays_written=outcome.stays_written,
    )


# Right results pass


def random_table(rnd: random.Random) -> JobTable:
    """Crowded, with many ties: of submission times, sizes and durations."""
    count = rnd.randint(2, 30)
    whole = rnd.random() < 0.5
    columns: dict[str, list[Any]] = {}
    if rnd.random() < 0.7:
        columns["user"] = [rnd.choice((None, "ann", "bob")) for _ in range(count)]
    rows = []
    for row in range(count):
        submit, duration = rnd.uniform(0.0, 300.0), rnd.uniform(20.0, 200.0)
        if whole:
            submit, duration = round(submit / 20.0) * 20.0, max(1.0, round(duration / 40.0)) * 40.0
        rows.append((f"j{row}", submit, rnd.choice((1, 1, 2, 3, 4, 6)), duration))
    return table(rows, **columns)


def some_job_ages(outcome: Outcome, aging: float) -> bool:
    return bool((outcome.jobs["wait_time"] > aging).any())


@pytest.mark.parametrize("queue", ["strict", "skip", "easy"])
@pytest.mark.parametrize("order", ["sjf", "smallest", "qssf"])
def test_what_the_engine_does_passes(order: str, queue: str) -> None:
    rnd = random.Random(f"{order} {queue}")
    aged = noticed = 0
    combinations = itertools.product(
        ("fixed", "rar"), ("continuous", "slot"), ("consolidate", "first-fit", "sjf-bco", "random")
    )
    for model, clock, placement in itertools.islice(itertools.cycle(combinations), 2 * AUDITS):
        jobs = random_table(rnd)
        aging = rnd.choice((None, 0.0, 40.0, 100.0, rnd.uniform(0.0, 300.0)))
        slot = rnd.choice((7.0, 20.0))
        outcome = replay(
            jobs, "2x4", policy=order, queue=queue, placement=placement, model=model, clock=clock,
            slot=slot if clock == "slot" else 1.0, aging=aging, kappa=2,
            ties=rnd.choice(("rows", "reverse", "shuffle:3")),
            predict=rnd.choice(("history", "history", "exact")) if order == "qssf" else "history",
        )  # fmt: skip
        report = check_outcome(outcome, jobs)
        assert report.findings == [], (outcome.run["options"], jobs.frame.rows())
        checks = {check.code: check for check in report.checks}
        assert checks["idle"].looked_at == jobs.num_jobs
        assert checks["order"].looked_at == (jobs.num_jobs if queue == "strict" else 0)
        if aging is not None and some_job_ages(outcome, aging):
            aged += 1
            noticed += bool(audit(claims(outcome, aging=None), jobs))
    assert aged > 0.6 * AUDITS
    if queue == "strict":
        assert noticed > 0.3 * AUDITS  # that the audit knows of aging is what lets these pass


# Faults are found

# Two GPUs. `run` has both until 200, when `big` has waited for longer than 100 s, and so has s1.
OVERTAKEN = [
    ("run", 0.0, 2, 200.0),
    ("big", 1.0, 2, 50.0),
    ("s1", 2.0, 1, 5.0),
    ("s2", 190.0, 1, 10.0),
    ("s3", 230.0, 1, 10.0),
]


def test_an_aged_job_goes_first() -> None:
    jobs = table(OVERTAKEN)
    outcome = replay(jobs, "1x2", policy="smallest", model="fixed", aging=100.0)
    assert outcome.jobs["start_time"].to_list() == [0.0, 200.0, 250.0, 250.0, 255.0]
    assert audit(outcome, jobs) == []


def test_an_aged_job_overtaken_by_a_young_one() -> None:
    jobs = table(OVERTAKEN)
    outcome = replay(jobs, "1x2", policy="smallest", model="fixed")
    assert outcome.jobs["start_time"].to_list() == [0.0, 210.0, 200.0, 200.0, 260.0]
    assert audit(outcome, jobs) == []
    # s2 is young at 200; s1 has aged as well, but came after `big`.
    said = "starts before job big, which after 100 s of waiting is ahead of it in the queue and waits"
    assert audit(claims(outcome, aging=100.0), jobs) == [Finding("order", said, "s2", time=200.0)]
    # With 199 s `big` ages at 200, s1 at 201; with 200 s nobody has at 200, and it is `big` that overtakes.
    assert found(claims(outcome, aging=199.0), jobs) == {("order", "s2", 200.0)}
    assert found(claims(outcome, aging=250.0), jobs) == set()


# Four GPUs. At 50 `first` takes three; `gang` wants four. `long` is behind it until it ages, before `gang`.
AGES = [
    ("run", 0.0, 4, 50.0),
    ("first", 1.0, 3, 200.0),
    ("long", 2.0, 1, 300.0),
    ("gang", 30.0, 4, 250.0),
]


def test_a_job_may_start_when_it_ages_and_not_before() -> None:
    jobs = table(AGES)
    outcome = replay(jobs, "1x4", policy="sjf", model="fixed", aging=100.0)
    assert outcome.jobs["start_time"].to_list() == [0.0, 50.0, 102.0, 402.0]
    assert found(outcome, jobs) == set()
    assert found(claims(outcome, aging=100.5), jobs) == {
        ("order", "long", 102.0),
        ("instants", "long", 102.0),
    }
    assert found(claims(outcome, aging=99.5), jobs) == {("idle", "long", 101.5), ("instants", "long", 102.0)}
    young = replay(jobs, "1x4", policy="sjf", model="fixed")
    assert found(claims(young, aging=100.0), jobs) == {("idle", "long", 102.0), ("order", "gang", 250.0)}


def test_under_the_slot_clock_jobs_age_at_boundaries() -> None:
    jobs = table(AGES)
    outcome = replay(jobs, "1x4", policy="sjf", model="fixed", clock="slot", slot=5.0, aging=100.0)
    assert outcome.jobs["start_time"].to_list() == [0.0, 50.0, 105.0, 405.0]
    assert found(outcome, jobs) == found(claims(outcome, aging=103.0), jobs) == set()
    assert found(claims(outcome, aging=103.5), jobs) == {("order", "long", 105.0)}
    assert found(claims(outcome, aging=97.5), jobs) == {("idle", "long", 100.0), ("instants", "long", 105.0)}


@pytest.mark.parametrize("queue", ["skip", "easy"])
def test_where_overtaking_is_allowed_the_first_must_still_start(queue: str) -> None:
    jobs = table(OVERTAKEN)
    outcome = replay(jobs, "1x2", policy="smallest", queue=queue, model="fixed")
    assert found(outcome, jobs) == set()
    late = {"start_time": 290.0, "finish_time": 300.0}
    outcome.jobs = changed(outcome.jobs, 4, late | {"wait_time": 60.0, "jct": 70.0, "slowdown": 7.0})
    assert outcome.allocations is not None
    outcome.allocations = changed(outcome.allocations, 4, {"start_time": 290.0, "end_time": 300.0})
    assert ("idle", "s3", 260.0) in found(claims(outcome, aging=1000.0), jobs)


def changed(frame: pl.DataFrame, row: int, values: dict[str, float | None]) -> pl.DataFrame:
    at = pl.int_range(pl.len()) == row
    return frame.with_columns(
        pl.when(at).then(pl.lit(value, frame.schema[name])).otherwise(name).alias(name)
        for name, value in values.items()
    )


# QSSF. Ann's jobs take 10 s, Bob's 100 s; at 110 two are complete, and then `hold` has the one GPU until 210.
LEARNT = [
    ("a", 0.0, 1, 10.0),
    ("b", 0.0, 1, 100.0),
    ("hold", 105.0, 1, 100.0),
    ("bobs", 120.0, 1, 5.0),
    ("anns", 130.0, 1, 500.0),
]
USERS = {"user": ["ann", "bob", "bob", "bob", "ann"]}


def test_qssf_goes_by_what_was_learnt() -> None:
    jobs = table(LEARNT, **USERS)
    outcome = replay(jobs, "1x1", policy="qssf", model="fixed")
    assert outcome.jobs["start_time"].to_list() == [0.0, 10.0, 110.0, 710.0, 210.0]
    assert found(outcome, jobs) == set()
    assert found(claims(outcome, predict="exact"), jobs) == {("order", "anns", 210.0)}
    fifo = replay(jobs, "1x1", policy="fifo", model="fixed")
    assert found(claims(fifo, order="qssf"), jobs) == {("order", "bobs", 210.0)}
    # `bobs` has waited for 90 s by then.
    assert found(claims(fifo, order="qssf", aging=90.0), jobs) == set()
    assert found(claims(outcome, aging=90.0), jobs) == {("order", "anns", 210.0)}
    assert found(claims(outcome, aging=90.5), jobs) == set()


def test_qssf_without_users_learns_from_all() -> None:
    jobs = table(LEARNT)
    outcome = replay(jobs, "1x1", policy="qssf", model="fixed")
    assert outcome.jobs["start_time"].to_list() == [0.0, 10.0, 110.0, 210.0, 215.0]
    assert found(outcome, jobs) == set()


# Options that cannot be


@pytest.mark.parametrize(
    ("name", "value"),
    [("aging", -1.0), ("aging", "soon"), ("aging", float("nan")), ("ties", "shuffle:x"), ("ties", 3)],
)
def test_odd_options_are_refused(tmp_path: Path, name: str, value: object) -> None:
    jobs = table(OVERTAKEN)
    outcome = replay(jobs, "1x2", policy="smallest", model="fixed")
    with pytest.raises(InputError, match=f"run.toml: .*{name}"):
        audit(claims(outcome, **{name: value}), jobs)


def test_results_from_before_there_were_such_options(tmp_path: Path) -> None:
    jobs = table(OVERTAKEN)
    outcome = replay(jobs, "1x2", policy="smallest", model="fixed")
    for name in ("aging", "ties", "predict"):
        outcome.run["options"].pop(name, None)
    outcome.write(tmp_path / "old")
    jobs.frame.write_csv(tmp_path / "jobs.csv")
    assert check_folder(tmp_path / "old", tmp_path / "jobs.csv").ok
