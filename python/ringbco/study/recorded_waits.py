"""How long jobs waited in the log of a cluster, and how much of it they held. Times in seconds."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.recorded import END, START
from ringbco.trace.shares import asked_gpus

Floats = NDArray[np.float64]

GROUPS: Final = ("num_gpus", "user", "vc")
"""The columns by whose values waits are told."""


def by_group(frame: pl.DataFrame, waits: Floats) -> dict[str, list[dict[str, Any]] | None]:
    """Jobs with a known wait, and their mean, median and p90 wait, by num_gpus, user and vc.

    Most jobs first, num_gpus ascending. None where the table has no such column, or no value in it.
    """
    return {name: _groups(frame, waits, name) for name in GROUPS}


def _groups(frame: pl.DataFrame, waits: Floats, column: str) -> list[dict[str, Any]] | None:
    if column not in frame.columns or frame[column].null_count() == frame.height:
        return None
    wait = pl.col("wait")
    groups = (
        frame.select(column, wait=pl.Series(waits, nan_to_null=True))
        .drop_nulls("wait")
        .group_by(column)
        .agg(
            jobs=pl.len(),
            mean=wait.mean(),
            median=wait.median(),
            p90=wait.quantile(0.9, interpolation="linear"),
        )
    )
    if column == "num_gpus":
        return groups.sort(column).to_dicts()
    return groups.sort("jobs", column, descending=[True, False], nulls_last=True).to_dicts()


def utilisation(frame: pl.DataFrame, waits: Floats, num_gpus: int | None) -> dict[str, Any]:
    """GPU time that the recorded runs held between the first and the last submission, over that of the GPUs.

    A run is from recorded_start to recorded_end, else for duration. num_gpus: of the cluster; without one,
    the most GPUs that these runs held at once, whenever that was, stand for it.
    """
    known, submit = ~np.isnan(waits), frame["submit_time"].to_numpy()
    start, gpus = frame[START].cast(pl.Float64).to_numpy()[known], asked_gpus(frame)[known]
    end = start + frame["duration"].to_numpy()[known]
    if END in frame.columns:
        told = frame[END].cast(pl.Float64).fill_null(np.nan).to_numpy()[known]
        end = np.where(np.isnan(told), end, np.maximum(told, start))
    first, last = float(submit.min()), float(submit.max())
    held = float((gpus * np.maximum(np.minimum(end, last) - np.maximum(start, first), 0.0)).sum())
    most = _most_at_once(start, end, gpus)
    whole = most if num_gpus is None else float(num_gpus)
    return {
        "from": first,
        "to": last,
        "gpu_seconds": held,
        "most_gpus": most,
        "gpus": whole,
        "utilisation": held / (whole * (last - first)) if last > first else None,
    }


def _most_at_once(start: Floats, end: Floats, gpus: Floats) -> float:
    """The most GPUs that runs hold at once; one that ends when another starts is not beside it."""
    change = np.concatenate([gpus, -gpus])
    order = np.lexsort((change, np.concatenate([start, end])))
    return float(np.cumsum(change[order]).max())
