"""Makes traces/log.csv, a log as a cluster keeps it: `python benches/sample_log.py`.

1,000 synthetic jobs shaped like Philly's, as fifo ran them on 16 servers of 8 GPUs, in columns of other names
than the job table's and with wall clocks to the second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

import ringbco

LOG: Final = Path(__file__).parents[1] / "traces" / "log.csv"


def log() -> pl.DataFrame:
    """The log, one row per job: job, user, gpus, submitted, began, ended."""
    jobs = ringbco.generate("philly", 1000, seed=5, gpus=128, load=1.0)
    ran = ringbco.replay(jobs, "16x8", policy="fifo", model="fixed").jobs

    def clock(seconds: pl.Expr) -> pl.Expr:
        since = pl.duration(milliseconds=(seconds * 1e3).round())
        return (pl.datetime(2024, 3, 4, 0, 0, 0) + since).dt.round("1s").dt.strftime("%Y-%m-%d %H:%M:%S")

    return ran.select(
        job=pl.col("job_id").str.replace("philly-", "train-"),
        user="user",
        gpus="num_gpus",
        submitted=clock(pl.col("submit_time")),
        began=clock(pl.col("start_time")),
        ended=clock(pl.col("finish_time")),
    )


if __name__ == "__main__":
    log().write_csv(LOG)
