"""Tables and bars for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment
from rich.text import Text

from ringbco.errors import one_line


class Console(rich.console.Console):
    """One that takes all text for text: brackets and colons as they stand, control characters by name."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """As the library's."""
        return super().render_str(_seen(text), **how)

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As the library's. What was made a `Text` elsewhere comes by here."""
        if isinstance(renderable, Text) and (shown := _seen(renderable.plain)) != renderable.plain:
            renderable = renderable.blank_copy(shown)
        return super().render(renderable, options)


def _seen(text: str) -> str:
    return "\n".join(map(one_line, text.split("\n")))
