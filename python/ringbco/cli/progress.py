"""The progress bar of long work: on stderr, and only where a person watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@contextmanager
def progress_bar(
    what: str, *, quiet: bool = False, unit: str = "jobs"
) -> Iterator[Callable[[int, int], None] | None]:
    """A callback taking (done, in all) that drives a bar; None in a pipe, or when asked to be quiet."""
    with _bar(what, quiet=quiet, unit=unit) as progress:
        yield progress and progress[0]


@contextmanager
def bar_of_runs(
    what: str, *, quiet: bool = False
) -> Iterator[tuple[Callable[[int, int], None], Callable[[int, int, str], None]] | tuple[None, None]]:
    """Callbacks taking (done, in all), and (number, runs in all, name) of the last run to begin."""
    with _bar(what, quiet=quiet, unit=None) as progress:
        yield progress or (None, None)


@contextmanager
def _bar(
    what: str, *, quiet: bool, unit: str | None
) -> Iterator[tuple[Callable[[int, int], None], Callable[[int, int, str], None]] | None]:
    """A bar that counts so many of a unit or, without one, percent."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from ringbco.io.console import Console

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *([TaskProgressColumn()] if unit is None else [MofNCompleteColumn(), TextColumn(unit)]),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        def name(number: int, total: int, run: str) -> None:
            progress.update(task, description=f"run {number} of {total}, {run}")

        yield show, name
