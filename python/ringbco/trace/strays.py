"""Stays that do not lie in the tier of their job, or not in whole segments (docs/tiers.md#placement)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster


class Strays(NamedTuple):
    """An entry for each row of allocations.

    beyond: whether its server lies in another group of within_tier than the first of the stay. in_group: GPUs
    of the stay in its group of segment_tier; 0 without segments. uneven: whether these are no whole segments.
    """

    beyond: NDArray[np.bool_]
    in_group: NDArray[np.int64]
    uneven: NDArray[np.bool_]


def strays(
    cluster: Cluster, bound: NDArray[np.int64], stay: NDArray[Any], server: NDArray[Any], gpus: NDArray[Any]
) -> Strays:
    """Of rows of allocations: integers, one a row.

    bound: of each row's job, as `forms.bounds` has it. stay: a number of its stay.
    """
    within, segment, segment_tier = bound.T
    _, first, of = np.unique(stay, return_index=True, return_inverse=True)
    group = _groups(cluster, within, server)
    beyond = (within > 0) & (group != group[first][of])
    at, in_group = np.flatnonzero(segment > 0), np.zeros(stay.size, np.int64)
    if at.size:
        part = np.stack([of[at], _groups(cluster, segment_tier, server)[at]])
        number = np.unique(part, axis=1, return_inverse=True)[1].ravel()
        in_group[at] = np.bincount(number, gpus[at])[number]
    return Strays(beyond, in_group, in_group % np.maximum(segment, 1) != 0)


def _groups(cluster: Cluster, tier: NDArray[Any], server: NDArray[Any]) -> NDArray[np.int64]:
    """The group of each row's server in a tier: 1 for the server itself; -1 beyond the cluster."""
    count = cluster.num_servers
    known = np.minimum(server, count - 1)
    found = np.where(server < count, server, -1).astype(np.int64)
    for number, own in enumerate(cluster.tiers):
        found = np.where(tier == number + 2, own.group_of(count)[known].astype(np.int64), found)
    return found
