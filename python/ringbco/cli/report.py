"""`ringbco report`: results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ringbco.io.terminal import say, say_json


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Result folders of `ringbco replay`, or one of `ringbco compare` or `ringbco sweep`.",
        ),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="REPORT.html", help="The page to write.", show_default=False),
    ],
    png: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also make this folder, with each chart as a picture.", show_default=False
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The page's title. Default: the trace and the cluster."),
    ] = None,
    figures: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Also write each chart beside the page, as NAME-CHART.KIND: svg, pdf, png.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Also write the figures beside the page, as NAME-table.KIND: tex, csv, md.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier page and its pictures.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Show results on one page: the answer first, where the time goes, who pays; then all figures and charts.

    The page is one file that needs no network: light or dark as the reader's system is, and fit for print.

    A folder of `ringbco sweep` has a page of its own: a chart of each setting that the sweep varied.

    Example: ringbco report fifo sjf-bco -o report.html --png pictures
    """
    from ringbco.cli.inputs import tell_undrawn
    from ringbco.reports import report as write

    written = write(folders, out, png=png, title=title, figures=figures, table=table, force=force)
    tell_undrawn()
    if as_json:
        told = {"report": str(out), "bytes": written.bytes, "charts": written.charts}
        told |= {"results": list(written.results)}
        told |= {"files": list(map(str, written.files))} if written.files else {}
        say_json(told | ({"pictures": str(png)} if png is not None else {}))
    elif not quiet:
        of = ", ".join(written.results)
        say(f"{out}: {written.charts} charts of {of}, {written.bytes / 1e6:.1f} MB")
        if png is not None:
            say(f"{png}: the same as {written.charts} pictures")
        for path in written.files:
            say(str(path))
