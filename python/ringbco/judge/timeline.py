"""timeline.parquet: the cluster's state at sampled instants; and servers.parquet."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any

from ringbco.judge.contention import Spanning
from ringbco.judge.given import WHOLE, Book, Given
from ringbco.judge.span import Span

POINTS = 2000
"""Samples of a run that asks for no step."""
MOST = 10_000_000
"""A run with more samples is refused; so many are told of a damaged one."""


def instants(given: Given, first: float, last: float) -> list[float]:
    """When samples are taken."""
    step = given.options.get("sample")
    if step is None:
        if last <= first:
            return [first]
        return [first + (last - first) * (i / (POINTS - 1)) for i in range(POINTS - 1)] + [last]
    count = min(MOST, int((last - first) / step) + 2)
    times = [first + i * float(step) for i in range(count)]
    return [time for time in times if time <= last]


class Counter:
    """Something that stretches of time count for, at each sample."""

    def __init__(self, times: list[float]) -> None:
        self.times, self._change = times, [0] * (len(times) + 1)

    def add(self, since: float, until: float, amount: int) -> None:
        """Counts in [since, until)."""
        a, b = bisect_left(self.times, since), bisect_left(self.times, until)
        if a < b:
            self._change[a] += amount
            self._change[b] -= amount

    def values(self) -> list[int]:
        """At each sample."""
        return list(accumulate(self._change[:-1]))


def timeline_table(span: Span, spanning: Spanning) -> dict[str, list[Any]]:
    """timeline.parquet."""
    given, jobs = span.given, span.given.jobs
    times = instants(given, span.first, span.last)
    running, busy, queued, asked = (Counter(times) for _ in range(4))
    share, low, changes = (
        jobs.share,
        bisect_left,
        (running._change, busy._change, queued._change, asked._change),
    )
    for stay in span.ran:  # written out: most stays lie between two samples
        a, b, c = low(times, stay.since), low(times, stay.start), low(times, stay.end)
        if a == c:
            continue
        if b < c:
            units = stay.gpus * (share[stay.job] if share is not None and share[stay.job] else WHOLE)
            for change, amount in zip(changes[:2], (1, units), strict=True):
                change[b] += amount
                change[c] -= amount
        if a < b:
            for change, amount in zip(changes[2:], (1, jobs.asks(stay.job)), strict=True):
                change[a] += amount
                change[b] -= amount
    at = [bisect_right(spanning.time, time) - 1 for time in times]
    wide = [spanning.jobs[i] if i >= 0 else 0 for i in at]
    table: dict[str, list[Any]] = {
        "time": times,
        "running_jobs": running.values(),
        "queued_jobs": queued.values(),
        "busy_gpus": [(units + WHOLE // 2) // WHOLE for units in busy.values()],
        "queued_gpus": [(units + WHOLE // 2) // WHOLE for units in asked.values()],
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
    drawn = [0.0] * len(times)
    for number, fact in enumerate(cluster.types):
        held, off, own = (
            Counter(times),
            Counter(times),
            WHOLE
            * sum(gpus for gpus, kind in zip(cluster.gpus, cluster.gpu_type, strict=True) if kind == number),
        )
        for stay in span.ran:
            if cluster.of_type(stay.held[0][0]) == number:
                held.add(stay.start, stay.end, round(WHOLE * given.jobs.weight(stay.job)) * stay.gpus)
        for replica in span.replicas:
            if cluster.of_type(replica.server) == number:
                held.add(replica.start, replica.end, WHOLE * replica.gpus)
        for server, since, until, *_ in (*span.down, *span.slept):
            if cluster.of_type(server) == number:
                off.add(since, until, WHOLE * cluster.gpus[server])
        idle, busy = fact.idle_watts or 0.0, fact.busy_watts or 0.0
        for i, (units, away) in enumerate(zip(held.values(), off.values(), strict=True)):
            drawn[i] += (idle * (own - units - away) + busy * units) / WHOLE
    return {"watts": drawn}


def servers_table(span: Span, book: Book) -> dict[str, list[Any]]:
    """servers.parquet: a row a change of a server. by: of several who woke it, the uppermost job."""
    first: dict[tuple[int, float], str] = {}
    for replica in book.replicas:
        first.setdefault((replica.server, replica.start), replica.service)
    jobs: dict[tuple[int, float], str] = {}
    for stay in book.stays:
        if stay.woke:
            for server, _ in stay.held:
                jobs.setdefault((server, stay.start), span.given.jobs.id[stay.job])
    rows: list[tuple[int, float, int, str, str | None]] = []
    for outage in span.down:
        rows.append((outage.server, outage.down, 0, "down", outage.cause))
        rows.append((outage.server, outage.up, 1, "up", outage.cause))
    for spell in span.slept:
        rows.append((spell.server, spell.since, 2, "slept", None))
        if spell.woken:
            key = spell.server, spell.until
            rows.append((spell.server, spell.until, 3, "woke", first.get(key, jobs.get(key))))
    kept = sorted(row for row in rows if row[1] <= span.last)
    return {
        name: [row[i] for row in kept] for name, i in (("server", 0), ("time", 1), ("what", 3), ("by", 4))
    }
