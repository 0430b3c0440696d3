"""A result as a trace in Chrome's trace event format, which Perfetto and chrome://tracing show.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Servers are
processes, their GPUs threads, jobs complete events (ph X), the queue and contention counters (ph C). A GPU
has as many threads as it ever had jobs at once. The trace's microseconds are the job table's.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final

import polars as pl

from ringbco.errors import UsageError
from ringbco.io.marks import TRACE_START
from ringbco.reports.cluster_state import cluster_state
from ringbco.reports.lanes import LEVELS, Lane, assign_lanes, held_rows
from ringbco.reports.outage_bars import down_times
from ringbco.reports.server_load import server_gpus
from ringbco.reports.share_lanes import assign_shares
from ringbco.reports.window import Window
from ringbco.result.outcome import Outcome

MOST_SLICES: Final = 1_000_000
"""Slices that a browser can still be asked to show."""
CLUSTER: Final = 1  # the process of the whole cluster's counters; 0 means the idle task to viewers
FIRST_SERVER: Final = 2  # the process of server 0
# Reserved colour names of the format, for viewers that heed them: green, olive, yellow, orange, red.
COLOURS: Final = ("good", "olive", "yellow", "bad", "terrible")

_US: Final = 1e6
_WHO: Final = ("job", "service", "server")
_COUNTERS: Final = (
    ("queue", {"jobs waiting": "queued_jobs"}),
    ("GPUs asked for by the queue", {"GPUs": "queued_gpus"}),
    ("GPUs held", {"GPUs": "busy_gpus"}),
    ("jobs on several servers", {"jobs": "spanning_jobs"}),
    ("mean contention", {"p_j": "mean_contention"}),
)

Event = dict[str, Any]


def write_trace(outcome: Outcome, window: Window, file: BinaryIO, *, compress: bool) -> int:
    """Writes the window of a result as one JSON object; the same result gives the same bytes.

    Returns the number of events. Raises UsageError where it holds more than a million slices, and InputError
    where a server holds more GPUs than it has.
    """
    events = trace_events(outcome, window)
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


def trace_events(outcome: Outcome, window: Window) -> Iterator[Event]:
    """The trace's events: names first, then slices, then counters."""
    frame = held_rows(outcome, window.servers)
    kept = window.cut(frame.with_row_index("row"))
    slices = int(kept["gpus"].sum())
    if slices > MOST_SLICES:
        raise UsageError(
            f"{slices:,} slices: expected at most {MOST_SLICES:,}; cut it by --from, --to or --servers"
        )
    # Lanes come from the whole run, so that a job keeps its place whatever the window.
    rows = dict(zip(kept["row"].to_list(), kept.iter_rows(named=True), strict=True))
    elastic = "resizes" in outcome.summary
    threads, lanes = _threads(frame, outcome, window)
    yield from _names(outcome, window, threads)
    for lane in lanes:
        if lane.row in rows:
            row = rows[lane.row]
            job = row["level"] < len(LEVELS)
            yield from _slices(lane, row, elastic=elastic) if job else _replica(lane, row)
    for server, start, end, cause in down_times(outcome, window).iter_rows():
        yield from _down(server, start * _US, end * _US, cause, len(threads[server]))
    yield from _cluster_counters(outcome, window)
    yield from _server_counters(frame, window)


def _threads(
    frame: pl.DataFrame, outcome: Outcome, window: Window
) -> tuple[dict[int, list[str]], list[Lane]]:
    """The names of each server's lanes, and which of them each row holds."""
    sizes = server_gpus(outcome)
    if "gpu" not in frame.columns:
        names = {server: [f"GPU {gpu}" for gpu in range(sizes[server])] for server in window.servers}
        return names, assign_lanes(frame, outcome)
    held = assign_shares(frame, outcome)
    most: dict[tuple[int, int], int] = {}
    for row in held:
        most[row.server, row.gpu] = max(row.nth, most.get((row.server, row.gpu), 0))
    names, first = {}, {}
    for server in window.servers:
        names[server] = texts = list[str]()
        for gpu in range(sizes[server]):
            first[server, gpu] = len(texts)
            shares = (
                f"GPU {gpu} \N{MIDDLE DOT} {_ordinal(n)} share"
                for n in range(2, 2 + most.get((server, gpu), 0))
            )
            texts.extend((f"GPU {gpu}", *shares))
    return names, [Lane(row.row, row.server, first[row.server, row.gpu] + row.nth, 1) for row in held]


def _ordinal(number: int) -> str:
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _names(outcome: Outcome, window: Window, threads: Mapping[int, list[str]]) -> Iterator[Event]:
    # First: by this event outputs.py knows a trace of ours.
    yield _meta("process_name", CLUSTER, name="cluster")
    yield _meta("process_sort_index", CLUSTER, sort_index=-1)
    sizes = server_gpus(outcome)
    about = [
        [group[key] for key in ("vc", "gpu_type") if group.get(key)]
        for group in outcome.run["cluster"]["servers"]
        for _ in range(group["count"])
    ]
    for server in window.servers:
        process = FIRST_SERVER + server
        facts = ", ".join([f"{sizes[server]} GPUs", *about[server]])
        yield _meta("process_name", process, name=f"server {server} ({facts})")
        yield _meta("process_sort_index", process, sort_index=server)
        for lane, name in enumerate(threads[server]):
            yield _meta("thread_name", process, lane + 1, name=name)
            yield _meta("thread_sort_index", process, lane + 1, sort_index=lane)


def _meta(what: str, process: int, thread: int = 0, **arguments: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": arguments}


def _slices(lane: Lane, row: dict[str, Any], *, elastic: bool) -> Iterator[Event]:
    """One slice a lane. Viewers that choose colours themselves do so by the name, so it holds the level.

    elastic: whether jobs may be resized.
    """
    arguments = {
        "job": row["job_id"],
        "GPUs": row["job_gpus"],
        "servers": row["num_servers"],
        "largest contention": row["max_contention"],
        "waited, s": row["waited"],
        "slowdown": row["slowdown"],
    }
    arguments |= {name: row[name] for name in ("share", "user", "vc") if row.get(name) is not None}
    if elastic:
        arguments |= {"GPUs": row["held"], "GPUs asked for": row["job_gpus"]}
    if row["before"] is not None:
        arguments["resized from"] = row["before"]
    if row["began"] != "first":
        arguments["began"] = row["began"]
    if row["ended"] != "done":
        arguments["ended"] = row["ended"]
    arguments |= {f"ended by {who}": row[f"by_{who}"] for who in _WHO if row[f"by_{who}"] is not None}
    start = row["start"] * _US
    event = {
        "ph": "X",
        "name": f"{LEVELS[row['level']]}: {row['job_id']}",
        "cat": LEVELS[row["level"]],
        "cname": COLOURS[row["level"]],
        "pid": FIRST_SERVER + lane.server,
        "ts": start,
        "dur": max(row["end"] * _US - start, 0.0),
        "args": arguments,
    }
    for thread in range(lane.first, lane.first + lane.width):
        yield event | {"tid": thread + 1}


def _replica(lane: Lane, row: dict[str, Any]) -> Iterator[Event]:
    """A replica of a service: one slice a lane."""
    start = row["start"] * _US
    event = {
        "ph": "X",
        "name": f"service: {row['job_id']}",
        "cat": "service",
        "cname": "rail_response",
        "pid": FIRST_SERVER + lane.server,
        "ts": start,
        "dur": max(row["end"] * _US - start, 0.0),
        "args": {"service": row["job_id"], "GPUs": row["gpus"], "ended": row["ended"]},
    }
    for thread in range(lane.first, lane.first + lane.width):
        yield event | {"tid": thread + 1}


def _down(server: int, start: float, end: float, cause: str, lanes: int) -> Iterator[Event]:
    """An outage: a grey slice on every lane of the server."""
    event = {
        "ph": "X",
        "name": f"down: {cause}",
        "cat": "down",
        "cname": "grey",
        "pid": FIRST_SERVER + server,
        "ts": start,
        "dur": max(end - start, 0.0),
        "args": {"cause": cause},
    }
    for thread in range(lanes):
        yield event | {"tid": thread + 1}


def _cluster_counters(outcome: Outcome, window: Window) -> Iterator[Event]:
    state = cluster_state(outcome, window)
    for name, series in _COUNTERS:
        for title, column in series.items():
            for time, value in state[column].iter_rows():
                yield _counter(name, CLUSTER, time * _US, title, value)


def _server_counters(frame: pl.DataFrame, window: Window) -> Iterator[Event]:
    """On each server the number of spanning jobs: what the window finds, then every change in it."""
    # Not cut by the window, whose ends are no changes.
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
        steps.filter(pl.col("time") <= window.start)
        .group_by("server", maintain_order=True)
        .last()
        .filter(pl.col("jobs") > 0)
        .with_columns(time=pl.lit(window.start))
    )
    inside = steps.filter((pl.col("time") > window.start) & (pl.col("time") <= window.end))
    for server, time, jobs in pl.concat((found, inside)).sort("server", "time").iter_rows():
        yield _counter("spanning jobs", FIRST_SERVER + server, time * _US, "jobs", jobs)


def _counter(name: str, process: int, time: float, title: str, value: float) -> Event:
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": time, "args": {title: value}}


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
