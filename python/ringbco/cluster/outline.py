"""What a cluster is, in figures: servers, GPUs, and what its uplinks carry (docs/tiers.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import NICS, Tier


def outline(cluster: Cluster) -> dict[str, Any]:
    """The figures of a cluster, as `ringbco cluster --json` prints them.

    servers, gpus: counts. server_gpus: the fewest and most GPUs of a server. gpu_types,
    virtual_clusters: servers and GPUs of each, in order of first appearance; empty without such names. nics:
    "server" or "gpu". intra_bandwidth, inter_bandwidth: bytes/s, of the ring within a server and of one link
    between servers. tiers: from the servers up, see `_tier`.
    """
    gpus = cluster.server_gpus.astype(np.int64)
    return {
        "cluster": cluster.name,
        "servers": cluster.num_servers,
        "gpus": cluster.num_gpus,
        "server_gpus": _range(gpus),
        "gpu_types": _parts(cluster.server_types, cluster.types, gpus),
        "virtual_clusters": _parts(_vc_of(cluster), cluster.vc_names, gpus),
        "nics": cluster.nics,
        "intra_bandwidth": cluster.network.intra_bandwidth,
        "inter_bandwidth": cluster.network.inter_bandwidth,
        "tiers": [_tier(tier, cluster, gpus) for tier in cluster.tiers],
    }


def _tier(tier: Tier, cluster: Cluster, gpus: NDArray[np.int64]) -> dict[str, Any]:
    """A tier's figures.

    groups: how many, each with one uplink of `bandwidth` bytes/s. servers, gpus: the fewest and most of a
    group. sends: bytes/s, the least and most that the links of a group's servers (of its GPUs where nics is
    "gpu") carry together. oversubscription: sends / bandwidth. alpha, xi1: of its uplinks. inside: bytes/s of
    a gang in one group, None where the links of servers count.
    """
    group = tier.group_of(cluster.num_servers).astype(np.int64)
    servers, of_group = np.bincount(group), np.bincount(group, weights=gpus).astype(np.int64)
    sends = (servers if cluster.nics == NICS[0] else of_group) * cluster.network.inter_bandwidth
    network = cluster.network
    return {
        "name": tier.name,
        "groups": int(servers.size),
        "servers": _range(servers),
        "gpus": _range(of_group),
        "bandwidth": tier.bandwidth,
        "sends": _range(sends),
        "oversubscription": _range(sends / tier.bandwidth),
        "alpha": network.alpha if tier.alpha is None else tier.alpha,
        "xi1": network.xi1 if tier.xi1 is None else tier.xi1,
        "inside": tier.inside,
    }


def _range(values: NDArray[Any]) -> dict[str, Any]:
    return {"least": values.min().item(), "most": values.max().item()}


def _vc_of(cluster: Cluster) -> NDArray[np.int64] | None:
    if cluster.server_vc is None:
        return None
    number = {name: index for index, name in enumerate(cluster.vc_names)}
    return np.array([number[name] for name in cluster.server_vc])


def _parts(of: NDArray[Any] | None, names: Sequence[str], gpus: NDArray[np.int64]) -> dict[str, Any]:
    if of is None:
        return {}
    servers, counts = np.bincount(of), np.bincount(of, weights=gpus)
    return {name: {"servers": int(servers[at]), "gpus": int(counts[at])} for at, name in enumerate(names)}
