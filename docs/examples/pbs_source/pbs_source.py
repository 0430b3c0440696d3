"""A source of ringbco: the accounting logs of PBS, with `ringbco convert pbs LOG... -o JOBS.parquet`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ringbco.sources.account import ROW, clean, drop
from ringbco.sources.parsing import iso
from ringbco.sources.source import Trace

DAY = 86_400
ENDED = r"^[^;]*;E;([^;]+);"  # 05/04/2026 10:05:00;E;1207.head;user=ada queue=gpu ...


def read(files: list[Path], *, queue: str = "") -> Trace:
    """PBS: the jobs that ended, of all queues or of one."""
    lines = [line for file in files for line in enumerate(file.read_text().splitlines(), start=1)]
    log = pl.DataFrame(lines, schema={"line": pl.Int64, "text": pl.String}, orient="row")
    jobs = log.filter(pl.col("text").str.contains(ENDED)).select(
        pl.int_range(pl.len()).alias(ROW),
        "line",
        pl.col("text").str.extract(ENDED).alias("job_id"),
        said("user"),
        said("queue").alias("vc"),
        said("qtime").cast(pl.Float64).alias("submit_time"),
        said("start").cast(pl.Float64),
        said("end").cast(pl.Float64),
        said("Resource_List.ngpus").cast(pl.UInt32).fill_null(0).alias("num_gpus"),
    )
    rules = [
        drop("no GPUs (Resource_List.ngpus)", pl.col("num_gpus") == 0, "num_gpus", "at least one GPU"),
        drop("never started (no start)", pl.col("start").is_null(), "start", "a time"),
        drop("ran for no time", pl.col("end") <= pl.col("start"), "end", "later than start"),
    ]
    if queue:
        rules.insert(0, drop("of another queue", pl.col("vc") != queue, "vc", queue))
    kept, account = clean(
        jobs,
        rules,
        unit="jobs that ended",
        file=str(files[0]),
        locate=lambda row, column: (None, jobs["line"][row], jobs[column][row]),
    )
    midnight = float(kept["submit_time"].min() or 0) // DAY * DAY
    table = kept.select(
        *("job_id", "num_gpus", "user", "vc"),
        submit_time=pl.col("submit_time") - midnight,
        duration=pl.col("end") - pl.col("start"),
        recorded_start=pl.col("start") - midnight,
    )
    return Trace(table, account, iso(midnight, utc=True), "midnight (UTC) before the first kept submission")


def said(key: str) -> pl.Expr:
    """What a record says of a key."""
    return pl.col("text").str.extract(rf"[ ;]{key}=(\S+)").alias(key)
