"""How full a placement packs a cluster: jobs ask in random order, and none ever leaves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.deprecation import renamed
from ringbco.errors import InputError
from ringbco.io.bridge import open_arrays
from ringbco.result.metrics import column
from ringbco.run.frames import explain
from ringbco.run.options import as_cluster, integer, refusal
from ringbco.trace import gpu_type_choices
from ringbco.trace.cpu_memory import requested as asked_beside
from ringbco.trace.forms import forms, refuse
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ringbco.trace.shares import MILLI_GPU, thousandths

MOST_ASKED: Final = 100.0
"""The most that may be asked for, in capacities of the cluster."""
MOST_RUNS: Final = 10_000
STEP: Final = 0.1


@dataclass(frozen=True)
class Packing:
    """How much of all GPUs was allocated when so much of them had been asked for. All are shares of 1.

    asked: 0, 0.1, ... and `until`. allocated: of each seed, one value for each of `asked`. mean: that of
    `allocated` over the seeds. refused: of each seed, how many jobs found no room. with_cpu: whether CPU and
    memory counted.
    without_gpus: how many jobs beside `jobs` asked for CPU and memory alone; they count in `refused` too.
    too_large: job_id of each job that no server has the GPUs, the CPU and the memory for. They ask like all
    others, and find no room.
    """

    placement: str
    jobs: int
    gpus: int
    until: float
    seeds: tuple[int, ...]
    asked: tuple[float, ...]
    allocated: tuple[tuple[float, ...], ...]
    mean: tuple[float, ...]
    refused: tuple[int, ...]
    with_cpu: bool
    without_gpus: int
    too_large: tuple[str, ...] = ()

    @property
    def allocated_at_end(self) -> float:
        """The share of all GPUs that was allocated when `until` had been asked for, mean over the seeds."""
        return self.mean[-1]

    at_the_end = renamed("at_the_end", "allocated_at_end")

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def pack(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    placement: str = "fgd",
    *,
    until: float = 1.3,
    seed: int = 0,
    runs: int = 1,
    gpus_only: bool = False,
) -> Packing:
    """Packs jobs in random order until `until` x the cluster's GPUs have been asked for (docs/shares.md).

    The order is a permutation of the rows; should that not ask for enough, rows drawn at random follow.
    Durations and times of submission do not count. A job that finds no room is turned away.

    CPU and memory count where the jobs have the columns cpu_milli and memory_mib and the servers of the
    cluster have both too. A job that no server can hold is turned away whenever it asks, then, and told.
    gpus_only: whether to leave CPU and memory out all the same.

    placement: one that gives shares of a GPU. runs: how many orders; those of `seed`, `seed` + 1 and so on.

    Raises InputError where CPU and memory do not count and the cluster can never hold a job, UsageError for a
    bad option.
    """
    if not isinstance(until, int | float) or not 0.0 < until <= MOST_ASKED:
        raise refusal("until", until, f"a number > 0 and <= {MOST_ASKED:g}")
    seed = integer("seed", seed, 0, 2**64 - MOST_RUNS)
    runs = integer("runs", runs, 1, MOST_RUNS)
    cluster = as_cluster(cluster, None)
    if cluster.server_vc is not None:
        raise InputError(
            f"cluster {cluster.name}: has virtual clusters, and packing is for one cluster",
            hint="give the servers no vc, or --vc pool",
        )
    table = as_table(jobs)
    refuse(table, "packing")
    columns, servers = _columns(table, cluster)
    shares = columns.get("shares")
    gpus = column(table.frame, "num_gpus").astype(np.int64) * MILLI_GPU
    milli_gpus = gpus if shares is None else np.where(shares > 0, shares, gpus)
    beside = None if gpus_only else _cpu_memory(table, cluster)
    if beside is not None:
        milli_gpus = np.concatenate([milli_gpus, np.zeros(beside[0].size - milli_gpus.size, dtype=np.int64)])
    capacity = cluster.num_gpus * MILLI_GPU
    # Whole steps first, then the rest of the way.
    steps = [number * STEP for number in range(int(until / STEP + 1e-9) + 1)]
    asked = [*steps, until] if until - steps[-1] > 1e-9 else steps
    allocated, refused = [], []
    open_arrays()
    too_large: list[int] = []
    for own in range(seed, seed + runs):
        order = _order(milli_gpus, until * capacity, np.random.default_rng(own))
        options = {"placement": placement, "order": "fifo", "model": "fixed", "seed": own}
        try:
            placed, too_large = _core.pack(columns, servers, options, order, beside)
        except _core.CoreError as error:
            raise explain(error, table) from None
        allocated.append(_curve(milli_gpus[order], placed, [share * capacity for share in asked], capacity))
        refused.append(int(np.count_nonzero(~placed)))
    mean = tuple(float(value) for value in np.mean(allocated, axis=0))
    return Packing(
        placement,
        table.num_jobs,
        cluster.num_gpus,
        float(until),
        tuple(range(seed, seed + runs)),
        tuple(round(share, 9) for share in asked),
        tuple(allocated),
        mean,
        tuple(refused),
        beside is not None,
        int(milli_gpus.size) - table.num_jobs,
        tuple(str(job) for job in table.frame["job_id"].gather(too_large)),
    )


def _cpu_memory(table: JobTable, cluster: Cluster) -> list[NDArray[np.uint64]] | None:
    """CPU and memory that jobs ask for, then what the servers have; None unless both are known."""
    wanted = None if cluster.server_cpu_memory is None else asked_beside(table)
    if wanted is None:
        return None
    has = np.array(cluster.server_cpu_memory, dtype=np.uint64)
    return [np.ascontiguousarray(column) for side in (wanted, has) for column in side.T]


def _columns(table: JobTable, cluster: Cluster) -> tuple[_core._Jobs, _core._Cluster]:
    """What the engine reads. GPU types count only where some job may not use all of them."""
    frame = table.frame
    none = np.zeros(0)
    columns: _core._Jobs = {
        "submit": column(frame, "submit_time"),
        "num_gpus": column(frame, "num_gpus"),
        "duration": column(frame, "duration"),
        "iterations": none.astype(np.uint64),
        "gradient_bytes": none,
        "compute_time": none,
        "shares": thousandths(frame),
        "forms": forms(table, ()),
    }
    servers: _core._Cluster = {"server_gpus": cluster.server_gpus, "network": astuple(cluster.network)}
    found = gpu_type_choices.resolve(table, cluster)
    if found is not None and any(len(kind.allowed) < len(cluster.types) for kind in found.kinds):
        columns["types"] = found.columns()
        assert cluster.server_types is not None
        servers["server_types"] = cluster.server_types.tolist()
    return columns, servers


def _order(milli_gpus: NDArray[np.int64], wanted: float, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Rows in the order in which they ask, until they have asked for so much."""
    order = rng.permutation(milli_gpus.size)
    while milli_gpus[order].sum() < wanted:
        order = np.concatenate([order, rng.integers(0, milli_gpus.size, milli_gpus.size)])
    enough = int(np.searchsorted(np.cumsum(milli_gpus[order]), wanted)) + 1
    return order[:enough].astype(np.uint32)


def _curve(
    milli_gpus: NDArray[np.int64], placed: NDArray[np.bool_], asked: Sequence[float], capacity: int
) -> tuple[float, ...]:
    """The share of the capacity that is allocated as soon as so much has been asked for."""
    given = np.concatenate([[0], np.cumsum(np.where(placed, milli_gpus, 0))])
    demanded = np.concatenate([[0], np.cumsum(milli_gpus)])
    at = np.searchsorted(demanded, np.asarray(asked) - 1e-6)
    return tuple(float(value) for value in given[at] / capacity)
