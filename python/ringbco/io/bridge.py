"""The ways by which columns cross to numpy: that of polars and that of the engine.

Both look for numpy's functions when the first column crosses over, and panic where a signal ends that.
Signals wait until an import is done (`ringbco.shell`), so polars looks while this module is imported. The
engine looks when it is told to, and raises: much of what it is asked needs no numpy.
"""

from __future__ import annotations

import numpy  # noqa: F401 - where both look
import polars as pl

from ringbco import _core

pl.Series([0.0]).to_numpy()


def open_arrays() -> None:
    """Opens the engine's way: to be called before giving it arrays or getting some from it.

    Raises KeyboardInterrupt where a signal comes in between; the next call begins anew.
    """
    _core.load_arrays()
