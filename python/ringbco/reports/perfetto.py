"""A result as a trace in Chrome's trace event format, which Perfetto and chrome://tracing show.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Servers are
processes with a thread for each job that they ever have at once, jobs complete events (ph X), waits async
events (ph b and e), the queue and contention counters (ph C). The trace's microseconds are the job table's,
as whole numbers: viewers round fractions of them, and slices that then overlap are lost.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import groupby
from typing import Any, BinaryIO, Final

import polars as pl

from ringbco.errors import UsageError
from ringbco.io.marks import TRACE_START
from ringbco.reports.cluster_state import cluster_state, gangs
from ringbco.reports.down_times import down_times
from ringbco.reports.lanes import LEVELS, held_rows
from ringbco.reports.server_load import called, server_gpus, server_names
from ringbco.reports.viewport import Viewport
from ringbco.result.outcome import Outcome
from ringbco.trace.shares import MILLI_GPU

MOST_SLICES: Final = 1_000_000
"""Slices that a browser can still be asked to show."""
CLUSTER: Final = 1  # the process of the whole cluster's waits and counters; 0 means the idle task to viewers
FIRST_SERVER: Final = 2  # the process of server 0
# Reserved colour names of the format, for viewers that heed them: green, olive, yellow, orange, red.
COLOURS: Final = ("good", "olive", "yellow", "bad", "terrible")

_US: Final = 1e6
_WHO: Final = ("job", "service", "server")
_CAUSES: Final = ("wait_gpus", "wait_fragmented", "wait_behind")
_COUNTERS: Final = (
    ("queue", {"jobs waiting": "queued_jobs"}),
    ("GPUs asked for by the queue", {"GPUs": "queued_gpus"}),
    ("GPUs held", {"GPUs": "busy_gpus"}),
    ("jobs on several servers", {"jobs": "spanning_jobs"}),
    ("mean contention", {"p_j": "mean_contention"}),
)

Event = dict[str, Any]


def write_trace(outcome: Outcome, viewport: Viewport, file: BinaryIO, *, compress: bool) -> int:
    """Writes the viewport of a result as one JSON object; the same result gives the same bytes.

    Returns the number of events. Raises UsageError where it holds more than a million slices.
    """
    events = trace_events(outcome, viewport)
    if not compress:
        return _write(events, outcome, file)
    # No name and no time of day in the header.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed:
        return _write(events, outcome, packed)


def _write(events: Iterable[Event], outcome: Outcome, file: BinaryIO | gzip.GzipFile) -> int:
    # TOML has dates, which JSON writes as text.
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str).encode
    file.write(TRACE_START)
    count = 0
    for count, event in enumerate(events, start=1):
        file.write(f"{',' if count > 1 else ''}\n{encode(event)}".encode("utf-8", "replace"))
    about = {"made by": "ringbco", "run": _recorded(outcome.run)}
    file.write(f'\n],"displayTimeUnit":"ms","otherData":{encode(about)}}}\n'.encode("utf-8", "replace"))
    return count


def trace_events(outcome: Outcome, viewport: Viewport) -> Iterator[Event]:
    """The trace's events: names first, then slices, waits and counters."""
    rows = slice_rows(outcome, viewport)
    kept = viewport.clip(rows).with_columns(called(pl.col("by_server"), outcome))
    waits = wait_rows(outcome, viewport)
    slices = kept.height + waits.height
    if slices > MOST_SLICES:
        raise UsageError(
            f"{slices:,} slices: expected at most {MOST_SLICES:,}; cut it by --from, --to or --servers"
        )
    # A job that was ended before it was done has no row, though it held GPUs of a server.
    threads = dict.fromkeys(viewport.servers, 0)
    threads |= dict(rows.group_by("server").agg(pl.col("thread").max()).iter_rows())
    down = down_times(outcome, viewport)
    yield from _names(outcome, viewport, threads, set(down.select("server", "drains").iter_rows()))
    elastic = "resizes" in outcome.summary
    for row in kept.iter_rows(named=True):
        yield _job(row, elastic=elastic) if row["level"] < len(LEVELS) else _replica(row)
    for server, start, end, cause, drains in down.iter_rows():
        # A server may be down while it drains: slices of one thread must not overlap.
        place = {"server": server, "thread": threads[server] + 1 + drains, "start": start, "end": end}
        what = "draining" if drains else "down"
        yield _slice(place, f"{what}: {cause}", what, "grey", {"cause": cause})
    for row in waits.iter_rows(named=True):
        yield from _wait(row)
    yield from _cluster_counters(outcome, viewport)
    yield from _server_counters(rows, viewport)


def slice_rows(outcome: Outcome, viewport: Viewport) -> pl.DataFrame:
    """The rows of `held_rows` with a `thread`, from 1: one row per stay and server, and one row per replica.

    Where the result records which GPUs a job held, `gpu` is a list of them. All of the run, so that a job
    keeps its thread whatever the viewport.
    """
    rows = held_rows(outcome, viewport.servers)
    if "gpu" in rows.columns:
        keys = [name for name in ("server", "job_id", "stay", "replica") if name in rows.columns]
        several = (pl.col("gpu"), pl.col("gpus").sum())
        rows = rows.group_by(keys, maintain_order=True).agg(*several, pl.exclude("gpu", "gpus").first())
    return rows.with_columns(thread=pl.Series(_threads(rows), dtype=pl.Int64))


def _threads(rows: pl.DataFrame) -> list[int]:
    """The thread of each row: the lowest that is free on its server, or the one that a resized job had."""
    threads = [0] * rows.height
    table = enumerate(rows.select("server", "start", "end", "job_id", "before").iter_rows())
    for _, mine in groupby(table, key=lambda row: row[1][0]):
        held: list[tuple[float, int]] = []
        free: set[int] = set()
        had: dict[str, int] = {}
        for start, together in groupby(mine, key=lambda row: row[1][1]):
            # Who was resized goes first, before another one takes its thread.
            for row, (_, _, end, job, before) in sorted(together, key=lambda row: row[1][4] is None):
                while held and held[0][0] <= start:
                    free.add(heappop(held)[1])
                own = had.get(job) if before is not None else None
                thread = own if own in free else min(free, default=len(held) + 1)
                free.discard(thread)
                heappush(held, (end, thread))
                threads[row] = had[job] = thread
    return threads


def wait_rows(outcome: Outcome, viewport: Viewport) -> pl.DataFrame:
    """A row per wait for a stay, on any server, clipped by the viewport: id, job_id, start, end (s), GPUs.

    Also the causes of the wait as stays.parquet has them, of the whole wait (s), and user where there is one.
    """
    assert outcome.allocations is not None
    asks = pl.col("asks") / MILLI_GPU if "share" in outcome.allocations.columns else pl.col("asks")
    waits = gangs(outcome).select("job_id", start="waits", end="start_time", GPUs=asks)
    waits = waits.hstack(outcome.stays.select(_CAUSES)).with_row_index("id")
    if "user" in outcome.jobs.columns:
        users = outcome.jobs.select("job_id", "user")
        waits = waits.join(users, on="job_id", how="left", maintain_order="left")
    # What rounding leaves where a stay follows another at once is no wait.
    return viewport.clip(waits.filter((pl.col("start") * _US).round() < (pl.col("end") * _US).round()))


def _names(
    outcome: Outcome, viewport: Viewport, threads: Mapping[int, int], down: Collection[tuple[int, bool]]
) -> Iterator[Event]:
    # First: by this event outputs.py knows a trace of ours.
    yield _meta("process_name", CLUSTER, name="cluster")
    yield _meta("process_sort_index", CLUSTER, sort_index=-1)
    sizes, names = server_gpus(outcome), server_names(outcome)
    about = [
        [group[key] for key in ("vc", "gpu_type") if group.get(key)]
        for group in outcome.run["cluster"]["servers"]
        for _ in range(group["count"])
    ]
    for server in viewport.servers:
        process = FIRST_SERVER + server
        facts = ", ".join([f"{sizes[server]} GPUs", *about[server]])
        yield _meta("process_name", process, name=f"server {names[server] or server} ({facts})")
        yield _meta("process_sort_index", process, sort_index=server)
        for thread in range(1, threads[server] + 1):
            yield _meta("thread_name", process, thread, name=f"jobs {thread}")
        for drains, name in enumerate(("outages", "drains")):
            if (server, bool(drains)) in down:
                yield _meta("thread_name", process, threads[server] + 1 + drains, name=name)


def _meta(what: str, process: int, thread: int = 0, **arguments: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": arguments}


def _job(row: dict[str, Any], *, elastic: bool) -> Event:
    """What a job held on a server. elastic: whether jobs may be resized.

    Viewers that choose colours themselves do so by the name, so it holds the level.
    """
    arguments = {
        "job": row["job_id"],
        "GPUs here": row["gpus"],
        "GPUs": row["job_gpus"],
        "servers": row["num_servers"],
        "largest contention": row["max_contention"],
        "waited, s": row["waited"],
        "slowdown": row["slowdown"],
    }
    if elastic:
        arguments |= {"GPUs": row["held"], "GPUs asked for": row["job_gpus"]}
    if "gpu" in row:
        arguments["which GPUs"] = ", ".join(map(str, row["gpu"]))
    arguments |= {name: row[name] for name in ("share", "user", "vc") if row.get(name) is not None}
    if row["before"] is not None:
        arguments["resized from"] = row["before"]
    if row["began"] != "first":
        arguments["began"] = row["began"]
    if row["ended"] != "done":
        arguments["ended"] = row["ended"]
    arguments |= {f"ended by {who}": row[f"by_{who}"] for who in _WHO if row[f"by_{who}"] is not None}
    level = LEVELS[row["level"]]
    held = row["gpus"] if row.get("share") is None else row["share"]
    name = f"{level}: {row['job_id']} \N{MULTIPLICATION SIGN}{held}"
    return _slice(row, name, row.get("user") or level, COLOURS[row["level"]], arguments)


def _replica(row: dict[str, Any]) -> Event:
    arguments = {"service": row["job_id"], "GPUs": row["gpus"], "ended": row["ended"]}
    return _slice(row, f"service: {row['job_id']}", "service", "rail_response", arguments)


def _slice(place: Mapping[str, Any], name: str, category: str, colour: str, arguments: Event) -> Event:
    start = _us(place["start"])
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "cname": colour,
        "pid": FIRST_SERVER + place["server"],
        "tid": place["thread"],
        "ts": start,
        "dur": max(_us(place["end"]) - start, 0),
        "args": arguments,
    }


def _wait(row: dict[str, Any]) -> Iterator[Event]:
    """A wait, begun and ended. Async events of a process that have one name are one track to viewers."""
    event = {
        "name": "waiting",
        "cat": row.get("user") or "waiting",
        "pid": CLUSTER,
        "tid": 0,
        "id2": {"local": str(row["id"])},
    }
    causes = {name: row[name] for name in _CAUSES if row[name]}
    arguments = {"job": row["job_id"], "GPUs": row["GPUs"]} | causes
    yield {"ph": "b", **event, "ts": _us(row["start"]), "args": arguments}
    yield {"ph": "e", **event, "ts": _us(row["end"]), "args": {}}


def _us(seconds: float) -> int:
    return round(seconds * _US)


def _cluster_counters(outcome: Outcome, viewport: Viewport) -> Iterator[Event]:
    state = cluster_state(outcome, viewport)
    for name, series in _COUNTERS:
        for title, column in series.items():
            for time, value in state[column].iter_rows():
                yield _counter(name, CLUSTER, time, title, value)


def _server_counters(frame: pl.DataFrame, viewport: Viewport) -> Iterator[Event]:
    """On each server the number of spanning jobs: what the viewport finds, then every change in it."""
    # Not clipped by the viewport, whose ends are no changes.
    spanning = frame.filter("spans")
    changes = pl.concat(
        (
            spanning.select("server", time="start", change=pl.lit(1)),
            spanning.select("server", time="end", change=pl.lit(-1)),
        )
    )
    steps = (
        changes.group_by("server", "time")
        .agg(pl.col("change").sum())
        .filter(pl.col("change") != 0)
        .sort("server", "time")
        .with_columns(jobs=pl.col("change").cum_sum().over("server"))
        .select("server", "time", "jobs")
    )
    found = (
        steps.filter(pl.col("time") <= viewport.start)
        .group_by("server", maintain_order=True)
        .last()
        .filter(pl.col("jobs") > 0)
        .with_columns(time=pl.lit(viewport.start))
    )
    inside = steps.filter((pl.col("time") > viewport.start) & (pl.col("time") <= viewport.end))
    for server, time, jobs in pl.concat((found, inside)).sort("server", "time").iter_rows():
        yield _counter("spanning jobs", FIRST_SERVER + server, time, "jobs", jobs)


def _counter(name: str, process: int, time: float, title: str, value: float) -> Event:
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": _us(time), "args": {title: value}}


def _recorded(run: Mapping[str, Any]) -> dict[str, Any]:
    """The run as run.toml has it, which knows no nulls, so that an outcome and its folder give the same.

    JSON knows no infinity: it is the word.
    """
    return {
        name: {
            key: "inf" if value == math.inf else value for key, value in table.items() if value is not None
        }
        if isinstance(table, Mapping)
        else table
        for name, table in run.items()
    }
