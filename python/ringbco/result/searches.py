"""What became of searches and their trials: rungs.parquet and searches.parquet (docs/searches.md#results)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.result.metrics import column
from ringbco.result.schema import RUNGS_SCHEMA, SEARCHES_SCHEMA
from ringbco.trace.searches import NO_SEARCH
from ringbco.trace.shares import asked_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.trace.searches import Trials


def rungs_frame(frame: pl.DataFrame, result: _core.RunResult) -> pl.DataFrame:
    """rungs.parquet: one row per rung that a trial reached, by row of the job table and rung."""
    job, rung, time, loss, went_on = result.tables["climbs"].values()
    order = np.lexsort((rung, job))
    names = pl.Series(job[order])
    return pl.DataFrame(
        {
            "job_id": frame["job_id"].gather(names),
            "group": frame["group"].gather(names),
            "rung": rung[order],
            "time": time[order],
            "loss": loss[order],
            "went_on": pl.Series(went_on[order]).fill_nan(None),
        },
        schema=RUNGS_SCHEMA,
    )


def searches_frame(frame: pl.DataFrame, trials: Trials, result: _core.RunResult) -> pl.DataFrame:
    """searches.parquet: one row per search, in the order of their first rows; those whose trials all were
    dropped are left out.

    The loss of a trial that was done is that at its end, of others that at the last rung that they reached.
    The best trial has the least, ties to the upper row; the time to it runs from the first submission of the
    search.
    """
    jobs, n = result.tables["jobs"], frame.height
    submit = column(frame, "submit_time")
    loss, time = np.full((2, n), np.nan)
    job, rung, reached, at_rung, _ = result.tables["climbs"].values()
    order = np.lexsort((rung, job))  # the last rung of each trial is written last
    loss[job[order]], time[job[order]] = at_rung[order], reached[order]
    finished = jobs["kept"] & ~jobs.get("reached_limit", np.False_)
    done = finished & (trials.of != NO_SEARCH)
    rows = np.flatnonzero(done)
    loss[rows], time[rows] = trials.loss(rows, 1.0), jobs["finish"][rows]
    there = (trials.of != NO_SEARCH) & (jobs["kept"] | jobs["ended"] | jobs["refused"])
    hours = gpu_hours(frame, jobs)
    found: list[dict[str, Any]] = []
    rows = np.flatnonzero(there)
    by_search = rows[np.argsort(trials.of[rows], kind="stable")]
    numbers, firsts = np.unique(trials.of[by_search], return_index=True)
    ends = [*firsts.tolist(), by_search.size][1:]
    for number, start, end in zip(numbers.tolist(), firsts.tolist(), ends, strict=True):
        mine = by_search[start:end]
        first = float(submit[mine].min())
        told = {
            "group": trials.names[number],
            "trials": mine.size,
            "finished": int(np.count_nonzero(finished[mine])),
            "submit_time": first,
            "finish_time": float(np.nanmax(jobs["finish"][mine], initial=-np.inf)),
            "gpu_hours": float(hours[mine].sum()),
        }
        judged = mine[~np.isnan(loss[mine])]
        if judged.size:
            best = int(judged[loss[judged].argmin()])
            told |= {
                "best_job_id": frame["job_id"][best],
                "best_loss": float(loss[best]),
                "time_to_best": float(time[best]) - first,
            }
        found.append(told)
    return pl.DataFrame(found, schema=SEARCHES_SCHEMA).with_columns(
        pl.col("finish_time").replace(-np.inf, None)
    )


def gpu_hours(frame: pl.DataFrame, jobs: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """GPU-hours that each job held, done or not; 0 for one that never ran."""
    if "held_gpus" in jobs:
        hours: NDArray[np.float64] = np.nan_to_num(jobs["held_gpus"]) / 3600.0
    else:
        hours = asked_gpus(frame) * np.nan_to_num(jobs["held"]) / 3600.0
    return hours
