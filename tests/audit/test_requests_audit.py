"""The audit of requests: each check finds what was edited; what the result does not tell is not looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answered import JOBS, TOKENS, answered
from corruptions import with_cell
from ringbco.audits import check_folder, check_outcome
from ringbco.audits.answering import NO_ROWS
from ringbco.audits.findings import Report
from ringbco.result.outcome import Outcome
from ringbco.run.replay import replay
from ringbco.trace.jobs import read_jobs

c = pl.col
Change = Callable[[Outcome], None]
OF_REQUESTS = "requests", "latency"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return answered(tmp_path_factory.mktemp("answered"))


def report_on(folder: Path, change: Change = lambda _: None) -> Report:
    outcome = Outcome.read(folder)
    change(outcome)
    return check_outcome(outcome, read_jobs(folder.parent / "jobs.parquet"))


def said(report: Report) -> dict[str, list[str]]:
    """What was found, by check."""
    found: dict[str, list[str]] = {}
    for finding in report.findings:
        found.setdefault(finding.code, []).append(finding.message)
    return found


def not_run(report: Report) -> dict[str, str]:
    return {check.code: check.not_run for check in report.checks if check.not_run is not None}


# Genuine results


@pytest.mark.parametrize(
    "options", [{}, {"sample": 0.7}, {"measure_from": 0.5}, {"policy": "srtf", "evict": True}]
)
def test_a_genuine_result_passes(tmp_path: Path, options: dict[str, Any]) -> None:
    report = check_folder(answered(tmp_path, **options), repeat=True)
    assert report.findings == []
    assert report.repeated
    looked_at = {check.code: check.looked_at for check in report.checks}
    assert all(looked_at[code] for code in (*OF_REQUESTS, "services", "summary"))


def test_the_result_is_worth_it(folder: Path) -> None:
    outcome = Outcome.read(folder)
    assert outcome.replicas is not None
    assert set(outcome.replicas["ended"]) == {"end of run", "surplus", "failed"}
    assert 3 in outcome.replicas["server"]  # of the slower type
    drained = outcome.replicas.filter(c("drains_from") + 0.4 == c("end_time"))
    assert drained["service"].to_list() == ["code"]
    assert [row["begun_anew"] for row in outcome.summary["services"]] == [0, 7, 0]


def test_replicas_that_are_all_gone_are_missed(folder: Path) -> None:
    def clear(outcome: Outcome) -> None:
        assert outcome.replicas is not None
        outcome.replicas = outcome.replicas.clear()

    found = said(report_on(folder, clear))
    assert {"requests", "latency"} <= found.keys()


# Rows of requests


def row(change: Callable[[pl.DataFrame], pl.Expr], **values: Any) -> Change:
    """Edits cells of the first row of requests.parquet of which something holds."""

    def edit(outcome: Outcome) -> None:
        assert outcome.requests is not None
        rows = outcome.requests
        at = int(rows.with_row_index("at").filter(change(rows))["at"][0])
        for name, value in values.items():
            new = value(rows[name][at]) if callable(value) else value
            outcome.requests = with_cell(outcome.requests, at, name, new)

    return edit


def of(service: str, *more: pl.Expr) -> Callable[[pl.DataFrame], pl.Expr]:
    return lambda _: pl.all_horizontal(c("service") == service, *more)


def keys(service: str, **values: Any) -> Change:
    """Edits the serving file in run.toml."""

    def edit(outcome: Outcome) -> None:
        services = outcome.run["services"]
        tables = {**services["tables"], service: {**services["tables"][service], **values}}
        outcome.run = {**outcome.run, "services": {**services, "tables": tables}}

    return edit


def dropped(outcome: Outcome) -> None:
    assert outcome.requests is not None
    outcome.requests = outcome.requests[1:]


def overlapping(outcome: Outcome) -> None:
    """A batch begins before the one before it on its replica ends."""
    assert outcome.requests is not None
    rows = outcome.requests.with_row_index("at").filter(c("service") == "rank", c("replica") == 0)
    batches = rows.group_by("start").agg("at", c("finish").first()).sort("start")
    at = next(i for i in range(1, batches.height) if batches["start"][i] - batches["finish"][i - 1] < 0.01)
    for place in batches["at"][at]:
        for name in ("start", "finish"):
            earlier = outcome.requests[name][place] - 0.02
            outcome.requests = with_cell(outcome.requests, place, name, earlier)


BUSY = c("finish") - c("first_token") > 0.5
ROWS: dict[str, tuple[Change, str]] = {
    "a row is missing": (dropped, "requests.parquet has 649 rows; expected 650, one for each request"),
    "another row": (row(of("chat"), row=9999), "row is 9999; expected "),
    "another service": (row(of("chat"), service="rank"), "service is rank; expected chat"),
    "no replica": (row(of("chat"), replica=77), "is on replica 77 of chat; there is none"),
    "before its arrival": (row(of("chat"), start=lambda t: t - 9.0), "starts before its arrival at "),
    "before its replica": (
        row(of("chat", c("start") < 20), replica=1),
        "starts before its replica of chat serves, from 27 s on",
    ),
    "after its replica": (
        row(of("chat", c("start") > 60), replica=1),
        "on a replica of chat that ends at 50 s",
    ),
    "no first token": (row(of("chat", BUSY), first_token=lambda t: t - 50.0), "has its first token at "),
    "a first token too soon": (
        row(of("chat", BUSY), first_token=lambda t: t - 0.02, start=lambda t: t),
        "its first token took ",
    ),
    "tokens too soon": (row(of("chat", BUSY), finish=lambda t: t - 0.3), "the tokens after it took "),
    "more than its only token": (
        row(of("chat", c("finish") == c("first_token")), finish=lambda t: t + 0.01),
        "and not with its only token",
    ),
    "too many at once": (
        keys("chat", max_running=3),
        "its replica then has 4 requests; chat.max_running is 3",
    ),
    "too many tokens": (keys("chat", kv_tokens=390), " tokens; chat.kv_tokens is 390"),
    "a token of a batch": (
        row(of("rank"), first_token=5.0),
        "has a first token; its service answers in batches",
    ),
    "a part of a batch": (row(of("rank"), finish=lambda t: t + 0.01), "its batch "),
    "a slow batch": (keys("rank", seconds=[[1, 0.4], [8, 1.5]]), " s; expected "),
    "a large batch": (keys("rank", seconds=[[1, 0.5], [4, 0.8]]), " requests; the largest is 4"),
    "two batches at once": (overlapping, "its batch begins before the one before it ends"),
    "no patience": (keys("rank", max_wait=0.6), "its oldest request has waited less than 0.6 s"),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_edited_row_is_found(folder: Path, name: str) -> None:
    change, message = ROWS[name]
    found = said(report_on(folder, change))
    assert any(message in each for each in found["requests"]), found


@pytest.mark.parametrize(
    ("service", "number", "since", "message"),
    [
        ("chat", 3, 50.0, "arrives when its replica of chat"),
        ("rank", 0, 75.0, "starts when its replica of rank"),
    ],
)
def test_a_request_to_a_replica_that_drains(
    folder: Path, service: str, number: int, since: float, message: str
) -> None:
    """Its replica would have had time for it."""
    found = said(report_on(folder, replica(service, number, drains_from=since)))
    told = f"{message} drains, from {since:g} s on"
    assert any(told in each for each in found["requests"]), found


# latency.parquet


@pytest.mark.parametrize(
    "column",
    [
        "time",
        "arrivals",
        "p50_latency",
        "p99_latency",
        "queued",
        "running",
        "replicas_serving",
        "replicas_wanted",
    ],
)
def test_an_edited_sample_is_found(folder: Path, column: str) -> None:
    def edit(outcome: Outcome) -> None:
        assert outcome.latency is not None
        some = outcome.latency[column].is_not_null() & (outcome.latency["time"] > 30)
        at = int(some.arg_max() or 0)
        more = 1 if outcome.latency[column].dtype.is_integer() else 1e-6
        outcome.latency = with_cell(outcome.latency, at, column, outcome.latency[column][at] + more)

    (message,) = said(report_on(folder, edit))["latency"]
    assert f"{column} is " in message


# replicas.parquet


def replica(service: str, number: int, **values: Any) -> Change:
    def edit(outcome: Outcome) -> None:
        assert outcome.replicas is not None
        own = (outcome.replicas["service"] == service) & (outcome.replicas["replica"] == number)
        for name, value in values.items():
            outcome.replicas = with_cell(outcome.replicas, int(own.arg_max() or 0), name, value)

    return edit


REPLICAS: dict[str, tuple[Change, str]] = {
    "a number": (replica("chat", 2, replica=3), "replicas of service chat are not numbered 0, 1, ..."),
    "serves earlier": (replica("chat", 1, serves_from=26.0), "serves_from is 26; expected 27"),
    "never serves": (replica("chat", 1, serves_from=None), "serves_from is none; expected 27"),
    "drains too early": (replica("code", 0, drains_from=29.0), "drains for longer than its service lets it"),
    "drains unasked": (replica("chat", 3, drains_from=54.0), "service chat: ends 1 replicas; expected 0"),
    "does not drain": (replica("chat", 3, drains_from=None), "ends as surplus, and does not drain"),
    "drains to the end": (replica("chat", 0, drains_from=80.0), "drains, and ends with the run"),
    "drains after its end": (replica("code", 1, drains_from=34.0), "drains after its end"),
    "another end": (replica("chat", 3, ended="failed"), "ended is failed; expected surplus"),
    "an end before the run's": (replica("rank", 0, end_time=80.0), "service rank: ends 1 replicas"),
}


@pytest.mark.parametrize("name", REPLICAS)
def test_an_edited_replica_is_found(folder: Path, name: str) -> None:
    change, message = REPLICAS[name]
    found = said(report_on(folder, change))
    assert any(message in each for each in found["services"]), found


def test_the_run_ends_with_the_last_answer(folder: Path) -> None:
    def edit(outcome: Outcome) -> None:
        assert outcome.replicas is not None
        last = outcome.replicas["end_time"].max()
        outcome.replicas = outcome.replicas.with_columns(
            end_time=pl.when(c("end_time") == last).then(c("end_time") + 1.0).otherwise("end_time")
        )

    found = said(report_on(folder, edit))
    assert any("a replica ends with the run at 81.0955" in each for each in found["requests"]), found


def test_a_job_that_is_refused_may_end_the_run(tmp_path: Path) -> None:
    """It comes after the last answer, can no longer meet its deadline, and has no row."""
    late = pl.DataFrame({"job_id": ["c"], "submit_time": [100.0], "num_gpus": [2], "duration": [30.0]})
    jobs = pl.concat([JOBS, late]).with_columns(deadline=pl.Series([90.0, 90.0, 110.0]))
    folder = answered(tmp_path, jobs=jobs, policy="edf", admission=True)
    outcome = Outcome.read(folder)
    assert outcome.replicas is not None
    assert outcome.replicas["end_time"].max() == 100.0
    assert outcome.summary["jobs_refused"] == 1
    assert check_folder(folder).findings == []


# summary.json


def test_every_edited_figure_is_found(folder: Path) -> None:
    edited = 0
    for place, entry in enumerate(Outcome.read(folder).summary["services"]):
        for key, value in entry.items():
            if key == "service" or (entry["service"] == "code" and key in ("busy_share", "begun_anew")):
                continue

            def edit(outcome: Outcome) -> None:
                rows = [dict(each) for each in outcome.summary["services"]]
                rows[place][key] = 0.5 if value is None else value + (1 if isinstance(value, int) else 1e-6)  # noqa: B023
                outcome.summary = {**outcome.summary, "services": rows}

            found = said(report_on(folder, edit))
            assert [key in each for each in found.get("summary", [])] == [True], (entry["service"], key)
            edited += 1
    assert edited > 75


@pytest.mark.parametrize(("key", "value"), [("busy_share", 0.1), ("busy_share", 1.1), ("begun_anew", -1)])
def test_what_no_row_tells_is_within_bounds(folder: Path, key: str, value: float) -> None:
    def edit(outcome: Outcome) -> None:
        rows = [dict(each) for each in outcome.summary["services"]]
        rows[1][key] = value
        outcome.summary = {**outcome.summary, "services": rows}

    (message,) = said(report_on(folder, edit))["requests"]
    assert f"summary.json: code: {key} is " in message


# What is not looked at


def test_without_rows_the_audit_says_so(tmp_path: Path) -> None:
    folder = answered(tmp_path, rows=False)
    report = report_on(folder)
    assert report.findings == []
    assert not_run(report)["requests"] == NO_ROWS
    assert NO_ROWS.startswith("not looked at: ")
    assert NO_ROWS.endswith("(--request-rows)")

    def edit(outcome: Outcome) -> None:
        assert outcome.latency is not None
        outcome.latency = with_cell(outcome.latency, 500, "arrivals", outcome.latency["arrivals"][500] + 1)
        rows = [{**each, "requests": each["requests"] + 1} for each in outcome.summary["services"]]
        outcome.summary = {**outcome.summary, "services": rows}

    found = said(report_on(folder, edit))
    assert len(found["latency"]) == 1
    assert len(found["summary"]) == 3


@pytest.mark.parametrize("changed", [False, True])
def test_requests_that_are_not_there(tmp_path: Path, *, changed: bool) -> None:
    folder = answered(tmp_path)
    if changed:
        (tmp_path / "requests.parquet").write_bytes(b"")
    else:
        (tmp_path / "requests.parquet").unlink()
    report = report_on(folder)
    assert report.findings == []
    told = f"the requests of run.toml, {tmp_path / 'requests.parquet'}, are not there, or have changed"
    assert not_run(report)["requests"] == told


def test_requests_in_memory(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [1]})
    asked = pl.DataFrame({"arrival": [0.0], "input_tokens": [5], "output_tokens": [3]})
    services = {"chat": {**TOKENS, "scale": "fixed", "replicas": 1}}
    outcome = replay(jobs, "1x4", policy="fifo", requests=asked, services=services, request_rows=True)
    jobs.write_parquet(tmp_path / "jobs.parquet")
    report = check_outcome(outcome, outcome.job_table or read_jobs(tmp_path / "jobs.parquet"))
    assert report.findings == []
    assert "are not there" in not_run(report)["requests"]


def test_a_run_without_requests(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [1]})
    jobs.write_parquet(tmp_path / "jobs.parquet")
    table = read_jobs(tmp_path / "jobs.parquet")
    told = not_run(check_outcome(replay(table, "1x4", policy="fifo"), table))
    assert {told[code] for code in OF_REQUESTS} == {"the run knows no requests"}
