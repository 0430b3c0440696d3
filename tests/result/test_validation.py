"""What is refused before a story is told of it: every column of every table, by the rows of the tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

from frames import busy_jobs
from ringbco import Outcome, replay
from ringbco.errors import InputError
from ringbco.result.outcome import _with_tables
from ringbco.result.tables import TABLES
from ringbco.result.validation import _TOLD, check_stay_log, check_story
from ringbco.trace.quotas import BOOKS

SERVICES = pl.DataFrame({"service": ["a"], "time": [900.0], "replicas": [1], "gpus_per_replica": [2]})
QUOTA = pl.DataFrame({"user": ["u0"], "gpus": [12], "borrow": [True]})
OUTAGES = pl.DataFrame({"server": [0], "down_at": [900.0], "up_at": [2000.0], "cause": ["power"]})


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    jobs = busy_jobs(40).with_columns(user=pl.lit("u0"), deadline=pl.col("submit_time") + 900)
    return replay(
        jobs, "4x4", policy="fifo", outages=OUTAGES, quota=[QUOTA] * 2, services=SERVICES, decisions=True
    )


def changed(outcome: Outcome, table: str, column: str, value: Any) -> Outcome:
    """With another value in the first row."""
    frame: pl.DataFrame = getattr(outcome, table)
    cells = frame[column].to_list()
    made = frame.with_columns(pl.Series(column, [value, *cells[1:]], frame.schema[column]))
    return dataclasses.replace(outcome, **{table: made})


def test_a_sound_result_is_told_of(outcome: Outcome) -> None:
    check_story(outcome)


@pytest.mark.parametrize(
    "table", [name for name in _TOLD if name not in ("fair_shares", "rungs", *BOOKS[2:])]
)
def test_a_null_and_a_nan_are_named(outcome: Outcome, table: str) -> None:
    frame: pl.DataFrame = getattr(outcome, table)
    row = TABLES[table]
    known = [name for name in frame.columns if name in {**row.schema, **row.more}]
    assert len(known) >= 3
    for column in known:
        message = f"^{row.file}: row 1, column {column}: "
        if column in row.nulls:
            check_story(changed(outcome, table, column, None))
        else:
            with pytest.raises(InputError, match=f"{message}null: expected"):
                check_story(changed(outcome, table, column, None))
        if frame.schema[column].is_float():
            with pytest.raises(InputError, match=f"{message}NaN: expected"):
                check_story(changed(outcome, table, column, float("nan")))


@pytest.mark.parametrize("table", ["allocations", "replicas", "outages"])
def test_a_server_beyond_the_cluster_is_named(outcome: Outcome, table: str) -> None:
    message = f"^{TABLES[table].file}: row 1, column server: 4: expected 0 to 3, the cluster's servers"
    with pytest.raises(InputError, match=message):
        check_story(changed(outcome, table, "server", 4))


@pytest.mark.parametrize(
    ("table", "column", "value", "expected"),
    [
        ("stays_written", "began", "woke", "one of first, "),
        ("stays_written", "stay", 7, "stays of a job one after the other"),
        ("stays_written", "end_time", -1.0, "no time before start_time"),
        ("allocations", "stay", 99, "a stay that the result knows"),
        ("jobs", "num_gpus", 0, "1 GPU or more"),
    ],
)
def test_stays_that_cannot_be_are_named(
    outcome: Outcome, table: str, column: str, value: Any, expected: str
) -> None:
    with pytest.raises(InputError, match=f"^{TABLES[table].file}: row 1, column {column}: .*{expected}"):
        check_story(changed(outcome, table, column, value))


def ids(outcome: Outcome) -> pl.Series:
    return outcome.jobs["job_id"]


@pytest.mark.parametrize(
    ("table", "column", "value", "expected"),
    [
        ("stays_written", "job_id", "nobody", "stays of each job in stays.parquet|a job of the job table"),
        ("stays_written", "by_job", "nobody", "a job of the job table"),
        ("stays_written", "start_time", float("nan"), "a finite number"),
        ("stays_written", "num_gpus", 0, "1 GPU or more"),
        ("allocations", "server", 4, "0 to 3, the cluster's servers"),
        ("allocations", "stay", 99, "a stay that the result knows"),
        ("replicas", "service", "b", "a service"),
        ("replicas", "num_gpus", 0, "1 GPU or more"),
        ("replicas", "end_time", -1.0, "a time after start_time"),
        ("replicas", "server", 4, "0 to 3, the cluster's servers"),
    ],
)
def test_what_nothing_can_be_added_up_of_is_named(
    outcome: Outcome, table: str, column: str, value: Any, expected: str
) -> None:
    check_stay_log(outcome, ids(outcome))
    with pytest.raises(InputError, match=expected):
        check_stay_log(changed(outcome, table, column, value), ids(outcome))


def test_stays_are_of_the_jobs_of_the_table_in_its_order(outcome: Outcome) -> None:
    with pytest.raises(InputError, match=r"^stays.parquet: row \d+, column job_id: .*the job table's order"):
        check_stay_log(outcome, ids(outcome).reverse())
    with pytest.raises(InputError, match=r"^stays.parquet: row 1, column job_id: .*a job of the job table"):
        check_stay_log(outcome, ids(outcome)[1:])
    assert outcome.stays_written is not None
    assert outcome.allocations is not None
    others = outcome.allocations.filter(pl.col("job_id") != ids(outcome)[0])
    lost = dataclasses.replace(outcome, allocations=others)
    with pytest.raises(InputError, match=r"^stays.parquet: row 1, column stay: .*a stay with rows in"):
        check_stay_log(lost, ids(outcome))
    stays = outcome.stays_written.with_columns(ended=pl.lit("failed"))
    with pytest.raises(InputError, match=r"^stays.parquet: column ended: expected a job"):
        check_stay_log(dataclasses.replace(outcome, stays_written=stays), ids(outcome))


def test_an_outcome_has_every_table_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*TABLES} <= {field.name for field in dataclasses.fields(Outcome)}
    monkeypatch.setitem(TABLES, "made_up", TABLES["servers"]._replace(name="made_up"))

    class Small:
        jobs: pl.DataFrame
        servers: pl.DataFrame | None = None

    made: Any = dataclasses.dataclass(_with_tables(Small))
    assert made(jobs=OUTAGES, made_up=QUOTA).made_up is QUOTA
    assert made(jobs=OUTAGES).made_up is None
    assert not hasattr(made, "servers")  # which would hide what is made later
