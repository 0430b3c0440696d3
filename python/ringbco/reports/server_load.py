"""The servers of a result, and spanning jobs on each over time, worked out from its allocations."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.result import metrics
from ringbco.result.outcome import Outcome


def server_gpus(outcome: Outcome) -> list[int]:
    """The GPUs of each server, from the run's own record."""
    groups = outcome.run.get("cluster", {}).get("servers", [])
    return [group["gpus"] for group in groups for _ in range(group["count"])]


def spanning_stretches(allocations: pl.DataFrame) -> pl.DataFrame:
    """The stretches of jobs that held GPUs on several servers at once.

    Where rows are those of GPUs, each server has one of them here.
    """
    if "gpu" in allocations.columns:
        keys = ["job_id", "stay", "server"]
        allocations = allocations.unique(keys, keep="first", maintain_order=True)
    return allocations.filter(pl.len().over("job_id", "stay") > 1)


def mean_spanning(
    allocations: pl.DataFrame, num_servers: int, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mean number of spanning jobs on each server between each two neighbouring `edges` (s, even steps).

    Shape (num_servers, len(edges) - 1). Of a spanning job alone on its servers, p_j is 1; its contention at a
    time is the largest of these numbers over its servers (equation 6).
    """
    spanning = spanning_stretches(allocations)
    server = metrics.column(spanning, "server").astype(np.int64)
    started = _seconds_since(server, metrics.column(spanning, "start_time"), num_servers, edges)
    ended = _seconds_since(server, metrics.column(spanning, "end_time"), num_servers, edges)
    # The clip takes away what rounding leaves where nothing ran.
    held = np.clip(np.diff(started - ended, axis=1), 0.0, None)
    mean: NDArray[np.float64] = held / np.diff(edges)
    mean[mean < 1e-6] = 0.0
    return mean


def _seconds_since(
    server: NDArray[np.int64], instants: NDArray[np.float64], num_servers: int, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For each server and edge, the sum over its `instants` before the edge of the seconds since them."""
    relative = edges - edges[0]
    since = np.maximum(instants - edges[0], 0.0)
    bins = edges.size
    # The first edge at or after the instant: from there on the instant counts.
    place = np.searchsorted(relative, since, side="left")
    inside = place < bins
    flat = server[inside] * bins + place[inside]
    count = np.bincount(flat, minlength=num_servers * bins).reshape(num_servers, bins).cumsum(axis=1)
    total = np.bincount(flat, weights=since[inside], minlength=num_servers * bins)
    since_all: NDArray[np.float64] = count * relative - total.reshape(num_servers, bins).cumsum(axis=1)
    return since_all
