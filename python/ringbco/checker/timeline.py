"""timeline.parquet: the cluster's state at sampled instants; and servers.parquet."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from ringbco.checker.contention import Spanning
from ringbco.checker.inputs import MILLI_GPU, Floats, Ints, RunInputs, Table
from ringbco.checker.run_interval import RunInterval
from ringbco.checker.settings import Outage

POINTS: Final = 2000
"""Samples of a run that asks for no step."""
MOST: Final = 10_000_000
"""A run with more samples is refused; so many are told of a damaged one."""


def instants(inputs: RunInputs, first: float, last: float) -> Floats:
    """When samples are taken."""
    step = inputs.options.get("sample")
    if step is None:
        return np.append(first + (last - first) * np.arange(POINTS - 1) / (POINTS - 1), last)
    times = first + np.arange(min(MOST, int((last - first) / step) + 2)) * float(step)
    return np.asarray(times[times <= last], np.float64)


class Counter:
    """Amounts that intervals count for, in [since, until), at each sample."""

    def __init__(self, times: Floats, since: Floats, until: Floats) -> None:
        self.size = times.size
        a, b = (np.searchsorted(times, own, side="left") for own in (since, until))
        # Most stays lie between two samples.
        self.rows = np.flatnonzero(a < b)
        self.a, self.b = a[self.rows], b[self.rows]

    def sums(self, amounts: Ints) -> Ints:
        """Of whole numbers, which floats add up exactly."""
        own = amounts[self.rows]
        change = np.bincount(self.a, own, self.size + 1) - np.bincount(self.b, own, self.size + 1)
        return np.cumsum(change[:-1]).astype(np.int64)


def timeline_table(interval: RunInterval, spanning: Spanning) -> Table:
    """timeline.parquet."""
    inputs, jobs, stays = interval.inputs, interval.inputs.jobs, interval.stays
    times = instants(inputs, interval.first, interval.last)
    holding, waiting = Counter(times, stays.start, stays.end), Counter(times, stays.since, stays.start)
    milli_gpus, one = jobs.milli_gpus[stays.job], np.ones(len(stays), np.int64)
    used = holding if stays.seat is None else Counter(times, stays.busy_from, stays.end)
    busy, asked = used.sums(milli_gpus * stays.gpus), waiting.sums(milli_gpus * jobs.gpus[stays.job])
    at = np.searchsorted(spanning.time, times, side="right")
    wide, p = (np.concatenate([[0], own])[at] for own in (spanning.jobs, spanning.p))
    table: Table = {
        "time": times,
        "running_jobs": holding.sums(one),
        "queued_jobs": waiting.sums(one),
        "busy_gpus": (busy + MILLI_GPU // 2) // MILLI_GPU,
        "queued_gpus": (asked + MILLI_GPU // 2) // MILLI_GPU,
        "spanning_jobs": wide,
        "mean_contention": np.where(wide > 0, p / np.maximum(wide, 1), 0.0),
    }
    return table | _watts(interval, times, used, milli_gpus * stays.gpus)


def _watts(interval: RunInterval, times: Floats, holding: Counter, milli_gpus: Ints) -> Table:
    """What all GPUs draw, where every type has watts."""
    cluster = interval.inputs.cluster
    if cluster.gpu_type is None or any(t.idle_watts is None or t.busy_watts is None for t in cluster.types):
        return {}
    kind = cluster.of_type
    of_stay, of_replica = kind[interval.stays.at], kind[interval.replicas.server]
    served = Counter(times, interval.replicas.start, interval.replicas.end)
    off = [(server, since, until) for server, since, until, *_ in (*interval.down, *interval.slept)]
    server = np.array([row[0] for row in off], np.int64)
    dark = Counter(times, *(np.array([row[i] for row in off], np.float64) for i in (1, 2)))
    drawn = np.zeros(times.size)
    for number, fact in enumerate(cluster.types):
        idle, busy = fact.idle_watts or 0.0, fact.busy_watts or 0.0
        whole = MILLI_GPU * int(cluster.gpus[kind == number].sum())
        used = holding.sums(np.where(of_stay == number, milli_gpus, 0))
        used += served.sums(np.where(of_replica == number, MILLI_GPU * interval.replicas.gpus, 0))
        away = dark.sums(np.where(kind[server] == number, MILLI_GPU * cluster.gpus[server], 0))
        drawn += (idle * (whole - used - away) + busy * used) / MILLI_GPU
    return {"watts": drawn}


def _cover(outages: list[Outage], server: int, time: float) -> Outage | None:
    """The one of a server that is on at a time."""
    return next((own for own in outages if own.server == server and own.down <= time < own.up), None)


def servers_table(interval: RunInterval) -> Table:
    """servers.parquet: one row per change of a server. by: of several who woke it, the uppermost job."""
    stays, by = interval.stays, dict[tuple[int, float], str]()
    ids = interval.inputs.jobs.id
    for row in reversed(np.flatnonzero(stays.woke).tolist()):
        name, start = ids[int(stays.job[row])], float(stays.start[row])
        by |= {
            (server, start): name for server in stays.server[stays.first[row] : stays.first[row + 1]].tolist()
        }
    replicas = interval.replicas
    if len(replicas) and interval.slept:
        came = zip(replicas.server.tolist(), replicas.start.tolist(), replicas.service.to_list(), strict=True)
        by |= {(server, start): service for server, start, service in reversed(list(came))}
    rows: list[tuple[int, float, int, str | None]] = []
    for outage in interval.down:
        drain = _cover(interval.drains, outage.server, outage.up)
        back = (1, outage.cause) if drain is None else (4, drain.cause)
        rows += [(outage.server, outage.down, 0, outage.cause), (outage.server, outage.up, *back)]
    off = [outage for outage in interval.down if outage.down < outage.up]
    for drain in interval.drains:
        mine = [outage for outage in off if outage.server == drain.server]
        if not any(outage.down <= drain.down <= outage.up for outage in mine):
            rows.append((drain.server, drain.down, 4, drain.cause))
        if not any(outage.down <= drain.up <= outage.up for outage in mine):
            rows.append((drain.server, drain.up, 1, drain.cause))
    for sleep in interval.slept:
        rows.append((sleep.server, sleep.since, 2, None))
        if sleep.woken:
            rows.append((sleep.server, sleep.until, 3, by.get((sleep.server, sleep.until))))
    kept = sorted((row for row in rows if row[1] <= interval.last), key=lambda row: row[:3])
    return {
        "server": np.array([row[0] for row in kept], np.int64),
        "time": np.array([row[1] for row in kept], np.float64),
        "what": pl.Series(
            [("down", "up", "slept", "woke", "drain")[row[2]] for row in kept], dtype=pl.String
        ),
        "by": pl.Series([row[3] for row in kept], dtype=pl.String),
    }
