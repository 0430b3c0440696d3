"""Which GPUs of a server each stretch holds: lanes for a drawing, worked out from allocations."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import groupby
from typing import Final, NamedTuple

import polars as pl

from ringbco.errors import InputError
from ringbco.reports.server_load import server_gpus
from ringbco.result.outcome import Outcome
from ringbco.result.stays import stays_of_done

LEVELS = ("one server", "spans alone", "shares links", "crowded", "jammed")
"""Contention met by a job: p_j of 0, 1, 2, 3 to 4, and 5 or more."""
REPLICA = "replica of a service"
"""What holds GPUs and is no job; its level is the one after those of `LEVELS`."""
EVICTED = "evicted: made room for another"
"""How the end of a stretch is marked that an eviction ended."""
RESIZED = "resized: other GPUs from here on"
"""How the start of a stretch is marked whose job held another number of GPUs up to that instant."""
_TOLD: Final = ("began", "ended", "by_job", "by_service", "by_server")


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


def held_rows(outcome: Outcome, servers: Sequence[int] | None = None) -> pl.DataFrame:
    """The allocations on `servers` (all by default) by server and start, each with its stay and its job.

    Columns: job_id, server, gpus, start, end; of the job job_gpus, num_servers, max_contention, level,
    waited, slowdown and, where the result has them, user and vc; of the stay spans (whether it was on other
    servers too), held (GPUs on all servers), before (GPUs held until the job was resized, else null), began,
    ended, by_job, by_service and by_server.
    Jobs that were ended before they were done are left out. Replicas of services are among the rows: job_id
    is the service's name, and what only jobs have is null.
    """
    assert outcome.allocations is not None
    jobs = outcome.jobs.select(
        "job_id",
        pl.col("num_gpus").alias("job_gpus"),
        "num_servers",
        "max_contention",
        level(pl.col("max_contention")).alias("level"),
        "waited",
        "slowdown",
        *(name for name in ("user", "vc") if name in outcome.jobs.columns),
    )
    stays = stays_of_done(outcome.stays, outcome.jobs).select(
        "job_id", "stay", "before", *_TOLD, held="num_gpus", spans=pl.col("num_servers") > 1
    )
    among = pl.lit(value=True) if servers is None else pl.col("server").is_in(list(servers))
    frame = (
        outcome.allocations.filter(among)
        .join(stays, on=["job_id", "stay"], how="inner", maintain_order="left")
        .join(jobs, on="job_id", how="inner", maintain_order="left")
        .rename({"num_gpus": "gpus", "start_time": "start", "end_time": "end"})
    )
    if outcome.replicas is not None:
        names = {"service": "job_id", "num_gpus": "gpus", "start_time": "start", "end_time": "end"}
        rows = outcome.replicas.filter(among).rename(names)
        rows = rows.with_columns(spans=pl.lit(value=False), level=pl.lit(len(LEVELS), pl.Int64))
        frame = pl.concat((frame, rows), how="diagonal")
    return frame.sort("server", "start", "end", maintain_order=True)


def assign_lanes(frame: pl.DataFrame, outcome: Outcome) -> list[Lane]:
    """Lanes for every row of `held_rows`: each takes the lowest that are free on its server when it starts.

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

    resized = frame["before"].is_not_null()
    any_resized = resized.any()
    columns = (frame[name].to_list() for name in ("server", "gpus", "start", "end", "job_id"))
    rows = enumerate(zip(*columns, resized.to_list(), strict=True))
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
            if any_resized:
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
