"""How long chains of jobs took, from the submission of the first to the end of the last (docs/chains.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringbco.trace.predecessors import roots

if TYPE_CHECKING:
    from ringbco.result.window import Window

Floats = NDArray[np.float64]


def chain_times(
    after: NDArray[np.uint32],
    *,
    done: NDArray[np.bool_],
    there: NDArray[np.bool_],
    finish: Floats,
    submitted: Floats,
    arrival: Floats,
    window: Window | None = None,
) -> Floats:
    """Seconds of each chain of at least two jobs, by its first job's row: its last finish - its submission.

    after: the row of each job's predecessor, beyond all rows for none. there: which jobs were replayed; one
    that was left out belongs to no chain. done: which of them count as finished. window: in which the first
    job arrived; None for all.
    """
    before = np.where(after < after.size, after.astype(np.int64), -1)
    before[(before >= 0) & ~there[before]] = -1
    root = roots(before)
    jobs = np.bincount(root[there], minlength=after.size)
    last = np.full(after.size, -np.inf)
    np.maximum.at(last, root[done], finish[done])
    counted = (jobs >= 2) & np.isfinite(last)
    if window is not None:
        counted &= window.holds(arrival)
    times: Floats = (last - submitted)[counted]
    return times
