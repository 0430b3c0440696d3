"""Comparisons of outcomes that were never run, and what is printed of one."""

from __future__ import annotations

import io

import polars as pl
from rich.console import Console

from ringbco.cli.comparison import show
from ringbco.result.comparison import Comparison, Entry
from ringbco.result.figures import COMPARED, Figure
from ringbco.result.outcome import Outcome
from ringbco.result.window import OPTIONS as WINDOW


def made_up(**figures: float) -> Outcome:
    """An outcome of which only the summary matters."""
    empty = pl.DataFrame()
    zeros = {measure.key: 0.0 for measure in COMPARED if measure.key not in WINDOW}
    return Outcome(empty, None, empty, summary={"policy": "p", "jobs": 1, **zeros, **figures})


def measure(key: str) -> Figure:
    """The measure of that key."""
    return next(row for row in COMPARED if row.key == key)


def entries(made: Comparison, key: str) -> list[Entry]:
    """What a measure is under each outcome."""
    return next(result for row, result in made.rows.items() if row.key == key)


def printed(made: Comparison, width: int, sort: str | None = None, *, every: bool = False) -> str:
    """What `compare` prints of it on a terminal of so many columns."""
    console = Console(width=width, file=io.StringIO(), record=True)
    show("title", made, console, sort, every=every)
    return console.export_text()
