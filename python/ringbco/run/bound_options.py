"""The options of `bound`: those of `replay` but for the policy, and for what is written down of a run."""

from __future__ import annotations

from typing import Final

from ringbco.run.registry import REPLAY

_OTHERS: Final = ("policy", "sample", "allocations")
OPTIONS: Final = {name: option for name, option in REPLAY.items() if name not in _OTHERS}
"""Most of them can only make a schedule worse, and change nothing; some are refused with the reason."""
