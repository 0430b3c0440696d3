"""Pictures of results, and the page that `ringbco report` and `ringbco.report` make of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ringbco.reports.series import Figure
    from ringbco.reports.text_tables import Sheet
    from ringbco.result.comparison import Comparison
    from ringbco.result.outcome import Outcome


class Page(NamedTuple):
    """A page that was written: where, of how many bytes and charts, of which results; the files beside it."""

    path: Path
    bytes: int
    charts: int
    results: tuple[str, ...]
    files: tuple[Path, ...] = ()


def report(
    results: Outcome
    | Comparison
    | Mapping[str, Outcome]
    | str
    | os.PathLike[str]
    | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    png: str | os.PathLike[str] | None = None,
    title: str | None = None,
    figures: str | None = None,
    table: str | None = None,
    by: Sequence[str] = (),
    force: bool = False,
) -> Page:
    """Shows results on one page that needs no network, as `ringbco report` does.

    results: an outcome, a comparison, outcomes by label, or the paths of result folders and comparisons; or
        the path of one folder that a sweep made, which has a page of its own.
    out: the page to write, a name that ends in .html. png: a folder to make, with each chart as a picture.
    title: None for the trace and the cluster. figures: kinds of pictures to put beside the page, such as
        "svg,pdf"; png too. table: kinds of tables, "tex", "csv", "md". by: columns of the job table, of which
        the charts of owners are. force: whether an earlier page and its pictures are replaced.

    Raises InputError for what is no result or cannot be drawn or written, UsageError for a name that ends
    otherwise.
    """
    from contextlib import ExitStack

    from ringbco.io.atomic import replacing
    from ringbco.io.forks import use_polars
    from ringbco.io.manifest import PICTURES
    from ringbco.io.marks import PAGE
    from ringbco.reports.outputs import check_page
    from ringbco.reports.paper import paper_files
    from ringbco.result.folder import check_target, whole_folder

    use_polars()
    target = Path(out)
    check_page(target, force=force)
    if png is not None:
        check_target(png, force=force, kind=PICTURES)
    others = paper_files(target, figures, table, force=force)
    made = _written(results, title, by)
    text = made.text.encode("utf-8")
    with ExitStack() as stack:
        file = stack.enter_context(replacing(target, PAGE, force=force))
        file.write(text)
        if png is not None:
            from ringbco.reports.pictures import write_pictures

            folder = stack.enter_context(whole_folder(png, force=force, kind=PICTURES))
            write_pictures(made.figures, folder, made.sheet.caption)
        files = others.write(made.sheet, made.figures)
    return Page(target, len(text), len(made.figures), made.labels, tuple(files))


class _Made(NamedTuple):
    """A page's text, its charts, what it shows (the results' labels, or the sweep), its table."""

    text: str
    figures: list[Figure]
    labels: tuple[str, ...]
    sheet: Sheet


def _written(results: object, title: str | None, by: Sequence[str]) -> _Made:
    """The page of results, or of a sweep."""
    from ringbco.errors import UsageError
    from ringbco.reports.figures import chapters, charts_of
    from ringbco.reports.html import page
    from ringbco.reports.paper import sheet_of
    from ringbco.reports.player import embedded
    from ringbco.reports.reading import default_title
    from ringbco.reports.sweep_page import sweep_page, sweep_sheet, sweep_title
    from ringbco.reports.sweep_points import is_sweep_folder, read_sweep

    paths = [results] if isinstance(results, str | os.PathLike) else results
    named = []
    if isinstance(paths, Sequence):
        named = [path for path in paths if isinstance(path, str | os.PathLike)]
    sweeps = [path for path in named if is_sweep_folder(Path(path))]
    if sweeps:
        if len(named) > 1:
            raise UsageError("a sweep's folder: expected it alone; results have a page of their own")
        if by:
            raise UsageError(f"option by: {by[0]}: expected none with a sweep's folder, which keeps no jobs")
        runs = read_sweep(Path(sweeps[0]))
        text, figures = sweep_page(runs, title=title or sweep_title(runs))
        return _Made(text, list(figures), (f"a sweep of {runs.frame.height:,} runs",), sweep_sheet(runs))
    comparison = _comparison(results)
    made = chapters(comparison, by)
    told = embedded(comparison.best_first)
    text = page(comparison, made, title=title or default_title(comparison.outcomes), told=told)
    return _Made(text, charts_of(made), tuple(comparison.outcomes), sheet_of(comparison))


def _comparison(results: object) -> Comparison:
    """The outcomes by label, once it is sure that they can be drawn."""
    from ringbco.errors import UsageError
    from ringbco.reports.reading import drawable, read_results
    from ringbco.result.comparison import Comparison, as_comparison, side_by_side
    from ringbco.result.outcome import Outcome
    from ringbco.result.validation import check_tables

    if isinstance(results, str | os.PathLike):
        return read_results([results])
    if isinstance(results, Outcome):
        results = side_by_side([results])
    if (
        isinstance(results, Sequence)
        and results
        and all(isinstance(path, str | os.PathLike) for path in results)
    ):
        return read_results(results)
    if isinstance(results, Comparison) or (
        isinstance(results, Mapping)
        and results
        and all(isinstance(outcome, Outcome) for outcome in results.values())
    ):
        comparison = drawable(as_comparison(results))
        for outcome in comparison.outcomes.values():
            check_tables(outcome)
        return comparison
    raise UsageError("option results: expected outcomes by label, a comparison, or paths of result folders")
