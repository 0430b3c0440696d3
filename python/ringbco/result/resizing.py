"""Stays of jobs, and which of them began as their job was resized (docs/results.md#resizes)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ringbco.trace.instants import first_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringbco.result.outcome import Outcome

STAY: Final = ("job_id", "start_time", "end_time")


def stays(allocations: pl.DataFrame, ended: pl.DataFrame | None = None) -> pl.DataFrame:
    """A row a stay, by (start, end) for each job: STAY (s), gpus, servers, before.

    before: the GPUs that the job held up to the very instant at which this stay begins, where they were more
    or fewer, which is a resize; else null.
    allocations: as a result has them; job_id may be of any type. ended: the STAYs that something else than
    the policy ended, such as an outage: who starts again at that instant is not resized.
    """
    found = (
        allocations.group_by(STAY, maintain_order=True)
        .agg(gpus=pl.col("num_gpus").cast(pl.Int64).sum(), servers=pl.col("server").n_unique())
        .sort(STAY, maintain_order=True)
    )
    if ended is None or ended.is_empty():
        found = found.with_columns(cut=pl.lit(value=False))
    else:
        known = ended.select(STAY).unique().with_columns(cut=pl.lit(value=True))
        found = found.join(known, on=STAY, how="left", maintain_order="left").with_columns(
            pl.col("cut").fill_null(value=False)
        )
    gpus, end, cut = (pl.col(name).shift(1).over("job_id") for name in ("gpus", "end_time", "cut"))
    resized = (end == pl.col("start_time")) & (gpus != pl.col("gpus")) & ~cut
    return found.with_columns(before=pl.when(resized).then(gpus)).drop("cut")


def failed(rows: pl.DataFrame, outages: pl.DataFrame | None, options: Mapping[str, Any]) -> pl.DataFrame:
    """The rows of allocations that end as an outage of their server begins. options: the run's."""
    if outages is None:
        return rows.clear()
    down = pl.Series(first_instant(outages["down_at"].to_numpy(), options))
    known = outages.select("server", end_time=down).unique()
    return rows.join(known, on=["server", "end_time"], how="semi")


def cut_off(allocations: pl.DataFrame, outcome: Outcome) -> pl.DataFrame | None:
    """The rows that end as their server fails or a replica starts on it, or as their job rests at a rung."""
    if outcome.outages is None and outcome.replicas is None and outcome.rungs is None:
        return None
    options = outcome.run.get("options", {})
    found = [failed(allocations, outcome.outages, options).select(allocations.columns)]
    if outcome.replicas is not None:
        starts = outcome.replicas.select("server", end_time="start_time").unique()
        found.append(allocations.join(starts, on=["server", "end_time"], how="semi"))
    if outcome.rungs is not None:
        left = pl.col("went_on").ne_missing(pl.col("time"))
        rests = outcome.rungs.filter(left).select("job_id", end_time="time")
        found.append(allocations.join(rests, on=["job_id", "end_time"], how="semi"))
    return pl.concat(found)


def pause(options: Mapping[str, Any]) -> float:
    """Seconds for which a job that was resized holds its GPUs without progress, by the run's options."""
    cost = options.get("resize_cost")
    seconds = float(options.get("preempt_cost", 0.0) if cost is None else cost)
    if options.get("clock") != "slot" or options.get("model") == "table":
        return seconds
    slot = float(options["slot"])
    return math.ceil(seconds / slot) * slot


def paused(pause: float) -> pl.Expr:
    """Seconds of each row of `stays` in which its job pauses as it was resized."""
    length = pl.col("end_time") - pl.col("start_time")
    return (
        pl.when(pl.col("before").is_not_null()).then(pl.min_horizontal(length, pl.lit(pause))).otherwise(0.0)
    )


def figures(found: pl.DataFrame, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a summary says of `stays`: resizes, jobs_resized, resize_lost_gpu_seconds."""
    resized = found.filter(pl.col("before").is_not_null())
    lost = resized.select(pl.col("gpus") * paused(pause(options))).to_series()
    return {
        "resizes": resized.height,
        "jobs_resized": resized["job_id"].n_unique(),
        "resize_lost_gpu_seconds": float(lost.sum()),
    }


def stays_of(outcome: Outcome) -> pl.DataFrame | None:
    """The `stays` of jobs that were done; None where no job could be resized, or nothing was recorded."""
    return _stays(outcome) if "resizes" in outcome.summary and outcome.allocations is not None else None


def _stays(outcome: Outcome) -> pl.DataFrame:
    assert outcome.allocations is not None
    held = outcome.allocations
    held = held.join(outcome.jobs.select("job_id"), on="job_id", how="semi", maintain_order="left")
    return stays(held, cut_off(held, outcome))


def told_in(summary: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The summary of a run whose policy may resize, with `figures` behind what preemptions cost.

    It stays what it is where no job is elastic, or nothing was recorded.
    """
    if outcome.allocations is None or "held_gpu_time" not in outcome.jobs.columns:
        return summary
    at = [*summary, "lost_gpu_seconds"].index("lost_gpu_seconds") + 1
    items = [*summary.items()]
    told = figures(_stays(outcome), outcome.run["options"])
    return dict((*items[:at], *told.items(), *items[at:]))
