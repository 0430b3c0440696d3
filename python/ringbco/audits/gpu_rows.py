"""The rows of allocations.parquet where GPUs have an index: those of job tables with shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.shares import MILLI_GPU

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class OnGpus:
    """The rows of allocations.parquet where GPUs have an index. milli_gpus: -1 where none are given.

    job: as `Facts.a_job`. gpu: the index on the server. -1 where a row has no GPU, or no seat.
    """

    job: Ints
    stay: Ints
    server: Ints
    gpu: Ints
    num_gpus: Ints
    milli_gpus: Ints
    seat: Ints
    start: Floats
    end: Floats


def read(rows: pl.DataFrame) -> OnGpus:
    """The rows; `_job` numbers their jobs."""

    milli_gpus = np.full(rows.height, -1, np.int64)
    if _has_numbers(rows, "share"):
        share = rows["share"].cast(pl.Float64, strict=False).fill_null(1.0).to_numpy()
        milli_gpus = np.rint(np.nan_to_num(share, nan=-1.0) * MILLI_GPU).astype(np.int64)
    times = (rows[name].to_numpy().astype(np.float64) for name in ("start_time", "end_time"))
    start, end = times
    job, stay, server, gpu, gpus, seat = (
        numbers(rows, name) for name in ("_job", "stay", "server", "gpu", "num_gpus", "seat")
    )
    return OnGpus(job, stay, server, gpu, gpus, milli_gpus, seat, start, end)


def numbers(rows: pl.DataFrame, name: str) -> Ints:
    """A column of whole numbers; -1 where it says none."""
    if not _has_numbers(rows, name):
        return np.full(rows.height, -1, np.int64)
    return rows[name].cast(pl.Int64, strict=False).fill_null(-1).to_numpy()


def _has_numbers(rows: pl.DataFrame, name: str) -> bool:
    return name in rows.columns and rows.schema[name].is_numeric()


def by_server(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows as a result without shares has them: one a stay and server."""
    keys = ["_job", "server", "start_time", "end_time", "stay"]
    seat = [pl.col("seat").first()] if "seat" in rows.columns else []
    return rows.group_by(keys, maintain_order=True).agg(pl.col("num_gpus").sum(), *seat)
