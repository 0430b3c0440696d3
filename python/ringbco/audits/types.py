"""GPU types that differ: what each job may use and how fast it is there, worked out from the files alone.

A gang holds GPUs of one type, one that its job may use. Where types change nothing there is nothing to check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

    from ringbco.cluster.spec import Cluster


@dataclass(frozen=True)
class Types:
    """server: the type of each. speedup[row, type]: beside the type recorded on; NaN where not allowed."""

    server: NDArray[np.int64]
    speedup: NDArray[np.float64]

    def of_episodes(
        self, pair_episode: NDArray[np.int64], pair_server: NDArray[np.int64], episodes: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The type of each episode's first server, and whether it has servers of other types too.

        The pairs are those of `contention.Episodes`.
        """
        of = self.server[np.minimum(pair_server, self.server.size - 1)]
        first = np.zeros(episodes, dtype=np.int64)
        first[pair_episode[::-1]] = of[::-1]
        mixed = np.zeros(episodes, dtype=np.bool_)
        mixed[pair_episode[of != first[pair_episode]]] = True
        return first, mixed


def read_types(frame: pl.DataFrame, cluster: Cluster) -> Types | None:
    """What the job table and the cluster say; None where no server names a type, or all GPUs are alike."""
    if cluster.server_gpu_type is None:
        return None
    names = [str(label).lower() for label in cluster.server_gpu_type]
    types = list(dict.fromkeys(names))
    columns = [
        frame[name].to_list() if name in frame.columns else [None] * frame.height
        for name in ("gpu_type", "recorded_on", "model")
    ]
    known: dict[tuple[str | None, str | None, str | None], list[float]] = {}
    rows = [
        known[asked] if asked in known else known.setdefault(asked, _speedups(*asked, types, cluster))
        for asked in zip(columns[0], columns[1], columns[2], strict=True)
    ]
    speedup = np.array(rows, dtype=np.float64).reshape(frame.height, len(types))
    if len(types) == 1 and (speedup == 1.0).all():
        return None
    return Types(np.array([types.index(name) for name in names], dtype=np.int64), speedup)


def _speedups(
    asked: str | None, recorded: str | None, model: str | None, types: list[str], cluster: Cluster
) -> list[float]:
    """Of a job, by type: its speed there divided by its speed on the type on which it was recorded."""
    allowed = [name.strip().lower() for name in (asked or "").split("|") if name.strip()]
    there = [name for name in allowed if name in types]
    if not (recorded or "").strip():
        labels = cluster.recorded.server_gpu_type if cluster.recorded is not None else None
        recorded = labels[0] if labels is not None else (there or types)[0]

    def speed(name: str) -> float:
        fact = cluster.find_type(name)
        if fact is None:
            return np.nan
        return fact.models.get(model, fact.speed) if model is not None else fact.speed

    own = speed(str(recorded).strip())
    may = set(there) if allowed else set(types)
    return [speed(name) / own if name in may else np.nan for name in types]
