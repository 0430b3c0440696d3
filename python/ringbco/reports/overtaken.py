"""How much of the waiting is of jobs that later ones overtook: more GPUs are not what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ringbco.reports.server_load import server_gpus

if TYPE_CHECKING:
    from ringbco.result.outcome import Outcome

_INSTANTS: Final = 100


def overtaken(outcome: Outcome) -> float:
    """The share of the time waited for GPUs in which jobs submitted later held enough of them.

    Found at even steps through all of that time, where too few GPUs are idle: a job is overtaken if those of
    jobs submitted after it would do. 0 where GPUs are not alike for all jobs.
    """
    groups = outcome.run.get("cluster", {}).get("servers", [])
    apart = any(len({group.get(name) for group in groups}) > 1 for name in ("vc", "gpu_type"))
    if apart or "gpu_share" in outcome.jobs.columns:
        return 0.0
    submitted = outcome.jobs.select("job_id", "submit_time", asks="num_gpus")
    stays = outcome.stays.join(submitted, on="job_id", how="inner", maintain_order="left")
    left = pl.col("end_time").shift().over("job_id")
    since = pl.min_horizontal(pl.coalesce(left, "submit_time"), "start_time")
    begin, start, end, submit = (
        stays.select(column).to_series().to_numpy()
        for column in (since, "start_time", "end_time", "submit_time")
    )
    held, asks = (stays[name].to_numpy().astype(np.int64) for name in ("num_gpus", "asks"))
    waited = np.cumsum(stays["wait_gpus"].to_numpy().astype(np.float64))
    if not waited.size or waited[-1] <= 0.0:
        return 0.0
    gpus, found, short = sum(server_gpus(outcome)), 0, 0
    for place in (np.arange(_INSTANTS) + 0.5) / _INSTANTS * waited[-1]:
        row = int(np.searchsorted(waited, place))
        before = waited[row - 1] if row else 0.0
        now = begin[row] + (start[row] - begin[row]) * (place - before) / (waited[row] - before)
        running = (start <= now) & (now < end)
        later = running & (submit > submit[row])
        lacks = asks[row] - (gpus - held[running].sum())
        short += bool(lacks > 0)
        found += bool(0 < lacks <= held[later].sum())
    return found / max(short, 1)
