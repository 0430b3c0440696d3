"""What shares of a GPU cost: openb's pods under each placement that gives them; `make bench`."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from ringbco.run.replay import replay
from ringbco.sources.conversion import convert
from ringbco.trace.jobs import from_frame

SHARED = Path(os.environ.get("RINGBCO_SHARED") or Path(__file__).parents[2] / "shared")
LISTS = [
    SHARED / "traces" / "openb" / name
    for name in ("openb_pod_list_default.csv", "openb_node_list_gpu_node.csv")
]
LIMIT = 1.0


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("placement", ["fgd", "best-fit", "worst-fit", "binpack", "first-fit", "random"])
def test_openb_with_its_shares(placement: str, at_once: bool, benchmark: BenchmarkFixture) -> None:
    """Engine time alone, s, against its limit. at_once: twice over, all submitted at 0: many wait."""
    if not all(path.exists() for path in LISTS):
        pytest.skip(f"no public trace {LISTS[0]}")
    converted = convert("openb", LISTS, cluster=True)
    assert converted.cluster is not None
    frame = converted.table.frame
    if at_once:
        again = frame.with_columns(pl.col("job_id") + "-2")
        frame = pl.concat([frame, again]).with_columns(submit_time=pl.lit(0.0))
    table, cluster, engine = from_frame(frame), converted.cluster, []

    def run() -> None:
        outcome = replay(table, cluster, policy="fifo", queue="skip", placement=placement, model="fixed")
        engine.append(outcome.summary["engine_seconds"])

    benchmark.pedantic(run, rounds=3)
    benchmark.extra_info["engine_seconds"] = min(engine)
    assert min(engine) < LIMIT
