"""`ringbco timeline`: a result as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ringbco.cli.one_file import Servers, Until
from ringbco.io.terminal import say, say_json


def timeline(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A result folder of `ringbco replay`.")],
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="TRACE.json.gz",
            help="The trace to write: .json.gz, or .json for a plain one.",
            show_default=False,
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="From this time on, on the job table's clock: seconds, a text such as 12d, or a date such"
            " as 2024-05-01T06:30 where the table has an epoch. Default: the run's first instant.",
        ),
    ] = None,
    end: Until = None,
    servers: Servers = None,
    png: Annotated[
        Path | None,
        typer.Option(hidden=True),  # refused for one version, and the command that shows the same is told
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier trace.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Show the result in DIR as a trace: a slice a job and server, who waits, queue and contention over time.

    Open it in https://ui.perfetto.dev (which reads it in the browser and sends it nowhere) or in
    chrome://tracing. A trace holds at most a million slices: cut a large run with --from, --to and --servers.

    Example: ringbco timeline results --from 0 --to 1d --servers 0-3 -o trace.json.gz
    """
    from ringbco.reports.timeline import timeline as write

    written = write(folder, out, start=start, end=end, servers=servers, png=png, force=force)
    events, shown = written.events, written.window
    if as_json:
        told = {"trace": str(out), "events": events, "from": shown.start, "to": shown.end}
        say_json(told | {"servers": len(shown.servers)})
    elif not quiet:
        span = f"{shown.start:,.0f} to {shown.end:,.0f} s"
        count = len(shown.servers)
        say(f"{out}: {events:,} events, {span} on {count:,} server{'s'[: count != 1]}")
