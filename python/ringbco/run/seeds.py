"""What differs from run to run: submissions moved, or tables made anew (docs/certainty.md#runs)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import polars as pl

from ringbco.errors import InputError, UsageError
from ringbco.result.certainty import Kind
from ringbco.run.options import PARTS, integer, is_log, resolve_policy
from ringbco.run.outage_draws import is_draw
from ringbco.trace.jobs import JobTable
from ringbco.trace.moved import instants, moved
from ringbco.trace.profiles import CATALOGUE, floats
from ringbco.trace.synthetic import again, check_generated
from ringbco.trace.workload import Workload, key_of, resolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster

T = TypeVar("T")
MOST_SEEDS: Final = 1000
_KEPT: Final = 8
"""Tables and workloads: enough for a few threads."""


class Seeds(NamedTuple):
    """How many runs each replay has.

    fresh: of tables that `generate` makes anew; else submissions move.
    """

    seeds: int = 1
    fresh: bool = False

    def checked(self) -> Seeds:
        """These, right; UsageError for what is out of range or means nothing."""
        seeds = integer("seeds", self.seeds, 1, MOST_SEEDS)
        if self.fresh and seeds == 1:
            raise UsageError("option fresh: expected together with --seeds N, N of 2 or more")
        return self._replace(seeds=seeds)

    @property
    def kind(self) -> Kind:
        """What differs from run to run."""
        return "fresh tables" if self.fresh else "moved"

    def name_of(self, number: int) -> str:
        """What people call the run of that number, from 0; "" where there is only one."""
        return f"run {number + 1} of {self.seeds}" if self.seeds > 1 else ""

    def check(self, table: JobTable) -> None:
        """Raises InputError for a table that cannot be made anew, where that is asked for."""
        if self.fresh:
            if not table.is_synthetic:
                raise InputError(
                    "expected a table that ringbco generate made: --fresh makes it anew",
                    file=table.source,
                    hint="leave --fresh out: submissions are then moved by under a minute",
                )
            check_generated(table)


def seeded_options(options: Mapping[str, Any], number: int, seed: int) -> Mapping[str, Any]:
    """The options of the run of that number, from 0: its seed, and that of shuffled ties."""
    if not number:
        return options
    changed = {**options, "seed": (seed + number) % 2**64}
    ties = options.get("ties")
    if isinstance(ties, str) and ties.startswith("shuffle:"):
        changed["ties"] = f"shuffle:{(int(ties.removeprefix('shuffle:')) + number) % 2**64}"
    return changed


def changes(seeds: Seeds, runs: Sequence[tuple[JobTable, Mapping[str, Any]]]) -> tuple[str, ...]:
    """What differs from run to run, as keys of `sentences.CHANGES`; of fresh tables all does, so nothing.

    runs: tables with the options of their runs, the policy among them.
    """
    if seeds.fresh:
        return ()
    of_models = {id(table): table for table, options in runs if options.get("model") == "rar"}
    of = [options for _, options in runs]
    found = {
        "submissions": True,
        "models": any(map(_lacks_models, of_models.values())),
        "placement": any(_placement(one) == "random" for one in of),
        "outages": any(is_draw(drawn := one.get("outages")) and "seed=" not in str(drawn) for one in of),
        "ties": any(str(one.get("ties") or "").startswith("shuffle") for one in of),
    }
    return tuple(name for name, changes in found.items() if changes)


def _lacks_models(table: JobTable) -> bool:
    """Whether `resolve` draws a model for a job, which names none and does not say all that one would."""
    frame = table.frame
    named = pl.Series(np.zeros(frame.height, np.bool_))
    if "model" in frame.columns:
        names = [profile.name.lower() for profile in CATALOGUE]
        named = frame["model"].str.to_lowercase().is_in(names).fill_null(False)
    lacking = np.isnan(floats(frame, "gradient_bytes"))
    lacking |= np.isnan(floats(frame, "fp_time")) & np.isnan(floats(frame, "bp_time"))
    return bool((lacking & ~named.to_numpy()).any())


def _placement(options: Mapping[str, Any]) -> str | None:
    parts = {name: options.get(name) for name in PARTS}
    return resolve_policy(options["policy"], **parts).placement


class SeededTable(NamedTuple):
    """Another table of a run: its kind, the seed of run 0, and the run's number, from 1."""

    kind: Kind
    seed: int
    number: int

    def of(self, table: JobTable) -> JobTable:
        """The jobs."""
        return SeededTables(table, self.kind, self.seed).table(self.number)


class SeededTables:
    """The job tables of several runs, and their workloads; a few are kept."""

    def __init__(self, table: JobTable, kind: Kind, seed: int) -> None:
        """seed: of run 0; that of run k, by which submissions move, is k more."""
        self._table = table
        self._kind = kind
        self._seed = seed
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    @cached_property
    def _instants(self) -> NDArray[np.int64]:
        return instants(self._table.frame["submit_time"].to_numpy())

    def table(self, number: int) -> JobTable:
        """The jobs of the run of that number; of run 0 they are the table itself."""
        return self._table if not number else self._kept(("table", number), lambda: self._make(number))

    def _make(self, number: int) -> JobTable:
        if self._kind == "fresh tables":
            return again(self._table, number)
        return moved(self._table, self._instants, self._seed + number)

    def workload(
        self, number: int, known: Workload, cluster: Cluster, options: Mapping[str, Any]
    ) -> Workload:
        """The workload of a run. known: that of run 0, from which all is taken that no run changes."""
        key = key_of(cluster, options)

        def make() -> Workload:
            table = self.table(number)
            if self._kind == "fresh tables":
                return resolve(table, cluster, options)
            if (options.get("model") == "rar" and _lacks_models(table)) or options.get("search") is not None:
                made = resolve(table, cluster, options)
            else:
                columns = known.columns.copy()
                columns["submit"] = table.frame["submit_time"].to_numpy()
                made = replace(known, whole=table, key=key, columns=columns)
            # These are worked out once for all runs.
            vars(made).update(warnings=known.warnings, users=known.users)
            return made

        return self._kept((number, key), make)

    def _kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made under that key, once while it is among the last few that were asked for."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                found: T = self._made[key]
                return found
        made = make()
        with self._lock:
            self._made[key] = made
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return made


def refuse_logs(policies: list[str]) -> None:
    """Raises UsageError where a log would be followed by jobs that it does not know."""
    for policy in policies:
        if is_log(policy):
            raise UsageError(f"option policy: {policy!r}: a log knows its own jobs only; leave it out")
