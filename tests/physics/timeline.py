"""timeline.parquet: the cluster's state at sampled instants; and servers.parquet."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any

from judge.contention import Spanning
from judge.given import WHOLE, Given
from physics.span import Span

POINTS = 2000
"""Samples of a run that asks for no step."""
MOST = 10_000_000
"""A run with more samples is refused; so many are told of a damaged one."""


def instants(given: Given, first: float, last: float) -> list[float]:
    """When samples are taken."""
    step = given.options.get("sample")
    if step is None:
        return [first + (last - first) * (i / (POINTS - 1)) for i in range(POINTS - 1)] + [last]
    count = min(MOST, int((last - first) / step) + 2)
    times = [first + i * float(step) for i in range(count)]
    return [time for time in times if time <= last]


class Counter:
    """Two amounts that stretches of time count for, at each sample."""

    def __init__(self, times: list[float]) -> None:
        self.times, self.one, self.other = times, [0] * (len(times) + 1), [0] * (len(times) + 1)

    def add(self, since: float, until: float, one: int, other: int) -> None:
        """Counts in [since, until)."""
        a, b = bisect_left(self.times, since), bisect_left(self.times, until)
        if a < b:  # most stays lie between two samples
            self.one[a] += one
            self.one[b] -= one
            self.other[a] += other
            self.other[b] -= other

    def values(self) -> tuple[list[int], list[int]]:
        """Of each amount, at each sample."""
        return list(accumulate(self.one[:-1])), list(accumulate(self.other[:-1]))


def timeline_table(span: Span, spanning: Spanning) -> dict[str, list[Any]]:
    """timeline.parquet."""
    given, jobs = span.given, span.given.jobs
    times = instants(given, span.first, span.last)
    holding, waiting = Counter(times), Counter(times)
    for stay in span.ran:
        units = jobs.units(stay.job)
        holding.add(stay.start, stay.end, 1, units * stay.gpus)
        if stay.since < stay.start:
            waiting.add(stay.since, stay.start, 1, units * jobs.gpus[stay.job])
    (running, busy), (queued, asked) = holding.values(), waiting.values()
    at = [bisect_right(spanning.time, time) - 1 for time in times]
    wide = [spanning.jobs[i] if i >= 0 else 0 for i in at]
    table: dict[str, list[Any]] = {
        "time": times,
        "running_jobs": running,
        "queued_jobs": queued,
        "busy_gpus": [(units + WHOLE // 2) // WHOLE for units in busy],
        "queued_gpus": [(units + WHOLE // 2) // WHOLE for units in asked],
        "spanning_jobs": wide,
        "mean_contention": [
            spanning.p[i] / count if count else 0.0 for i, count in zip(at, wide, strict=True)
        ],
    }
    return table | _watts(span, times)


def _watts(span: Span, times: list[float]) -> dict[str, list[Any]]:
    """What all GPUs draw, where every type has watts."""
    given, cluster = span.given, span.given.cluster
    if cluster.gpu_type is None or any(t.idle_watts is None or t.busy_watts is None for t in cluster.types):
        return {}
    held = [Counter(times) for _ in cluster.types]
    for stay in span.ran:
        own = held[cluster.of_type(stay.held[0][0])]
        own.add(stay.start, stay.end, given.jobs.units(stay.job) * stay.gpus, 0)
    for replica in span.replicas:
        held[cluster.of_type(replica.server)].add(replica.start, replica.end, WHOLE * replica.gpus, 0)
    for server, since, until, *_ in (*span.down, *span.slept):
        held[cluster.of_type(server)].add(since, until, 0, WHOLE * cluster.gpus[server])
    drawn = [0.0] * len(times)
    for number, fact in enumerate(cluster.types):
        idle, busy = fact.idle_watts or 0.0, fact.busy_watts or 0.0
        there = zip(cluster.gpus, cluster.gpu_type, strict=True)
        whole = WHOLE * sum(gpus for gpus, kind in there if kind == number)
        for i, (units, off) in enumerate(zip(*held[number].values(), strict=True)):
            drawn[i] += (idle * (whole - units - off) + busy * units) / WHOLE
    return {"watts": drawn}


def servers_table(span: Span) -> dict[str, list[Any]]:
    """servers.parquet: a row a change of a server. by: of several who woke it, the uppermost job."""
    by: dict[tuple[int, float], str] = {}
    for stay in reversed(span.ran):
        by |= {(server, stay.start): span.given.jobs.id[stay.job] for server, _ in stay.held if stay.woke}
    by |= {(replica.server, replica.start): replica.service for replica in reversed(span.replicas)}
    rows: list[tuple[int, float, int, str | None]] = []
    for outage in span.down:
        rows += [(outage.server, outage.down, 0, outage.cause), (outage.server, outage.up, 1, outage.cause)]
    for spell in span.slept:
        rows.append((spell.server, spell.since, 2, None))
        if spell.woken:
            rows.append((spell.server, spell.until, 3, by.get((spell.server, spell.until))))
    kept = sorted((row for row in rows if row[1] <= span.last), key=lambda row: row[:3])
    return {
        "server": [row[0] for row in kept],
        "time": [row[1] for row in kept],
        "what": [("down", "up", "slept", "woke")[row[2]] for row in kept],
        "by": [row[3] for row in kept],
    }
