"""The links between servers as the engine reads them, and what gangs get of them at best (docs/tiers.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import NICS
from ringbco.errors import InputError


def engine_columns(cluster: Cluster) -> dict[str, Any]:
    """What the engine reads of tiers and nics; nothing where servers' links are all."""
    network, found = cluster.network, dict[str, Any]()
    if cluster.nics != NICS[0]:
        found["gpu_nics"] = True
    for number, tier in enumerate(cluster.tiers, start=1):
        if math.isnan(tier.bandwidth):
            raise InputError(
                "the bandwidth of a group's uplink",
                file=cluster.name or None,
                key=f"network.tiers[{number}].bandwidth",
                hint=f"{tier.name}: write the cluster to a file and fill it in",
            )
    if cluster.tiers:
        found["tiers"] = [
            (
                tier.group_of(cluster.num_servers),
                tier.bandwidth,
                network.xi1 if tier.xi1 is None else tier.xi1,
                network.alpha if tier.alpha is None else tier.alpha,
                tier.inside,
            )
            for tier in cluster.tiers
        ]
    return found


def at_best(
    cluster: Cluster, num_gpus: NDArray[Any], num_servers: NDArray[Any], vc: NDArray[Any] | None = None
) -> NDArray[np.float64] | None:
    """The bandwidth of each gang, bytes/s, where it spans: alone, no uplinks, as even as can be.

    num_gpus, num_servers: integers, one a gang. vc: the virtual cluster of each, as an index into
    `cluster.vc_names`; None for one cluster. None stands for inter_bandwidth of every gang (docs/tiers.md).
    """
    domains = [tier for tier in cluster.tiers if tier.inside is not None]
    if cluster.nics == NICS[0] and not domains:
        return None
    network = cluster.network
    best = np.full(num_gpus.size, network.inter_bandwidth)
    if cluster.nics != NICS[0]:
        each = num_gpus.astype(np.int64) // np.maximum(num_servers.astype(np.int64), 1)
        best = np.minimum(network.intra_bandwidth, network.inter_bandwidth * each)
    numbers = {name: number for number, name in enumerate(cluster.vc_names)}
    in_vc = np.array([numbers[name] for name in cluster.server_vc or ()] or [0] * cluster.num_servers)
    for tier in domains:
        group = tier.group_of(cluster.num_servers).astype(np.int64)
        room = np.zeros((len(numbers) or 1, int(group.max()) + 1), np.int64)
        np.add.at(room, (in_vc, group), cluster.server_gpus.astype(np.int64))
        largest = room.max(axis=1)
        holds = num_gpus <= (largest[0] if vc is None else largest[vc])
        inside = min(tier.inside or 0.0, network.intra_bandwidth)
        best = np.where(holds, np.maximum(best, inside), best)
    return best
