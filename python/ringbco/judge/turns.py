"""The turns of a run: at each instant what its policy decides of what is idle and who waits, beside the book.

Who holds what, what is down and where replicas are is as the book says up to each instant. So a decision is
compared by itself: that an earlier one was wrong does not make it wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

from ringbco.judge.deciding import Deciding, Fault, UnclearError
from ringbco.judge.given import Book, Outage, Stay
from ringbco.judge.placing import Parts

MOST = 2_000_000
"""Jobs and GPUs looked at in a cluster, the earliest: where jobs overtake there may be many times more."""


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
        self.lodged = {(replica.server, replica.start) for replica in book.replicas}
        self.replicas_at = Counter(replica.start for replica in book.replicas)
        self.replicas = book.replicas
        self.late: set[int] = set()
        """Who is known to have waited in vain."""
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
            if time > last or self.floor.looks > MOST:
                return
            policy.time = time
            before, due = (i, j, k, c), time in self.brief
            out: list[Stay] = []
            early: list[Stay] = []
            while j < len(self.ends) and self.ends[j].end == time:
                stay = self.ends[j]
                j += 1
                if not in_pass(stay):
                    policy.ended(stay)
                    # A later replica may have made room for one that an earlier one had made go, too.
                    made_room = stay.by_service is not None and self.replicas_at[time] > 1
                    early += [stay] * made_room
                elif any((server, time) in self.lodged for server, _ in stay.held):
                    early.append(stay)
                    policy.ended(stay)
                else:
                    out.append(stay)
            while c < len(self.changes) and self.changes[c][0] == time:
                self._change(*self.changes[c][1:])
                c += 1
            leaving = {stay.job for stay in out}
            while i < len(self.came) and self.came[i].since == time:
                if self.came[i].job not in leaving:
                    policy.enter(self.came[i].job)
                i += 1
            while d < len(self.moments) and self.moments[d][0] == time:
                due |= policy.due(self.moments[d][1])
                d += 1
            come: list[Stay] = []
            while k < len(self.starts) and self.starts[k].start == time:
                come.append(self.starts[k])
                k += 1
            if due or (i, j, k, c) != before:
                yield from self._turn(out, come, clear=not early)

    def _change(self, what: int, server: int, at: int) -> None:
        """Beside the jobs: 0, a server is up; 1, it is down; 2, a replica ends; 3, it starts."""
        if what < 2:
            self.floor.turn(server, up=not what)
        else:
            self.floor.lodge(at, server, self.replicas[at].gpus, comes=what == 3)

    def _turn(self, out: list[Stay], come: list[Stay], *, clear: bool) -> list[Fault]:
        """Lets the policy decide, compares, and makes of it what the book says.

        clear: whether no replica came where the policy may have made room just before it, or just after.
        """
        policy, found = self.policy, list[Fault]()
        brief = self.brief.get(policy.time, ())
        policy.touched.clear()
        policy.evictors.clear()
        policy.refusals.clear()
        policy.muddled |= not clear
        policy.look()
        try:
            if brief or policy.blind() or not clear:
                policy.unseen()
                raise UnclearError
            policy.decide(out, come)
            wrong = self._wrong(out, come)
            found = [*policy.refusals, *(self._faults(out, wrong) if wrong or out else ())]
        except UnclearError:
            policy.forget()
            found = list(policy.refusals)
            policy.lost |= policy.follows and bool(brief or out or come or policy.touched or not clear)
        policy.lost |= policy.follows and bool(found)
        if out or come or policy.touched:
            self._force(out, come)
        if clear and not brief:
            found += policy.looked()
        for stay in brief:
            policy.passed_by(stay)
        return found

    def _wrong(self, out: list[Stay], come: list[Stay]) -> list[tuple[int, Parts | None, Parts | None]]:
        """Who holds other GPUs than the book says: whose, and which of both."""
        policy, held = self.policy, self.floor.held
        return [
            (job, held.get(job), right)
            for job, right in policy.right(out, come).items()
            if not policy.agrees(held.get(job), right)
        ]

    def _faults(
        self, out: list[Stay], wrong: list[tuple[int, Parts | None, Parts | None]]
    ) -> Iterator[Fault]:
        """Who starts or waits though the policy has it otherwise, who is elsewhere, who made others go."""
        policy, time = self.policy, self.policy.time
        early = [(job, right) for job, found, right in wrong if found is None and right is not None]
        late = [(job, found) for job, found, right in wrong if found is not None and right is None]
        for job, found, right in wrong:
            if found is not None and right is not None:
                said = f"holds {self._told(right)}; the policy gives it {self._told(found)}"
                yield Fault("placement", job, time, said)
                break
        if early:
            job, right = max(early, key=lambda one: policy.place_of(one[0]))
            yield policy.early(job, self._told(right), [other for other, _ in late])
        elif late:
            job, found = min(late, key=lambda one: policy.place_of(one[0]))
            if job not in self.late:
                self.late.add(job)
                yield Fault(
                    "idle", job, time, f"goes on waiting, though the policy gives it {self._told(found)}"
                )
        for stay in out:
            by = policy.evictors.get(stay.job)
            if stay.by_job is not None and by != stay.by_job and stay.job in policy.touched:
                name = "nobody" if by is None else policy.jobs.id[by]
                said = f"by_job is {policy.jobs.id[stay.by_job]}; expected {name}"
                yield Fault("evictions", stay.job, time, said)
                return

    def _force(self, out: list[Stay], come: list[Stay]) -> None:
        """Everybody holds what the book says."""
        policy, held = self.policy, self.floor.held
        right = policy.right(out, come)
        other = [job for job, parts in right.items() if held.get(job) != parts]
        for job in other:
            policy.settle(job, None)
        for job in other:
            policy.settle(job, right[job])
        begun = {stay.job for stay in come}
        if out or policy.touched.keys() != begun:
            for job in policy.touched.keys() - begun - {stay.job for stay in out}:
                policy.undo(job)
        for stay in out:
            policy.off(stay)
        for stay in come:
            policy.began(stay)

    def _told(self, parts: Parts) -> str:
        if self.floor.shared:
            return ", ".join(f"GPU {gpu} of server {server}" for server, gpu in parts)
        return ", ".join(f"{gpus} GPUs of server {server}" for server, gpus in parts)
