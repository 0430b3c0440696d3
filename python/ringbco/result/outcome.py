"""What a replay gives, in memory, and the way into a result folder and back."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

import ringbco
from ringbco.deprecation import renamed
from ringbco.errors import InputError
from ringbco.io.forks import use_polars
from ringbco.io.json_text import json_text
from ringbco.io.manifest import digest
from ringbco.io.memory import give_back
from ringbco.io.tables import read_table, write_table
from ringbco.io.threads import at_once
from ringbco.io.toml import toml_text
from ringbco.result.figures import LISTS
from ringbco.result.folder import cluster_of, read_run, read_summary, whole_folder
from ringbco.result.tables import RUN, SUMMARY, TABLES
from ringbco.trace.outages import Outages
from ringbco.trace.side_table import ReadContext

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ringbco.trace.jobs import JobTable, TableLike


def _nothing() -> None:
    return None


_TO_MAKE: Final = ("_later", "_figures", "_singly", "_table")
_Class = TypeVar("_Class")
_MANY: Final = 1 << 22
"""Rows that are worth it to have their memory cleared once more; that of fewer is taken again at once."""


def _with_tables(kind: type[_Class]) -> type[_Class]:
    """The class with a field for each table of the registry; type checkers know those that it declares.

    A table that a run may lack is no attribute of the class: that would hide what is made later.
    """
    for name in TABLES:
        if name in vars(kind) or name not in kind.__annotations__:
            kind.__annotations__[name] = "pl.DataFrame | None"
            setattr(kind, name, field(default_factory=_nothing))
    return kind


@dataclass(eq=False)
@_with_tables
class Outcome:
    """What a replay gives. Times in seconds, columns as docs/results-reference.md lists them.

    jobs: one row per job that ran, in the job table's row order.
    allocations: one row per stay and server; None when they were not recorded.
    timeline: the cluster's state at sampled instants.
    decisions: one row per decision, or a server of a start; None unless they were asked for.
    speeds: the measured speeds of model `table`; None under another one. outages, quota, services,
    fair_shares: those of the run, if it was given any.
    replicas: one row per replica of a service; None for a run without services.
    latency: one row per service and sample; requests: one per request, if asked for; None without requests.
    servers: one row per change of a server; None where none may go down or sleep.
    links: one row per uplink and sample at which what it carries is new; None without tiers.
    stays_written: one row per stay; None where no stay may end before its job is done, `stays` has it always.
    work: what each job of `jobs` did, in its units; None where that is not known.
    rungs: one row per rung that a trial reached; searches: one per search; None for a run without --search.
    summary: plain values, as summary.json holds them.
    run: everything needed to repeat the run, as run.toml holds it.
    """

    jobs: pl.DataFrame
    allocations: pl.DataFrame | None
    timeline: pl.DataFrame
    summary: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    decisions: pl.DataFrame | None = None
    speeds: pl.DataFrame | None = None
    outages: pl.DataFrame | None = None
    maintenance: pl.DataFrame | None = None
    quota: pl.DataFrame | None = None
    services: pl.DataFrame | None = None
    fair_shares: pl.DataFrame | None = None
    replicas: pl.DataFrame | None = None
    latency: pl.DataFrame | None = None
    requests: pl.DataFrame | None = None
    rungs: pl.DataFrame | None = None
    searches: pl.DataFrame | None = None
    servers: pl.DataFrame | None = None
    links: pl.DataFrame | None = None
    stays_written: pl.DataFrame | None = None
    work: NDArray[np.float64] | NDArray[np.uint64] | None = None

    def write(self, folder: str | os.PathLike[str], *, force: bool = False) -> dict[str, Any]:
        """Writes the result folder, whole or not at all; with `force` a result already there is replaced.

        Returns the summary as written: this outcome's, with the time that writing took counted in.

        Raises InputError where `folder` exists (without `force`, or when it is no result of ringbco's) and
        where the system refuses to write.
        """
        started = time.perf_counter()
        with whole_folder(folder, force=force) as partial:
            # The figures beside the tables: one keeps one core busy, the other little more.
            tasks: list[Callable[[], float | None]] = [self._settle]
            there = [table for name, table in TABLES.items() if self.has(name)]
            tasks += [functools.partial(self._write, table.name, partial / table.file) for table in there]
            counted = at_once(tasks)[0] or 0.0
            summary = with_seconds(self.summary, time.perf_counter() - started - counted)
            (partial / SUMMARY).write_text(json_text(summary) + "\n", encoding="utf-8")
            # Who reads it must know whether a table is missing or was never there.
            said = {
                table.key: table in there
                for table in TABLES.values()
                if table.said == "options" and (table.unsaid or table in there)
            }
            run = {**self.run, "options": {**self.run.get("options", {}), **said}}
            (partial / RUN).write_text(toml_text(run), encoding="utf-8")
        return summary

    def compare(self, *others: Outcome) -> ringbco.Comparison:
        """This outcome and `others` side by side, with the others' figures as ratios to this one's."""
        both: ringbco.Comparison = ringbco._above("side by side", (self, *others))
        return both

    def diff(self, other: Outcome, by: Sequence[str] = ()) -> ringbco.Diff:
        """How each job that both results have fares in `other`, b, against this one, a, and by what.

        by: columns of the job table that name owners, for `Diff.owners`. Raises InputError where the two are
        not of the same jobs, UsageError for a column that names no owners.
        """
        found: ringbco.Diff = ringbco._above("diff", self, other, by)
        return found

    def why(
        self,
        job: str | None = None,
        jobs: TableLike | None = None,
        policy: str | None = None,
        *,
        request: int | None = None,
    ) -> ringbco.Story:
        """What happened to a job, or to a request, and why; times in seconds (docs/why.md).

        request: in place of a job, the row, from 0, of a request of the table of requests.
        jobs: the job table that was replayed; by default the file that run.toml names, where it is unchanged.
        With it the run is repeated as far as the story needs; without it the story says what the result
        tells, nothing of places in a queue, and nothing of jobs that never had GPUs.
        policy: FILE.py:Class of a custom policy, which is loaded if it is the one that was run.

        Raises InputError for a job that the result does not know, with the nearest name, for a job table that
        is not that of the result, and for another policy; UsageError for a job that is no text, and for a
        policy beside a result that needs none.

        print(*outcome.why("j17").sentences, sep="\n")
        """
        found: ringbco.Story = ringbco._above("why", self, job, jobs, policy, request)
        return found

    @property
    def job_table(self) -> JobTable | None:
        """The job table of a run of this process; None of a result that was read or sent here."""
        table: JobTable | None = self.__dict__.get("_table")
        return table

    replayed = renamed("replayed", "job_table")
    single_figures = renamed("single_figures", "scalar_summary")

    @property
    def stays(self) -> pl.DataFrame:
        """One row a stay, as stays.parquet has it. Where a run writes none, a job has the stay of its row."""
        from ringbco.result.stays import stays_of_jobs, types_of_jobs

        if self.stays_written is not None:
            return self.stays_written
        cluster = cluster_of(self.run)
        return stays_of_jobs(self.jobs, self.work, types_of_jobs(self.jobs, self.allocations, cluster))

    @property
    def plot(self) -> ringbco._Plots:
        """Charts of this outcome, such as `outcome.plot.jct()`."""
        plots: ringbco._Plots = ringbco._above("plots", {str(self.summary.get("policy", "outcome")): self})
        return plots

    def __repr__(self) -> str:
        on = self.run.get("cluster", {}).get("name", "?")
        return f"<Outcome: {self.jobs.height:,} jobs on {on} under {self.summary.get('policy', '?')}>"

    def _repr_html_(self) -> str:
        return str(ringbco._above("outcome", self))

    def has(self, table: str) -> bool:
        """Whether there is a table of that name; one that is made later is not made for that."""
        return table in self.__dict__.get("_later", ()) or getattr(self, table) is not None

    def scalar_summary(self) -> dict[str, Any]:
        """The summary without its `LISTS`, which are not worked out."""
        singly = self.__dict__.get("_singly")
        if singly is not None and "summary" not in self.__dict__:
            use_polars()
            began = time.perf_counter()
            figures = singly()
            return with_seconds(figures, time.perf_counter() - began)
        return {key: value for key, value in self.summary.items() if key not in LISTS}

    def _write(self, name: str, path: Path) -> None:
        table = getattr(self, name)
        if table.height >= _MANY:
            give_back()  # what it was made of, before polars takes as much again
        write_table(table, path)
        digest(path)  # for the manifest, beside other tables

    def _settle(self) -> float:
        """Works the summary out where that is still to be done; the seconds counted in it for that."""
        if "summary" in self.__dict__:
            return 0.0
        use_polars()
        began = time.perf_counter()
        figures = self.__dict__["_figures"]()
        seconds = time.perf_counter() - began
        self.summary = with_seconds(figures, seconds)
        for name in ("_figures", "_singly"):
            self.__dict__.pop(name, None)
        return seconds

    if not TYPE_CHECKING:  # a checker would then let any name pass

        def __getattr__(self, name: str) -> Any:
            """What `summarised_later` and `made_later` left to do."""
            known, make = self.__dict__, self.__dict__.get("_later", {}).get(name)
            if name == "summary" and "_figures" in known:
                self._settle()
            elif make is not None:
                use_polars()
                known.setdefault(name, make())
                known["_later"].pop(name, None)
            if name not in known:  # where two threads ask at once, the other has made it
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return known[name]

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        for name in list(self.__dict__.get("_later", ())):
            getattr(self, name)
        return {name: value for name, value in self.__dict__.items() if name not in _TO_MAKE}

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Outcome:
        """Reads a result folder back.

        Raises InputError naming the file that is missing, damaged or of another schema.
        """
        path = Path(folder)
        run = read_run(path)
        options = run.get("options", {})
        record = run.get("record", {})
        for key, table in (("options", options), ("record", record)):
            if not isinstance(table, dict):
                raise InputError(f"a table [{key}]", file=path / RUN, key=key, value=table)
        tables: dict[str, Any] = {
            name: read_table(path / table.file, table.schema)
            for name, table in TABLES.items()
            if table.is_there(options, record)
        }
        if "outages" in tables:
            _check_outages(tables["outages"], path, run)
        tables.setdefault("allocations", None)
        return cls(summary=read_summary(path / SUMMARY), run=run, **tables)


def _check_outages(outages: pl.DataFrame, folder: Path, run: Mapping[str, Any]) -> None:
    """Raises InputError with file and row for outages that no cluster, or not this one, can have."""
    try:
        servers = cluster_of(run).num_servers
    except InputError as error:
        raise InputError(str(error), file=folder / RUN) from None
    Outages.read(outages, ReadContext(servers=servers), str(folder / Outages.form.file))


def with_seconds(summary: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The summary with `seconds` more of wall time in total_seconds, and the jobs_per_second that gives."""
    total = summary.get("total_seconds", 0.0) + seconds
    return {**summary, "total_seconds": total, "jobs_per_second": summary["jobs"] / total}


def summarised_later(
    outcome: Outcome,
    figures: Callable[[], dict[str, Any]],
    singly: Callable[[], dict[str, Any]] | None = None,
) -> Outcome:
    """The outcome, whose summary is what `figures` gives when somebody first asks for it.

    singly: gives the same without `LISTS`. `Outcome.write` asks while it writes the tables, which takes as
    long. The time that `figures` takes is counted in the summary.
    """
    outcome.__dict__.pop("summary", None)
    outcome.__dict__["_figures"] = figures
    outcome.__dict__["_singly"] = singly
    return outcome


def made_later(tables: Mapping[str, Any], **known: Any) -> Outcome:
    """An outcome with these tables; a function among them makes one when somebody first asks for it.

    It gives no None. It may be called by two threads at once; both get what one of them made.
    """
    makers = {name: table for name, table in tables.items() if callable(table)}
    outcome = Outcome(**{**tables, **dict.fromkeys(makers)}, **known)
    for name in makers:
        del outcome.__dict__[name]
    outcome.__dict__["_later"] = makers
    return outcome


def count_seconds(outcome: Outcome, seconds: float) -> None:
    """Counts `seconds` more in the summary, without asking for it before its time."""
    if "summary" in outcome.__dict__:
        outcome.summary = with_seconds(outcome.summary, seconds)
    else:
        figures = outcome.__dict__["_figures"]
        summarised_later(outcome, lambda: with_seconds(figures(), seconds))
