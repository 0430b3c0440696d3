"""What outages took from the jobs and from the cluster (docs/outages.md#figures)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

UNKNOWN = "unknown"
"""The cause of an outage that names none."""


@dataclass(frozen=True)
class DownTime:
    """When servers are down, at instants of the clock: a value an outage, in order of (server, down).

    down, up: s. gpus: those of the server. cause: None where the outage names none.
    """

    server: NDArray[np.int64]
    down: NDArray[np.float64]
    up: NDArray[np.float64]
    gpus: NDArray[np.int64]
    cause: Sequence[str | None]

    @classmethod
    def of(cls, outages: pl.DataFrame, server_gpus: NDArray[np.uint32]) -> DownTime:
        """Of outages as the clock sees them (`Outages.on_clock`)."""
        server = outages["server"].to_numpy().astype(np.int64)
        down, up = outages["down_at"].to_numpy(), outages["up_at"].fill_null(float("inf")).to_numpy()
        return cls(server, down, up, server_gpus[server].astype(np.int64), outages["cause"].to_list())

    def among(self, servers: NDArray[np.integer[Any]]) -> DownTime:
        """Those of some servers."""
        mine = np.isin(self.server, servers)
        cause = [cause for cause, own in zip(self.cause, mine.tolist(), strict=True) if own]
        return DownTime(self.server[mine], self.down[mine], self.up[mine], self.gpus[mine], cause)

    def gpu_seconds(self, start: float, end: float) -> float:
        """GPU-seconds of servers that were down, from `start` to `end`, s."""
        length = np.minimum(self.up, end) - np.maximum(self.down, start)
        return float((self.gpus * np.maximum(length, 0.0)).sum())


def failures(stays: Mapping[str, NDArray[Any]], causes: Sequence[str | None]) -> dict[str, Any]:
    """What a summary says of stays that ended as a server failed, of jobs that were done.

    stays: gpus (less than 1 of a share), lost_time (s), by (the outage's number). causes: of each outage.
    """
    lost = stays["gpus"] * stays["lost_time"]
    names = [causes[outage] or UNKNOWN for outage in stays["by"].tolist()]
    by_cause: dict[str, float] = {}
    for cause, seconds in sorted(zip(names, lost.tolist(), strict=True)):
        by_cause[cause] = by_cause.get(cause, 0.0) + seconds / 3600.0
    return {
        "failures": int(lost.size),
        "lost_work_gpu_seconds": float(lost.sum()),
        "lost_gpu_hours_by_cause": by_cause,
    }


def used(
    held: float, paused: float, lost: float, ideal: NDArray[np.float64], taken: NDArray[np.float64]
) -> dict[str, float]:
    """How much of the GPU time held, and of the jobs' time, went into work that counts.

    held, paused, lost: GPU-seconds. ideal: ideal run time of each job, s. taken: from its first start to its
    finish, s.
    """
    return {
        "goodput": 1.0 - (paused + lost) / held if held > 0 else 1.0,
        # One that took no time was not held up.
        "effective_training_time_ratio": float(
            np.divide(ideal, taken, out=np.ones_like(taken), where=taken > 0).mean()
        ),
    }
