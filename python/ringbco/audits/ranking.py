"""Who is ahead of whom: each job's place in the queue order, what QSSF predicts, and what aging changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ringbco.audits.facts import Facts, Floats, Ints
from ringbco.trace import ties
from ringbco.trace.standing import priorities

ORDERS: Final = frozenset({"fifo", "sjf", "smallest", "qssf"})


@dataclass(frozen=True)
class Places:
    """Of n jobs of one cluster, the least first; a job has one place until it ages, the other from then on.

    young: from n on, so behind all that have aged. aged: from 0 to n - 1, by fifo. due: the instant at which
    it ages, s; infinite without aging.
    """

    young: Ints
    aged: Ints
    due: Floats


def places(facts: Facts, jobs: Ints) -> Places:
    """The places of `jobs`, which are all of one (virtual) cluster."""
    submit, tied = facts.submit[jobs], ties.key(facts.row[jobs], facts.options.get("ties", "rows"))
    level = _levels(facts, jobs)
    fifo = _place(np.lexsort((tied, submit, level)))
    aging = facts.options.get("aging")
    due = np.full(jobs.size, np.inf) if aging is None else facts.first_instant(submit + float(aging))
    return Places(jobs.size + _place(np.lexsort((fifo, _keys(facts, jobs, fifo), level))), fifo, due)


def _levels(facts: Facts, jobs: Ints) -> Ints:
    """Priorities, the highest least."""
    given = priorities(facts.table.frame)
    return np.zeros(jobs.size, np.int64) if given is None else -given[facts.row[jobs]].astype(np.int64)


def _place(order: Ints) -> Ints:
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return place


def _keys(facts: Facts, jobs: Ints, fifo: Ints) -> Floats:
    """What the queue is ordered by, least first and ties by fifo."""
    name = facts.options["order"]
    if name == "sjf":
        return facts.workload.estimate[facts.row[jobs]]
    if name == "smallest":
        return facts.num_gpus[jobs].astype(np.float64)
    if name == "fifo":
        return np.zeros(jobs.size)
    if facts.options.get("predict") == "exact":
        return _durations(facts, jobs) * facts.weight[jobs]
    return _predicted(facts, jobs, fifo)


def _durations(facts: Facts, jobs: Ints) -> Floats:
    return np.asarray(facts.table.frame["duration"].to_numpy()[facts.row[jobs]], dtype=np.float64)


def _predicted(facts: Facts, jobs: Ints, fifo: Ints) -> Floats:
    """QSSF's predicted GPU time: the mean duration of the jobs completed when a job arrives, times its GPUs.

    Of the same user and size, else of the same user, else of all; 0 before any completion. Jobs without a
    user are one user's. Completions of one instant count in fifo order: sums of floats depend on it.
    """
    arrival, start, finish = facts.arrival()[jobs], facts.start[jobs], facts.finish[jobs]
    frame = facts.table.frame
    users: list[object] = frame["user"].gather(facts.row[jobs]).to_list() if "user" in frame.columns else []
    users = users or [None] * jobs.size
    sizes, durations = facts.num_gpus[jobs].tolist(), _durations(facts, jobs).tolist()
    gpus = facts.weight[jobs].tolist()
    # Runs so short that float64 sees no time pass end after the arrivals of their instant.
    instant = start == finish
    done = np.lexsort((fifo, instant, finish)).tolist()
    known: dict[object, tuple[float, int]] = {}
    predicted = np.zeros(jobs.size)
    at = 0
    for j in np.argsort(arrival, kind="stable").tolist():
        while at < len(done) and finish[done[at]] <= arrival[j]:
            k = done[at]
            if instant[k] and finish[k] == arrival[j]:
                break
            at += 1
            for key in ((users[k], sizes[k]), (users[k],), ()):
                total, count = known.get(key, (0.0, 0))
                known[key] = (total + durations[k], count + 1)
        for key in ((users[j], sizes[j]), (users[j],), ()):
            if key in known:
                total, count = known[key]
                predicted[j] = total / count * gpus[j]
                break
    return predicted
