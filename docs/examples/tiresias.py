"""Tiresias with two queues (Gu et al., NSDI 2019) as a custom policy.

    ringbco replay jobs.parquet --cluster 8x8 --policy docs/examples/tiresias.py:Tiresias -o results

A job begins in the first queue. It drops to the second one when it has held GPUs for `threshold` GPU-seconds.
The first queue goes ahead of the second one. Inside a queue the earlier submission goes first. So short jobs
overtake long ones, though nobody knows how long a job will run. The preset `tiresias` gives the same bytes.
"""

from dataclasses import dataclass

import ringbco


@dataclass
class Tiresias(ringbco.RankPolicy):
    """Two queues by attained service, fifo inside each.

    threshold: GPU-seconds at which a job drops to the second queue. interval: seconds between passes.
    """

    preemptive = True

    threshold: float = 18_000.0
    interval: float = 60.0

    def rank(self, state, rows):
        """0 for the first queue and 1 for the second one; ties are fifo."""
        return state.attained[rows] >= self.threshold
