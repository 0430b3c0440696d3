"""The cluster's queue, GPUs and contention in a viewport: exact, where timeline.parquet only has samples."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.reports.server_load import spanning_stays
from ringbco.reports.viewport import Viewport
from ringbco.result import metrics
from ringbco.result.outcome import Outcome
from ringbco.trace.clock import first_instant
from ringbco.trace.shares import MILLI_GPU

MOST_CHANGES: Final = 20_000
"""Instants in a viewport: where more change something, the state is told at as many even ones."""
MOST_LOOKED_AT: Final = 10_000_000
"""Intervals, counted once for each change while they last, of which the contention is worked out exactly."""

_ROUNDING: Final = 1e-14
_COUNTS: Final = ("queued_jobs", "queued_gpus", "busy_gpus", "spanning_jobs")


def cluster_state(outcome: Outcome, viewport: Viewport) -> dict[str, pl.DataFrame]:
    """By column of timeline.parquet, whose definitions hold: time and value, at the start and at each change.

    Columns: queued_jobs, queued_gpus, busy_gpus, spanning_jobs and mean_contention. Exact wherever told, but
    for the contention of more intervals than MOST_LOOKED_AT, which is that of the samples after the start.
    """
    return {**_counts(outcome, viewport), "mean_contention": _distinct(_contention(outcome, viewport))}


def _counts(outcome: Outcome, viewport: Viewport) -> dict[str, pl.DataFrame]:
    changes = _steps_by_stay(outcome).filter(pl.col("time") <= viewport.end)
    # What happened up to the start counts as of the start; without any change there is a row of zeros.
    zeros = pl.DataFrame({"time": [viewport.start], **{name: [0] for name in _COUNTS}})
    steps = (
        pl.concat((zeros, changes.with_columns(pl.col("time").clip(lower_bound=viewport.start))))
        .group_by("time")
        .agg(pl.col(_COUNTS).sum())
        .sort("time")
        .with_columns(pl.col(_COUNTS).cum_sum())
    )
    if steps.height > MOST_CHANGES:
        instants = np.linspace(viewport.start, viewport.end, MOST_CHANGES)
        found = np.searchsorted(metrics.column(steps, "time"), instants, side="right") - 1
        steps = steps[found].with_columns(time=pl.Series(instants))
    assert outcome.allocations is not None
    if "share" in outcome.allocations.columns:
        steps = steps.with_columns((pl.col("queued_gpus", "busy_gpus") / MILLI_GPU).round(3))
    return {name: _distinct(steps.select("time", value=name)) for name in _COUNTS}


def gangs(outcome: Outcome) -> pl.DataFrame:
    """One row per stay, in order: job_id, stay, waits (s, since when its job waits), start and end_time.

    Also num_gpus, num_servers, seat (null for none), taken (from when on no other job has its GPUs, s), unit,
    asks, held and spans. asks and held are GPUs times unit, which is 1;
    where jobs share GPUs they are thousandths of one, and unit is how many a GPU of the job counts. Jobs that
    were ended before they were done are among them. Of those the result does not tell what they asked for: it
    is what they held first.
    """
    asked = outcome.jobs.select("job_id", "submit_time", asked="num_gpus")
    stays = outcome.stays
    for facts in (asked, _units(outcome)):
        stays = stays.join(facts, on="job_id", how="left", maintain_order="left")
    stays = stays.join(_seats(outcome), on=("job_id", "stay"), how="left", maintain_order="left")
    # Who comes to a seat takes no GPUs that others hold until then.
    others = pl.col("end_time").cum_max().shift(1).over("seat", order_by="start_time")
    taken = pl.when(pl.col("seat").is_not_null()).then(others)
    waited = pl.sum_horizontal("wait_behind", "wait_gpus", "wait_fragmented")
    # Of a job without a row in jobs.parquet. Rounding must not put it after the instant on which it fell.
    start = pl.col("start_time")
    submit = pl.coalesce("submit_time", start - waited - _ROUNDING * start.abs())
    asks = pl.coalesce("asked", pl.col("num_gpus").first().over("job_id"))
    left = pl.col("end_time").shift().over("job_id") + pl.col("paused_at_rung")
    seen = stays.select(submit).to_series().to_numpy()
    seen = first_instant(seen, outcome.run.get("options", {}))
    return stays.select(
        *("job_id", "stay", "start_time", "end_time", "num_gpus", "num_servers", "seat", "unit"),
        taken=pl.min_horizontal(pl.max_horizontal("start_time", taken), "end_time"),
        waits=pl.min_horizontal(pl.coalesce(left, pl.Series(seen)), "start_time"),
        asks=asks.cast(pl.Int64) * pl.col("unit"),
        held=pl.col("num_gpus").cast(pl.Int64) * pl.col("unit"),
        spans=(pl.col("num_servers") > 1).cast(pl.Int64),
    )


def _units(outcome: Outcome) -> pl.DataFrame:
    """How much a GPU of each job counts, which is less than others do where it is a share: job_id, unit."""
    assert outcome.allocations is not None
    unit = pl.lit(1, pl.Int64)
    if "share" in outcome.allocations.columns:
        unit = (pl.col("share").first().fill_null(1.0) * MILLI_GPU).round().cast(pl.Int64)
    return outcome.allocations.group_by("job_id").agg(unit=unit)


def _seats(outcome: Outcome) -> pl.DataFrame:
    """The seat of each stay, of results that have them: job_id, stay, seat."""
    assert outcome.allocations is not None
    seat = pl.lit(None, pl.UInt32) if "seat" not in outcome.allocations.columns else pl.col("seat").first()
    return outcome.allocations.group_by("job_id", "stay").agg(seat=seat)


def _steps_by_stay(outcome: Outcome) -> pl.DataFrame:
    """What the beginning of each wait, and the start and end of each stay, add to the counts."""
    stays = gangs(outcome)
    one, none = pl.lit(1, pl.Int64), pl.lit(0, pl.Int64)
    return pl.concat(
        stays.select(
            time=time,
            queued_jobs=queued,
            queued_gpus=queued * pl.col("asks"),
            busy_gpus=busy * pl.col("held"),
            spanning_jobs=holds * pl.col("spans"),
        )
        for time, queued, holds, busy in (
            ("waits", one, none, none),
            ("start_time", -one, one, none),
            ("taken", none, none, one),
            ("end_time", none, -one, -one),
        )
    )


def _contention(outcome: Outcome, viewport: Viewport) -> pl.DataFrame:
    assert outcome.allocations is not None
    start, end = pl.col("start_time"), pl.col("end_time")
    held = spanning_stays(outcome.allocations).filter(
        (start <= viewport.end) & (end > viewport.start) & (start < end)
    )
    begins = np.maximum(metrics.column(held, "start_time"), viewport.start)
    ends = metrics.column(held, "end_time")
    changes = np.unique(np.concatenate(([viewport.start], begins, ends[ends <= viewport.end])))
    shown = _mean_contention(held, begins, ends, changes) if changes.size <= MOST_CHANGES else None
    if shown is not None:
        return shown
    first = _mean_contention(held, begins, ends, changes[:1])
    inside = (pl.col("time") > viewport.start) & (pl.col("time") <= viewport.end)
    samples = outcome.timeline.filter(inside).select("time", value="mean_contention")
    return samples if first is None else pl.concat((first, samples))


def _mean_contention(
    held: pl.DataFrame, begins: NDArray[np.float64], ends: NDArray[np.float64], instants: NDArray[np.float64]
) -> pl.DataFrame | None:
    """The mean p_j of the spanning jobs that hold GPUs at each instant; None where that is too much work."""
    first, beyond = (np.searchsorted(instants, times, side="left") for times in (begins, ends))
    seen_at = beyond - first
    if seen_at.sum() > MOST_LOOKED_AT:
        return None
    row = np.repeat(np.arange(held.height), seen_at)
    # Counting on from its first instant, row by row.
    at = np.arange(row.size) - np.repeat(np.cumsum(seen_at) - seen_at - first, seen_at)
    gang = held.select(pl.struct("job_id", "stay").rank("dense")).to_series().to_numpy()
    means = (
        pl.DataFrame({"at": at, "server": held["server"].to_numpy()[row], "gang": gang[row]})
        .with_columns(jobs=pl.len().over("at", "server"))
        .group_by("at", "gang")
        .agg(pl.col("jobs").max())
        .group_by("at")
        .agg(value=pl.col("jobs").cast(pl.Float64).mean())
    )
    value = np.zeros(instants.size)
    value[means["at"].to_numpy()] = means["value"].to_numpy()
    return pl.DataFrame({"time": instants, "value": value})


def _distinct(steps: pl.DataFrame) -> pl.DataFrame:
    """The first step and those that change the value."""
    return steps.filter((pl.col("value") != pl.col("value").shift()).fill_null(True))
