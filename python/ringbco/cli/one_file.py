"""What commands share that make one file: the check before the work, what is printed after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ringbco.cli.options import shared
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ringbco.io.marks import Mark

Until = Annotated[str | None, shared("end")]
Servers = Annotated[str | None, shared("servers")]


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
