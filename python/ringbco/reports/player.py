"""`ringbco.play`: results as a page in which they happen again, one or two beside each other on one clock."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

import ringbco
from ringbco.errors import UsageError
from ringbco.io.atomic import replacing
from ringbco.io.forks import use_polars
from ringbco.io.marks import PAGE
from ringbco.io.system import place
from ringbco.reports.outputs import check_page
from ringbco.reports.player_data import Scene, scene_data
from ringbco.reports.reading import default_title, labels
from ringbco.reports.server_load import server_names
from ringbco.reports.templates import render
from ringbco.reports.tones import COLOURS, DASHES, TONES, looks, ranked, tone_name
from ringbco.reports.viewport import Time, Viewport, parse_servers, viewport
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.dates import zero_of
from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_tables
from ringbco.run.loaded import read_result
from ringbco.units import duration, instant

MOST_ROWS: Final = 500_000
"""Rows of allocations on a page: some 10 MB of it."""
_MOST_EMBEDDED: Final = 60_000
"""Rows in a report, of which the player is one part: some 2 MB."""
_BESIDE: Final = 2


class Played(NamedTuple):
    """A page that was written: where, of how many bytes, of which results, and what part of them it shows."""

    path: Path
    bytes: int
    results: tuple[str, ...]
    start: float
    end: float
    servers: int
    note: str


def play(
    results: Outcome | Mapping[str, Outcome] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    start: Time = None,
    end: Time = None,
    servers: str | None = None,
    title: str | None = None,
    force: bool = False,
) -> Played:
    """Writes a page that plays results, as `ringbco play` does: who held which GPUs, and who waited, when.

    results: one or two outcomes (by label where there are two), or the paths of their folders. Two stand
        beside each other on one clock. out: the page, a name that ends in .html.
    start, end: the time to show, on the job table's clock: seconds, a text such as "12d", or a date where the
        table has an epoch; None for the whole run or, where that is more
        than a page holds, for those around its longest queue. servers: those to show, such as "0-3,7" or
        "gpu[01-04]"; None for all. title: None for the trace and the cluster. force: whether an earlier page
        is replaced.

    Raises InputError for what is no result, has no allocations, or cannot be read or written; UsageError for
    more than two results, and a window without anything in it.
    """
    use_polars()
    target = Path(out)
    check_page(target, force=force)
    found = _read(results)
    if len(found) > _BESIDE:
        raise UsageError(f"play: {len(found)} results: expected one or two; `ringbco report` takes more")
    told, note = player(found, start, end, servers)
    text = render(
        "play",
        tones=[(tone_name(light), light, TONES[light]) for light in COLOURS],
        title=default_title(found) if title is None else title,
        about=_about(found, told, note),
        told=told,
        version=ringbco.__version__,
    ).encode()
    with replacing(target, PAGE, force=force) as file:
        file.write(text)
    shown = max(len(result["servers"]["name"]) for result in told["results"])
    return Played(target, len(text), tuple(found), told["first"], told["last"], shown, note)


def player(
    results: Comparison | Mapping[str, Outcome],
    start: Time = None,
    end: Time = None,
    servers: str | None = None,
) -> tuple[dict[str, Any], str]:
    """What player.html.jinja needs of these results, and a sentence where a window had to be chosen, else "".

    Raises as `play` does.
    """
    found = as_comparison(results).outcomes
    windows = {label: _window(outcome, start, end, servers) for label, outcome in found.items()}
    first, last = min(one.start for one in windows.values()), max(one.end for one in windows.values())
    note = ""
    if start is None and end is None:
        chosen = _around_the_queue(found, windows)
        if chosen is not None:
            first, last = chosen
            note = (
                f"A page holds {MOST_ROWS:,} rows of allocations: it shows the time around the longest queue."
                " --from, --to and --servers choose another part."
            )
            windows = {label: _window(outcome, first, last, servers) for label, outcome in found.items()}
    rows = sum(_rows(found[label], one) for label, one in windows.items())
    if rows > MOST_ROWS:
        raise UsageError(
            f"play: {rows:,} rows of allocations: expected at most {MOST_ROWS:,}; choose a part by --from,"
            " --to or --servers"
        )
    last = max(last, first + 1e-3)
    places = looks(ranked(results))
    scenes = [Scene(label, found[label], one, first, last) for label, one in windows.items()]
    submissions = pl.concat(outcome.jobs["submit_time"] for outcome in found.values())
    told = {
        "first": first,
        "last": last,
        "zero": _zero(found, first, last),
        "submitted": float(submissions.to_numpy().max()) if submissions.len() else None,
        "sides": min(len(scenes), _BESIDE),
        "results": [_look(places[scene.label]) | scene_data(scene) for scene in scenes],
    }
    return told, note


def _zero(found: Mapping[str, Outcome], first: float, last: float) -> float | None:
    """What 0 of the results' clock is, in milliseconds of Unix on its own wall clock.

    None where unknown, where the results do not agree, and where the time shown is beyond the calendar.
    """
    zeros = {zero_of(outcome) for outcome in found.values()}
    zero = zeros.pop() if len(zeros) == 1 else None
    if zero is None or any(instant(time, zero).startswith("day") for time in (first, last)):
        return None
    return zero.replace(tzinfo=UTC).timestamp() * 1000


def _look(place: int) -> dict[str, Any]:
    """The line of a result, as in the charts of a report: the style sheet's colour, and dashes."""
    dashes = DASHES[place]
    return {"tone": tone_name(COLOURS[place]), "dashes": [] if dashes == [1, 0] else dashes}


def embedded(results: Comparison | Mapping[str, Outcome]) -> dict[str, Any] | None:
    """What a report's player tells of results; None where that is too much, or one kept no allocations."""
    found = as_comparison(results).outcomes
    if any(outcome.allocations is None for outcome in found.values()):
        return None
    rows = sum(outcome.allocations.height for outcome in found.values() if outcome.allocations is not None)
    return player(results)[0] if 0 < rows <= _MOST_EMBEDDED else None


def _window(outcome: Outcome, start: Time, end: Time, servers: str | None) -> Viewport:
    """As `window` gives it, with all servers that are chosen: an idle one is part of the picture."""
    shown = viewport(outcome, start, end, servers)
    return Viewport(shown.start, shown.end, tuple(parse_servers(servers, server_names(outcome))))


def _rows(outcome: Outcome, shown: Viewport) -> int:
    """How many rows of allocations are in the window."""
    assert outcome.allocations is not None
    held = outcome.allocations
    inside = (held["start_time"] < shown.end) & (held["end_time"] > shown.start)
    return int((inside & held["server"].is_in(list(shown.servers))).sum())


def _around_the_queue(
    found: Mapping[str, Outcome], windows: Mapping[str, Viewport]
) -> tuple[float, float] | None:
    """The time around the longest queue that a page holds; None where it holds all."""
    if sum(_rows(found[label], one) for label, one in windows.items()) <= MOST_ROWS:
        return None
    queues = pl.concat(
        one.timeline.select("time", pl.col("queued_gpus").cast(float)) for one in found.values()
    )
    at = float(queues.sort("queued_gpus", descending=True, maintain_order=True)["time"][0])
    first, last = min(one.start for one in windows.values()), max(one.end for one in windows.values())
    widths = (last - first) * 0.5 ** np.arange(1, 40)
    for width in widths.tolist():
        begin = min(max(first, at - width / 2), last - width)
        parts = {label: Viewport(begin, begin + width, one.servers) for label, one in windows.items()}
        if sum(_rows(found[label], one) for label, one in parts.items()) <= MOST_ROWS:
            return begin, begin + width
    return None


def _read(results: Any) -> dict[str, Outcome]:
    """The outcomes by label."""
    if isinstance(results, Outcome):
        results = {str(results.summary.get("policy", "result")): results}
    if isinstance(results, Mapping):
        for outcome in results.values():
            check_tables(outcome)
        return dict(results)
    folders = [results] if isinstance(results, str | os.PathLike) else list(results)
    if not folders:
        raise UsageError("play: expected one or two results")
    names = [Path(os.path.realpath(folder)) for folder in folders]
    if len(set(map(place, names))) < len(names):
        raise UsageError(f"{folders[-1]}: given twice")
    return dict(zip(labels(names), map(read_result, folders), strict=True))


def _about(found: Mapping[str, Outcome], told: Mapping[str, Any], note: str) -> str:
    """What is shown, in a line."""
    span = duration(told["last"] - told["first"])
    counts = {outcome.jobs.height for outcome in found.values()}
    jobs = f"{max(counts):,} jobs"
    gpus = max(sum(result["servers"]["gpus"]) for result in told["results"])
    zero = next(map(zero_of, found.values()))
    if told["zero"] is not None and zero is not None:
        span += f" from {instant(told['first'], zero)} to {instant(told['last'], zero)}"
        span += f", {zero.tzname()}" if zero.tzinfo is not None else ""
    return " ".join(filter(None, (f"{jobs}, {gpus:,} GPUs, {span}.", note)))
