"""Requests beside jobs: cases worked by hand, files, options and figures."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import SHARED

HAND = SHARED / "cases" / "requests.json"
JOB = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [0.001]})
TOKENS = {
    "kind": "tokens",
    "gpus": 1,
    "step": 0.01,
    "prefill": 0.0001,
    "decode": 0.001,
    "max_running": 8,
    "kv_tokens": 1000,
    "scale": "fixed",
    "replicas": 1,
}


def replay(
    requests: Any, services: Any, cluster: str = "8x1", jobs: pl.DataFrame = JOB, **options: Any
) -> ringbco.Outcome:
    return ringbco.replay(
        jobs,
        cluster,
        **{"policy": "fifo", "model": "fixed", "request_rows": True, **options},
        requests=requests,
        services=services,
    )


@pytest.mark.skipif(not HAND.exists(), reason="the cases worked by hand are not here")
@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 6, 7])
def test_cases_worked_by_hand(place: int) -> None:
    case = json.loads(HAND.read_text(encoding="utf-8"))["cases"][place]
    told = case.get("replicas", [])
    fails = [(at, each["end_time"], 1e3) for at, each in enumerate(told) if each["end_time"] is not None]
    options: dict[str, Any] = {}
    jobs, cluster = JOB, f"{len(told) + 1}x1" if told else "8x1"
    if fails:
        options["outages"] = pl.DataFrame(fails, ["server", "down_at", "up_at"], orient="row")
        # On the last server, so that a lost replica is not made up for.
        jobs = JOB.with_columns(duration=pl.lit(10.0), preemptible=pl.lit(False))
    outcome = replay(pl.DataFrame(case["requests"]), {"chat": case["service"]}, cluster, jobs, **options)
    rows = outcome.requests
    assert rows is not None
    columns = ["replica", "start", "first_token", "finish"]
    assert rows.select(columns).rows() == [tuple(row[name] for name in columns) for row in case["expect"]]
    (own,) = outcome.summary["services"]
    summary = case.get("summary", {})
    for key, value in summary.items():
        if key != "replicas":
            assert own[key] == pytest.approx(value, rel=1e-12), key
    if "replicas" in summary:
        replicas = outcome.replicas
        assert replicas is not None
        found = replicas.select("start_time", "drains_from", "end_time").rows()
        assert found == [tuple(row) for row in summary["replicas"]]
