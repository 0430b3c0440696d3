"""Chains: which job arrives after which, and how long after its end (docs/chains.md)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import InputError

if TYPE_CHECKING:
    from ringbco.trace.jobs import JobTable

NO_ROW: Final = 2**32 - 1
"""Stands for no predecessor."""
_NAMED: Final = 6
"""Jobs of a circle that a message names."""

Rows = NDArray[np.int64]


def predecessors(ids: pl.Series, after: pl.Series) -> Rows:
    """The row, from 0, of the job after which each arrives: -1 for none, -2 for a job_id that no row has."""
    named = after.set(after == "", None)
    rows = named.replace_strict(ids, pl.int_range(ids.len(), eager=True), default=-2, return_dtype=pl.Int64)
    return rows.set(named.is_null(), -1).to_numpy()


def roots(before: Rows) -> Rows:
    """The row of the first job of each row's chain; of one in a circle, or after one, a row of it."""
    at = np.where(before < 0, np.arange(before.size), before)
    for _ in range(max(1, int(before.size).bit_length())):
        at = at[at]
    return at


def circles(before: Rows) -> Rows:
    """The rows that form circles, ascending."""
    ends = np.unique(roots(before))
    return ends[before[ends] >= 0]


def circle_text(before: Rows, ids: pl.Series, row: int) -> str:
    """The circle of a row: "a after c, c after b, b after a"."""
    around, at = [row], int(before[row])
    while at != row:
        around.append(at)
        at = int(before[at])
    names = [ids[at] for at in [*around, row][: _NAMED + 1]]
    said = ", ".join(f"{own} after {other}" for own, other in pairwise(names))
    return said if len(around) <= _NAMED else f"{said}, ... ({len(around)} jobs)"


def chains(
    table: JobTable, vc: NDArray[np.uint32] | None, searches: NDArray[np.uint32] | None
) -> tuple[NDArray[np.uint32], NDArray[np.float64]] | None:
    """The predecessor of each job, `NO_ROW` for none, and its think_time, NaN for none, for the engine.

    None where no job depends on another. vc: as `profiles.vc_index` has it. searches: the number of each
    trial's search, where searches are judged.

    Raises InputError for the lowest row whose predecessor is in another virtual cluster, or which waits for a
    trial of its own search.
    """
    frame = table.frame
    if "after" not in frame.columns or frame["after"].null_count() == frame.height:
        return None
    before = predecessors(frame["job_id"], frame["after"])
    if (before < 0).all():
        return None
    if vc is not None:
        apart = (before >= 0) & (vc[before] != vc)
        if apart.any():
            row = int(apart.argmax())
            own, other = (frame["vc"][each] for each in (row, int(before[row])))
            wish = f"a job of its own virtual cluster {own!r}, not of {other!r}"
            _refuse(table, row, wish, "leave it empty, or pool all servers with --vc pool")
    if searches is not None:
        _refuse_rungs(table, before, searches)
    think = np.full(frame.height, np.nan)
    if "think_time" in frame.columns:
        think = frame["think_time"].fill_null(np.nan).to_numpy()
    return np.where(before < 0, NO_ROW, before).astype(np.uint32), think


def _refuse_rungs(table: JobTable, before: Rows, searches: NDArray[np.uint32]) -> None:
    """Refuses trials that wait, by way of any jobs, for their own search, whose trials wait for them."""
    jobs = before.size
    named = searches != np.iinfo(np.uint32).max
    node = np.where(named, jobs + searches.astype(np.int64), np.arange(jobs))
    linked = np.flatnonzero(before >= 0)
    edges = {(int(node[before[row]]), int(node[row])) for row in linked}
    left: dict[int, set[int]] = {}
    needs: dict[int, int] = {}
    for first, then in edges:
        left.setdefault(first, set()).add(then)
        needs[then] = needs.get(then, 0) + 1
    free = [first for first in left if not needs.get(first)]
    while free:
        for then in left.get(free.pop(), ()):
            needs[then] -= 1
            if not needs[then]:
                free.append(then)
    stuck = [row for row in linked if needs.get(int(node[row])) and needs.get(int(node[before[row]]), 0)]
    if stuck:
        wish = "no job that waits for trials of the search for which it is waited: they pause at rungs for it"
        _refuse(table, int(stuck[0]), wish, "leave it empty, or leave --search out")


def chains_of(frame: pl.DataFrame) -> dict[str, int] | None:
    """The chains of a valid job table, the most jobs that come one after another, and the jobs of all chains.

    None without a column after.
    """
    if "after" not in frame.columns:
        return None
    before = predecessors(frame["job_id"], frame["after"])
    root = roots(before)
    jobs = np.bincount(root, minlength=before.size)
    in_chains = jobs[root] > 1
    # Steps to the first job: what stands so many steps before a row, added up by doubling.
    steps, at = (before >= 0).astype(np.int64), np.where(before < 0, np.arange(before.size), before)
    while (at != root).any():
        steps, at = steps + steps[at], at[at]
    longest = int(steps[in_chains].max(initial=-1)) + 1
    return {"chains": int((jobs > 1).sum()), "longest": longest, "jobs": int(in_chains.sum())}


def after_dropped(frame: pl.DataFrame, gone: pl.Series) -> pl.Series:
    """The rows that arrive after one that is `gone`, at once or by way of others."""
    left = pl.repeat(False, frame.height, dtype=pl.Boolean, eager=True)
    if "after" not in frame.columns or not gone.any():
        return left
    ids, after = (frame[name].cast(pl.String, strict=False) for name in ("job_id", "after"))
    while True:
        lost = after.is_in(ids.filter(gone | left).implode()) & ~after.is_in(
            ids.filter(~(gone | left)).implode()
        )
        more = lost.fill_null(False) & ~gone & ~left
        if not more.any():
            return left
        left = left | more


def part(told: tuple[NDArray[np.uint32], NDArray[np.float64]], rows: Any, jobs: int) -> Any:
    """The chains among some rows of a table of so many jobs; None where no job of them depends on another."""
    place = np.full(jobs + 1, NO_ROW, np.uint32)
    own = np.arange(jobs)[rows]
    place[own] = np.arange(own.size, dtype=np.uint32)
    after = place[np.minimum(told[0][rows], jobs)]
    linked = after != NO_ROW
    return (after, np.where(linked, told[1][rows], np.nan)) if linked.any() else None


def _refuse(table: JobTable, row: int, expected: str, hint: str) -> None:
    raise InputError(
        expected, file=table.source, row=row + 1, column="after", value=table.frame["after"][row], hint=hint
    )
