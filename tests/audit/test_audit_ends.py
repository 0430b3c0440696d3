"""What the audit says of why stays ended, of results without allocations, and of what it once passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import polars as pl

import ringbco
from cases.run import meet
from core_run import AUDITS
from ringbco.audits import check_outcome
from ringbco.trace.jobs import as_table

Met = tuple[ringbco.Outcome, Any]
SEEDS, EACH = 140, 6
"""Random cases, and stays of each end that are tried."""


@cache
def met(seed: str) -> Met | None:
    """A random case of the tests, and its job table."""
    seen = meet(seed, check=False).seen
    return None if seen.outcome is None else (seen.outcome, seen.case.frame())


def several() -> Iterator[Met]:
    yield from (result for number in range(SEEDS) if (result := met(f"ends {number}")) is not None)


def codes(outcome: ringbco.Outcome, jobs: Any) -> set[str]:
    return {finding.code for finding in check_outcome(outcome, as_table(jobs)).findings}


def with_cell(frame: pl.DataFrame, row: int, column: str, value: Any) -> pl.DataFrame:
    values = frame[column].to_list()
    values[row] = value
    return frame.with_columns(pl.Series(column, values, dtype=frame.schema[column]))


ENDS: dict[str, tuple[str, Callable[[Any], Any], set[str]]] = {
    "failed": ("by_server", lambda server: server + 1, {"outages"}),
    "evicted": ("by_job", lambda _: None, {"evictions"}),
    "preempted": ("by_server", lambda _: 0, {"stays"}),
    "moved": ("ended", lambda _: "resized", {"stays"}),
    "rung": ("ended", lambda _: "preempted", {"stays", "searches"}),
    "done": ("ended", lambda _: "evicted", {"stays"}),
}
"""By how a stay ended: a column that is changed, what it then says, and the checks of which one finds it."""


def test_a_stay_that_did_not_end_so() -> None:
    tried: Counter[str] = Counter()
    for outcome, jobs in several():
        stays = outcome.stays_written
        if stays is None:
            continue
        for ended, (column, other, expected) in ENDS.items():
            rows = stays.with_row_index("at").filter(pl.col("ended") == ended)
            if column != "by_server" or ended == "failed":
                rows = rows.filter(pl.col(column).is_not_null())
            for row in rows["at"].to_list()[: min(2, EACH - tried[ended])]:
                wrong = with_cell(stays, row, column, other(stays[column][row]))
                assert codes(replace(outcome, stays_written=wrong), jobs) & expected, (ended, row)
                tried[ended] += 1
    assert tried.keys() == ENDS.keys()


def test_who_evicts_starts_then_and_stands_higher() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["low", "other", "high"],
            "submit_time": [0.0, 0.0, 10.0],
            "num_gpus": [1, 1, 2],
            "duration": [100.0, 100.0, 50.0],
            "priority": [0, 0, 1],
        }
    )
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model="fixed", evict=True)
    stays = outcome.stays_written
    assert stays is not None
    row = stays["ended"].to_list().index("evicted")
    assert stays["by_job"][row] == "high"
    assert codes(outcome, jobs) == set()
    wrong = replace(outcome, stays_written=with_cell(stays, row, "by_job", "other"))
    assert codes(wrong, jobs) == {"evictions"}
    assert "evictions" in codes(outcome, jobs.with_columns(priority=pl.lit(1)))


def test_without_allocations_genuine_results_pass() -> None:
    for number in range(2 * AUDITS):
        result = met(f"no allocations {number}")
        if result is not None:
            outcome, jobs = result
            assert check_outcome(replace(outcome, allocations=None), as_table(jobs)).findings == [], number


def test_a_server_that_does_not_exist_on_a_cluster_of_one() -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [5.0]})
    down = pl.DataFrame({"server": [0], "down_at": [50.0], "up_at": [60.0]})
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model="fixed", outages=down)
    assert outcome.allocations is not None
    wrong = outcome.allocations.with_columns(server=pl.lit(1, pl.UInt32))
    assert codes(replace(outcome, allocations=wrong), jobs) == {"servers"}


def test_times_late_in_a_trace_count_by_the_second() -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [1e12], "num_gpus": [1], "duration": [500.0]})
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model="fixed", sample=7.0)
    assert codes(outcome, jobs) == set()
    finish = outcome.jobs["finish_time"][0] + 1.0
    longer = outcome.jobs.with_columns(finish_time=pl.lit(finish), jct=pl.lit(501.0), run_time=pl.lit(501.0))
    assert outcome.allocations is not None
    held = outcome.allocations.with_columns(end_time=pl.lit(finish))
    assert "run-times" in codes(replace(outcome, jobs=longer, allocations=held), jobs)
    last = outcome.timeline.height - 1
    moved = with_cell(outcome.timeline, last, "time", outcome.timeline["time"][last] + 1.0)
    assert codes(replace(outcome, timeline=moved), jobs) == {"timeline"}


def test_jobs_that_a_policy_of_ones_own_ended_are_counted() -> None:
    result = [(outcome, jobs) for outcome, jobs in islice(several(), 60) if outcome.summary.get("jobs_ended")]
    for outcome, jobs in result:
        recorded = {**outcome.summary, "jobs_ended": outcome.summary["jobs_ended"] + 1}
        assert codes(replace(outcome, summary=recorded), jobs) & {"summary", "jobs"}
    assert result


class Quits(ringbco.Policy):
    """Stops a job that runs, and ends it later on while it waits."""

    def decide(self, state: ringbco.State) -> None:
        if state.now == 0.0:
            state.start(state.waiting)
            state.wake(10.0)
        elif state.now == 10.0:
            state.stop([1])
            state.wake(20.0)
        elif state.now == 20.0:
            state.end([1])


def test_a_job_that_a_policy_ends_while_it_waits() -> None:
    table = pl.DataFrame({"job_id": ["a", "b"], "submit_time": 0.0, "num_gpus": 1, "duration": [50.0, 50.0]})
    outcome = ringbco.replay(table, "1x2", policy=Quits(), model="fixed")
    assert outcome.stays_written is not None
    assert dict(outcome.stays_written.select("job_id", "ended").rows())["b"] == "preempted"
    assert codes(outcome, table) == set()
    # Of a job that is done it is as wrong as ever.
    stays = outcome.stays_written.with_columns(ended=pl.lit("preempted"))
    assert "stays" in codes(replace(outcome, stays_written=stays), table)
