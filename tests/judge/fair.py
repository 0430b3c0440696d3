"""The order by fair share: what owners have used, read at each pass (docs/operators.md#fair-share)."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from operator import itemgetter

from judge.deciding import UnclearError
from judge.floor import Floor
from judge.given import Given, Stay
from judge.queue import ROUNDING, Queue
from judge.work import Worker

DIGITS = 31
"""Binary digits of usage / share that count; the others are left to rounding."""
LAST = (1 << 64) - 1
"""Where those without a share stand."""


class Fair(Queue):
    """A queue whose places hang on the time. used: by owner, GPU-seconds, as of when, GPUs held since."""

    def __init__(self, given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> None:
        super().__init__(given, floor, worker, stays)
        self.half_life = float(given.options["half_life"])
        self.owners = given.jobs.fair or [None] * len(given.jobs.id)
        changes: list[tuple[float, str | None, float]] = []
        for stay in stays:
            if stay.end > stay.start:
                gpus = given.jobs.weight(stay.job) * sum(count for _, count in stay.held)
                owner = self.owners[stay.job]
                changes += [(stay.start, owner, gpus), (stay.end, owner, -gpus)]
        self.changes, self.seen = sorted(changes, key=itemgetter(0)), 0
        self.used: dict[str | None, tuple[float, float, float]] = {}
        self.ratios: dict[str | None, float] = {}
        self.at = -math.inf
        own = given.jobs.priority
        self.level = [0] * len(self.owners) if own is None else [max(own) - priority for priority in own]

    def rests(self) -> bool:
        """Where nobody waits: another may be the first by now."""
        return not self.places

    def place_of(self, job: int) -> int:
        """Its place now: of those that aged among themselves, else by priority, usage / share, fifo."""
        if self.time >= self.aging.get(job, math.inf):
            return self.aged[job]
        ratio = _rounded(self._ratio(self.owners[job]))
        key = LAST if math.isinf(ratio) else struct.unpack(">Q", struct.pack(">d", ratio))[0]
        return len(self.aged) + (self.level[job] << 96 | key << 32 | self.aged[job])

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """One pass, in the order of now. Unclear where rounding may decide whose jobs come first."""
        waiting = list(self.place)
        for job in waiting:
            self.leave(job)
        for job in waiting:
            self.enter(job)
        ratios = sorted({self._ratio(self.owners[job]) for job in waiting} - {math.inf})
        for one, other in pairwise(ratios):
            if other - one <= ROUNDING * other and _rounded(one) != _rounded(other):
                raise UnclearError
        super().decide(out, come)

    def _ratio(self, owner: str | None) -> float:
        """What an owner has used by now, for its share; infinite without a share."""
        if self.at != self.time:
            self.at = self.time
            self.ratios.clear()
            while self.seen < len(self.changes) and self.changes[self.seen][0] <= self.time:
                time, other, gpus = self.changes[self.seen]
                _, _, held = self.used.get(other, (0.0, 0.0, 0.0))
                self.used[other] = self._used(other, time), time, held + gpus
                self.seen += 1
        if owner not in self.ratios:
            share = 1.0 if owner is None else self.given.shares.get(owner, 1.0)
            self.ratios[owner] = self._used(owner, self.time) / share if share else math.inf
        return self.ratios[owner]

    def _used(self, owner: str | None, time: float) -> float:
        """GPU-seconds as they count at an instant."""
        used, since, held = self.used.get(owner, (0.0, 0.0, 0.0))
        halvings = (time - since) / self.half_life
        grown = held * self.half_life * -math.expm1(-halvings * math.log(2.0)) / math.log(2.0)
        return float(used * math.exp2(-halvings) + grown)


def _rounded(number: float) -> float:
    """The number to so many digits."""
    if math.isinf(number):
        return number
    part, exponent = math.frexp(number)
    return math.ldexp(round(math.ldexp(part, DIGITS)), exponent - DIGITS)
