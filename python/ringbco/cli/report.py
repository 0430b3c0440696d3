"""`ringbco report`: results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json

_ROWS: Final = """
folders DIR...: Result folders of `ringbco replay`, or one of `ringbco compare` or `ringbco sweep`.
out --out -o REPORT.html: The page to write.
png DIR: Also make this folder, with each chart as a picture.
title
figures KIND,...: Also write each chart beside the page, as NAME-CHART.KIND: svg, pdf, png.
by COLUMN: Charts of owners are by this column of the job table, such as user, vc or account. Repeatable.
  Default: vc, else user.
table KIND,...: Also write the figures beside the page, as NAME-table.KIND: tex, csv, md.
force: Replace an earlier page and its pictures.
as_json --json: Print what was written as JSON and nothing else.
quiet
"""


@takes(_ROWS)
def report(
    folders: list[Path],
    *,
    out: Path,
    png: Path | None = None,
    title: str | None = None,
    figures: str | None = None,
    table: str | None = None,
    by: list[str] | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Show results on one page: the answer first, where the time goes, who pays; then all figures and charts.

    The page is one file that needs no network: light or dark as the reader's system is, and fit for print.

    A folder of `ringbco sweep` has a page of its own: a chart of each setting that the sweep varied.

    Example: ringbco report fifo sjf-bco -o report.html --png pictures
    """
    from ringbco.cli.inputs import tell_undrawn
    from ringbco.reports import report as write

    written = write(
        folders, out, png=png, title=title, figures=figures, table=table, by=by or (), force=force
    )
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
