"""Which job arrives after which (docs/chains.md): predecessors as rows, chains, circles."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

NO_ROW: Final = 2**32 - 1
"""Stands for no predecessor."""
_NAMED: Final = 6
"""Jobs of a circle that a message names."""

Rows = NDArray[np.int64]


def predecessors(ids: pl.Series, after: pl.Series) -> Rows:
    """The row, from 0, of the job after which each arrives: -1 for none, -2 for a job_id that no row has.

    Of several rows with one job_id, which is a fault of its own, the first.
    """
    named = after.set(after == "", None)
    first = ids.is_first_distinct()
    rows = named.replace_strict(ids.filter(first), first.arg_true(), default=-2, return_dtype=pl.Int64)
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
