"""When the clock of a run sees what happens at a time (docs/model.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def first_instant(times: NDArray[np.float64], options: Mapping[str, Any]) -> NDArray[np.float64]:
    """The first instant of the clock not before each time, s: under the slot clock a boundary.

    options: the run's.
    """
    if options.get("clock") != "slot":
        return times
    slot = float(options["slot"])
    # A quotient may be rounded over a boundary. The product decides, as in the engine.
    n = np.ceil(times / slot)
    n = np.where((n - 1) * slot >= times, n - 1, n)
    n = np.where(n * slot < times, n + 1, n)
    return np.asarray(n * slot)
