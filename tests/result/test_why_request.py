"""`why --request`: what a request waited for, by hand; and what it refuses."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from answered import TOKENS, answered
from conftest import Invoke
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.result.why_request import RequestStory

STEP: dict[str, Any] = {
    "kind": "tokens",
    "gpus": 1,
    "step": 1.0,
    "prefill": 0.0,
    "decode": 0.0,
    "max_running": 2,
    "kv_tokens": 100,
    "scale": "fixed",
    "replicas": 1,
}
"""A token a second."""
BATCH: dict[str, Any] = {
    "kind": "batch",
    "gpus": 1,
    "seconds": [[1, 5.0], [3, 5.0]],
    "max_wait": 2.0,
    "scale": "fixed",
    "replicas": 1,
}
"""Batches of up to three, of 5 s each."""
Asked = list[tuple[float, int, int]]


def story(
    folder: Path, service: dict[str, Any], asked: Asked, row: int, *, seconds: float = 0.5, **options: Any
) -> RequestStory:
    """Of a request. asked: arrival, input and output tokens. seconds: of the one job."""
    names = ["arrival", "input_tokens", "output_tokens"]
    pl.DataFrame(asked, schema=names, orient="row").write_parquet(folder / "requests.parquet")
    jobs = {
        "job_id": ["a"],
        "submit_time": [0.0],
        "num_gpus": [1],
        "duration": [seconds],
        "preemptible": [False],
    }
    pl.DataFrame(jobs).write_parquet(folder / "jobs.parquet")
    outcome = ringbco.replay(
        folder / "jobs.parquet",
        "3x1",
        **{"policy": "fifo", "model": "fixed", "requests": folder / "requests.parquet", **options},
        services={"chat": service},
        request_rows=True,
    )
    found = outcome.why(request=row)
    assert isinstance(found, RequestStory)
    last = found.facts[-1].figures
    anew = sum(fact.figures["seconds"] for fact in found.facts if fact.kind == "request anew")
    assert sum(last["waits"].values()) + anew + last["ran"] == pytest.approx(last["latency"])
    assert sum(part.end - part.start for part in found.lane) == pytest.approx(last["latency"])
    return found


def waits(found: RequestStory) -> dict[str, float]:
    told: dict[str, float] = found.facts[-1].figures["waits"]
    return {name: round(seconds, 9) for name, seconds in told.items()}


def fact(found: RequestStory, kind: str) -> dict[str, Any]:
    (one,) = (each for each in found.facts if each.kind == kind)
    return dict(one.figures)


# What it waits for


def test_for_a_replica_that_starts(tmp_path: Path) -> None:
    found = story(tmp_path, {**STEP, "startup": 10.0}, [(4.0, 0, 3)], 0)
    assert waits(found) == {"replica": 6.0}
    assert found.sentences[1:] == [
        "For 6.0 s no replica of chat served. Replica 0, which takes 10.0 s to start, was the first to.",
        "Its prompt took 1.0 s on replica 0: it had its first token 7.0 s after its arrival. The other 2"
        " tokens took 2.0 s, 1.0 s each, beside 0 other requests on average.",
        "Answered 9.0 s after its arrival. It waited 6.0 s until a replica served, and ran 3.0 s.",
    ]
    assert [(part.what, part.start, part.end) for part in found.lane] == [
        ("waiting", 4.0, 10.0),
        ("prompt", 10.0, 11.0),
        ("answering", 11.0, 13.0),
    ]


def test_for_a_replica_that_is_not_wanted(tmp_path: Path) -> None:
    scale = {"scale": "target", "min": 0, "max": 1, "target": 1, "every": 10.0}
    service = {name: value for name, value in STEP.items() if name != "replicas"} | {"startup": 3.0} | scale
    found = story(tmp_path, service, [(4.0, 0, 1)], 0)
    assert waits(found) == {"replica": 9.0}
    assert found.sentences[1] == (
        "For 9.0 s no replica of chat served. The service wanted none at first. Replica 0 got its GPUs 6.0 s"
        " later, and takes 3.0 s to start."
    )


def test_for_a_step_to_end(tmp_path: Path) -> None:
    found = story(tmp_path, STEP, [(0.0, 0, 4), (0.25, 0, 1)], 1)
    assert waits(found) == {"step": 0.75}
    assert found.sentences[0].endswith("1 other request of chat was unanswered: 1 running, 0 waiting.")
    assert found.sentences[1] == "It waited 0.750 s on replica 0, for a step to end."


def test_for_its_turn(tmp_path: Path) -> None:
    """Two run at once: the third takes the place of the first, the fourth that of the second."""
    asked = [(0.0, 0, 3), (0.0, 0, 5), (0.5, 0, 4), (0.5, 0, 1)]
    found = story(tmp_path, STEP, asked, 3)
    assert waits(found) == {"max_running": 4.5}
    assert fact(found, "request queued")["ahead"] == 1
    assert found.sentences[1] == (
        "It waited 4.5 s behind 1 other request on replica 0, while 2 requests ran there (max_running)."
    )


def test_for_tokens(tmp_path: Path) -> None:
    found = story(tmp_path, STEP, [(0.0, 90, 6), (0.5, 10, 2)], 1)
    assert waits(found) == {"kv_tokens": 5.5}
    assert found.sentences[1] == (
        "It waited 5.5 s on replica 0, for tokens: those of the next request did not fit into 100"
        " (kv_tokens)."
    )


def test_for_its_turn_and_then_for_tokens(tmp_path: Path) -> None:
    """Two run up to 2 s; then the long one alone, beside which it does not fit."""
    found = story(tmp_path, STEP, [(0.0, 90, 6), (0.0, 0, 2), (0.5, 10, 2)], 2)
    assert waits(found) == {"max_running": 1.5, "kv_tokens": 4.0}
    assert ": 1.5 s while 2 requests ran there (max_running) and 4.0 s for tokens" in found.sentences[1]


def test_for_parts_of_prompts(tmp_path: Path) -> None:
    """A long prompt fills two steps, so that the second request begins with the third."""
    found = story(tmp_path, {**STEP, "max_step_tokens": 8}, [(0.0, 20, 4), (0.0, 5, 1)], 1)
    assert waits(found) == {"step": 2.0}
    assert found.sentences[1] == (
        "It waited 2.0 s behind 1 other request on replica 0, for a step to end, which takes 8 tokens at"
        " most."
    )


def test_for_a_batch_that_is_due(tmp_path: Path) -> None:
    found = story(tmp_path, BATCH, [(1.0, 0, 1), (1.5, 0, 1)], 1)
    assert waits(found) == {"batch": 1.5}
    assert found.sentences[1:] == [
        "It waited 1.5 s, for the batch to fill or to be due.",
        "Replica 0 took it in a batch of 2 of at most 3, as its oldest request had waited 2.0 s (max_wait).",
        "Answered 6.5 s after its arrival. It waited 1.5 s for the batch, and ran 5.0 s.",
    ]


def test_for_a_batch_to_fill(tmp_path: Path) -> None:
    found = story(tmp_path, BATCH, [(1.0, 0, 1), (1.25, 0, 1), (1.5, 0, 1)], 0)
    assert waits(found) == {"batch": 0.5}
    assert found.sentences[2] == "Replica 0 took it in a batch of 3 of at most 3, as it was full."


def test_for_a_replica_that_runs_a_batch(tmp_path: Path) -> None:
    """A batch runs from 2 to 7 s; it is due before."""
    found = story(tmp_path, BATCH, [(0.0, 0, 1), (3.0, 0, 1)], 1)
    assert waits(found) == {"turn": 4.0}
    assert found.sentences[1:3] == [
        "It waited 4.0 s, for its turn, while all replicas ran batches.",
        "Replica 0 took it in a batch of 1 of at most 3, as the replica was idle; its oldest request had"
        " waited 4.0 s, 2.0 s of which it may wait for others (max_wait).",
    ]


def outage(server: int, down: float) -> dict[str, Any]:
    return {"outages": pl.DataFrame({"server": [server], "down_at": [down], "up_at": [down + 100.0]})}


def test_for_a_server_that_fails(tmp_path: Path) -> None:
    """It runs on server 0 from 0 to 2.5 s; the replica in its place is on server 1 or 2."""
    found = story(tmp_path, STEP, [(0.0, 0, 4)], 0, **outage(0, 2.5))
    assert waits(found) == {}
    assert fact(found, "request anew")["seconds"] == 2.5
    assert found.sentences[1] == (
        "Replica 0 had taken it for 2.5 s when it failed with server 0, 2.5 s after its arrival: the request"
        " began anew."
    )
    assert found.sentences[2].startswith("Its prompt took 1.0 s on replica 1")
    assert [part.ended for part in found.lane if part.ended] == ["failed"]


def test_for_a_batch_that_fails(tmp_path: Path) -> None:
    """Its batch begins at 2 s; the one after it is due at once."""
    found = story(tmp_path, BATCH, [(0.0, 0, 1)], 0, **outage(0, 3.0))
    assert waits(found) == {"batch": 2.0}
    assert [each.kind for each in found.facts] == [
        *("request", "request in line", "request anew", "request batch", "request answered")
    ]
    assert fact(found, "request anew") | {"replicas": [0], "failed": True, "seconds": 1.0} == fact(
        found, "request anew"
    )


def test_for_a_replica_that_drains(tmp_path: Path) -> None:
    """The second replica is surplus at 3 s, and may drain for 1 s; the first one is busy until 9 s."""
    service = {name: value for name, value in STEP.items() if name != "replicas"}
    service |= {"scale": "file", "counts": [[0, 2], [3, 1]], "drain": 1.0, "max_running": 1}
    found = story(tmp_path, service, [(0.0, 0, 6), (0.0, 0, 7), (0.5, 0, 3)], 1, seconds=0.1)
    assert fact(found, "request anew")["replicas"] == [1]
    assert fact(found, "request anew")["seconds"] == 4.0
    assert found.sentences[1] == (
        "Replica 1 had taken it for 4.0 s when it ended 4.0 s after its arrival, having drained for 1.0 s,"
        " the longest it may: the request began anew."
    )
    assert waits(found) == {"max_running": 5.0}


def test_for_a_replica_that_ends_while_it_waits(tmp_path: Path) -> None:
    """It waits behind a request on replica 0, which fails at 2.5 s, and is dealt to replica 1."""
    service = {**STEP, "max_running": 1, "startup": 0.0}
    found = story(tmp_path, service, [(0.0, 0, 4), (0.5, 0, 1)], 1, **outage(0, 2.5))
    assert fact(found, "request moved") | {"replicas": [0], "seconds": 2.0, "number": 1} == fact(
        found, "request moved"
    )
    assert waits(found) == {"turn": 2.0, "max_running": 4.0}


# The whole of a run, and what is refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return answered(tmp_path_factory.mktemp("why"))


def test_waits_and_runs_add_up(folder: Path) -> None:
    outcome = Outcome.read(folder)
    assert outcome.requests is not None
    seen = set()
    for row in outcome.requests["row"].to_list()[::9]:
        found = outcome.why(request=row)
        last = found.facts[-1].figures
        anew = sum(each.figures["seconds"] for each in found.facts if each.kind == "request anew")
        assert sum(last["waits"].values()) + anew + last["ran"] == pytest.approx(last["latency"]), row
        seen |= {each.kind for each in found.facts} | set(last["waits"])
    assert {"turn", "batch", "kv_tokens", "step", "request anew"} <= seen


def test_what_is_printed(folder: Path, invoke: Invoke) -> None:
    run = invoke("why", str(folder), "--request", "3")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[0].startswith(f"request 3 to code in {folder}")
    told = json.loads(invoke("why", str(folder), "--request", "3", "--json").stdout)
    assert (told["request"], told["service"]) == (3, "code")
    assert "job" not in told
    assert told["story"][0]["fact"] == "request"


def test_what_no_repeat_tells_is_unknown(folder: Path, tmp_path: Path) -> None:
    outcome = Outcome.read(folder)
    anew = next(
        row
        for row in range(650)
        if any(each.kind == "request anew" for each in outcome.why(request=row).facts)
    )
    outcome.run = {**outcome.run, "ringbco": {**outcome.run["ringbco"], "version": "0.0.1"}}
    (unknown,) = (each for each in outcome.why(request=anew).facts if each.kind == "request unknown")
    assert unknown.sentence.startswith(
        "Whether a replica that ended began it anew is unknown: the result was made with ringbco 0.0.1"
    )


def test_without_rows_it_says_how_to_get_them(tmp_path: Path, invoke: Invoke) -> None:
    folder = answered(tmp_path, rows=False)
    run = invoke("why", str(folder), "--request", "3")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    command = run.stderr.strip().partition("ringbco replay")[2]
    made = invoke("replay", *shlex.split(command))
    assert (made.returncode, made.stderr) == (0, "")
    assert invoke("why", f"{folder}-rows", "--request", "3").returncode == 0
    assert Outcome.read(f"{folder}-rows").has("requests")


@pytest.mark.parametrize("row", [650, 99_999])
def test_a_row_that_is_not_there(folder: Path, invoke: Invoke, row: int) -> None:
    run = invoke("why", str(folder), "--request", str(row))
    assert run.returncode == 1
    assert run.stderr == (
        f"error: {folder}: {row}: expected a row of requests.parquet, 0 to 649; rows count from 0\n"
    )


@pytest.mark.parametrize("row", [True, "3", 2.0])
def test_what_is_no_row(folder: Path, row: Any) -> None:
    with pytest.raises(UsageError, match="expected the row of a request, an integer >= 0"):
        Outcome.read(folder).why(request=row)


def test_a_job_or_a_request(folder: Path, invoke: Invoke) -> None:
    both = "expected the job_id of a job, or the row of a request: one of the two"
    for words, told in (((), "why: JOB is missing"), (("a", "--request", "3"), both)):
        run = invoke("why", str(folder), *words)
        assert run.returncode == 2
        assert told in run.stderr


def test_a_run_without_requests(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [1]})
    outcome = ringbco.replay(jobs, "1x4", policy="fifo")
    with pytest.raises(InputError, match="a result of a run with requests; this one has none"):
        outcome.why(request=0)


def test_requests_in_memory_or_gone(tmp_path: Path) -> None:
    folder = answered(tmp_path)
    outcome = Outcome.read(folder)
    (tmp_path / "requests.parquet").unlink()
    with pytest.raises(
        InputError, match=r"requests\.parquet: the requests that run\.toml names are not there"
    ):
        outcome.why(request=0)
    asked = pl.DataFrame({"arrival": [0.0], "input_tokens": [5], "output_tokens": [3]})
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [1]})
    services = {"chat": {**TOKENS, "scale": "fixed", "replicas": 1}}
    outcome = ringbco.replay(jobs, "1x4", policy="fifo", requests=asked, services=services, request_rows=True)
    with pytest.raises(InputError, match="these were a table in memory"):
        outcome.why(request=0)


def test_rows_need_requests(tmp_path: Path, invoke: Invoke) -> None:
    """Else the result would lack the file that run.toml says it has."""
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [1]})
    jobs.write_parquet(tmp_path / "jobs.parquet")
    words = ["replay", str(tmp_path / "jobs.parquet"), "--cluster", "1x4", "-q", "-o", str(tmp_path / "made")]
    run = invoke(*words, "--request-rows")
    assert run.returncode == 2
    assert "option request-rows: on: expected it with --requests FILE, whose answers it writes" in run.stderr
    assert invoke(*words).returncode == 0
    again = invoke("replay", "--again", str(tmp_path / "made"), "--request-rows")
    assert again.returncode == 1
    assert "expected it with --requests FILE" in again.stderr
