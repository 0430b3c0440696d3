"""The turns of a run: at each instant what its policy decides of what is idle and who waits, beside the book.

Who holds what, what is down and where replicas are is as the book says up to each instant. So a decision is
compared by itself: that an earlier one was wrong does not make it wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from ringbco.judge.deciding import Deciding, UnclearError
from ringbco.judge.given import Book, Outage, Stay
from ringbco.judge.placing import Parts

MOST = 4_000_000
"""Looks at waiting jobs, the earliest: where jobs overtake there may be many times as many as jobs."""


class Fault(NamedTuple):
    """A decision that the policy does not make. what: order, idle, reservation, placement or evictions."""

    what: str
    job: int
    time: float
    says: str


def in_pass(stay: Stay) -> bool:
    """Whether the policy itself ended a stay: for another job, by its ranking, or on its own."""
    return stay.ended in ("preempted", "moved", "resized") or stay.by_job is not None


class Turns:
    """One (virtual) cluster from beginning to end. own: its stays, by job and time."""

    def __init__(self, book: Book, down: Sequence[Outage], policy: Deciding, own: list[Stay]) -> None:
        self.floor, self.policy = policy.floor, policy
        held = [stay for stay in own if stay.end > stay.start]
        self.brief: dict[float, list[Stay]] = {}
        """By instant: those that came and went. Who was there in between is not known."""
        for stay in own:
            if stay.end == stay.start:
                self.brief.setdefault(stay.start, []).append(stay)
        self.came = sorted(own, key=attrgetter("since"))
        self.starts, self.ends = sorted(held, key=attrgetter("start")), sorted(held, key=attrgetter("end"))
        changes: list[tuple[float, int, int, int]] = []
        for outage in down:
            if outage.server in self.floor.of and outage.down < outage.up:
                changes += [(outage.down, 1, outage.server, 0), (outage.up, 0, outage.server, 0)]
        for at, replica in enumerate(book.replicas):
            if replica.server in self.floor.of and replica.end > replica.start:
                changes += [(replica.end, 2, replica.server, at), (replica.start, 3, replica.server, at)]
        self.changes = sorted(changes)
        self.replicas = book.replicas
        self.moments = sorted(policy.moments())

    def faults(self) -> Iterator[Fault]:
        """Every decision of the book that is none of the policy's, and those that it lacks."""
        times = {stay.start for stay in self.starts} | {stay.end for stay in self.ends} | set(self.brief)
        times |= {stay.since for stay in self.came} | {change[0] for change in self.changes}
        times |= {time for time, _ in self.moments}
        last = self.ends[-1].end if self.ends else 0.0
        i = j = k = c = d = 0
        policy = self.policy
        for time in sorted(times):
            if time > last or policy.looks > MOST:
                return
            policy.time = time
            out: list[Stay] = []
            while j < len(self.ends) and self.ends[j].end == time:
                stay = self.ends[j]
                j += 1
                if in_pass(stay):
                    out.append(stay)
                else:
                    policy.ended(stay)
            while c < len(self.changes) and self.changes[c][0] == time:
                self._change(*self.changes[c][1:])
                c += 1
            leaving = {stay.job for stay in out}
            while i < len(self.came) and self.came[i].since == time:
                if self.came[i].job not in leaving:
                    policy.enter(self.came[i].job)
                i += 1
            while d < len(self.moments) and self.moments[d][0] == time:
                policy.due(self.moments[d][1])
                d += 1
            come: list[Stay] = []
            while k < len(self.starts) and self.starts[k].start == time:
                come.append(self.starts[k])
                k += 1
            fault = self._turn(out, come)
            if fault is not None:
                yield fault

    def _change(self, what: int, server: int, at: int) -> None:
        """Beside the jobs: 0, a server is up; 1, it is down; 2, a replica ends; 3, it starts."""
        if what < 2:
            self.floor.turn(server, up=not what)
        else:
            self.floor.lodge(at, server, self.replicas[at].gpus, comes=what == 3)

    def _turn(self, out: list[Stay], come: list[Stay]) -> Fault | None:
        """Lets the policy decide, compares, and makes of it what the book says."""
        policy, fault = self.policy, None
        brief = self.brief.get(policy.time, ())
        policy.touched.clear()
        policy.evictors.clear()
        try:
            if brief or policy.lost:
                raise UnclearError
            policy.decide(out, come)
            fault = self._compare(out, come)
        except UnclearError:
            policy.lost |= policy.follows and bool(brief or out or come or policy.touched)
        policy.lost |= policy.follows and fault is not None
        self._force(out, come)
        for stay in brief:
            policy.passed_by(stay)
        return fault

    def _compare(self, out: list[Stay], come: list[Stay]) -> Fault | None:
        """What differs first, if anything does."""
        policy, held = self.policy, self.floor.held
        for job, right in self._right(out, come).items():
            found = held.get(job)
            if found == right:
                continue
            if found is not None and right is not None:
                said = f"holds {self._told(right)}; the policy gives it {self._told(found)}"
                return Fault("placement", job, policy.time, said)
            if found is not None:
                said = f"goes on without GPUs, though the policy gives it {self._told(found)}"
                return Fault("idle", job, policy.time, said)
            what = "reservation" if policy.discipline == "easy" else "order"
            said = f"holds {self._told(right or [])}, though the policy gives it none"
            return Fault(what, job, policy.time, said)
        for stay in out:
            by = policy.evictors.get(stay.job)
            if stay.by_job is not None and by != stay.by_job and stay.job in policy.touched:
                name = "nobody" if by is None else policy.jobs.id[by]
                return Fault(
                    "evictions",
                    stay.job,
                    policy.time,
                    f"by_job is {policy.jobs.id[stay.by_job]}; expected {name}",
                )
        return None

    def _right(self, out: list[Stay], come: list[Stay]) -> dict[int, Parts | None]:
        """What the book says that jobs hold after a pass, of all that may have been touched."""
        policy = self.policy
        right: dict[int, Parts | None] = {job: before.parts for job, before in policy.touched.items()}
        right |= {stay.job: None for stay in out}
        right |= {stay.job: policy.parts(stay) for stay in come}
        return right

    def _force(self, out: list[Stay], come: list[Stay]) -> None:
        """Everybody holds what the book says."""
        policy = self.policy
        right = self._right(out, come)
        for job in [job for job, parts in right.items() if self.floor.held.get(job) != parts]:
            policy.settle(job, None)
        for job, parts in right.items():
            policy.settle(job, parts)
        said = {stay.job for stay in out} | {stay.job for stay in come}
        for job in policy.touched.keys() - said:
            policy.undo(job)
        for stay in out:
            policy.off(stay)
        for stay in come:
            policy.began(stay)

    def _told(self, parts: Parts) -> str:
        if self.floor.shared:
            return ", ".join(f"GPU {gpu} of server {server}" for server, gpu in parts)
        return ", ".join(f"{gpus} GPUs of server {server}" for server, gpus in parts)
