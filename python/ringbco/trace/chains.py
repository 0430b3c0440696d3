"""Chains as the engine reads them: after which job each arrives, how long after its end (docs/chains.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import InputError
from ringbco.trace.jobs import JobTable
from ringbco.trace.predecessors import NO_ROW, Rows, predecessors


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
        wish = "no circle of jobs and searches: the trials of a search wait for each other at rungs"
        _refuse(table, int(stuck[0]), wish, "leave it empty, or leave --search out")


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
