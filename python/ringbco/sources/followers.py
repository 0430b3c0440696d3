"""Which kept job follows which, as a log says it: the column after of a converted table (docs/chains.md)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import show_value
from ringbco.sources.account import ROW, Entry, Locate
from ringbco.trace.predecessors import circles, predecessors


def linked(frame: pl.DataFrame, locate: Locate, column: str) -> tuple[pl.DataFrame, list[Entry]]:
    """The kept rows, and the entries of the account for those that lost their predecessor.

    frame: with job_id, vc or none, and after, the job_id of the predecessor that the log names in `column`.
    It is null then where that job was left out, is in another virtual cluster, or follows the row itself.
    """
    before = predecessors(frame["job_id"], frame["after"]).copy()
    entries = list[Entry]()

    def lose(which: NDArray[np.bool_], reason: str) -> None:
        if not which.any():
            return
        first = int(frame[ROW].filter(pl.Series(which)).min())  # type: ignore[arg-type]
        _, line, value = locate(first, column)
        count = int(which.sum())
        entries.append(Entry("noted", f"{reason}: after is empty", count, count, line, show_value(value)))
        before[which] = -1

    lose(before == -2, "the job before it was left out")
    if "vc" in frame.columns:
        own = frame["vc"].fill_null("")
        other = own.gather(np.maximum(before, 0))
        lose((before >= 0) & (own != other).to_numpy(), "the job before it is in another virtual cluster")
    around = np.zeros(before.size, np.bool_)
    around[circles(before)] = True
    lose(around, "the jobs before it lead back to it")
    named = frame["job_id"].gather(np.maximum(before, 0))
    return frame.with_columns(after=named.set(pl.Series(before < 0), None)), entries


def counted(frame: pl.DataFrame) -> Iterator[str]:
    """The note on the jobs that arrive after others. frame: of `linked`."""
    after = frame["after"]
    following = after.len() - after.null_count()
    if following:
        at = int(after.is_not_null().arg_max() or 0)
        several = "jobs arrive after others" if following > 1 else "job arrives after another"
        yield f"{following:,} {several} (column after); first: {frame['job_id'][at]} after {after[at]}"
