"""What the uplinks of a network of tiers carried: docs/results-reference.md#linksparquet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from ringbco.result.schema import LINK_VC_SCHEMA, LINKS_SCHEMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster
    from ringbco.result.rows import Scope


@dataclass(frozen=True)
class OfTier:
    """The busiest uplink of a tier, and what all its uplinks cost.

    vc: None of a cluster without virtual clusters. Shares are of bandwidth.
    """

    name: str
    vc: str | None
    group: str
    mean_share: float
    largest_share: float
    gpu_hours_lost: float
    scope: ClassVar[Scope] = "tier"


def links_frame(cluster: Cluster, links: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
    """links.parquet. links: the engine's table of that name."""
    names = [tier.group_names(cluster.num_servers) for tier in cluster.tiers]
    first = np.cumsum([0, *map(len, names)])
    groups = pl.Series([name for own in names for name in own], dtype=pl.String)
    columns = {
        "tier": pl.Series([tier.name for tier in cluster.tiers], dtype=pl.String).gather(links["tier"]),
        "group": groups.gather(first[links["tier"]] + links["group"]),
        **{name: pl.Series(links[name]) for name in list(LINKS_SCHEMA)[2:]},
    }
    schema = LINKS_SCHEMA
    if cluster.server_vc is not None:
        columns = {"vc": pl.Series(cluster.vc_names, dtype=pl.String).gather(links["vc"]), **columns}
        schema = LINK_VC_SCHEMA | LINKS_SCHEMA
    return pl.DataFrame(columns, schema=schema)


def of_tiers(cluster: Cluster, busiest: Mapping[str, NDArray[Any]]) -> list[OfTier]:
    """What each tier carried, from below. busiest: the engine's table busiest_links."""
    columns = (busiest[name].tolist() for name in ("vc", "group", "mean_share", "largest_share"))
    lost = busiest["gpu_hours_lost"].tolist()
    return [
        OfTier(
            tier.name,
            None if cluster.server_vc is None else cluster.vc_names[vc],
            tier.group_names(cluster.num_servers)[group],
            mean,
            largest,
            hours,
        )
        for tier, vc, group, mean, largest, hours in zip(cluster.tiers, *columns, lost, strict=True)
    ]
