"""Requests to services: 10^6 on 50 replicas and 10^7 on 500, with Azure's lengths; `make bench`."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomli_w
from pytest_benchmark.fixture import BenchmarkFixture

from page_requests import KEYS

RINGBCO = Path(sys.executable).with_name("ringbco")
JOBS = "job_id,submit_time,num_gpus,duration\na,0,1,1\n"
SERVICE = {**KEYS, "gpus": 1, "startup": 0, "scale": "fixed"}


@pytest.mark.parametrize(("requests", "replicas", "most"), [(1_000_000, 50, 5.0), (10_000_000, 500, 60.0)])
def test_engine(
    requests: int, replicas: int, most: float, tmp_path: Path, benchmark: BenchmarkFixture
) -> None:
    """Engine time on one core, s, and the most memory of the command that replays a file of requests."""
    file, out = tmp_path / "requests.parquet", tmp_path / "out"
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    services = tomli_w.dumps({"chat": {**SERVICE, "replicas": replicas}})
    (tmp_path / "services.toml").write_text(services, encoding="utf-8")
    # Each replica has 2.5 requests a second.
    asked = ["--requests", str(requests), "--rate", str(2.5 * replicas), "--seed", "1", "-o", str(file)]
    subprocess.run([RINGBCO, "generate", "--preset", "requests", *asked], check=True, capture_output=True)
    command = [RINGBCO, "replay", tmp_path / "jobs.csv", "--cluster", f"{replicas + 1}x1", "--policy", "fifo"]
    command += ["--requests", file, "--services", tmp_path / "services.toml", "-o", out, "--quiet"]

    def run() -> resource.struct_rusage:
        process = subprocess.Popen(command)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used

    began = time.perf_counter()
    used = benchmark.pedantic(run, rounds=1)
    spent = json.loads((out / "summary.json").read_text(encoding="utf-8"))["engine_seconds"]
    memory = used.ru_maxrss * 1024 / 1e9
    print(
        f"{requests:,} requests on {replicas} replicas: {spent:.2f} s of engine, "
        f"{time.perf_counter() - began:.1f} s in all, at most {memory:.2f} GB"
    )
    assert spent <= most
    assert memory <= 1.5
