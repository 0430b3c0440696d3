"""A policy that tries three orders of the queue on copies of the cluster and takes the best.

    ringbco replay jobs.parquet --cluster 8x8 --policy docs/examples/lookahead.py:Lookahead -o results

Each order runs ahead for an hour, with the arrivals and the run times that the trace has. The best is the one
under which jobs spend the least time in the system. A real scheduler cannot look ahead, so the policy is
clairvoyant. It shows how much a perfect forecast of an hour is worth.
"""

from dataclasses import dataclass

import numpy as np

import ringbco

ORDERS = {
    "fifo": lambda state, rows: rows * 0,
    "smallest": lambda state, rows: state.jobs.num_gpus[rows],
    "shortest": lambda state, rows: state.remaining_time[rows],
}


def start(state, order):
    """Starts what fits, in that order."""
    waiting = state.waiting
    keys = ORDERS[order](state, waiting)
    state.start(waiting[np.argsort(keys, kind="stable")], strict=False)


def ahead(run, order, end):
    """The job-seconds in the system up to a time, if the queue has that order all along."""
    spent = 0.0
    while True:
        start(run.state, order)
        since, jobs = run.state.now, len(run.state.waiting) + len(run.state.running)
        going_on = run.advance(until=end)
        spent += jobs * (run.state.now - since)
        if not going_on:
            return spent


@dataclass
class Lookahead(ringbco.Policy):
    """The best of three orders over the next hour. horizon: how far it looks ahead, s."""

    clairvoyant = True

    horizon: float = 3600.0

    def decide(self, state):
        """Tries every order on a fork and starts jobs in the best one. The first one wins ties."""
        end = state.now + self.horizon
        best = "fifo"
        if len(state.waiting) > 1:
            best = min(ORDERS, key=lambda order: ahead(state.fork(), order, end))
        start(state, best)
