"""`ringbco.timeline`: a result as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

import os
import shlex
from datetime import date
from pathlib import Path
from typing import NamedTuple

from ringbco.errors import UsageError
from ringbco.io.atomic import replacing
from ringbco.io.forks import use_polars
from ringbco.io.marks import TRACE
from ringbco.reports.outputs import check_trace
from ringbco.reports.perfetto import write_trace
from ringbco.reports.viewport import Time, Viewport, viewport
from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_tables
from ringbco.run.loaded import read_result


class Trace(NamedTuple):
    """A trace that was written: where, how many events it has, and the seconds and servers that it shows."""

    path: Path
    events: int
    window: Viewport


def timeline(
    result: Outcome | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    start: Time = None,
    end: Time = None,
    servers: str | None = None,
    png: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Trace:
    """Writes a result as a trace with a slice a job and server, as `ringbco timeline` does.

    result: an outcome or the path of a result folder. out: the trace to write, .json.gz or .json.
    start, end: the time to show, on the job table's clock: seconds, a text such as "12d", or a date where
    the table has an epoch; None for the whole run.
    servers: those to show, such as "0-3,7" or "gpu[01-04]"; None for all. force: whether an earlier trace is
    replaced. png: no longer known; another version will not have it.

    Raises InputError for a result without allocations, or one that cannot be read or written, UsageError for
    a window without anything in it, one of more than a million slices, a name that ends otherwise, or `png`.
    """
    if png is not None:
        folder = "DIR" if isinstance(result, Outcome) else os.fspath(result)
        page = Path(png).parent / f"{Path(png).stem or 'play'}.html"
        cut = {"--from": start, "--to": end, "--servers": servers}
        asked = [word for name, value in cut.items() if value is not None for word in (name, _shown(value))]
        raise UsageError(
            "option png: a timeline is no longer drawn as a picture; the player shows it:"
            f" {shlex.join(['ringbco', 'play', folder, *asked, '-o', str(page)])}"
        )
    use_polars()
    target = Path(out)
    check_trace(target, force=force)
    # Jobs that were ended have no slice, but they held GPUs: the counters count them.
    if isinstance(result, Outcome):
        outcome = result
        check_tables(outcome)
    else:
        outcome = read_result(result)
    shown = viewport(outcome, start, end, servers)
    with replacing(target, TRACE, force=force) as file:
        events = write_trace(outcome, shown, file, compress=target.name.lower().endswith(".gz"))
    return Trace(target, events, shown)


def _shown(value: float | str | date) -> str:
    return str(value) if isinstance(value, str | date) else repr(value).removesuffix(".0")
