"""What a process can no longer do that was forked from one in which polars worked.

Polars works on threads that it starts once. A forked process has none of its parent's threads. Polars would
wait for them for ever, and nothing can start them again.
"""

from __future__ import annotations

import os
import sys
from threading import Thread
from typing import Final

from ringbco.errors import ForkedError

_PATIENCE: Final = 5.0
"""Seconds until polars, which has next to nothing to do, counts as waiting for ever."""


class _Process:
    """This process.

    worked: whether ringbco had polars work here. lost: whether polars waits for threads that are not there.
    unsure: whether that is not known, as somebody else may have had polars work in the parent.
    """

    worked = False
    lost = False
    unsure = False

    def forked(self) -> None:
        """In the child."""
        self.lost = self.lost or self.worked
        self.unsure = not self.lost and "polars" in sys.modules


_PROCESS: Final = _Process()
os.register_at_fork(after_in_child=_PROCESS.forked)


def is_fork() -> bool:
    """Whether this process was forked from one in which polars had worked, or may have."""
    return _PROCESS.lost or _PROCESS.unsure


def use_polars() -> None:
    """Goes before work of polars. Raises ForkedError where it would wait for ever."""
    if _PROCESS.unsure:
        _PROCESS.lost, _PROCESS.unsure = not _works(), False
    if _PROCESS.lost:
        raise ForkedError(
            "this process was forked from one in which polars had worked, and has none of polars' threads:"
            " start processes by spawn or forkserver, for example by multiprocessing.get_context('spawn')"
        )
    _PROCESS.worked = True


def _works() -> bool:
    """Whether polars gets something done. Where it does not, a thread waits in place of the caller."""
    import polars as pl

    trial = Thread(target=lambda: pl.DataFrame({"a": [1]}).group_by("a").len(), daemon=True)
    trial.start()
    trial.join(_PATIENCE)
    return not trial.is_alive()
