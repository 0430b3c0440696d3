"""The audit of searches: it finds nothing wrong with genuine results, and finds what was changed in one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import ringbco
from ringbco import audit
from ringbco.audits import check_outcome
from ringbco.result.figures import of_jobs
from ringbco.trace.jobs import as_table


def table(rnd: random.Random, count: int) -> pl.DataFrame:
    span = rnd.choice((0.0, 300.0, 3000.0))
    return pl.DataFrame(
        {
            "job_id": [f"t{row}" for row in range(count)],
            "submit_time": [round(rnd.uniform(0.0, span), rnd.choice((0, 3))) for _ in range(count)],
            "num_gpus": [rnd.choice((1, 1, 2, 4, 8)) for _ in range(count)],
            "duration": [round(rnd.uniform(60.0, 4000.0), 1) for _ in range(count)],
            "group": ["a", *(rnd.choice(("a", "a", "b", None)) for _ in range(count - 1))],
            "user": [rnd.choice("xyz") for _ in range(count)],
            "deadline": [rnd.choice((3000.0, 9000.0)) for _ in range(count)],
            "priority": [rnd.choice((0, 0, 1)) for _ in range(count)],
        }
    )


def test_searches_stand_in_the_order_of_the_table_also_where_their_first_trials_were_dropped() -> None:
    names = ["a", "gone", "b", "a"]
    jobs = pl.DataFrame({"job_id": list("0123"), "submit_time": [0.0] * 4, "num_gpus": [9, 9, 1, 1],
                         "duration": [8.0] * 4, "group": names})  # fmt: skip
    searched = {"model": "fixed", "oversize": "drop", "search": "asha:eta=2,rungs=1"}
    outcome = ringbco.replay(jobs, "1x8", policy="fifo", **searched)
    assert outcome.searches is not None
    assert outcome.searches["group"].to_list() == ["a", "b"]
    assert audit(outcome, jobs) == []


def test_without_allocations_it_passes_too() -> None:
    rnd = random.Random(1)
    jobs = table(rnd, 40)
    out = ringbco.replay(jobs, "4x8", policy="fifo", search="asha:eta=3,rungs=2", allocations=False)
    assert audit(out, jobs) == []


def set_cell(name: str, row: int, change: Callable[[Any], Any]) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def changed(frame: pl.DataFrame) -> pl.DataFrame:
        values = frame[name].to_list()
        values[row] = change(values[row])
        return frame.with_columns(pl.Series(name, values, dtype=frame.schema[name]))

    return changed


def swap(frame: pl.DataFrame) -> pl.DataFrame:
    """The last trial that ended at rung 0 goes on as it came, and the first that went on then does not."""
    ended = int((frame["went_on"].is_null() & (frame["rung"] == 0)).arg_max() or 0)
    values = frame["went_on"].to_list()
    values[ended] = frame["time"][ended]
    return frame.with_columns(pl.Series("went_on", values))


def later(frame: pl.DataFrame) -> pl.DataFrame:
    """A trial that goes on at once is said to have reached its rung a second later."""
    chosen = pl.int_range(pl.len()) == int((frame["went_on"] == frame["time"]).arg_max() or 0)
    return frame.with_columns(
        pl.col(name) + pl.when(chosen).then(1.0).otherwise(0.0) for name in ("time", "went_on")
    )


def afterwards(frame: pl.DataFrame) -> pl.DataFrame:
    """The last trial that ended at rung 0 is said to have reached it a second after it gave its GPUs back."""
    ended = int(frame["time"].filter(frame["went_on"].is_null()).arg_max() or 0)
    row = int(frame.with_row_index().filter(pl.col("went_on").is_null())["index"][ended])
    return set_cell("time", row, lambda value: value + 1.0)(frame)


CHANGES: dict[str, tuple[str, Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "loss": ("rungs", set_cell("loss", 0, lambda value: value + 1e-9), "loss is "),
    "who goes on": ("rungs", swap, "went on from rung 0 at"),
    "when": ("rungs", later, "on its way to"),
    "when it ended": ("rungs", afterwards, "expected the end of a stay"),
    "a rung": ("rungs", set_cell("rung", 0, lambda value: value + 1), "out of turn"),
    "fewer rungs": ("rungs", lambda frame: frame.filter(pl.col("rung") == 0), "went on from 1 rungs of 2"),
    "a stranger": ("rungs", set_cell("job_id", 0, lambda _: "nobody"), "does not know"),
    "GPU-hours": ("searches", set_cell("gpu_hours", 0, lambda value: 1.01 * value), "gpu_hours is"),
    "the best": ("searches", set_cell("best_loss", 0, lambda value: value - 0.01), "best_loss is"),
    "time to it": ("searches", set_cell("time_to_best", 0, lambda value: value - 1), "time_to_best is"),
    "trials": ("searches", set_cell("trials", 0, lambda value: value + 1), "trials is"),
    "a search": ("searches", lambda frame: frame.head(1), "has 1 rows; expected 2"),
    "paused time": ("jobs", set_cell("paused_time", 0, lambda value: value + 5.0), "expected"),
    "pauses": ("jobs", set_cell("pauses", 0, lambda value: value + 1), "pauses is "),
    "group": ("jobs", set_cell("group", 0, lambda _: "b"), "group is b; expected"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_found(change: str) -> None:
    rnd = random.Random(5)
    jobs = table(rnd, 30)
    out = ringbco.replay(jobs, "4x8", policy="fifo", model="fixed", search="asha:eta=2,rungs=2")
    name, changed, said = CHANGES[change]
    out = replace(out, **{name: changed(getattr(out, name))}, summary=out.summary)
    report = check_outcome(out, as_table(jobs)).findings
    assert any(said in finding.message for finding in report), report


@pytest.mark.parametrize("word", ["preempted", "evicted", "failed"])
def test_a_stay_that_ends_at_a_rung_ends_so_in_stays_parquet(word: str) -> None:
    jobs = table(random.Random(5), 30)
    out = ringbco.replay(jobs, "4x8", policy="srtf", model="fixed", search="asha:eta=2,rungs=2")
    stays = out.stays_written
    assert stays is not None
    last = stays["job_id"].is_last_distinct()
    row = int(((stays["ended"] == "rung") & ~last).arg_max() or 0)
    assert stays["ended"][row] == "rung"
    report = audit(replace(out, stays_written=set_cell("ended", row, lambda _: word)(stays)), jobs)
    assert any("gives its GPUs back at a rung; expected rung" in finding.message for finding in report)


def test_a_summary_that_counts_trials_as_jobs_is_found() -> None:
    rnd = random.Random(6)
    jobs = table(rnd, 30).with_columns(group=pl.Series(["a"] * 29 + [None]))
    out = ringbco.replay(jobs, "1x8", policy="fifo", search="asha:eta=2,rungs=1")
    alone = of_jobs(out.jobs.drop("group"))
    summary = out.summary | {key: alone[key] for key in alone if "fairness" in key}
    assert summary != out.summary
    report = audit(replace(out, summary=summary), jobs)
    assert {finding.code for finding in report} == {"summary"}
    assert any("mean_finish_time_fairness" in finding.message for finding in report)


@pytest.mark.parametrize("name", ["searches", "jobs_ended", "mean_search_gpu_hours", "mean_time_to_best"])
def test_figures_of_searches_that_were_changed_are_found(name: str) -> None:
    jobs = table(random.Random(5), 30)
    out = ringbco.replay(jobs, "4x8", policy="fifo", model="fixed", search="asha:eta=2,rungs=2")
    report = audit(replace(out, summary=out.summary | {name: out.summary[name] + 1}), jobs)
    assert [finding.code for finding in report] == ["summary"]
    assert name in report[0].message
