"""Waits as recorded: a plain computation on random tables, by hand, in comparisons and in the audit."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from core_run import CASES
from ringbco import Outcome, replay
from ringbco.audits import check_outcome
from ringbco.result.metrics import rank_correlation
from ringbco.sweeps.run import scaled
from ringbco.trace.jobs import from_frame

KEYS = ("as_recorded", "as_recorded_correlation", "as_recorded_jobs")
CHUNK = 25


def plain_ranks(values: list[float]) -> list[float]:
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


def plain_correlation(one: list[float], other: list[float]) -> float | None:
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    ranks = [plain_ranks(values) for values in (one, other)]
    mean = (len(one) + 1) / 2
    cov = sum((x - mean) * (y - mean) for x, y in zip(*ranks, strict=True))
    size = [sum((x - mean) ** 2 for x in own) for own in ranks]
    return float(cov / (size[0] * size[1]) ** 0.5)


def plain(outcome: Outcome, jobs: pl.DataFrame) -> tuple[float, float | None, int] | None:
    """The three figures, job by job."""
    began = dict(outcome.jobs.select("job_id", "start_time").iter_rows())
    since, until = (
        outcome.summary.get(f"measure_{end}", other) for end, other in (("from", -1e99), ("to", 1e99))
    )
    waits = [
        (began[name] - submit, start - submit)
        for name, submit, start in jobs.select("job_id", "submit_time", "recorded_start").iter_rows()
        if start is not None and name in began and since <= submit < until
    ]
    if not waits:
        return None
    near = sum(abs(here - there) <= max(60.0, there / 10) for here, there in waits)
    here, there = ([wait[side] for wait in waits] for side in (0, 1))
    return near / len(waits), plain_correlation(here, there), len(waits)


def table(draw: random.Random) -> pl.DataFrame:
    """Few distinct times, so that waits tie; waits at the edge of what is near; some starts unknown."""
    rows, step = draw.randint(1, 30), draw.choice([1.0, 20.0, 60.0, 0.1])
    unknown, alike = draw.choice([0.0, 0.3, 0.9]), draw.random() < 0.15
    submit = sorted(draw.randint(0, 20) * step for _ in range(rows))
    waits = [
        0.0 if alike else draw.choice([0.0, 59.0, 60.0, 61.0, 660.0, step * draw.randint(0, 40)])
        for _ in range(rows)
    ]
    starts = [time + wait for time, wait in zip(submit, waits, strict=True)]
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(rows)],
            "submit_time": submit,
            "num_gpus": [draw.randint(1, 5) for _ in range(rows)],
            "duration": [draw.choice([30.0, 60.0, 600.0]) for _ in range(rows)],
            "recorded_start": [None if draw.random() < unknown else start for start in starts],
        },
        schema_overrides={"recorded_start": pl.Float64},
    )


@pytest.mark.parametrize("chunk", range(-(-CASES // CHUNK)))
def test_random_tables_are_as_a_plain_computation_says(chunk: int) -> None:
    seen = {"null": 0, "other": 0, "none": 0}
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        draw = random.Random(seed)
        jobs = table(draw)
        window = {"measure_from": 0.2, "measure_to": 0.9} if draw.random() < 0.2 else {}
        policy = draw.choice(["fifo", "sjf", "srtf", "ff"])
        model = draw.choice(["fixed", "rar"])
        try:
            outcome = replay(jobs, "2x4", policy=policy, model=model, oversize="drop", **window)
        except ringbco.errors.RingbcoError:
            assert window, seed  # in which no job was submitted
            continue
        right = plain(outcome, jobs)
        found = tuple(outcome.summary.get(key) for key in KEYS)
        if right is None:
            assert found == (None, None, None), seed
            assert not set(KEYS) & outcome.summary.keys(), seed
            seen["none"] += 1
            continue
        assert found == (right[0], pytest.approx(right[1], abs=1e-12), right[2]), seed
        seen["null" if right[1] is None else "other"] += 1
        report = check_outcome(outcome, from_frame(jobs))
        assert report.findings == [], seed
    assert seen["other"] > CHUNK // 4
    assert seen["null"] > 0


def test_rank_correlation() -> None:
    draw = np.random.default_rng(1)
    for size in (*range(6), 50, 300):
        one, other = (draw.integers(0, max(size // 3, 1) + 1, size).astype(np.float64) for _ in range(2))
        right = plain_correlation(one.tolist(), other.tolist())
        assert rank_correlation(one, other) == (None if right is None else pytest.approx(right, abs=1e-12))
    rising = np.arange(5.0)
    assert rank_correlation(rising, rising**3) == 1.0
    assert rank_correlation(rising, -rising) == -1.0
    assert rank_correlation(rising, np.zeros(5)) is None


def of_hand() -> pl.DataFrame:
    """One GPU; fifo waits 0, 100, 1,100 and 1,100 s."""
    return pl.DataFrame(
        {
            "job_id": ["a", "b", "c", "d"],
            "submit_time": [0.0, 0.0, 0.0, 100.0],
            "num_gpus": 1,
            "duration": [100.0, 1000.0, 100.0, 100.0],
            "recorded_start": [60.0, 161.0, 1000.0, None],
        }
    )


def test_by_hand() -> None:
    summary = replay(of_hand(), "1x1", policy="fifo", model="fixed").summary
    # a is 60 s off, b 61 s of 161 s, c 100 s of 1,000 s; d has no recorded start.
    assert [summary[key] for key in KEYS] == [2 / 3, 1.0, 3]
    without = of_hand().with_columns(recorded_start=pl.lit(None, pl.Float64))
    assert not set(KEYS) & replay(without, "1x1", policy="fifo").summary.keys()


def test_recorded_has_the_waits_of_the_log() -> None:
    jobs = of_hand().filter(pl.col("recorded_start").is_not_null())
    summary = replay(jobs, "3x1", policy="recorded").summary
    assert [summary[key] for key in KEYS] == [1.0, 1.0, 3]


@pytest.mark.parametrize(("key", "change"), [(KEYS[0], 1e-6), (KEYS[1], -1e-6), (KEYS[2], 1)])
def test_the_audit_works_them_out_again(key: str, change: float) -> None:
    outcome = replay(of_hand(), "1x1", policy="fifo", model="fixed")
    outcome.summary[key] += change
    findings = check_outcome(outcome, from_frame(of_hand())).findings
    assert [finding.message.split(" is ")[0] for finding in findings] == [key]


def test_other_submissions_have_none() -> None:
    assert "recorded_start" not in scaled(from_frame(of_hand()), 0.5, 1).frame.columns


def test_beside_a_run_of_the_log_they_are_told(invoke: Invoke, tmp_path: Path) -> None:
    of_hand().filter(pl.col("recorded_start").is_not_null()).write_parquet(tmp_path / "jobs.parquet")
    sides = ("--policy", "recorded", "--policy", "fifo")
    run = invoke("compare", tmp_path / "jobs.parquet", "--cluster", "3x1", *sides, "-o", tmp_path / "made")
    assert run.returncode == 0, run.stderr
    said = "waits as recorded: of run 0, within 10 % or 60 s of the log's, over 3 jobs with a recorded start"
    assert said in " ".join(run.stdout.split())
    page = (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    assert said in page.replace("&#39;", "'")
    assert "rank correlation of waits" in page


def test_a_comparison_has_those_of_run_0(invoke: Invoke, tmp_path: Path) -> None:
    of_hand().write_parquet(tmp_path / "jobs.parquet")
    sides = ("--policy", "fifo", "--run", "sjf --model fixed")
    run = invoke("compare", tmp_path / "jobs.parquet", "--cluster", "1x1", *sides, "-o", tmp_path / "made")
    assert run.returncode == 0, run.stderr
    assert "as recorded" not in run.stdout
    page = (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    assert "rank correlation of waits" in page
    frame = pl.read_parquet(tmp_path / "made" / "comparison.parquet")
    rows = frame.filter(pl.col("measure") == "as_recorded")
    right = [
        replay(of_hand(), "1x1", policy=policy, model=model).summary["as_recorded"]
        for policy, model in (("fifo", "rar"), ("sjf", "fixed"))
    ]
    assert rows["value"].to_list() == right
    assert rows.select("low", "high", "verdict").null_count().row(0) == (2, 2, 2)
    assert not rows["best"].any()
    again = invoke(
        "compare",
        "--result",
        tmp_path / "made/fifo",
        "--result",
        tmp_path / "made/sjf-model-fixed",
        "-o",
        tmp_path / "two",
    )
    assert again.returncode == 0, again.stderr
