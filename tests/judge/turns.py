"""The turns of a run: at each instant what its policy decides of what is idle and who waits, beside the book.

Who holds what, what is down and where replicas are is as the book says up to each instant. So a decision is
compared by itself: that an earlier one was wrong does not make it wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

from judge.deciding import Deciding, Fault, UnclearError
from judge.floor import MOST
from judge.given import Book, Stay
from judge.placing import Parts
from ringbco.checker.settings import Outage

OPENING = -2
"""Stands for no job: a protection may end."""


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
        names = list(dict.fromkeys(replica.service for replica in book.replicas))
        # Of those that came together the one placed last ends first: it has GPUs with more U.
        self.replicas = sorted(
            book.replicas, key=lambda r: (names.index(r.service), r.start, r.server, -r.end)
        )
        for at, replica in enumerate(self.replicas):
            if replica.server in self.floor.of and replica.end > replica.start:
                changes += [(replica.end, 2, replica.server, at), (replica.start, 3, replica.server, at)]
        self.changes = sorted(changes)
        self.lodged = {(replica.server, replica.start) for replica in book.replicas}
        self.replicas_at = Counter(replica.start for replica in book.replicas)
        self.late: set[int] = set()
        """Who is known to have waited in vain."""
        openings = [(time, OPENING) for time in policy.protection.ends(own)]
        self.moments = sorted([*policy.moments(), *openings])

    def faults(self) -> Iterator[Fault]:
        """Every decision of the book that is none of the policy's, and those that it lacks."""
        policy, floor, brief, nobody = self.policy, self.floor, self.brief, list[Stay]()
        came, starts, ends = self.came, self.starts, self.ends
        since, begin = [stay.since for stay in came], [stay.start for stay in starts]
        finish, changed = [stay.end for stay in ends], [change[0] for change in self.changes]
        moments = [time for time, _ in self.moments]
        times = sorted({*since, *begin, *finish, *changed, *moments, *brief})
        last = finish[-1] if finish else 0.0
        for own in (since, begin, finish, changed, moments):
            own.append(math.nan)
        i = j = k = c = d = 0
        for time in times:
            if time > last or floor.looks > MOST:
                return
            policy.time = time
            before, due = i + j + k + c, time in brief
            out, early = nobody, nobody
            first = j
            while finish[j] == time:
                j += 1
            if j > first:
                out, early = self._over(ends[first:j])
            while changed[c] == time:
                self._change(*self.changes[c][1:])
                c += 1
            first = i
            while since[i] == time:
                i += 1
            arrived, first = came[first:i], k
            while begin[k] == time:
                k += 1
            come = starts[first:k]
            alone = arrived == come and len(come) == 1 and not (out or early or due)
            if alone and moments[d] != time and policy.lets(come[0]):
                continue
            self._enter(arrived, out)
            while moments[d] == time:
                who = self.moments[d][1]
                due |= policy.opens() if who == OPENING else policy.due(who)
                d += 1
            rests = not (come or out or early or time in brief) and policy.rests()
            if not rests and (due or i + j + k + c != before):
                yield from self._turn(out, come, clear=not early)

    def _over(self, ends: list[Stay]) -> tuple[list[Stay], list[Stay]]:
        """Stays end. Those that the policy ends in its pass; and those that may have made room before it."""
        policy, time = self.policy, self.policy.time
        out: list[Stay] = []
        early: list[Stay] = []
        for stay in ends:
            if stay.ended == "done" or not in_pass(stay):
                policy.ended(stay)
                # A later replica may have made room for one that an earlier one had made go, too.
                if stay.by_service is not None and self.replicas_at[time] > 1:
                    early.append(stay)
            elif any((server, time) in self.lodged for server, _ in stay.held):
                early.append(stay)
                policy.ended(stay)
            else:
                out.append(stay)
        return out, early

    def _enter(self, arrived: list[Stay], out: list[Stay]) -> None:
        """Jobs wait from now on, but those that the policy is to stop: they wait once it has."""
        leaving = [stay.job for stay in out]
        for stay in arrived:
            if stay.job not in leaving:
                self.policy.enter(stay.job)

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
        policy = self.policy
        brief = self.brief.get(policy.time, ())
        policy.parting = {stay.job: stay.work - stay.lost for stay in out}
        policy.touched.clear()
        policy.evictors.clear()
        policy.refusals.clear()
        policy.muddled |= not clear
        found: list[Fault] = []
        right: dict[int, Parts | None] | None = None
        policy.look()
        try:
            if brief or policy.blind() or not clear:
                policy.unseen()
                raise UnclearError
            policy.said = {stay.job: policy.parts(stay) for stay in come} if policy.lost else {}
            policy.decide(out, come)
            found = list(policy.refusals)
            if out or not self._as_told(come):
                right = policy.right(out, come)
                wrong = self._wrong(right)
                found += self._faults(out, wrong) if wrong or out else ()
        except UnclearError:
            policy.forget()
            right = policy.right(out, come)
            found = list(policy.refusals)
            policy.lost |= policy.follows and bool(brief or out or come or policy.touched or not clear)
        if found:
            policy.lost |= policy.follows
        if right is not None:
            self._force(out, come, right)
        else:
            for stay in come:
                policy.began(stay)
        if clear and not brief:
            found += policy.looked()
        for stay in brief:
            policy.passed_by(stay)
        return found

    def _as_told(self, come: list[Stay]) -> bool:
        """Whether those have started that start in the book, there, and nothing else was done."""
        policy, held = self.policy, self.floor.held
        if len(policy.touched) != len(come):
            return False
        for stay in come:
            if stay.job not in policy.touched or held.get(stay.job) != policy.parts(stay):
                return False
        return True

    def _wrong(self, right: dict[int, Parts | None]) -> list[tuple[int, Parts | None, Parts | None]]:
        """Who holds other GPUs than the book says: whose, and which of both."""
        policy, held = self.policy, self.floor.held
        return [
            (job, held.get(job), parts)
            for job, parts in right.items()
            if held.get(job) != parts and not policy.agrees(held.get(job), parts)
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

    def _force(self, out: list[Stay], come: list[Stay], right: dict[int, Parts | None]) -> None:
        """Everybody holds what the book says."""
        policy, held = self.policy, self.floor.held
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
            if stay.job not in begun:
                policy.standing.pop(stay.job, None)
        for stay in come:
            policy.began(stay)

    def _told(self, parts: Parts) -> str:
        if self.floor.shared:
            return ", ".join(f"GPU {gpu} of server {server}" for server, gpu in parts)
        return ", ".join(f"{gpus} GPUs of server {server}" for server, gpus in parts)
