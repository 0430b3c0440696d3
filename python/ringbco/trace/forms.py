"""How gangs may lie (docs/tiers.md#placement): pods, within_tier and segments, as the engine reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.errors import InputError
from ringbco.trace.pods import pod_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.cluster.tiers import Tier
    from ringbco.trace.jobs import JobTable

SERVER = "server"
"""The tier of single servers."""
COLUMNS = ("within_tier", "segment", "segment_tier")


def tier_columns(frame: pl.DataFrame) -> tuple[str, ...]:
    """Those of the columns about tiers in which some job has a value."""
    return tuple(
        name for name in COLUMNS if name in frame.columns and frame[name].null_count() < frame.height
    )


def refuse(table: JobTable, why: str) -> None:
    """Raises InputError for the first job with a tier or segments. why: what knows none, such as "a plan"."""
    for name in tier_columns(table.frame):
        row = int(table.frame[name].is_not_null().arg_max() or 0)
        raise InputError(
            f"nothing, as {why} knows no tiers",
            file=table.source,
            row=row + 1,
            column=name,
            value=table.frame[name][row],
            hint="leave the column out, or replay the jobs: `ringbco replay --placement compact`",
        )


def levels(table: JobTable, tiers: Sequence[Tier], name: str) -> NDArray[np.int64]:
    """The tier that a column names for each job: 0 for none, 1 for a server, 2 for the first tier, and so on.

    Raises InputError for the first row that names another.
    """
    if name not in table.frame.columns:
        return np.zeros(table.num_jobs, np.int64)
    known = [SERVER, *(tier.name for tier in tiers)]
    named = table.frame[name]
    bare = named.str.strip_suffix("?") if name == "within_tier" else named
    found = bare.replace_strict(known, range(1, len(known) + 1), default=None, return_dtype=pl.Int64)
    bad = named.is_not_null() & found.is_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise InputError(
            f"a tier of the cluster: {', '.join(known)}",
            file=table.source,
            row=row + 1,
            column=name,
            value=named[row],
            hint="name one of them, add [[network.tiers]] to the cluster file, or leave the cell empty",
        )
    return found.fill_null(0).to_numpy()


def bounds(table: JobTable, tiers: Sequence[Tier]) -> NDArray[np.int64] | None:
    """What each job is bound to; None where no job is: int64[jobs, 3].

    The tier that must hold it, 1 for a server, 0 for none; GPUs of each segment, 0 without; their tier.

    Raises InputError as `levels` does.
    """
    if not tier_columns(table.frame):
        return None
    within, strict, segment, tier = _wanted(table, tiers)
    return np.column_stack([within * strict, segment, tier])


def _wanted(table: JobTable, tiers: Sequence[Tier]) -> list[NDArray[np.int64]]:
    """For each job the tier that is to hold it, whether it must, GPUs of each segment, their tier."""
    frame = table.frame
    strict = np.zeros(frame.height, np.int64)
    if "within_tier" in frame.columns:
        strict += (~frame["within_tier"].str.ends_with("?")).fill_null(False).to_numpy()
    segment = np.zeros(frame.height, np.int64)
    if "segment" in frame.columns:
        segment += frame["segment"].fill_null(0).to_numpy()
    return [levels(table, tiers, "within_tier"), strict, segment, levels(table, tiers, "segment_tier")]


def forms(table: JobTable, tiers: Sequence[Tier]) -> _core._Forms | None:
    """For each job a place among the forms that occur, and these; None where GPUs may lie anywhere.

    A form: GPUs of each pod; 0, or the tier that is to hold the gang; whether it must; GPUs of each segment,
    0 without; their tier.

    Raises InputError as `levels` does.
    """
    pods = pod_sizes(table.frame)
    if tier_columns(table.frame):
        columns = [pods, *_wanted(table, tiers)]
    elif (pods > 1).any():
        columns = [pods, *[np.zeros(pods.size, np.int64)] * 4]
    else:
        return None
    key = np.zeros(pods.size, np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        key = np.unique(key * values.size + codes, return_inverse=True)[1]
    first = np.unique(key, return_index=True)[1]
    return _engine(key, [_form([int(column[row]) for column in columns]) for row in first])


def part(columns: _core._Forms, rows: Any) -> _core._Forms | None:
    """Those of some rows alone."""
    kept, of = np.unique(columns["of"][rows], return_inverse=True)
    return _engine(of, [columns["list"][number] for number in kept])


def _form(numbers: Sequence[int]) -> tuple[int, int, bool, int, int]:
    pod, within, strict, segment, tier = numbers
    return pod, within, bool(strict), segment, tier


def _engine(of: NDArray[Any], occurring: list[tuple[int, int, bool, int, int]]) -> _core._Forms | None:
    if occurring == [(1, 0, False, 0, 0)]:
        return None
    return {"of": of.ravel().astype(np.uint32), "list": occurring}
