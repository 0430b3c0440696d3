"""Gradient noise: what more samples at once are worth (docs/model.md#statistical-efficiency)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringbco.trace.jobs import gpus_of

if TYPE_CHECKING:
    import polars as pl


def noise_scale(frame: pl.DataFrame) -> NDArray[np.float64]:
    """phi of every job, samples; infinite where the table says nothing."""
    if "noise_scale" not in frame.columns:
        return np.full(frame.height, np.inf)
    return frame["noise_scale"].fill_null(float("inf")).to_numpy()


def batch_size(frame: pl.DataFrame) -> NDArray[np.uint32]:
    """M of every job, samples of an iteration on each GPU; 1 where the table says nothing."""
    if "batch_size" not in frame.columns:
        return np.ones(frame.height, np.uint32)
    return frame["batch_size"].fill_null(1).to_numpy()


def noise(frame: pl.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.uint32]] | None:
    """phi and M of every job; None where no elastic job has a finite phi, so that nothing depends on it."""
    scale = noise_scale(frame)
    elastic = gpus_of(frame, "min_gpus") < gpus_of(frame, "max_gpus")
    return (scale, batch_size(frame)) if (elastic & np.isfinite(scale)).any() else None


def efficiency(frame: pl.DataFrame, gpus: NDArray[np.uint32]) -> NDArray[np.float64]:
    """E(w) of every job on w = `gpus`, of that shape: (phi + G M) / (phi + w M), 1 where phi is infinite."""
    scale, batch = noise_scale(frame), batch_size(frame).astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinity by infinity
        ratio = (scale + frame["num_gpus"].to_numpy() * batch) / (scale + gpus * batch)
    return np.where(np.isinf(scale), 1.0, ratio)
