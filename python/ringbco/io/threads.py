"""Work that runs side by side in this process: libraries that let go of Python's lock meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_THREADS: Final = 2
"""As many as the parts of a replay keep busy; more would hold more columns in memory at once."""


def begin(task: Callable[[], object]) -> None:
    """Runs the task beside what comes next; who needs what it makes asks for that again, or waits."""
    pool = ThreadPoolExecutor(1)
    pool.submit(task)
    pool.shutdown(wait=False)


def at_once(tasks: Iterable[Callable[[], T]]) -> list[T]:
    """What the tasks return, in their order; two of them run at a time.

    The first task, in their order, that fails decides which error is raised. By then no task runs any more,
    and the later ones that had not begun never will. An interrupt of the caller waits for those that run,
    too, so that what they write can be removed.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            futures = [pool.submit(task) for task in tasks]
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
