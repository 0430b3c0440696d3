"""What each stay did of its job's work, and what a failure took of it (docs/outages.md, searches.md)."""

from __future__ import annotations

import math

from judge.given import Given, Rung, Stay
from judge.saves import Saves
from judge.speed import EVEN, Speeds


class Worker:
    """Integrates the stays of a run, job by job in order of time."""

    def __init__(self, given: Given, speeds: Speeds) -> None:
        self.given, self.speeds, self.unit = given, speeds, speeds.unit
        self.saves = Saves(given)
        self._eta, self._rungs = search(given) if given.searched else (2, 0)

    def integrate(self, stays: list[Stay]) -> dict[int, float]:
        """Writes work, lost, lost_time and off into the stays; how far off each job's work is at its end."""
        off: dict[int, float] = {}
        job, done, short, reached = -1, 0.0, 0.0, 0
        for stay in stays:
            if stay.job != job:
                job, done, short, reached = stay.job, 0.0, 0.0, 0
            reached += len(stay.marks)
            done = self._one(stay, done)
            if stay.ended == "limit":
                self._cut(stay, done, reached)
            if stay.off:
                short = max(short, stay.off, key=abs)
            if stay.ended in ("done", "limit", "rung"):
                off[job] = short * self.unit
        return off

    def _one(self, stay: Stay, done: float) -> float:
        """Integrates a stay before which so much was done; what is done after it and its loss."""
        begin, end, whole = stay.start + stay.pause, stay.end, self.speeds.work(stay.job)
        stay.saves = self.saves.of(stay.job, begin, end, by_itself=stay.ended in ("done", "rung"))
        stay.saving = self.saves.time(stay.saves, end)
        if not stay.marks and stay.ended != "failed":  # as most are
            now = done + self._between(stay, begin, end)
            if stay.ended == "done":
                far = now - whole
                if far > 0 and self.given.slot is not None:
                    far = self._far(stay, (begin, done), (end, now), whole)
                stay.off, now = far, whole
            stay.work = (now - done) * self.unit
            return now
        failed = stay.ended == "failed"
        until, since_then = self.saves.latest(stay.job, begin, end) if failed else (end, 0.0)
        cuts: list[tuple[float, float | None]] = [(mark.time, whole * self.part(mark)) for mark in stay.marks]
        if failed and until < end:
            cuts = sorted([*cuts, (until, None)], key=lambda cut: cut[0])
        kept, now, since = done, done, begin
        for time, target in (*cuts, (end, whole if stay.ended == "done" else None)):
            then = since, now
            now += self._between(stay, since, time)
            since = max(since, time)
            if target is not None:
                stay.off = max(stay.off, self._far(stay, then, (time, now), target), key=abs)
                now = target
            if time <= until:
                kept = now
        stay.work = (now - done) * self.unit
        if failed:
            stay.lost_time, stay.lost = since_then, (now - kept) * self.unit
        return kept if failed else now

    def _cut(self, stay: Stay, done: float, reached: int) -> None:
        """Of a stay that its limit ended after `done` work: whether its job would have been done.

        reached: rungs that its trial has reached. What the last slot did beyond the next one is not done.
        """
        group, most = self.given.jobs.group, self.speeds.work(stay.job)
        if (
            self.given.searched
            and group is not None
            and group[stay.job] is not None
            and reached < self._rungs
        ):
            most /= float(self._eta ** (self._rungs - reached))
            stay.work -= max(0.0, done - most) * self.unit
        else:
            stay.off = max(0.0, done - most)

    def up_to(self, stay: Stay, done: float, time: float) -> float:
        """All the work that a job has done by an instant of a stay, before which it had done so much."""
        since = stay.start + stay.pause
        for mark in stay.marks:
            if mark.time <= time:  # what the last slot did beyond a rung is not done
                since = max(since, mark.time)
                done = self.speeds.work(stay.job) * self.part(mark) * self.unit
        return done + self._between(stay, since, time) * self.unit

    def _between(self, stay: Stay, since: float, until: float) -> float:
        """Work done between two instants."""
        if not stay.saves:
            return self._steadily(stay, since, until)
        done = []
        for begun, over in stay.saves:
            if over > since and begun < until:
                done.append(self._steadily(stay, since, begun))
                since = over
        return math.fsum([*done, self._steadily(stay, since, until)])

    def _steadily(self, stay: Stay, since: float, until: float) -> float:
        """The same without checkpoints that take time."""
        if until <= since:
            return 0.0
        if stay.parts is None:
            if self.given.slot is None:
                return (until - since) * self.speeds.rate(stay, 0, ())
            return self.speeds.done(stay, until - since, 0, ())
        return math.fsum(
            self.speeds.done(stay, min(b, until) - max(a, since), p, others)
            for a, b, p, others in stay.parts
            if b > since and a < until
        )

    def _far(self, stay: Stay, then: tuple[float, float], now: tuple[float, float], target: float) -> float:
        """How far what is done at an instant is from a target; 0 for what the last slot did beyond it.

        then, now: an instant and what was done by then, before and at it.
        """
        slot, (time, done) = self.given.slot, now
        if slot is None or done <= target:
            return done - target
        before = then[1] + self._between(stay, then[0], time - min(slot, time - then[0]))
        # Whole numbers are exact; of others a sum is known to a rounding only.
        slack = 0.0 if before.is_integer() else target * (EVEN - 1.0) / 4.0
        return done - target if before >= target - slack else 0.0

    def part(self, rung: Rung) -> float:
        """The part of its work that a trial has done at a rung."""
        return 1.0 / float(self._eta ** (self._rungs - rung.rung))


def search(given: Given) -> tuple[int, int]:
    """eta and rungs of `asha:eta=E,rungs=R`."""
    eta, rungs = (
        int(part.partition("=")[2]) for part in given.options["search"].partition(":")[2].split(",")
    )
    return eta, rungs
