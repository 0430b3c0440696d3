"""Decisions keep what they know from one to the next; where GPUs have types they do not. Both give the same.

A second GPU type that nobody may use makes no difference to any job. So a run with it must be one without.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from core_run import CASES, LONG

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
COUNT = max(8, CASES // 10) if LONG else 4


def case(number: int) -> tuple[pl.DataFrame, int, int, dict[str, Any]]:
    """Jobs, servers, GPUs a server, options."""
    rnd = random.Random(f"turns {number}")
    servers, gpus = rnd.choice([(8, 8), (16, 4), (32, 8), (3, 8)])
    count, load = rnd.choice([200, 600]), rnd.choice([0.6, 0.9, 1.2, 2.0, 4.0])
    jobs = ringbco.generate(
        "philly", count, number, gpus=servers * gpus, load=load,
        elastic=rnd.choice(["0.5:2", "0.25:4", "1:3"]), elastic_share=rnd.choice([0.5, 1.0]),
    ).frame.filter(pl.col("num_gpus") <= servers * gpus // 2)  # fmt: skip
    options: dict[str, Any] = {
        "model": rnd.choice(["fixed", "rar"]),
        "placement": rnd.choice(["consolidate", "first-fit", "worst-fit"]),
        "resize_every": rnd.choice([0.0, 60.0, 300.0, 3000.0]),
        "preempt_cost": rnd.choice([0.0, 30.0]),
    }
    if rnd.random() < 0.3:
        options |= {"clock": "slot", "slot": 60.0}
    if rnd.random() < 0.3:
        options["interval"] = rnd.choice([600.0, 3600.0])
    if rnd.random() < 0.4:
        row = pl.int_range(pl.len())
        group = pl.when(row % 3 == 0).then(pl.format("g{}", row // 30))
        jobs, options["search"] = jobs.with_columns(group=group), "asha:eta=3,rungs=2"
    if rnd.random() < 0.4:
        down = [18_000.0 * (number + 1) for number in range(6)]
        up = [at + 7200.0 * (number + 1) for number, at in enumerate(down)]
        options["outages"] = pl.DataFrame(
            {"server": [number % servers for number in range(6)], "down_at": down, "up_at": up}
        )
    return jobs, servers, gpus, options


@pytest.mark.parametrize("policy", ["afs", "optimus", "elastic-srtf"])
def test_what_is_kept_decides_as_what_is_worked_out_anew(policy: str, tmp_path: Path) -> None:
    resized = sum(check(number, policy, tmp_path) > 0 for number in range(COUNT))
    assert resized > COUNT // 2


def check(number: int, policy: str, tmp_path: Path) -> int:
    """Compares both on one case. Returns how often jobs were resized."""
    jobs, servers, gpus, options = case(number)
    recorded = "[recorded]\ngpus = 8\n"
    many = f"[[servers]]\ncount = {servers}\ngpus = {gpus}\n"
    alike, typed = tmp_path / "alike.toml", tmp_path / "typed.toml"
    alike.write_text(recorded + many)
    typed.write_text(f'{recorded}{many}gpu_type = "V100"\n[[servers]]\ngpus = 1\ngpu_type = "T4"\n')
    mine = ringbco.replay(jobs, alike, policy=policy, **options)
    of_type = jobs.with_columns(gpu_type=pl.lit("V100"), recorded_on=pl.lit("V100"))
    anew = ringbco.replay(of_type, typed, policy=policy, **options)
    columns = ["job_id", "start_time", "finish_time", "preemptions", "held_time"]
    assert mine.jobs.select(columns).equals(anew.jobs.select(columns)), number
    assert mine.allocations is not None
    assert anew.allocations is not None
    assert mine.allocations.equals(anew.allocations), number
    return int(mine.jobs["preemptions"].sum())
