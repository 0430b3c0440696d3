"""A run whose services answer requests: one of tokens, one whose replicas are cut short, one of batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl

import ringbco

CLUSTER = """
[network]
[gpu_types.a]
price_per_hour = 2.0
[gpu_types.b]
speed = 0.5
price_per_hour = 0.5
[[servers]]
count = 3
gpus = 4
gpu_type = "a"
[[servers]]
count = 1
gpus = 4
gpu_type = "b"
"""
TOKENS: dict[str, Any] = {
    "kind": "tokens",
    "gpus": 1,
    "step": 0.02,
    "prefill": 0.0002,
    "decode": 0.001,
    "context": 1e-6,
    "max_running": 4,
    "kv_tokens": 400,
    "max_step_tokens": 64,
    "slo": {"first_token": 0.5, "per_token": 0.05, "latency": 3.0},
}
SERVICES: dict[str, dict[str, Any]] = {
    "chat": {**TOKENS, "startup": 2, "scale": "target", "min": 1, "max": 4, "target": 3, "every": 5}
    | {"down_after": 10},
    "code": {**TOKENS, "gpus": 2, "drain": 0.4, "scale": "file"}
    | {"counts": [[0, 3], [30, 2], [40, 3], [60, 1]]},
    "rank": {"kind": "batch", "gpus": 1, "seconds": [[1, 0.5], [4, 0.8], [8, 1.5]], "max_wait": 0.5}
    | {"slo": {"latency": 1.5}, "scale": "fixed", "replicas": 2},
}
JOBS = pl.DataFrame(
    {"job_id": ["a", "b"], "submit_time": [1.0, 3.0], "num_gpus": [2, 2], "duration": [30.0, 20.0]}
)
"""Two that are done before the last answer."""


def requests() -> pl.DataFrame:
    """More than the services answer at once between 20 and 40 s."""
    rng = random.Random(4)
    rows = []
    for _ in range(650):
        service, taken = rng.choice(("chat", "code", "rank")), rng.randrange(10, 150)
        arrival = rng.choice((rng.uniform(0.0, 80.0), rng.uniform(20.0, 40.0)))
        cached = rng.choice((0, 0, taken // 2))
        rows.append((service, arrival, taken, rng.choice((1, 10, 40, 80)), cached))
    names = ("service", "arrival", "input_tokens", "output_tokens", "cached_tokens")
    return pl.DataFrame(rows, schema=names, orient="row")


def answered(folder: Path, *, rows: bool = True, jobs: pl.DataFrame = JOBS, **options: Any) -> Path:
    """The result folder of the run, beside its tables."""
    (folder / "cluster.toml").write_text(CLUSTER, encoding="utf-8")
    jobs.write_parquet(folder / "jobs.parquet")
    requests().write_parquet(folder / "requests.parquet")
    outages = pl.DataFrame({"server": [1], "down_at": [33.0], "up_at": [36.0]})
    outcome = ringbco.replay(
        folder / "jobs.parquet",
        folder / "cluster.toml",
        **{"policy": "fifo", "model": "fixed", "outages": outages, **options},
        requests=folder / "requests.parquet",
        services=SERVICES,
        request_rows=rows,
    )
    outcome.write(folder / "result")
    return folder / "result"
