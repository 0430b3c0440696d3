"""A result, its job table and its options as columns, as the checker reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.audits.answering import answering_of
from ringbco.audits.arrivals import Arrivals
from ringbco.audits.measured import Speeds, read_speeds
from ringbco.audits.options import decides_itself, jobs_per_gpu, options_of, policy_is, preempts, resizes
from ringbco.audits.types import Types, distinct, read_types, recorded_type
from ringbco.checker.arrays import ranges
from ringbco.checker.idle import Placeable
from ringbco.checker.inputs import (
    ENDED,
    NONE,
    Cluster,
    Ints,
    Jobs,
    LeastBusy,
    Replicas,
    Rungs,
    RunInputs,
    StayLog,
    Stays,
    Tier,
)
from ringbco.checker.settings import Book, GpuType, Load, Network, Outage, Speed
from ringbco.checker.speed import Speeds as Rates
from ringbco.cluster.fabric import engine_columns
from ringbco.result.folder import cluster_of
from ringbco.result.validation import places
from ringbco.trace import profiles, schema
from ringbco.trace.forms import bounds
from ringbco.trace.jobs import gpus_of
from ringbco.trace.noise import noise
from ringbco.trace.owners import names_of
from ringbco.trace.pods import pod_sizes
from ringbco.trace.priorities import priorities
from ringbco.trace.quotas import BOOKS, Quotas
from ringbco.trace.services import Services
from ringbco.trace.shares import thousandths
from ringbco.trace.side_tables import KINDS, ReadContext, SideTable, the

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster as Servers
    from ringbco.result.outcome import Outcome
    from ringbco.trace.jobs import JobTable

BY: Final = ("by_job", "by_service", "by_server")
"""Columns of stays.parquet that name who made a stay end."""
PLAIN: Final = tuple(name for name, column in schema.COLUMNS.items() if column.absent is not None)
"""Columns of the job table that the engine reads as they are."""


@dataclass(frozen=True)
class Profiles:
    """What the job table says of jobs on a cluster.

    types: None where GPU types change nothing. speeds: None unless they were measured.
    """

    cluster: Servers
    types: Types | None
    speeds: Speeds | None
    workload: profiles.Profiled
    arrivals: Arrivals

    @classmethod
    def read(cls, outcome: Outcome, table: JobTable) -> Profiles:
        """That of a result. Raises InputError where its speeds cannot be read."""
        options, cluster = options_of(outcome.run), cluster_of(outcome.run)
        speeds = read_speeds(outcome.speeds, table, cluster) if options["model"] == "table" else None
        types = read_types(table.frame, cluster, always=speeds is not None)
        arrivals = Arrivals.read(outcome, table, options)
        if speeds is not None:
            return cls(cluster, types, speeds, speeds.workload, arrivals)
        seed = int(options.get("seed", 0))
        found = profiles.resolve(table, cluster, model=options["model"], seed=seed)
        return cls(cluster, types, None, found, arrivals)


def inputs_of(outcome: Outcome, table: JobTable, known: Profiles | None = None) -> RunInputs:
    """The run of a result, before it started. known: its profiles, if they have been read.

    Raises InputError where a table of the inputs cannot be read.
    """
    options, known = options_of(outcome.run), known or Profiles.read(outcome, table)
    cluster = known.cluster
    inputs = RunInputs(
        _jobs(outcome, table, known),
        _cluster(cluster, alone=options.get("sharing") == "off"),
        options,
        preempts=preempts(options),
        protects=policy_is(options, "protects"),
        resizes=resizes(options),
        decides=decides_itself(options),
        follows=str(options["policy"]).startswith("log:"),
        by_gpus=options["order"] == "smallest",
        least_busy=_least_busy(options),
        outages=outages_of(outcome.outages),
        services=_loads(outcome.services),
        quotas=_books(table, the(Quotas, _side_tables(outcome, cluster))),
        speeds=_speeds(outcome.speeds, table, cluster),
        answering=answering_of(outcome, table, cluster),
    )
    if inputs.jobs.before is not None and outcome.jobs.height < table.num_jobs:
        # Jobs that nothing could hold were never there: they, and those after them, arrive as submitted.
        lost = ~Placeable(inputs, Rates(inputs)).placeable
        lost &= places(inputs.jobs.id, outcome.jobs["job_id"].cast(pl.String)).is_null().to_numpy()
        arrivals = Arrivals.read(outcome, table, options, lost)
        inputs.jobs.submit, inputs.jobs.reckoned = arrivals.time, arrivals.reckoned
    return inputs


def _side_tables(outcome: Outcome, cluster: Servers) -> Mapping[str, SideTable]:
    """Its side tables, by option. Raises InputError for a damaged one, though nothing may follow from it."""
    known = ReadContext.of(cluster)
    return {
        name: kind.read(copy, known, kind.form.file)
        for name, kind in KINDS.items()
        if (copy := kind.copies(lambda table: getattr(outcome, table))) is not None
    }


def _least_busy(options: Mapping[str, Any]) -> LeastBusy | None:
    """What lbsgf, read literally, looks at; sjf-bco takes it for gangs of more than kappa GPUs."""
    placement = options["placement"]
    if placement not in ("lbsgf", "sjf-bco") or options.get("variant") != "literal":
        return None
    if options.get("command") == "plan":
        return None
    return LeastBusy(0 if placement == "lbsgf" else int(options["kappa"]), float(options.get("lambda", 1.0)))


def _jobs(outcome: Outcome, table: JobTable, known: Profiles) -> Jobs:
    frame, options = table.frame, options_of(outcome.run)
    types, speeds, workload = known.types, known.speeds, known.workload
    noisy, vc, shares = noise(frame), profiles.vc_index(table, known.cluster), thousandths(frame)
    planned = options.get("command") == "plan"
    plain = {name: schema.engine_column(frame, name) for name in PLAIN} | {"priority": priorities(frame)}
    return Jobs(
        id=frame["job_id"].cast(pl.String),
        submit=np.zeros(frame.height) if planned else known.arrivals.time,
        gpus=frame["num_gpus"].to_numpy().astype(np.int64),
        pod=pod_sizes(frame),
        duration=_floats(frame["duration"]),
        iterations=workload.iterations.astype(np.float64),
        gradient=workload.gradient_bytes,
        compute=workload.compute_time,
        ideal=workload.ideal_run_time,
        least=gpus_of(frame, "min_gpus").astype(np.int64),
        most=gpus_of(frame, "max_gpus").astype(np.int64),
        bound=bounds(table, known.cluster.tiers),
        noise=None if noisy is None else noisy[0],
        batch=None if noisy is None else noisy[1].astype(np.float64),
        share=_columns(shares),
        vc=_columns(vc),
        types=None if types is None else np.isfinite(types.listed),
        speedup=None if types is None else types.speedup,
        model=_text(said(frame, "model")) if speeds is None else speeds.model,
        recorded=None if speeds is None else speeds.reference,
        group=said(frame, "group"),
        user=said(frame, "user"),
        deadline=said(frame, "deadline"),
        log_start=None if planned else said(frame, "recorded_start"),
        log_end=said(frame, "recorded_end"),
        vc_said=said(frame, "vc"),
        after=said(frame, "after"),
        before=known.arrivals.before,
        submitted=known.arrivals.submitted,
        plain={name: own for name, own in plain.items() if own is not None},
    )


def _columns(values: NDArray[Any] | None) -> Ints | None:
    return None if values is None else values.astype(np.int64)


def _text(column: pl.Series | None) -> pl.Series | None:
    return None if column is None else column.cast(pl.String)


def _floats(column: pl.Series, null: float = math.nan) -> NDArray[np.float64]:
    return column.cast(pl.Float64).fill_null(null).to_numpy()


def said(frame: pl.DataFrame, name: str) -> pl.Series | None:
    """A column of the job table, if it has it."""
    return frame[name] if name in frame.columns else None


def _cluster(cluster: Servers, *, alone: bool) -> Cluster:
    """The cluster. alone: whether jobs do not slow each other down, so that k is 1."""
    xi1 = 0.0 if alone else cluster.network.xi1
    net, vcs = cluster.network, {name: number for number, name in enumerate(cluster.vc_names)}
    return Cluster(
        cluster.server_gpus.astype(np.int64),
        Network(net.intra_bandwidth, net.inter_bandwidth, net.reduce_speed, xi1, net.xi2, net.alpha),
        None if cluster.server_vc is None else np.array([vcs[name] for name in cluster.server_vc], np.int64),
        list(vcs),
        _columns(cluster.server_types),
        [GpuType(t.name, t.idle_watts, t.busy_watts, t.price_per_hour) for t in cluster.type_facts]
        if cluster.server_types is not None
        else (),
        [
            Tier(
                *(group.astype(np.int64), bandwidth, 0.0 if alone else own_xi1, alpha, inside),
                *(tier.name, tier.group_names(cluster.num_servers)),
            )
            for tier, (group, bandwidth, own_xi1, alpha, inside) in zip(
                cluster.tiers, engine_columns(cluster).get("tiers", ()), strict=True
            )
        ],
        cluster.nics == "gpu",
    )


def _loads(frame: pl.DataFrame | None) -> list[Load] | None:
    return None if frame is None else [Load(*row) for row in frame.select(*Services.form.schema).iter_rows()]


def outages_of(frame: pl.DataFrame | None) -> list[Outage] | None:
    """The rows of outages.parquet, or of another table of that form."""
    if frame is None:
        return None
    kind = pl.col("kind") if "kind" in frame.columns else pl.lit(None, pl.String)
    rows = frame.select("server", "down_at", "up_at", "cause", kind.alias("kind")).iter_rows()
    return [
        Outage(server, down, math.inf if up is None else up, cause, kind == "drain")
        for server, down, up, cause, kind in rows
    ]


def _books(table: JobTable, quotas: Quotas | None) -> list[Book] | None:
    """The quotas, file by file. Raises InputError for owners in a column that the job table lacks."""
    if quotas is None:
        return None
    books = []
    for copy, name in zip(quotas.books, BOOKS, strict=False):
        book = Quotas.read(copy, ReadContext(table.frame), f"{name.replace('_', '-')}.parquet")
        rows = book.frame.select(book.column, "gpus", "borrow").iter_rows()
        owner = names_of(table.frame, book.column)
        books.append(Book(owner, {owner: (gpus, borrow) for owner, gpus, borrow in rows}))
    return books


def _names(table: JobTable, cluster: Servers) -> dict[str, int]:
    """The number of each GPU type by its name in lower case: the cluster's, then others recorded on."""
    types = list(dict.fromkeys(str(label).lower() for label in cluster.server_gpu_type or ()))
    known = list(types)
    for asked, on in distinct(table.frame, "gpu_type", "recorded_on")[0] if types else ():
        name = recorded_type(asked, on, types, cluster).lower()
        if name not in known:
            known.append(name)
    return {name: number for number, name in enumerate(known)}


def _speeds(frame: pl.DataFrame | None, table: JobTable, cluster: Servers) -> list[Speed]:
    if frame is None:
        return []
    names = _names(table, cluster)
    if not names:  # all GPUs are of the one type of which pairs were measured
        names = dict.fromkeys(frame["gpu_type"].str.to_lowercase(), 0)
    columns = "model", "gpu_type", "gpus", "servers", "rate", "partner", "partner_rate"
    return [
        Speed(model, names.get(gpu_type.lower(), -1), *rest)
        for model, gpu_type, *rest in frame.select(columns).iter_rows()
    ]


def stay_log_of(outcome: Outcome, inputs: RunInputs) -> StayLog:
    """What a result says that happened. That it can be read, `result.validation.check_stay_log` tells.

    Where no allocations were recorded, every job is said to hold all of its GPUs on one that it may
    use, so that times, GPUs and counts follow all the same. Raises KeyError where a stay holds none.
    """
    ids = inputs.jobs.id
    return StayLog(_stays(outcome, inputs), replicas_of(outcome.replicas), _rungs(outcome.rungs, ids))


def _stays(outcome: Outcome, inputs: RunInputs) -> Stays:
    told, ids = outcome.stays_written, inputs.jobs.id
    if told is None:
        # The row of a job is its one stay.
        frame = outcome.jobs.select("job_id", "start_time", "num_gpus", end_time="finish_time")
        job, none = rows_of(frame["job_id"], ids), np.full(frame.height, NONE)
        number, ended, by_job, by_server, service = np.zeros_like(job), np.zeros_like(job), none, none, None
    else:
        frame, job, number = told, rows_of(told["job_id"], ids), _ints(told["stay"])
        ended = _ints(told["ended"].cast(pl.Enum(ENDED)).to_physical())
        by_job, by_server = rows_of(told["by_job"], ids), _ints(told["by_server"])
        service = None if told["by_service"].null_count() == told.height else told["by_service"]
    start, end = _floats(frame["start_time"]), _floats(frame["end_time"])
    stays = Stays(
        job, start, end, ended, by_job, by_server, service, *_unplaced(inputs, job, frame["num_gpus"])
    )
    if told is not None and "lost_time" in told.columns:
        stays.falls = told["lost_time"].gt(0.0).to_numpy()
    if told is not None and "work" in told.columns:
        stays.told = _floats(told["work"])
    shared = inputs.jobs.share is not None
    if outcome.allocations is None:
        if shared:
            stays.spot = np.concatenate([[0], np.cumsum(stays.held)])
            stays.on, stays.gpu = np.repeat(stays.server, stays.held), np.zeros(int(stays.spot[-1]), np.int64)
        return stays
    rows, first, server = _in_order(outcome.allocations, ids, job, number)
    stays.first, stays.server, stays.held = first, server, _ints(outcome.allocations["num_gpus"])[rows]
    if jobs_per_gpu(inputs.options) > 1 and "seat" in outcome.allocations.columns:
        stays.seat = _ints(outcome.allocations["seat"])[rows][first[:-1]]
    if shared:
        stays.spot, stays.on, stays.gpu = first, server, _ints(outcome.allocations["gpu"])[rows]
        of = np.repeat(np.arange(job.size), np.diff(first))
        begins = np.flatnonzero((np.diff(of, prepend=-1) != 0) | (np.diff(server, prepend=-1) != 0))
        stays.first = np.searchsorted(begins, first)
        stays.server, stays.held = server[begins], np.diff(np.append(begins, server.size))
    return stays


def _in_order(allocations: pl.DataFrame, ids: pl.Series, job: Ints, number: Ints) -> tuple[Ints, Ints, Ints]:
    """The rows of allocations.parquet in the order of some stays, the first of each, and their servers."""
    told, stay = rows_of(allocations["job_id"], ids), _ints(allocations["stay"])
    server = _ints(allocations["server"])
    base = 1 + max(int(stay.max(initial=0)), int(number.max(initial=0)))
    key, wanted = told * base + stay, job * base + number
    rows = np.arange(key.size)
    if (np.diff(key) < 0).any():
        rows = np.argsort(key, kind="stable")
        key, server = key[rows], server[rows]
    low, high = (np.searchsorted(key, wanted, side=side) for side in ("left", "right"))
    if (high == low).any():
        at = int((high == low).argmax())
        raise KeyError((ids[int(job[at])], int(number[at])))
    if (low[1:] == high[:-1]).all():
        return rows, np.append(low, high[-1:]), server
    taken = ranges(low, high - low)
    return rows[taken], np.concatenate([[0], np.cumsum(high - low)]), server[taken]


def _unplaced(inputs: RunInputs, job: Ints, gpus: pl.Series) -> tuple[Ints, Ints, Ints]:
    """All GPUs of each stay on one server that its job may use; the first where there is none."""
    cluster, jobs = inputs.cluster, inputs.jobs
    kinds = 1 if jobs.types is None else jobs.types.shape[1]
    kind = cluster.of_type if kinds > 1 else np.zeros(cluster.gpus.size, np.int64)
    one = np.full((max(1, len(cluster.vcs)), kinds), cluster.gpus.size)
    np.minimum.at(one, (cluster.in_vc, kind), np.arange(cluster.gpus.size))
    mine = one[jobs.in_vc[job]]
    if jobs.types is not None:
        mine = np.where(jobs.types[job], mine, cluster.gpus.size)
    server = mine.min(axis=1)
    server[server == cluster.gpus.size] = 0
    return np.arange(job.size + 1), server, _ints(gpus)


def _ints(column: pl.Series) -> Ints:
    """Whole numbers; NONE for nulls."""
    return column.cast(pl.Int64).fill_null(NONE).to_numpy()


def rows_of(names: pl.Series, ids: pl.Series) -> Ints:
    """The row of the job table of each name, NONE for nulls. Raises KeyError for one that it has not."""
    names = names.cast(pl.String)
    found = places(names, ids)
    unknown = found.is_null() & names.is_not_null()
    if unknown.any():
        raise KeyError(names.filter(unknown)[0])
    return _ints(found)


def replicas_of(frame: pl.DataFrame | None) -> Replicas:
    """The rows of replicas.parquet; none for a run without services."""
    none, empty, never = np.zeros(0, np.int64), pl.Series(dtype=pl.String), np.zeros(0)
    if frame is None:
        return Replicas(empty, none, none, never, never, empty, none, never, never)
    server, gpus, number = (_ints(frame[name]) for name in ("server", "num_gpus", "replica"))
    start, end, serves, drains = (
        _floats(frame[name]) for name in ("start_time", "end_time", "serves_from", "drains_from")
    )
    return Replicas(frame["service"], server, gpus, start, end, frame["ended"], number, serves, drains)


def _rungs(frame: pl.DataFrame | None, ids: pl.Series) -> Rungs:
    if frame is None:
        return Rungs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    time, went_on = (_floats(frame[name]) for name in ("time", "went_on"))
    return Rungs(rows_of(frame["job_id"], ids), _ints(frame["rung"]), time, went_on)
