"""A window of time: the jobs submitted in it are measured, and the time in it (docs/results.md#a-window)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ringbco.errors import UsageError
from ringbco.units import duration, instant

if TYPE_CHECKING:
    from datetime import datetime

    import polars as pl
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome

OPTIONS: Final = ("measure_from", "measure_to")
"""The options of a replay, and the keys of a summary, that say which window it is."""


class EmptyWindowError(UsageError):
    """The window is none of this job table: no job was submitted in it, or no date is on its clock."""


@dataclass(frozen=True)
class Window:
    """From `since` on and before `until`, s; infinite where no option says it."""

    since: float = -math.inf
    until: float = math.inf

    @classmethod
    def of(
        cls, options: Mapping[str, Any], submit: NDArray[np.float64], *, known: bool = True
    ) -> Window | None:
        """That of a run's options; None where they name none. submit: of the whole job table, s.

        known: whether jobs arrive then, and not after others. Raises EmptyWindowError for one in which no job
        was submitted, where that is known.
        """
        given = [options.get(name) for name in OPTIONS]
        if given == [None, None]:
            return None
        first, last = float(submit.min()), float(submit.max())
        since, until = (None if value is None else _instant(value, first, last) for value in given)
        window = cls(-math.inf if since is None else since, math.inf if until is None else until)
        if known and not window.holds(submit).any():
            name = OPTIONS[since is None].replace("_", "-")
            raise EmptyWindowError(
                f"option {name}: {given[since is None]}: expected a window in which jobs are submitted; none"
                f" is {window}, all are from {first:.15g} s to {last:.15g} s"
            )
        return window

    def __str__(self) -> str:
        parts = [f"from {self.since:.15g} s on"] if self.since > -math.inf else []
        return " and ".join([*parts, *([f"before {self.until:.15g} s"] if self.until < math.inf else [])])

    def holds(self, times: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each of some times, s, is in it."""
        return (times >= self.since) & (times < self.until)

    def cut(self, start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much of each interval is in it, s."""
        length: NDArray[np.float64] = np.minimum(end, self.until) - np.maximum(start, self.since)
        return np.maximum(length, 0.0, out=length)


def _instant(value: float | str, first: float, last: float) -> float:
    """An option's value, as `units.moment` gives it, in seconds. first, last: of the submissions."""
    if isinstance(value, str):
        return float(value.removesuffix("s"))
    if value > 1:
        return value
    # Its ends are the first and the last submission to the last bit.
    return last if value == 1 else first + value * (last - first)


def measured(outcome: Outcome) -> pl.DataFrame:
    """The rows of jobs.parquet of which the figures of a result are."""
    jobs, window = outcome.jobs, of_summary(outcome.summary)
    if window is None:
        return jobs
    kept = window.holds(jobs["submit_time"].to_numpy())
    return jobs.filter(kept.tolist())


def of_summary(summary: object) -> Window | None:
    """The window of a summary; None of one without, or where a damaged one says something else."""
    told = [summary.get(name) for name in OPTIONS] if isinstance(summary, Mapping) else [None, None]
    numbers = [value if isinstance(value, int | float) else None for value in told]
    if numbers == [None, None]:
        return None
    since, until = numbers
    return Window(-math.inf if since is None else since, math.inf if until is None else until)


def described(summary: Mapping[str, Any], zero: datetime | None = None) -> str:
    """Of which jobs the figures of a summary are, in words: "" where they are of all.

    zero: what 0 of the clock is; its instants are dates then.
    """
    window = of_summary(summary)
    if window is None:
        return ""

    def told(time: float) -> str:
        return duration(time) if zero is None else instant(time, zero)

    parts = [f"from {told(window.since)} on"] if window.since > -math.inf else []
    parts += [f"before {told(window.until)}"] if window.until < math.inf else []
    return f"submitted {' and '.join(parts)}"
