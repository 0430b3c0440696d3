"""Jobs that hold shares of GPUs, by hand and at random."""

from __future__ import annotations

import random

import polars as pl

FIXED = {"policy": "fifo", "placement": "best-fit", "model": "fixed"}


def jobs(*rows: tuple[float, int, float, float | None]) -> pl.DataFrame:
    """Rows of (submit_time, num_gpus, duration, gpu_share)."""
    submit, gpus, duration, share = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "job_id": [chr(ord("a") + row) for row in range(len(rows))],
            "submit_time": submit,
            "num_gpus": gpus,
            "duration": duration,
            "gpu_share": pl.Series(share, dtype=pl.Float64),
        },
        strict=False,
    )


def random_jobs(rnd: random.Random, *, share: float) -> pl.DataFrame:
    rows = []
    now = 0.0
    for row in range(rnd.randint(5, 40)):
        now += rnd.choice((0.0, 1.0, 7.5, 30.0))
        part = rnd.choice((0.1, 0.25, 0.3, 0.5, 0.7)) if rnd.random() < share else None
        gpus = 1 if part is not None else rnd.choice((1, 1, 2, 4))
        kind = rnd.choice((None, "V100", "T4|V100", "T4"))
        rows.append((f"j{row}", now, gpus, rnd.choice((5.0, 20.0, 60.0, 333.3)), part, kind, f"u{row % 3}"))
    columns = ("job_id", "submit_time", "num_gpus", "duration", "gpu_share", "gpu_type", "user")
    kinds = {"gpu_share": pl.Float64, "gpu_type": pl.String}
    frame = pl.DataFrame(rows, schema=columns, orient="row", schema_overrides=kinds)
    return (
        frame
        if share == 0 or frame["gpu_share"].count()
        else frame.with_columns(gpu_share=pl.when(pl.int_range(pl.len()) == 0).then(0.5), num_gpus=pl.lit(1))
    )
