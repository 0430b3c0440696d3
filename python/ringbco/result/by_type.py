"""What a run used of each GPU type: GPU-hours, utilisation, energy and cost (docs/heterogeneous.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster

SECONDS_AN_HOUR = 3600.0


def by_type(
    cluster: Cluster,
    *,
    server: NDArray[np.uint32],
    num_gpus: NDArray[np.uint32] | NDArray[np.float64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    span: float,
    down: NDArray[np.float64] | None = None,
    asleep: NDArray[np.float64] | None = None,
    served: NDArray[np.float64] | None = None,
) -> list[dict[str, Any]]:
    """A row a GPU type of the cluster, in its order; empty where servers name none.

    server, num_gpus, start, end: the rows of allocations.parquet, shares as parts of a GPU; times in s. span:
    the makespan, s. down, asleep: GPU-seconds of each type's servers that were down, and asleep, in it;
    asleep is None where servers never sleep. served: GPU-seconds that replicas of services held in it.

    Keys: gpu_type, servers, gpus, gpu_hours (held by jobs), utilisation (of the type's GPU-hours over the
    makespan), and asleep_gpu_hours where servers may sleep. Where the type has watts: energy_kwh, held GPUs
    at busy_watts and the others at idle_watts over the makespan, but for the time asleep. GPUs of a server
    that is down do not count and draw nothing; those of replicas are busy. Where the type has a price: cost,
    of the GPU-hours held.
    """
    if cluster.server_types is None:
        return []
    count = len(cluster.types)
    held = np.bincount(cluster.server_types[server], num_gpus * (end - start), count) / SECONDS_AN_HOUR
    gpus = np.bincount(cluster.server_types, cluster.server_gpus, count)
    lacking = np.zeros(count) if down is None else down
    rows = []
    for number, fact in enumerate(cluster.type_facts):
        hours, capacity = (
            float(held[number]),
            (float(gpus[number]) * span - lacking[number]) / SECONDS_AN_HOUR,
        )
        row: dict[str, Any] = {
            "gpu_type": fact.name,
            "servers": int(np.count_nonzero(cluster.server_types == number)),
            "gpus": int(gpus[number]),
            "gpu_hours": hours,
            "utilisation": hours / capacity if capacity > 0 else 0.0,
        }
        idle = capacity - hours
        if asleep is not None:
            row["asleep_gpu_hours"] = float(asleep[number]) / SECONDS_AN_HOUR
            idle -= row["asleep_gpu_hours"]
        if fact.busy_watts is not None and fact.idle_watts is not None:
            replicas = 0.0 if served is None else float(served[number]) / SECONDS_AN_HOUR
            watt_hours = fact.busy_watts * (hours + replicas) + fact.idle_watts * (idle - replicas)
            row["energy_kwh"] = watt_hours / 1000.0
        if fact.price_per_hour is not None:
            row["cost"] = fact.price_per_hour * hours
        rows.append(row)
    return rows
