"""What each stay of a job or a replica holds of a server, for a trace: worked out from allocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from ringbco.result.outcome import Outcome
from ringbco.result.stays import stays_of_done

LEVELS = ("one server", "spans alone", "shares links", "crowded", "jammed")
"""Contention met by a job: p_j of 0, 1, 2, 3 to 4, and 5 or more."""
_REPLICA: Final = len(LEVELS)
"""The level of what holds GPUs and is no job: a replica of a service."""
_TOLD: Final = ("began", "ended", "by_job", "by_service", "by_server")


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
        rows = rows.with_columns(spans=pl.lit(value=False), level=pl.lit(_REPLICA, pl.Int64))
        frame = pl.concat((frame, rows), how="diagonal")
    return frame.sort("server", "start", "end", maintain_order=True)
