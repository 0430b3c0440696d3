"""What `ringbco inspect` and `generate` print of a table of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.io.terminal import note, say, say_json
from ringbco.units import percent, rounded_up

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ringbco.cli.fitted import Fitted

_SPREADS: Final = ("mean", "median", "p90", "p95", "p99", "max")
_LENGTHS: Final = {
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "cached_tokens": "cached tokens",
}


def inspect_requests(path: Path, services: str | None, *, units: str, as_json: bool, quiet: bool) -> None:
    """Prints the figures of a table of requests."""
    from ringbco.study.requests import inspect_requests as figures_of
    from ringbco.trace.requests import Requests
    from ringbco.trace.serving import ServingFile
    from ringbco.units import shown_in

    serving = None if services is None else ServingFile.read(services)
    requests = Requests.read(path, serving=serving)
    for line in () if quiet else requests.notes:
        note(line)
    figures = figures_of(requests, serving)
    if as_json:
        say_json(figures)
    elif not quiet:
        from ringbco.io.console import Console

        with shown_in(units):
            say(f"{figures['requests']:,} requests in {path}")
            Console().print(tables(figures))


def tables(figures: Mapping[str, Any], *, brief: bool = False) -> RenderableType:
    """The figures of `inspect_requests` for a terminal; `brief` leaves out the rate over time."""
    from rich.console import Group

    parts: list[RenderableType] = [_overview(figures), _spreads(figures)]
    if len(figures["services"]) > 1:
        parts.append(_services(figures["services"]))
    if not brief and len(figures["over_time"]) > 1:
        parts.append(_over_time(figures["over_time"]))
    if figures["capacity"] is not None:
        parts.append(_capacity(figures["capacity"]))
    return Group(*parts)


def _overview(figures: Mapping[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from ringbco.units import duration

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("from the first to the last", duration(figures["span"]))
    if figures["failed"]:
        of = figures["failed"] / (figures["failed"] + figures["requests"])
        table.add_row("failed, left out", f"{figures['failed']:,}, {percent(of, 1)}")
    mean, most = _rate(figures["rate"]), _rate(figures["busiest_minute"])
    table.add_row("requests/s", f"{mean} on average, {most} in the busiest minute")
    counted = [
        f"{value:,.1f} per {length} s" for length, value in figures["dispersion"].items() if value is not None
    ]
    if counted:
        table.add_row("variance / mean", Text(f"{', '.join(counted)}; Poisson 1"))
    return table


def _spreads(figures: Mapping[str, Any]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    table = Fitted("", *_SPREADS)
    gaps = figures["interarrival"]
    if gaps is not None:
        table.add_row("interarrival time", *(duration(gaps[name]) for name in _SPREADS))
    for name, spread in figures["lengths"].items():
        table.add_row(_LENGTHS[name], *(f"{spread[each]:,.0f}" for each in _SPREADS))
    return table


def _services(services: Sequence[Mapping[str, Any]]) -> Fitted:
    from ringbco.cli.fitted import Fitted

    titles = ("requests", "share", "requests/s", "busiest minute", "mean input tokens", "mean output tokens")
    table = Fitted("service", *titles)
    every = sum(row["requests"] for row in services)
    for row in services:
        tokens = (row["mean_input_tokens"], row["mean_output_tokens"])
        table.add_row(
            row["service"],
            f"{row['requests']:,}",
            percent(row["requests"] / every, 1),
            _rate(row["rate"]),
            _rate(row["busiest_minute"]),
            *("" if value is None else f"{value:,.0f}" for value in tokens),
        )
    return table


def _over_time(rows: Sequence[Mapping[str, Any]]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    table = Fitted("from", "requests/s", "input tokens/s", "output tokens/s")
    for row in rows:
        tokens = (f"{row[name]:,.0f}" for name in ("input_tokens", "output_tokens"))
        table.add_row(duration(row["from"]), _rate(row["requests"]), *tokens)
    return table


def _capacity(rows: Sequence[Mapping[str, Any]]) -> Fitted:
    from ringbco.cli.fitted import Fitted

    titles = ("requests/s per replica, at most", "limited by", "replicas, at least", "for the busiest minute")
    table = Fitted("service", *titles)
    for row in rows:
        if row["at_most"] is None:
            table.add_row(row["service"], "-", "no requests", "", "")
            continue
        counts = (row["replicas"], row["replicas_in_busiest_minute"])
        most = f"{rounded_up(row['at_most'], 2):,.2f}"
        table.add_row(row["service"], most, row["limit"], *("-" if n is None else f"{n:,}" for n in counts))
    return table


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
