"""Who goes before whom, and who makes room (docs/priorities.md): the columns priority and preemptible."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.schema import engine_column


def priorities(frame: pl.DataFrame) -> NDArray[np.int32] | None:
    """The priority of each job; None where all jobs have the same."""
    if "priority" not in frame.columns:
        return None
    given = frame["priority"].fill_null(0)
    return given.to_numpy() if given.n_unique() > 1 else None


def preemptible(frame: pl.DataFrame) -> NDArray[np.bool_] | None:
    """Whether each job may be evicted; None where every job may."""
    return engine_column(frame, "preemptible")
