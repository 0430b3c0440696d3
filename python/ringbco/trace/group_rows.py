"""Rows that name a group of servers, by a column called as a tier of the network, in place of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ringbco.cluster.keys import did_you_mean
from ringbco.trace.schema import Fault

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster
    from ringbco.cluster.tiers import Tier

Groups = Mapping[str, Mapping[str, list[range]]]
_MARK = "\0"
"""Begins what stands for a group in a column of servers; no name of a server has it."""


def groups_of(cluster: Cluster) -> Groups:
    """The servers of each group, by tier, then by the group's name and by its index from 0.

    A text that is a group's name means that group, even where it looks like an index.
    """
    found: dict[str, dict[str, list[range]]] = {}
    for tier in cluster.tiers:
        members = _members(tier, cluster.num_servers)
        by_index = {str(index): servers for index, servers in enumerate(members)}
        found[tier.name] = by_index | dict(zip(tier.group_names(cluster.num_servers), members, strict=True))
    return found


def _members(tier: Tier, num_servers: int) -> list[list[range]]:
    """The servers of each group, as ranges of indexes."""
    if tier.servers is not None:
        starts = range(0, num_servers, tier.servers)
        return [[range(first, min(first + tier.servers, num_servers))] for first in starts]
    group = tier.group_of(num_servers)
    ends = np.cumsum(np.bincount(group))
    return [_ranges(part) for part in np.split(np.argsort(group, kind="stable"), ends[:-1])]


def _ranges(servers: np.ndarray) -> list[range]:
    starts = np.flatnonzero(np.diff(servers, prepend=-2) != 1)
    return [range(int(part[0]), int(part[-1]) + 1) for part in np.split(servers, starts[1:])]


def with_groups(
    frame: pl.DataFrame, server: str, groups: Groups, others: Mapping[str, object]
) -> tuple[pl.DataFrame, dict[object, list[range]], list[Fault]]:
    """The frame with a text for the group of each row that names one in its column of servers.

    Also: what these texts stand for, and the faults of rows: an unknown group, several, or a server beside
    it. server: the column of servers, which may be missing. others: columns that are no tiers, whatever they
    are called.
    """
    tiers = [name for name in groups if name in frame.columns and name not in others]
    if not tiers:
        return frame, {}, []
    named = {name: _texts(frame[name]) for name in tiers}
    if server not in frame.columns:
        frame = frame.with_columns(pl.lit(None, pl.String).alias(server))
    cells = frame[server].cast(pl.String)
    cells = cells.set(cells == "", None)
    taken, others_said = cells.is_not_null(), "a server"
    faults, found = [], dict[object, list[range]]()
    for name in tiers:
        given = named[name].is_not_null()
        known = named[name].is_in([*groups[name]])
        wrong = [(given & taken, f"{others_said} or a {name}, one of them", "leave one of the two empty")]
        unknown = given & ~known
        near = did_you_mean(str(named[name][unknown.arg_max() or 0]), groups[name])
        what = f"the name or the index, from 0, of a {name} of the cluster"
        wrong.append((unknown, what, near or f"the cluster has {_said(groups[name])}"))
        for rows, expected, hint in wrong:
            if rows.any():
                faults.append(Fault(name, rows, frame[name], expected, expected, hint))
        taken |= given
        others_said += f", a {name}"
        marks = _MARK + name + _MARK + named[name]
        found |= {f"{_MARK}{name}{_MARK}{group}": servers for group, servers in groups[name].items()}
        cells = marks.zip_with(given & known, cells)
    return frame.with_columns(cells.alias(server)), found, faults


def _texts(cells: pl.Series) -> pl.Series:
    """A column of names or indexes as text; null where a cell is empty."""
    if cells.dtype.is_float():
        whole = (cells == cells.floor()) & cells.is_finite() & (cells.abs() < 2.0**53)
        numbers = cells.set(~whole.fill_null(value=False), None).cast(pl.Int64).cast(pl.String)
        cells = numbers.zip_with(whole.fill_null(value=False), cells.fill_nan(None).cast(pl.String))
    texts = cells.cast(pl.String).str.strip_chars()
    return texts.set(texts == "", None)


def _said(groups: Mapping[str, object]) -> str:
    names = [*groups]
    return ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
