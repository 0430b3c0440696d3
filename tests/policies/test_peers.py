"""Against other simulators, on their own data: Gavel's FIFO, Pollux' Tiresias, Optimus (docs/tables.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ringbco
from conftest import SHARED, present
from frames import typed_servers
from reference.peers import GavelFifo, PolluxTiresias

WORKLOADS = ("workload-1", "workload-2", "workload-3", "workload-4")
GAVEL = typed_servers((1, 4, "v100"), (1, 4, "p100"), (1, 4, "k80"))
TIMES = ("job_id", "start_time", "finish_time", "preemptions", "num_servers")
SLOTS: dict[str, Any] = {"clock": "slot", "slot": 60.0}


def peers(name: str) -> Path:
    return present(SHARED / "peers" / name)


@pytest.mark.parametrize("clock", [{"clock": "slot", "slot": 360.0}, {}], ids=["slot", "continuous"])
def test_gavels_fifo_on_the_fastest_type(clock: dict[str, Any], tmp_path: Path) -> None:
    """In slots every job ends in the same round as in Gavel's own simulator; it counts to the end of that."""
    folder = peers("gavel")
    made = ringbco.convert(
        "gavel", folder / "single60.trace", throughputs=folder / "simulation_throughputs.json.gz", strict=True
    )
    (tmp_path / "c.toml").write_text(GAVEL)
    given: dict[str, Any] = {"model": "table", "tables": made.tables, "preempt_cost": 0.0, **clock}
    outcome = ringbco.replay(
        made.table, tmp_path / "c.toml", policy="gavel", parameters={"shares": "first-come"}, **given
    )
    theirs = pl.read_csv(folder / "single60-fifo_perf_jct.csv").with_columns(
        job_id=pl.col("job").cast(pl.String)
    )
    both = outcome.jobs.join(theirs, on="job_id", how="full")
    assert both.height == 60
    if clock:
        assert (both["jct"] - both["jct_s"]).is_between(-5.0, 365.0).all()
    least, most = (0.02, 0.023) if clock else (-0.002, 0.002)
    mean: float = theirs["jct_s"].mean()  # type: ignore[assignment]
    assert least < outcome.summary["mean_jct"] / mean - 1.0 < most
    assert ringbco.audit(outcome, made.table) == []
    slow = ringbco.replay(made.table, tmp_path / "c.toml", policy=GavelFifo, **given)
    assert_frame_equal(outcome.jobs.select(TIMES), slow.jobs.select(TIMES))


@cache
def converted(workload: str) -> Any:
    folder = peers("pollux")
    return ringbco.convert(
        "pollux", folder / "workloads" / f"{workload}.csv", profiles=folder / "profiles", strict=True
    )


def replayed(workload: str, policy: Any, **options: Any) -> tuple[ringbco.Outcome, pl.DataFrame]:
    """A run, and its jobs with the JCT of Pollux' simulator as `theirs`."""
    folder, made = peers("pollux"), converted(workload)
    outcome = ringbco.replay(
        made.table, "16x4", policy=policy, model="table", tables=made.tables, start_cost=30.0, **options
    )
    assert ringbco.audit(outcome, made.table) == []
    theirs = "optimus" if policy == "optimus" else "tiresias"
    document = json.loads((folder / f"{theirs}_jct.json").read_text())[workload]
    jobs = outcome.jobs.with_columns(theirs=pl.Series([document[job] for job in outcome.jobs["job_id"]]))
    assert len(document) == jobs.height == 160
    return outcome, jobs


def above(jobs: pl.DataFrame) -> float:
    """By how much our mean is above theirs, relative."""
    return float(jobs["jct"].mean() / jobs["theirs"].mean() - 1.0)  # type: ignore[operator]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("clock", [SLOTS, {}], ids=["slot", "continuous"])
def test_pollux_tiresias(workload: str, clock: dict[str, Any]) -> None:
    """The built-in policy on the emptiest servers is theirs; so does their reference model."""
    given: dict[str, Any] = {"thresholds": [57_600.0], "placement": "emptiest", **clock}
    outcome, jobs = replayed(workload, "tiresias", **given)
    assert abs(above(jobs)) < (0.015 if clock else 0.006)
    later = (jobs["jct"] - jobs["theirs"]).abs()
    assert float(later.median()) < 60.0  # type: ignore[arg-type]
    slow, _ = replayed(workload, PolluxTiresias, **clock)
    assert_frame_equal(outcome.jobs.select(TIMES), slow.jobs.select(TIMES))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_preset_of_tiresias(workload: str) -> None:
    """Its placement waits for whole servers, which Pollux' does not."""
    _, jobs = replayed(workload, "tiresias", thresholds=[57_600.0])
    assert abs(above(jobs)) < 0.05


@pytest.mark.parametrize(
    "workload", [WORKLOADS[0], *(pytest.param(name, marks=pytest.mark.long) for name in WORKLOADS[1:])]
)
def test_the_reference_model_of_pollux_optimus(workload: str) -> None:
    """Its every job ends when Pollux' simulator says it does, to the second."""
    pytest.importorskip(
        "scipy", reason="the reference model interpolates with scipy: pip install scikit-learn"
    )
    from reference.pollux import optimus

    folder = peers("pollux")
    result = optimus(folder / "workloads" / f"{workload}.csv", folder / "profiles")
    assert result == json.loads((folder / "optimus_jct.json").read_text())[workload]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(
    ("placement", "resize_every", "most"),
    [("emptiest", 120.0, 0.015), ("consolidate", 120.0, 0.041), ("emptiest", 0.0, 0.036)],
)
def test_pollux_optimus(workload: str, placement: str, resize_every: float, most: float) -> None:
    """docs/tables.md has the figures, and says what is different."""
    given: dict[str, Any] = {"interval": 60.0, "resize_every": resize_every, "placement": placement, **SLOTS}
    _, jobs = replayed(workload, "optimus", **given)
    assert abs(above(jobs)) < most
    later = jobs["jct"] - jobs["theirs"]
    assert later.is_between(0.0, 60.0, closed="left").sum() >= 80  # the same slot


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_optimus_on_workloads_drawn_at_random(seed: int, tmp_path: Path) -> None:
    """Jobs and arrivals of Pollux' workloads, put together anew; their reference model stands for it."""
    pytest.importorskip(
        "scipy", reason="the reference model interpolates with scipy: pip install scikit-learn"
    )
    from reference.pollux import optimus

    folder = peers("pollux")
    given = [pl.read_csv(folder / "workloads" / f"{workload}.csv") for workload in WORKLOADS]
    drawn = pl.concat(given).sample(160, with_replacement=True, seed=seed).drop("name", "time")
    workload = drawn.select(
        pl.format("{}-{}", "application", pl.int_range(160)).alias("name"),
        given[seed % 4]["time"],
        pl.all(),
    )
    workload.write_csv(tmp_path / "w.csv")
    made = ringbco.convert("pollux", tmp_path / "w.csv", profiles=folder / "profiles", strict=True)
    outcome = ringbco.replay(
        made.table, "16x4", policy="optimus", interval=60.0, resize_every=120.0, placement="emptiest",
        model="table", tables=made.tables, start_cost=30.0, **SLOTS,
    )  # fmt: skip
    assert ringbco.audit(outcome, made.table) == []
    theirs = optimus(tmp_path / "w.csv", folder / "profiles")
    mean = sum(theirs.values()) / 160
    assert outcome.summary["mean_jct"] == pytest.approx(mean, rel=0.06)
