"""`ringbco why`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import pages
from conftest import Invoke
from frames import busy_jobs
from ringbco import Outcome, replay
from ringbco.trace.jobs import from_frame, write_jobs


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the results `fifo` and `time-slice` of the same jobs, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_jobs(from_frame(busy_jobs(200)), tmp_path / "jobs.parquet")
    for policy in ("fifo", "time-slice"):
        replay("jobs.parquet", "2x4", policy=policy).write(policy)
    return tmp_path


def most(folder: str, column: str) -> str:
    """The job that has most of a column."""
    return str(Outcome.read(folder).jobs.sort(column, "job_id")["job_id"][-1])


def test_what_is_printed_fits_eighty_columns(
    results: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    job = most("fifo", "waited")
    run = invoke("why", "fifo", job)
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"{job} in fifo: fifo on 2x4"
    assert set(lines[1]) <= set("·█")
    assert lines[2].startswith("· waiting")
    text = " ".join(" ".join(line.split()) for line in lines[3:])
    story = Outcome.read("fifo").why(job)
    for sentence in story.sentences:
        assert sentence in text
    assert " min" in text
    assert " min" not in invoke("why", "fifo", job, "--units", "seconds").stdout


def test_often_stopped_jobs_are_cut(results: Path, invoke: Invoke) -> None:
    job = most("time-slice", "preemptions")
    stays = Outcome.read("time-slice").stays.filter(pl.col("job_id") == job).height
    assert stays > 6
    short, whole = invoke("why", "time-slice", job).stdout, invoke("why", "time-slice", job, "--all").stdout
    assert f"{stays - 6} more stays; --all prints them" in short
    assert (short.count("Preempted "), whole.count("Preempted ")) == (5, stays - 1)
    assert "p preempted" in short.splitlines()[3]
    assert short.splitlines()[2].count("p") >= 1


def test_json_is_the_story(results: Path, invoke: Invoke) -> None:
    job = most("time-slice", "preemptions")
    output = json.loads(invoke("why", "time-slice", job, "--json").stdout)
    story = Outcome.read("time-slice").why(job)
    assert output == {"folder": "time-slice", **json.loads(json.dumps(story.to_dict()))}
    assert [each["sentence"] for each in output["story"]] == story.sentences
    ran = sum(part["end"] - part["start"] for part in output["lane"] if part["gpus"])
    held = Outcome.read("time-slice").jobs.filter(pl.col("job_id") == job)["held_time"].item()
    assert ran == pytest.approx(held)


def test_a_terminal_without_blocks(results: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringbco.io.console.Console.encoding", "ascii")
    lane = invoke("why", "fifo", most("fifo", "waited")).stdout.splitlines()[1]
    assert set(lane) <= set(".#")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["gone", "j1"], 1, "gone: expected a result folder of `ringbco replay`"),
        (["fifo", "J1"], 1, "expected the job_id of a job of this result; did you mean j1?"),
        (["fifo", "j1000"], 1, "did you mean j100?"),
        (["fifo", "j1", "--jobs", "none.parquet"], 1, "none.parquet"),
        (["fifo", "j1", "--jobs", "other.parquet"], 1, "other.parquet: is not the job table of this result"),
        (["fifo", "j1", "--units", "hours"], 2, "expected one of human, seconds"),
        (["fifo"], 2, "why: JOB is missing"),
    ],
)
def test_what_is_refused(results: Path, invoke: Invoke, arguments: list[str], status: int, said: str) -> None:
    write_jobs(from_frame(busy_jobs(9)), results / "other.parquet")
    run = invoke("why", *arguments)
    assert (run.returncode, run.stdout) == (status, "")
    assert "Traceback" not in run.stderr
    assert said in run.stderr
    if status == 1:
        assert run.stderr.startswith("error: ")
        assert run.stderr.count("\n") == 1


@pytest.mark.long
def test_the_examples_of_the_page() -> None:
    """What the page prints is what its commands print: else run make pages ROW=why WRITE=1."""
    (row,) = (row for row in pages.ROWS if row.page == "why")
    assert row.made(pages.TableInputs())[0] == row.stands()
