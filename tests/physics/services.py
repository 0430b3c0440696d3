"""Replicas and what services got: replicas.parquet and the figures of docs/services.md."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from judge.clock import loads
from judge.given import Given, Replica
from physics.span import HOUR, Span, overlap


def replicas_table(span: Span, names: list[str]) -> dict[str, list[Any]]:
    """replicas.parquet."""
    number = dict.fromkeys(names, 0)
    told: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for replica in span.replicas:
        own = number[replica.service]
        number[replica.service] += 1
        drains = replica.end if replica.ended == "surplus" else None
        row = (*replica[:1], own, *replica[1:5], replica.start, drains, replica.ended)
        for column, value in zip(told.values(), row, strict=True):
            column.append(value)
    return told


COLUMNS = ("service", "replica", "server", "num_gpus", "start_time", "end_time", "serves_from", "drains_from",
           "ended")  # fmt: skip


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


def _course(rows: list[tuple[float, int]], mine: list[Replica], last: float) -> Course:
    """What happens to a service, in the order of an instant: failures, loads, starts."""
    events = [
        (replica.end, 0 if replica.ended == "failed" else 1, 0)
        for replica in mine
        if replica.ended != "end of run"
    ]
    events += [(time, 2, wanted) for time, wanted in rows] + [(replica.start, 3, 0) for replica in mine]
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


def figures(span: Span) -> dict[str, Any]:
    """What a summary says of services, in all and of each."""
    given, first, last = span.given, span.first, span.last
    assert given.services is not None
    size = {row.service: row.gpus for row in given.services}
    rows: list[dict[str, Any]] = []
    for name, own in loads(given.services, given.slot).items():
        mine = [replica for replica in span.replicas if replica.service == name]
        waits = [wait for start, wait in _course(own, mine, last).waits if start >= first]
        served = fsum(overlap(replica.start, replica.end, first, last) for replica in mine)
        ends = [time for time, _ in own[1:]] + [last]
        wanted = fsum(
            count * overlap(time, max(time, end), first, last)
            for (time, count), end in zip(own, ends, strict=True)
        )
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
    wanted = fsum(row["replica_seconds_wanted"] for row in rows)
    served = fsum(row["replica_seconds_served"] for row in rows)
    return {
        "services": rows,
        "service_attainment": served / wanted if wanted > 0 else 1.0,
        "service_gpu_hours": fsum(row["gpu_hours"] for row in rows),
        "gpu_hours_lent_to_training": _lent(given, span) / HOUR,
    }


def _lent(given: Given, span: Span) -> float:
    """GPU-seconds that jobs held of those that services would hold at their largest."""
    largest: dict[str, int] = {}
    for row in given.services or ():
        largest[row.service] = max(largest.get(row.service, 0), row.replicas * row.gpus)
    gpus = given.cluster.gpus
    held, up = 0, sum(gpus)
    events = [(stay.start, stay.gpus, 0) for stay in span.ran] + [
        (stay.end, -stay.gpus, 0) for stay in span.ran
    ]
    events += [(outage.down, 0, -gpus[outage.server]) for outage in span.down]
    events += [(outage.up, 0, gpus[outage.server]) for outage in span.down]
    lent, since = [], -math.inf
    for time, more, back in [*sorted(events), (math.inf, 0, 0)]:
        more_than_left = max(0, held - max(0, up - sum(largest.values())))
        lent.append(more_than_left * overlap(since, time, span.first, span.last))
        held, up, since = held + more, up + back, time
    return fsum(lent)
