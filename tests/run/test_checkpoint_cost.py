"""Checkpoints that take time, by hand (docs/outages.md#checkpoints-that-take-time)."""

import math
import re
import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from outage_forms import daly, young
from ringbco.errors import InputError, UsageError

ROOT = Path(__file__).parents[2]
EVERY = {"checkpoint_interval": 100.0, "checkpoint_cost": 5.0, "preempt_cost": 0.0}


def table(*duration: float, **columns: Any) -> pl.DataFrame:
    count = len(duration)
    named = {"job_id": [f"j{row}" for row in range(count)], "submit_time": [0.0] * count}
    return pl.DataFrame({**named, "num_gpus": [1] * count, "duration": list(duration), **columns})


def down(*spans: tuple[float, float]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "server": [0] * len(spans),
            "down_at": [a for a, _ in spans],
            "up_at": [b for _, b in spans],
        }
    )


def run(jobs: pl.DataFrame, cluster: str = "1x1", **options: Any) -> ringbco.Outcome:
    settings = {"policy": "fifo", "model": "fixed", **EVERY, **options}
    outcome = ringbco.replay(jobs, cluster, **settings)
    assert ringbco.audit(outcome, jobs) == []
    return outcome


@pytest.mark.parametrize(
    ("duration", "finish"), [(99.0, 99.0), (100.0, 100.0), (100.5, 105.5), (200.0, 205.0), (250.0, 260.0)]
)
def test_one_after_each_interval_and_none_at_the_end(duration: float, finish: float) -> None:
    outcome = run(table(duration))
    assert outcome.jobs["finish_time"].item() == finish
    assert outcome.stays["saving"].item() == outcome.jobs["lost_time"].item() == finish - duration
    assert outcome.summary["lost_gpu_seconds"] == finish - duration


@pytest.mark.parametrize(
    ("fails", "saved", "saving"),
    [
        (99.0, 0.0, 0.0),
        (103.0, 0.0, 3.0),  # in the checkpoint
        (105.0, 100.0, 5.0),  # it is over at this instant
        (150.0, 100.0, 5.0),
        (205.0, 100.0, 5.0),  # at the beginning of the next one
        (209.0, 100.0, 9.0),
        (210.0, 200.0, 10.0),
    ],
)
def test_one_counts_when_it_is_over(fails: float, saved: float, saving: float) -> None:
    outcome = run(table(250.0), outages=down((fails, 1000.0)))
    first, second = outcome.stays.iter_rows(named=True)
    progress = fails - saving
    assert (first["saving"], first["lost"], first["lost_time"]) == (
        saving,
        progress - saved,
        progress - saved,
    )
    left = 250.0 - saved
    assert second["end_time"] == 1000.0 + left + 5.0 * (math.ceil(left / 100.0) - 1)
    lost = saving + second["saving"] + progress - saved
    assert outcome.summary["goodput"] == pytest.approx(250.0 / (250.0 + lost))


def test_a_job_without_checkpoints_pays_nothing() -> None:
    jobs = table(500.0, 500.0, checkpoint_interval=[math.inf, None])
    assert run(jobs, "1x2").jobs["finish_time"].to_list() == [500.0, 520.0]


def test_slots() -> None:
    # Ten slots of 60 s. 100 s are there after 2 of them, 200 s after 4, 300 s after 5, 400 s after 7, and
    # 500 s after 9; 600 s are the end.
    outcome = run(table(600.0), clock="slot", slot=60.0)
    assert outcome.stays["saving"].item() == 60.0 * 5
    assert outcome.jobs["finish_time"].item() == 600.0 + 60.0 * 5
    # Several multiples in a slot are one checkpoint.
    often = run(table(600.0), clock="slot", slot=60.0, checkpoint_interval=7.0)
    assert often.stays["saving"].item() == 60.0 * 9


def test_who_is_stopped_while_it_saves_keeps_its_progress() -> None:
    jobs = table(250.0, 10.0).with_columns(submit_time=pl.Series([0.0, 102.0]))
    outcome = run(jobs, policy="srtf")
    assert outcome.stays.filter(job_id="j0")["saving"].to_list() == [2.0, 5.0]
    # 100 s are done at 102 s; from 112 s on 150 s with a checkpoint.
    assert outcome.jobs["finish_time"].to_list() == [112.0 + 155.0, 112.0]


def test_the_least_unsaved_is_evicted() -> None:
    """At 209 s the one saved at 205 s is dear by 100 s of progress, and the other by 4 s."""
    jobs = table(400.0, 400.0, 10.0, priority=[0, 0, 1], checkpoint_interval=[100.0, 200.0, None])
    jobs = jobs.with_columns(submit_time=pl.Series([0.0, 0.0, 209.0]))
    outcome = run(jobs, "1x2", evict=True, evict_loses=True)
    assert outcome.stays.filter(ended="evicted")["job_id"].to_list() == ["j1"]


def test_iterations_that_contention_stretches() -> None:
    """The interval is one of time on GPUs: with twice the contention a checkpoint saves fewer iterations."""
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_time": [0.0, 55.0],
            "num_gpus": [2, 2],
            "duration": [1.0, 1.0],
            "iterations": [100, 100],
            "gradient_bytes": [1e9, 1e9],
            "fp_time": [0.5, 0.5],
            "batch_size": [1, 1],
            "bp_time": [0.5, 0.5],
        }
    )
    options = {"policy": "fifo", "placement": "emptiest", "checkpoint_interval": 30.0, "checkpoint_cost": 4.0}
    outcome = ringbco.replay(jobs, "2x2", **options)
    assert ringbco.audit(outcome, jobs) == []
    for stay in outcome.stays.iter_rows(named=True):
        progress = stay["end_time"] - stay["start_time"] - stay["saving"]
        assert stay["saving"] == 4.0 * (math.ceil(progress / 30.0) - 1)


@pytest.mark.parametrize(
    ("jobs", "options", "says"),
    [
        (
            table(5.0),
            {"checkpoint_interval": 0.0},
            r"option checkpoint-interval: 0: expected a time > 0 s, since",
        ),
        (
            table(5.0, 6.0, checkpoint_interval=[1.0, 0.0]),
            {},
            r"row 2: .*column checkpoint_interval: 0: expected a number of seconds > 0, since",
        ),
        (table(5.0), {"checkpoint_cost": -1.0}, r"option checkpoint-cost: -1\.0: expected a time >= 0"),
    ],
)
def test_bad_input(jobs: pl.DataFrame, options: dict[str, Any], says: str) -> None:
    with pytest.raises((UsageError, InputError), match=says):
        run(jobs, **options)


@pytest.mark.parametrize("policy", ["fifo", "tiresias"])
def test_who_makes_no_progress_is_named(policy: str) -> None:
    """Its checkpoints would go on for ever."""
    jobs = table(50.0, 50.0, gpu_share=[0.5, 0.5], model=["m", "n"], iterations=[50, 50])
    alone = {"gpu_type": "V", "gpus": 1, "servers": 1, "rate": 1.0, "partner": None, "partner_rate": None}
    pair = alone | {"model": "m", "rate": 0.0, "partner": "n", "partner_rate": 0.0}
    speeds = pl.DataFrame(
        [alone | {"model": "m"}, alone | {"model": "n"}, pair],
        schema_overrides={"partner": pl.String, "partner_rate": pl.Float64},
    )
    with pytest.raises(InputError, match="makes no progress after"):
        run(jobs, policy=policy, placement="first-fit", model="table", tables=speeds)


def test_the_page_has_the_formulas_of_young_and_of_daly() -> None:
    page = (ROOT / "docs" / "outages.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\d) \| ([\d.]+) d \| .*? \| .*? \| ([\d.]+) h \| .*? \| ([\d.]+) h \|", page, re.M
    )
    assert [row[0] for row in rows] == ["1", "2", "4"]
    for gang, between, first, second in rows:
        seconds = 2 * 86_400.0 / int(gang)
        assert float(between) == seconds / 86_400.0
        assert first == f"{young(300.0, seconds) / 3600.0:.2f}"
        assert second == f"{daly(300.0, seconds) / 3600.0:.2f}"


def test_the_formulas_agree_with_the_simulation() -> None:
    """On few jobs and seeds: neither is dearer than the best by a percent."""
    example = runpy.run_path(str(ROOT / "docs" / "examples" / "checkpoint_interval.py"))
    row = example["compare"](2, 60, 6)
    dearer = [float(cell) for cell in re.findall(r"\| \+?(-?[\d.]+) % \[", row)]
    assert len(dearer) == 2
    assert max(dearer) < 1.0
