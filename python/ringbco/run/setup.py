"""What a replay is made of: its checked inputs. What is made of it afterwards is in `ringbco.run.results`.

`replay` and `Simulation` share both, so that they refuse the same and give the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.fabric import engine_columns
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError, show_value
from ringbco.result.window import OPTIONS as WINDOW
from ringbco.result.window import Window
from ringbco.run import custom_policy, log
from ringbco.run.frames import LONGER_SLOT, describe_run, explain
from ringbco.run.from_log import LoggedRun, follow
from ringbco.run.options import (
    BY_JOB,
    COLUMN,
    MOST_SAMPLES,
    Policy,
    as_cluster,
    checked,
    described,
    is_log,
    on_clock,
    order_column,
    refusal,
    resolve_policy,
    run_times_named,
)
from ringbco.run.outage_draws import DAY, MOST_OUTAGES, Draw, as_draw, is_draw
from ringbco.run.passes import check_failures, check_passes, too_short_rounds
from ringbco.run.refusals import as_typed, check_limits, check_policy, deadline, user, uses
from ringbco.run.registry import REPLAY
from ringbco.trace import fair_shares, recorded
from ringbco.trace.answering import AnsweringServices, request_columns
from ringbco.trace.epoch import epoch_of, outside_jobs
from ringbco.trace.fair_shares import FairShares
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ringbco.trace.outages import Maintenance, Outages, united
from ringbco.trace.pairing import pairing
from ringbco.trace.rate_table import RateTable
from ringbco.trace.recorded import AS_RECORDED
from ringbco.trace.requests import Requests
from ringbco.trace.services import Services
from ringbco.trace.side_tables import KINDS, ReadContext, SideTable, read_side_tables, the
from ringbco.trace.uneven import uneven
from ringbco.trace.workload import READS, Rows, Workload, key_of, resolve, rows_of
from ringbco.units import rounded_down

_SAVE: Final = (
    "let stays outlast their checkpoint intervals: a shorter --checkpoint-interval, or decisions less often"
)
_OUTLAST: Final = "let stays outlast their pauses: a shorter --preempt-cost, or decisions less often"


@dataclass(frozen=True)
class Drawn:
    """Outages that are drawn for a run: up to `start` + `length`, s, in which it is hoped to end."""

    draw: Draw
    seed: int
    start: float
    length: float

    def outages(self, cluster: Cluster) -> Outages:
        """Those that begin in that time."""
        return self.draw.over(cluster, self.seed, self.start, self.length)


@dataclass(frozen=True)
class Setup:
    """A run before it starts.

    workload: the jobs, shared with other runs. custom: the custom policy, if it is one. outages: when
    servers are down, maintenance included; None for a run that knows none. jobs, servers, options: what the
    engine is given. beside: its side tables, by option. followed: the log that the run follows, if it does.
    outage_draw: how outages are drawn, where they are.
    """

    started: float
    workload: Workload
    chosen: Policy
    values: Mapping[str, Any]
    custom: custom_policy.CustomPolicy | None
    outages: Outages | None
    jobs: _core._Jobs
    servers: _core._Cluster
    options: dict[str, Any]
    beside: Mapping[str, SideTable]
    followed: LoggedRun | None = None
    outage_draw: Drawn | None = None

    @property
    def has_seats(self) -> bool:
        """Whether several jobs may hold the same GPUs."""
        return self.jobs.get("pairing") is not None

    @property
    def table(self) -> JobTable:
        """The job table."""
        return self.workload.table

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.workload.cluster

    @property
    def services(self) -> Services | None:
        """The services of the run."""
        return the(Services, self.beside)

    @cached_property
    def warnings(self) -> list[str]:
        """What is allowed and yet unlike any public trace or network, or not of the time of the jobs."""
        return [*self.workload.warnings, *self.run_warnings]

    @cached_property
    def run_warnings(self) -> list[str]:
        """Those that runs of one workload need not share: of the tables beside it, and gains that dip."""
        given = [
            table for name, table in self.beside.items() if self.outage_draw is None or name != "outages"
        ]
        told = outside_jobs(self.table, given)
        requests = the(Requests, self.beside)
        told += requests.notes if requests is not None else []
        if self.custom is None and self.chosen.is_("resizes"):
            told += uneven(self.workload, self.servers, self.options)
        return told

    @cached_property
    def window(self) -> Window | None:
        """Of what the figures are; None for the whole run. Raises EmptyWindowError."""
        columns = self.workload.columns
        return Window.of(self.values, columns["submit"], known=columns["chains"] is None)

    def is_covered(self, result: _core.RunResult) -> bool:
        """Whether servers could fail until the last job of a run was done."""
        if self.outage_draw is None:
            return True
        finish = result.tables["jobs"]["finish"]
        return not (finish > self.outage_draw.start + self.outage_draw.length).any()

    def longer(self) -> Setup:
        """The same run with outages over twice the time: those that there were stay as they are."""
        if self.outage_draw is None:
            return self
        drawn = replace(self.outage_draw, length=2.0 * self.outage_draw.length)
        draw = drawn.draw
        if drawn.length / draw.mtbf * self.cluster.num_servers > MOST_OUTAGES:
            raise UsageError(
                f"option outages: {draw.source}: expected the jobs to be done within {MOST_OUTAGES:,}"
                f" outages; after {self.outage_draw.length:,.0f} s some are not: give a longer mtbf, or a"
                " shorter --checkpoint-interval"
            )
        failures = drawn.outages(self.cluster)
        outages = united(failures, the(Maintenance, self.beside)) or failures
        servers: _core._Cluster = {**self.servers, "outages": outages.columns()}
        beside = {**self.beside, "outages": failures}
        return replace(self, outages=outages, beside=beside, servers=servers, outage_draw=drawn)

    def part(self, rows: Rows, source: str) -> Setup:
        """The same run of some rows alone, its decisions made by the caller; takes no polars."""
        workload = self.workload.part(rows, source)
        servers = self.servers
        if workload.columns["types"] is None:
            servers = {**servers, "server_types": None}
        jobs: _core._Jobs = {**self.jobs, **workload.columns}
        jobs["pairing"] = rows_of(self.jobs.get("pairing"), rows, self.jobs["num_gpus"].size)
        return replace(self, started=time.perf_counter(), workload=workload, jobs=jobs, servers=servers)

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
        run = describe_run(*(self.table, self.cluster, self.chosen.name, self.described(), self.warnings))
        if self.custom is not None:
            run["own_policy"] = {"name": self.chosen.name, **self.custom.described}
        for name, kind in KINDS.items():
            if name in self.beside:
                run[kind.form.entry or name] = self.beside[name].identity
        predicted = self.jobs["predicted"]
        if predicted is not None:
            run["predicted"] = {"jobs_without": int(np.count_nonzero(~(predicted > 0.0)))}
        if self.followed is not None:
            run["log"] = self.followed.told()
        return run

    def explain(self, error: _core.CoreError) -> Exception:
        """The engine's refusal in the table's terms."""
        error.message = self.cluster.named(error.message)
        if error.kind == "futile":
            policy = as_typed(self.chosen, self.values, self.custom)
            loses = self.values["preempt_loses"] or self.values["evict_loses"]
            return InputError(
                f"policy {policy}: expected every job to come to its end, but {error.message}",
                file=self.table.source,
                hint=too_short_rounds(self.custom, self.values) or (_SAVE if loses else _OUTLAST),
            )
        if self.custom is not None and error.kind == "stuck" and error.row is not None:
            job = self.table.frame["job_id"][error.row]
            said = error.message
            stalls = "under contention" in said
            return InputError(
                f"policy {self.custom.name} to bring every job to its end, but job {job!r}: {said}",
                file=self.table.source,
                row=error.row + 1,
                hint=LONGER_SLOT if stalls else too_short_rounds(self.custom, self.values),
            )
        if self.services is not None and error.kind == "unanswered" and error.row is not None:
            name = show_value(self.services.names[error.row])
            return InputError(
                f"expected every request to be answered, but those of service {name}: {error.message}",
                file=self.services.source,
                hint="let it have a replica at some time: more servers, or preemptible jobs",
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
    workload: Workload | None,
    options: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
) -> Setup:
    """Checks everything that a run is given. Raises as `replay` does."""
    started = time.perf_counter()
    followed = None
    if isinstance(policy, str) and is_log(policy):
        followed = follow(policy, options, as_cluster(cluster, recorded_cluster))
        options = followed.options
    mine = custom_policy.resolve(policy, parameters) if custom_policy.is_custom(policy) else None
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
    # A custom policy orders the jobs itself: `resolve_policy` has refused another order.
    given = {name: value for name, value in options.items() if mine is None or name != "order"}
    if chosen.is_(AS_RECORDED):
        given = {"model": "fixed", **given}
        if given["model"] != "fixed":
            raise refusal("model", given["model"], f"fixed: {chosen.name} repeats a log")
    # So it has its name: only a policy of the engine is looked up.
    values = checked(given | ({"policy": chosen.name} if mine is None else {})) | {"policy": chosen.name}
    seats = _has_seats(chosen, values)
    check_policy(chosen, values)
    cluster = as_cluster(cluster, recorded_cluster)
    if workload is None:
        workload = resolve(as_table(jobs), cluster, values)
    elif followed is not None and workload.key != key_of(cluster, values):
        workload = resolve(workload.table, cluster, values)  # the log's run had other settings
    elif not isinstance(workload, Workload) or workload.key != key_of(cluster, values):
        raise refusal("workload", "another", f"that of this cluster with these {', '.join(READS)}, or None")
    table, cluster = workload.table, workload.cluster
    values = on_clock(values, table)
    _check_sample(values["sample"], workload)
    check_limits(table, chosen, values)
    check_passes(chosen, values, mine, workload)
    check_failures(chosen, values, mine, workload)
    drawn = _drawn(values, workload) if is_draw(values["outages"]) else None
    known = ReadContext.of(cluster, table.frame, epoch_of(table))
    beside = {**workload.side_tables}
    if drawn is not None:
        beside["outages"] = drawn.outages(cluster)
    beside |= read_side_tables(values, known, without=beside)
    services, maintenance = the(Services, beside), the(Maintenance, beside)
    outages = united(the(Outages, beside), maintenance)
    columns: _core._Jobs = {
        **workload.columns,
        "deadline": deadline(table, chosen),
        "user": user(table, chosen),
        "predicted": run_times_named(values["predict"], table) if uses(chosen, "predict") else None,
        "estimated": (
            run_times_named(values["estimate"], table) if uses(chosen, "estimate", values) else None
        ),
        "key": order_column(values["order"], table) if mine is None else None,
        "pairing": pairing(table, cluster, the(RateTable, beside)) if seats else None,
        "fair": fair_shares.columns(table, the(FairShares, beside)) if chosen.order == "fairshare" else None,
        "log": None,
        "recorded": recorded.columns(table, cluster) if chosen.is_(AS_RECORDED) else None,
    }
    if followed is not None:
        names = followed.log.services(() if services is None else services.names)
        columns["log"] = followed.log.columns(
            table, len(cluster.server_gpus), names, runs_through=followed.runs_through
        )
    servers: _core._Cluster = {
        "server_gpus": cluster.server_gpus,
        "server_vc": None if workload.vc is None else vc_of_servers(cluster),
        "server_types": None if columns["types"] is None else _server_types(cluster),
        "type_prices": _prices(cluster) if values["type_order"] == "cheapest" else None,
        "outages": None if outages is None else outages.columns(),
        "maintenance": None if maintenance is None else maintenance.columns(),
        "services": None if services is None else services.columns(),
        "requests": _requests(beside, cluster),
        "network": astuple(cluster.network),
    }
    servers.update(cast("_core._Cluster", engine_columns(cluster)))
    told = _told(chosen, values, columns)
    of_engine = (outages, columns, servers, told)
    setup = Setup(started, workload, chosen, values, mine, *of_engine, beside, followed, drawn)
    _ = setup.window  # refused before the run, if at all
    return setup


def _has_seats(chosen: Policy, values: dict[str, Any]) -> bool:
    """Whether several jobs may hold the same GPUs; says so in the options of a policy that implies it.

    Raises UsageError for measured speeds of which nothing is read.
    """
    if chosen.is_("pairs") and values["jobs_per_gpu"] is None:
        values["jobs_per_gpu"] = 2
    seats = (values["jobs_per_gpu"] or 1) > 1
    if values["tables"] is not None and values["model"] != "table" and not seats:
        raise UsageError("option tables: expected it together with model table, or with jobs-per-gpu 2")
    return seats


def _told(chosen: Policy, values: Mapping[str, Any], columns: _core._Jobs) -> dict[str, Any]:
    """The options as the engine takes them."""
    told = {"preemption": chosen.preemption, **described(chosen, values)}
    for name in WINDOW:
        del told[name]
    for name, column in zip(BY_JOB, (columns["predicted"], columns["estimated"]), strict=True):
        if str(told[name]).startswith(COLUMN):
            told[name] = REPLAY[name].default if column is None else COLUMN[:-1]
    return told


def _requests(beside: Mapping[str, SideTable], cluster: Cluster) -> _core._Requests | None:
    requests, services = the(Requests, beside), the(AnsweringServices, beside)
    if requests is None or services is None:
        return None
    return request_columns(requests, services, cluster)


def vc_of_servers(cluster: Cluster) -> NDArray[np.uint32]:
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


def _drawn(values: Mapping[str, Any], workload: Workload) -> Drawn:
    """What is drawn at first: over twice the time that the jobs would take if none ever waited."""
    submit = workload.columns["submit"]
    start = float(submit.min())
    least = float((submit + workload.profiled.ideal_run_time).max()) - start
    return Drawn(as_draw(values["outages"]), values["seed"], start, max(2.0 * least, DAY))


def _check_sample(sample: float | None, workload: Workload) -> None:
    """Refuses a timeline that no memory would hold: a run lasts at least as long as if no job ever queued."""
    if sample is None:
        return
    first = workload.independent
    submit = workload.columns["submit"][first]
    least = float((submit + workload.profiled.ideal_run_time[first]).max() - submit.min())
    if least / sample > MOST_SAMPLES:
        raise UsageError(
            f"option sample: {sample}: expected a step that gives at most {MOST_SAMPLES:,} points;"
            f" the run lasts {rounded_down(least, 0):,.0f} s or longer"
        )
