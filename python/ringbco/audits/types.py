"""GPU types that differ: what each job may use and how fast it is there, worked out from the files alone.

A gang holds GPUs of one type, one that its job may use. Where types change nothing there is nothing to check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

    from ringbco.cluster.spec import Cluster


@dataclass(frozen=True)
class Types:
    """server: the type of each.

    speedup[row, type]: beside the type recorded on; NaN where not allowed. listed[row, type]: its place among
    those that the job lists; infinite where not allowed.
    """

    server: NDArray[np.int64]
    speedup: NDArray[np.float64]
    listed: NDArray[np.float64]

    def of_stays(
        self, pair_stay: NDArray[np.int64], pair_server: NDArray[np.int64], stays: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The type of each stay's first server, and whether it has servers of other types too.

        The pairs are those of `AllocatedStays`.
        """
        of = self.server[np.minimum(pair_server, self.server.size - 1)]
        first = np.zeros(stays, dtype=np.int64)
        first[pair_stay[::-1]] = of[::-1]
        mixed = np.zeros(stays, dtype=np.bool_)
        mixed[pair_stay[of != first[pair_stay]]] = True
        return first, mixed


def read_types(frame: pl.DataFrame, cluster: Cluster, *, always: bool = False) -> Types | None:
    """What the job table and the cluster say; None where no server names a type, or all GPUs are alike.

    always: not None in the second case either.
    """
    if cluster.server_gpu_type is None:
        return None
    names = [str(label).lower() for label in cluster.server_gpu_type]
    types = list(dict.fromkeys(names))
    asked, of = distinct(frame, "gpu_type", "recorded_on", "model")
    rows = [_allowed(listed, on, model, types, cluster) for listed, on, model in asked]
    shape = (len(rows), len(types))
    speedup, listed = (np.array([row[i] for row in rows], np.float64).reshape(shape)[of] for i in (0, 1))
    if not always and len(types) == 1 and (speedup == 1.0).all():
        return None
    return Types(np.array([types.index(name) for name in names], np.int64), speedup, listed)


def distinct(frame: pl.DataFrame, *names: str) -> tuple[list[tuple[Any, ...]], NDArray[np.int64]]:
    """The distinct rows of some columns, None for one that is not there; and which of them each row is."""
    there = [name for name in names if name in frame.columns]
    if not there or not frame.height:
        return [(None,) * len(names)][: frame.height], np.zeros(frame.height, np.int64)
    own = frame.select(there)
    rows = own.unique(maintain_order=True)
    of = own.join(rows.with_row_index("_of"), on=there, how="left", nulls_equal=True, maintain_order="left")
    columns = [rows[name].to_list() if name in there else [None] * rows.height for name in names]
    return list(zip(*columns, strict=True)), of["_of"].to_numpy().astype(np.int64)


def recorded_type(asked: str | None, recorded: str | None, types: list[str], cluster: Cluster) -> str:
    """The type on which a job was recorded: as it or the recorded cluster says, else its first here."""
    if (recorded or "").strip():
        return str(recorded).strip()
    labels = cluster.recorded.server_gpu_type if cluster.recorded is not None else None
    if labels is not None and labels[0] is not None:
        return labels[0]
    listed = [name.strip().lower() for name in (asked or "").split("|")]
    return next((name for name in listed if name in types), types[0])


def _allowed(
    asked: str | None, recorded: str | None, model: str | None, types: list[str], cluster: Cluster
) -> tuple[list[float], list[float]]:
    """Of a job, by type: its speed beside that on the type recorded on, and the type's place in its list."""
    allowed = [name.strip().lower() for name in (asked or "").split("|") if name.strip()]
    there = [name for name in allowed if name in types]
    recorded = recorded_type(asked, recorded, types, cluster)

    def speed(name: str) -> float:
        fact = cluster.find_type(name)
        if fact is None:
            return np.nan
        return fact.models.get(model, fact.speed) if model is not None else fact.speed

    own = speed(recorded)
    may = list(dict.fromkeys(there)) if allowed else types
    return (
        [speed(name) / own if name in may else np.nan for name in types],
        [float(may.index(name)) if name in may else np.inf for name in types],
    )
