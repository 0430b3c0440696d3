"""What the judge is handed: the resolved inputs of a run, and its book. Plain values; times in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ringbco.checker.settings import GpuType, Load, Network, Outage, Settings, Speed

WHOLE = 1000
"""Thousandths of a GPU."""


@dataclass
class Jobs:
    """The job table, a value a row. A column is None where it is the usual one for all jobs.

    compute: seconds of an iteration on each GPU. least, most: GPUs of an elastic job. noise: in samples.
    share: thousandths, 0 for whole GPUs. vc: number of the virtual cluster. owner: whose quota counts. fair:
    whose use of GPUs counts.

    types: the numbers of the GPU types that the job may use, in the order in which it lists them. speedup: of
    each type of the cluster beside that recorded on. recorded: its number, under model `table`.
    """

    id: Sequence[str]
    submit: Sequence[float]
    gpus: Sequence[int]
    duration: Sequence[float]
    iterations: Sequence[float]
    gradient: Sequence[float]
    compute: Sequence[float]
    ideal: Sequence[float]
    least: Sequence[int] | None = None
    most: Sequence[int] | None = None
    noise: Sequence[float] | None = None
    batch: Sequence[float] | None = None
    share: Sequence[int] | None = None
    priority: Sequence[int] | None = None
    checkpoint: Sequence[float] | None = None
    limit: Sequence[float] | None = None
    vc: Sequence[int] | None = None
    owner: Sequence[str | None] | None = None
    types: Sequence[Sequence[int]] | None = None
    speedup: Sequence[Sequence[float]] | None = None
    model: Sequence[str] | None = None
    recorded: Sequence[int] | None = None
    group: Sequence[str | None] | None = None
    user: Sequence[str | None] | None = None
    deadline: Sequence[float | None] | None = None
    vc_said: Sequence[str | None] | None = None
    preemptible: Sequence[bool] | None = None
    tied: Sequence[int] | None = None
    column: Sequence[float] | None = None
    fair: Sequence[str | None] | None = None

    def units(self, job: int) -> int:
        """Thousandths of a GPU that one of the job's GPUs counts for."""
        return (self.share[job] if self.share is not None else 0) or WHOLE

    def weight(self, job: int) -> float:
        """The same in GPUs."""
        return self.units(job) / WHOLE

    def in_vc(self, job: int) -> int:
        """The number of its virtual cluster; 0 where there are none."""
        return self.vc[job] if self.vc is not None else 0


@dataclass
class Cluster:
    """Servers in index order. vc, gpu_type: numbers; None where servers name none."""

    gpus: Sequence[int]
    network: Network
    vc: Sequence[int] | None = None
    vcs: Sequence[str] = ()
    gpu_type: Sequence[int] | None = None
    types: Sequence[GpuType] = ()

    def in_vc(self, server: int) -> int:
        """The number of its virtual cluster; 0 where there are none."""
        return self.vc[server] if self.vc is not None else 0

    def of_type(self, server: int) -> int:
        """The number of its GPU type; 0 where there are none."""
        return self.gpu_type[server] if self.gpu_type is not None else 0


@dataclass
class Given(Settings):
    """A run before it starts.

    options: as run.toml has them. preempts, resizes: whether the policy may do so. decides: whether it is a
    log or in Python, so that nobody else knows whom it refuses. fields: of a policy in Python.
    windows: of maintenance, as they were given, which are among the outages. outages, windows,
    services, quotas: None for a run that knows none. quotas: GPUs and whether to borrow, by owner. shares: of
    owners, where they are not 1.
    """

    jobs: Jobs
    cluster: Cluster
    options: Mapping[str, Any]
    preempts: bool = False
    resizes: bool = False
    decides: bool = False
    outages: Sequence[Outage] | None = None
    windows: Sequence[Outage] | None = None
    services: Sequence[Load] | None = None
    quotas: Mapping[str, tuple[int, bool]] | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    speeds: Sequence[Speed] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def elastic(self) -> bool:
        """Whether some job may hold other GPUs than it asks for."""
        return self.jobs.least is not None and self.jobs.least != self.jobs.most

    def submitted(self) -> tuple[float, float]:
        """When the first job was submitted, and the last, s."""
        return min(self.jobs.submit), max(self.jobs.submit)

    def counts(self, job: int) -> bool:
        """Whether figures of jobs are of this one: whether it was submitted in the window."""
        return self.window is None or self.window[0] <= self.jobs.submit[job] < self.window[1]


class Replica(NamedTuple):
    """A replica of a service, as replicas.parquet has it."""

    service: str
    server: int
    gpus: int
    start: float
    end: float
    ended: str


class Rung(NamedTuple):
    """When a trial reached a rung, and when it went on: None where it ended there."""

    job: int
    rung: int
    time: float
    went_on: float | None


@dataclass(slots=True, eq=False)
class Stay:
    """A stretch of time in which a job held the same GPUs.

    The book: job (a row), start, end, held (GPUs by server, in order), places (server and GPU of each, where
    shares are used), ended, and by: the row of a job, the name of a service, or a server.

    The judge adds: number, among the job's; began; since, from when on the job waited for it; rest, seconds
    at a rung before it; woke; pause; begin, when the pause would be over, however short the stay; parts:
    (from, to, p, the other jobs on its GPU), None where nobody is in its way; most, the largest p; marks, the
    rungs reached in it; saves, from and to of its checkpoints that took time, and saving, their seconds;
    work, lost and lost_time; off, by how much what was done at a rung or at the end is not what had to be;
    few and apart, seconds of waiting.
    """

    job: int
    start: float
    end: float
    held: Sequence[tuple[int, int]]
    ended: str = "done"
    by_job: int | None = None
    by_service: str | None = None
    by_server: int | None = None
    places: Sequence[tuple[int, int]] = ()
    gpus: int = 0
    number: int = 0
    began: str = "first"
    since: float = 0.0
    rest: float = 0.0
    woke: bool = False
    pause: float = 0.0
    begin: float = -math.inf
    most: int = 0
    parts: list[tuple[float, float, int, Any]] | None = None
    marks: Sequence[Rung] = ()
    saves: Sequence[tuple[float, float]] = ()
    saving: float = 0.0
    work: float = 0.0
    lost: float = 0.0
    lost_time: float = 0.0
    off: float = 0.0
    few: float = 0.0
    apart: float = 0.0

    def paused(self) -> float:
        """Seconds without progress."""
        return self.pause + self.saving

    def __post_init__(self) -> None:
        self.gpus = self.held[0][1] if len(self.held) == 1 else sum(gpus for _, gpus in self.held)


@dataclass
class Book:
    """What happened. stays: in order of job and time. rungs: in order of job and rung."""

    stays: list[Stay]
    replicas: Sequence[Replica] = ()
    rungs: Sequence[Rung] = ()


@dataclass
class Judgement:
    """What follows from a book: tables by name, as columns; the figures; and how far each job's work is off.

    off: by row of the job table, in its units: what was done until its end, less what there was to do.
    """

    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    off: dict[int, float] = field(default_factory=dict)
