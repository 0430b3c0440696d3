"""What verbs share that make one file: options, the check before the work, what is printed after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ringbco.io.marks import Mark

Force = Annotated[bool, typer.Option("--force", help="Replace the file if ringbco wrote it.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print the figures as JSON, times in seconds, and nothing else.")
]
Until = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Up to this time, likewise. Default: the run's last."),
]
Servers = Annotated[
    str | None,
    typer.Option(metavar="A-B,C", help="Only these servers, by index from 0. Default: all."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


_TABLE: Final = "The file to write: .parquet or .csv."
JOB_TABLE: Final = "The job table to write: .parquet (how it was made is in its footer) or .csv."


def out(metavar: str, told: str = _TABLE) -> Any:
    """The option of the file's name."""
    return typer.Option("--out", "-o", metavar=metavar, help=told, show_default=False)


def check_table_name(path: Path, mark: Mark, *, force: bool) -> None:
    """Refuses what could not be written at the end. Raises UsageError or InputError."""
    from ringbco.io.atomic import check_output
    from ringbco.trace.jobs import check_output_name

    check_output_name(path)
    check_output(path, mark, force=force)


def tell_json(figures: Mapping[str, Any], path: Path) -> None:
    """The figures, and where the file is."""
    say_json({**figures, "file": str(path)})


def tell(title: str, table: RenderableType) -> None:
    """A line, which is not broken, and a table."""
    from ringbco.io.console import Console

    console = Console()
    say(title)
    console.print(table)
