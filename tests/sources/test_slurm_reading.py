"""Slurm: random logs give the converter and a plain reading the same jobs and the same account."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from raw.slurm_reading import log, read
from ringbco.errors import InputError
from ringbco.sources import convert
from ringbco.sources.source import Options

COLUMNS = {
    "num_gpus": "gpus",
    "duration": "duration",
    "user": "user",
    "vc": "vc",
    "status": "state",
    "gpu_type": "gpu_type",
    "recorded_on": "recorded_on",
    "time_limit": "limit",
}
CLOCKS = {"submit_time": "at", "recorded_start": "start", "recorded_end": "end"}


@pytest.mark.parametrize("mode", ["split", "last", "sum", "span"])
@pytest.mark.parametrize("seed", range(12))
def test_two_readings_agree(seed: int, mode: str, tmp_path: Path) -> None:
    rng = random.Random(f"{seed} {mode}")
    text = log(rng, rng.choice([6, 20, 60]))
    path = tmp_path / "log.psv"
    path.write_text(text)
    jobs, dropped = read(text, mode)
    if not jobs:
        with pytest.raises(InputError, match="can be kept"):
            convert("slurm", [path], Options(mode=mode))
        return
    result = convert("slurm", [path], Options(mode=mode))
    account = result.account
    assert account.dropped == {reason: rows for reason, rows in dropped.items() if rows}
    assert account.rows_read == text.count("\n") - 1
    assert account.rows_kept == len(jobs) == account.rows_read - sum(account.dropped.values())
    epoch = datetime.fromisoformat(result.epoch).replace(tzinfo=UTC).timestamp()
    for job in result.table.frame.to_dicts():
        want = jobs.pop(job["job_id"])
        assert {name: job[name] for name in COLUMNS} == {name: want[key] for name, key in COLUMNS.items()}
        assert job.get("after") == want.get("after")
        assert {name: epoch + job[name] for name in CLOCKS} == {n: want[key] for n, key in CLOCKS.items()}
    assert not jobs
