"""How low the mean completion time of a job table on a cluster can be at best."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

import ringbco
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError, show_path
from ringbco.result.bound import Bound, Prices, by_cluster, lower_bound
from ringbco.result.metrics import column
from ringbco.result.window import OPTIONS as WINDOW
from ringbco.result.window import Window
from ringbco.run.bound_options import OPTIONS
from ringbco.run.option import takes
from ringbco.run.options import as_cluster, checked, on_clock
from ringbco.run.outage_draws import is_draw
from ringbco.trace import gpu_type_choices, measured
from ringbco.trace.epoch import epoch_of, outside_jobs
from ringbco.trace.jobs import JobTable, TableLike, as_table, gpus_of
from ringbco.trace.least_work import least_work
from ringbco.trace.noise import efficiency
from ringbco.trace.plausibility import warn
from ringbco.trace.shares import asked_gpus
from ringbco.trace.side_tables import ReadContext, read_side_tables
from ringbco.trace.workload import READS, Workload, resolve

if TYPE_CHECKING:
    from ringbco.run.option_types import Options
else:
    Options = dict  # only a stub has its fields

Floats = NDArray[np.float64]

_ENDS: Final = {
    "search": "none: trials that a search ends have no row, and the bound is of jobs that are done",
    "enforce_limits": "none: a job that its limit ends is not done, and the bound is of all work",
    "admission": "none: jobs that are refused have no row, and the bound is of jobs that are done",
}


_MATTER: Final = ("model", "seed", "oversize", *WINDOW)
"""Options on which the bound of a certificate depends: what it records of them."""


@dataclass(frozen=True, eq=False)
class Part:
    """The jobs of a (virtual) cluster as a bound sees them.

    submit: submissions, s. shortest: the least run times, s. work: the least GPU-seconds. least: the fewest
    GPUs that the job ever holds. gpus: those of the (virtual) cluster.
    """

    submit: Floats
    shortest: Floats
    work: Floats
    least: Floats
    gpus: int


@dataclass(frozen=True, eq=False)
class BoundedJobs:
    """The jobs that a bound is of, by virtual cluster; "" names a cluster without.

    dropped: left out as too large. elastic: those whose max_gpus is above min_gpus.
    """

    parts: dict[str, Part]
    dropped: int
    elastic: int


@takes(OPTIONS)
def bound(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    tight: bool = False,
    **options: Unpack[Options],
) -> Bound:
    """A lower bound on the mean completion time of `jobs` on `cluster`, under whatever policy.

    docs/bound.md has the proof. The arguments are those of `replay`, and the bound is of the jobs that a
    replay with them runs. With virtual clusters it is the sum over theirs. Jobs with min_gpus or max_gpus may
    be given any GPUs in their range, as a custom policy may do, so their bound is lower. What can only
    make a schedule worse changes nothing: quotas, evictions, outages, services, pauses, sleep, slots.

    tight: whether prices of GPUs are looked for as well, which takes seconds; the greater bound counts, by
    virtual cluster. The prices are in the result's `certificate`, but with measured speeds.

    Raises InputError for a job larger than its cluster (with oversize "drop" it is left out and counted) and
    where no job is left, UsageError for a search or an admission; otherwise as `replay`.
    """
    cluster, table = as_cluster(cluster, recorded_cluster), as_table(jobs)
    bounded = bounded_jobs(table, cluster, options)
    proven = {name: _proven(part, tight=tight) for name, part in bounded.parts.items()}
    found = by_cluster({name: one for name, (one, _) in proven.items()}, bounded.dropped, bounded.elastic)
    if not tight:
        return found
    prices = {name: priced for name, (_, priced) in proven.items() if priced is not None}
    return replace(found, certificate=_certificate(table, cluster, options, bounded, prices))


def _proven(part: Part, *, tight: bool) -> tuple[Bound, Prices | None]:
    """The bound of a part: with `tight` the greater one, and the prices."""
    sets = lower_bound(part.submit, part.shortest, part.work, part.gpus)
    if not tight:
        return sets, None
    prices = Prices.of(part.submit, part.shortest, part.work, part.least, part.gpus)
    return prices.greater(sets), prices


def bounded_jobs(table: JobTable, cluster: Cluster, options: Mapping[str, Any]) -> BoundedJobs:
    """The jobs of a table that a bound with these options is of. Raises as `bound`."""
    values = _checked(options)
    model, oversize = values["model"], values["oversize"]
    workload = resolve(table, cluster, values)
    if workload.columns["chains"] is not None:
        row = int(table.frame["after"].is_not_null().arg_max() or 0)
        raise InputError(
            "nothing: a job that arrives later has a shorter completion time, so there is no bound",
            file=table.source,
            row=row + 1,
            column="after",
            value=table.frame["after"][row],
            hint="leave the columns after and think_time out",
        )
    warn(_check_files(values, workload.cluster, table))
    submit, asked = column(table.frame, "submit_time"), column(table.frame, "num_gpus")
    window = Window.of(on_clock(values, table), submit)
    least, most = gpus_of(table.frame, "min_gpus"), gpus_of(table.frame, "max_gpus")
    part, within = asked_gpus(table.frame) / asked, limits(workload, model)
    parts, dropped, elastic = {}, 0, 0
    # Under measured speeds no kinds are resolved, though types may differ in what they hold.
    differ = workload.kinds
    if workload.rates is not None:
        differ = gpu_type_choices.resolve(table, workload.cluster, always=True)
    room = gpu_type_choices.most_gpus(workload.cluster, differ, workload.vc, table.num_jobs)
    for name, rows, gpus in _parts(table, cluster, workload.vc):
        large = rows[asked[rows] > room[rows]]
        if large.size and oversize == "error":
            raise _too_large(table, int(large[0]), int(room[large[0]]))
        kept = rows[asked[rows] <= room[rows]]
        if window is not None:
            kept = kept[window.holds(submit[kept])]
        dropped += large.size
        if kept.size:
            elastic += int(np.count_nonzero(least[kept] < most[kept]))
            shortest, work = within(gpus)
            parts[name] = Part(submit[kept], shortest[kept], (work * part)[kept], (least * part)[kept], gpus)
    if not parts:
        raise InputError("no job is left to bound: each one is larger than the cluster", file=table.source)
    return BoundedJobs(parts, int(dropped), elastic)


def _certificate(
    table: JobTable,
    cluster: Cluster,
    options: Mapping[str, Any],
    bounded: BoundedJobs,
    prices: Mapping[str, Prices],
) -> dict[str, Any] | None:
    """What proves a tight bound, as `ringbco audit` reads it: plain values. None with measured speeds."""
    count = sum(part.submit.size for part in bounded.parts.values())
    values = _checked(options)
    if values["tables"] is not None:  # a file of its own, which a certificate does not hold
        return None
    return {
        "certificate": "ringbco bound --tight",
        "version": ringbco.__version__,
        "mean_jct": sum(priced.total for priced in prices.values()) / count,
        "trace": table.identity,
        "cluster": {"name": show_path(cluster.name), **cluster.to_dict()},
        "options": {name: values[name] for name in _MATTER if values[name] != OPTIONS[name].default},
        "parts": [
            {"vc": name, "jobs": part.submit.size, "gpus": part.gpus, **prices[name].to_dict()}
            for name, part in bounded.parts.items()
        ],
    }


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by name; raises UsageError for one with which jobs end that have no row."""
    for name, expected in _ENDS.items():
        if options.get(name) not in (None, False, "none"):
            raise UsageError(f"option {name}: {options[name]!r}: expected {expected}")
    if (options.get("jobs_per_gpu") or 1) > 1:
        expected = "1: two jobs on a GPU may do more than one, so there is no bound"
        raise UsageError(f"option jobs-per-gpu: {options['jobs_per_gpu']}: expected {expected}")
    kept = {name: value for name, value in options.items() if name not in _ENDS}
    return checked(kept, OPTIONS, command="bound")


def _check_files(options: Mapping[str, Any], cluster: Cluster, table: JobTable) -> list[str]:
    """What `replay` would warn of in files of which the bound reads nothing.

    Raises InputError for what it would refuse in them.
    """
    known = ReadContext.of(cluster, table.frame, epoch_of(table))
    not_here = {*READS, "outages"} if is_draw(options["outages"]) else READS
    return outside_jobs(table, read_side_tables(options, known, not_here).values())


def limits(workload: Workload, model: str) -> Callable[[int], tuple[Floats, Floats]]:
    """The jobs' shortest run times, s, and least GPU-seconds, by the GPUs of their (virtual) cluster."""
    table, profiled, differ = workload.table, workload.profiled, workload.kinds
    if workload.rates is not None:
        measured_limits = measured.limits(table, workload.cluster, workload.rates)
        return lambda _: measured_limits
    if differ is not None:  # no run is faster than one on the fastest type alone
        profiled = replace(profiled, compute_time=profiled.compute_time / differ.most_speedup())
    work = least_work(table, workload.cluster, profiled, model=model)
    if differ is not None and model == "fixed":
        work = work / differ.most_speedup()
    alone = work * efficiency(table.frame, gpus_of(table.frame, "min_gpus"))
    most = gpus_of(table.frame, "max_gpus")

    def within(gpus: int) -> tuple[Floats, Floats]:
        width = np.minimum(most, gpus).astype(np.uint32)
        return alone / (width * efficiency(table.frame, width)), work

    return within


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
