"""`ringbco report`: results as one page."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringbco.report.figures import Chapter


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Result folders of `ringbco replay`, or one of `ringbco compare`; up to 16 on a page.",
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
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier page and its pictures.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Show results on one page: what was run, its figures, who waited and why, charts that overlay them all.

    The page is one file that needs no network: light or dark as the reader's system is, and fit for print.

    Example: ringbco report fifo sjf-bco -o report.html --png pictures
    """
    from ringbco.atomic import replacing
    from ringbco.outcome import check_target, whole_folder
    from ringbco.report.figures import chapters
    from ringbco.report.html import page
    from ringbco.report.outputs import check_page
    from ringbco.report.pictures import are_pictures
    from ringbco.report.reading import default_title, read_results

    check_page(out, force=force)
    if png is not None:
        check_target(png, force=force, ours=are_pictures)
    results = read_results(folders)
    made = chapters(results)
    text = page(results, made, title=title or default_title(results)).encode("utf-8")
    with ExitStack() as stack:
        file = stack.enter_context(replacing(out, force=force))
        file.write(text)
        if png is not None:
            _draw(made, stack.enter_context(whole_folder(png, force=force, ours=are_pictures)))
    charts = sum(len(chapter.figures) for chapter in made)
    if as_json:
        told = {"report": str(out), "bytes": len(text), "charts": charts, "results": list(results)}
        print(json.dumps(told | ({"pictures": str(png)} if png is not None else {}), indent=2))
    elif not quiet:
        print(f"{out}: {charts} charts of {', '.join(results)}, {len(text) / 1e6:.1f} MB")
        if png is not None:
            print(f"{png}: the same as {charts} pictures")


def _draw(made: Sequence[Chapter], folder: Path) -> None:
    from ringbco.report.pictures import write_pictures

    write_pictures([figure for chapter in made for figure in chapter.figures], folder)
