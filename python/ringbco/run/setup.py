"""What a replay is made of: the checked inputs before it, the result after it.

`replay` and `Simulation` share it, so that both refuse the same and give the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.io.forks import use_polars
from ringbco.result import causes, metrics
from ringbco.result.outcome import Outcome, summarised_later
from ringbco.result.schema import RECORDED
from ringbco.result.searches import rungs_frame, searches_frame
from ringbco.result.servers import servers_frame
from ringbco.result.serving import Serving
from ringbco.result.stays import stays_frame
from ringbco.run import log, own
from ringbco.run.options import (
    MOST_SAMPLES,
    Policy,
    as_cluster,
    checked,
    described,
    is_log,
    order_column,
    refusal,
    resolve_policy,
)
from ringbco.run.scheduling import check_passes, check_policy, deadline, user
from ringbco.run.steps import (
    allocations_frame,
    decisions_frame,
    describe_run,
    ended,
    explain,
    job_columns,
    jobs_frame,
    refused,
    timeline_frame,
)
from ringbco.run.summary import run_time, summarise_run
from ringbco.trace import kinds, measured, profiles
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ringbco.trace.outages import Outages, as_outages
from ringbco.trace.quotas import Quotas, as_quotas
from ringbco.trace.rate_table import RateTable, as_rate_table
from ringbco.trace.searches import Trials, trials
from ringbco.trace.services import Services, as_services
from ringbco.trace.shares import asked_gpus


@dataclass(frozen=True)
class Setup:
    """A run before it starts.

    own: the policy of one's own, if it is one. vc: as `profiles.vc_index` has it. rates: of model `table`.
    outages, services, quotas, trials: None for a run that knows none.
    """

    started: float
    table: JobTable
    cluster: Cluster
    chosen: Policy
    values: Mapping[str, Any]
    workload: profiles.Workload
    vc: NDArray[np.uint32] | None
    own: own.Own | None
    rates: RateTable | None
    outages: Outages | None
    services: Services | None
    quotas: Quotas | None
    trials: Trials | None
    jobs: _core._Jobs
    servers: _core._Cluster
    options: dict[str, Any]

    def described(self) -> dict[str, Any]:
        """The options as run.toml has them."""
        told = described(self.chosen, self.values)
        order = self.values["order"]
        if isinstance(order, str) and order.startswith("column:"):
            told["order"] = order
        return told

    @cached_property
    def record(self) -> dict[str, Any]:
        """Everything needed to repeat the run, as run.toml has it."""
        run = describe_run(self.table, self.cluster, self.chosen.name, self.described())
        if self.own is not None:
            run["own_policy"] = {"name": self.chosen.name, **self.own.described}
        for name, beside in (
            ("tables", self.rates),
            ("outages", self.outages),
            ("quotas", self.quotas),
            ("services", self.services),
        ):
            if beside is not None:
                run[name] = beside.told()
        return run

    def explain(self, error: _core.CoreError) -> Exception:
        """The engine's refusal in the table's terms."""
        if self.own is not None and error.kind == "stuck" and error.row is not None:
            job = self.table.frame["job_id"][error.row]
            return InputError(
                f"policy {self.own.name} to bring every job to its end, but job {job!r}: {error.message}",
                file=self.table.source,
                row=error.row + 1,
            )
        if self.services is not None and error.kind == "stuck" and error.row is not None:
            job = self.table.frame["job_id"][error.row]
            return InputError(
                f"every job to finish, but job {job!r}: {error.message}",
                file=self.table.source,
                row=error.row + 1,
                hint="services hold GPUs that it needs for good: let them want fewer replicas at some time",
            )
        refused = log.refusal(self.chosen.name, self.table, error) if is_log(self.chosen.name) else None
        return refused or explain(error, self.table)


def prepare(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None,
    policy: object,
    workload: profiles.Workload | None,
    options: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
) -> Setup:
    """Checks everything that a run is given. Raises as `replay` does."""
    started = time.perf_counter()
    mine = own.resolve(policy, parameters) if own.is_own(policy) else None
    if mine is None and parameters:
        raise UsageError(
            f"option P: {', '.join(parameters)}: expected none beside {policy}: it has no fields"
        )
    chosen = resolve_policy(
        policy,
        order=options.get("order"),
        placement=options.get("placement"),
        queue=options.get("queue"),
    )
    # A policy of one's own orders the jobs itself: `resolve_policy` has refused another order.
    given = {name: value for name, value in options.items() if mine is None or name != "order"}
    # So it has its name: only a policy of the engine is looked up.
    values = checked(given | ({"policy": chosen.name} if mine is None else {})) | {"policy": chosen.name}
    check_policy(chosen, values)
    if not isinstance(workload, profiles.Workload | None):
        raise refusal("workload", workload, "what profiles.resolve gave, or None")
    cluster = as_cluster(cluster, recorded_cluster)
    rates = _rates(values, workload)
    if rates is not None:
        cluster = rates.typed(cluster)
    table = as_table(jobs)
    vc = profiles.vc_index(table, cluster)
    speeds = None if rates is None else measured.resolve(table, cluster, rates)
    if speeds is not None:
        workload = speeds.workload
    workload = workload or profiles.resolve(table, cluster, model=values["model"], seed=values["seed"])
    _check_sample(values["sample"], table, workload)
    check_passes(chosen, values, _work(table, cluster, workload, vc))
    outages = None if values["outages"] is None else as_outages(values["outages"], cluster.num_servers)
    services = None
    if values["services"] is not None:
        services = as_services(values["services"], int(cluster.server_gpus.max()))
    quotas = None if values["quota"] is None else as_quotas(values["quota"], table.frame)
    searched = None
    if values["search"] is not None:
        searched = trials(table, values["search"], values["seed"], vc)
    columns: _core._Jobs = {
        **job_columns(table.frame, workload),
        "quotas": None if quotas is None else quotas.columns(table.frame),
        "trials": None if searched is None else searched.columns(),
        "vc": vc,
        "deadline": deadline(table, chosen),
        "user": user(table, chosen),
        "key": order_column(values["order"], table) if mine is None else None,
        "log": log.columns(str(policy), table, len(cluster.server_gpus)) if is_log(policy) else None,
    }
    types = _types(table, cluster) if speeds is None else speeds.types
    columns["types"], columns["speeds"] = types, None if speeds is None else speeds.speeds
    servers: _core._Cluster = {
        "server_gpus": cluster.server_gpus,
        "server_vc": None if vc is None else _server_vc(cluster),
        "server_types": _server_types(cluster) if types is not None else None,
        "type_prices": _prices(cluster) if values["type_order"] == "cheapest" else None,
        "outages": None if outages is None else outages.columns(),
        "services": None if services is None else services.columns(),
        "network": astuple(cluster.network),
    }
    told = {"preemption": chosen.preemption, **described(chosen, values)}
    return Setup(
        started,
        table,
        cluster,
        chosen,
        values,
        workload,
        vc,
        mine,
        rates,
        outages,
        services,
        quotas,
        searched,
        columns,
        servers,
        told,
    )


def conclude(setup: Setup, result: _core.RunResult) -> Outcome:
    """The outcome of a run that is over."""
    use_polars()
    table, frame, values = setup.table, setup.table.frame, setup.values
    if not result.tables["jobs"]["kept"].any():
        fate = "each one is larger than the cluster"
        if refused(result).any():
            fate = "admission refused each one" if values["admission"] else "each one was refused"
        if ended(result).any():
            fate = "each one was ended or refused before it was done"
        raise InputError(f"no job is left to replay: {fate}", file=table.source)
    why = causes.parts(
        metrics.column(frame, "submit_time"),
        metrics.column(frame, "num_gpus"),
        setup.workload,
        setup.cluster.network,
        result.tables["jobs"],
        model=values["model"],
        shares=setup.jobs.get("shares") if values["interference"] > 0 or _pairs(setup.rates) else None,
    )
    finished = jobs_frame(frame, setup.workload.ideal_run_time, why, result)
    name = setup.chosen.name
    down = None if setup.outages is None else setup.outages.on_clock(values)
    serving, service_names = None, () if setup.services is None else setup.services.names
    if setup.services is not None:
        serving = Serving.of(setup.services.names, setup.services.gpus, result)
    searches = None if setup.trials is None else searches_frame(frame, setup.trials, result)
    last = run_time(frame, finished, result)[1]
    outcome = Outcome(
        jobs=finished,
        allocations=allocations_frame(frame, result) if values["allocations"] else None,
        timeline=timeline_frame(
            result,
            setup.cluster,
            shares=setup.jobs.get("shares") is not None,
            outages=down,
            replicas=None if serving is None else serving.held(last),
        ),
        decisions=decisions_frame(frame, result) if values["decisions"] else None,
        run=deepcopy(setup.record),
        speeds=None if setup.rates is None else setup.rates.frame,
        outages=None if setup.outages is None else setup.outages.frame,
        quota=None if setup.quotas is None else setup.quotas.frame,
        services=None if setup.services is None else setup.services.frame,
        replicas=None if serving is None else serving.frame(last),
        servers=servers_frame(frame["job_id"], service_names, down, result.tables.get("asleep"), last),
        stays_written=_stays(setup, service_names, result),
        work=_done(setup)[result.tables["jobs"]["kept"]],
        rungs=None if setup.trials is None else rungs_frame(frame, result),
        searches=searches,
    )
    recorded = {key: True for table, key in RECORDED.items() if getattr(outcome, table) is not None}
    if recorded:
        outcome.run["record"] = recorded
    seconds = time.perf_counter() - setup.started
    cluster, vc = setup.cluster, setup.vc

    def figures() -> dict[str, Any]:
        told = summarise_run(
            name,
            frame,
            finished,
            cluster,
            vc=vc,
            result=result,
            outages=setup.outages,
            seen=down,
            serving=serving,
            searches=searches,
            resizes=setup.chosen.is_("resizes"),
        )
        return metrics.with_seconds(told, seconds)

    return summarised_later(outcome, figures)


def _stays(setup: Setup, services: Sequence[str], result: _core.RunResult) -> pl.DataFrame | None:
    """stays.parquet; None where no stay may end before its job is done."""
    if "stays" not in result.tables:
        return None
    outages = None if setup.outages is None else setup.outages.merged
    return stays_frame(setup.table.frame["job_id"], setup.cluster, services, outages, result.tables["stays"])


def _done(setup: Setup) -> NDArray[np.float64]:
    """The work of every job, in its units."""
    if setup.values["model"] == "fixed":
        return metrics.column(setup.table.frame, "duration")
    return setup.workload.iterations.astype(np.float64)


def _pairs(rates: RateTable | None) -> bool:
    """Whether speeds of two jobs on one GPU were measured."""
    return rates is not None and rates.pairs.height > 0


def _rates(values: Mapping[str, Any], workload: profiles.Workload | None) -> RateTable | None:
    """The measured speeds; None under another model than `table`."""
    tables = values["tables"]
    if values["model"] != "table":
        if tables is not None:
            raise UsageError("option tables: expected it together with model table")
        return None
    if tables is None:
        raise UsageError("option model: table: expected it together with tables, a file of measured speeds")
    if workload is not None:
        raise refusal("workload", workload, "None under model table: the tables say it")
    return as_rate_table(tables)


def _types(table: JobTable, cluster: Cluster) -> _core._Types | None:
    """What the cluster's GPU types mean to the jobs; None where they change nothing."""
    found = kinds.resolve(table, cluster)
    if found is None:
        return None
    return {
        "of": found.of,
        "kinds": [(kind.recorded_speed, None, list(kind.allowed)) for kind in found.kinds],
    }


def _server_vc(cluster: Cluster) -> NDArray[np.uint32]:
    """Each server's virtual cluster as an index into `cluster.vc_names`."""
    number = {name: index for index, name in enumerate(cluster.vc_names)}
    return np.array([number[name] for name in cluster.server_vc or ()], dtype=np.uint32)


def _server_types(cluster: Cluster) -> list[int] | None:
    return None if cluster.server_types is None else cluster.server_types.tolist()


def _prices(cluster: Cluster) -> list[float]:
    """The price of every GPU type of the cluster."""
    prices = []
    for fact in cluster.type_facts:
        if fact.price_per_hour is None:
            raise UsageError(
                f"option type-order: cheapest: expected a price of every GPU type; {fact.name} has none:"
                f" give it as price_per_hour in [gpu_types.{fact.name}] of the cluster file"
            )
        prices.append(fact.price_per_hour)
    return prices


def _work(
    table: JobTable, cluster: Cluster, workload: profiles.Workload, vc: NDArray[np.uint32] | None
) -> Iterator[tuple[float, float]]:
    """Of each (virtual) cluster, the GPU-seconds that its jobs ask for, and its GPUs."""
    asked = asked_gpus(table.frame) * workload.ideal_run_time
    if vc is None:
        yield float(asked.sum()), cluster.num_gpus
    else:
        for name, work in zip(cluster.vc_names, np.bincount(vc, asked, len(cluster.vc_names)), strict=True):
            yield float(work), int(cluster.server_gpus[cluster.vc_servers(name)].sum())


def _check_sample(sample: float | None, table: JobTable, workload: profiles.Workload) -> None:
    """Refuses a timeline that no memory would hold: a run lasts at least as long as if nobody ever queued."""
    submit = metrics.column(table.frame, "submit_time")
    least = float((submit + workload.ideal_run_time).max() - submit.min())
    if sample is not None and least / sample > MOST_SAMPLES:
        raise UsageError(
            f"option sample: {sample}: expected a step that gives at most {MOST_SAMPLES:,} points;"
            f" the run lasts {least:,.0f} s or longer"
        )
