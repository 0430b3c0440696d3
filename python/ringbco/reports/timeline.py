"""`ringbco.timeline`: a result as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from ringbco.io.atomic import replacing
from ringbco.io.forks import use_polars
from ringbco.io.marks import TRACE, signed
from ringbco.reports.outputs import PICTURE, check_picture, check_trace
from ringbco.reports.perfetto import write_trace
from ringbco.reports.window import Window, window
from ringbco.result.outcome import Outcome
from ringbco.result.sound import check_tables
from ringbco.run.at_hand import read_result


class Trace(NamedTuple):
    """A trace that was written: where, how many events it has, and the seconds and servers that it shows."""

    path: Path
    events: int
    window: Window


def timeline(
    result: Outcome | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    start: float | None = None,
    end: float | None = None,
    servers: str | None = None,
    png: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Trace:
    """Writes a result as a trace with a slice a job and server, as `ringbco timeline` does.

    result: an outcome or the path of a result folder. out: the trace to write, .json.gz or .json.
    start, end: the seconds to show, on the job table's clock; None for the whole run.
    servers: those to show, by index from 0, such as "0-3,7"; None for all. png: a picture of the lanes too.
    force: whether an earlier trace and picture are replaced.

    Raises InputError for a result without allocations, or one that cannot be read or written, UsageError for
    a window without anything in it, one of more than a million slices, or a name that ends otherwise.
    """
    use_polars()
    target = Path(out)
    picture = None if png is None else Path(png)
    check_trace(target, force=force)
    if picture is not None:
        check_picture(picture, force=force)
    # Jobs that were ended have no slice, but they held GPUs: the counters count them.
    if isinstance(result, Outcome):
        outcome = result
        check_tables(outcome)
    else:
        outcome = read_result(result)
    shown = window(outcome, start, end, servers)
    with ExitStack() as stack:
        if picture is not None:
            from ringbco.reports.charts import png as drawing
            from ringbco.reports.lanes_chart import lanes_chart

            drawn = signed(drawing(lanes_chart(outcome, shown)))
            stack.enter_context(replacing(picture, PICTURE, force=force)).write(drawn)
        file = stack.enter_context(replacing(target, TRACE, force=force))
        events = write_trace(outcome, shown, file, compress=target.name.lower().endswith(".gz"))
    return Trace(target, events, shown)
