"""Comparisons of floats that may go either way: what another order of the same sums may round to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

WAYS: Final = 100
"""In so many ways at most doubtful comparisons may go."""


class ManyWaysError(Exception):
    """There are more."""


class Doubts:
    """Goes through all ways in which doubtful comparisons may go, one way after the other.

    At first each goes as the figures say. open: whether it goes through the others. met: whether there
    are any.
    """

    def __init__(self) -> None:
        self.open = self.met = False
        self._ways: list[tuple[int, int]] = []
        self._at = 0

    def choose(self, ways: int) -> int:
        """One of so many ways."""
        self.met |= ways > 1
        if ways < 2 or not self.open:
            return 0
        if self._at == len(self._ways):
            self._ways.append((0, ways))
        self._at += 1
        return self._ways[self._at - 1][0]

    def up_to(self, one: float, other: float, slack: float) -> bool:
        """Whether one is not greater than the other. slack: how far their difference may be off."""
        plain = one <= other
        if one == other == float("inf") or abs(one - other) > slack:
            return plain
        return plain == (self.choose(2) == 0)

    def turn(self) -> bool:
        """Goes on to the next way. Returns whether there is one."""
        self._at = 0
        while self._ways and self._ways[-1][0] + 1 == self._ways[-1][1]:
            self._ways.pop()
        if not self._ways:
            return False
        way, ways = self._ways.pop()
        self._ways.append((way + 1, ways))
        return True


def possible(holds: Callable[[Doubts], bool]) -> bool:
    """Whether something holds in one of the ways in which doubtful comparisons may go.

    Raises ManyWaysError where there are too many.
    """
    doubts = Doubts()
    if holds(doubts):
        return True
    if not doubts.met:
        return False
    doubts.open = True
    for _ in range(WAYS):
        if holds(doubts):
            return True
        if not doubts.turn():
            return False
    raise ManyWaysError
