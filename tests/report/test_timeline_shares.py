"""A timeline of jobs that share GPUs: slices tell which and what share."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.reports import perfetto
from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_drawable
from sharing import FIXED, jobs, random_jobs
from test_timeline import check_format, events_of, slices


@pytest.fixture(scope="module")
def small() -> Outcome:
    """The example of docs/shares.md: from 10 s on GPUs 0 and 1 have two jobs each."""
    frame = jobs((0, 1, 100, 0.6), (0, 1, 100, 0.5), (0, 2, 50, None), (10, 1, 100, 0.4), (10, 1, 40, 0.3))
    return ringbco.replay(frame, "1x4", interference=0.5, **FIXED)


@pytest.fixture(scope="module")
def random_outcome() -> Outcome:
    return ringbco.replay(random_jobs(random.Random(5), share=0.8), "3x4", policy="srtf", placement="fgd")


def test_slices_by_hand(small: Outcome) -> None:
    events = events_of(small)
    check_format({"traceEvents": events, "displayTimeUnit": "ms"})
    threads = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert threads == [f"jobs {number}" for number in range(1, 6)]
    result = {
        (
            e["name"].partition(": ")[2],
            e["args"]["which GPUs"],
            e["args"].get("share"),
            e["ts"] / 1e6,
            e["dur"] / 1e6,
        )
        for e in slices(events)
    }
    assert result == {
        ("a \N{MULTIPLICATION SIGN}0.6", "0", 0.6, 0, 145),
        ("b \N{MULTIPLICATION SIGN}0.5", "1", 0.5, 0, 120),
        ("c \N{MULTIPLICATION SIGN}2", "2, 3", None, 0, 50),
        ("d \N{MULTIPLICATION SIGN}0.4", "0", 0.4, 10, 145),
        ("e \N{MULTIPLICATION SIGN}0.3", "1", 0.3, 10, 60),
    }


def test_counters_are_parts_of_gpus(small: Outcome) -> None:
    held = [(e["ts"] / 1e6, e["args"]["GPUs"]) for e in events_of(small) if e["name"] == "GPUs held"]
    assert held == [(0, 3.1), (10, 3.8), (50, 1.8), (70, 1.5), (120, 1.0), (145, 0.4), (155, 0)]


def test_a_spanning_job_counts_once_on_each_server_whatever_gpus_it_holds_there() -> None:
    made = ringbco.replay(jobs((0, 4, 50, None), (0, 1, 20, 0.5)), "3x2", **FIXED)
    entries = [
        (e["pid"] - perfetto.FIRST_SERVER, e["ts"], e["args"]["jobs"])
        for e in events_of(made)
        if e["name"] == "spanning jobs"
    ]
    servers = sorted({server for server, _, _ in entries})
    assert entries == [(server, at, count) for server in servers for at, count in ((0, 1), (50_000_000, 0))]
    assert len(servers) == 2


def test_slices_are_the_rows_of_the_allocations(random_outcome: Outcome) -> None:
    events = events_of(random_outcome)
    check_format({"traceEvents": events, "displayTimeUnit": "ms"})
    result = sorted(
        (
            e["args"]["job"],
            e["pid"] - perfetto.FIRST_SERVER,
            int(gpu),
            e["args"].get("share", 1.0),
            round(e["ts"] / 1e6, 3),
        )
        for e in slices(events)
        for gpu in e["args"]["which GPUs"].split(", ")
    )
    assert random_outcome.allocations is not None
    rows = random_outcome.allocations.select(
        "job_id", "server", "gpu", pl.col("share").fill_null(1.0), pl.col("start_time").round(3)
    ).rows()
    assert result == sorted(rows)
    gangs = random_outcome.allocations.select("job_id", "stay", "server").unique()
    assert len(slices(events)) == gangs.height < len(rows)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (pl.col("gpu").cast(pl.String), "column gpu: String: expected numbers"),
        (pl.lit(None, pl.UInt32).alias("gpu"), "row 1, column gpu: null: expected a GPU's index, from 0"),
        (pl.lit(1.5).alias("share"), "row 1, column share: 1.5: expected a share > 0 and <= 1"),
        (pl.lit(float("nan")).alias("share"), "row 1, column share: NaN: expected a share > 0 and <= 1"),
        (None, "column gpu: expected a column, as jobs share GPUs; there is none"),
    ],
)
def test_damaged_shares_are_told(small: Outcome, tmp_path: Path, change: pl.Expr | None, says: str) -> None:
    assert small.allocations is not None
    frame = small.allocations
    wrong = frame.drop("gpu", "share") if change is None else frame.with_columns(change)
    with pytest.raises(InputError) as caught:
        check_drawable(dataclasses.replace(small, allocations=wrong), tmp_path)
    assert says in str(caught.value)


def test_servers_are_named_by_their_type(tmp_path: Path, invoke: Invoke) -> None:
    file = tmp_path / "c.toml"
    groups = [f'[[servers]]\ncount = 1\ngpus = 2\ngpu_type = "{name}"\n' for name in ("V100", "T4")]
    file.write_text("".join(groups), encoding="utf-8")
    frame = jobs((0, 1, 10, 0.6), (0, 1, 10, 0.6), (0, 1, 10, 0.6))
    made = ringbco.replay(frame, Cluster.parse(file), **FIXED)
    entries = [e["args"]["name"] for e in events_of(made) if e["name"] == "process_name"]
    assert entries == ["cluster", "server 0 (2 GPUs, V100)", "server 1 (2 GPUs, T4)"]
    made.write(tmp_path / "r")
    assert invoke("timeline", "r", "-o", "t.json.gz").returncode == 0
