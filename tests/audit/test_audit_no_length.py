"""Work that takes less time than float64 tells apart: results of such jobs pass, and no check crashes."""

from __future__ import annotations

import math
import random
from typing import Any

import polars as pl
import pytest

import ringbco
from core_run import AUDITS
from ringbco.errors import RingbcoError

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

QUEUED = ("fifo", "sjf", "smallest", "ff", "ls", "rand", "sjf-bco", "qssf")
ELASTIC = ("afs", "optimus", "elastic-srtf")
PLACEMENTS = ("first-fit", "consolidate", "binpack", "emptiest", "least-loaded", "random", "worst-fit")
SERVERS = ("1x2", "2x1", "2x4", "4x2", "3x1")


def table(*rows: tuple[str, float, int, float], **more: list[Any]) -> pl.DataFrame:
    jobs = pl.DataFrame(rows, ["job_id", "submit_time", "num_gpus", "duration"], orient="row")
    return jobs.with_columns(**{name: pl.Series(values) for name, values in more.items()})


@pytest.mark.parametrize(("gpus", "cluster"), [(1, "1x2"), (2, "2x1")])
def test_one_job_of_no_length(gpus: int, cluster: str) -> None:
    jobs = table(("a", 1e12, gpus, 1e-9))
    outcome = ringbco.replay(jobs, cluster, policy="fifo", model="fixed")
    assert outcome.jobs["finish_time"].to_list() == [1e12]
    assert ringbco.audit(outcome, jobs) == []


def test_it_holds_nothing_after_its_instant() -> None:
    """They take turns on one GPU at one instant, and who comes behind them is in nobody's way."""
    jobs = table(("a", 1e12, 1, 1e-9), ("b", 1e12, 1, 1e-9), ("c", 1e12, 1, 5.0), ("d", 1e12, 1, 5.0))
    outcome = ringbco.replay(jobs, "1x1", policy="fifo", model="fixed")
    assert (outcome.jobs["finish_time"] - 1e12).to_list() == [0.0, 0.0, 5.0, 10.0]
    assert ringbco.audit(outcome, jobs) == []


def test_the_time_that_none_took_is_no_loss() -> None:
    jobs = table(("a", 1e12, 1, 1e-9), ("b", 1e12, 1, 5.0))
    down = pl.DataFrame({"server": [0], "down_at": [1e12 + 50], "up_at": [1e12 + 60]})
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model="fixed", outages=down)
    assert outcome.summary["effective_training_time_ratio"] == 1.0
    assert ringbco.audit(outcome, jobs) == []


def test_a_search_of_no_length_has_a_slowdown() -> None:
    jobs = table(("a", 1e12, 1, 1e-9), ("b", 1e12, 1, 1e-9), group=["s", "s"], user=["ann", "ann"])
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model="fixed", search="asha:eta=2,rungs=1")
    assert math.isfinite(outcome.summary["worst_finish_time_fairness"])
    ringbco.audit(outcome, jobs)


def random_run(rnd: random.Random) -> tuple[pl.DataFrame, str, dict[str, Any]]:
    """Up to ten jobs, most of them shorter than what float64 tells apart where they are submitted."""
    at = rnd.choice((1e9, 1e12, 1e15))
    least = math.ulp(at)
    scale, tiny = rnd.choice((least, 1.0, 10.0)), rnd.choice((0.3, 0.7, 1.0))
    rows = []
    for row in range(rnd.randint(1, 10)):
        at += rnd.choice((0.0, 0.0, 1.0)) * scale * rnd.randint(1, 20)
        brief = rnd.choice((1e-15, 1e-12, 1e-9, 1e-6, least / 4, least / 2, least, 3 * least))
        length = brief if rnd.random() < tiny else 5.0 * scale * rnd.randint(1, 5)
        rows.append((f"j{row}", at, rnd.choice((1, 1, 2, 3, 4)), length))
    users = [rnd.choice(("ann", "bob")) for _ in rows]
    jobs = table(*rows, user=users)
    options: dict[str, Any] = {"model": rnd.choice(("rar", "fixed")), "oversize": "drop"}
    policy = options["policy"] = rnd.choice((*QUEUED, *QUEUED, "repack", *ELASTIC))
    if policy in QUEUED:
        options["queue"] = rnd.choice(("strict", "skip", "easy"))
        if rnd.random() < 0.4:
            options["placement"] = rnd.choice(PLACEMENTS)
        if rnd.random() < 0.3:
            owners = sorted(set(users))
            quotas = {"user": owners, "gpus": [rnd.choice((1, 2, 4)) for _ in owners]}
            options["quota"] = pl.DataFrame(quotas).with_columns(borrow=pl.lit(rnd.random() < 0.6))
    elif policy in ELASTIC:
        asked = jobs["num_gpus"].to_list()
        jobs = jobs.with_columns(
            min_gpus=pl.Series([rnd.randint(1, gpus) for gpus in asked]),
            max_gpus=pl.Series([gpus + rnd.choice((0, 0, 2)) for gpus in asked]),
        )
    if rnd.random() < 0.3:
        down = at + rnd.choice((0.0, 1.0, 5.0)) * scale
        outage = {"server": [0], "down_at": [down], "up_at": [down + 20.0 * scale]}
        options["outages"] = pl.DataFrame(outage)
    return jobs, rnd.choice(SERVERS), options


def test_random_runs_pass() -> None:
    for number in range(5 * AUDITS):
        jobs, cluster, options = random_run(random.Random(f"no length {number}"))
        try:
            outcome = ringbco.replay(jobs, cluster, **options)
        except RingbcoError:  # no job fits, or one waits for ever
            continue
        assert ringbco.audit(outcome, jobs) == [], (number, jobs.rows(), cluster, options)
