"""rungs.parquet and searches.parquet: the losses of trials, what became of searches (docs/searches.md).

Trial by trial: only of jobs that are trials.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.checker.arrays import by_group
from ringbco.checker.columns import Records
from ringbco.checker.inputs import DONE, Bools, Floats, Ints, RunInputs, StayLog, Table
from ringbco.checker.run_interval import HOUR
from ringbco.checker.splitmix import GOLDEN, MASK, mix

COLUMNS: Final = {
    "group": pl.String,
    "trials": pl.Int64,
    "finished": pl.Int64,
    "submit_time": pl.Float64,
    "finish_time": pl.Float64,
    "gpu_hours": pl.Float64,
    "best_job_id": pl.String,
    "best_loss": pl.Float64,
    "time_to_best": pl.Float64,
}


def loss(seed: int, job_id: str, part: float) -> float:
    """The loss of a trial that has done a part of its work."""
    state = 0xCBF29CE484222325
    for byte in (job_id + ":loss").encode():
        state = (state ^ byte) * 0x100000001B3 & MASK
    own = mix(state + (seed + 1) * GOLDEN)
    u, v, w = ((mix(own + step * GOLDEN) >> 11) / 2.0**53 for step in (1, 2, 3))
    return u + 1.0 / ((0.25 + 0.75 * v) + (1.0 + 99.0 * w) * part)


class Searches:
    """The searches of a run. placeable: which rows of the job table are trials: something could hold them."""

    def __init__(self, inputs: RunInputs, stay_log: StayLog, placeable: Bools) -> None:
        self.inputs, self.jobs, self.stay_log, self.placeable = inputs, inputs.jobs, stay_log, placeable
        self.eta, self.rungs = inputs.search
        self.seed = int(inputs.options.get("seed", 0))
        self.group = pl.Series([None] * len(inputs.jobs), dtype=pl.String)
        if inputs.jobs.group is not None:
            self.group = inputs.jobs.group

    def loss(self, job: int, rung: int) -> float:
        """At a rung; at the end of the work after the last one."""
        return loss(self.seed, self.jobs.id[job], 1.0 / float(self.eta ** (self.rungs - rung)))

    def rungs_table(self) -> Table:
        """rungs.parquet."""
        rungs = self.stay_log.rungs
        each = zip(rungs.job.tolist(), rungs.rung.tolist(), strict=True)
        return {
            "job_id": self.jobs.id.gather(rungs.job),
            "group": self.group.gather(rungs.job),
            "rung": rungs.rung,
            "time": rungs.time,
            "loss": np.array([self.loss(job, rung) for job, rung in each], np.float64),
            "went_on": pl.Series(rungs.went_on).fill_nan(None),
        }

    def table(self) -> Table:
        """searches.parquet."""
        stays, rungs = self.stay_log.stays, self.stay_log.rungs
        trials: dict[str, list[int]] = {}
        for job in np.flatnonzero(self.group.is_not_null().to_numpy()).tolist():
            own = trials.setdefault(self.group[job], [])
            if self.placeable[job]:
                own.append(job)
        seconds = (stays.end - stays.start) * stays.gpus * self.jobs.weight[stays.job]
        held = by_group(seconds, stays.head).tolist()
        at = {job: place for place, job in enumerate(stays.job[stays.head].tolist())}
        end, ended = stays.end[stays.tail].tolist(), stays.ended[stays.tail].tolist()
        last = {job: row for row, job in enumerate(rungs.job.tolist())}
        rows: list[tuple[Any, ...]] = []
        for name, own in trials.items():
            if not own:
                continue
            first = min(self.jobs.submit[own].tolist())
            there = [at[job] for job in own if job in at]
            done = {job: end[at[job]] for job in own if job in at and ended[at[job]] == DONE}
            reached = [(self.loss(job, self.rungs), job, finish) for job, finish in done.items()]
            for job in own:
                row = last.get(job)
                if job not in done and row is not None:
                    reached.append((self.loss(job, int(rungs.rung[row])), job, float(rungs.time[row])))
            best = min(reached, default=None)
            rows.append(
                (
                    name,
                    len(own),
                    len(done),
                    first,
                    max((end[place] for place in there), default=None),
                    math.fsum(held[place] for place in there) / HOUR,
                    None if best is None else self.jobs.id[best[1]],
                    None if best is None else best[0],
                    None if best is None else best[2] - first,
                )
            )
        return {
            column: pl.Series([row[i] for row in rows], dtype=dtype)
            for i, (column, dtype) in enumerate(COLUMNS.items())
        }


def merged(inputs: RunInputs, done: Records, rows: Ints) -> tuple[Ints, Floats]:
    """Job and rho of rows of `done`; a search, whose trials are one job, is its uppermost row."""
    group = inputs.jobs.group if inputs.searched else None
    job, rho = done.job[rows], done.rho[rows]
    if group is None:
        return job, rho
    names = group.gather(job).to_list()
    alone = [at for at, name in enumerate(names) if name is None]
    trials: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        if name is not None:
            trials.setdefault(name, []).append(at)
    found = [(int(job[at]), float(rho[at])) for at in alone]
    for places in trials.values():
        own = rows[places]
        first = done.submit[own].min()
        best = (done.submit[own] - first + done.ideal[own]).max()
        found.append((int(job[places[0]]), float((done.finish[own].max() - first) / best)))
    found.sort()
    return np.array([one for one, _ in found], np.int64), np.array([value for _, value in found])
