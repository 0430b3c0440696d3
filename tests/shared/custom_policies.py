"""Custom policies, and their jobs, that several test modules share."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import ringbco


def _mixed() -> ringbco.JobTable:
    """Jobs of many sizes, so that no two orders are alike, gangs over several servers among them."""
    frame = ringbco.generate("philly", 800, 7, gpus=64).frame
    sizes = np.random.default_rng(0).choice([1, 1, 1, 2, 3, 4, 8, 12, 16], frame.height).astype(np.uint32)
    return ringbco.from_frame(
        frame.with_columns(num_gpus=pl.Series(sizes), duration=pl.col("duration") * 0.3)
    )


JOBS = _mixed()


class Fifo(ringbco.Policy):
    """First come, first served."""

    def decide(self, state: Any) -> None:
        state.start(state.waiting)


def same(mine: ringbco.Outcome, theirs: ringbco.Outcome) -> None:
    columns = [name for name in theirs.jobs.columns if name in mine.jobs.columns]
    exact = [name for name in columns if theirs.jobs[name].dtype != pl.Float32]
    assert mine.jobs.select(exact).equals(theirs.jobs.select(exact))
    # A part that explains is what others leave of a wait, in single precision.
    for name in set(columns) - set(exact):
        assert ((mine.jobs[name] - theirs.jobs[name]).abs() <= 2e-6 * mine.jobs["jct"]).all(), name
    assert mine.allocations is not None
    assert mine.allocations.equals(theirs.allocations)


def by_hand(**options: Any) -> ringbco.Simulation:
    """Three jobs of 2 GPUs and 10 s, at 0, 0 and 5 s, on two servers of 2 GPUs."""
    frame = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0, 0.0, 5.0],
            "num_gpus": [2, 2, 2],
            "duration": [10.0, 10.0, 10.0],
        }
    )
    return ringbco.Simulation(frame, "2x2", model="fixed", **options)


class Stretchy(ringbco.Policy):
    """Starts each job on as many GPUs as are idle, and squeezes the others for it."""

    def decide(self, state: ringbco.State) -> None:
        least, most = state.jobs.min_gpus, state.jobs.max_gpus
        for row in state.running:
            if len(state.waiting) and state.held[row] > least[row]:
                state.resize(row, least[row])
        for row in state.waiting:
            for gpus in range(most[row], least[row] - 1, -1):
                if state.start(row, gpus=gpus):
                    break
