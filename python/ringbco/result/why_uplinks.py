"""Which uplink held a job most while it ran, and whose jobs were on it (docs/tiers.md#results)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.result.why_links import MOST
from ringbco.result.why_things import listed
from ringbco.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.why_record import Allocations, Record


def busiest(record: Record, rows: Allocations, place: int, row: int) -> dict[str, Any]:
    """The uplink with the greatest mean load of those that a stay crosses; {} where it crosses none.

    place: of the stay among all. With the jobs that cross it at the same time, and for how many seconds each.
    """
    cluster, links = record.cluster, record.outcome.links
    if links is None:
        return {}
    start, end = float(record.start[place]), float(record.end[place])
    mine = rows.server[(rows.who == row) & (rows.stay == record.number[place])]
    best: tuple[float, Any, NDArray[np.int64], str] | None = None
    for tier in cluster.tiers if end > start else ():
        group, names = (
            tier.group_of(cluster.num_servers).astype(np.int64),
            tier.group_names(cluster.num_servers),
        )
        own = np.unique(group[mine])
        for number in own.tolist() if own.size > 1 else ():
            told = links.filter(tier=tier.name, group=names[number])
            if "vc" in links.columns and cluster.server_vc is not None:
                told = told.filter(vc=cluster.server_vc[int(mine[0])])
            load = _mean(told, start, end) / tier.bandwidth
            if best is None or load > best[0]:
                best = load, tier.name, np.flatnonzero(group == number), names[number]
    if best is None:
        return {}
    load, tier_name, servers, name = best
    others = rows.those(
        np.flatnonzero((rows.who >= 0) & (rows.who != row) & (rows.start < end) & (rows.end > start))
    )
    inside = np.isin(others.server, servers)
    stays = list(zip(others.who.tolist(), others.stay.tolist(), strict=True))
    out = {stay for stay, own in zip(stays, inside.tolist(), strict=True) if not own}
    met: dict[tuple[int, int], float] = {}
    for at in np.flatnonzero(inside).tolist():
        if stays[at] in out:
            met[stays[at]] = min(end, float(others.end[at])) - max(start, float(others.start[at]))
    together: dict[int, float] = {}
    for (who, _), seconds in met.items():
        together[who] = together.get(who, 0.0) + seconds
    ranked = sorted(together, key=lambda who: (-together[who], who))
    return {
        "tier": tier_name,
        "group": name,
        "load": load,
        "jobs": len(together),
        "beside": [{"job": record.name(who), "seconds": together[who]} for who in ranked[:MOST]],
    }


def _mean(rows: pl.DataFrame, start: float, end: float) -> float:
    """The mean bytes/s of an uplink between two instants, by its samples."""
    time, value = rows["time"].to_numpy(), rows["bytes_per_second"].to_numpy()
    first = int(np.searchsorted(time, start, side="right"))
    values = np.concatenate([value[first - 1 : first] if first else [0.0], value[first:]])
    edges = np.clip(np.concatenate([[start], time[first:], [end]]), start, end)
    return float(np.dot(values, np.diff(edges))) / (end - start)


def _crossed(told: Mapping[str, Any], when: str, clock: Callable[[float], str]) -> str:
    """The fact in words."""
    names = [f"{each['job']} (for {duration(each['seconds'])})" for each in told["beside"]]
    beside = f", with {listed(names, told['jobs'] - len(names))}" if names else ", alone"
    uplink = f"{told['tier']} {told['group']}, loaded {percent(told['load'], 0)} on average"
    return f"The busiest uplink that it crossed was that of {uplink}{beside}."


def cost(told: Mapping[str, Any]) -> str:
    """What its uplinks cost a job; nothing where they cost none."""
    return f" Its uplinks cost {duration(told['uplinks'])}." if "uplinks" in told else ""


SENTENCES: Final = {"crossed": _crossed}
"""The facts about uplinks in words."""
