"""What `ringbco inspect` tells of requests, and what a replica can sustain, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from ringbco.cli import app
from ringbco.study.requests import capacity, inspect_requests, sustained
from ringbco.trace.requests import Requests, names_requests
from ringbco.trace.serving import ServingFile

TOKENS: Final[dict[str, Any]] = {
    "kind": "tokens", "gpus": 1, "step": 0.01, "prefill": 1e-4, "decode": 1e-3, "max_running": 2,
    "kv_tokens": 100_000, "scale": "fixed", "replicas": 1,
}  # fmt: skip
BATCH: Final[dict[str, Any]] = {
    "kind": "batch", "gpus": 1, "seconds": [[1, 1.0], [4, 2.0], [8, 8.0]], "scale": "fixed", "replicas": 1
}  # fmt: skip


def table(arrival: list[float], tokens: tuple[int, int] = (100, 2), **more: Any) -> pl.DataFrame:
    columns = {"arrival": arrival, "input_tokens": tokens[0], "output_tokens": tokens[1]}
    return pl.DataFrame({name: value for name, value in (columns | more).items() if value is not None})


def most(keys: dict[str, Any], frame: pl.DataFrame) -> tuple[float, str]:
    serving = ServingFile.read({"a": keys})
    return sustained(serving.services[0], Requests.read(frame, serving=serving).frame)


def test_rates_and_lengths() -> None:
    """Six requests in 120 s; four of them within the 60 s from 70 on."""
    frame = table([120.0, 0.0, 70.0, 80.0, 129.0, 30.0], input_tokens=pl.Series([10, 20, 30, 40, 50, 60]))
    figures = inspect_requests(Requests.read(frame))
    assert (figures["requests"], figures["failed"]) == (6, 0)
    assert (figures["first_arrival"], figures["last_arrival"], figures["span"]) == (0.0, 129.0, 129.0)
    assert figures["rate"] == pytest.approx(6 / 129)
    assert figures["busiest_minute"] == pytest.approx(4 / 60)
    assert figures["interarrival"]["max"] == 40.0
    gaps = np.diff([0.0, 30.0, 70.0, 80.0, 120.0, 129.0])
    assert figures["interarrival"]["variation"] == pytest.approx(gaps.std() / gaps.mean())
    assert figures["lengths"]["input_tokens"]["median"] == 35.0
    assert figures["lengths"]["input_tokens"]["p95"] == pytest.approx(57.5)
    assert "cached_tokens" not in figures["lengths"]
    # 10 s windows are the shortest of which at most 24 cover the span.
    over = figures["over_time"]
    assert [row["from"] for row in over] == [10.0 * at for at in range(13)]
    assert [row["requests"] * 10 for row in over] == [1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 2]
    assert over[12]["input_tokens"] == pytest.approx(6.0)
    assert (figures["services"], figures["capacity"]) == ([], None)


def test_bursts_by_hand() -> None:
    """In the ten whole windows of 1 s are 9, 1, 0, 0, ... requests: mean 1, variance 7.2."""
    figures = inspect_requests(Requests.read(table([0.0] * 9 + [1.5, 10.0])))
    assert figures["dispersion"] == {"1": pytest.approx(7.2), "10": None, "60": None, "600": None}


def test_one_request_or_all_at_once() -> None:
    for arrival in ([5.0], [5.0, 5.0]):
        serving = ServingFile.read({"a": TOKENS})
        figures = inspect_requests(Requests.read(table(arrival), serving=serving), serving)
        assert figures["rate"] is None
        assert len(figures["over_time"]) == 1
        assert figures["capacity"][0]["replicas"] is None


def test_by_service() -> None:
    frame = table([0.0, 1.0, 2.0], service=["b", "a", "b"])
    serving = ServingFile.read({"a": TOKENS, "b": BATCH, "c": TOKENS})
    figures = inspect_requests(Requests.read(frame, serving=serving), serving)
    assert [(row["service"], row["requests"]) for row in figures["services"]] == [("b", 2), ("a", 1)]
    assert [(row["service"], row["requests"], row["limit"]) for row in figures["capacity"]] == [
        ("a", 1, "max_running"), ("b", 2, "batches of 4"), ("c", 0, None)
    ]  # fmt: skip


def test_batches_sustain_the_size_that_is_done_fastest_per_request() -> None:
    """4 in 2 s; 8 take 8 s and 1 takes 1 s."""
    assert most(BATCH, table([0.0], (0, 0))) == (2.0, "batches of 4")


def test_a_step_is_shared_by_those_that_run() -> None:
    """Requests of 100 and 2 tokens, two at a time: steps of 10 + 20 + 2 and 10 + 2 ms answer two."""
    found, limit = most(TOKENS, table([0.0] * 4))
    assert (found, limit) == (pytest.approx(2 / 0.044), "max_running")


def test_cached_tokens_need_no_prefill_and_context_is_paid_in_every_step() -> None:
    """Two at a time: 10 + 2 + 0.01 x 200 ms, then 10 + 2 + 0.01 x 202."""
    found, _ = most(TOKENS | {"context": 1e-5}, table([0.0] * 4, cached_tokens=100))
    assert found == pytest.approx(2 / (0.014 + 0.01402))


def test_few_tokens_of_cache_limit_those_that_run() -> None:
    """102 of 204 tokens each: two at a time, though 8 might run."""
    found, limit = most(TOKENS | {"max_running": 8, "kv_tokens": 204}, table([0.0] * 4))
    assert (found, limit) == (pytest.approx(2 / 0.044), "kv_tokens")


def test_tokens_of_a_step_limit_prompts() -> None:
    """25 tokens a step for 101 of each request: 4.04 steps, however many run."""
    found, limit = most(TOKENS | {"max_running": 20, "max_step_tokens": 25}, table([0.0] * 4))
    assert limit == "max_step_tokens"
    assert found == pytest.approx(1 / (4.04 * 0.01 + 0.01 + 0.002))
    beyond = TOKENS | {"max_running": 26, "max_step_tokens": 25}
    assert most(beyond, table([0.0] * 4))[1] == "max_running", "more may run than a step has tokens"


def test_replicas_are_at_least_what_the_rate_needs() -> None:
    """46 a second in all of 10 s, and 45.5 a replica; the busiest minute has 461."""
    serving = ServingFile.read({"a": TOKENS})
    frame = table([at / 46 for at in range(461)])
    (row,) = capacity(Requests.read(frame, serving=serving), serving)
    assert (row["replicas"], row["replicas_in_busiest_minute"]) == (2, 1)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("arrival", True),
        ('service;"arrival";input_tokens', True),
        ("TIMESTAMP,ContextTokens,GeneratedTokens", True),
        ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", True),
        ("TIMESTAMP,level,text", False),
        ("job_id,submit_time,num_gpus,duration,arrival", False),
        ("input_tokens,output_tokens", False),
    ],
)
def test_what_is_a_table_of_requests(tmp_path: Path, names: str, expected: bool) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{names}\n")
    assert names_requests(path) is expected
    frame = pl.DataFrame(schema=dict.fromkeys(names.replace('"', "").replace(";", ",").split(","), pl.Int64))
    frame.write_parquet(tmp_path / "t.parquet")
    assert names_requests(tmp_path / "t.parquet") is expected


def test_the_verb(tmp_path: Path, small_jobs: Path) -> None:
    requests, keys = tmp_path / "r.csv", tmp_path / "s.toml"
    requests.write_text("Timestamp,Request tokens,Response tokens\n0,100,2\n1,100,0\n4,100,2\n")
    lines = (f"{name} = {json.dumps(value)}" for name, value in TOKENS.items())
    keys.write_text("\n".join(("[a]", *lines)))

    def run(*given: object) -> tuple[int, str, str]:
        ran = CliRunner().invoke(app, ["inspect", *map(str, given)])
        return ran.exit_code, ran.stdout, ran.stderr or str(ran.exception)

    code, said, noted = run(requests, "--services", keys)
    assert (code, noted.count("note: ")) == (0, 1)
    assert "1 of 3 requests is left out: failed, with 0 response tokens" in noted
    assert said.splitlines()[0] == f"2 requests in {requests}"
    assert "45.46" in said, "an upper bound is rounded up"
    _, text, _ = run(requests, "--services", keys, "--json")
    assert json.loads(text)["capacity"][0]["at_most"] == pytest.approx(2 / 0.044)
    assert run(requests, "-q") == (0, "", "None")
    assert "is a table of requests: expected a job table" in run(requests, "--cluster", "2x8")[2]
    assert "is no table of requests" in run(small_jobs, "--services", keys)[2]
