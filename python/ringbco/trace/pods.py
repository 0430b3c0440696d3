"""Pods (docs/placements.md): the column gpus_per_pod, as the engine reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


def gpus_per_pod(frame: pl.DataFrame) -> NDArray[np.uint32] | None:
    """GPUs of each pod of every job; None where every pod is one GPU."""
    if "gpus_per_pod" not in frame.columns:
        return None
    sizes = frame["gpus_per_pod"].fill_null(1).to_numpy()
    return sizes if (sizes > 1).any() else None


def pod_sizes(frame: pl.DataFrame) -> NDArray[np.int64]:
    """GPUs of each pod of every job, 1 where it is null or the column is absent."""
    sizes = gpus_per_pod(frame)
    return np.ones(frame.height, np.int64) if sizes is None else sizes.astype(np.int64)
