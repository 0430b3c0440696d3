"""Replicas and what services got: replicas.parquet and the figures of docs/services.md.

Replica by replica: only of services.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from math import fsum
from typing import Any

import numpy as np
import polars as pl

from ringbco.checker import requests
from ringbco.checker.arrays import overlap, total
from ringbco.checker.clock import loads
from ringbco.checker.inputs import Bools, Floats, Ints, Table
from ringbco.checker.run_interval import HOUR, RunInterval
from ringbco.checker.timeline import instants


def replicas_table(interval: RunInterval) -> Table:
    """replicas.parquet."""
    replicas, answering = interval.replicas, interval.inputs.answering
    if answering is None:
        drains = np.where((replicas.ended == "surplus").to_numpy(), replicas.end, np.nan)
        number, serves = _in_order(replicas.service), replicas.start
    else:
        startup = {service.name: service.startup for service in answering.services}
        serves = replicas.start + np.array([startup[name] for name in replicas.service], np.float64)
        serves = np.where(serves < replicas.end, serves, np.nan)
        number, drains = replicas.number, replicas.drains
    return {
        "service": replicas.service,
        "replica": number,
        "server": replicas.server,
        "num_gpus": replicas.gpus,
        "start_time": replicas.start,
        "end_time": replicas.end,
        "serves_from": pl.Series(serves).fill_nan(None),
        "drains_from": pl.Series(drains).fill_nan(None),
        "ended": replicas.ended,
    }


def _in_order(services: pl.Series) -> Ints:
    """The number of each replica among those of its service."""
    count, own = dict[str, int](), list[int]()
    for service in services.to_list():
        own.append(count.get(service, 0))
        count[service] = own[-1] + 1
    return np.array(own, np.int64)


@dataclass
class Course:
    """A service as time passes. since: from when so many that wait are wanted. waits: (start, seconds)."""

    live: int = 0
    waiting: int = 0
    since: deque[tuple[float, int]] = field(default_factory=deque)
    waits: list[tuple[float, float]] = field(default_factory=list)

    def load(self, time: float, wanted: int) -> None:
        """Those that have been wanted for the shortest time are given up first."""
        more = wanted - self.live - self.waiting
        if more > 0:
            self.wait(time, more)
        while more < 0 and self.since:
            since, count = self.since.pop()
            gone = min(count, -more)
            if count > gone:
                self.since.append((since, count - gone))
            self.waiting -= gone
            more += gone

    def wait(self, time: float, count: int) -> None:
        """So many are wanted from now on."""
        self.since.append((time, count))
        self.waiting += count

    def start(self, time: float) -> None:
        """The replica that has been wanted longest starts first."""
        self.live += 1
        if not self.since:
            self.waits.append((time, 0.0))
            return
        since, count = self.since.popleft()
        self.waiting -= 1
        if count > 1:
            self.since.appendleft((since, count - 1))
        self.waits.append((time, time - since))


def _course(
    rows: list[tuple[float, int]], starts: list[float], ends: list[tuple[float, str]], last: float
) -> Course:
    """What happens to a service, in the order of an instant: failures, loads, starts."""
    events = [(end, 0 if ended == "failed" else 1, 0) for end, ended in ends if ended != "end of run"]
    events += [(time, 2, wanted) for time, wanted in rows] + [(start, 3, 0) for start in starts]
    course = Course()
    for time, what, wanted in sorted(event for event in events if event[0] < last):
        if what == 2:
            course.load(time, wanted)
        elif what == 3:
            course.start(time)
        else:
            course.live -= 1
            if what == 0:
                course.wait(time, 1)
    return course


def figures(interval: RunInterval) -> dict[str, Any]:
    """What a summary says of services, in all and of each; with requests, of the whole run."""
    inputs, replicas, first, last = interval.inputs, interval.replicas, interval.first, interval.last
    assert inputs.services is not None
    answering, wanted_by = inputs.answering, loads(inputs.services, inputs.slot)
    if answering is None:
        size = {row.service: row.gpus for row in inputs.services}
        leaves, why = replicas.end, replicas.ended
    else:
        first, last = 0.0, interval.closes
        size = {service.name: service.gpus for service in answering.services}
        # One that drains is none of those that its service wants.
        drains = ~np.isnan(replicas.drains)
        leaves = np.where(drains, replicas.drains, replicas.end)
        why = replicas.ended.set(pl.Series(drains), "surplus") if drains.size else replicas.ended
    prices = _prices(interval)
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(wanted_by if answering is None else size):
        own = wanted_by.get(name, [])
        mine = (replicas.service == name).to_numpy()
        start, end, ended = replicas.start[mine], leaves[mine], why.filter(pl.Series(mine))
        over = list(zip(end.tolist(), ended.to_list(), strict=True))
        waits = [wait for begun, wait in _course(own, start.tolist(), over, last).waits if begun >= first]
        served = total(overlap(start, end, first, last))
        times, wanted_of = (np.array([row[i] for row in own], np.float64) for i in (0, 1))
        until = np.maximum(times, np.append(times[1:], last)[: times.size])
        wanted = total(wanted_of * overlap(times, until, first, last))
        rows.append(
            {
                "service": name,
                "gpus_per_replica": size[name],
                "attainment": served / wanted if wanted > 0 else 1.0,
                "replica_seconds_wanted": wanted,
                "replica_seconds_served": served,
                "mean_time_to_scale_up": fsum(waits) / len(waits) if waits else None,
                "worst_time_to_scale_up": max(waits) if waits else None,
                "gpu_hours": served * size[name] / HOUR,
            }
        )
        if answering is not None:
            rows[-1] |= requests.figures(answering, number, replicas, prices)
    wanted = fsum(row["replica_seconds_wanted"] for row in rows)
    served = fsum(row["replica_seconds_served"] for row in rows)
    return {
        "services": rows,
        "service_attainment": served / wanted if wanted > 0 else 1.0,
        "service_gpu_hours": fsum(row["gpu_hours"] for row in rows),
        "gpu_hours_lent_to_training": _lent(interval) / HOUR,
    }


def latency_table(interval: RunInterval) -> tuple[Table, dict[str, Bools]]:
    """latency.parquet, and by column the rows of which nothing tells it."""
    inputs, end = interval.inputs, interval.closes
    assert inputs.answering is not None
    times = instants(inputs, interval.first, end)
    wanted = loads(inputs.services or (), inputs.slot)
    return requests.latency_table(inputs.answering, interval.replicas, wanted, times, end)


def _prices(interval: RunInterval) -> Floats:
    """Of a GPU-hour on each server; NaN for none."""
    cluster = interval.inputs.cluster
    if not cluster.types:
        return np.full(cluster.gpus.size, np.nan)
    prices = [np.nan if fact.price_per_hour is None else fact.price_per_hour for fact in cluster.types]
    return np.array(prices, np.float64)[cluster.of_type]


def _lent(interval: RunInterval) -> float:
    """GPU-seconds that jobs held of those that services would hold at their largest."""
    inputs, stays, gpus = interval.inputs, interval.stays, interval.inputs.cluster.gpus
    largest: dict[str, int] = {}
    for row in inputs.services or ():
        largest[row.service] = max(largest.get(row.service, 0), row.replicas * row.gpus)
    if inputs.answering is not None:
        largest = {service.name: service.most * service.gpus for service in inputs.answering.services}
    server = np.array([outage.server for outage in interval.down], np.int64)
    down, up = (np.array([outage[i] for outage in interval.down], np.float64) for i in (1, 2))
    since, until, lost = (np.array([own[i] for own in interval.drained], np.float64) for i in (1, 2, 3))
    lacking = np.append(gpus[server], lost.astype(np.int64))
    time = np.concatenate([stays.busy_from, stays.end, down, since, up, until])
    none = np.zeros(2 * lacking.size, np.int64)
    more = np.concatenate([stays.gpus, -stays.gpus, none])
    back = np.concatenate([np.zeros(2 * len(stays), np.int64), -lacking, lacking])
    order = np.argsort(time, kind="stable")
    held, there = np.cumsum(more[order]), int(gpus.sum()) + np.cumsum(back[order])
    kept = np.maximum(0, there - sum(largest.values()))
    until = np.append(time[order][1:], math.inf)
    return total(np.maximum(0, held - kept) * overlap(time[order], until, interval.first, interval.last))
