"""FIFO on min_gpus; idle GPUs then go to the oldest jobs that can use them, until another job waits.

    ringbco replay jobs.parquet --cluster 1x8 --policy stretchy.py:Stretchy

For one server: a resize places the whole gang again.
"""

import ringbco


class Stretchy(ringbco.Policy):
    """Jobs run on as many GPUs as no other job needs."""

    def decide(self, state: ringbco.State) -> None:
        """Shrinks the running jobs if others wait, starts these, and lets all grow."""
        least, most = state.jobs.min_gpus, state.jobs.max_gpus
        if len(state.waiting):
            for row in state.running:
                state.resize(row, least[row])
        for row in state.waiting:
            state.start(row, gpus=least[row])
        for row in state.running:
            state.resize(row, min(most[row], state.held[row] + state.idle[0]))
