"""Comparisons whose seeds draw other jobs; what can be told apart, and what it is held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from ringbco import compare, generate, replay
from ringbco.errors import UsageError
from ringbco.result.comparison import Comparison
from ringbco.result.told import differences, notes
from ringbco.run.draws import table_of
from ringbco.trace.jobs import JobTable, write_jobs


@pytest.fixture(scope="module")
def made() -> JobTable:
    return generate("philly", 300, 5, gpus=64, load=0.9)


def test_a_generated_table_is_made_anew_with_each_seed(made: JobTable) -> None:
    comparison = compare(made, "8x8", ["fifo", "sjf"], seeds=3)
    for label in ("fifo", "sjf"):
        alone = [
            replay(generate("philly", 300, 5 + k, gpus=64, load=0.9), "8x8", policy=label, seed=k)
            for k in range(3)
        ]
        assert comparison.values(label, "mean_wait") == [one.summary["mean_wait"] for one in alone]
    assert len(set(comparison.values("fifo", "mean_jct"))) == 3
    assert notes(comparison) == ["each seed has jobs of its own, which generate made anew"]


def test_same_jobs_say_that_they_tell_little(made: JobTable) -> None:
    comparison = compare(made, "8x8", ["fifo", "sjf"], seeds=3, same_jobs=True, model="fixed")
    assert len(set(comparison.values("fifo", "mean_wait"))) == 1
    (note,) = notes(comparison)
    assert "do not tell how another month would be" in note
    assert all("above" in line or "below" in line or "same" in line for line in differences(comparison))


def test_of_a_recorded_trace_the_centre_is_its_own_figure(made: JobTable) -> None:
    comparison = compare(made, "8x8", ["fifo", "srtf"], seeds=4, seed=2, resample=True, block="2d")
    own = {label: replay(made, "8x8", policy=label, seed=2) for label in ("fifo", "srtf")}
    drawn = comparison.drawn["fifo"]
    assert (drawn.kind, drawn.block, comparison.seeds) == ("resampled", 2.0, 4)
    for label, outcome in own.items():
        figure = comparison.figure(label, "mean_jct")
        assert figure is not None
        assert (figure.mean, figure.seeds) == (outcome.summary["mean_jct"], 4)
        assert comparison.outcomes[label].jobs.equals(outcome.jobs)
        values = comparison.values(label, "mean_jct")
        assert len(values) == 5
        third = replay(table_of(made, drawn, 2, 3), "8x8", policy=label, seed=4)
        assert values[3] == third.summary["mean_jct"]
    pair = comparison.paired("srtf", "mean_jct")
    assert pair is not None
    fifo, srtf = (own[label].summary["mean_jct"] for label in ("fifo", "srtf"))
    assert pair.share == pytest.approx((srtf - fifo) / fifo)


def several(*figures: list[float]) -> Comparison:
    """A comparison of outcomes whose mean completion times under each seed are these."""
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [9.0]})
    outcome = replay(jobs, "1x1")
    repeated = {
        f"p{number}": [{**outcome.summary, "mean_jct": value} for value in values]
        for number, values in enumerate(figures)
    }
    return Comparison(dict.fromkeys(repeated, outcome), repeated)


@pytest.mark.parametrize(
    ("figures", "starred"),
    [
        (([10.0, 12.0, 14.0], [9.0, 11.0, 13.0]), ["p1"]),
        (([10.0, 12.0, 14.0], [9.0, 13.0, 12.0]), []),  # nobody can tell
        (([10.0, 12.0], [10.0, 12.0], [11.0, 13.0]), ["p0", "p1"]),
        (([10.0, 12.0], [10.0, 12.0]), []),
        # The best can be told from the baseline, but not from the second.
        (([20.0, 22.0, 24.0], [10.0, 12.0, 14.0], [11.0, 11.0, 16.0]), []),
    ],
)
def test_only_what_can_be_told_from_all_others_has_a_star(figures: Any, starred: list[str]) -> None:
    comparison = several(*figures)
    (entries,) = (row for measure, row in comparison.rows.items() if measure.key == "mean_jct")
    assert [label for label, one in zip(comparison.outcomes, entries, strict=True) if one.best] == starred


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (
            ([100.0, 100.0, 100.0], [99.0, 98.0, 97.0]),
            "p1 and p0 cannot be told apart by mean completion time: -2.0 % [-4.5, 0.5] (paired, 3 seeds)",
        ),
        (
            ([100.0, 100.0, 100.0], [99.0, 98.5, 98.0]),
            "p1's mean completion time is 1.5 % [0.3, 2.7] below p0's (paired, 3 seeds)",
        ),
        (
            ([100.0, 100.0, 100.0], [101.0, 98.0, 99.0]),
            "p1 and p0 cannot be told apart by mean completion time: -0.7 % [-4.5, 3.1] (paired, 3 seeds)",
        ),
        (
            ([100.0, 90.0], [100.0, 90.0]),
            "p1's mean completion time is the same as p0's (paired, 2 seeds)",
        ),
    ],
)
def test_the_words(figures: Any, said: str) -> None:
    assert differences(several(*figures))[0] == said


def test_the_command_tells_the_same_everywhere(invoke: Invoke, made: JobTable, tmp_path: Path) -> None:
    write_jobs(made, tmp_path / "jobs.parquet")
    given = ("compare", tmp_path / "jobs.parquet", "--cluster", "8x8", "--policy", "fifo", "--policy", "sjf")
    more = ("--seeds", "3", "--resample", "--baseline", "sjf", "-o", "cmp")
    done = invoke(*given, *more)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "cmp/comparison.json").read_text())
    assert document["baseline"] == "sjf"
    assert document["drawn"]["fifo"]["kind"] == "resampled"
    assert len(document["told"]) == 3
    printed = " ".join(done.stdout.split())
    page = " ".join((tmp_path / "cmp/report.html").read_text().replace("&#39;", "'").split())
    for line in (*document["notes"], *document["told"]):
        assert line in printed
        assert line in page
        assert "fifo" in line or line in document["notes"]
    assert "ratios are to sjf" in printed
    again = invoke(*given, *more, "--force", "--json")
    assert json.loads(again.stdout)["told"] == document["told"]
    reported = invoke("report", "cmp", "-o", "page.html", "-q")
    assert reported.returncode == 0, reported.stderr
    page = " ".join((tmp_path / "page.html").read_text().replace("&#39;", "'").split())
    assert all(line in page for line in (*document["notes"], *document["told"]))


def test_a_baseline_that_is_not_there_is_refused(made: JobTable) -> None:
    with pytest.raises(UsageError, match=r"baseline: 'sfj': expected one of fifo, sjf; did you mean sjf\?"):
        compare(made, "8x8", ["fifo", "sjf"], baseline="sfj")


def test_a_log_is_not_followed_by_other_jobs(made: JobTable, tmp_path: Path) -> None:
    log = tmp_path / "log"
    replay(made, "8x8", policy="fifo", decisions=True).write(log)
    with pytest.raises(UsageError, match="a log knows its own jobs only"):
        compare(made, "8x8", ["fifo", f"log:{log / 'decisions.parquet'}"], seeds=2)
