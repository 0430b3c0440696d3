"""The servers of a result, and spanning jobs on each over time, worked out from its allocations."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.hostlist import names_of
from ringbco.result import metrics
from ringbco.result.outcome import Outcome


def server_gpus(outcome: Outcome) -> list[int]:
    """The GPUs of each server, from the run's own record."""
    groups = outcome.run.get("cluster", {}).get("servers", [])
    return [group["gpus"] for group in groups for _ in range(group["count"])]


def server_names(outcome: Outcome) -> list[str | None]:
    """The name of each server, None for one without."""
    return names_of(outcome.run.get("cluster", {}).get("servers", []))


def called(servers: pl.Expr, outcome: Outcome) -> pl.Expr:
    """What servers are called, by index: the name of each, else that; the same where none has a name."""
    named = {server: name for server, name in enumerate(server_names(outcome)) if name is not None}
    if not named:
        return servers
    return servers.replace_strict(named, default=servers.cast(pl.String), return_dtype=pl.String)


def spanning_stays(allocations: pl.DataFrame) -> pl.DataFrame:
    """The stays of jobs that held GPUs on several servers at once.

    Where rows are those of GPUs, each server has one of them here.
    """
    if "gpu" in allocations.columns:
        keys = ["job_id", "stay", "server"]
        allocations = allocations.unique(keys, keep="first", maintain_order=True)
    return allocations.filter(pl.len().over("job_id", "stay") > 1)


def mean_spanning(
    allocations: pl.DataFrame, rows: NDArray[np.int64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mean number of spanning jobs on a server of each row, between each two neighbouring `edges`.

    rows: the first server of each row, and the end of the last. edges: s, in even steps. Shape of the result:
    (len(rows) - 1, len(edges) - 1). Of a spanning job alone on its servers, p_j is 1; its contention is the
    largest of the numbers of its servers (equation 6).
    """
    spanning = spanning_stays(allocations)
    row = np.searchsorted(rows, metrics.column(spanning, "server"), side="right") - 1
    started = _seconds_since(row, metrics.column(spanning, "start_time"), rows.size - 1, edges)
    ended = _seconds_since(row, metrics.column(spanning, "end_time"), rows.size - 1, edges)
    # The clip takes away what rounding leaves where nothing ran.
    held = np.clip(np.diff(started - ended, axis=1), 0.0, None)
    mean: NDArray[np.float64] = held / np.diff(edges) / np.diff(rows)[:, None]
    mean[mean < 1e-6] = 0.0
    return mean


def _seconds_since(
    row: NDArray[np.int64], instants: NDArray[np.float64], rows: int, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For each row and edge, the sum over its `instants` before the edge of the seconds since them."""
    relative = edges - edges[0]
    since = np.maximum(instants - edges[0], 0.0)
    bins = edges.size
    # The first edge at or after the instant: from there on the instant counts.
    place = np.searchsorted(relative, since, side="left")
    inside = place < bins
    flat = row[inside] * bins + place[inside]
    count = np.bincount(flat, minlength=rows * bins).reshape(rows, bins).cumsum(axis=1)
    total = np.bincount(flat, weights=since[inside], minlength=rows * bins)
    since_all: NDArray[np.float64] = count * relative - total.reshape(rows, bins).cumsum(axis=1)
    return since_all
