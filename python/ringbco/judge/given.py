"""What the judge is handed: the resolved inputs of a run, and its book. Plain values; times in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

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


class Network(NamedTuple):
    """The constants of docs/cluster.md."""

    intra_bandwidth: float
    inter_bandwidth: float
    reduce_speed: float
    xi1: float
    xi2: float
    alpha: float


class GpuType(NamedTuple):
    """What is known of a GPU type."""

    name: str
    idle_watts: float | None
    busy_watts: float | None
    price_per_hour: float | None


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


class Outage(NamedTuple):
    """A row of outages.parquet. up: infinite where the server never comes back."""

    server: int
    down: float
    up: float
    cause: str | None


class Load(NamedTuple):
    """A row of services.parquet."""

    service: str
    time: float
    replicas: int
    gpus: int


class Speed(NamedTuple):
    """A row of speeds.parquet; its GPU type is a number."""

    model: str
    gpu_type: int
    gpus: int
    servers: int
    rate: float
    partner: str | None
    partner_rate: float | None


@dataclass
class Given:
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
    def slot(self) -> float | None:
        """Seconds; None for the continuous clock."""
        return float(self.options["slot"]) if self.options["clock"] == "slot" else None

    @cached_property
    def model(self) -> str:
        """rar, fixed or table."""
        return str(self.options["model"])

    @cached_property
    def sleep_after(self) -> float:
        """Seconds; infinite: never."""
        return float(self.options.get("sleep_after", math.inf))

    @cached_property
    def makes_room(self) -> bool:
        """Whether jobs may be evicted."""
        beside = self.services is not None or self.quotas is not None
        return beside or bool(self.options.get("evict"))

    @cached_property
    def saves(self) -> bool:
        """Whether checkpoints take time."""
        return bool(self.options.get("checkpoint_cost"))

    @cached_property
    def searched(self) -> bool:
        """Whether trials are judged at rungs."""
        return self.options.get("search") is not None

    @cached_property
    def limited(self) -> bool:
        """Whether jobs end at their time limits."""
        return bool(self.options.get("enforce_limits"))

    @cached_property
    def several(self) -> bool:
        """Whether stays are told: one may end before its job is done, or make checkpoints that take time."""
        early = self.preempts or self.outages is not None or self.makes_room or self.searched
        return early or self.saves or self.limited

    @cached_property
    def pauses(self) -> bool:
        """Whether a job may pause at its start."""
        wakes = self.sleep_after < math.inf and self.options.get("wake_time", 0.0) > 0
        return wakes or bool(self.options.get("start_cost"))

    @cached_property
    def elastic(self) -> bool:
        """Whether some job may hold other GPUs than it asks for."""
        return self.jobs.least is not None and self.jobs.least != self.jobs.most

    @cached_property
    def window(self) -> tuple[float, float] | None:
        """Of what the figures are, from when until before when; infinite where nothing says it.

        None for the whole run. A share is one of the span of all submissions.
        """
        since, until = (self.options.get(name) for name in ("measure_from", "measure_to"))
        if since is None and until is None:
            return None
        return (
            -math.inf if since is None else self._instant(since),
            math.inf if until is None else self._instant(until),
        )

    def _instant(self, value: float | str) -> float:
        if isinstance(value, str):  # "0.5s": a time that would be a share as a number
            return float(value[:-1])
        if value > 1:
            return float(value)
        first, last = min(self.jobs.submit), max(self.jobs.submit)
        return last if value == 1 else first + value * (last - first)

    def counts(self, job: int) -> bool:
        """Whether figures of jobs are of this one: whether it was submitted in the window."""
        return self.window is None or self.window[0] <= self.jobs.submit[job] < self.window[1]

    def cost(self, name: str) -> float:
        """Seconds that a job pauses: that of a preemption where nothing else is said."""
        said = self.options.get(name)
        return float(self.options.get("preempt_cost", 0.0) if said is None else said)


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
