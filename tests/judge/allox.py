"""What holds of allox, whichever matching it finds (docs/gavel.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from judge.deciding import Fault, UnclearError
from judge.doubts import Doubts
from judge.given import Stay
from judge.programs import Solving, Wish

SURE: Final = 1e-3
"""Seconds below which a solver may take a gain for none."""
APART: Final = 1e6
"""Figures further apart than that may be told apart by no solver."""


class Allox(Solving):
    """Who runs goes on to the end. Only where an optimum is plain is it known who starts."""

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """One matching."""
        told_all = self.given.outages is None and self.given.services is None and not self.given.searched
        # With slots the next boundary after somebody was evicted is one of those at which it decides.
        told_all &= self.given.slot is None or not (self.evicts or self.quotas)
        if not self.happened() and told_all:
            return  # nobody decides
        if self.floor.shared:
            raise UnclearError
        level = self.levels(keeps=True)
        waits = {job: self.asked(job) for job in self.order(list(self.place)) if job in level}
        waits = {job: wishes for job, wishes in waits.items() if wishes}
        kinds = {wish.own for wishes in waits.values() for wish in wishes}
        evicts = self.evicts or bool(self.quotas)
        if not waits or (out and not evicts):
            return
        if len(kinds) > 1 or not self._plain(waits, next(iter(kinds))):
            if evicts:
                raise UnclearError  # whoever was evicted and has the same again leaves no trace
            self.in_some_order(come)
            return
        own = next(iter(kinds))
        together = self.together(own)
        work = {}
        for job, wishes in waits.items():
            left, slack = self.left(job)
            rate = self.rate(job, own, wishes[0].gpus, together)
            work[job] = left / rate * wishes[0].gpus, slack / rate * wishes[0].gpus

        def decide(doubts: Doubts) -> None:
            for number in sorted(set(level.values())):
                those = [job for job in work if level[job] == number]
                if len(those) > self.floor.pools[own].total:
                    raise UnclearError
                decide_level(those, doubts)
                for job in those if evicts else ():
                    if job in self.place and not self.over_quota(job) and self.floor.find(job) is None:
                        self._evict_for(job)

        def decide_level(those: Sequence[int], doubts: Doubts) -> None:
            left = sorted(those, key=lambda job: (work[job][0], self.fifo[job]))
            while left:
                first = work[left[0]]
                near = [job for job in left if _near(work[job], first)]
                job = near[doubts.choose(len(near))]
                left.remove(job)
                parts = self.floor.choose(own, job)
                if parts is not None:
                    self.floor.redraw(job, parts)
                    self.start(job, parts, over=bool(self.quotas) and self.over_quota(job))

        self.attempt(decide, out, come)

    def _evict_for(self, job: int) -> None:
        """Starts a job that cannot be placed where others make room for it, if they do."""
        parts = self.make_room(job)
        if parts is not None:
            self.start(job, parts)

    def _plain(self, waits: dict[int, list[Wish]], own: int) -> bool:
        """Whether all that wait come first on idle GPUs of the one type, and no solver could miss that."""
        if len(waits) > self.floor.pools[own].total:
            return False
        together = self.together(own)
        times = []
        for job in (*waits, *self.running):
            gpus = self.jobs.gpus[job]
            rate = self.rate(job, own, gpus, together)
            if job in self.running and self.drawn(job)[0] != own:
                continue
            times.append(self.left(job)[0] / rate * gpus if rate > 0.0 else 0.0)
        return min(times) > SURE and max(times) < APART * min(times)

    def looked(self) -> Sequence[Fault]:
        """Where nobody runs, nobody waits for whom there is room."""
        if self.running or not self.place or self.stirred != self.time or self.floor.shared:
            return ()
        may = self.levels(keeps=True)
        return self.idle(
            {job: self.asked(job) for job in self.order(list(self.place)) if job in may}, sized=False
        )


def _near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two figures, each with how far it may be off, may be in either order."""
    return abs(one[0] - other[0]) <= one[1] + other[1] + 1e-12 * max(one[0], other[0])
