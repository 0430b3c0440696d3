"""Another month like the recorded one: days of a trace drawn anew (docs/intervals.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.jobs import JobTable

DAY: Final = 86_400.0
"""Seconds; days begin at its multiples."""
WEEK: Final = 7
"""Days."""


def days_of(submit: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    """The day of each submission, from 0 for that of the first, and the number of days."""
    day = np.floor_divide(submit, DAY).astype(np.int64)
    day -= day.min()
    return day, int(day.max()) + 1


def weeks_of(table: JobTable) -> float:
    """How many weeks a trace has, its first and its last day counted in full."""
    return days_of(table.frame["submit_time"].to_numpy())[1] / WEEK


def redrawn(
    submit: NDArray[np.float64], rng: np.random.Generator, block: float = 1.0
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Rows of another trace of as many days, their submission times, and the block each is of.

    The stationary bootstrap of Politis and Romano (JASA 1994) over days. Blocks of consecutive days follow
    each other; their lengths are geometric with a mean of `block` days, >= 1. A block begins at a recorded
    day of the weekday at which it is placed, and goes on with the first day where the trace ends. Jobs keep
    their order and the gaps between them within a block. The times ascend.
    """
    day, days = days_of(submit)
    order = np.lexsort((submit, day))
    begins = np.searchsorted(day[order], np.arange(days + 1))
    rows, moves, blocks, source, number = [], [], [], 0, -1
    fresh, choice = rng.random(days) < 1.0 / block, rng.random(days)
    for place in range(days):
        if place == 0 or fresh[place]:
            weekday = place % WEEK
            source = weekday + WEEK * int(choice[place] * ((days - weekday + WEEK - 1) // WEEK))
            number += 1
        else:
            source = (source + 1) % days
        own = order[begins[source] : begins[source + 1]]
        rows.append(own)
        moves.append(np.full(own.size, (place - source) * DAY))
        blocks.append(np.full(own.size, number, np.int64))
    taken = np.concatenate(rows)
    return taken, submit[taken] + np.concatenate(moves), np.concatenate(blocks)


def resampled(table: JobTable, seed: int, block: float = 1.0) -> JobTable:
    """The jobs of a draw of the table's days, as `redrawn` has it; block: mean length of a block, days.

    Ids and the names of searches get the number of their row and of their block in front: the same day may
    be drawn twice. A deadline keeps its distance from its job's submission.
    """
    frame = table.frame
    submit = frame["submit_time"].to_numpy()
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    taken, times, blocks = redrawn(submit, rng, block)
    while not taken.size:  # all of the days drawn were without jobs
        taken, times, blocks = redrawn(submit, rng, block)
    drawn = frame[taken]
    columns = [
        pl.Series("submit_time", times),
        pl.int_range(1, taken.size + 1, eager=True).cast(pl.String) + "-" + drawn["job_id"],
    ]
    columns[1] = columns[1].alias("job_id")
    if "group" in frame.columns:
        columns.append((pl.Series(blocks).cast(pl.String) + "-" + drawn["group"]).alias("group"))
    if "deadline" in frame.columns:
        columns.append(drawn["deadline"] + (pl.Series(times) - drawn["submit_time"]))
    return replace(
        table, frame=drawn.with_columns(columns), source=f"{table.source}, days drawn with seed {seed}"
    )
