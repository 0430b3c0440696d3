"""Decisions, taken once more: genuine ones are right in every mix, and those of another policy are not."""

import random
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
import ruled
from cases.run import meet
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import JobTable, as_table, from_frame
from ruled import check_outcome

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

ONCE = (
    *(101010, 101908, 103428, 103451, 104183, 105025, 106349, 106887, 106906, 107886, 108170, 108376, "3679"),
    *(110604, 110613, 110698, 111222, 118138, 500281, 503696, 510021, 511051, 601922),
    605539,
    *("1050", 108197, 109130),
    *(804765, "1.595", "1.2774", "1.8087", "1.8619", "1.9921"),
    *("97.298", "97.1684", "97.2565", "97.2912", "101.887", "105.1027"),
)
"""Genuine cases with which the audit once found fault: rungs, U under `skip`, no length, replicas, strains
that are the same but for rounding, an evictor that is evicted at once, ties, a trial
that goes on because of a refusal."""


@pytest.mark.parametrize("seed", ONCE)
def test_what_it_once_found_fault_with(seed: int | str) -> None:
    met = meet(seed, check=False)
    assert met.seen.outcome is not None
    found = check_outcome(met.seen.outcome, as_table(met.seen.case.frame())).findings
    assert found == [], f"case {seed}, of {', '.join(met.features)}\n\n{met.seen.case.script()}"


class Late(ringbco.Policy):
    """As fifo, but nobody starts in the first ten seconds."""

    resizes = False

    def decide(self, state: ringbco.State) -> None:
        since = state.jobs.submit_time[state.waiting]
        ripe = since + 10.0 <= state.now
        state.start(state.waiting[ripe])
        if not ripe.all():
            state.wake(float((since[~ripe] + 10.0).min()))


class Fewest(ringbco.Policy):
    """The one with the fewest GPUs goes first."""

    resizes = False

    def decide(self, state: ringbco.State) -> None:
        rows = state.waiting
        state.start(rows[np.argsort(state.jobs.num_gpus[rows], kind="stable")])


BESIDE: dict[str, dict[str, Any]] = {
    "alone": {},
    "outages": {"outages": pl.DataFrame({"server": [0], "down_at": [400.0], "up_at": [900.0]})},
    "services": {
        "services": pl.DataFrame(
            {"service": ["chat"] * 2, "time": [300.0, 800.0], "replicas": [1, 0], "gpus_per_replica": [4, 4]}
        )
    },
    "slots": {"clock": "slot", "slot": 5.0},
}


@pytest.fixture(scope="module")
def jobs() -> JobTable:
    """Crowded, of many sizes."""
    rnd = random.Random(5)
    rows = range(60)
    frame = pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in rows],
            "submit_time": sorted(rnd.uniform(0.0, 900.0) for _ in rows),
            "num_gpus": [rnd.choice((1, 1, 2, 3, 4, 6, 8, 12)) for _ in rows],
            "duration": [rnd.uniform(30.0, 400.0) for _ in rows],
            "deadline": [rnd.uniform(500.0, 4000.0) for _ in rows],
        }
    )
    return as_table(frame)


def codes(outcome: Outcome, jobs: JobTable, **claimed: Any) -> set[str]:
    """Which checks find fault with a result that is said to be of other options."""
    for name, value in claimed.items():
        outcome.run["options"][name] = value
    checks = check_outcome(outcome, jobs).checks
    return {check.code for check in checks if check.failed} & {"placement", "order", "idle", "reservation"}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("policy", [Late, Fewest])
def test_a_whole_run_of_another_policy(jobs: JobTable, policy: type[ringbco.Policy], beside: str) -> None:
    told = {"model": "fixed", "preempt_cost": 30.0, **BESIDE[beside]}
    wrong = ringbco.replay(jobs, "4x8", policy=policy(), **told)
    assert codes(wrong, jobs, policy="fifo", order="fifo", queue="strict", placement="consolidate")
    right = ringbco.replay(jobs, "4x8", policy="fifo", **told)
    assert codes(right, jobs) == set()


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize(
    ("options", "claimed"),
    [
        ({"policy": "rand", "seed": 1}, {"seed": 2}),
        ({"policy": "ls"}, {"placement": "first-fit"}),
        ({"policy": "sjf-bco", "kappa": 2}, {"kappa": 16}),
        ({"policy": "fifo", "placement": "lbsgf"}, {"variant": "literal"}),
        ({"policy": "sjf", "queue": "skip"}, {"queue": "easy"}),
        ({"policy": "srtf"}, {"policy": "edf"}),
        ({"policy": "tiresias", "thresholds": [500.0]}, {"policy": "time-slice", "quantum": 60.0}),
        ({"policy": "ftf"}, {"policy": "gittins"}),
    ],
    ids=lambda value: " ".join(map(str, value.values())),
)
def test_another_label(jobs: JobTable, options: Any, claimed: dict[str, Any], beside: str) -> None:
    told = {"model": "fixed", **BESIDE[beside], **options}
    if beside == "slots":
        told["interval" if options["policy"] in ("tiresias", "ftf") else "slot"] = 5.0
    assert codes(ringbco.replay(jobs, "4x8", **told), jobs) == set()
    assert codes(ringbco.replay(jobs, "4x8", **told), jobs, **claimed)


def test_who_is_evicted_for_whom() -> None:
    """Both urgent jobs start as the others go; each is named by whom the rules took for it."""
    frame = pl.DataFrame(
        {
            "job_id": ["a", "b", "u", "v"],
            "submit_time": [0.0, 0.0, 50.0, 50.0],
            "num_gpus": [2, 2, 2, 2],
            "duration": [100.0] * 4,
            "priority": [0, 0, 1, 1],
        }
    )
    outcome = ringbco.replay(frame, "2x2", policy="fifo", evict=True, model="fixed")
    assert check_outcome(outcome, as_table(frame)).findings == []
    stays = outcome.stays_written
    assert stays is not None
    other = {"u": "v", "v": "u"}
    swapped = stays.with_columns(pl.col("by_job").replace(other))
    assert not swapped.equals(stays)
    wrong = Outcome(
        outcome.jobs,
        outcome.allocations,
        outcome.timeline,
        outcome.summary,
        outcome.run,
        stays_written=swapped,
    )
    found = {finding.code for finding in check_outcome(wrong, as_table(frame)).findings}
    assert found == {"evictions"}


@pytest.mark.parametrize("placement", ["least-loaded", "lbsgf", "sjf-bco", "random"])
def test_who_starts_is_looked_at_after_a_finding(placement: str) -> None:
    rows = [(f"j{n}", float(n // 4), 1 + n * 7 % 5, 4.0 + n * 11 % 17) for n in range(60)]
    frame = pl.DataFrame(rows, schema=["job_id", "submit_time", "num_gpus", "duration"], orient="row")
    options: dict[str, Any] = {"policy": "sjf", "model": "fixed", "placement": placement, "seed": 1}
    outcome = ringbco.replay(frame, "3x4", **options)
    assert ruled.audit(outcome, from_frame(frame)) == []
    outcome.run["options"]["order"] = "fifo"
    found = [each for each in ruled.audit(outcome, from_frame(frame)) if each.code in ("order", "idle")]
    assert len(found) > 5  # U, or the random numbers, are not known after the first
