"""The part of a result that a timeline shows: some servers, from some second to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl

from ringbco.cluster.hostlist import server_ranges
from ringbco.errors import InputError, UsageError
from ringbco.reports.server_load import server_names
from ringbco.result.dates import zero_of
from ringbco.result.outcome import Outcome
from ringbco.trace.clock import seconds_at
from ringbco.units import is_date, seconds_of


@dataclass(frozen=True)
class Viewport:
    """Seconds on the job table's clock, `start` included and `end` not, and server indexes in order."""

    start: float
    end: float
    servers: tuple[int, ...]

    def clip(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows whose `start` to `end` overlaps the viewport, clipped at its ends."""
        inside = (pl.col("start") < self.end) & (pl.col("end") > self.start)
        return frame.filter(inside).with_columns(
            start=pl.col("start").clip(lower_bound=self.start), end=pl.col("end").clip(upper_bound=self.end)
        )


Time = float | str | date | None
"""An end of a part: seconds, a text such as "12d" or "2024-05-01", a date; None for that of the run."""


def viewport(outcome: Outcome, start: Time, end: Time, servers: str | None) -> Viewport:
    """The viewport that the options name, by default the whole run, with the servers on which something ran.

    Raises InputError where the result recorded no allocations, UsageError where the options name nothing.
    """
    if outcome.allocations is None:
        raise InputError(
            "the result has no allocations.parquet, as one made with --no-allocations",
            hint="replay without that option",
        )
    first = float(outcome.timeline["time"][0])
    # With --sample the last sample may be before the last job's finish.
    ends = outcome.allocations["end_time"].max()
    assert ends is None or isinstance(ends, float)
    last = max(float(outcome.timeline["time"][-1]), ends or first)
    begin, until = _time("from", start, first, outcome), _time("to", end, last, outcome)
    if begin >= until and not (start is None and end is None):
        raise UsageError(f"options from and to: expected from < to, got {begin:g} and {until:g}")
    if begin > last or until < first:
        raise UsageError(
            f"options from and to: {begin:g} to {until:g}: the run is from {first:.10g} to {last:.10g} s"
        )
    chosen = parse_servers(servers, server_names(outcome))
    held = [frame for frame in (outcome.allocations, outcome.replicas) if frame is not None]
    return Viewport(float(begin), float(until), _used(pl.concat(held, how="diagonal"), chosen, begin, until))


def _time(option: str, value: Time, otherwise: float, outcome: Outcome) -> float:
    """An end of the part, s: dates are those of the result's clock."""
    if value is None:
        return otherwise
    text = value.isoformat() if isinstance(value, date) else value
    if isinstance(text, str) and is_date(text):
        try:
            return seconds_at(zero_of(outcome), text)
        except ValueError as error:
            raise UsageError(f"option {option}: {text!r}: expected {error}") from None
    seconds = seconds_of(option, text)
    if not math.isfinite(seconds):
        raise UsageError(f"option {option}: {seconds}: expected seconds on the job table's clock")
    return seconds


def _used(allocations: pl.DataFrame, chosen: Sequence[int], begin: float, until: float) -> tuple[int, ...]:
    """The chosen servers on which something ran: of a large cluster the others would only be in the way."""
    inside = (pl.col("start_time") < until) & (pl.col("end_time") > begin)
    used = allocations.filter(inside)["server"].unique().sort()
    among = chosen if isinstance(chosen, range) else set(chosen)
    return tuple(server for server in used if server in among)


def parse_servers(text: str | None, names: Sequence[str | None]) -> Sequence[int]:
    """Indexes of servers chosen as "0-3,7" or "gpu[01-04]", ascending; all where `text` is None.

    names: of the servers.
    """
    count = len(names)
    if text is None:
        return range(count)
    try:
        ranges = server_ranges(text, {name: at for at, name in enumerate(names) if name is not None})
    except ValueError as error:
        raise UsageError(f"option servers: {error}") from None
    for part in ranges:
        if part[-1] >= count:
            named = f"{part[0]}-{part[-1]}" if part[1:] else part[0]
            raise UsageError(f"option servers: {named}: the cluster's servers are 0 to {count - 1}")
    return sorted(set().union(*ranges))
