"""What a replay is made of: the checked inputs before it, the result after it.

`replay` and `Simulation` share it, so that both refuse the same and give the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.io.forks import use_polars
from ringbco.io.toml import copied
from ringbco.result import causes, metrics
from ringbco.result.figures import LISTS, evaluate
from ringbco.result.outcome import Outcome, made_later, summarised_later, with_seconds
from ringbco.result.schema import RECORDED
from ringbco.result.searches import rungs_frame, searches_frame
from ringbco.result.servers import servers_frame
from ringbco.result.serving import Serving
from ringbco.result.stays import stays_frame
from ringbco.result.window import OPTIONS as WINDOW
from ringbco.result.window import Window
from ringbco.run import log, own
from ringbco.run.followed import Followed, follow
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
from ringbco.run.outage_draws import DAY, MOST_OUTAGES, Draw, as_draw, is_draw
from ringbco.run.passes import check_failures, check_passes, too_short_rounds
from ringbco.run.scheduling import as_typed, check_limits, check_policy, deadline, user
from ringbco.run.steps import (
    allocations_frame,
    describe_run,
    ended,
    explain,
    jobs_columns,
    refused,
    timeline_frame,
    with_causes,
)
from ringbco.run.summary import Source
from ringbco.trace import fair_shares
from ringbco.trace.clocks import beside_jobs, epoch_of
from ringbco.trace.fair_shares import FairShares
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ringbco.trace.outages import Maintenance, Outages, united
from ringbco.trace.rate_table import RateTable
from ringbco.trace.services import Services
from ringbco.trace.shares import WHOLE
from ringbco.trace.side_tables import KINDS, Known, SideTable, read_side_tables, the
from ringbco.trace.uneven import uneven
from ringbco.trace.workload import READS, Workload, key_of, resolve
from ringbco.units import rounded_down

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

    workload: the jobs, shared with other runs. own: the policy of one's own, if it is one. outages: when
    servers are down, maintenance included; None for a run that knows none. jobs, servers, options: what the
    engine is given. beside: its side tables, by option. followed: the log that the run follows, if it does.
    drawn: how outages are drawn, where they are.
    """

    started: float
    workload: Workload
    chosen: Policy
    values: Mapping[str, Any]
    own: own.Own | None
    outages: Outages | None
    jobs: _core._Jobs
    servers: _core._Cluster
    options: dict[str, Any]
    beside: Mapping[str, SideTable]
    followed: Followed | None = None
    drawn: Drawn | None = None

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
    def doubts(self) -> list[str]:
        """What is allowed and yet unlike any public trace or network, or not of the time of the jobs."""
        return [*self.workload.doubts, *self.own_doubts]

    @cached_property
    def own_doubts(self) -> list[str]:
        """Those that runs of one workload need not share: tables on another clock, gains that dip."""
        given = [table for name, table in self.beside.items() if self.drawn is None or name != "outages"]
        told = beside_jobs(self.table, given)
        if self.own is None and self.chosen.is_("resizes"):
            told += uneven(self.workload, self.servers, self.options)
        return told

    @cached_property
    def window(self) -> Window | None:
        """Of what the figures are; None for the whole run. Raises EmptyWindowError."""
        return Window.of(self.values, self.workload.columns["submit"])

    def is_covered(self, result: _core.RunResult) -> bool:
        """Whether servers could fail until the last job of a run was done."""
        if self.drawn is None:
            return True
        finish = result.tables["jobs"]["finish"]
        return not (finish > self.drawn.start + self.drawn.length).any()

    def longer(self) -> Setup:
        """The same run with outages over twice the time: those that there were stay as they are."""
        if self.drawn is None:
            return self
        drawn = replace(self.drawn, length=2.0 * self.drawn.length)
        draw = drawn.draw
        if drawn.length / draw.mtbf * self.cluster.num_servers > MOST_OUTAGES:
            raise UsageError(
                f"option outages: {draw.source}: expected the jobs to be done within {MOST_OUTAGES:,}"
                f" outages; after {self.drawn.length:,.0f} s some are not: give a longer mtbf, or a shorter"
                " --checkpoint-interval"
            )
        failures = drawn.outages(self.cluster)
        outages = united(failures, the(Maintenance, self.beside)) or failures
        servers: _core._Cluster = {**self.servers, "outages": outages.columns()}
        beside = {**self.beside, "outages": failures}
        return replace(self, outages=outages, beside=beside, servers=servers, drawn=drawn)

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
        run = describe_run(*(self.table, self.cluster, self.chosen.name, self.described(), self.doubts))
        if self.own is not None:
            run["own_policy"] = {"name": self.chosen.name, **self.own.described}
        for name, kind in KINDS.items():
            if name in self.beside:
                run[kind.form.entry or name] = self.beside[name].told()
        if self.followed is not None:
            run["log"] = self.followed.told()
        return run

    def explain(self, error: _core.CoreError) -> Exception:
        """The engine's refusal in the table's terms."""
        if error.kind == "futile":
            policy = as_typed(self.chosen, self.values, self.own)
            return InputError(
                f"policy {policy}: expected every job to come to its end, but {error.message}",
                file=self.table.source,
                hint=too_short_rounds(self.own, self.values) or _OUTLAST,
            )
        if self.own is not None and error.kind == "stuck" and error.row is not None:
            job = self.table.frame["job_id"][error.row]
            said = error.message
            hint = too_short_rounds(self.own, self.values)
            if self.values["clock"] != "slot" or hint:  # then contention is not to blame
                said = said.replace(" under contention", "").replace(" (no iteration fits in a slot)", "")
            return InputError(
                f"policy {self.own.name} to bring every job to its end, but job {job!r}: {said}",
                file=self.table.source,
                row=error.row + 1,
                hint=hint,
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
    cluster = as_cluster(cluster, recorded_cluster)
    if workload is None:
        workload = resolve(as_table(jobs), cluster, values)
    elif followed is not None and workload.key != key_of(cluster, values):
        workload = resolve(workload.table, cluster, values)  # the log's run had other settings
    elif not isinstance(workload, Workload) or workload.key != key_of(cluster, values):
        raise refusal("workload", "another", f"that of this cluster with these {', '.join(READS)}, or None")
    table, cluster = workload.table, workload.cluster
    _check_sample(values["sample"], workload)
    check_limits(table, chosen, values)
    check_passes(chosen, values, mine, workload)
    check_failures(chosen, values, mine, workload)
    drawn = _drawn(values, workload) if is_draw(values["outages"]) else None
    known = Known.of(cluster, table.frame, epoch_of(table))
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
        "key": order_column(values["order"], table) if mine is None else None,
        "fair": fair_shares.columns(table, the(FairShares, beside)) if chosen.order == "fairshare" else None,
        "log": None,
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
        "network": astuple(cluster.network),
    }
    told = {"preemption": chosen.preemption, **described(chosen, values)}
    for name in WINDOW:
        del told[name]
    of_engine = (outages, columns, servers, told)
    setup = Setup(started, workload, chosen, values, mine, *of_engine, beside, followed, drawn)
    _ = setup.window  # refused before the run, if at all
    return setup


def conclude(setup: Setup, result: _core.RunResult) -> Outcome:
    """The outcome of a run that is over."""
    use_polars()
    workload, table, frame, values = setup.workload, setup.table, setup.table.frame, setup.values
    rates, trials, profiled = workload.rates, workload.trials, workload.profiled
    if not result.tables["jobs"]["kept"].any():
        fate = "each one is larger than the cluster"
        if refused(result).any():
            fate = "admission refused each one" if values["admission"] else "each one was refused"
        if ended(result).any():
            fate = "each one was ended or refused before it was done"
        raise InputError(f"no job is left to replay: {fate}", file=table.source)
    window = setup.window
    if (
        window is not None
        and not window.holds(workload.columns["submit"])[result.tables["jobs"]["kept"]].any()
    ):
        none = f"no job is left to measure: none submitted in the window, {window}, was done"
        raise InputError(none, file=table.source)
    # What follows is made when somebody asks for it. It keeps no more of the job table than it reads.
    cluster, own, shares = setup.cluster, result.tables["jobs"], setup.jobs.get("shares")
    why = partial(
        causes.parts,
        metrics.column(frame, "submit_time"),
        metrics.column(frame, "num_gpus"),
        profiled,
        cluster.network,
        own,
        model=values["model"],
        sharing=values["sharing"],
        shares=shares if values["interference"] > 0 or _pairs(rates) else None,
    )
    finished, job_id = jobs_columns(frame, profiled.ideal_run_time, result), frame["job_id"]
    name = setup.chosen.name
    down = None if setup.outages is None else setup.outages.on_clock(values)
    serving, service_names = None, () if setup.services is None else setup.services.names
    if setup.followed is not None:
        service_names = setup.followed.log.services(service_names)
    if setup.services is not None:
        serving = Serving.of(setup.services, result)
    searches = None if trials is None else searches_frame(frame, trials, result)
    searched = searches
    if window is not None and searches is not None:
        searched = searches.filter(pl.Series(window.holds(searches["submit_time"].to_numpy())))
    # To a list of names polars comes by a long way.
    read = ("submit_time", "num_gpus", *({"gpu_share"} & set(frame.columns)))
    asked = pl.DataFrame([frame[name] for name in read])
    source = Source(
        *(name, asked, finished, setup.cluster, result, workload.vc, setup.outages, down, serving, searched),
        may_resize=setup.chosen.is_("resizes") and "stays" in result.tables,
        window=window,
        users=workload.users,
    )
    last = source.last
    makers: dict[str, Callable[[], Any]] = {
        "jobs": lambda: with_causes(finished.frame, why(), own["kept"]),
        "timeline": lambda: timeline_frame(
            result,
            cluster,
            shares=shares is not None,
            outages=down,
            replicas=None if serving is None else serving.held(last),
        ),
    }
    if values["allocations"]:
        makers["allocations"] = lambda: allocations_frame(job_id, result, shares=shares is not None)
    if "stays" in result.tables:
        outages = None if setup.outages is None else setup.outages.merged
        saves = values["checkpoint_cost"] > 0
        makers["stays_written"] = lambda: stays_frame(
            job_id, cluster, service_names, outages, result.tables["stays"], saves=saves
        )
    outcome = made_later(
        makers,
        **({} if values["allocations"] else {"allocations": None}),
        decisions=_decisions(setup, service_names, serving, result) if values["decisions"] else None,
        **{table.form.table: table.frame for table in setup.beside.values()}
        | ({} if setup.outages is None else {"outages": setup.outages.frame}),
        replicas=None if serving is None else serving.frame(last),
        servers=servers_frame(job_id, service_names, down, result.tables.get("asleep"), last),
        work=_done(setup, own["kept"]),
        rungs=None if trials is None else rungs_frame(frame, result),
        searches=searches,
    )
    outcome.run = copied(setup.record)
    recorded = {key: True for table, key in RECORDED.items() if outcome.has(table)}
    if recorded:
        outcome.run["record"] = recorded
    seconds = time.perf_counter() - setup.started

    def figures(without: Collection[str] = ()) -> dict[str, Any]:
        return with_seconds(evaluate(source.rows, without), seconds)

    return summarised_later(outcome, figures, partial(figures, LISTS))


def _decisions(
    setup: Setup, services: Sequence[str], serving: Serving | None, result: _core.RunResult
) -> pl.DataFrame:
    """decisions.parquet."""
    outages = None if setup.outages is None else setup.outages.merged
    shares = setup.jobs.get("shares")
    told = log.decisions_frame(
        *(setup.table.frame["job_id"], None if shares is None else shares / WHOLE, outages, services),
        result.tables["log"],
    )
    return told if serving is None else serving.numbered(told)


def _done(setup: Setup, kept: NDArray[np.bool_]) -> NDArray[np.float64] | NDArray[np.uint64]:
    """The work of every job that ran, in its units; no copy of the column where all did."""
    fixed = setup.values["model"] == "fixed"
    work = setup.workload.columns["duration" if fixed else "iterations"]
    return work if kept.all() else work[kept]


def _pairs(rates: RateTable | None) -> bool:
    """Whether speeds of two jobs on one GPU were measured."""
    return rates is not None and rates.pairs.height > 0


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
    """What is drawn at first: over twice the time that the jobs would take if nobody ever waited."""
    submit = workload.columns["submit"]
    start = float(submit.min())
    least = float((submit + workload.profiled.ideal_run_time).max()) - start
    return Drawn(as_draw(values["outages"]), values["seed"], start, max(2.0 * least, DAY))


def _check_sample(sample: float | None, workload: Workload) -> None:
    """Refuses a timeline that no memory would hold: a run lasts at least as long as if nobody ever queued."""
    if sample is None:
        return
    submit = workload.columns["submit"]
    least = float((submit + workload.profiled.ideal_run_time).max() - submit.min())
    if least / sample > MOST_SAMPLES:
        raise UsageError(
            f"option sample: {sample}: expected a step that gives at most {MOST_SAMPLES:,} points;"
            f" the run lasts {rounded_down(least, 0):,.0f} s or longer"
        )
