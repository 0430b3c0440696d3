"""The whole of a run: from the first submission to the last finish, and what of its servers was up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum

from judge.given import Book, Given, Replica, Stay
from judge.stays import Spell
from ringbco.checker.settings import Outage

HOUR = 3600.0


def overlap(since: float, until: float, first: float, last: float) -> float:
    """Seconds of a stretch of time between two instants."""
    return max(0.0, min(until, last) - max(since, first))


@dataclass
class Span:
    """down: at instants of the clock. ran: the stays of jobs that were done or ended, all of the book."""

    given: Given
    ran: list[Stay]
    replicas: Sequence[Replica]
    down: list[Outage]
    slept: list[Spell]
    first: float
    last: float

    @classmethod
    def of(cls, given: Given, book: Book, down: list[Outage], slept: list[Spell]) -> Span:
        """That of a book."""
        submit = given.jobs.submit
        first = min((submit[stay.job] for stay in book.stays), default=0.0)
        last = max((stay.end for stay in book.stays), default=0.0)
        return cls(given, book.stays, book.replicas, down, slept, first, last)

    def up(self, servers: Iterable[int], first: float, last: float) -> float:
        """GPU-seconds of servers that were up between two instants."""
        gpus = self.given.cluster.gpus
        mine = set(servers)
        lacking = fsum(
            gpus[o.server] * overlap(o.down, o.up, first, last) for o in self.down if o.server in mine
        )
        return sum(gpus[server] for server in mine) * (last - first) - lacking

    def hours(self, holds: Iterable[tuple[int, float, float]]) -> float:
        """GPU-hours in the run of so many GPUs, from when until when."""
        return fsum(gpus * overlap(a, b, self.first, self.last) for gpus, a, b in holds) / HOUR

    def measured(self) -> Span:
        """That of figures of time: what of the window is in the run."""
        since, until = self.given.window or (self.first, self.last)
        return replace(self, first=max(self.first, since), last=min(self.last, until))

    def held(self, stays: Iterable[Stay], first: float, last: float) -> float:
        """GPU-seconds that stays held between two instants."""
        weight = self.given.jobs.weight
        if self.given.jobs.share is None:
            return fsum(
                stay.gpus
                * ((stay.end if stay.end < last else last) - (stay.start if stay.start > first else first))
                for stay in stays
                if stay.start < last and stay.end > first
            )
        return fsum(
            stay.gpus * weight(stay.job) * overlap(stay.start, stay.end, first, last) for stay in stays
        )
