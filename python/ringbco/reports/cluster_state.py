"""The cluster's queue, GPUs and contention in a window: exact, where timeline.parquet only has samples."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.reports.server_load import spanning_stretches
from ringbco.reports.window import Window
from ringbco.result import metrics
from ringbco.result.outcome import Outcome
from ringbco.trace.instants import first_instant
from ringbco.trace.shares import WHOLE

MOST_CHANGES: Final = 20_000
"""Instants in a window: where more change something, the state is told at as many even ones."""
MOST_LOOKED_AT: Final = 10_000_000
"""Stretches, counted once for each change while they last, of which the contention is worked out exactly."""

_COUNTS: Final = ("queued_jobs", "queued_gpus", "busy_gpus", "spanning_jobs")


def cluster_state(outcome: Outcome, window: Window) -> dict[str, pl.DataFrame]:
    """By column of timeline.parquet, whose definitions hold: time and value, at the start and at each change.

    Columns: queued_jobs, queued_gpus, busy_gpus, spanning_jobs and mean_contention. Exact wherever told, but
    for the contention of more stretches than MOST_LOOKED_AT, which is that of the samples after the start.
    """
    return {**_counts(outcome, window), "mean_contention": _distinct(_contention(outcome, window))}


def _counts(outcome: Outcome, window: Window) -> dict[str, pl.DataFrame]:
    changes = _changes(outcome).filter(pl.col("time") <= window.end)
    # What happened up to the start counts as of the start; without any change there is a row of zeros.
    zeros = pl.DataFrame({"time": [window.start], **{name: [0] for name in _COUNTS}})
    steps = (
        pl.concat((zeros, changes.with_columns(pl.col("time").clip(lower_bound=window.start))))
        .group_by("time")
        .agg(pl.col(_COUNTS).sum())
        .sort("time")
        .with_columns(pl.col(_COUNTS).cum_sum())
    )
    if steps.height > MOST_CHANGES:
        instants = np.linspace(window.start, window.end, MOST_CHANGES)
        found = np.searchsorted(metrics.column(steps, "time"), instants, side="right") - 1
        steps = steps[found].with_columns(time=pl.Series(instants))
    assert outcome.allocations is not None
    if "share" in outcome.allocations.columns:
        steps = steps.with_columns((pl.col("queued_gpus", "busy_gpus") / WHOLE).round(3))
    return {name: _distinct(steps.select("time", value=name)) for name in _COUNTS}


def _changes(outcome: Outcome) -> pl.DataFrame:
    """What each arrival, start and end of a stretch adds to the counts; a preempted job waits again.

    Where jobs share GPUs, these are counted in thousandths.
    """
    assert outcome.allocations is not None
    shared = "share" in outcome.allocations.columns
    gpu = (pl.col("share").fill_null(1.0) * WHOLE).round() if shared else pl.col("num_gpus")
    submit = metrics.column(outcome.jobs, "submit_time")
    seen = pl.Series(first_instant(submit, outcome.run.get("options", {})))
    submitted = outcome.jobs.select("job_id", seen=seen)
    gangs = (
        outcome.allocations.group_by("job_id", "start_time")
        .agg(
            end=pl.col("end_time").max(),
            gpus=gpu.cast(pl.Int64).sum(),
            # Where jobs share GPUs, a row is a GPU.
            spans=(pl.col("server").min() != pl.col("server").max()).cast(pl.Int64),
        )
        .sort("job_id", "start_time")
        .join(submitted, on="job_id")
        .with_columns(waits=pl.coalesce(pl.col("end").shift().over("job_id"), "seen"))
    )
    gpus, spans, one = pl.col("gpus"), pl.col("spans"), pl.lit(1, pl.Int64)
    none = pl.lit(0, pl.Int64)
    return pl.concat(
        gangs.select(
            time=time,
            queued_jobs=queued,
            queued_gpus=queued * gpus,
            busy_gpus=held * gpus,
            spanning_jobs=held * spans,
        )
        for time, queued, held in (("waits", one, none), ("start_time", -one, one), ("end", none, -one))
    )


def _contention(outcome: Outcome, window: Window) -> pl.DataFrame:
    assert outcome.allocations is not None
    start, end = pl.col("start_time"), pl.col("end_time")
    held = spanning_stretches(outcome.allocations).filter(
        (start <= window.end) & (end > window.start) & (start < end)
    )
    begins = np.maximum(metrics.column(held, "start_time"), window.start)
    ends = metrics.column(held, "end_time")
    changes = np.unique(np.concatenate(([window.start], begins, ends[ends <= window.end])))
    shown = _mean_contention(held, begins, ends, changes) if changes.size <= MOST_CHANGES else None
    if shown is not None:
        return shown
    first = _mean_contention(held, begins, ends, changes[:1])
    inside = (pl.col("time") > window.start) & (pl.col("time") <= window.end)
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
    gang = held.select(pl.struct("job_id", "start_time").rank("dense")).to_series().to_numpy()
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
