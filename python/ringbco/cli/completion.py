"""What a shell's completion is offered: the values of closed lists, and help of one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from typer.core import TyperCommand

_LONGEST: Final = 60


def offer(*values: str) -> Callable[[str], list[str]]:
    """The completion of an option that takes one of `values`."""

    def matching(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return matching


class Command(TyperCommand):
    """A command whose options are offered with as much of their help as fits on one line."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The options that begin so. Fish and zsh take every line of an item's help for an item."""
        items = super().shell_complete(ctx, incomplete)
        for item in items:
            words = " ".join((item.help or "").split())
            item.help = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3].rstrip()}..."
        return items
