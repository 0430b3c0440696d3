"""When servers went down, drained, came back, slept, woke: docs/results-reference.md#serversparquet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from ringbco.result.schema import SERVERS_SCHEMA
from ringbco.result.stays import named, who
from ringbco.trace.outages import IS_DRAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def servers_frame(
    job_id: pl.Series,
    services: Sequence[str],
    outages: pl.DataFrame | None,
    asleep: Mapping[str, NDArray[Any]] | None,
    last: float,
) -> pl.DataFrame | None:
    """servers.parquet: one row per change, by (server, time); None where servers neither go down nor sleep.

    job_id: of the job table. services: their names. outages: as the clock sees them. asleep: the engine's
    table of that name. last: the end of the run, s; what comes after it is left out.
    """
    parts = []
    if outages is not None:
        drains = outages.filter(IS_DRAIN)
        down = outages.filter(~IS_DRAIN)
        parts += [
            down.select("server", time=at, what=pl.lit(what), by="cause")
            for at, what in (("down_at", "down"), ("up_at", "up"))
        ]
        if drains.height:
            parts = _with_drains(down, drains)
    if asleep is not None:
        by = who(asleep)
        job = named(job_id, asleep["by"], by["job"])
        service = named(pl.Series(list(services), dtype=pl.String), asleep["by"], by["service"])
        woken = ~by["nobody"]
        sleeps = pl.DataFrame({name: asleep[name] for name in ("server", "from", "until")}).with_columns(
            by=job.zip_with(pl.Series(by["job"]), service)
        )
        parts += [
            sleeps.select("server", time="from", what=pl.lit("slept"), by=pl.lit(None, pl.String)),
            sleeps.filter(pl.Series(woken)).select("server", time="until", what=pl.lit("woke"), by="by"),
        ]
    if not parts:
        return None
    there = pl.concat([part.cast(pl.Schema(SERVERS_SCHEMA)) for part in parts])
    there = there.filter(pl.col("time").is_not_null() & (pl.col("time") <= last))
    return there.sort("server", "time", maintain_order=True)


def _with_drains(down: pl.DataFrame, drains: pl.DataFrame) -> list[pl.DataFrame]:
    """The changes of servers that go down and drain: one that is down is not said to drain, or to be up."""
    intervals = {what: _by_server(rows) for what, rows in (("down", down), ("drain", drains))}
    rows: list[tuple[int, float, str, str | None]] = []
    for server, since, until, cause in down.select("server", "down_at", "up_at", "cause").iter_rows():
        rows.append((server, since, "down", cause))
        if until is not None:
            on = [own for begin, end, own in intervals["drain"].get(server, ()) if begin <= until < end]
            rows.append((server, until, "drain", on[0]) if on else (server, until, "up", cause))
    for server, since, until, cause in drains.select("server", "down_at", "up_at", "cause").iter_rows():
        off = [own[:2] for own in intervals["down"].get(server, ()) if own[0] < own[1]]
        if not any(begin <= since <= end for begin, end in off):
            rows.append((server, since, "drain", cause))
        # Where both end at once, the outage says it.
        if until is not None and not any(begin <= until <= end for begin, end in off):
            rows.append((server, until, "up", cause))
    order = ("down", "up", "drain")
    rows.sort(key=lambda row: (row[0], row[1], order.index(row[2])))
    return [pl.DataFrame(rows, pl.Schema(SERVERS_SCHEMA), orient="row")]


def _by_server(intervals: pl.DataFrame) -> dict[int, list[tuple[float, float, str | None]]]:
    found: dict[int, list[tuple[float, float, str | None]]] = {}
    for server, since, until, cause in intervals.select("server", "down_at", "up_at", "cause").iter_rows():
        found.setdefault(server, []).append((since, math.inf if until is None else until, cause))
    return found
