"""links.parquet and the summary's links: what uplinks carry, and what they cost (docs/tiers.md#results)."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Final

import numpy as np
import polars as pl

from ringbco.checker.contention import Parts
from ringbco.checker.fabric import Gang
from ringbco.checker.inputs import Floats, RunInputs, Stays, Table
from ringbco.checker.run_interval import HOUR, RunInterval
from ringbco.checker.saves import Save
from ringbco.checker.speed import Speeds
from ringbco.checker.timeline import instants

EVEN: Final = 1e-9
"""Mean shares that differ by no more than this part of the greatest are equal."""
Link = tuple[int, int, int]
"""(virtual cluster, tier, group)."""
Piece = tuple[float, float, float, float, int]
"""Of a stay: since, until, bytes/s, GPUs that its uplinks idle, the tier of the least of them."""


class Links:
    """What each uplink carried. felt: the stays that span, by row, and what links leave them, when.

    written: the checkpoints that take time, of each stay that writes any.
    """

    def __init__(
        self,
        inputs: RunInputs,
        speeds: Speeds,
        stays: Stays,
        felt: tuple[dict[int, Gang], Parts],
        written: dict[int, list[Save]],
    ) -> None:
        gangs, parts = felt
        self.inputs, self.stays, self.gangs = inputs, stays, gangs
        self.begin, self.written = stays.start + stays.pause, written
        self.pieces: dict[int, list[Piece]] = {row: [] for row in gangs}
        if inputs.model != "rar":
            return
        rows = np.flatnonzero(parts.bandwidth > 0)
        gpu_type = inputs.cluster.of_type[stays.at[parts.stay[rows]]]
        job, gpus = stays.job[parts.stay[rows]], stays.gpus[parts.stay[rows]]
        servers, faster = stays.servers[parts.stay[rows]], speeds.speedup(job, gpu_type)
        with_, without = (
            speeds.iteration(job, gpus, servers, 0, faster, given=given[rows])
            for given in (parts.bandwidth, parts.without)
        )
        sent = 2.0 * (inputs.jobs.gradient[job] * (gpus - 1) / gpus)
        rate = sent / with_
        idle = gpus * ((with_ - without) / with_)
        columns = (parts.stay[rows], parts.since[rows], parts.until[rows], rate, idle, parts.tier[rows])
        for stay, since, until, *own in zip(*(column.tolist() for column in columns), strict=True):
            self.pieces[stay] += ((a, b, *own) for a, b in self._moving(stay, since, until))

    def _moving(self, row: int, since: float, until: float) -> list[tuple[float, float]]:
        """The parts of an interval of a stay in which it does not pause."""
        since = max(since, float(self.begin[row]))
        found = []
        for begun, over in self.written.get(row, ()):
            if begun < until and over > since:
                found.append((since, begun))
                since = over
        found.append((since, until))
        return [(a, b) for a, b in found if b > a]

    def _uplinks(self, row: int) -> list[Link]:
        return [(vc, tier, group) for tier, group, vc in self.gangs[row].links if tier >= 0]

    def _changes(self, times: Floats) -> dict[tuple[int, Link], list[tuple[int, float | None]]]:
        """Of samples and uplinks: the stays that come and their rates, None of those that go."""
        change: defaultdict[tuple[int, Link], list[tuple[int, float | None]]] = defaultdict(list)
        for row, gang in self.gangs.items():
            start, end = float(self.stays.start[row]), float(self.stays.end[row])
            uplinks = self._uplinks(row)
            if not (end > start and uplinks and gang.links):
                continue
            edges = [(start, 0.0)]
            for since, until, rate, *_ in self.pieces[row]:
                edges += [(since, rate), (until, 0.0)]
            at = np.searchsorted(times, [*(time for time, _ in edges), end]).tolist()
            own: dict[int, float | None] = {}
            for sample, (_, rate) in zip(at, edges, strict=False):
                own[sample] = rate
            if at[-1] == at[0]:
                continue  # between two samples
            own[at[-1]] = None
            for sample, value in own.items():
                for link in uplinks if sample < times.size else ():
                    change[sample, link].append((row, value))
        return change

    def table(self, interval: RunInterval) -> Table:
        """links.parquet."""
        times = instants(self.inputs, interval.first, interval.last)
        now: defaultdict[Link, dict[int, float]] = defaultdict(dict)
        told: defaultdict[Link, tuple[int, int, float]] = defaultdict(lambda: (0, 0, 0.0))
        rows: list[tuple[Link, float, tuple[int, int, float]]] = []
        for (sample, link), changes in sorted(self._changes(times).items()):
            on = now[link]
            for row, value in changes:
                if value is None:
                    del on[row]
                else:
                    on[row] = value
            carried = 0.0
            for row in sorted(on, key=self.stays.job.__getitem__):
                carried += on[row]
            new = len(on), sum(self.gangs[row].flows for row in on), carried
            if new != told[link]:
                told[link] = new
                rows.append((link, float(times[sample]), new))
        return self._columns(rows)

    def _columns(self, rows: list[tuple[Link, float, tuple[int, int, float]]]) -> Table:
        cluster = self.inputs.cluster
        table: Table = {}
        if cluster.vc is not None:
            table["vc"] = pl.Series([cluster.vcs[link[0]] for link, *_ in rows], dtype=pl.String)
        table["tier"] = pl.Series([cluster.tiers[link[1]].name for link, *_ in rows], dtype=pl.String)
        names = [cluster.tiers[link[1]].names[link[2]] for link, *_ in rows]
        table["group"] = pl.Series(names, dtype=pl.String)
        table["time"] = np.array([time for _, time, _ in rows], np.float64)
        for at, name in enumerate(("jobs", "flows", "bytes_per_second")):
            kind: Any = np.float64 if at == 2 else np.int64
            table[name] = np.array([own[at] for *_, own in rows], kind)
        return table

    def summary(self, interval: RunInterval) -> list[dict[str, Any]]:
        """The busiest uplink of each tier, and what the tier cost."""
        cluster, stays = self.inputs.cluster, self.stays
        length = interval.last - float(stays.start.min()) if len(stays) else 0.0
        bytes_: defaultdict[Link, list[float]] = defaultdict(list)
        edges: defaultdict[Link, list[tuple[float, float]]] = defaultdict(list)
        lost: list[list[float]] = [[] for _ in cluster.tiers]
        for row, pieces in self.pieces.items():
            for since, until, rate, idle, tier in pieces:
                if tier >= 0:
                    lost[tier].append((until - since) * idle)
                for link in self._uplinks(row):
                    bytes_[link].append((until - since) * rate)
                    edges[link] += [(since, rate), (until, -rate)]
        found = []
        for number, of in enumerate(cluster.tiers):
            count = len(of.names)
            every = [(vc, number, group) for vc in range(max(1, len(cluster.vcs))) for group in range(count)]
            sums = [math.fsum(bytes_.get(link, ())) for link in every]
            at = next(at for at, own in enumerate(sums) if own >= max(sums) * (1.0 - EVEN))
            named = {} if cluster.vc is None else {"vc": cluster.vcs[every[at][0]]}
            found.append(
                {
                    "tier": of.name,
                    **named,
                    "group": of.names[every[at][2]],
                    "mean_share": sums[at] / (of.bandwidth * length) if length > 0 else 0.0,
                    "largest_share": _most(edges.get(every[at], [])) / of.bandwidth,
                    "gpu_hours_lost": math.fsum(lost[number]) / HOUR,
                }
            )
        return found


def _most(edges: list[tuple[float, float]]) -> float:
    """The greatest sum of rates, each of which begins and ends once."""
    if not edges:
        return 0.0
    time, rate = (np.array(column) for column in zip(*edges, strict=True))
    order = np.argsort(time, kind="stable")
    sums: Floats = np.cumsum(rate[order])
    last = np.append(np.diff(time[order]) > 0, np.ones(1, np.bool_))
    return float(max(0.0, sums[last].max()))
