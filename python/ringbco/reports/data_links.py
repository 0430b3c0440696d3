"""What the report shows of the uplinks of a network of tiers: how busy each is over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.reports.data_time import spans
from ringbco.reports.series import DAY, Part, first_few
from ringbco.result.folder import cluster_of
from ringbco.result.outcome import Outcome

Floats = NDArray[np.float64]
MOST: Final = 16
"""Uplinks that have a row."""
_INTERVALS: Final = 96


def busiest(results: Mapping[str, Outcome]) -> Iterator[Part]:
    """The load of the busiest uplinks: a heat map each of the results that have tiers."""
    drawn, others = first_few({label: found for label, found in results.items() if found.links is not None})
    if not drawn:
        return
    maps = {
        label: loads(found, *span)
        for (label, found), span in zip(drawn.items(), spans(drawn).values(), strict=True)
    }
    top = max((float(grid.max()) for grid, _ in maps.values() if grid.size), default=0.0)
    for label, (grid, names) in maps.items():
        if not grid.any():
            yield Part.none("No job sent anything over an uplink.", of=label)
            continue
        first, last = spans(drawn)[label]
        days = (last - first) / DAY
        step = days / _INTERVALS
        row, at = np.nonzero(grid > 0)
        data = pl.DataFrame(
            {
                "row": row,
                "link": [names[own] for own in row.tolist()],
                "day": at * step,
                "end_day": (at + 1) * step,
                "load": grid[row, at],
            }
        )
        yield Part(data, of=label, also={"names": names, "days": days, "top": top}, note=others)


def loads(outcome: Outcome, first: float, last: float) -> tuple[Floats, list[str]]:
    """The mean load of the busiest uplinks in even intervals, one row each, and what they are called."""
    links = outcome.links
    assert links is not None
    cluster = cluster_of(outcome.run)
    bandwidth = {tier.name: tier.bandwidth for tier in cluster.tiers}
    keys = [name for name in ("vc", "tier", "group") if name in links.columns]
    edges, found = np.linspace(first, last, _INTERVALS + 1), []
    for key, rows in links.group_by(keys, maintain_order=True):
        means = _means(rows["time"].to_numpy(), rows["bytes_per_second"].to_numpy(), edges)
        tier = str(key[-2])
        vc = f"{key[0]}: " if "vc" in keys else ""
        found.append((means / bandwidth[tier], f"{vc}{tier} {key[-1]}"))
    ranked = sorted(found, key=lambda own: -float(own[0].sum()))[:MOST]
    return np.array([own for own, _ in ranked]).reshape(len(ranked), _INTERVALS), [name for _, name in ranked]


def _means(time: Floats, value: Floats, edges: Floats) -> Floats:
    """The mean of a value, which is 0 at first and holds from each time on, between edges."""
    at = np.append(time, max(float(edges[-1]), float(time[-1])))
    sums = np.concatenate([[0.0], np.cumsum(value * np.diff(at))])
    whole = np.interp(edges, at, sums, left=0.0)
    means: Floats = np.diff(whole) / np.maximum(np.diff(edges), 1e-300)
    return means
