"""How low the mean completion time of a job table on a cluster can be at best."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.result.bound import Bound, by_cluster, lower_bound
from ringbco.result.metrics import column
from ringbco.run.options import as_cluster, checked
from ringbco.trace import profiles
from ringbco.trace.jobs import JobTable, TableLike, as_table, gpus_of
from ringbco.trace.noise import efficiency
from ringbco.trace.shares import asked_gpus
from ringbco.trace.workload import resolve


def bound(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    model: str = "rar",
    seed: int = 0,
    oversize: str = "error",
) -> Bound:
    """A lower bound on the mean completion time of `jobs` on `cluster`, under whatever policy.

    docs/bound.md has the proof. The arguments are those of `replay`, and the bound is of the jobs that a
    replay with them runs. With virtual clusters it is the sum over theirs. Jobs with min_gpus or max_gpus may
    be given any GPUs in their range, as a policy of one's own may do, so their bound is lower.

    Raises InputError for a job larger than its cluster (with oversize "drop" it is left out and counted) and
    where no job is left; otherwise as `replay`.
    """
    checked({"model": model, "seed": seed, "oversize": oversize})
    cluster = as_cluster(cluster, recorded_cluster)
    table = as_table(jobs)
    workload = resolve(table, cluster, {"model": model, "seed": seed})
    profiled, differ, vc = workload.profiled, workload.kinds, workload.vc
    if differ is not None:  # no run is faster than one on the fastest type alone
        profiled = replace(profiled, compute_time=profiled.compute_time / differ.most_speedup())
    work = profiles.least_work(table, cluster, profiled, model=model)
    if differ is not None and model == "fixed":
        work = work / differ.most_speedup()
    submit, asked = column(table.frame, "submit_time"), column(table.frame, "num_gpus")
    part = asked_gpus(table.frame) / asked
    least, most = gpus_of(table.frame, "min_gpus"), gpus_of(table.frame, "max_gpus")
    at_least = efficiency(table.frame, least)
    parts, dropped, elastic = {}, 0, 0
    for name, rows, gpus in _parts(table, cluster, vc):
        large = rows[asked[rows] > gpus]
        if large.size and oversize == "error":
            raise _too_large(table, int(large[0]), gpus)
        dropped += large.size
        kept = rows[asked[rows] <= gpus]
        width = np.minimum(most, gpus).astype(np.uint32)
        if kept.size:
            elastic += int(np.count_nonzero(least[kept] < most[kept]))
            shortest = work[kept] * at_least[kept] / (width[kept] * efficiency(table.frame, width)[kept])
            parts[name] = lower_bound(submit[kept], shortest, (work * part)[kept], gpus)
    if not parts:
        raise InputError("no job is left to bound: each one is larger than the cluster", file=table.source)
    return by_cluster(parts, dropped, elastic)


def _parts(
    table: JobTable, cluster: Cluster, vc: NDArray[np.uint32] | None
) -> Iterator[tuple[str, NDArray[np.intp], int]]:
    """Each (virtual) cluster: its name, the rows of its jobs, its GPUs."""
    if vc is None:
        yield "", np.arange(table.num_jobs), cluster.num_gpus
    else:
        for number, name in enumerate(cluster.vc_names):
            gpus = int(cluster.server_gpus[cluster.vc_servers(name)].sum())
            yield name, np.flatnonzero(vc == number), gpus


def _too_large(table: JobTable, row: int, gpus: int) -> InputError:
    job = table.frame.row(row, named=True)
    asks = f"asks for {job['num_gpus']} GPUs, but its cluster has {gpus}"
    return InputError(
        f"a job that its cluster can hold, but job {job['job_id']!r}: {asks}",
        file=table.source,
        row=row + 1,
        column="num_gpus",
        value=job["num_gpus"],
        hint="use a larger cluster, or --oversize drop to leave it out",
    )
