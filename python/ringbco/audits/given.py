"""A result, its job table and its options as plain lists, as the judge is handed them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ringbco.audits.measured import Speeds, read_speeds
from ringbco.audits.options import decides_itself, options_of, preempts, resizes
from ringbco.audits.types import Types, read_types, recorded_type
from ringbco.judge.given import (
    Book,
    Cluster,
    Given,
    GpuType,
    Jobs,
    Load,
    Network,
    Outage,
    Replica,
    Rung,
    Speed,
    Stay,
)
from ringbco.result.folder import cluster_of
from ringbco.trace import profiles, ties
from ringbco.trace.fair_shares import FairShares, owners
from ringbco.trace.jobs import gpus_of
from ringbco.trace.noise import noise
from ringbco.trace.quotas import Quotas
from ringbco.trace.services import Services
from ringbco.trace.shares import thousandths
from ringbco.trace.standing import preemptible, priorities

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster as Servers
    from ringbco.result.outcome import Outcome
    from ringbco.trace.jobs import JobTable


def given_of(outcome: Outcome, table: JobTable) -> Given:
    """The run of a result, before it started."""
    options, cluster = options_of(outcome.run), cluster_of(outcome.run)
    speeds = read_speeds(outcome.speeds, table, cluster) if options["model"] == "table" else None
    types = read_types(table.frame, cluster, always=speeds is not None)
    jobs = _jobs(outcome, table, cluster, types, speeds)
    return Given(
        jobs,
        _cluster(cluster, alone=options.get("sharing") == "off"),
        options,
        preempts=preempts(options),
        resizes=resizes(options),
        decides=decides_itself(options),
        outages=_outages(outcome.outages),
        windows=_outages(outcome.maintenance),
        services=_loads(outcome.services),
        quotas=_quotas(outcome.quota),
        shares={} if (fair := _fair(outcome)) is None else fair.shares(),
        speeds=[] if outcome.speeds is None else _speeds(outcome.speeds, _names(table, cluster)),
        fields=outcome.run.get("own_policy", {}).get("parameters", {}),
    )


def _jobs(
    outcome: Outcome, table: JobTable, cluster: Servers, types: Types | None, speeds: Speeds | None
) -> Jobs:
    frame, options = table.frame, options_of(outcome.run)
    model, seed = options["model"], int(options.get("seed", 0))
    told = profiles.resolve(table, cluster, model=model, seed=seed) if speeds is None else speeds.workload
    noisy, vc, shares = noise(frame), profiles.vc_index(table, cluster), thousandths(frame)
    every = float(options.get("checkpoint_interval", 1800.0))
    planned = options.get("command") == "plan"
    allowed = speedup = None
    if types is not None:
        allowed, speedup = _allowed(types)
    return Jobs(
        id=frame["job_id"].to_list(),
        submit=[0.0] * frame.height if planned else frame["submit_time"].to_list(),
        gpus=frame["num_gpus"].to_list(),
        duration=frame["duration"].to_list(),
        iterations=told.iterations.astype(np.float64).tolist(),
        gradient=told.gradient_bytes.tolist(),
        compute=told.compute_time.tolist(),
        ideal=told.ideal_run_time.tolist(),
        least=gpus_of(frame, "min_gpus").tolist(),
        most=gpus_of(frame, "max_gpus").tolist(),
        noise=None if noisy is None else noisy[0].tolist(),
        batch=None if noisy is None else noisy[1].astype(np.float64).tolist(),
        share=_plain(shares),
        priority=_plain(priorities(frame)),
        checkpoint=None if (own := _said(frame, "checkpoint_interval")) is None
        else [every if value is None else value for value in own],
        limit=None if (own := _said(frame, "time_limit")) is None
        else [math.inf if value is None else value for value in own],
        vc=_plain(vc),
        owner=_owners(outcome, frame),
        types=allowed,
        speedup=speedup,
        model=None if speeds is None else speeds.model,
        recorded=None if speeds is None else speeds.reference.tolist(),
        group=_said(frame, "group"),
        user=_said(frame, "user"),
        deadline=_said(frame, "deadline"),
        vc_said=_said(frame, "vc"),
        preemptible=_plain(preemptible(frame)),
        tied=_tied(frame.height, str(options.get("ties", "rows"))),
        column=_column(frame, str(options["order"])),
        fair=owners(frame, _fair(outcome)) if options["order"] == "fairshare" else None,
    )  # fmt: skip


def _owners(outcome: Outcome, frame: pl.DataFrame) -> list[str | None] | None:
    """Whose quota counts for each job. Raises InputError where quota.parquet is none."""
    quota = outcome.quota
    return None if quota is None else _said(frame, Quotas.read(quota, source=Quotas.form.file).column)


def _fair(outcome: Outcome) -> FairShares | None:
    """The shares that were given. Raises InputError where fair_shares.parquet has none."""
    fair = outcome.fair_shares
    return None if fair is None else FairShares.read(fair, source=FairShares.form.file)


def _plain(values: NDArray[Any] | None) -> list[Any] | None:
    return None if values is None else values.tolist()


def _tied(jobs: int, rule: str) -> list[int] | None:
    """By which rows of one submission go first; None where the rows themselves do."""
    return None if rule == "rows" else ties.key(np.arange(jobs, dtype=np.int64), rule).tolist()


def _column(frame: pl.DataFrame, order: str) -> list[float] | None:
    """The keys of an order that is a column of the job table."""
    own = _said(frame, order.removeprefix("column:")) if order.startswith("column:") else None
    return None if own is None else [float(value) for value in own]


def _said(frame: pl.DataFrame, name: str) -> list[Any] | None:
    return frame[name].to_list() if name in frame.columns else None


def _allowed(types: Types) -> tuple[list[tuple[int, ...]], list[list[float]]]:
    """By job: the types that it may use, as it lists them, and its speed on each type of the cluster."""
    order, count = np.argsort(types.listed, axis=1, kind="stable").tolist(), np.isfinite(types.listed).sum(1)
    return [tuple(own[:n]) for own, n in zip(order, count.tolist(), strict=True)], types.speedup.tolist()


def _cluster(cluster: Servers, *, alone: bool) -> Cluster:
    """The cluster. alone: whether nobody slows anybody, so that k is 1 whoever spans."""
    xi1 = 0.0 if alone else cluster.network.xi1
    net, vcs = cluster.network, {name: number for number, name in enumerate(cluster.vc_names)}
    return Cluster(
        cluster.server_gpus.tolist(),
        Network(net.intra_bandwidth, net.inter_bandwidth, net.reduce_speed, xi1, net.xi2, net.alpha),
        None if cluster.server_vc is None else [vcs[name] for name in cluster.server_vc],
        list(vcs),
        _plain(cluster.server_types),
        [GpuType(t.name, t.idle_watts, t.busy_watts, t.price_per_hour) for t in cluster.type_facts]
        if cluster.server_types is not None
        else (),
    )


def _loads(frame: pl.DataFrame | None) -> list[Load] | None:
    return None if frame is None else [Load(*row) for row in frame.select(*Services.form.schema).iter_rows()]


def _outages(frame: pl.DataFrame | None) -> list[Outage] | None:
    if frame is None:
        return None
    rows = frame.select("server", "down_at", "up_at", "cause").iter_rows()
    return [Outage(server, down, math.inf if up is None else up, cause) for server, down, up, cause in rows]


def _quotas(frame: pl.DataFrame | None) -> dict[str, tuple[int, bool]] | None:
    if frame is None:
        return None
    rows = frame.select("vc", "user", "gpus", "borrow").iter_rows()
    return {user if vc is None else vc: (gpus, borrow) for vc, user, gpus, borrow in rows}


def _names(table: JobTable, cluster: Servers) -> dict[str, int]:
    """The number of each GPU type by its name in lower case: the cluster's, then others recorded on."""
    types = list(dict.fromkeys(str(label).lower() for label in cluster.server_gpu_type or ()))
    columns = [_said(table.frame, name) or [None] * table.num_jobs for name in ("gpu_type", "recorded_on")]
    known = list(types)
    for asked, on in dict.fromkeys(zip(*columns, strict=True)):
        name = recorded_type(asked, on, types, cluster).lower()
        if name not in known:
            known.append(name)
    return {name: number for number, name in enumerate(known)}


def _speeds(frame: pl.DataFrame, names: dict[str, int]) -> list[Speed]:
    columns = "model", "gpu_type", "gpus", "servers", "rate", "partner", "partner_rate"
    return [
        Speed(model, names.get(gpu_type.lower(), -1), *rest)
        for model, gpu_type, *rest in frame.select(columns).iter_rows()
    ]


def book_of(outcome: Outcome, given: Given) -> Book:
    """What a result says that happened. That it can be read, `result.sound.check_book` tells.

    Where nobody recorded who held which servers, every job is said to hold all of its GPUs on one that it may
    use, so that times, GPUs and counts follow all the same.
    """
    jobs, told = given.jobs, outcome.stays_written
    row = {name: number for number, name in enumerate(jobs.id)}
    shared = jobs.share is not None
    if told is None:
        # The row of a job is its one stay.
        plain = outcome.jobs.select("job_id", "start_time", "finish_time", "num_gpus").rows()
        rows = [(name, 0, start, end, gpus, "done", None, None, None) for name, start, end, gpus in plain]
    else:
        rows = told.select("job_id", "stay", "start_time", "end_time", "num_gpus", "ended", *BY).rows()
    held: Mapping[Key, Places] = {}
    places: Mapping[Key, Places] = {}
    if outcome.allocations is not None:
        held, places = _held(outcome.allocations, shared=shared)
    stays = []
    for name, number, start, end, gpus, ended, job, service, server in rows:
        own = row[name]
        there = held[name, number] if outcome.allocations is not None else ((_one_of(given, own), gpus),)
        by = None if job is None else row[job]
        on = places.get((name, number), ((there[0][0], 0),) * gpus) if shared else ()
        stays.append(Stay(own, start, end, there, ended, by, service, server, on))
    replicas: Sequence[Replica] = ()
    if outcome.replicas is not None:
        of = "service", "server", "num_gpus", "start_time", "end_time", "ended"
        replicas = [Replica(*values) for values in outcome.replicas.select(of).iter_rows()]
    rungs: Sequence[Rung] = ()
    if outcome.rungs is not None:
        values = outcome.rungs.select("job_id", "rung", "time", "went_on").iter_rows()
        rungs = [Rung(row[name], rung, time, went_on) for name, rung, time, went_on in values]
    return Book(stays, replicas, rungs)


def _one_of(given: Given, job: int) -> int:
    """A server that a job may use, of those of its virtual cluster; the first where there is none."""
    types, cluster = given.jobs.types, given.cluster
    may = (
        server
        for server in range(len(cluster.gpus))
        if cluster.in_vc(server) == given.jobs.in_vc(job)
        and (types is None or cluster.of_type(server) in types[job])
    )
    return next(may, 0)


BY = ("by_job", "by_service", "by_server")
Places = tuple[tuple[int, int], ...]
Key = tuple[str, int]


def _held(frame: pl.DataFrame, *, shared: bool) -> tuple[dict[Key, Places], dict[Key, Places]]:
    """By job and stay: the GPUs on each server and, where jobs have shares, each of them."""
    there: dict[Key, list[tuple[int, int]]] = {}
    keys = zip(frame["job_id"].to_list(), frame["stay"].to_list(), strict=True)
    servers, gpus = frame["server"].to_list(), frame["num_gpus"].to_list()
    if not shared:
        for key, server, count in zip(keys, servers, gpus, strict=True):
            there.setdefault(key, []).append((server, count))
        return {key: tuple(own) for key, own in there.items()}, {}
    for key, server, gpu in zip(keys, servers, frame["gpu"].to_list(), strict=True):
        there.setdefault(key, []).append((server, gpu))
    held: dict[Key, Places] = {}
    for key, own in there.items():
        count_of: dict[int, int] = {}
        for server, _ in own:
            count_of[server] = count_of.get(server, 0) + 1
        held[key] = tuple(count_of.items())
    return held, {key: tuple(own) for key, own in there.items()}
