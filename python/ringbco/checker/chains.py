"""Chains: what follows from which job arrives after which (docs/chains.md)."""

from __future__ import annotations

import numpy as np

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
