"""On which date an instant of a result is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ringbco.trace.clock import clock_zero

if TYPE_CHECKING:
    from datetime import datetime

    from ringbco.result.outcome import Outcome


def zero_of(outcome: Outcome) -> datetime | None:
    """What 0 of the clock of a result is; None where unknown, and for a plan, which has its own clock."""
    if outcome.run.get("options", {}).get("command") == "plan":
        return None
    trace = outcome.run.get("trace")
    said = trace.get("epoch") if isinstance(trace, Mapping) else None
    return clock_zero(said, outcome.jobs["submit_time"])
