"""The options of `bound`: those of `replay` that not one policy alone has."""

from __future__ import annotations

from typing import Final

from ringbco.run.options_generated import REPLAY

_OTHERS: Final = ("policy", "sample", "allocations", "search", "enforce_limits")
OPTIONS: Final = {
    name: option
    for name, option in REPLAY.items()
    if name not in _OTHERS and not option.panel.startswith("Other schedulers")
}
"""Most of them can only make a schedule worse, and change nothing."""
