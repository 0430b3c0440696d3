"""decisions.parquet, and replays that carry one out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ringbco
from conftest import Invoke
from ringbco.audits import check_outcome
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.result.schema import DECISIONS_SCHEMA
from ringbco.result.tables import SUMMARY
from ringbco.run.again import compare_results
from ringbco.trace.jobs import from_frame

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b"],
        "submit_time": [0.0, 1.0],
        "num_gpus": [2, 3],
        "duration": [4.0, 4.0],
    }
)


def written(folder: Path, *rows: tuple[float, str, str | None, int | None, int | None]) -> str:
    """A log of no more columns than every log has."""
    path = folder / "decisions.parquet"
    schema = dict(list(DECISIONS_SCHEMA.items())[:5])
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(path)
    return f"log:{path}"


@pytest.mark.parametrize("policy", ["fifo", "sjf-bco", "qssf", "srtf", "time-slice", "edf", "repack"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
def test_a_log_gives_the_same_run_again(tmp_path: Path, policy: str, clock: str) -> None:
    jobs = ringbco.generate("philly", 300, 5, gpus=32, load=1.3).frame
    jobs = jobs.with_columns(deadline=pl.col("submit_time") + 3 * pl.col("duration"))
    table = from_frame(jobs)
    options = {"clock": clock, "slot": 60.0 if clock == "slot" else 1.0, "preempt_cost": 90.0}
    if policy == "time-slice":
        options["quantum"] = 600.0
    first = ringbco.replay(table, "4x8", policy=policy, decisions=True, **options)
    first.write(tmp_path / "first")
    assert first.decisions is not None
    assert_frame_equal(Outcome.read(tmp_path / "first").decisions, first.decisions)
    counts = first.decisions.filter(verb="stop").height
    # repack may move a job in the pass that starts it: docs/results.md.
    assert counts == first.jobs["preemptions"].sum() or policy == "repack"
    assert (counts > 0) == (policy in ("srtf", "time-slice", "edf", "repack"))
    options.pop("quantum", None)
    log = f"log:{tmp_path / 'first' / 'decisions.parquet'}"
    second = ringbco.replay(table, "4x8", policy=log, decisions=True, **options)
    assert_frame_equal(first.decisions, second.decisions)
    assert_frame_equal(first.allocations, second.allocations)
    assert_frame_equal(first.jobs["start_time", "finish_time"], second.jobs["start_time", "finish_time"])
    assert check_outcome(second, table).findings == []


def test_the_columns_of_a_log_written_by_hand(tmp_path: Path) -> None:
    log = written(
        tmp_path,
        (0.0, "start", "a", 0, 2),
        (2.0, "stop", "a", None, None),
        (2.0, "start", "b", 0, 1),
        (2.0, "start", "b", 1, 2),
        (6.0, "start", "a", 1, 2),
    )
    outcome = ringbco.replay(JOBS, "2x2", policy=log, model="fixed", preempt_cost=1.0)
    # a did 2 s of its 4 s, then waited, paused 1 s and did the rest.
    assert outcome.jobs["finish_time"].to_list() == [9.0, 6.0]
    assert outcome.jobs["preemptions"].to_list() == [1, 0]
    assert outcome.decisions is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(0.0, "start", "c", 0, 2)], "row 1, column job_id: c: expected a job of the job table"),
        ([(0.0, "begin", "a", 0, 2)], "row 1, column verb: begin: expected one of start, stop, refuse"),
        ([(0.0, "start", "a", 2, 2)], "row 1, column server: 2: expected a server of the cluster, 0 to 1"),
        ([(0.0, "start", "a", None, 2)], "column server: null: expected a server"),
        ([(0.0, "start", "a", 0, 0)], "column num_gpus: 0: expected one GPU or more"),
        ([(float("nan"), "start", "a", 0, 2)], "column time: NaN: expected a finite time"),
        ([(1.0, "start", "a", 0, 2), (0.5, "stop", "a", None, None)], "row 2, column time: 0.5"),
        (
            [(0.0, "start", "a", 0, 1)],
            "decisions.parquet: row 1, column verb: expected a decision that can be carried out, but job 'a'"
            " cannot start at 0 s: GPUs given: 1, requested: 2",
        ),
        ([(0.5, "start", "b", 0, 2)], "cannot start at 0.5 s: it does not wait at that time"),
        (
            [(0.0, "start", "a", 0, 2), (1.0, "start", "b", 1, 3)],
            "decisions.parquet: row 2, column verb: expected a decision that can be carried out, but job 'b'",
        ),
        (
            [(0.0, "start", "a", 0, 2), (2.0, "move", "a", 1, 2), (2.0, "move", "b", 0, 2)],
            "row 3, column verb: expected a decision that can be carried out, but job 'b' cannot move at 2 s",
        ),
        ([(0.0, "start", "a", 0, 2), (9.0, "stop", "a", None, None)], "cannot stop at 9 s: it holds no GPUs"),
        (
            [(0.0, "start", "a", 0, 2), (1.0, "evicted", "a", None, None)],
            "row 2, column by: null: expected a job",
        ),
        ([(0.0, "replica", None, 0, 1)], "row 1, column service: null: expected the name of a service"),
        (
            [(0.0, "rung", "a", None, None)],
            "column verb: rung: expected the search whose rungs the log tells of",
        ),
        (
            [(0.0, "start", "a", 0, 2)],
            "decisions.parquet: does not bring every job to its end: job 'b' still waits at 4 s, and nothing"
            " can change; add what it lacks, or give --oversize drop if the run that wrote it had it",
        ),
    ],
)
def test_a_log_that_cannot_be_carried_out(
    tmp_path: Path, rows: list[tuple[float, str, str, int | None, int | None]], said: str
) -> None:
    with pytest.raises(InputError) as raised:
        ringbco.replay(JOBS, "2x2", policy=written(tmp_path, *rows), model="fixed")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_log_of_virtual_clusters_is_told_by_its_own_rows(tmp_path: Path) -> None:
    cluster = Cluster.from_groups([ServerGroup(1, 3, vc) for vc in ("x", "y")])
    jobs = JOBS.with_columns(vc=pl.Series(["x", "y"]))
    rows = ((0.0, "start", "a", 0, 2), (1.0, "start", "b", 1, 3), (2.0, "start", "b", 1, 3))
    with pytest.raises(InputError, match=r"row 3, column verb: .* job 'b' cannot start at 2 s: it holds"):
        ringbco.replay(jobs, cluster, policy=written(tmp_path, *rows), model="fixed")
    rows = ((0.0, "start", "a", 0, 2), (1.0, "start", "b", 0, 3))
    with pytest.raises(InputError, match=r"row 2, column verb: .* server is of another virtual cluster"):
        ringbco.replay(jobs, cluster, policy=written(tmp_path, *rows), model="fixed")


def test_a_log_leaves_out_the_jobs_that_its_run_left_out(tmp_path: Path) -> None:
    """One is too large for the cluster, another one for its placement, which takes whole servers."""
    cluster = Cluster.from_groups([ServerGroup(1, 3), ServerGroup(2, 2)])
    sizes = pl.DataFrame({"num_gpus": [2, 6, 8, 3]}).with_row_index("job_id")
    jobs = sizes.with_columns(submit_time=pl.lit(0.0), duration=pl.lit(9.0))
    options: dict[str, Any] = {"oversize": "drop", "decisions": True}
    first = ringbco.replay(jobs, cluster, policy="fifo", **options)
    assert (first.summary["jobs"], first.summary["jobs_dropped"]) == (2, 2)
    first.write(tmp_path / "first")
    log = f"log:{tmp_path / 'first' / 'decisions.parquet'}"
    again = ringbco.replay(jobs, cluster, policy=log, **options)
    assert again.summary["jobs_dropped"] == 2
    assert again.jobs["finish_time"].equals(first.jobs["finish_time"])
    assert_frame_equal(again.decisions, first.decisions)
    assert check_outcome(again, from_frame(jobs)).findings == []
    with pytest.raises(InputError, match="row 3, column num_gpus: 8"):
        ringbco.replay(jobs, cluster, policy=log, oversize="error")
    # A job that has its place and that the log forgets is no such job.
    forgetful = written(tmp_path, (0.0, "start", "0", 0, 2))
    with pytest.raises(InputError, match="job '3' still waits"):
        ringbco.replay(jobs, cluster, policy=forgetful, **options)


def test_a_log_takes_no_parts(tmp_path: Path) -> None:
    log = written(tmp_path, (0.0, "start", "a", 0, 2))
    with pytest.raises(UsageError, match="no order or queue beside it"):
        ringbco.replay(JOBS, "2x2", policy=log, queue="easy")


OUTAGES = pl.DataFrame(
    {"server": [0, 1], "down_at": [2.0, 30.0], "up_at": [9.0, 40.0], "cause": ["gpu", None]}
)
SERVICES = pl.DataFrame(
    {"service": ["chat", "chat"], "time": [0.5, 12.0], "replicas": [1, 0], "gpus_per_replica": [1, 1]}
)
RUN: dict[str, Any] = {
    "policy": "fifo",
    "model": "fixed",
    "queue": "skip",
    "placement": "first-fit",
    "evict": True,
    "preempt_cost": 1.0,
    "outages": OUTAGES,
    "services": SERVICES,
}


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """A run in which servers fail, and jobs and services evict others."""
    jobs = JOBS.with_columns(priority=pl.Series([0, 5], dtype=pl.Int32))
    jobs.write_parquet(tmp_path / "jobs.parquet")
    outcome = ringbco.replay(tmp_path / "jobs.parquet", "2x2", **RUN, decisions=True)
    outcome.write(tmp_path / "first")
    assert outcome.decisions is not None
    verbs = set(outcome.decisions["verb"])
    assert {"start", "evicted", "failed", "replica", "up", "down"} <= verbs
    return tmp_path


def other_tables(first: Path, second: Path) -> dict[str, str]:
    """How tables differ; the figures name another policy."""
    result = compare_results(first, second)
    assert str(result.pop(SUMMARY)).startswith("policy was ")
    return {name: told for name, told in result.items() if told is not None}


def follow(result: Path, **given: Any) -> Outcome:
    log = f"log:{result / 'first' / 'decisions.parquet'}"
    return ringbco.replay(result / "jobs.parquet", "2x2", policy=log, **given)


def test_a_log_needs_nothing_given_again(result: Path) -> None:
    follow(result).write(result / "again")
    actual = compare_results(result / "first", result / "again")
    assert other_tables(result / "first", result / "again") == {}
    assert {"replicas.parquet", "servers.parquet", "stays.parquet", "outages.parquet"} <= set(actual)
    # What decides nothing may be given.
    follow(result, placement="consolidate", evict=False, outages=OUTAGES, services=SERVICES).write(
        result / "more"
    )
    assert other_tables(result / "first", result / "more") == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"outages": OUTAGES.head(1)}, "option outages: another table: expected that of the run that wrote"),
        ({"services": SERVICES.head(1)}, "option services: another table: expected that of the run"),
        (
            {"search": "asha:eta=2,rungs=1"},
            r"option search: asha:eta=2,rungs=1: .* the log \(none\); leave it out",
        ),
    ],
)
def test_what_was_given_to_the_run_is_not_given_otherwise(
    result: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        follow(result, **given)
    assert "\n" not in str(raised.value)


def test_a_log_alone_tells_what_the_machine_did(result: Path) -> None:
    """Away from its folder: servers fail and replicas take GPUs as its rows say."""
    alone = result / "alone"
    alone.mkdir()
    (alone / "log.parquet").write_bytes((result / "first" / "decisions.parquet").read_bytes())
    options = {name: RUN[name] for name in ("model", "placement", "evict", "preempt_cost")}
    log = f"log:{alone / 'log.parquet'}"
    again = ringbco.replay(result / "jobs.parquet", "2x2", policy=log, decisions=True, **options)
    again.write(result / "again")
    actual = compare_results(result / "first", result / "again")
    own = {"outages.parquet", "services.parquet", "replicas.parquet", SUMMARY}
    assert {name: text for name, text in actual.items() if name not in own and text is not None} == {}
    assert again.replicas is None


def test_a_log_of_a_queue_gives_no_stays(tmp_path: Path) -> None:
    """In which files there are, too, it is as the run that wrote it."""
    ringbco.replay(JOBS, "2x2", policy="fifo", model="fixed", decisions=True).write(tmp_path / "first")
    again = ringbco.replay(JOBS, "2x2", policy=f"log:{tmp_path / 'first' / 'decisions.parquet'}")
    again.write(tmp_path / "again")
    assert other_tables(tmp_path / "first", tmp_path / "again") == {}
    assert not (tmp_path / "again" / "stays.parquet").exists()
    assert again.run["log"]["runs_through"] is True
    assert check_outcome(again, from_frame(JOBS)).findings == []


def test_the_command_with_a_log_alone(invoke: Invoke, result: Path) -> None:
    log = f"log:{result}/first/decisions.parquet"
    assert invoke("replay", "--policy", log, "-o", "again", "--quiet").returncode == 0
    assert other_tables(result / "first", Path("again")) == {}
    assert invoke("audit", "again").returncode == 0
    changed = pl.read_parquet(result / "jobs.parquet").with_columns(duration=pl.lit(9.0))
    changed.write_parquet(result / "jobs.parquet")
    done = invoke("replay", "--policy", log, "-o", "other")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is not the job table of" in done.stderr
    assert not Path("other").exists()


def test_the_command(invoke: Invoke, small_jobs: Path) -> None:
    run = ("replay", small_jobs, "--cluster", "2x8", "--quiet")
    assert invoke(*run, "--policy", "srtf", "--decisions", "-o", "first").returncode == 0
    log = "log:first/decisions.parquet"
    assert invoke(*run, "--policy", log, "--decisions", "-o", "second").returncode == 0
    assert Path("first/decisions.parquet").read_bytes() == Path("second/decisions.parquet").read_bytes()
    assert invoke("audit", "second").returncode == 0
    assert invoke("replay", "--again", "second", "--quiet").returncode == 0
    done = invoke(*run, "--policy", "log:none.parquet", "-o", "third")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "none.parquet: no such file; log:FILE takes the path of a decisions.parquet" in done.stderr
    assert not Path("third").exists()
