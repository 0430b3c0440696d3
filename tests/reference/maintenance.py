"""The reference model of maintenance that is known ahead, straight from docs/operators-reference.md.

A layer over the models of outages, queues and priorities: while a job is tried, the servers that it may not
use are as those that are down. Nothing here imports ringbco.
"""

import math
from collections.abc import Callable
from typing import Any

from reference.mechanism import World as PreemptWorld
from reference.model import GPU

Window = tuple[int, float, float]
"""(server, down at, up at); infinite where it never comes back."""


def together(windows: list[Window]) -> list[Window]:
    """Windows of one server that overlap, or touch, are one."""
    result: list[Window] = []
    for window in sorted(windows):
        if result and result[-1][0] == window[0] and window[1] <= result[-1][2]:
            server, down, up = result.pop()
            result.append((server, down, max(up, window[2])))
        else:
            result.append(window)
    return result


def maintained_world(
    windows: tuple[Window, ...], base: type[PreemptWorld], estimate: Callable[[Any, int], float]
) -> type[PreemptWorld]:
    """The model `base`, with outages that are in part known ahead. estimate: what a waiting row takes, s."""

    class Maintained(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.windows = together([window for window in windows if window[0] in self.sizes])
            self.passing = False

        def one_pass(self) -> None:
            self.passing = True
            super().one_pass()
            self.passing = False

        def crossed(self, time: float, length: float) -> set[int]:
            """The servers with a window, to come, that a job would meet that takes so long from then on."""
            now = self.seconds(self.now)
            return {
                server
                for server, down, up in self.windows
                if down > now and up > time and (down < time + length or down <= time)
            }

        def without(self, servers: set[int], ask: Callable[[], Any]) -> Any:
            still, self.down = self.down, self.down | servers
            answer = ask()
            self.down = still
            return answer

        def find(self, row: int) -> tuple[list[GPU] | None, int]:
            ask = super().find
            if not self.passing:
                return ask(row)
            servers = self.crossed(self.seconds(self.now), estimate(self, row))
            return self.without(servers, lambda: ask(row))

        def try_start(self, row: int) -> None:
            ask = super().try_start
            servers = self.crossed(self.seconds(self.now), estimate(self, row))
            self.without(servers, lambda: ask(row))

        def returned(self, time: float) -> set[int]:
            """The servers whose window, in which they are now, is over then."""
            now = self.seconds(self.now)
            return {server for server, down, up in self.windows if down <= now < up <= time}

        def at(self, time: float, head: int, ask: Callable[[], Any]) -> Any:
            """What would be so at a time to come, on servers that the head may use then."""
            self.passing, then = False, max(time, self.seconds(self.now))
            still, self.down = self.down, self.down - self.returned(time)
            answer = self.without(self.crossed(then, estimate(self, head)), ask)
            self.passing, self.down = True, still
            return answer

        def shadow(self, head: int) -> float:
            now = self.seconds(self.now)
            times = {self.end(run) for run in self.running}
            times |= {up for _, _, up in self.windows if now < up < math.inf}
            for time in sorted(times):
                there = [run for run in self.running if self.end(run) > time]
                if self.at(time, head, lambda there=there: self.would_fit(head, there, self.load)):
                    return time
            return math.inf

        def harmless(self, row: int, gpus: list[GPU], head: int, shadow: float) -> bool:
            if shadow == math.inf:
                return True
            ask = super().harmless
            return bool(self.at(shadow, head, lambda: ask(row, gpus, head, shadow)))

    return Maintained
