"""Stories of random runs: holders against allocations, orders against a plain model, every number."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.run import meet
from cases.stories import (
    check_against_the_model,
    check_against_the_tables,
    check_holders,
    check_numbers,
    facts_of,
)
from cases.waiting import NEAR, WaitingModel
from core_run import CASES
from frames import busy_jobs, table
from ringbco.result.why_record import LoadedJobTable, Record, job_table
from ringbco.result.why_story import tell
from ringbco.run.probe import ask

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
CHUNK = 25
DRAWN = max(CHUNK, CASES // 6)
"""Cases, each with the stories of all its jobs."""
RUNS: dict[str, dict[str, Any]] = {
    "fifo": {"policy": "fifo"},
    "srtf": {"policy": "srtf"},
    "sjf-bco": {"policy": "sjf-bco"},
    "afs": {"policy": "afs"},
    "easy": {"policy": "fifo", "queue": "easy"},
    "quota": {
        "policy": "fifo",
        "quota": pl.DataFrame({"user": ["u0", "u1"], "gpus": [6, 6], "borrow": [False, True]}),
    },
}


@pytest.mark.parametrize("name", RUNS)
def test_holders_are_those_of_allocations(name: str) -> None:
    """Job by job on 100 jobs, at every moment that a story tells of."""
    jobs = busy_jobs(100)
    if name == "afs":
        jobs = jobs.with_columns(min_gpus=pl.lit(1), max_gpus=pl.col("num_gpus") + 2)
    outcome = ringbco.replay(jobs, "2x4", oversize="drop", **RUNS[name])
    record, checked = Record(outcome, job_table(outcome, jobs)), 0
    for job in jobs["job_id"]:
        row = record.row_of(job)
        assert row is not None
        story = tell(record, row, ask(record, row))
        waited = outcome.stays.filter((pl.col("job_id") == job) & (pl.sum_horizontal("^wait_.*$") > 0)).height
        assert len(facts_of(story, "held")) == 2 * waited
        checked += check_holders(outcome, story)
    assert checked > 300


@pytest.mark.parametrize("chunk", range(-(-DRAWN // CHUNK)))
def test_every_number_of_random_cases(chunk: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(CHUNK * chunk, min(DRAWN, CHUNK * (chunk + 1))):
        met = meet(seed, check=False).seen
        outcome, jobs = met.outcome, met.case.frame()
        assert outcome is not None
        records = [
            Record(outcome, job_table(outcome, jobs)),
            Record(outcome, LoadedJobTable(None, "it is not there")),
        ]
        expected, own = WaitingModel(records[0]), outcome.run.get("own_policy", {}).get("sha256")
        policy = records[0].policy if own else None
        whole = set(outcome.stays["job_id"]) == set(outcome.jobs["job_id"])
        for number, job in enumerate(jobs["job_id"]):
            # Now and then without the job table, which says less; of jobs that were ended not even when they
            # were submitted.
            known = whole and job in outcome.jobs["job_id"]
            record = records[number % 3 == 0 and known]
            row = record.row_of(job)
            assert row is not None
            asked = ask(record, row, policy)
            story = tell(record, row, asked)
            if record.whole and record.options["order"] != "column":
                # Drawn requests are in memory: such a run does not come out again.
                assert asked.why_not is None or "requests" in outcome.run
                seen[record.policy] += asked.why_not is None
            check_numbers(story)
            check_against_the_tables(outcome, story)
            if outcome.allocations is not None:
                check_against_the_model(expected, story, seen)
                # Those of other virtual clusters are on other servers.
                check_holders(outcome, story, expected.vc_of(job))
            else:
                assert facts_of(story, "held") == []
    assert {"held", "too few", "started", "freed", "order checked", "decision"} <= seen.keys()
    assert {"place", "ranking"} & seen.keys()


@pytest.mark.parametrize("placement", ["consolidate", "first-fit"])
def test_the_head_starts_when_its_reservation_says(placement: str) -> None:
    """Estimates are right: EASY lets nobody delay the head, and nothing comes earlier than it says."""
    jobs = busy_jobs(400)
    options: dict[str, Any] = {"queue": "easy", "placement": placement, "oversize": "drop", "model": "fixed"}
    outcome = ringbco.replay(jobs, "3x4", policy="fifo", **options)
    start = dict(outcome.jobs.select("job_id", "start_time").iter_rows())
    result = [
        fact
        for job in outcome.jobs.filter(pl.col("wait_behind") > 0)["job_id"]
        for fact in facts_of(outcome.why(job), "reserved")
        if "shadow" in fact.figures
    ]
    assert len(result) > 5
    for fact in result:
        assert start[fact.figures["head"]] == pytest.approx(fact.figures["shadow"], rel=NEAR)
        assert fact.figures["own_end"] > fact.figures["shadow"]


def test_a_plan_has_stories() -> None:
    jobs = table(num_gpus=[3, 2, 4], duration=[10.0, 10.0, 10.0])
    outcome = ringbco.plan(jobs, "1x4", model="fixed", policy="ff")
    for job in jobs["job_id"]:
        story = outcome.why(job, jobs)
        check_numbers(story)
        check_against_the_tables(outcome, story)
