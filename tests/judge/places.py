"""Who waits, by place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator


class Places:
    """Places of jobs that wait, in order. The first may leave at little cost, however many wait."""

    def __init__(self) -> None:
        self._all: list[int] = []
        self._gone = 0
        """How many at the beginning have left."""

    def __len__(self) -> int:
        return len(self._all) - self._gone

    def __iter__(self) -> Iterator[int]:
        return iter(self._all[self._gone :])

    def add(self, place: int) -> None:
        """A job waits there from now on."""
        insort(self._all, place, self._gone)

    def remove(self, place: int) -> None:
        """It waits no more."""
        at = bisect_left(self._all, place, self._gone)
        if at > self._gone:
            del self._all[at]
            return
        self._gone += 1
        if 2 * self._gone > len(self._all):
            del self._all[: self._gone]
            self._gone = 0

    def after(self, place: int) -> int:
        """The first beyond a place; -1 where there is none."""
        at = bisect_right(self._all, place, self._gone)
        return self._all[at] if at < len(self._all) else -1
