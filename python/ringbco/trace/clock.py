"""When the clock of a run sees what happens at a time (docs/model.md), and dates on that of a job table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_EPOCH: Final = "the job table does not say on which date its clock begins"
NO_EPOCH_HINT: Final = (
    "count seconds from the zero of submit_time, or convert the trace to a table with an epoch"
)
"""What a date meets where the table has no epoch, and how to mend it."""


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


def seconds_since(epoch: datetime, text: str) -> float:
    """Seconds from the epoch to a date, or a date and time, of ISO 8601; without an offset, on its clock.

    Raises ValueError for anything else, and for an offset where the epoch has none.
    """
    when = datetime.fromisoformat(text.strip())
    if when.tzinfo is None:
        when = when.replace(tzinfo=epoch.tzinfo)
    elif epoch.tzinfo is None:
        raise ValueError(text)
    return (when - epoch).total_seconds()


def date_on(epoch: datetime) -> str:
    """What is expected where a date is read on an epoch."""
    own = "with" if epoch.tzinfo is not None else "without"
    return f"a date and time such as 2024-05-01T06:30:00 ({own} an offset, as the epoch {epoch})"
