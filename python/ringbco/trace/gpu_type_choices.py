"""What GPU types mean to jobs: which each may run on, and how fast it is there (docs/heterogeneous.md).

Jobs that ask for the same types, were recorded on the same one and gain the same by each are of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ringbco.cluster.gpu_types import GpuType, listed_types, unknown_type
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.trace.jobs import JobTable

if TYPE_CHECKING:
    from ringbco import _core


@dataclass(frozen=True)
class GpuTypeChoice:
    """What GPU types mean to a job.

    recorded_on: the type on which it was recorded, by name, and recorded_index, its index into the cluster's
    types, None where the cluster has none of it; recorded_speed: that type's speed for the job's
    model. allowed: (index into the cluster's types, speed for the job's model), as the job lists them.
    """

    recorded_on: str
    recorded_speed: float
    allowed: tuple[tuple[int, float], ...]
    recorded_index: int | None = None

    def most_speedup(self) -> float:
        """The greatest speed allowed beside the recorded one; 1 where none is allowed."""
        return max((speed / self.recorded_speed for _, speed in self.allowed), default=1.0)


@dataclass(frozen=True)
class GpuTypeChoices:
    """The kind of every job, by its place among `kinds`."""

    of: NDArray[np.uint32]
    kinds: tuple[GpuTypeChoice, ...]

    def columns(self) -> _core._Types:
        """As the engine takes them."""
        return {
            "of": self.of,
            "kinds": [(kind.recorded_speed, kind.recorded_index, list(kind.allowed)) for kind in self.kinds],
        }

    def if_any(self, types: int) -> GpuTypeChoices | None:
        """Itself; None where they change nothing: there is one type, which all may use as recorded."""
        there = (self.kinds[number] for number in np.unique(self.of))
        plain = types == 1 and all(kind.allowed == ((0, kind.recorded_speed),) for kind in there)
        return None if plain else self

    def most_speedup(self) -> NDArray[np.float64]:
        """Of each job: how much faster than recorded it may compute."""
        return np.array([kind.most_speedup() for kind in self.kinds])[self.of]


def most_gpus(
    cluster: Cluster, kinds: GpuTypeChoices | None, vc: NDArray[np.integer[Any]] | None, jobs: int
) -> NDArray[np.int64]:
    """GPUs that each job may hold at most: of its virtual cluster, and all of one type that it may use.

    vc: of each job, an index into the cluster's; None where it has none.
    """
    number = {name: index for index, name in enumerate(cluster.vc_names)}
    one = np.zeros(cluster.num_servers, dtype=np.int64)
    server_vc = one if cluster.server_vc is None else np.array([number[name] for name in cluster.server_vc])
    server_type = one if kinds is None or cluster.server_types is None else cluster.server_types
    gpus = np.zeros((int(server_vc.max()) + 1, int(server_type.max()) + 1), dtype=np.int64)
    np.add.at(gpus, (server_vc, server_type), cluster.server_gpus)
    own = np.zeros(jobs, dtype=np.int64) if vc is None else vc
    if kinds is None:
        whole: NDArray[np.int64] = gpus[own, 0]
        return whole
    types = ([index for index, _ in kind.allowed] for kind in kinds.kinds)
    most = np.array([gpus[:, allowed].max(axis=1, initial=0) for allowed in types])
    found: NDArray[np.int64] = most[kinds.of, own]
    return found


def resolve(table: JobTable, cluster: Cluster, *, always: bool = False) -> GpuTypeChoices | None:
    """What the cluster's GPU types mean to the jobs; None where they change nothing.

    They change nothing where no server names one, and where every job may use all at its recorded speed and
    there is only one. always: not None in the second case either.

    Raises InputError for a recorded_on that neither the cluster file nor the catalogue knows.
    """
    if cluster.server_types is None:
        return None
    frame, facts = table.frame, cluster.type_facts
    names = ["gpu_type", "recorded_on"]
    if any(fact.models for fact in (*facts, *cluster.gpu_types.values())):
        names.append("model")
    there = [name for name in names if name in frame.columns]
    number = {name.casefold(): index for index, name in enumerate(cluster.types)}
    if there:
        distinct = frame.select(there).unique(maintain_order=True).with_row_index("kind")
        of = frame.select(there).join(distinct, on=there, how="left", nulls_equal=True, maintain_order="left")
        rows, index = distinct.select(there).to_dicts(), of["kind"].to_numpy().astype(np.uint32)
    else:
        rows, index = [{}], np.zeros(frame.height, np.uint32)
    found = GpuTypeChoices(index, tuple(_choice(row, table, cluster, facts, number) for row in rows))
    return found if always else found.if_any(len(facts))


def _choice(
    row: Mapping[str, str | None],
    table: JobTable,
    cluster: Cluster,
    facts: tuple[GpuType, ...],
    number: Mapping[str, int],
) -> GpuTypeChoice:
    asked = [name.casefold() for name in listed_types(row.get("gpu_type"))]
    listed = [number[name] for name in dict.fromkeys(asked) if name in number]
    allowed = listed if asked else list(range(len(facts)))
    model = row.get("model")
    recorded = (row.get("recorded_on") or "").strip() or _recorded_on(cluster, listed)
    fact = cluster.find_type(recorded)
    if fact is None:
        at = int((table.frame["recorded_on"] == row["recorded_on"]).arg_max() or 0)
        unknown = unknown_type(recorded, cluster.gpu_types, "recorded_on")
        raise InputError(
            unknown.expected,
            file=table.source,
            row=at + 1,
            column="recorded_on",
            value=recorded,
            hint=unknown.hint,
        )
    speeds = tuple((index, facts[index].speed_for(model)) for index in allowed)
    return GpuTypeChoice(recorded, fact.speed_for(model), speeds, number.get(recorded.casefold()))


def _recorded_on(cluster: Cluster, listed: list[int]) -> str:
    """The type on which a job that does not say it was recorded."""
    labels = cluster.recorded.server_gpu_type if cluster.recorded is not None else None
    if labels is not None and labels[0] is not None:
        return labels[0]
    return cluster.types[listed[0]] if listed else cluster.types[0]
