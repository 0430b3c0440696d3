"""When jobs arrived: at their submission, or by the ends of the jobs before them (docs/chains.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.checker.clock import boundary
from ringbco.result.validation import places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringbco.result.outcome import Outcome
    from ringbco.trace.jobs import JobTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Arrivals:
    """Row by row of the job table: the arrival, s; the row of the job before it, -1 for none; submit_time, s.

    reckoned: which arrivals nothing in the result tells. All but time are None without a column after.
    """

    time: Floats
    before: NDArray[np.int64] | None = None
    submitted: Floats | None = None
    reckoned: NDArray[np.bool_] | None = None

    @classmethod
    def read(
        cls,
        outcome: Outcome,
        table: JobTable,
        options: Mapping[str, Any],
        lost: NDArray[np.bool_] | None = None,
    ) -> Arrivals:
        """Those of a result with these options, from the ends that it records.

        When a job that was refused or ended was gone is not recorded. Then the arrival after it is what the
        result says, unless that is before all that is known; of a job that never ran it is reckoned as if the
        one before was gone on its arrival. lost: the jobs that were left out, where that is known.
        """
        frame = table.frame
        submit = frame["submit_time"].cast(pl.Float64).to_numpy()
        if "after" not in frame.columns:
            return cls(submit)
        ids = frame["job_id"].cast(pl.String)
        before = places(frame["after"].cast(pl.String), ids).cast(pl.Int64).fill_null(-1).to_numpy()
        linked = before
        if lost is not None:
            before = np.where(lost | ((before >= 0) & lost[before]), -1, before)
        think = np.full(submit.size, np.nan)
        if "think_time" in frame.columns:
            think = frame["think_time"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        place = places(outcome.jobs["job_id"].cast(pl.String), ids)
        known = place.is_not_null()
        row = place.drop_nulls().to_numpy()
        end, told = np.full(submit.size, np.nan), _by_stays(outcome, ids)
        end[row] = outcome.jobs["finish_time"].cast(pl.Float64).filter(known).to_numpy()
        told[row] = outcome.jobs["submit_time"].cast(pl.Float64).filter(known).to_numpy()
        ends = np.where(before >= 0, end[before], np.nan)
        time = np.where(np.isnan(think), np.fmax(submit, ends), ends + think)
        open_ = (before >= 0) & np.isnan(ends)
        time[open_] = np.where(np.isnan(think) & (told < submit), submit, told)[open_]
        time = np.where(before >= 0, time, submit)
        slot = float(options["slot"]) if options["clock"] == "slot" else None
        reckoned = np.isnan(time)
        unknown = np.flatnonzero(reckoned)
        while unknown.size:
            refused = boundary(time[before[unknown]], slot)
            wait = think[unknown]
            time[unknown] = np.where(np.isnan(wait), np.maximum(submit[unknown], refused), refused + wait)
            left = np.flatnonzero(np.isnan(time))
            if left.size == unknown.size:  # a damaged table
                time[left] = submit[left]
                break
            unknown = left
        return cls(time, linked, submit, reckoned)

    @property
    def place(self) -> Floats:
        """By which jobs have their places in the order of fifo, s."""
        return self.time if self.submitted is None else self.submitted


def _by_stays(outcome: Outcome, ids: pl.Series) -> Floats:
    """When jobs arrived by their first stays and the waits before these, s; NaN of jobs without any."""
    told, stays = np.full(ids.len(), np.nan), outcome.stays_written
    if stays is None:
        return told
    first = stays.filter(pl.col("stay") == 0)
    waits = pl.sum_horizontal("wait_behind", "wait_gpus", "wait_fragmented")
    place = places(first["job_id"].cast(pl.String), ids)
    known = place.is_not_null()
    came = first.select((pl.col("start_time") - waits).cast(pl.Float64)).to_series()
    told[place.drop_nulls().to_numpy()] = came.filter(known).to_numpy()
    return told
