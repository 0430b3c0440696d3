"""What a run used of each GPU type: GPU-hours, energy and cost (docs/heterogeneous.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ringbco.cluster.gpu_types import GpuType
    from ringbco.cluster.spec import Cluster
    from ringbco.result.rows import Scope

_HOUR: Final = 3600.0


@dataclass(frozen=True)
class OfType:
    """What servers of one GPU type had and gave over the makespan; GPU-hours.

    held: by jobs. up: of servers that were up. asleep: None where servers never sleep. served: held by
    replicas.
    """

    fact: GpuType
    servers: int
    gpus: int
    held: float
    up: float
    asleep: float | None
    served: float
    scope: ClassVar[Scope] = "type"

    @property
    def energy_kwh(self) -> float | None:
        """Held GPUs at busy_watts and the others at idle_watts, but for sleep; None without watts."""
        if self.fact.busy_watts is None or self.fact.idle_watts is None:
            return None
        idle = self.up - self.held
        if self.asleep is not None:
            idle -= self.asleep
        busy, rest = self.held + self.served, idle - self.served
        return (self.fact.busy_watts * busy + self.fact.idle_watts * rest) / 1000.0

    @property
    def cost(self) -> float | None:
        """Of the GPU-hours that jobs held; None without a price."""
        return None if self.fact.price_per_hour is None else self.fact.price_per_hour * self.held


def of_types(
    cluster: Cluster,
    *,
    held: NDArray[np.float64],
    span: float,
    down: NDArray[np.float64] | None,
    asleep: NDArray[np.float64] | None,
    served: NDArray[np.float64] | None,
) -> Iterator[OfType]:
    """Every GPU type of a cluster whose servers name one, in its order.

    GPU-seconds of each type: held by jobs; of servers that were down, and asleep, in the makespan `span`, s;
    held by replicas in it.
    """
    assert cluster.server_types is not None, "servers name GPU types"

    def hours(seconds: NDArray[Any] | None, number: int) -> float:
        return 0.0 if seconds is None else float(seconds[number]) / _HOUR

    for number, fact in enumerate(cluster.type_facts):
        own = cluster.server_types == number
        gpus = int(cluster.server_gpus[own].sum())
        up = (gpus * span - (0.0 if down is None else float(down[number]))) / _HOUR
        told = None if asleep is None else hours(asleep, number)
        yield OfType(
            fact, int(np.count_nonzero(own)), gpus, hours(held, number), up, told, hours(served, number)
        )
