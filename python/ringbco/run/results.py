"""What is made of a run that is over: its outcome, each of whose tables has its maker here.

A maker gives the table, None where the run has none, or a function that makes it when somebody first asks.
Such a function keeps no more of the job table than it reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.errors import InputError
from ringbco.io.forks import use_polars
from ringbco.io.toml import copied
from ringbco.result import causes, metrics
from ringbco.result.answered import Answered
from ringbco.result.chains import chain_times
from ringbco.result.figures import LISTS, evaluate
from ringbco.result.links import links_frame
from ringbco.result.outcome import Outcome, made_later, summarised_later, with_seconds
from ringbco.result.searches import rungs_frame, searches_frame
from ringbco.result.servers import servers_frame
from ringbco.result.serving import Serving
from ringbco.result.stays import stays_frame
from ringbco.result.tables import TABLES
from ringbco.run import log
from ringbco.run.frames import (
    allocations_frame,
    ended,
    jobs_columns,
    refused,
    timeline_frame,
    with_arrivals,
    with_causes,
)
from ringbco.run.setup import Setup
from ringbco.run.summary import Source, losing
from ringbco.trace.answering import AnsweringServices
from ringbco.trace.clock import first_instant
from ringbco.trace.predecessors import NO_ROW
from ringbco.trace.recorded import recorded_waits
from ringbco.trace.requests import Requests
from ringbco.trace.shares import MILLI_GPU
from ringbco.trace.side_tables import the

Table = pl.DataFrame | Callable[[], pl.DataFrame] | None


@dataclass(frozen=True)
class FinishedResult:
    """A run that is over, and what several of its tables are made of."""

    setup: Setup
    result: _core.RunResult

    @cached_property
    def job_id(self) -> pl.Series:
        """That of the job table."""
        return self.setup.table.frame["job_id"]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The job table as it arrived: `with_arrivals`."""
        return with_arrivals(self.setup.table.frame, self.result)

    def _chain_times(self) -> NDArray[np.float64] | None:
        """How long each chain took, s, of those whose first job arrived in the window."""
        frame, told = self.frame, self.setup.workload.columns["chains"]
        if "after" not in frame.columns:
            return None
        own = self.result.tables["jobs"]
        return chain_times(
            np.full(frame.height, NO_ROW, np.uint32) if told is None else told[0],
            done=own["kept"],
            there=own["kept"] | refused(self.result) | ended(self.result),
            finish=own["finish"],
            submitted=metrics.column(frame, "submitted"),
            arrival=metrics.column(frame, "submit_time"),
            window=self.setup.window,
        )

    @property
    def shares(self) -> NDArray[np.uint32] | None:
        """Thousandths of a GPU of each job; None where all ask for whole ones."""
        return self.setup.jobs.get("shares")

    @cached_property
    def outages(self) -> pl.DataFrame | None:
        """Those that the engine was given, by number."""
        return None if self.setup.outages is None else self.setup.outages.merged

    @cached_property
    def down(self) -> pl.DataFrame | None:
        """The same as the clock sees them."""
        return None if self.setup.outages is None else self.setup.outages.on_clock(self.setup.values)

    @cached_property
    def services(self) -> Sequence[str]:
        """The services' names, by number."""
        known = () if self.setup.services is None else self.setup.services.names
        return known if self.setup.followed is None else self.setup.followed.log.services(known)

    @cached_property
    def serving(self) -> Serving | None:
        """What became of the services."""
        services = self.setup.services
        return None if services is None else Serving.of(services, self.result, self.answered)

    @cached_property
    def answered(self) -> Answered | None:
        """What became of the requests."""
        setup = self.setup
        requests, services = the(Requests, setup.beside), the(AnsweringServices, setup.beside)
        if requests is None or services is None:
            return None
        return Answered.of(requests, services, setup.cluster, self.result)

    @cached_property
    def searches(self) -> pl.DataFrame | None:
        """searches.parquet."""
        trials = self.setup.workload.trials
        return None if trials is None else searches_frame(self.frame, trials, self.result)

    @cached_property
    def source(self) -> Source:
        """What the figures are of."""
        setup, frame = self.setup, self.frame
        searched, window = self.searches, setup.window
        if window is not None and searched is not None:
            searched = searched.filter(pl.Series(window.holds(searched["submit_time"].to_numpy())))
        starts = setup.jobs.get("recorded")
        # To a list of names polars comes by a long way.
        read = ("submit_time", "num_gpus", *({"gpu_share"} & set(frame.columns)))
        return Source(
            setup.chosen.name,
            pl.DataFrame([frame[name] for name in read]),
            jobs_columns(frame, setup.workload.profiled.ideal_run_time, self.result),
            setup.cluster,
            self.result,
            *(setup.workload.vc, setup.outages, self.down, self.serving, searched),
            may_resize=setup.chosen.is_("resizes") and "stays" in self.result.tables,
            window=window,
            users=setup.workload.users,
            losing=losing(setup.values),
            chains=self._chain_times(),
            recorded=None if starts is None else first_instant(starts[0], setup.values),
            log_waits=recorded_waits(setup.table.frame),
        )


def _jobs(made: FinishedResult) -> Table:
    setup, own, finished = made.setup, made.result.tables["jobs"], made.source.finished
    values, rates, frame = setup.values, setup.workload.rates, made.frame
    paired = rates is not None and rates.pairs.height > 0  # speeds of two jobs on one GPU were measured
    why = partial(
        causes.parts,
        metrics.column(frame, "submit_time"),
        metrics.column(frame, "num_gpus"),
        setup.workload.profiled,
        setup.cluster.network,
        own,
        model=values["model"],
        sharing=values["sharing"],
        shares=made.shares if values["interference"] > 0 or paired else None,
    )
    return lambda: with_causes(finished.frame, why(), own["kept"])


def _allocations(made: FinishedResult) -> Table:
    if not made.setup.values["allocations"]:
        return None
    return partial(allocations_frame, made.job_id, made.result, shares=made.shares is not None)


def _timeline(made: FinishedResult) -> Table:
    cluster, result, down, serving = made.setup.cluster, made.result, made.down, made.serving
    shares, last = made.shares is not None, made.source.last
    return lambda: timeline_frame(
        result,
        cluster,
        shares=shares,
        outages=down,
        replicas=None if serving is None else serving.held(serving.over(last)),
    )


def _decisions(made: FinishedResult) -> Table:
    if not made.setup.values["decisions"]:
        return None
    shares, seats = None if made.shares is None else made.shares / MILLI_GPU, made.setup.has_seats
    told = log.decisions_frame(
        made.job_id, shares, made.outages, made.services, made.result.tables["log"], seats=seats
    )
    return told if made.serving is None else made.serving.numbered(told)


def _stays(made: FinishedResult) -> Table:
    stays = made.result.tables.get("stays")
    if stays is None:
        return None
    saves = made.setup.values["checkpoint_cost"] > 0
    return partial(
        stays_frame, made.job_id, made.setup.cluster, made.services, made.outages, stays, saves=saves
    )


def _servers(made: FinishedResult) -> Table:
    asleep = made.result.tables.get("asleep")
    return servers_frame(made.job_id, made.services, made.down, asleep, made.source.last)


def _rungs(made: FinishedResult) -> Table:
    return None if made.searches is None else rungs_frame(made.frame, made.result)


def _links(made: FinishedResult) -> Table:
    links = made.result.tables.get("links")
    return None if links is None else partial(links_frame, made.setup.cluster, links)


def _latency(made: FinishedResult) -> Table:
    serving, answered = made.serving, made.answered
    return None if serving is None or answered is None else partial(serving.latency, answered)


def _requests(made: FinishedResult) -> Table:
    rows = made.setup.values["request_rows"]
    return made.answered.rows if made.answered is not None and rows else None


MAKERS: Final[Mapping[str, Callable[[FinishedResult], Table]]] = {
    "jobs": _jobs,
    "allocations": _allocations,
    "timeline": _timeline,
    "decisions": _decisions,
    "replicas": lambda made: None if made.serving is None else made.serving.frame(made.source.last),
    "latency": _latency,
    "requests": _requests,
    "rungs": _rungs,
    "searches": lambda made: made.searches,
    "stays_written": _stays,
    "servers": _servers,
    "links": _links,
}
"""Who makes each table of a replay, but for the copies of side tables."""


def conclude(setup: Setup, result: _core.RunResult) -> Outcome:
    """The outcome of a run that is over."""
    use_polars()
    _refuse_empty(setup, result)
    made = FinishedResult(setup, result)
    copies = {name: copy for table in setup.beside.values() for name, copy in table.tables.items()}
    if setup.outages is not None:
        copies["outages"] = setup.outages.copied
    if made.answered is not None and made.serving is not None:
        copies["services"] = made.serving.loads()
    tables = copies | {name: make(made) for name, make in MAKERS.items()}
    outcome = made_later(tables, work=_done(setup, result.tables["jobs"]["kept"]))
    outcome.run = copied(setup.record)
    outcome.__dict__["_table"] = setup.table
    told = outcome.run.get("options", {})
    recorded = [
        table
        for table in TABLES.values()
        if table.said == "record" and outcome.has(table.name) and not table.is_implied(told)
    ]
    if recorded:
        outcome.run["record"] = {table.key: True for table in recorded}
    source, seconds = made.source, time.perf_counter() - setup.started

    def figures(without: Collection[str] = ()) -> dict[str, Any]:
        return with_seconds(evaluate(source.rows, without), seconds)

    return summarised_later(outcome, figures, partial(figures, LISTS))


def _refuse_empty(setup: Setup, result: _core.RunResult) -> None:
    """Raises InputError where no job was done, or none of the window."""
    kept, source, window = result.tables["jobs"]["kept"], setup.table.source, setup.window
    if not kept.any():
        fate = "each one is larger than the cluster"
        if refused(result).any():
            fate = "admission refused each one" if setup.values["admission"] else "each one was refused"
        if ended(result).any():
            fate = "each one was ended or refused before it was done"
        raise InputError(f"no job is left to replay: {fate}", file=source)
    arrival = result.tables["jobs"].get("arrival", setup.workload.columns["submit"])
    if window is not None and not window.holds(arrival)[kept].any():
        none = f"no job is left to measure: none submitted in the window, {window}, was done"
        raise InputError(none, file=source)


def _done(setup: Setup, kept: NDArray[np.bool_]) -> NDArray[np.float64] | NDArray[np.uint64]:
    """The work of every job that ran, in its units; no copy of the column where all did."""
    fixed = setup.values["model"] == "fixed"
    work = setup.workload.columns["duration" if fixed else "iterations"]
    return work if kept.all() else work[kept]
