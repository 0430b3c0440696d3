"""Which GPUs of a server each stretch holds: lanes for a drawing, worked out from allocations."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import groupby, repeat
from typing import NamedTuple

import polars as pl

from ringbco.errors import InputError
from ringbco.reports.evictions import evicted
from ringbco.reports.server_load import server_gpus, spanning_stretches
from ringbco.result.outcome import Outcome
from ringbco.result.resizing import STAY, stays_of

LEVELS = ("one server", "spans alone", "shares links", "crowded", "jammed")
"""Contention met by a job: p_j of 0, 1, 2, 3 to 4, and 5 or more."""
REPLICA = "replica of a service"
"""What holds GPUs and is no job; its level is the one after those of `LEVELS`."""
EVICTED = "evicted: made room for another"
"""How the end of a stretch is marked that an eviction ended."""
RESIZED = "resized: other GPUs from here on"
"""How the start of a stretch is marked whose job held another number of GPUs up to that instant."""


class Lane(NamedTuple):
    """Neighbouring lanes of a server that one stretch holds: `width` from `first` on."""

    row: int
    server: int
    first: int
    width: int


def level(contention: pl.Expr) -> pl.Expr:
    """The place in LEVELS of a largest p_j."""
    above = (contention >= least for least in (1, 2, 3, 5))
    return pl.sum_horizontal(*above).cast(pl.Int64)


def stretches(outcome: Outcome, servers: Sequence[int] | None = None) -> pl.DataFrame:
    """The allocations on `servers` (all by default) by server and start, with each job's facts beside them.

    Columns: job_id, server, gpus, start, end, spans (whether the job held other servers too), job_gpus,
    num_servers, max_contention, level, wait_time, slowdown, evicted (whether the stretch ended so that
    another could start) and, where the result has them, user and vc. Where jobs may be resized also held (the
    job's GPUs on all servers) and before (as many as it held until it was resized, else null).
    Replicas of services are among them: job_id is the service's name, and what only jobs have is null.
    """
    assert outcome.allocations is not None
    jobs = outcome.jobs.select(
        "job_id",
        pl.col("num_gpus").alias("job_gpus"),
        "num_servers",
        "max_contention",
        level(pl.col("max_contention")).alias("level"),
        "wait_time",
        "slowdown",
        *(name for name in ("user", "vc") if name in outcome.jobs.columns),
    )
    spanning = spanning_stretches(outcome.allocations).select("job_id", "start_time").unique()
    wanted = outcome.allocations
    if servers is not None:
        wanted = wanted.filter(pl.col("server").is_in(list(servers)))
    frame = (
        wanted.join(
            spanning.with_columns(spans=pl.lit(True)),
            on=["job_id", "start_time"],
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("spans").fill_null(False))
        .join(jobs, on="job_id", how="left", maintain_order="left")
    )
    ended = evicted(outcome)
    if ended is None:
        frame = frame.with_columns(evicted=pl.lit(value=False))
    else:
        known = ended.with_columns(evicted=pl.lit(value=True))
        stay = ["job_id", "start_time", "end_time"]
        frame = frame.join(known, on=stay, how="left", maintain_order="left").with_columns(
            pl.col("evicted").fill_null(value=False)
        )
    stays = stays_of(outcome)
    if stays is not None:
        sizes = stays.select(*STAY, "before", held="gpus")
        frame = frame.join(sizes, on=STAY, how="left", maintain_order="left")
    frame = frame.rename({"num_gpus": "gpus", "start_time": "start", "end_time": "end"})
    if outcome.replicas is not None:
        held = outcome.replicas
        if servers is not None:
            held = held.filter(pl.col("server").is_in(list(servers)))
        names = {"service": "job_id", "num_gpus": "gpus", "start_time": "start", "end_time": "end"}
        rows = held.rename(names).with_columns(
            spans=pl.lit(False), level=pl.lit(len(LEVELS), pl.Int64), evicted=pl.lit(False)
        )
        frame = pl.concat((frame, rows), how="diagonal")
    return frame.sort("server", "start", "end", maintain_order=True)


def assign_lanes(frame: pl.DataFrame, outcome: Outcome) -> list[Lane]:
    """Lanes for every row of `stretches`: each takes the lowest that are free on its server when it starts.

    A job that is resized keeps lanes that it had on the server. A result does not record which GPUs of a
    server a job held, only how many; these are a possible choice.

    Raises InputError where a server would need more lanes than it has GPUs.
    """
    sizes = server_gpus(outcome)
    lanes: list[Lane] = []
    here = -1
    free: list[int] = []
    held: list[tuple[float, list[int]]] = []
    had: dict[str, list[int]] = {}

    def release(now: float) -> None:
        while held and held[0][0] <= now:
            for lane in heappop(held)[1]:
                heappush(free, lane)

    resized = frame["before"].is_not_null() if "before" in frame.columns else None
    names = frame["job_id"].to_list() if resized is not None else repeat("")
    stays = resized.to_list() if resized is not None else repeat(False)
    columns = (frame[name].to_list() for name in ("server", "gpus", "start", "end"))
    rows = enumerate(zip(*columns, names, stays, strict=False))
    for (server, start), group in groupby(rows, key=lambda row: (row[1][0], row[1][2])):
        if server != here:
            here, held, had = server, [], {}
            free = list(range(sizes[server] if server < len(sizes) else 0))
        release(start)
        together = list(group)
        kept = {}
        for row, (_, gpus, _, _, job, stays_on) in together:
            if stays_on:
                kept[row] = sorted(set(had.get(job, ())) & set(free))[:gpus]
                free = sorted(set(free) - set(kept[row]))  # sorted is a heap
        for row, (_, gpus, _, end, job, _) in together:
            release(start)
            own = kept.get(row, [])
            if gpus - len(own) > len(free):
                raise InputError(
                    f"server {server} holds more GPUs at {start:g} s than it has; `ringbco audit` says more"
                )
            taken = sorted(own + [heappop(free) for _ in range(gpus - len(own))])
            heappush(held, (end, taken))
            if resized is not None:
                had[job] = taken
            lanes.extend(_runs(row, server, taken))
    return lanes


def _runs(row: int, server: int, taken: list[int]) -> list[Lane]:
    """Ascending lanes as runs of neighbours."""
    runs = [Lane(row, server, taken[0], 1)]
    for lane in taken[1:]:
        last = runs[-1]
        if lane == last.first + last.width:
            runs[-1] = last._replace(width=last.width + 1)
        else:
            runs.append(Lane(row, server, lane, 1))
    return runs
