"""jobs.parquet, stays.parquet and allocations.parquet, as docs/results.md defines their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import fsum
from typing import Any

from judge.given import WHOLE, Given, Stay
from judge.speed import Speeds
from judge.stays import may_pause

Table = dict[str, list[Any]]
OVER = ("done", "limit")
"""How the last stay of a job of jobs.parquet ends."""
BOUND = 10.0
"""Seconds for which a bounded slowdown takes shorter jobs."""


class Record:
    """A job that was done, or reached its limit, and what its stays add up to.

    servers, most: the most servers at a time, and the largest p.
    bounded: the slowdown, of jobs that would take less than BOUND as if they took so much.
    wait, rests: seconds off its GPUs, at rungs. held, paused, lost: on them, without progress, of lost work.
    held_gpu, paused_gpu, lost_gpu: the same times GPUs. rho: finish-time fairness. stopped: how often it was
    preempted, moved or resized.
    """

    __slots__ = (
        *("stays", "job", "submit", "ideal", "start", "finish", "jct", "to_start", "rho", "bounded"),
        *("servers", "most", "held", "paused", "lost", "rests", "wait", "stopped"),
        *("held_gpu", "paused_gpu", "lost_gpu"),
    )

    def __init__(self, given: Given, stays: list[Stay]) -> None:
        first, jobs = stays[0], given.jobs
        self.stays, self.job = stays, (job := first.job)
        weight = jobs.weight(job) if jobs.share is not None else 1.0
        self.submit, self.ideal = submit, ideal = jobs.submit[job], jobs.ideal[job]
        self.start, self.finish = first.start, (finish := stays[-1].end)
        self.jct, self.to_start = (jct := finish - submit), first.start - submit
        self.rho = jct / ideal
        self.bounded = max(1.0, jct / (ideal if ideal > BOUND else BOUND))
        self.servers, self.most = len(first.held), first.most
        if len(stays) == 1:
            self.held, self.paused, self.lost, self.rests = finish - first.start, first.paused(), 0.0, 0.0
            self.wait, self.stopped, gpus = self.to_start, 0, first.gpus * weight
            self.held_gpu, self.paused_gpu, self.lost_gpu = self.held * gpus, self.paused * gpus, 0.0
            return
        self.servers = max(len(stay.held) for stay in stays)
        self.most = max(stay.most for stay in stays)
        self.held = fsum(stay.end - stay.start for stay in stays)
        self.paused, self.lost = fsum(stay.paused() for stay in stays), fsum(stay.lost_time for stay in stays)
        self.stopped = self.ended("preempted", "moved", "resized")
        self.rests = fsum(stay.rest for stay in stays)
        self.wait = (
            first.start
            - self.submit
            + fsum(after.start - before.end - after.rest for before, after in pairwise(stays))
        )
        self.held_gpu = fsum((stay.end - stay.start) * stay.gpus for stay in stays) * weight
        self.paused_gpu = fsum(stay.paused() * stay.gpus for stay in stays) * weight
        self.lost_gpu = fsum(stay.lost_time * stay.gpus for stay in stays) * weight

    @property
    def cut(self) -> bool:
        """Whether it reached its limit before it was done."""
        return self.stays[-1].ended == "limit"

    def ended(self, *words: str) -> int:
        """How many of its stays ended so, before the last."""
        if len(self.stays) == 1:
            return 0
        return sum(stay.ended in words for stay in self.stays)


def records(given: Given, stays: Sequence[Stay]) -> list[Record]:
    """Those of the jobs that were done or reached their limits, in the order of the job table."""
    return [Record(given, own) for own in by_job(stays) if own[-1].ended in OVER]


def by_job(stays: Sequence[Stay]) -> Iterator[list[Stay]]:
    """The stays of each job."""
    own: list[Stay] = []
    for stay in stays:
        if own and own[0].job != stay.job:
            yield own
            own = []
        own.append(stay)
    if own:
        yield own


def jobs_table(given: Given, speeds: Speeds, done: list[Record]) -> Table:
    """jobs.parquet."""
    jobs = given.jobs
    table: Table = {
        "job_id": [jobs.id[r.job] for r in done],
        "submit_time": [r.submit for r in done],
        "start_time": [r.start for r in done],
        "finish_time": [r.finish for r in done],
        "wait_time": [r.to_start for r in done],
        "run_time": [r.finish - r.start for r in done],
        "jct": [r.jct for r in done],
        "waited": [r.wait for r in done],
        "slowdown": [r.rho for r in done],
        "ideal_run_time": [r.ideal for r in done],
        "num_gpus": [jobs.gpus[r.job] for r in done],
        "num_servers": [r.servers for r in done],
        "max_contention": [r.most for r in done],
        "preemptions": [r.stopped for r in done],
    }
    if given.several or may_pause(given):
        table |= {
            "held_time": [r.held for r in done],
            "lost_time": [r.paused for r in done],
            "moves": [r.ended("moved") for r in done],
            "resizes": [r.ended("resized") for r in done],
        }
        table |= _elastic(given, done)
    if given.makes_room:
        table["evictions"] = [r.ended("evicted") for r in done]
    if given.limited:
        cut = Longer(given, speeds).cut
        table |= {"reached_limit": [r.cut for r in done], "run_cut": [cut(r) for r in done]}
    if given.outages is not None:
        table |= {"failures": [r.ended("failed") for r in done], "lost_work": [r.lost for r in done]}
    if given.searched:
        table |= {"pauses": [r.ended("rung") for r in done], "paused_time": [r.rests for r in done]}
    if jobs.share is not None:
        table["gpu_share"] = [jobs.share[r.job] / WHOLE if jobs.share[r.job] else None for r in done]
    told = {"priority": jobs.priority, "user": jobs.user, "vc": jobs.vc_said, "deadline": jobs.deadline}
    told |= {"group": jobs.group} if given.searched else {}
    table |= {name: _of(done, column) for name, column in told.items() if column is not None}
    waits = [waits_of(r.stays[0], r.submit) if len(r.stays) == 1 else _waits(r) for r in done]
    table |= {name: [wait[i] for wait in waits] for i, name in enumerate(WAITS)}
    why = Longer(given, speeds)
    runs = [why.of(r) for r in done]
    return table | {name: [run[i] for run in runs] for i, name in enumerate(RUNS) if name in why.told}


def _elastic(given: Given, done: list[Record]) -> Table:
    """Columns of job tables with jobs that may hold other GPUs than they ask for."""
    if not given.elastic:
        return {}
    jobs = given.jobs
    table: Table = {
        "held_gpu_time": [r.held_gpu for r in done],
        "lost_gpu_time": [r.paused_gpu for r in done],
    }
    return table | {
        name: _of(done, column) for name, column in (("min_gpus", jobs.least), ("max_gpus", jobs.most))
    }


def _of(done: list[Record], column: Sequence[Any] | None) -> list[Any]:
    """The values of the jobs that were done."""
    return [] if column is None else [column[r.job] for r in done]


WAITS = ("wait_behind", "wait_gpus", "wait_fragmented")
RUNS = ("run_spread", "run_contention", "run_resized", "run_on_type")


def waits_of(stay: Stay, submit: float) -> tuple[float, ...]:
    """The three waits before a stay: since submission, or since the stay before."""
    since = submit if stay.number == 0 else stay.since
    few, apart = stay.few, stay.apart
    return stay.start - since - few - apart, few, apart


def _waits(record: Record) -> tuple[float, ...]:
    each = [waits_of(stay, record.submit) for stay in record.stays]
    return tuple(fsum(part) for part in zip(*each, strict=True))


class Longer:
    """Why jobs ran longer than their ideal run time: the columns `told`, in the order of RUNS."""

    def __init__(self, given: Given, speeds: Speeds) -> None:
        self.given, self.speeds, self.model = given, speeds, given.model
        self.types, self.elastic, self.meets = given.jobs.speedup is not None, given.elastic, speeds.meets
        self.told = {"run_spread", "run_contention"}
        self.told |= {"run_resized"} if given.elastic and (given.several or may_pause(given)) else set()
        self.told |= {"run_on_type"} if self.types else set()

    def of(self, record: Record) -> tuple[float, float, float, float]:
        """How much longer on more servers, for contention, on other GPUs and on another type."""
        job, speeds = record.job, self.speeds
        resized = fsum(map(self._resized, record.stays)) if self.elastic else 0.0
        on_type = fsum(map(self._on_type, record.stays)) if self.types else 0.0
        longer = (
            record.held - record.paused - record.lost - record.ideal - resized - on_type - self.cut(record)
        )
        if self.meets and self.given.jobs.share is not None and self.given.jobs.share[job]:
            return 0.0, longer, resized, on_type
        if self.model != "rar" or not record.most or speeds.net.xi1 * record.most <= 1.0:
            return longer, 0.0, resized, on_type
        spread = fsum(map(self._spread, record.stays))
        return spread, longer - spread, resized, on_type

    def cut(self, record: Record) -> float:
        """Less than 0: what the work that the limit left undone would have taken at best."""
        if not record.cut:
            return 0.0
        whole = (
            self.given.jobs.duration[record.job] if self.model == "fixed" else self.speeds.work(record.job)
        )
        done = fsum(part for stay in record.stays for part in (stay.work, -stay.lost))
        return -record.ideal * (1.0 - done / whole)

    def _spread(self, stay: Stay) -> float:
        job, servers, fewest = stay.job, len(stay.held), self.speeds.fewest(stay.job, stay.gpus)
        if servers == fewest:
            return 0.0
        slower = self.speeds.tau(job, stay.gpus, servers) - self.speeds.tau(job, stay.gpus, fewest)
        return (stay.work - stay.lost) * slower

    def _resized(self, stay: Stay) -> float:
        """On other GPUs than it asks for, on the same type, both on the fewest servers."""
        job, speeds, asked = stay.job, self.speeds, self.given.jobs.gpus[stay.job]
        if stay.gpus == asked:
            return 0.0
        speedup = speeds.speedup(stay)
        if self.model == "fixed":
            slower = 1.0 / (speeds.relative(job, stay.gpus) * speedup) - 1.0 / speedup
        else:
            slower = self._alone(stay, stay.gpus) - self._alone(stay, asked)
        return (stay.work - stay.lost) * slower

    def _alone(self, stay: Stay, gpus: int) -> float:
        """Seconds an iteration on so many GPUs of a stay's type, on the fewest servers."""
        job, speeds = stay.job, self.speeds
        if self.model == "table":
            return 1.0 / speeds.measured(job, speeds.type_of(stay), gpus, speeds.fewest(job, gpus))
        return speeds.tau(job, gpus, speeds.fewest(job, gpus), 0, speeds.speedup(stay))

    def _on_type(self, stay: Stay) -> float:
        """On the GPUs that it asks for, of the type held and of that recorded on."""
        job, speeds, jobs = stay.job, self.speeds, self.given.jobs
        if self.model == "table":
            assert jobs.recorded is not None
            recorded = speeds.measured(
                job, jobs.recorded[job], jobs.gpus[job], speeds.fewest(job, jobs.gpus[job])
            )
            slower = self._alone(stay, jobs.gpus[job]) - 1.0 / recorded
        else:
            once = 1.0 if self.model == "fixed" else jobs.compute[job]
            slower = once / speeds.speedup(stay) - once
        return (stay.work - stay.lost) * slower


def stays_table(given: Given, stays: list[Stay]) -> Table:
    """stays.parquet; where every job has one stay, no more of it than is asked for."""
    jobs, cluster = given.jobs, given.cluster
    table: Table = {
        "job_id": [jobs.id[stay.job] for stay in stays],
        "stay": [stay.number for stay in stays],
        "start_time": [stay.start for stay in stays],
        "end_time": [stay.end for stay in stays],
        "num_gpus": [stay.gpus for stay in stays],
        "num_servers": [len(stay.held) for stay in stays],
    }
    if not given.several:
        return table
    waits = [waits_of(stay, jobs.submit[stay.job]) for stay in stays]
    table |= {
        "pause": [stay.pause for stay in stays],
        "work": [stay.work for stay in stays],
        "lost": [stay.lost for stay in stays],
        "lost_time": [stay.lost_time for stay in stays],
        "began": [stay.began for stay in stays],
        "ended": [stay.ended for stay in stays],
        "by_job": [None if stay.by_job is None else jobs.id[stay.by_job] for stay in stays],
        "by_service": [stay.by_service for stay in stays],
        "by_server": [stay.by_server for stay in stays],
        "paused_at_rung": [stay.rest for stay in stays],
    }
    table |= {name: [wait[i] for wait in waits] for i, name in enumerate(WAITS)}
    if given.saves:
        table["saving"] = [stay.saving for stay in stays]
    if cluster.gpu_type is not None:
        table["gpu_type"] = [cluster.types[cluster.of_type(stay.held[0][0])].name for stay in stays]
    return table


def allocations_table(given: Given, stays: list[Stay]) -> Table:
    """allocations.parquet: a row a stay and server, or a stay and GPU where jobs have shares."""
    share, ids = given.jobs.share, given.jobs.id
    shared = share is not None
    rows = [(stay, *row) for stay in stays for row in (stay.places if shared else stay.held)]
    table: Table = {
        "job_id": [ids[stay.job] for stay, _, _ in rows],
        "server": [server for _, server, _ in rows],
        "num_gpus": [1 if shared else gpus for _, _, gpus in rows],
        "start_time": [stay.start for stay, _, _ in rows],
        "end_time": [stay.end for stay, _, _ in rows],
        "stay": [stay.number for stay, _, _ in rows],
    }
    if share is not None:
        table["gpu"] = [gpu for _, _, gpu in rows]
        table["share"] = [share[stay.job] / WHOLE if share[stay.job] else None for stay, _, _ in rows]
    return table
