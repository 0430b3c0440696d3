"""Searches: which jobs are trials of one search, and how the loss of each falls (docs/searches.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import InputError, UsageError
from ringbco.trace.jobs import JobTable
from ringbco.trace.profiles import drawn
from ringbco.trace.splitmix import GOLDEN, mix

NO_SEARCH: Final = 2**32 - 1
"""The number of no search."""
_FORM: Final = re.compile(r"asha:eta=(\d{1,7}),rungs=(\d{1,7})")
_MOST: Final = 2**20
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Search:
    """How trials are judged: one in `eta` of those that reach one of `rungs` rungs goes on."""

    eta: int
    rungs: int

    @classmethod
    def parse(cls, text: str) -> Search:
        """The search of `asha:eta=3,rungs=4`. Raises UsageError for anything else."""
        found = _FORM.fullmatch(text)
        if found is not None:
            eta, rungs = int(found[1]), int(found[2])
            if eta >= 2 and 1 <= rungs <= 20 and eta**rungs <= _MOST:
                return cls(eta, rungs)
        raise UsageError(
            f"option search: {text!r}: expected asha:eta=E,rungs=R with integers E >= 2, R >= 1 and"
            " E^R <= 2^20"
        )

    def part(self, rung: int) -> float:
        """The part of a trial's work that is done at a rung; 1 at rung number `rungs`, its end."""
        return 1.0 / float(self.eta ** (self.rungs - rung))


@dataclass(frozen=True)
class Trials:
    """The trials of a job table.

    names: the searches in order of their first row. of: each job's search among them, `NO_SEARCH` for a job
    of none. curve: a, b and c of each job; its loss is a + 1 / (b + c part) once it has done a part of its
    work.
    """

    search: Search
    names: list[str]
    of: NDArray[np.uint32]
    curve: tuple[Floats, Floats, Floats]

    def columns(self) -> tuple[NDArray[np.uint32], list[Floats]]:
        """As the engine reads them."""
        return self.of, list(self.curve)

    def part(self, rows: slice | NDArray[np.intp]) -> Trials:
        """The trials among some rows of the table."""
        of = self.of[rows].copy()
        named = of != NO_SEARCH
        numbers, firsts = np.unique(of[named], return_index=True)
        there = numbers[np.argsort(firsts)]
        place = np.empty(len(self.names), np.uint32)
        place[there] = np.arange(there.size)
        of[named] = place[of[named]]
        a, b, c = (values[rows] for values in self.curve)
        return Trials(self.search, [self.names[number] for number in there], of, (a, b, c))

    def loss(self, rows: NDArray[np.intp], part: float) -> Floats:
        """The loss of the jobs of some rows once they have done a part of their work."""
        a, b, c = (values[rows] for values in self.curve)
        loss: Floats = a + 1.0 / (b + c * part)
        return loss


def trials(table: JobTable, search: str, seed: int, vc: NDArray[np.uint32] | None) -> Trials:
    """The trials of a job table. `vc`: as `profiles.vc_index` has it.

    Raises InputError where the table has no searches, one without a name, or one in two virtual clusters.
    """
    frame, read = table.frame, Search.parse(search)
    if "group" not in frame.columns or frame["group"].null_count() == frame.height:
        raise InputError(
            "has no column group, or nothing in it",
            file=table.source,
            hint="--search needs jobs that are trials: name the search of each in a column group,"
            " or leave --search out",
        )
    group = frame["group"]
    empty = (group == "").fill_null(value=False)
    if empty.any():
        row = int(empty.arg_max() or 0)
        raise InputError(
            "the name of a search",
            file=table.source,
            row=row + 1,
            column="group",
            value="",
            hint="make it null for a job of no search, or name its search",
        )
    named = group.drop_nulls().unique(maintain_order=True)
    numbers = pl.Series(np.arange(named.len(), dtype=np.uint32))
    of = group.replace_strict(named, numbers, default=NO_SEARCH, return_dtype=pl.UInt32).to_numpy()
    if vc is not None:
        _check_vcs(table, of, vc)
    return Trials(read, named.to_list(), of, curve(frame["job_id"], seed))


def _check_vcs(table: JobTable, of: NDArray[np.uint32], vc: NDArray[np.uint32]) -> None:
    """Refuses a search with trials in two virtual clusters."""
    rows = np.flatnonzero(of != NO_SEARCH)
    _, firsts, inverse = np.unique(of[rows], return_index=True, return_inverse=True)
    first = rows[firsts[inverse]]
    other = vc[rows] != vc[first]
    if not other.any():
        return
    at = int(other.argmax())
    row, beside = int(rows[at]), int(first[at])
    own = table.frame["vc"][beside]
    raise InputError(
        f"{own!r}, the virtual cluster of row {beside + 1}: both are trials of the search"
        f" {table.frame['group'][row]!r}",
        file=table.source,
        row=row + 1,
        column="vc",
        value=table.frame["vc"][row],
        hint="give the trials of each virtual cluster a search of their own, or pool all servers with"
        " --vc pool",
    )


def curve(job_ids: pl.Series, seed: int) -> tuple[Floats, Floats, Floats]:
    """a, b and c of each job's loss curve: a function of (seed, job_id) alone.

    The 64-bit FNV-1a hash of the id and ":loss" starts a SplitMix64 generator; its output number seed + 1
    starts another, whose first three outputs make u, v, w in [0, 1) by their upper 53 bits. a = u,
    b = 1/4 + 3/4 v, c = 1 + 99 w.
    """
    own = drawn(job_ids + ":loss", seed)
    steps = (np.uint64(number * GOLDEN % 2**64) for number in (1, 2, 3))
    u, v, w = ((mix(own + step) >> np.uint64(11)).astype(np.float64) / 2.0**53 for step in steps)
    return u, 0.25 + 0.75 * v, 1.0 + 99.0 * w
