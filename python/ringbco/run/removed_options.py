"""Options of earlier versions of `compare` and `sweep`, and what replaced them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ringbco.errors import UsageError

REMOVED: Final = {
    "resample": "a trace tells nothing of other months; runs with moved submissions and parts of the trace"
    " took its place (docs/certainty.md)",
    "block": "it went with --resample (docs/certainty.md)",
    "same_jobs": "all runs are of the same jobs now, unless --fresh asks for tables made anew"
    " (docs/certainty.md)",
}


def refuse_removed(given: Iterable[str]) -> None:
    """Raises UsageError for an option of earlier versions, by its parameter's name."""
    for name in given:
        if name in REMOVED:
            raise UsageError(f"option {name.replace('_', '-')}: is no more: {REMOVED[name]}")
