"""What a shell's completion is offered: the values of closed lists."""

from __future__ import annotations

from collections.abc import Callable


def offer(*values: str) -> Callable[[str], list[str]]:
    """The completion of an option that takes one of `values`."""

    def matching(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return matching
