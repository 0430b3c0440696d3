"""What services got, and what they left to jobs (docs/services.md#figures)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from ringbco.result.answered import Replicas
from ringbco.result.energy import Held
from ringbco.result.schema import REPLICAS_SCHEMA
from ringbco.result.stays import REPLICA_ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ringbco._core import RunResult
    from ringbco.result.answered import Answered
    from ringbco.result.reliability import DownTime
    from ringbco.result.rows import Rows, Scope
    from ringbco.trace.services import Services


@dataclass(frozen=True)
class OfService:
    """What a service wanted and got, replica-seconds. waits: of its replicas, before each start, s.

    held: by replicas, those that drain too. more: its figures of requests, by key.
    """

    name: str
    gpus: int
    wanted: float
    served: float
    waits: NDArray[np.float64]
    held: float
    more: Mapping[str, Any]
    scope: ClassVar[Scope] = "service"

    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds that its replicas held."""
        return self.gpus * self.held


def services_of(rows: Rows | OfService) -> Sequence[OfService]:
    """The services of a run, or the one."""
    if isinstance(rows, OfService):
        return (rows,)
    return rows.run.services or ()


def attainment(rows: Rows | OfService) -> float:
    """The share of what was wanted; all of nothing is 1."""
    own = services_of(rows)
    wanted = sum(one.wanted for one in own)
    return sum(one.served for one in own) / wanted if wanted > 0 else 1.0


@dataclass(frozen=True)
class Serving:
    """What became of the services of a run; times in seconds.

    names, gpus: of each service, and of one of its replicas. service, number, server, wanted, start,
    serves_from, drains_from, end, ended: of each replica: its service by number, which of it in order of
    starts, since when it was wanted, when it took requests (NaN: never), and why it ended. load_service,
    load_time, load_replicas: what services wanted, in order of time. lent: GPU-seconds lent to training.
    largest: GPUs that services would hold with their largest numbers. busy: how long steps or batches ran on
    each replica, s. answered: their requests; None without any.
    """

    names: Sequence[str]
    gpus: NDArray[np.uint32]
    service: NDArray[np.uint32]
    number: NDArray[np.uint32]
    server: NDArray[np.uint32]
    wanted: NDArray[np.float64]
    start: NDArray[np.float64]
    serves_from: NDArray[np.float64]
    drains_from: NDArray[np.float64]
    end: NDArray[np.float64]
    ended: NDArray[np.uint8]
    load_service: NDArray[np.uint32]
    load_time: NDArray[np.float64]
    load_replicas: NDArray[np.uint32]
    lent: float
    largest: int
    busy: NDArray[np.float64]
    answered: Answered | None = None

    @classmethod
    def of(cls, services: Services, result: RunResult, answered: Answered | None = None) -> Serving:
        """That of a run that was given these."""
        own, loads = result.tables["replicas"], result.tables["loads"]
        return cls(
            services.names,
            services.gpus_per_replica,
            own["service"],
            own["number"],
            own["server"],
            own["wanted"],
            own["start"],
            own["serves_from"],
            own["drains_from"],
            own["end"],
            own["ended"],
            loads["service"],
            loads["time"],
            loads["replicas"],
            result.lent,
            services.peak_gpus,
            own["busy"],
            answered,
        )

    def frame(self, last: float) -> pl.DataFrame:
        """replicas.parquet: one row per replica, by (service, start, server); none outlasts `last`, s.

        With requests the run may be longer than its jobs, and `replica` counts placements.
        """
        last = self.over(last)
        kept = np.flatnonzero(self.start < last)
        keys: list[NDArray[Any]] = [self.server, self.start, self.service]
        if self.answered is not None:
            keys.insert(0, self.number)
        order = kept[np.lexsort(tuple(key[kept] for key in keys))]
        service = self.service[order]
        first = np.searchsorted(service, service)  # of each service
        # What would have ended after the run ended with it.
        ended = np.where(self.end[order] <= last, self.ended[order], REPLICA_ENDED.index("end of run"))
        drains_from = np.where(self.end[order] <= last, self.drains_from[order], np.nan)
        columns = {
            "service": pl.Series(self.names, dtype=pl.String).gather(service),
            "replica": np.arange(order.size) - first if self.answered is None else self.number[order],
            "server": self.server[order],
            "num_gpus": self.gpus[service],
            "start_time": self.start[order],
            "end_time": np.minimum(self.end[order], last),
            "serves_from": pl.Series(self.serves_from[order]).fill_nan(None),
            "drains_from": pl.Series(drains_from).fill_nan(None),
            "ended": pl.Series(REPLICA_ENDED, dtype=pl.String).gather(pl.Series(ended)),
        }
        return pl.DataFrame(columns, schema=REPLICAS_SCHEMA)

    def over(self, last: float) -> float:
        """When the run was over, s, of which the last job was at `last`."""
        return last if self.answered is None else self.answered.end

    def numbered(self, decisions: pl.DataFrame) -> pl.DataFrame:
        """decisions.parquet with the numbers that replicas have in replicas.parquet, not by their starts."""
        if self.answered is not None:
            return decisions
        order = np.lexsort((self.server, self.start, self.service))
        service = self.service[order]
        named = pl.DataFrame(
            {
                "service": pl.Series(self.names, dtype=pl.String).gather(service),
                "replica": self.number[order],
                "known": (np.arange(order.size) - np.searchsorted(service, service)).astype(np.uint32),
            }
        )
        joined = decisions.join(named, on=["service", "replica"], how="left", maintain_order="left")
        return joined.with_columns(replica="known").drop("known")

    def held(self, last: float) -> Held:
        """The GPUs of every replica that begins before `last`, s; none outlasts it."""
        kept = self.start < last
        gpus = self.gpus[self.service[kept]]
        return Held(self.server[kept], gpus, self.start[kept], np.minimum(self.end[kept], last))

    def services(self, first: float, last: float) -> list[OfService]:
        """What each service got from `first` to `last`, s; with requests, of the whole run."""
        if self.answered is not None:
            return [self._answering(number, self.answered) for number in range(len(self.names))]
        held = np.minimum(self.end, last) - np.maximum(self.start, first)
        held = np.maximum(held, 0.0)
        started = (self.start >= first) & (self.start < last)
        found = []
        for number, (name, gpus) in enumerate(zip(self.names, self.gpus.tolist(), strict=True)):
            own = self.service == number
            mine = started & own
            waits = self.start[mine] - self.wanted[mine]
            found.append(
                OfService(
                    *(name, gpus, self._wanted(number, first, last), float(held[own].sum())),
                    *(waits, float(held[own].sum()), {}),
                )
            )
        return found

    def replicas(self, number: int) -> Replicas:
        """Those of a service, by start."""
        own = self.service == number
        times = (self.start, self.serves_from, self.drains_from, self.end, self.busy)
        return Replicas(self.server[own], *(each[own] for each in times))

    def latency(self, answered: Answered) -> pl.DataFrame:
        """latency.parquet."""
        changes: dict[str, NDArray[Any]] = {
            "service": self.load_service,
            "time": self.load_time,
            "replicas": self.load_replicas,
        }
        return answered.latency([*map(self.replicas, range(len(self.names)))], changes)

    def loads(self) -> pl.DataFrame:
        """services.parquet of a run with requests: every change of what a service wanted."""
        columns = {
            "service": pl.Series(self.names, dtype=pl.String).gather(self.load_service),
            "time": self.load_time,
            "replicas": self.load_replicas,
            "gpus_per_replica": self.gpus[self.load_service],
        }
        return pl.DataFrame(columns)

    def _answering(self, number: int, answered: Answered) -> OfService:
        """A replica that drains is none of those that its service wants."""
        own, gpus = self.replicas(number), int(self.gpus[number])
        served = np.fmin(own.drains_from, own.end) - own.start
        mine = self.service == number
        return OfService(
            *(self.names[number], gpus, self._wanted(number, 0.0, answered.end), float(served.sum())),
            *(self.start[mine] - self.wanted[mine], float((own.end - own.start).sum())),
            answered.figures(number, own),
        )

    def lent_within(
        self,
        stays: Mapping[str, NDArray[Any]],
        gpus: int,
        down: DownTime | None,
        *,
        first: float,
        last: float,
    ) -> float:
        """GPU-seconds lent to training from `first` to `last`, s.

        stays: of jobs, their gpus, start and end. gpus: of the cluster. down: when its servers are.
        """
        changes = [(stays["start"], stays["gpus"]), (stays["end"], -stays["gpus"])]
        if down is not None:
            changes += [(down.down, -down.gpus), (down.up, down.gpus)]
        own = 2 * stays["gpus"].size
        time, change = (np.concatenate(each).astype(np.float64) for each in zip(*changes, strict=True))
        order = np.argsort(time, kind="stable")
        of_jobs = order < own
        held = np.cumsum(np.where(of_jobs, change[order], 0.0))
        up = gpus + np.cumsum(np.where(of_jobs, 0.0, change[order]))
        lent = np.maximum(held - np.maximum(up - self.largest, 0.0), 0.0)
        since, until = np.maximum(time[order], first), np.minimum(np.append(time[order][1:], np.inf), last)
        return float((lent * np.maximum(until - since, 0.0)).sum())

    def _wanted(self, number: int, first: float, last: float) -> float:
        """Replica-seconds that a service wanted."""
        mine = self.load_service == number
        time, replicas = self.load_time[mine], self.load_replicas[mine]
        until = np.append(time[1:], np.inf)
        length = np.minimum(until, last) - np.maximum(time, first)
        return float((replicas * np.maximum(length, 0.0)).sum())
