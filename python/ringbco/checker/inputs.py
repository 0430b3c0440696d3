"""What the checker reads: the resolved inputs of a run, and its stays, as columns. Times in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.checker.settings import Book, GpuType, Load, Network, Outage, Settings, Speed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Column = NDArray[Any] | pl.Series
Table = dict[str, Column]

MILLI_GPU: Final = 1000
"""Thousandths of a GPU."""
ENDED: Final = ("done", "limit", "rung", "failed", "preempted", "moved", "resized", "evicted", "dropped")
"""How a stay ends, by number."""
DONE, LIMIT, RUNG, FAILED, PREEMPTED, MOVED, RESIZED, EVICTED, DROPPED = range(len(ENDED))
NONE: Final = -1
"""In a column of rows or servers: nothing is named."""


class Batches(NamedTuple):
    """Replicas that take whole batches. seconds: (size, s), by size."""

    seconds: Sequence[tuple[int, float]]
    max_wait: float


class Steps(NamedTuple):
    """Replicas that work in steps; times in s. max_step_tokens: infinite without a limit."""

    step: float
    prefill: float
    decode: float
    context: float
    max_running: int
    kv_tokens: int
    max_step_tokens: float


class Service(NamedTuple):
    """A table of the serving file. most: replicas that it may want. slo: s, by the measure."""

    name: str
    gpus: int
    startup: float
    drain: float
    most: int
    slo: Mapping[str, float]
    kind: Batches | Steps


@dataclass
class Requests:
    """The table of requests, a value per row. row: of the file. service: by number. Tokens: 0 where none."""

    row: Ints
    service: Ints
    arrival: Floats
    taken: Ints
    given: Ints
    cached: Ints


@dataclass
class Answers:
    """requests.parquet, in the order of the requests. first_token: NaN for a batch."""

    replica: Ints
    start: Floats
    first_token: Floats
    finish: Floats


@dataclass
class Answering:
    """Services that answer requests. quickness: of each server, beside the cluster's first GPU type.

    requests: None where they are not there. answers: None where the run wrote no rows, or other rows.
    """

    services: Sequence[Service]
    quickness: Floats
    requests: Requests | None = None
    answers: Answers | None = None


@dataclass
class Jobs:
    """The job table, an entry per row. A column is None where it says nothing.

    bound[row]: the tier that must hold the job, 1 for a server, 0 for none; GPUs of each segment, 0 without;
    its tier.

    pod: GPUs of each pod. compute: seconds of an iteration on each GPU. least, most: GPUs of an elastic job.
    noise: in samples. share: thousandths of a GPU, 0 for whole GPUs. vc: number of the virtual cluster.
    vc_said: as the table names it. plain: the columns that the engine reads as they are, by name, with its
    value for an empty cell; those that say nothing are not there.

    log_start, log_end: when the log says that it started, and ended, s.
    submit: when it arrived. after: as the table names it; before: its row, -1 for none; submitted:
    submit_time of the table; reckoned: which arrivals nothing in the result tells. All four are None without
    a column after.

    types[row, type]: whether the job may use that GPU type. speedup[row, type]: beside the type recorded on.
    recorded: its number, under model `table`.
    """

    id: pl.Series
    submit: Floats
    gpus: Ints
    pod: Ints
    duration: Floats
    iterations: Floats
    gradient: Floats
    compute: Floats
    ideal: Floats
    least: Ints
    most: Ints
    bound: Ints | None = None
    noise: Floats | None = None
    batch: Floats | None = None
    share: Ints | None = None
    vc: Ints | None = None
    types: Bools | None = None
    speedup: Floats | None = None
    model: pl.Series | None = None
    recorded: Ints | None = None
    group: pl.Series | None = None
    user: pl.Series | None = None
    deadline: pl.Series | None = None
    log_start: pl.Series | None = None
    log_end: pl.Series | None = None
    vc_said: pl.Series | None = None
    after: pl.Series | None = None
    before: Ints | None = None
    submitted: Floats | None = None
    reckoned: Bools | None = None
    plain: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.submit.size

    @cached_property
    def milli_gpus(self) -> Ints:
        """Thousandths that one of each job's GPUs counts for."""
        if self.share is None:
            return np.full(len(self), MILLI_GPU, np.int64)
        return np.where(self.share > 0, self.share, MILLI_GPU)

    @cached_property
    def weight(self) -> Floats:
        """The same in GPUs."""
        return np.asarray(self.milli_gpus / MILLI_GPU)

    @cached_property
    def in_vc(self) -> Ints:
        """The number of each job's virtual cluster; 0 where there are none."""
        return np.zeros(len(self), np.int64) if self.vc is None else self.vc


class Tier(NamedTuple):
    """Groups of servers. group: of each server, by number. bandwidth, xi1, alpha: of the uplink of one.

    inside: bytes/s of a gang in one group; None where its servers' links count. names: of its groups.
    """

    group: Ints
    bandwidth: float
    xi1: float
    alpha: float
    inside: float | None
    name: str = ""
    names: Sequence[str] = ()


@dataclass
class Cluster:
    """Servers in index order. vc, gpu_type: numbers; None where servers name none.

    tiers: from the servers up. gpu_nics: whether each GPU has a link of its own.
    """

    gpus: Ints
    network: Network
    vc: Ints | None = None
    vcs: Sequence[str] = ()
    gpu_type: Ints | None = None
    types: Sequence[GpuType] = ()
    tiers: Sequence[Tier] = ()
    gpu_nics: bool = False

    @cached_property
    def in_vc(self) -> Ints:
        """The number of each server's virtual cluster; 0 where there are none."""
        return np.zeros(self.gpus.size, np.int64) if self.vc is None else self.vc

    @cached_property
    def of_type(self) -> Ints:
        """The number of each server's GPU type; 0 where there are none."""
        return np.zeros(self.gpus.size, np.int64) if self.gpu_type is None else self.gpu_type


class LeastBusy(NamedTuple):
    """A placement that looks for gangs of more than `over` GPUs among the least busy servers only.

    Among the fewest that have `spread` times as many GPUs as the gang: where too few of those are idle, it
    waits.
    """

    over: int
    spread: float


@dataclass
class RunInputs(Settings):
    """A run before it starts.

    options: as run.toml has them. preempts, resizes: whether the policy may do so. protects:
    whether it protects stays for twice the preempt cost, unless told otherwise. decides: whether it is a
    log or in Python, so that only it knows which jobs it refuses. follows: whether it is a log. by_gpus:
    whether a plan takes jobs by their GPUs. least_busy: None for most placements. outages, services, quotas,
    answering: None for a run that knows none.
    """

    jobs: Jobs
    cluster: Cluster
    options: Mapping[str, Any]
    preempts: bool = False
    protects: bool = False
    resizes: bool = False
    decides: bool = False
    follows: bool = False
    by_gpus: bool = False
    least_busy: LeastBusy | None = None
    outages: Sequence[Outage] | None = None
    services: Sequence[Load] | None = None
    quotas: Sequence[Book] | None = None
    speeds: Sequence[Speed] = ()
    answering: Answering | None = None

    @cached_property
    def losing(self) -> tuple[int, ...]:
        """How stays end that lose work."""
        return (FAILED, *((EVICTED,) * self.evict_loses), *((PREEMPTED,) * self.preempt_loses))

    @cached_property
    def planned(self) -> bool:
        """Whether this is a plan: theta decides who may have which GPU, not only who is idle."""
        return bool(self.options.get("command") == "plan")

    @cached_property
    def search(self) -> tuple[int, int]:
        """eta and rungs of `asha:eta=E,rungs=R`; of a run without searches one that has no rungs."""
        if not self.searched:
            return 2, 0
        parts = self.options["search"].partition(":")[2].split(",")
        eta, rungs = (int(part.partition("=")[2]) for part in parts)
        return eta, rungs

    @cached_property
    def elastic(self) -> bool:
        """Whether some job may hold other GPUs than it asks for."""
        return bool((self.jobs.least != self.jobs.most).any())

    def submitted(self) -> tuple[float, float]:
        """When the first job was submitted, and the last, s."""
        told = self.jobs.submit if self.jobs.submitted is None else self.jobs.submitted
        return float(told.min()), float(told.max())

    @cached_property
    def counted(self) -> Bools:
        """Which jobs figures of jobs count: those submitted in the window."""
        return self.in_window(self.jobs.submit)

    def in_window(self, times: Floats) -> Bools:
        """Which times, s, lie in the window."""
        if self.window is None:
            return np.ones(times.size, np.bool_)
        return (self.window[0] <= times) & (times < self.window[1])


@dataclass
class Stays:
    """The stays of a run, in order of job and time. A stay is the time that a job holds the same GPUs.

    Read of a result: job, a row of the job table; start; end; ended, a number of ENDED; by_job, a row,
    and by_server, or NONE; by_service, None where no stay names one; first, of each stay its first row of
    (server, held), of which one more stands at the end: the GPUs held on each server. spot: the same of
    (on, gpu), each GPU and its server, where jobs share GPUs. falls: which lost work, None where nothing
    says it. seat: its number, NONE for a share; None where every job has its GPUs to itself. told: the work
    that it says was done, None where it says nothing.

    Written by the checker: busy_from, from when on its GPUs are busy with no other stay's jobs; turn, which
    of those that sat down at one instant is later; seated, whether any was on its GPUs with it; number, of
    the stay among its job's; began, a word; since, from when on the job
    waited for it; rest, seconds at a rung before it; mark, when it reached its last rung, NaN for none;
    woke; pause; begin, when the pause would be over, however short the stay; most, the largest p; crossing,
    the most contenders at an uplink, own, the bandwidth alone, slowed, whether it ever got less: None where
    there are no tiers; uplinks, seconds that they cost; saving, seconds of checkpoints; work, lost,
    lost_time; off, by how much what was done at a rung or at the end is not what had to be; few, apart,
    seconds of waiting with too few idle GPUs, or enough but apart.
    """

    job: Ints
    start: Floats
    end: Floats
    ended: Ints
    by_job: Ints
    by_server: Ints
    by_service: pl.Series | None
    first: Ints
    server: Ints
    held: Ints
    spot: Ints | None = None
    on: Ints | None = None
    gpu: Ints | None = None
    falls: Bools | None = None
    seat: Ints | None = None
    told: Floats | None = None
    busy_from: Floats = field(init=False)
    turn: Ints = field(init=False)
    seated: Bools = field(init=False)
    number: Ints = field(init=False)
    began: Ints = field(init=False)
    since: Floats = field(init=False)
    rest: Floats = field(init=False)
    mark: Floats = field(init=False)
    woke: Bools = field(init=False)
    pause: Floats = field(init=False)
    begin: Floats = field(init=False)
    most: Ints = field(init=False)
    saving: Floats = field(init=False)
    work: Floats = field(init=False)
    lost: Floats = field(init=False)
    lost_time: Floats = field(init=False)
    off: Floats = field(init=False)
    crossing: Floats | None = field(default=None, init=False)
    own: Floats | None = field(default=None, init=False)
    slowed: Bools | None = field(default=None, init=False)
    uplinks: Floats = field(init=False)
    few: Floats = field(init=False)
    apart: Floats = field(init=False)

    def __len__(self) -> int:
        return self.job.size

    @cached_property
    def servers(self) -> Ints:
        """How many each stay holds GPUs of."""
        return np.diff(self.first)

    @cached_property
    def gpus(self) -> Ints:
        """How many each stay holds."""
        if self.held.size == len(self):
            return self.held
        return np.add.reduceat(self.held, self.first[:-1]) if len(self) else self.held

    @cached_property
    def of(self) -> Ints:
        """The stay of each row of (server, held)."""
        return np.repeat(np.arange(len(self)), self.servers)

    @cached_property
    def at(self) -> Ints:
        """The first server of each stay."""
        return self.server[self.first[:-1]]

    @cached_property
    def head(self) -> Ints:
        """The first stay of each job that has any."""
        return np.flatnonzero(np.diff(self.job, prepend=-1))

    @cached_property
    def tail(self) -> Ints:
        """The last stay of each job that has any."""
        return np.append(self.head[1:], len(self)) - 1

    @property
    def paused(self) -> Floats:
        """Seconds without progress."""
        return self.pause + self.saving


@dataclass
class Replicas:
    """Replicas of services, as replicas.parquet has them. serves, drains: NaN for never."""

    service: pl.Series
    server: Ints
    gpus: Ints
    start: Floats
    end: Floats
    ended: pl.Series
    number: Ints
    serves: Floats
    drains: Floats

    def __len__(self) -> int:
        return self.server.size


@dataclass
class Rungs:
    """When trials reached rungs, by job and rung, and when they went on: NaN where they ended there."""

    job: Ints
    rung: Ints
    time: Floats
    went_on: Floats


@dataclass
class StayLog:
    """What happened."""

    stays: Stays
    replicas: Replicas
    rungs: Rungs


@dataclass
class Recomputed:
    """What follows from a stay log: tables by name, as columns; figures; how far each job's work is off.

    ended, off: rows of the job table, and for each, in its units, what was done until its end less what there
    was to do. untold: by table and column, the rows of which the result does not say enough.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    ended: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    off: Floats = field(default_factory=lambda: np.zeros(0))
    untold: dict[tuple[str, str], Bools] = field(default_factory=dict)
