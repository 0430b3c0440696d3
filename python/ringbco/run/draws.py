"""The name of `ringbco.run.seeds` before version 0.3, from which `Seeds` can be imported until then."""

from __future__ import annotations

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Seeds":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ringbco.run.seeds import Seeds

    warnings.warn("ringbco.run.draws.Seeds is now ringbco.run.seeds.Seeds", DeprecationWarning, stacklevel=2)
    return Seeds
