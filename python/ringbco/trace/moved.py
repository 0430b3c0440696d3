"""Submissions moved by under a minute: the same jobs on another toss of the coin (docs/certainty.md#runs)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.jobs import JobTable
from ringbco.trace.recorded import without
from ringbco.trace.splitmix import GOLDEN, mix

_MOST: Final = 60.0
"""Seconds, and never quite as many, by which a submission moves."""


def instants(submit: NDArray[np.float64]) -> NDArray[np.int64]:
    """Each submission's place, from 0, among the distinct submission times: jobs of one instant share it."""
    return np.unique(submit, return_inverse=True)[1].astype(np.int64, copy=False)


def moves(places: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """By how much each submission moves, in [0, 60) s.

    Output `place` + 1 of the SplitMix64 generator whose state is output 1 of that of `seed`, its upper 53
    bits as a share of a minute. places: as `instants` gives them, int64 of length num_jobs.
    """
    base = mix(np.array([seed * GOLDEN % 2**64], np.uint64))[0]
    state = (places.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
    state += base
    return (mix(state) >> np.uint64(11)).astype(np.float64) * (_MOST * 2.0**-53)


def moved(table: JobTable, places: NDArray[np.int64], seed: int) -> JobTable:
    """The same rows in the same order, each submitted a little later; a deadline moves with its submission.

    Recorded starts are of the submissions as they were, so they are left out.

    places: `instants` of the table's submit_time, which all seeds share.
    """
    frame = table.frame
    later = pl.Series("submit_time", moves(places, seed))
    columns = [frame["submit_time"] + later]
    if "deadline" in frame.columns:
        columns.append(frame["deadline"] + later)
    return replace(table, frame=without(frame.with_columns(columns)), moved_from=(table, seed))
