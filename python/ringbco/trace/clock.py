"""The clock of a job table: its zero, dates on it, and when a run sees what happens (docs/model.md)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

NO_EPOCH: Final = "the job table does not say on which date its clock begins"
NO_EPOCH_HINT: Final = (
    "count seconds from the zero of submit_time, or convert the trace to a table with an epoch"
)
"""What a date meets where the table has no epoch, and how to mend it."""
EPOCH: Final = "ringbco.epoch"
"""The footer key of a job table that says what submit_time 0 is."""
_PLACEHOLDER: Final = 1970
_UNIX: Final = (946_684_800.0, 4_102_444_800.0)
"""Submissions of the years 2000 to 2099 in Unix seconds, which count from 1970; no other clock is so late."""


def parse_epoch(text: object) -> datetime | None:
    """The instant of an ISO 8601 text; None for whatever is none.

    Nor is 1970: converters write 1970-01-01 for logs that do not say when they began.
    """
    try:
        epoch = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if epoch is None or epoch.year == _PLACEHOLDER else epoch


def clock_zero(text: object, submit: pl.Series) -> datetime | None:
    """What 0 of the clock of some submissions is; None where unknown.

    That is what `text` says or, where it says nothing and all submissions are Unix seconds, 1970 in UTC.
    """
    if (said := parse_epoch(text)) is not None or submit.is_empty():
        return said
    times = submit.to_numpy()
    unix = _UNIX[0] <= times.min() and times.max() < _UNIX[1]
    return datetime(_PLACEHOLDER, 1, 1, tzinfo=UTC) if unix else None


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


def seconds_since(epoch: datetime, dates: pl.Series) -> pl.Series:
    """Seconds from the epoch to dates, or dates and times, as texts or as such; without an offset, on its
    clock.

    Null for anything else, and for an offset where the epoch has none.
    """
    import polars as pl

    from ringbco.io.times import MICRO, divided, microseconds, moments

    if dates.dtype == pl.String:
        micros, zoned = moments(dates.str.strip_chars())
    else:
        in_zone = isinstance(dates.dtype, pl.Datetime) and dates.dtype.time_zone is not None
        micros = dates.cast(pl.Datetime("us")).dt.epoch("us") if not in_zone else dates.dt.epoch("us")
        zoned = pl.repeat(in_zone, dates.len(), dtype=pl.Boolean, eager=True)
    on_its_clock = microseconds(epoch.replace(tzinfo=None))
    since = micros - on_its_clock
    if epoch.tzinfo is None:
        since = since.set(zoned, None)
    else:
        since = (micros - microseconds(epoch)).zip_with(zoned, since)
    return divided(since, MICRO)


def seconds_at(epoch: datetime | None, text: str) -> float:
    """Seconds of a clock at a date, as `seconds_since` reads it.

    Raises ValueError, with what was expected.
    """
    import polars as pl

    if epoch is None:
        raise ValueError(f"seconds: {NO_EPOCH}; {NO_EPOCH_HINT}")
    seconds: float | None = seconds_since(epoch, pl.Series([text]))[0]
    if seconds is None:
        raise ValueError(date_on(epoch))
    return seconds


def date_on(epoch: datetime) -> str:
    """What is expected where a date is read on an epoch."""
    own = "with" if epoch.tzinfo is not None else "without"
    return f"a date and time such as 2024-05-01T06:30:00 ({own} an offset, as the epoch {epoch})"
