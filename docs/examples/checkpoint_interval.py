"""How long a job takes by the interval between its checkpoints, where a checkpoint costs time.

1,000 jobs of five days run on a server each. Servers fail every two days and are repaired in an hour. A
checkpoint takes five minutes, so a job that saves every c seconds has (1 + 300 / c) times the work. Young's
interval is sqrt(2 x 300 s x 2 days) = 10,182 s, Daly's 9,983 s (docs/outages.md).

python checkpoint_interval.py [JOBS]
"""

import math
import sys

import numpy as np
import polars as pl

import ringbco

HOUR = 3600.0
DAY = 24 * HOUR
BETWEEN, REPAIR, COST, WORK = 2 * DAY, HOUR, 300.0, 5 * DAY
INTERVALS = (1800.0, 3600.0, 7200.0, 10_182.0, 14_400.0, 21_600.0, 43_200.0)


def mean_run_time(interval: float, jobs: int) -> float:
    """The mean of so many jobs, s."""
    table = pl.DataFrame(
        {
            "job_id": [f"job{row}" for row in range(jobs)],
            "submit_time": np.zeros(jobs),
            "num_gpus": np.ones(jobs, np.uint32),
            "duration": np.full(jobs, WORK * (1 + COST / interval)),
        }
    )
    cluster = f"{jobs}x1"
    # An interval counts the work between two checkpoints, and each of them.
    outcome = ringbco.replay(
        table,
        cluster,
        policy="fifo",
        placement="first-fit",
        model="fixed",
        outages=ringbco.outages(cluster, mtbf=BETWEEN, mttr=REPAIR, days=60, seed=1),
        checkpoint_interval=interval + COST,
        preempt_cost=0.0,
    )
    return float(outcome.jobs["run_time"].mean() or math.nan)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for seconds in INTERVALS:
        print(f"{seconds / HOUR:5.2f} h  {mean_run_time(seconds, count) / DAY:.3f} days")
