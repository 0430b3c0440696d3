"""Shares of a GPU (docs/shares.md): the column gpu_share in thousandths."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

MILLI_GPU: Final = 1000
"""Thousandths of a GPU."""


def thousandths(frame: pl.DataFrame) -> NDArray[np.uint32] | None:
    """Thousandths of one GPU that each job asks for, 0 for whole GPUs; None where every job asks for those.

    A share is rounded to thousandths, half a thousandth to the even one, and is at least one. A share that
    comes to 1,000 is a whole GPU.
    """
    if "gpu_share" not in frame.columns:
        return None
    share = frame["gpu_share"].fill_null(1.0).to_numpy()
    rounded = np.maximum(np.rint(share * MILLI_GPU), 1.0).astype(np.uint32)
    rounded[rounded == MILLI_GPU] = 0
    return rounded if rounded.any() else None


def asked_gpus(frame: pl.DataFrame) -> NDArray[np.float64]:
    """GPUs that each job asks for; less than 1 for a share of one."""
    whole = frame["num_gpus"].to_numpy().astype(np.float64)
    shares = thousandths(frame)
    return whole if shares is None else np.where(shares > 0, shares / MILLI_GPU, whole)


def share_hint(column: str, value: object) -> str | None:
    """What to do about a fraction of a GPU; None for a cell that is none."""
    if column != "num_gpus":
        return None
    try:
        share = float(str(value))
    except ValueError:
        return None
    if not 0 < share < 1:
        return None
    return f"a job on a share of one GPU has num_gpus 1, and {share:g} in a column gpu_share (docs/shares.md)"
