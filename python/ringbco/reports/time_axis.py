"""The axis of time of a report's charts: dates where the results know them, else time since the start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import altair as alt
import polars as pl

from ringbco.reports.series import DAY, ticked
from ringbco.result.dates import zero_of
from ringbco.result.outcome import Outcome

_UNITS: Final = ((1, "days"), (24, "hours"), (1_440, "minutes"))
_MOST: Final = 6
"""Intervals between dates."""
_STEPS: Final = (
    *(minutes / 1_440 for minutes in (1, 5, 10, 30, 60, 180, 360, 720)),
    *(1.0, 2.0, 7.0, 14.0, 28.0, 56.0, 112.0, 364.0),
)


def over(
    data: pl.DataFrame, results: Mapping[str, object], span: tuple[float, float] | None = None
) -> tuple[pl.DataFrame, alt.X]:
    """The columns `day` and `end_day` in the unit that reads best, and their axis. span: its ends, days."""
    names = [name for name in ("day", "end_day") if name in data.columns]
    ends = [float(end or 0.0) for name in names for end in (data[name].min(), data[name].max())]  # type: ignore[arg-type]
    first, last = span or (min(0.0, *ends), max(ends))
    outcomes = [found for found in results.values() if isinstance(found, Outcome)]
    dated = _dates(outcomes, first, last)
    each, unit = next((n, unit) for n, unit in _UNITS if last * n > 2 or n == _UNITS[-1][0])
    if dated is not None:
        return data, alt.X("day:Q", title="date", axis=dated).scale(nice=False, domain=[first, last])
    x = alt.X("day:Q", title=f"{unit} since the first submission{_origin(outcomes)}")
    x = x.axis(grid=False, tickCount=6)
    x = x.scale(nice=False, domain=[first * each, max(last * each, 1e-9)])
    return data.with_columns(pl.col(name) * each for name in names), x


def _origin(outcomes: list[Outcome]) -> str:
    """Why there are no dates, where results do not disagree on them alone."""
    if outcomes and all(found.run.get("trace", {}).get("synthetic") for found in outcomes):
        return " (synthetic jobs)"
    return " (origin unknown)" if not any(map(zero_of, outcomes)) else ""


def _dates(outcomes: list[Outcome], first: float, last: float) -> alt.Axis | None:
    """The axis of days since the first submission as dates; None where results have none, or several."""
    starts = {(zero_of(found), float(found.timeline["time"][0])) for found in outcomes}
    zero, start = starts.pop() if len(starts) == 1 else (None, 0.0)
    if zero is None:
        return None
    step = next((step for step in _STEPS if (last - first) / step <= _MOST), _STEPS[-1])
    try:
        began = zero.replace(tzinfo=None) + timedelta(seconds=start)
        midnight = began.replace(hour=0, minute=0, second=0, microsecond=0)
        before = (began - midnight).total_seconds() / DAY
        count = int((first + before) / step)
        form = "%Y-%m-%d" if step >= 1 else "%m-%d %H:%M"
        texts: dict[float, str] = {}
        while (at := round(count * step - before, 6)) <= last:
            if at >= first:
                texts[at] = f"{midnight + timedelta(days=count * step):{form}}"
            count += 1
    except OverflowError:
        return None
    return ticked(list(texts), texts, grid=False)
