"""Chains: what follows from which job arrives after which (docs/chains.md)."""

from __future__ import annotations

import numpy as np
import polars as pl

from ringbco.checker.inputs import Bools, Floats, Jobs


def first_submission(jobs: Jobs) -> float:
    """Of the jobs that depend on no other, s."""
    submit = jobs.submit if jobs.before is None else jobs.submit[jobs.before < 0]
    return float(submit.min())


def chain_times(jobs: Jobs, there: Bools, finish: Floats, window: tuple[float, float]) -> Floats:
    """Seconds from the submission of each chain's first job to the last finish of its jobs.

    there: which jobs were replayed. finish: NaN where a job was not done. Of chains of two jobs or more, one
    of which was done, whose first job arrived in the window.
    """
    assert jobs.before is not None
    assert jobs.submitted is not None
    parent, replayed = jobs.before.tolist(), there.tolist()
    first: dict[int, int] = {}
    size: dict[int, int] = {}
    last: dict[int, float] = {}
    for row in range(len(jobs)):
        path, at = [], row
        while at not in first and parent[at] >= 0 and replayed[parent[at]]:
            path.append(at)
            at = parent[at]
        root = first.setdefault(at, at)
        first |= dict.fromkeys(path, root)
        if replayed[row]:
            size[root] = size.get(root, 0) + 1
            if not np.isnan(finish[row]):
                last[root] = max(last.get(root, -np.inf), float(finish[row]))
    since, until = window
    times = [
        last[root] - float(jobs.submitted[root])
        for root in sorted(last)
        if size[root] >= 2 and since <= jobs.submit[root] < until
    ]
    return np.array(times, np.float64)


def log_waits(jobs: Jobs) -> pl.Series:
    """How long each job waited in the log, s: from its submission, or the end of the job before it there."""
    assert jobs.log_start is not None
    start = jobs.log_start.cast(pl.Float64).to_list()
    since = (jobs.submit if jobs.submitted is None else jobs.submitted).tolist()
    ends = [None] * len(start) if jobs.log_end is None else jobs.log_end.cast(pl.Float64).to_list()
    parent = [-1] * len(start) if jobs.before is None else jobs.before.tolist()
    waits = list[float | None]()
    for row, began in enumerate(start):
        if began is None:
            waits.append(None)
            continue
        first, other = since[row], parent[row]
        if other >= 0:
            end, before = ends[other], start[other]
            if end is None and before is not None:
                end = before + float(jobs.duration[other])
            first = first if end is None else max(first, min(end, began))
        waits.append(began - first)
    return pl.Series(waits, dtype=pl.Float64)
