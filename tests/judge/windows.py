"""Maintenance that is known ahead (docs/operators.md)."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Final

from judge import clock
from judge.deciding import UnclearError
from judge.floor import Floor
from judge.given import Given

CLOSE: Final = 1e-9
"""Times by estimates that differ by less than this, relative, may be in either order."""


def near(now: float, one: float, other: float) -> bool:
    """Whether rounding may have made two times by estimates of one."""
    if one == other or math.inf in (one, other):
        return False
    slack = CLOSE * max(abs(one - now), abs(other - now)) + 16.0 * math.ulp(now)
    return abs(one - other) <= slack


class Windows:
    """Those of one (virtual) cluster by their begins. Those of a server that overlap or touch are one."""

    def __init__(self, given: Given, floor: Floor) -> None:
        windows = clock.seen(given.windows or (), None)
        own = [window for window in windows if window.server in floor.of]
        self.all = sorted(own, key=lambda window: window.down)
        self.downs = [window.down for window in self.all]

    def met(self, now: float, begin: float, end: float) -> set[int]:
        """The servers that will go down, and are down at an instant from `begin` until before `end`."""
        found = set()
        for at in range(bisect_right(self.downs, now), len(self.all)):
            window = self.all[at]
            if near(now, window.down, end):
                raise UnclearError
            if window.down >= end and window.down > begin:
                break
            if window.up > begin:
                found.add(window.server)
        return found

    def ends(self, now: float) -> set[float]:
        """When servers will be back."""
        return {window.up for window in self.all if now < window.up < math.inf}

    def over(self, now: float, time: float) -> set[int]:
        """The servers whose window, in which they are now, is over then."""
        return {window.server for window in self.all if window.down <= now < window.up <= time}
