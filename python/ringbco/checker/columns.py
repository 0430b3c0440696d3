"""jobs.parquet, stays.parquet and allocations.parquet, as docs/results-reference.md defines their columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.checker.arrays import by_group, most_of, optional
from ringbco.checker.inputs import (
    DONE,
    ENDED,
    EVICTED,
    FAILED,
    LIMIT,
    MILLI_GPU,
    MOVED,
    NONE,
    PREEMPTED,
    RESIZED,
    RUNG,
    Floats,
    Ints,
    RunInputs,
    Stays,
    Table,
)
from ringbco.checker.speed import Speeds
from ringbco.checker.stays import BEGAN, may_pause

OVER: Final = (DONE, LIMIT)
"""How the last stay of a job of jobs.parquet ends."""
BOUND: Final = 10.0
"""Seconds for which a bounded slowdown takes shorter jobs."""
WAITS: Final = ("wait_behind", "wait_gpus", "wait_fragmented")


class Records:
    """The jobs that were done, or reached their limits, in the table's order: what their stays add up to.

    group: of each, its place among all jobs that have stays. first, last: its stays. cut: whether it reached
    its limit before it was done. servers, most: the most servers at a time, and the largest p. bounded: the
    slowdown, of jobs that would take less than BOUND as if they took so much. wait, rests: seconds off its
    GPUs, at rungs. held, paused, lost: on them, without progress, of lost work. held_gpu, paused_gpu,
    lost_gpu: the same times GPUs. rho: finish-time fairness. stopped: how often it was preempted, moved or
    resized.
    """

    def __init__(self, inputs: RunInputs, stays: Stays) -> None:
        jobs, self.stays = inputs.jobs, stays
        self.group = np.flatnonzero(np.isin(stays.ended[stays.tail], OVER))
        self.first, self.last = stays.head[self.group], stays.tail[self.group]
        self.job = stays.job[self.first]
        self.submit, self.ideal = jobs.submit[self.job], jobs.ideal[self.job]
        self.start, self.finish = stays.start[self.first], stays.end[self.last]
        self.jct, self.to_start = self.finish - self.submit, self.start - self.submit
        with np.errstate(divide="ignore", invalid="ignore"):
            self.rho = self.jct / self.ideal
        self.bounded = np.maximum(1.0, self.jct / np.maximum(self.ideal, BOUND))
        self.cut = stays.ended[self.last] == LIMIT
        self.servers, self.most = self.largest(stays.servers), self.largest(stays.most)
        lasted, paused, gpus = stays.end - stays.start, stays.paused, stays.gpus
        weight = jobs.weight[self.job] if jobs.share is not None else 1.0
        self.held, self.paused, self.lost = self.sum(lasted), self.sum(paused), self.sum(stays.lost_time)
        self.rests, self.stopped = self.sum(stays.rest), self.ended(PREEMPTED, MOVED, RESIZED)
        self.held_gpu, self.paused_gpu = self.sum(lasted * gpus) * weight, self.sum(paused * gpus) * weight
        self.lost_gpu = self.sum(stays.lost_time * gpus) * weight
        between = np.zeros(len(stays))
        between[1:] = stays.start[1:] - stays.end[:-1] - stays.rest[1:]
        between[stays.head] = 0.0
        self.wait = self.to_start + self.sum(between)

    def __len__(self) -> int:
        return self.job.size

    def sum(self, values: Floats) -> Floats:
        """Of a column of stays, the sum of each job's."""
        return by_group(values, self.stays.head)[self.group]

    def largest(self, values: NDArray[Any]) -> NDArray[Any]:
        """The largest of each job's."""
        return most_of(values, self.stays.head)[self.group]

    def ended(self, *ways: int) -> Ints:
        """How many stays of each job ended so, before the last."""
        return by_group(np.isin(self.stays.ended, ways).astype(np.int64), self.stays.head)[self.group]


def jobs_table(inputs: RunInputs, speeds: Speeds, done: Records) -> Table:
    """jobs.parquet."""
    jobs, own = inputs.jobs, done.job
    table: Table = {
        "job_id": jobs.id.gather(own),
        "submit_time": done.submit,
        "start_time": done.start,
        "finish_time": done.finish,
        "wait_time": done.to_start,
        "run_time": done.finish - done.start,
        "jct": done.jct,
        "waited": done.wait,
        "slowdown": done.rho,
        "ideal_run_time": done.ideal,
        "num_gpus": jobs.gpus[own],
        "num_servers": done.servers,
        "max_contention": done.most,
        "preemptions": done.stopped,
    }
    if inputs.several or may_pause(inputs):
        table |= {
            "held_time": done.held,
            "lost_time": done.paused,
            "moves": done.ended(MOVED),
            "resizes": done.ended(RESIZED),
        }
        if inputs.elastic:
            table |= {
                "held_gpu_time": done.held_gpu,
                "lost_gpu_time": done.paused_gpu,
                "min_gpus": jobs.least[own],
                "max_gpus": jobs.most[own],
            }
    if inputs.makes_room:
        table["evictions"] = done.ended(EVICTED)
    why = Longer(inputs, speeds, done)
    if inputs.cluster.tiers and done.stays.crossing is not None:
        table["max_crossing"] = done.largest(done.stays.crossing)
        table["run_contention_uplinks"] = done.sum(done.stays.uplinks)
    if inputs.limited:
        table |= {"reached_limit": done.cut, "run_cut": why.cut}
    if inputs.outages is not None:
        table["failures"] = done.ended(FAILED)
    if inputs.loses:
        table["lost_work"] = done.lost
    if inputs.searched:
        table |= {"pauses": done.ended(RUNG), "paused_time": done.rests}
    if jobs.share is not None:
        table["gpu_share"] = optional(jobs.share[own] / MILLI_GPU, jobs.share[own] > 0)
    if "priority" in jobs.plain:
        table["priority"] = jobs.plain["priority"][own]
    said = {"user": jobs.user, "vc": jobs.vc_said, "deadline": jobs.deadline}
    said |= {"group": jobs.group} if inputs.searched else {}
    table |= {name: column.gather(own) for name, column in said.items() if column is not None}
    if jobs.after is not None and jobs.submitted is not None:
        table |= {"after": jobs.after.gather(own), "submitted": jobs.submitted[own]}
    waits = zip(WAITS, waits_of(inputs, done.stays), strict=True)
    return table | {name: done.sum(wait) for name, wait in waits} | why.columns()


def waits_of(inputs: RunInputs, stays: Stays) -> tuple[Floats, Floats, Floats]:
    """The three waits before each stay: since submission, or since the stay before."""
    since = stays.since.copy()
    since[stays.head] = inputs.jobs.submit[stays.job[stays.head]]
    return stays.start - since - stays.few - stays.apart, stays.few, stays.apart


class Longer:
    """Why jobs ran longer than their ideal run time."""

    def __init__(self, inputs: RunInputs, speeds: Speeds, done: Records) -> None:
        self.inputs, self.speeds, self.done, self.model = inputs, speeds, done, inputs.model
        self.kept = done.stays.work - done.stays.lost
        """Work of each stay that was not lost."""
        self.cut = self._cut()

    def columns(self) -> Table:
        """run_spread, run_contention and, where there may be any, run_resized and run_on_type."""
        inputs, done = self.inputs, self.done
        none = np.zeros(len(done))
        resized = done.sum(self._resized()) if inputs.elastic else none
        on_type = done.sum(self._on_type()) if inputs.jobs.speedup is not None else none
        longer = done.held - done.paused - done.lost - done.ideal - resized - on_type - self.cut
        spread, slowed = longer, done.largest(done.stays.seated.astype(np.int64)) > 0
        if self.model == "rar" and done.stays.slowed is not None:
            slowed |= done.largest(done.stays.slowed.astype(np.int64)) > 0
        elif self.model == "rar":
            slowed |= (done.most > 0) & (self.speeds.net.xi1 * done.most > 1.0)
        if slowed.any():
            spread = np.where(slowed, done.sum(self._spread()), longer)
        if self.speeds.meets and inputs.jobs.share is not None:
            spread = np.where(inputs.jobs.share[done.job] > 0, 0.0, spread)
        table: Table = {"run_spread": spread, "run_contention": longer - spread}
        if inputs.elastic and (inputs.several or may_pause(inputs)):
            table["run_resized"] = resized
        if inputs.jobs.speedup is not None:
            table["run_on_type"] = on_type
        return table

    def _cut(self) -> Floats:
        """Less than 0: what the work that the limit left undone would have taken at best."""
        done = self.done
        if not done.cut.any():
            return np.zeros(len(done))
        jobs = self.inputs.jobs
        whole = jobs.duration[done.job] if self.model == "fixed" else self.speeds.work[done.job]
        return np.where(done.cut, -done.ideal * (1.0 - done.sum(self.kept) / whole), 0.0)

    def _spread(self) -> Floats:
        stays, speeds = self.done.stays, self.speeds
        found = np.zeros(len(stays))
        if self.model == "fixed":
            return found
        fewest = speeds.fewest(stays.job, stays.gpus)
        rows = np.flatnonzero((stays.servers != fewest) | (stays.servers > 1))
        job, gpus = stays.job[rows], stays.gpus[rows]
        if self.model == "table":
            kind = self._kinds(rows)
            alone = 1.0 / speeds.measured(job, kind, gpus, stays.servers[rows])
            found[rows] = self.kept[rows] * (alone - self._alone(job, kind, gpus))
            return found
        own = None if stays.own is None else stays.own[rows]
        alone = speeds.tau(job, gpus, stays.servers[rows], bandwidth=own)
        slower = alone - speeds.tau(job, gpus, fewest[rows])
        found[rows] = self.kept[rows] * slower
        return found

    def _kinds(self, rows: Ints) -> Ints:
        """The GPU types that stays hold."""
        return self.inputs.cluster.of_type[self.done.stays.at[rows]]

    def _resized(self) -> Floats:
        """On other GPUs than it asks for, on the same type, both on the fewest servers."""
        stays, speeds, asked = self.done.stays, self.speeds, self.inputs.jobs.gpus
        found, rows = np.zeros(len(stays)), np.flatnonzero(stays.gpus != asked[stays.job])
        job, gpus, kind = stays.job[rows], stays.gpus[rows], self._kinds(rows)
        if self.model == "fixed":
            speedup = speeds.speedup(job, kind)
            slower = 1.0 / (speeds.relative(job, gpus) * speedup) - 1.0 / speedup
        else:
            slower = self._alone(job, kind, gpus) - self._alone(job, kind, asked[job])
        found[rows] = self.kept[rows] * slower
        return found

    def _alone(self, job: Ints, kind: Ints, gpus: Ints) -> Floats:
        """Seconds an iteration on so many GPUs of a type, on the fewest servers."""
        speeds, fewest = self.speeds, self.speeds.fewest(job, gpus)
        if self.model == "table":
            return 1.0 / speeds.measured(job, kind, gpus, fewest)
        return speeds.tau(job, gpus, fewest, 0, speeds.speedup(job, kind))

    def _on_type(self) -> Floats:
        """On the GPUs that it asks for, of the type held and of that recorded on."""
        stays, speeds, jobs = self.done.stays, self.speeds, self.inputs.jobs
        job, kind = stays.job, self._kinds(np.arange(len(stays)))
        asked = jobs.gpus[job]
        if self.model == "table":
            assert jobs.recorded is not None
            recorded = speeds.measured(job, jobs.recorded[job], asked, speeds.fewest(job, asked))
            slower = self._alone(job, kind, asked) - 1.0 / recorded
        else:
            once = np.ones(job.size) if self.model == "fixed" else jobs.compute[job]
            slower = once / speeds.speedup(job, kind) - once
        return self.kept * slower


def stays_table(inputs: RunInputs, stays: Stays) -> Table:
    """stays.parquet; where every job has one stay, no more of it than is asked for."""
    jobs, cluster = inputs.jobs, inputs.cluster
    table: Table = {
        "job_id": jobs.id.gather(stays.job),
        "stay": stays.number,
        "start_time": stays.start,
        "end_time": stays.end,
        "num_gpus": stays.gpus,
        "num_servers": stays.servers,
    }
    if not inputs.several:
        return table
    service = pl.Series([None], dtype=pl.String).new_from_index(0, len(stays))
    table |= {
        "pause": stays.pause,
        "work": stays.work,
        "lost": stays.lost,
        "lost_time": stays.lost_time,
        "began": _words(BEGAN, stays.began),
        "ended": _words(ENDED, stays.ended),
        "by_job": _named(jobs.id, stays.by_job),
        "by_service": service if stays.by_service is None else stays.by_service,
        "by_server": optional(stays.by_server, stays.by_server != NONE),
        "paused_at_rung": stays.rest,
    }
    table |= dict(zip(WAITS, waits_of(inputs, stays), strict=True))
    if inputs.saves:
        table["saving"] = stays.saving
    if cluster.gpu_type is not None:
        table["gpu_type"] = _words([fact.name for fact in cluster.types], cluster.of_type[stays.at])
    return table


def _words(words: list[str] | tuple[str, ...], numbers: Ints) -> pl.Series:
    return pl.Series(words, dtype=pl.String).gather(numbers)


def _named(ids: pl.Series, rows: Ints) -> pl.Series:
    """The ids of rows; null where none is named."""
    return ids.gather(optional(rows, rows != NONE)) if rows.size else ids.clear()


def allocations_table(inputs: RunInputs, stays: Stays) -> Table:
    """allocations.parquet: one row per stay and server, or a stay and GPU where jobs have shares."""
    share, of, server, held = inputs.jobs.share, stays.of, stays.server, stays.held
    if share is not None:
        assert stays.spot is not None
        assert stays.on is not None
        of, server = np.repeat(np.arange(len(stays)), np.diff(stays.spot)), stays.on
        held = np.ones(of.size, np.int64)
    table: Table = {
        "job_id": inputs.jobs.id.gather(stays.job[of]),
        "server": server,
        "num_gpus": held,
        "start_time": stays.start[of],
        "end_time": stays.end[of],
        "stay": stays.number[of],
    }
    if share is not None and stays.gpu is not None:
        own = share[stays.job[of]]
        table |= {"gpu": stays.gpu, "share": optional(own / MILLI_GPU, own > 0)}
    if stays.seat is not None:
        table["seat"] = optional(stays.seat[of], stays.seat[of] != NONE)
    return table
