"""When servers are down, or drain (docs/outages.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ringbco.trace.outages import IS_DRAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

UNKNOWN = "unknown"
"""The cause of an outage that names none."""


@dataclass(frozen=True)
class DownTime:
    """When servers are down, at instants of the clock: one value per outage, in order of (server, down).

    down, up: s. gpus: those of the server that no job can have. cause: None where the outage names none.
    """

    server: NDArray[np.int64]
    down: NDArray[np.float64]
    up: NDArray[np.float64]
    gpus: NDArray[np.int64]
    cause: Sequence[str | None]

    @classmethod
    def of(cls, outages: pl.DataFrame, server_gpus: NDArray[np.uint32]) -> DownTime:
        """Of outages as the clock sees them (`Outages.on_clock`), without drains."""
        if "kind" in outages.columns:
            outages = outages.filter(~IS_DRAIN)
        server = outages["server"].to_numpy().astype(np.int64)
        down, up = outages["down_at"].to_numpy(), outages["up_at"].fill_null(float("inf")).to_numpy()
        return cls(server, down, up, server_gpus[server].astype(np.int64), outages["cause"].to_list())

    def with_drained(self, drained: Mapping[str, NDArray[Any]] | None) -> DownTime:
        """And the idle GPUs of servers that drain: the engine's table of that name."""
        if drained is None:
            return self
        order = np.argsort(drained["server"], kind="stable")
        server, since, gpus = (drained[name][order] for name in ("server", "time", "gpus"))
        until = np.append(since[1:], np.inf)
        until[np.append(server[1:] != server[:-1], True)] = np.inf
        return DownTime(
            np.append(self.server, server.astype(np.int64)),
            np.append(self.down, since),
            np.append(self.up, until),
            np.append(self.gpus, gpus.astype(np.int64)),
            [*self.cause, *[None] * server.size],
        )

    def among(self, servers: NDArray[np.integer[Any]]) -> DownTime:
        """Those of some servers."""
        mine = np.isin(self.server, servers)
        cause = [cause for cause, own in zip(self.cause, mine.tolist(), strict=True) if own]
        return DownTime(self.server[mine], self.down[mine], self.up[mine], self.gpus[mine], cause)

    def gpu_seconds(self, start: float, end: float) -> float:
        """GPU-seconds of servers that were down, from `start` to `end`, s."""
        length = np.minimum(self.up, end) - np.maximum(self.down, start)
        return float((self.gpus * np.maximum(length, 0.0)).sum())
