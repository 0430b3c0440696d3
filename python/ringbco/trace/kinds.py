"""On which GPU types each job may run, and how fast it is there (docs/heterogeneous.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.gpu_types import listed_types, type_key
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.trace.jobs import JobTable

_COLUMNS: Final = ("gpu_type", "recorded_on", "model")


@dataclass(frozen=True)
class Kind:
    """What jobs of one kind have in common.

    recorded_speed: the speed, for the job's model, of the type on which it was recorded.
    allowed: the types it may run on, as (index into the cluster's types, speed for the job's model), in the
        order in which gpu_type lists them, or the cluster's where it lists none; () if the cluster has none.
    """

    recorded_speed: float
    allowed: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Kinds:
    """The kind of each row, as an index into `kinds`."""

    of: NDArray[np.uint32]
    kinds: tuple[Kind, ...]


def resolve(table: JobTable, cluster: Cluster) -> Kinds | None:
    """The kinds of the jobs; None where GPU types change nothing.

    That is so where no server names a type, and where all are of one type on which every job may run and is
    as fast as it was recorded. Raises InputError for the first job that was recorded on a type nobody knows.
    """
    if not cluster.types:
        return None
    by_model = any("models" in told for told in cluster.gpu_types.values())
    names = [name for name in _COLUMNS if name in table.frame.columns and (name != "model" or by_model)]
    if names:
        said = table.frame.select(pl.col(names).fill_null(""))
        distinct = said.unique(maintain_order=True).with_row_index("number")
        numbers = said.join(distinct, on=names, how="left", maintain_order="left")["number"].to_numpy()
        rows = distinct.drop("number").to_dicts()
    else:
        numbers, rows = np.zeros(table.num_jobs, dtype=np.uint32), [{}]
    index = {type_key(name): number for number, name in enumerate(cluster.types)}
    found: dict[Kind, int] = {}
    kind_of = np.empty(len(rows), dtype=np.uint32)
    for number, row in enumerate(rows):
        try:
            kind = _kind(cluster, index, **row)
        except InputError as error:
            raise InputError(
                error.expected,
                file=table.source,
                row=int(np.argmax(numbers == number)) + 1,
                column="recorded_on",
                value=error.value,
                hint=error.hint,
            ) from None
        kind_of[number] = found.setdefault(kind, len(found))
    kinds = tuple(found)
    if len(cluster.types) == 1 and all(kind.allowed == ((0, kind.recorded_speed),) for kind in kinds):
        return None
    return Kinds(kind_of[numbers], kinds)


def _kind(
    cluster: Cluster, index: Mapping[str, int], gpu_type: str = "", recorded_on: str = "", model: str = ""
) -> Kind:
    """The kind of a job whose row says so; `index`: the number of each of the cluster's types by its key."""
    listed = listed_types(gpu_type)
    allowed = list(dict.fromkeys(index[type_key(name)] for name in listed if type_key(name) in index))
    recorded = recorded_on.strip() or cluster.recorded_type or cluster.types[allowed[0] if allowed else 0]
    if not listed:
        allowed = list(range(len(cluster.types)))
    return Kind(
        cluster.speed(recorded, model),
        tuple((number, cluster.speed(cluster.types[number], model)) for number in allowed),
    )
