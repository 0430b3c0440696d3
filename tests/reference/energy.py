"""The reference model of servers that sleep, straight from docs/energy.md, on top of any model that preempts.

Who is asleep is worked out anew at every start, from all stays and outages so far. Nothing here imports
ringbco.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reference.mechanism import World as PreemptWorld
from reference.model import GPU
from reference.outages import Outage

SleepInterval = tuple[int, float, float]
"""(server, asleep from, until), seconds; infinite where it still is at the end."""
Intervals = Sequence[Sequence[tuple[int, int, float, float]]]
"""Of each row: (server, GPUs, start, end)."""


@dataclass(frozen=True)
class Sleep:
    """What a run is told of sleep. opens: the first submission of the table; slot: None without slots."""

    after: float
    wake: float
    opens: float
    slot: float | None
    outages: tuple[Outage, ...]
    drains: tuple[Outage, ...] = ()

    def seen(self, time: float) -> float:
        """The first instant of the clock not before a time, s."""
        if self.slot is None or math.isinf(time):
            return time
        n = math.floor(time / self.slot) - 1
        while n * self.slot < time:
            n += 1
        return n * self.slot

    def down(self, server: int) -> list[tuple[float, float]]:
        """When a server is down, or drains and is on: instants of the clock; a blink has no length."""
        drains = [(self.seen(begin), self.seen(end)) for own, begin, end in self.drains if own == server]
        down = [(self.seen(down), self.seen(up)) for own, down, up in self.outages if own == server]
        return [*down, *((begin, end) for begin, end in drains if begin < end)]

    def sleep_intervals(self, stays: Intervals, servers: int) -> Iterator[SleepInterval]:
        """When servers were asleep, by server and time."""
        for server in range(servers):
            held = [(a, b) for row in stays for own, _, a, b in row if own == server and a < b]
            since = self.seen(self.opens)
            for begin, end in sorted([*held, *self.down(server)]):
                if begin - since > self.after:
                    yield server, since + self.after, begin
                since = max(since, end)
            if since < math.inf:
                yield server, since + self.after, math.inf


def sleeping_world(sleep: Sleep, base: type[PreemptWorld] = PreemptWorld) -> type[PreemptWorld]:
    """The model `base` on servers that sleep. What it does where servers fail goes on top of this one."""

    class Sleeping(base):  # type: ignore[misc, valid-type]
        def waking(self, gpus: list[GPU]) -> float:
            return sleep.wake if any(self.is_asleep(server) for server, _ in gpus) else 0.0

        def is_asleep(self, server: int) -> bool:
            """Whether a server was asleep before this instant, whatever has started on it at the instant."""
            if any(server in run.servers and run.start < self.now for run in self.running):
                return False
            now = self.seconds(self.now)
            others = [(start, end) for start, end in self.others(server) if start < min(now, end)]
            if any(end > now for _, end in others):
                return False
            ends = [end for _, end in others]
            ends += [b for row in self.result.allocations for own, _, a, b in row if own == server and a < b]
            ups = [up for _, up in sleep.down(server) if up <= now]
            since = max([sleep.seen(sleep.opens), *ends, *ups])
            return now - since > sleep.after

        def others(self, server: int) -> list[tuple[float, float]]:
            """When others than jobs held its GPUs, s: replicas are `priorities`'."""
            return []

    return Sleeping
