"""What a run was told, as plain values: rows of the tables beside its jobs, and its options."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import polars as pl


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


class Outage(NamedTuple):
    """A row of outages.parquet. up: infinite where the server never comes back. drains: whether it drains."""

    server: int
    down: float
    up: float
    cause: str | None
    drains: bool = False


class Load(NamedTuple):
    """A row of services.parquet."""

    service: str
    time: float
    replicas: int
    gpus: int


class Speed(NamedTuple):
    """A row of speeds.parquet; its GPU type is a number. gpus, servers: 0 where both rates are fractions."""

    model: str
    gpu_type: int
    gpus: int
    servers: int
    rate: float
    partner: str | None
    partner_rate: float | None


@dataclass(frozen=True)
class Book:
    """A file of quotas.

    owner: of each job, as text. quotas: GPUs and whether to borrow, by owner.
    """

    owner: pl.Series
    quotas: Mapping[str, tuple[int, bool]]


class Settings(ABC):
    """The options of a run, as run.toml has them, and what follows from them.

    preempts: whether the policy may do so. outages, services, quotas: None for a run that knows none.
    """

    options: Mapping[str, Any]
    preempts: bool
    outages: Sequence[Outage] | None
    services: Sequence[Load] | None
    quotas: Sequence[Book] | None

    @abstractmethod
    def submitted(self) -> tuple[float, float]:
        """When the first job was submitted, and the last, s."""

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
    def evict_loses(self) -> bool:
        """Whether an evicted job falls back to its last checkpoint."""
        return bool(self.options.get("evict_loses")) and self.makes_room

    @cached_property
    def preempt_loses(self) -> bool:
        """Whether a preempted job falls back to its last checkpoint."""
        return bool(self.options.get("preempt_loses")) and self.preempts

    @cached_property
    def loses(self) -> bool:
        """Whether any stay may."""
        return self.outages is not None or self.evict_loses or self.preempt_loses

    @cached_property
    def saves(self) -> bool:
        """Whether checkpoints take time."""
        return bool(self.options.get("checkpoint_cost"))

    @cached_property
    def searched(self) -> bool:
        """Whether trials are compared at rungs."""
        return self.options.get("search") is not None

    @cached_property
    def limited(self) -> bool:
        """Whether jobs end at their time limits."""
        return bool(self.options.get("enforce_limits"))

    @cached_property
    def several(self) -> bool:
        """Whether stays are recorded: one may end before its job is done, or checkpoints take time."""
        early = self.preempts or self.outages is not None or self.makes_room or self.searched
        return early or self.saves or self.limited

    @cached_property
    def window(self) -> tuple[float, float] | None:
        """From when until before when figures count; infinite where nothing says it. None for all the run.

        A share is one of the interval of all submissions.
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
        first, last = self.submitted()
        return last if value == 1 else first + value * (last - first)

    def cost(self, name: str) -> float:
        """Seconds that a job pauses: that of a preemption where nothing else is said."""
        said = self.options.get(name)
        return float(self.options.get("preempt_cost", 0.0) if said is None else said)
