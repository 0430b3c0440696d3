"""A result as `why` reads it: who asked for what, who waited, and who held which GPUs at any instant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from ringbco import _core
from ringbco.errors import InputError, RingbcoError
from ringbco.io.digests import sha256_of
from ringbco.result.causes import WAITS
from ringbco.result.dates import zero_of
from ringbco.result.folder import cluster_of
from ringbco.result.validation import check_story
from ringbco.trace.clock import first_instant
from ringbco.trace.jobs import UNREAD, JobTable, TableLike, as_table, read_jobs
from ringbco.trace.outages import IS_DRAIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import ringbco

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

QUEUES: Final = frozenset(each["name"] for each in _core.policies() if each["preemption"] == "none")
"""Built-in policies with a queue that lets jobs run to their end."""
_ROUNDING: Final = 1e-9
"""Of an instant: what adding seconds up to it may be off by."""
RIGID: Final = frozenset(each["name"] for each in _core.policies() if "resizes" not in each["is_"])
"""Built-in policies under which an elastic job runs on the GPUs that it asks for."""
MILLI_GPU: Final = 1000
"""Thousandths of a GPU, which add up exactly."""


class Moment(NamedTuple):
    """An instant: as it is once all of it has happened or, where `before`, just before anything of it has."""

    time: float
    before: bool = False

    def within(self, start: Floats, end: Floats) -> NDArray[np.bool_]:
        """Which intervals hold it."""
        if self.before:
            return (start < self.time) & (self.time <= end)
        return (start <= self.time) & (self.time < end)


class LoadedJobTable(NamedTuple):
    """The job table of a result, or why it is not available."""

    table: JobTable | None
    why_not: str | None


def job_table(outcome: ringbco.Outcome, jobs: TableLike | None) -> LoadedJobTable:
    """The job table that was replayed: `jobs`, else the file that run.toml names, if it has not changed.

    Raises InputError where `jobs` is no job table, or not that of this result.
    """
    trace = outcome.run.get("trace")
    trace = trace if isinstance(trace, Mapping) else {}
    named, sha256 = trace.get("path"), trace.get("sha256")
    if jobs is not None:
        if isinstance(jobs, (str, os.PathLike)):
            table = read_jobs(jobs, without=UNREAD)
            other = sha256 is not None and sha256_of(jobs) != sha256
        else:
            table, other = as_table(jobs), False
        if other or not _replayed(outcome, table):
            raise InputError(
                "is not the job table of this result, or has changed since",
                file=table.source,
                hint="give the one that run.toml names, as it was",
            )
        return LoadedJobTable(table, None)
    if not isinstance(named, str) or sha256 is None:
        return LoadedJobTable(None, "the job table was made in memory")
    try:
        if sha256_of(named) != sha256:
            return LoadedJobTable(None, f"{named} has changed")
        return LoadedJobTable(read_jobs(named, without=UNREAD), None)
    except (OSError, RingbcoError):
        return LoadedJobTable(None, f"{named} is not there")


def _replayed(outcome: ringbco.Outcome, table: JobTable) -> bool:
    """Whether the jobs of a result are in a job table, in its order, as they are there."""
    told = (
        ["submit_time", "num_gpus"]
        if outcome.run.get("options", {}).get("command") != "plan"
        else ["num_gpus"]
    )
    own = outcome.jobs
    if "submitted" in own.columns:  # submit_time is the arrival
        own = own.with_columns(submit_time="submitted")
    own = own.select("job_id", *told)
    both = table.frame.select("job_id", *told).join(own, on="job_id", how="semi", maintain_order="left")
    return both.equals(own)


@dataclass(frozen=True, eq=False)
class Allocations:
    """Rows of who held what: jobs by number, replicas of services by -1 - their service's number.

    stay: the number of a job's; milli_gpus: thousandths of a GPU; gpu: which of its server; seat: of whole
    GPUs that several jobs may hold. Both are -1 where unknown.
    """

    who: Rows
    stay: Rows
    server: Rows
    milli_gpus: Rows
    gpu: Rows
    seat: Rows
    start: Floats
    end: Floats

    def those(self, rows: NDArray[Any]) -> Allocations:
        """Some of the rows."""
        own = self.who, self.stay, self.server, self.milli_gpus, self.gpu, self.seat, self.start, self.end
        return Allocations(*(column[rows] for column in own))

    def once(self) -> Allocations:
        """Of those that hold the same GPUs at a moment, one."""
        seats = np.flatnonzero(self.seat >= 0)
        places = np.stack([self.seat[seats], self.server[seats], self.gpu[seats]])
        first = np.unique(places, axis=1, return_index=True)[1]
        return self.those(np.sort(np.append(np.flatnonzero(self.seat < 0), seats[first])))

    def at(self, moment: Moment) -> Allocations:
        """Those that hold GPUs at a moment."""
        return self.those(np.flatnonzero(moment.within(self.start, self.end)))


class Record:
    """The tables of a result as columns. Jobs are numbered by row of the job table, or of jobs.parquet.

    asked: submit_time, num_gpus and more of each job; `whole`: whether that is all that the job table says.
    Arrays of stays, in order of job and time: row, number, start, end, since (from when on the job waited for
    it), gpus.
    """

    def __init__(self, outcome: ringbco.Outcome, found: LoadedJobTable) -> None:
        self.outcome, self.run, self.found = outcome, outcome.run, found
        self.options: Mapping[str, Any] = outcome.run.get("options", {})
        self.cluster = cluster_of(outcome.run)
        self.called = self.cluster.server_labels if self.cluster.server_names else ()
        check_story(outcome)
        self.gpus = self.cluster.server_gpus.astype(np.int64)
        self.planned = self.options.get("command") == "plan"
        self.policy = str(self.options.get("policy", "?"))
        self.zero = zero_of(outcome)
        self.stays = outcome.stays
        self._number_jobs()
        self._number_stays()

    def _number_jobs(self) -> None:
        table, jobs = self.found.table, self.outcome.jobs
        self.whole = table is not None
        self.asked = jobs if table is None else table.frame
        names = self.asked["job_id"]
        strange = self.stays["job_id"].filter(~self.stays["job_id"].is_in(names.implode()))
        # Jobs that were ended have stays and no row; only the job table knows what they asked for.
        self.ended = strange.unique(maintain_order=True)
        self.names = pl.concat([names, self.ended])
        self.submit = np.full(len(self.names), np.nan)
        self.submit[: len(names)] = 0.0 if self.planned else self.asked["submit_time"].to_numpy()
        self.submitted = self.submit
        if "submitted" in jobs.columns:
            # Who comes after another waits from its arrival; its place is that of its submission.
            self.submitted, at = self.submit.copy(), self.rows_of(jobs["job_id"])
            if "after" in self.asked.columns:  # when such a job without a row arrived, no table says
                self.submit[np.flatnonzero(self.asked["after"].is_not_null().to_numpy())] = np.nan
            self.submit[at] = jobs["submit_time"].to_numpy()
            self.submitted[at] = jobs["submitted"].to_numpy()

    @cached_property
    def _numbers(self) -> pl.DataFrame:
        return self.names.to_frame("job_id").with_row_index("row")

    def rows_of(self, names: pl.Series) -> Rows:
        """The numbers of jobs."""
        own = names.to_frame("job_id").join(self._numbers, on="job_id", how="left", maintain_order="left")
        return own["row"].cast(pl.Int64).fill_null(-1).to_numpy()

    def row_of(self, job: str) -> int | None:
        """The number of a job; None where the record knows none of that name."""
        at = self.names.index_of(job)
        return None if at is None else int(at)

    def name(self, who: int) -> str:
        """The name of a job, or of a service."""
        return str(self.names[who]) if who >= 0 else f"service {self.services[-1 - who]}"

    def _number_stays(self) -> None:
        stays = self.stays
        self.row = self.rows_of(stays["job_id"])
        self.number = stays["stay"].to_numpy().astype(np.int64)
        self.start, self.end = stays["start_time"].to_numpy(), stays["end_time"].to_numpy()
        self.held = stays["num_gpus"].to_numpy().astype(np.int64)
        seen = first_instant(self.submit, self.options)[self.row]
        waits = sum(stays[name].fill_null(0.0).to_numpy() for name in WAITS)
        since = np.where(np.isnan(seen), self._near(self.start - waits), np.minimum(seen, self.start))
        after = np.flatnonzero(self.number > 0)
        since[after] = self.end[after - 1] + stays["paused_at_rung"].to_numpy()[after]
        rungs = self.outcome.rungs
        if rungs is not None:  # which tell the instant itself, not the seconds up to it
            names = rungs.select("job_id", "time", "went_on").drop_nulls().iter_rows()
            on = {(name, time): went_on for name, time, went_on in names}
            for place in after[stays["paused_at_rung"].to_numpy()[after] > 0].tolist():
                key = stays["job_id"][place], float(self.end[place - 1])
                since[place] = on.get(key, since[place])
        self.since = np.minimum(since, self.start)

    def _near(self, times: Floats) -> Floats:
        """Instants that were worked out, as the result has them where that is so but for rounding."""
        known = np.unique(np.concatenate([self.submit[~np.isnan(self.submit)], self.start, self.end]))
        at = np.searchsorted(known, times)
        for beside in (at - 1, at):
            near = known[np.clip(beside, 0, known.size - 1)]
            times = np.where(np.abs(times - near) <= _ROUNDING * np.abs(near), near, times)
        return times

    @cached_property
    def first(self) -> Rows:
        """Of each job the place of its first stay among all; -1 where it has none."""
        found = np.full(len(self.names), -1)
        firsts = np.flatnonzero(self.number == 0)
        found[self.row[firsts]] = firsts
        return found

    def stays_of(self, row: int) -> Rows:
        """The places of a job's stays."""
        first = int(self.first[row])
        if first < 0:
            return np.zeros(0, np.int64)
        last = first + 1
        while last < self.row.size and self.row[last] == row:
            last += 1
        return np.arange(first, last)

    @cached_property
    def services(self) -> list[str]:
        """The names of services, in the order of the file."""
        replicas = self.outcome.replicas
        return [] if replicas is None else replicas["service"].unique(maintain_order=True).to_list()

    @cached_property
    def allocations(self) -> Allocations | None:
        """Who held what; None where the run did not record it."""
        rows = self.outcome.allocations
        if rows is None:
            return None
        shared = "gpu" in rows.columns
        milli_gpus = np.full(rows.height, MILLI_GPU)
        if shared:
            milli_gpus = (rows["share"].fill_null(1.0) * MILLI_GPU).round().cast(pl.Int64).to_numpy()
        columns = [
            self.rows_of(rows["job_id"]),
            rows["stay"].to_numpy().astype(np.int64),
            rows["server"].to_numpy().astype(np.int64),
            milli_gpus * rows["num_gpus"].to_numpy(),
            *(
                rows[name].cast(pl.Int64).fill_null(-1).to_numpy()
                if name in rows.columns
                else np.full(rows.height, -1)
                for name in ("gpu", "seat")
            ),
            rows["start_time"].to_numpy(),
            rows["end_time"].to_numpy(),
        ]
        replicas = self.outcome.replicas
        if replicas is not None and replicas.height:
            number = {name: -1 - at for at, name in enumerate(self.services)}
            more = [
                np.array([number[name] for name in replicas["service"]]),
                np.full(replicas.height, -1),
                replicas["server"].to_numpy().astype(np.int64),
                replicas["num_gpus"].to_numpy().astype(np.int64) * MILLI_GPU,
                *(np.full(replicas.height, -1) for _ in ("gpu", "seat")),
                replicas["start_time"].to_numpy(),
                replicas["end_time"].to_numpy(),
            ]
            columns = [np.concatenate(both) for both in zip(columns, more, strict=True)]
        return Allocations(*columns)

    @property
    def shared(self) -> bool:
        """Whether jobs may hold shares of a GPU."""
        rows = self.outcome.allocations
        return rows is not None and "gpu" in rows.columns

    @cached_property
    def outages(self) -> pl.DataFrame | None:
        """The rows of outages.parquet that are no drains."""
        rows = self.outcome.outages
        return rows if rows is None or "kind" not in rows.columns else rows.filter(~IS_DRAIN)

    @cached_property
    def down(self) -> tuple[Rows, Floats, Floats]:
        """Outages as the clock sees them, but drains: server, from, until."""
        return self._intervals(self.outages)

    @cached_property
    def drains(self) -> tuple[Rows, Floats, Floats]:
        """Drains, likewise; one inside a slot has no length."""
        rows = self.outcome.outages
        return self._intervals(None if rows is None or "kind" not in rows.columns else rows.filter(IS_DRAIN))

    def _intervals(self, rows: pl.DataFrame | None) -> tuple[Rows, Floats, Floats]:
        if rows is None:
            return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
        until = rows["up_at"].fill_null(float("inf")).to_numpy()
        finite = np.isfinite(until)
        back = np.full(until.size, np.inf)
        back[finite] = first_instant(until[finite], self.options)
        return (
            rows["server"].to_numpy().astype(np.int64),
            first_instant(rows["down_at"].to_numpy(), self.options),
            back,
        )

    def gpus_of(self, row: int) -> int:
        """What a job asks for; for one that was ended, where that is not known, what it held."""
        if row < self.asked.height:
            return int(self.asked["num_gpus"][row])
        return int(self.held[self.first[row]])

    def share_of(self, row: int) -> int:
        """The thousandths of a GPU that a job asks for; 0 for whole GPUs."""
        said = self.said("gpu_share", row)
        share = 0 if said is None else round(float(said) * MILLI_GPU)
        return share if share < MILLI_GPU else 0

    def said(self, name: str, row: int) -> Any:
        """What is known of a job under the name of a column; None where nothing is."""
        there = row < self.asked.height and name in self.asked.columns
        return self.asked[name][row] if there else None

    @cached_property
    def vc(self) -> NDArray[np.object_] | None:
        """The virtual cluster of each job; None where the cluster has none."""
        if not self.cluster.vc_names or "vc" not in self.asked.columns:
            return None
        return np.array([*self.asked["vc"].to_list(), *(None for _ in self.ended)], dtype=object)

    def servers_of(self, row: int) -> NDArray[np.bool_]:
        """The servers of a job's virtual cluster, whatever their GPUs."""
        if self.cluster.server_vc is None or self.vc is None or self.vc[row] is None:
            return np.ones(self.gpus.size, np.bool_)
        return np.array([vc == self.vc[row] for vc in self.cluster.server_vc])

    def beside(self, row: int) -> NDArray[np.bool_]:
        """Which jobs wait in the same queue as a job."""
        if self.vc is None:
            return np.ones(len(self.names), np.bool_)
        return np.asarray(self.vc == self.vc[row])

    def waiting(self, row: int, moment: Moment) -> int:
        """How many others wait in the same queue at a moment."""
        waits = moment.within(self.since, self.start) & self.beside(row)[self.row] & (self.row != row)
        return int(waits.sum())
