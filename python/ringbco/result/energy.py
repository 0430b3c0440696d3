"""What a run draws: servers that sleep, the whole cluster's energy and cost, its power (docs/energy.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster
    from ringbco.result.reliability import DownTime


@dataclass(frozen=True)
class Sleep:
    """When servers were asleep: one value per sleep, in order of (server, since).

    since, until: s. Infinite where it still was at the end.
    """

    server: NDArray[np.int64]
    since: NDArray[np.float64]
    until: NDArray[np.float64]

    @classmethod
    def of(cls, server: NDArray[np.uint32], since: NDArray[np.float64], until: NDArray[np.float64]) -> Sleep:
        """The engine's sleeps."""
        return cls(server.astype(np.int64), since, until)

    def held(self, cluster: Cluster) -> Held:
        """All GPUs of the servers, while they were asleep."""
        return Held(self.server, cluster.server_gpus[self.server], self.since, self.until)


@dataclass(frozen=True)
class Held:
    """GPUs of servers, each for a time: a value per interval. start, end: s."""

    server: NDArray[np.integer[Any]]
    num_gpus: NDArray[np.integer[Any]] | NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def gpu_seconds(self, cluster: Cluster, first: float, last: float) -> NDArray[np.float64]:
        """GPU-seconds of each GPU type from `first` to `last`, s."""
        assert cluster.server_types is not None, "servers name GPU types"
        length = np.maximum(np.minimum(self.end, last) - np.maximum(self.start, first), 0.0)
        types = len(cluster.types)
        return np.bincount(cluster.server_types[self.server], self.num_gpus * length, types).astype(
            np.float64
        )

    def of_type(self, cluster: Cluster, number: int) -> Held:
        """Those of one GPU type."""
        assert cluster.server_types is not None, "servers name GPU types"
        own = cluster.server_types[self.server] == number
        return Held(self.server[own], self.num_gpus[own], self.start[own], self.end[own])

    def at(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """GPUs at each of some ascending times, s: an interval has its start and not its end."""
        last = times.size + 1
        begun = np.bincount(np.searchsorted(times, self.start), self.num_gpus, last)
        ended = np.bincount(np.searchsorted(times, self.end), self.num_gpus, last)
        at: NDArray[np.float64] = np.cumsum(begun - ended)[: times.size]
        return at


def has_watts(cluster: Cluster) -> bool:
    """Whether every server names a GPU type, and every type has watts."""
    facts = cluster.type_facts if cluster.server_types is not None else ()
    return bool(facts) and all(fact.busy_watts is not None and fact.idle_watts is not None for fact in facts)


def watts(
    cluster: Cluster,
    times: NDArray[np.float64],
    *,
    held: Sequence[Held],
    down: DownTime | None = None,
    asleep: Sleep | None = None,
) -> NDArray[np.float64]:
    """What the GPUs draw at each of some ascending times, W: as the state is from then on.

    GPUs held, by jobs or by replicas, draw their type's busy_watts, the others its idle_watts; those of
    servers that are down or asleep draw nothing.
    """
    assert cluster.server_types is not None, "servers name GPU types"
    drawn = np.zeros(times.size)
    lacking = []
    if down is not None:
        lacking.append(Held(down.server, down.gpus, down.down, down.up))
    if asleep is not None:
        lacking.append(asleep.held(cluster))
    for number, fact in enumerate(cluster.type_facts):
        assert fact.busy_watts is not None, "has_watts"
        assert fact.idle_watts is not None, "has_watts"
        idle = np.full(times.size, float(cluster.server_gpus[cluster.server_types == number].sum()))
        for those in lacking:
            idle -= those.of_type(cluster, number).at(times)
        for those in held:
            busy = those.of_type(cluster, number).at(times)
            drawn += fact.busy_watts * busy
            idle -= busy
        drawn += fact.idle_watts * idle
    return drawn
