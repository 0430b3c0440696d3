"""Who goes before whom whatever a policy optimises: owners within their quotas, then priorities.

Invariant: a policy of this package serves one level before the next. For example, jobs of priority 1 that are
within their quotas are of level 0, those of priority 0 that are within of level 1, and jobs over quota last.
docs/gavel.md#priorities-quotas-and-shares has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringbco.policies.programs import distinct

if TYPE_CHECKING:
    from ringbco.run.state import Quota, State

Counts = NDArray[np.int64]
_Owner = tuple[int, str]
"""Of a file of quotas, counted from 0."""
OUT = -1
"""The level of a job that may not have GPUs now, since its owner may not borrow."""


def fifo(state: State, rows: NDArray[np.uint32]) -> Counts:
    """The places of these rows in fifo's order: (priority down, submit_time, row)."""
    return np.lexsort((rows, state.jobs.submit_time[rows], -priorities(state, rows)))


def staying(state: State) -> NDArray[np.uint32]:
    """The running rows that stay where they are: those protected, and those on servers that drain."""
    if not state.draining.size:
        return state.protected
    draining = {*state.draining.tolist()}
    stuck = [row for row, parts in state.allocations.items() if any(at in draining for at, _ in parts)]
    return np.union1d(state.protected, np.array(stuck, np.uint32))


def levels(state: State, rows: NDArray[np.uint32], wanted: Counts, *, keeps: bool) -> Counts:
    """The level of each row, from 0; `OUT` for none.

    wanted: GPUs that each must have. Along fifo's order, the protected first, a job is within its owners'
    quotas if in each its GPUs fit beside those of the owner's jobs that were within so far. Jobs over quota
    then count in the quotas of owners that may not borrow. keeps: whether running jobs keep their GPUs, and
    so come before all of `rows`, which wait; else `rows` has them too.
    """
    over_quota, out = np.zeros(rows.size, bool), np.zeros(rows.size, bool)
    held: dict[_Owner, int] = {}
    owned = [*_owned(state, rows)]
    for at, quotas in owned:
        so_far = {
            owner: held.get(owner, quota.held if keeps else 0) + int(wanted[at])
            for owner, quota in quotas.items()
        }
        beyond = [quota for owner, quota in quotas.items() if so_far[owner] > quota.gpus]
        if not beyond:
            held |= so_far
        else:
            out[at] = not all(quota.borrow for quota in beyond)
            over_quota[at] = not out[at]
    for at, quotas in owned:
        caps = {owner: quota for owner, quota in quotas.items() if over_quota[at] and not quota.borrow}
        so_far = {
            owner: held.get(owner, quota.held if keeps else 0) + int(wanted[at])
            for owner, quota in caps.items()
        }
        if all(so_far[owner] <= quota.gpus for owner, quota in caps.items()):
            held |= so_far
        else:
            out[at], over_quota[at] = True, False
    _, level = distinct(np.stack((over_quota, -priorities(state, rows)), axis=1))
    return np.where(out, OUT, level)


def caps(state: State, rows: NDArray[np.uint32], least: Counts, most: Counts) -> Counts:
    """GPUs up to which each row may grow: its least number, and the least that its owners' quotas leave.

    That is what those before do not need for their least numbers. In fifo's order each may have all that is
    left. least, most: by row. Only owners that may not borrow bound jobs over quota.
    """
    found = most.copy()
    left: dict[_Owner, int] = {}
    bounds: dict[int, list[_Owner]] = {}
    owned = [*_owned(state, rows)]
    for is_within in (True, False):
        for at, quotas in owned:
            if at in bounds:
                continue
            so_far = {
                owner: left.get(owner, quota.gpus) - int(least[at])
                for owner, quota in quotas.items()
                if is_within or not quota.borrow
            }
            if so_far and min(so_far.values()) >= 0:
                left |= so_far
                bounds[at] = [*so_far]
    for at in (at for at, _ in owned if at in bounds):
        owners = bounds[at]
        found[at] = min(int(most[at]), int(least[at]) + min(left[owner] for owner in owners))
        left |= {owner: left[owner] - int(found[at] - least[at]) for owner in owners}
    return found


def _owned(state: State, rows: NDArray[np.uint32]) -> Iterator[tuple[int, dict[_Owner, Quota]]]:
    """The places of the rows whose owners have quotas, in fifo's order, and these quotas."""
    if not state.has_quotas:
        return
    order = fifo(state, rows)
    stays = staying(state)
    if stays.size:  # those who keep their GPUs anyhow go first
        order = order[np.argsort(~np.isin(rows[order], stays), kind="stable")]
    for at in order.tolist():
        quotas = {
            (book, own.owner): own for book, own in enumerate(state.quotas(rows[at])) if own is not None
        }
        if quotas:
            yield at, quotas


def priorities(state: State, rows: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The priority of each row; 0 where none is given."""
    if "priority" not in state.jobs:
        return np.zeros(rows.size)
    return np.nan_to_num(state.jobs["priority"][rows].astype(np.float64))
