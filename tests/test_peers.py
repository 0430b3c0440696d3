"""Against other simulators, on their own data: Gavel's rounds and Pollux' Tiresias (docs/tables.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import SHARED, present

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
WORKLOADS = ("workload-1", "workload-2", "workload-3", "workload-4")
GAVEL = """\
[[servers]]
gpus = 4
gpu_type = "v100"
[[servers]]
gpus = 4
gpu_type = "p100"
[[servers]]
gpus = 4
gpu_type = "k80"
"""


def peers(name: str) -> Path:
    return present(SHARED / "peers" / name)


def test_gavels_fifo_on_the_fastest_type(tmp_path: Path) -> None:
    """Every job ends in the same round as in Gavel's own simulator; a slot counts it to the end of that."""
    folder = peers("gavel")
    made = ringbco.convert(
        "gavel", folder / "single60.trace", throughputs=folder / "simulation_throughputs.json.gz", strict=True
    )
    (tmp_path / "c.toml").write_text(GAVEL)
    outcome = ringbco.replay(
        made.table, tmp_path / "c.toml", policy=f"{EXAMPLES / 'gavel_fifo.py'}:GavelFifo", model="table",
        tables=made.tables, clock="slot", slot=360.0, preempt_cost=0.0,
    )  # fmt: skip
    theirs = pl.read_csv(folder / "single60-fifo_perf_jct.csv").with_columns(
        job_id=pl.col("job").cast(pl.String)
    )
    both = outcome.jobs.join(theirs, on="job_id", how="full")
    later = both["jct"] - both["jct_s"]
    assert both.height == 60
    assert later.is_between(-5.0, 365.0).all()
    assert outcome.summary["mean_jct"] == pytest.approx(theirs["jct_s"].mean(), rel=0.05)
    assert ringbco.audit(outcome, made.table) == []


def tiresias(workload: str, **options: Any) -> tuple[pl.DataFrame, float]:
    """Our jobs with Pollux' JCT as `theirs`, and by how much our mean is above theirs, relative."""
    folder = peers("pollux")
    made = ringbco.convert(
        "pollux", folder / "workloads" / f"{workload}.csv", profiles=folder / "profiles", strict=True
    )
    outcome = ringbco.replay(
        made.table, "16x4", model="table", tables=made.tables, start_cost=30.0, preempt_cost=30.0, **options
    )
    found = json.loads((folder / "tiresias_jct.json").read_text())[workload]
    jobs = outcome.jobs.with_columns(theirs=pl.Series([found[job] for job in outcome.jobs["job_id"]]))
    assert len(found) == jobs.height == 160
    return jobs, float(jobs["jct"].mean() / jobs["theirs"].mean() - 1.0)  # type: ignore[operator]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("clock", [{"clock": "slot", "slot": 60.0}, {}], ids=["slot", "continuous"])
def test_pollux_tiresias(workload: str, clock: dict[str, Any]) -> None:
    policy = f"{EXAMPLES / 'pollux_tiresias.py'}:PolluxTiresias"
    jobs, above = tiresias(workload, policy=policy, **clock)
    assert abs(above) < 0.02
    later = (jobs["jct"] - jobs["theirs"]).abs()
    assert float(later.median()) < 60.0  # type: ignore[arg-type]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_built_in_tiresias(workload: str) -> None:
    """Its placement waits for whole servers, which Pollux' does not."""
    _, above = tiresias(workload, policy="tiresias", thresholds=[57_600.0])
    assert abs(above) < 0.05
