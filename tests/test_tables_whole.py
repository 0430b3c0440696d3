"""Model `table` from the files to the audit, on random small replays: every figure is worked out again."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from core_run import AUDITS
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError

POLICIES = ("fifo", "sjf", "sjf-bco", "srtf", "tiresias", "gittins", "ftf", "time-slice", "edf")
TYPES = ("V100", "T4", "own-1")


class Elastic(ringbco.Policy):
    """Everybody on as few GPUs as may be, then all that is idle to whoever may hold more."""

    def decide(self, state: ringbco.State) -> None:
        for row in state.waiting:
            if sum(state.idle) >= state.jobs.min_gpus[row]:
                state.start([row], gpus=int(state.jobs.min_gpus[row]), placement="first-fit", strict=False)
        for row in state.running:
            most = min(int(state.jobs.max_gpus[row]), int(state.held[row]) + int(max(state.idle)))
            if most > state.held[row]:
                try:
                    state.resize(int(row), most)
                except ringbco.DecisionError:
                    continue  # its own type has no room


def drawn(rnd: random.Random, folder: Path) -> tuple[pl.DataFrame, Cluster, pl.DataFrame]:
    """A job table, a cluster and measured speeds, in which every job has an entry on every type."""
    names = TYPES[: rnd.randint(1, 3)]
    lines = ['[gpu_types."own-1"]', "speed = 1.0"]
    for server in range(rnd.randint(len(names), 5)):
        name = names[server % len(names)]
        lines += [
            "[[servers]]",
            f"gpus = {rnd.randint(4, 6)}",
            f'gpu_type = "{rnd.choice((name, name.upper()))}"',
        ]
    (folder / "c.toml").write_text("\n".join(lines))
    cluster = Cluster.parse(folder / "c.toml")
    models = ("resnet", "LM (batch size 5)")
    rows = [
        (model, rnd.choice((name, name.lower())), gpus, servers, rate)
        for model in models
        for name in (*names, "K80")
        for servers in (1, *rnd.sample((2, 3), rnd.randint(0, 2)))
        for gpus in sorted({servers, 12, *rnd.sample(range(servers, 13), 2)})
        for rate in [rnd.choice((1.0, 2.0, rnd.uniform(0.2, 6.0)))]
    ]
    speeds = pl.DataFrame(rows, ["model", "gpu_type", "gpus", "servers", "rate"], orient="row")
    jobs = pl.DataFrame(
        {
            "job_id": f"j{row}",
            "submit_time": rnd.choice((0.0, float(rnd.randint(0, 100)), rnd.uniform(0, 100))),
            "num_gpus": (gpus := rnd.randint(1, 4)),
            "min_gpus": rnd.randint(1, gpus),
            "max_gpus": rnd.randint(gpus, 6),
            "duration": rnd.uniform(1.0, 200.0),
            "model": rnd.choice(models),
            "iterations": rnd.choice((None, rnd.randint(1, 500))),
            "recorded_on": rnd.choice((None, "k80")),
            "gpu_type": rnd.choice((None, rnd.choice(names), "|".join(names))),
            "deadline": rnd.choice((None, 300.0)),
        }
        for row in range(rnd.randint(2, 12))
    )
    return jobs, cluster, speeds


def options(rnd: random.Random) -> dict[str, Any]:
    clock: dict[str, Any] = rnd.choice(({}, {"clock": "slot", "slot": rnd.choice((7.0, 10.0, 60.0))}))
    return clock | {
        "start_cost": rnd.choice((0.0, 5.0, 30.0)),
        "interval": rnd.choice((20.0, 60.0)),
        "quantum": 300.0,
        "thresholds": [100.0],
        "oversize": "drop",
    }


@pytest.mark.parametrize("policy", [*POLICIES, Elastic])
def test_every_figure_follows_from_the_folder(policy: Any, tmp_path: Path) -> None:
    for number in range(AUDITS):
        rnd = random.Random(f"whole tables {policy} {number}")
        jobs, cluster, speeds = drawn(rnd, tmp_path)
        if policy is not Elastic:
            jobs = jobs.drop("min_gpus", "max_gpus")
        given = options(rnd)
        if policy in ("fifo", "sjf"):
            given["queue"] = rnd.choice(("strict", "skip", "easy"))
        outcome = ringbco.replay(jobs, cluster, policy=policy, model="table", tables=speeds, **given)
        assert ringbco.audit(outcome, jobs) == [], (number, given)


def test_other_speeds_are_found_out(tmp_path: Path) -> None:
    rnd = random.Random(7)
    jobs, cluster, speeds = drawn(rnd, tmp_path)
    outcome = ringbco.replay(jobs, cluster, model="table", tables=speeds, policy="fifo")
    assert outcome.speeds is not None
    for factor in (1.001, 0.999):
        other = dataclasses.replace(outcome, speeds=outcome.speeds.with_columns(pl.col("rate") * factor))
        assert "run-times" in {finding.code for finding in ringbco.audit(other, jobs)}
    lacking = dataclasses.replace(outcome, speeds=None)
    with pytest.raises(InputError, match=r"expected speeds.parquet"):
        ringbco.audit(lacking, jobs)
