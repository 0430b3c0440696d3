"""A job table resolved for a cluster: what the engine reads of the jobs, worked out once for all their runs.

Only this file goes from a job table to the engine's columns. A feature's columns are resolved in its own
file, by one call from here; a column that depends on nothing else (it has `Column.absent`) by
`schema.engine_column`.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError
from ringbco.io.forks import use_polars
from ringbco.io.threads import begin
from ringbco.trace import chains, forms, gpu_type_choices, measured, profiles, records
from ringbco.trace.jobs import JobTable, gpu_range
from ringbco.trace.noise import noise
from ringbco.trace.plausibility import warnings_of
from ringbco.trace.predecessors import NO_ROW
from ringbco.trace.priorities import priorities
from ringbco.trace.quotas import Quotas
from ringbco.trace.rate_table import RateTable
from ringbco.trace.schema import COLUMNS, engine_column, is_default_everywhere
from ringbco.trace.searches import Trials, trials
from ringbco.trace.shares import thousandths
from ringbco.trace.side_table import ReadContext, SideTable
from ringbco.trace.users import Users

Rows = slice | NDArray[np.intp]
"""Some rows of a table, in its order."""
READS: Final = ("model", "seed", "tables", "quota", "search")
"""The options of a run that a workload depends on."""
PLAIN: Final = {
    field: name
    for field, _form, _kind, name in _core.job_columns()
    if name in COLUMNS and COLUMNS[name].absent is not None
}
"""Columns of which the engine reads `Column.absent` where the table says nothing, by its own names."""
_MANY: Final = 1 << 17
"""Jobs for whom a thread of its own is worth while."""


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of a table, ready for the engine on a cluster; it is never changed, and runs share it.

    cluster: with the GPU type of the measured speeds where its servers named none. key: what it depends on.
    profiled: what models say. vc: as `profiles.vc_index` has it. kinds: what GPU types mean; None where they
    change nothing, and under the model `table`. rates, quotas, trials: None for runs that know none.
    columns: what the engine reads of the jobs. whole: the table; rows: which of its rows, all or those of a
    part, and what the part is called.
    """

    whole: JobTable
    cluster: Cluster
    key: tuple[Hashable, ...]
    profiled: profiles.Profiled
    vc: NDArray[np.uint32] | None
    kinds: gpu_type_choices.GpuTypeChoices | None
    rates: RateTable | None
    quotas: Quotas | None
    trials: Trials | None
    columns: _core._Jobs
    rows: tuple[Rows, str] | None = None

    @cached_property
    def table(self) -> JobTable:
        """The job table, cut to a part's rows when somebody asks: only this takes polars."""
        if self.rows is None:
            return self.whole
        rows, source = self.rows
        return JobTable(self.whole.frame[rows].rechunk(), source)

    def part(self, rows: Rows, source: str) -> Workload:
        """What `resolve` makes of some rows alone, without polars, from what it made of all. No quotas."""
        columns: dict[str, Any] = {**rows_of(self.columns, rows, self.columns["submit"].size)}
        found = self.kinds
        if found is not None:
            found = gpu_type_choices.GpuTypeChoices(found.of[rows], found.kinds).if_any(
                len(self.cluster.types)
            )
            columns["types"] = None if found is None else found.columns()
        if self.columns["forms"] is not None:
            columns["forms"] = forms.part(self.columns["forms"], rows)
        searched = None if self.trials is None else self.trials.part(rows)
        columns["trials"] = None if searched is None else searched.columns()
        if self.columns["chains"] is not None:
            columns["chains"] = chains.part(self.columns["chains"], rows, self.columns["submit"].size)
        _leave_out_silent(columns)
        told = cast("_core._Jobs", columns)
        profiled = profiles.Profiled(
            *(getattr(self.profiled, field.name)[rows] for field in fields(self.profiled))
        )
        return replace(
            self,
            whole=self.table,
            profiled=profiled,
            vc=columns["vc"],
            kinds=found,
            trials=searched,
            columns=told,
            rows=(rows, source),
        )

    @property
    def independent(self) -> Rows:
        """The rows of the jobs whose arrivals are known before the run: those that come after no other."""
        chained = self.columns["chains"]
        return slice(None) if chained is None else np.flatnonzero(chained[0] == NO_ROW)

    @property
    def side_tables(self) -> dict[str, SideTable]:
        """The side tables that it depends on, by option."""
        there = (self.rates, self.quotas)
        return {table.form.option: table for table in there if table is not None}

    @cached_property
    def warnings(self) -> list[str]:
        """What is allowed and yet unlike any public trace or network."""
        return [*warnings_of(self.table, self.cluster), *self.apart]

    @cached_property
    def apart(self) -> list[str]:
        """Where the work that the table gives does not take as long as was recorded."""
        # Whether the work is iterations times eq. 8, which is so under the model `rar` alone.
        ring = self.rates is None and self.columns["iterations"].any()
        return records.apart(self.table, self.cluster.recorded_on, self.profiled) if ring else []

    @cached_property
    def users(self) -> Users | None:
        """Who submitted the jobs; None where the table does not say."""
        frame = self.table.frame
        return Users(frame["user"]) if "user" in frame.columns else None

    def begin(self) -> None:
        """Works out, beside the engine, what a run asks of its table in the end: users, the file's digest.

        The engine keeps one core busy. Of a small table it takes no time.
        """
        if self.table.num_jobs >= _MANY:
            use_polars()
            begin(self._ask)

    def _ask(self) -> None:
        _ = self.table.identity
        if self.users is not None:
            _ = self.users.numbers


def key_of(cluster: Cluster, options: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """What the workload of a run depends on: runs of one table with equal keys share one."""
    return (cluster, *(_named(options.get(name)) for name in READS))


def _named(value: object) -> Hashable:
    """A file by its name, a frame by which one it is."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if value is None or isinstance(value, str | int):
        return value
    return tuple(map(_named, value)) if isinstance(value, list | tuple) else id(value)


def resolve(table: JobTable, cluster: Cluster, options: Mapping[str, Any]) -> Workload:
    """The workload of runs with these options; of those only `READS` count, model and seed must be there.

    Raises InputError and UsageError as `profiles.resolve`, `measured.resolve`, `kinds.resolve`, `trials` and
    `SideTable.read` do.
    """
    model, key = options["model"], key_of(cluster, options)
    rates = _rates(model, options.get("tables"))
    if rates is not None:
        cluster = rates.typed(cluster)
    vc = profiles.vc_index(table, cluster)
    found, types, speeds = None, None, None
    if rates is None:
        profiled = profiles.resolve(table, cluster, model=model, seed=options["seed"])
        found = gpu_type_choices.resolve(table, cluster)
        types = None if found is None else found.columns()
    else:
        profiled, types, speeds = measured.resolve(table, cluster, rates)
    quotas = None if options.get("quota") is None else Quotas.read(options["quota"], ReadContext(table.frame))
    searched = None
    if options.get("search") is not None:
        searched = trials(table, options["search"], options["seed"], vc)
    frame = table.frame
    columns = {
        "submit": frame["submit_time"].to_numpy(),
        "num_gpus": frame["num_gpus"].to_numpy(),
        "duration": frame["duration"].to_numpy(),
        "iterations": profiled.iterations,
        "gradient_bytes": profiled.gradient_bytes,
        "compute_time": profiled.compute_time,
        "range": gpu_range(frame),
        "forms": forms.forms(table, cluster.tiers),
        "noise": noise(frame),
        "types": types,
        "rates": speeds,
        "shares": thousandths(frame),
        "priority": priorities(frame),
        "chains": chains.chains(table, vc, None if searched is None else searched.of),
        "trials": None if searched is None else searched.columns(),
        "quotas": None if quotas is None else quotas.engine_columns(frame),
        "vc": vc,
    }
    for field, name in PLAIN.items():
        columns.setdefault(field, engine_column(frame, name))
    told = cast("_core._Jobs", columns)
    return Workload(table, cluster, key, profiled, vc, found, rates, quotas, searched, told)


def rows_of(told: Any, rows: Rows, jobs: int) -> Any:
    """Some rows of whatever has one entry a job, in columns as the engine takes them; the rest as it is."""
    if isinstance(told, np.ndarray):
        return told[rows] if told.size == jobs else told
    if isinstance(told, dict):
        return {name: rows_of(each, rows, jobs) for name, each in told.items()}
    return tuple(rows_of(each, rows, jobs) for each in told) if isinstance(told, tuple) else told


def _leave_out_silent(columns: dict[str, Any]) -> None:
    """Makes None of the columns that say nothing of any of their jobs, as those who read a table do."""
    span, noisy, level, shares = (columns[name] for name in ("range", "noise", "priority", "shares"))
    elastic = None if span is None else span[0] < span[1]
    silent = {
        "range": elastic is None or not elastic.any(),
        "noise": elastic is None or noisy is None or not (elastic & np.isfinite(noisy[0])).any(),
        "priority": level is None or (level == level[0]).all(),
        "shares": shares is None or not shares.any(),
    }
    for field, name in PLAIN.items():
        if field not in silent:
            silent[field] = columns[field] is None or is_default_everywhere(columns[field], name)
    columns.update(dict.fromkeys((name for name, is_so in silent.items() if is_so)))


def _rates(model: str, tables: object) -> RateTable | None:
    """The measured speeds; None under another model than `table`, where only pairs may count."""
    if model != "table":
        return None
    if tables is None:
        raise UsageError("option model: table: expected it together with tables, a file of measured speeds")
    return RateTable.read(tables)
