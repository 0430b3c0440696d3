"""Why stays ended: whether that is allowed here, and whether whom a stay names did it (docs/results.md)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from math import fsum, ulp
from typing import TYPE_CHECKING, Final

from ringbco.audits.findings import Finding, number
from ringbco.audits.given import BY
from ringbco.errors import show_value
from ringbco.judge import clock
from ringbco.judge.protection import ENDED, Protection

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ringbco.audits.findings import Check
    from ringbco.judge import Book, Given
    from ringbco.judge.given import Stay

GOES_ON: Final = ("preempted", "moved", "resized", "evicted", "failed", "rung")
"""How a stay may end that is not its job's last."""
LAST: Final = ("done", "dropped", "limit", "rung")
"""How a job's last stay may end."""
SHIFTED: Final = ("moved", "resized")
Owner = tuple[str, int]
"""Whose quota counts, and the number of the virtual cluster: each has quotas of its own."""
Told = tuple[str, str]
"""A code, and what is wrong."""


class Ends:
    """The stays of a book, and who may have made them end.

    failing: (server, instant) of each server that goes down. starts: who starts at an instant. came: when
    replicas do. of: the stays of a job. owned: of each owner of a quota, when its GPUs began and ceased to be
    held, in order. over: when they were more. ended: jobs that a policy of one's own ended or may have, since
    they are not done.
    recorded: whether stays say who held which servers.
    """

    def __init__(self, given: Given, book: Book, ended: Collection[int], *, recorded: bool) -> None:
        self.given, self.book, self.ended, self.recorded = given, book, ended, recorded
        self.down = clock.seen(given.outages or (), given.slot)
        self.failing = {(outage.server, outage.down) for outage in self.down}
        self.starts: dict[float, list[Stay]] = {}
        for stay in book.stays if given.makes_room else ():
            self.starts.setdefault(stay.start, []).append(stay)
        self.replicas = {(r.service, r.server, r.start) for r in book.replicas}
        self.came = {replica.start for replica in book.replicas}
        self.of: dict[int, list[Stay]] = {}
        for stay in book.stays if given.makes_room else ():
            self.of.setdefault(stay.job, []).append(stay)
        self.protection = Protection(given)
        self.over: dict[Owner, list[float]] = {}
        self.owned: dict[Owner, tuple[list[float], list[float]]] = {}
        for stay in book.stays if given.quotas is not None else ():
            owner = self.owner(stay.job)
            if owner is not None:
                begun, ceased = self.owned.setdefault(owner, ([], []))
                begun += [stay.start] * stay.gpus
                ceased += [stay.end] * stay.gpus
        for times in (times for both in self.owned.values() for times in both):
            times.sort()

    def owner(self, job: int) -> Owner | None:
        """Whose quota counts for a job, and in which virtual cluster; None where it has none."""
        owners = self.given.jobs.owner
        owner = owners[job] if owners is not None else None
        known = owner is not None and owner in (self.given.quotas or {})
        return (owner, self.given.jobs.in_vc(job)) if owner is not None and known else None

    def beyond(self) -> Iterator[tuple[float, str]]:
        """When an owner first holds more than a quota without borrowing, and how much."""
        for owner, (begun, ended) in self.owned.items():
            most, borrows = (self.given.quotas or {})[owner[0]]
            for time in () if borrows else dict.fromkeys(begun):
                held = bisect_right(begun, time) - bisect_right(ended, time)
                if held > most:
                    yield time, f"{show_value(owner[0])} holds {held} GPUs; its quota is {most}"
                    break

    def all(self) -> Iterator[tuple[Stay, Told]]:
        """Every stay whose end cannot be."""
        stays = self.book.stays
        for stay, after in zip(stays, (*stays[1:], None), strict=True):
            last = after is None or after.job != stay.job
            if last and stay.ended == "done" and not self._named(stay):
                continue  # as most do
            for told in self._one(stay, None if last else after):
                yield stay, told

    def beyond_limits(self) -> Iterator[tuple[Stay, Told]]:
        """The last stays of jobs that held GPUs for longer than their limits, or reached them too early."""
        limits, held, job = self.given.jobs.limit, [0.0], -1
        if limits is None or not self.given.limited:
            return
        stays = self.book.stays
        for stay, after in zip(stays, (*stays[1:], None), strict=True):
            held = [*(held if stay.job == job else ()), stay.end - stay.start]
            job = stay.job
            if after is not None and after.job == job:
                continue
            limit, total = clock.boundary(limits[job], self.given.slot), fsum(held)
            near = 1e-9 * total + 64.0 * len(held) * ulp(stay.end)
            if total > limit + near or (stay.ended == "limit" and total < limit - near):
                yield stay, ("stays", f"ends after {number(total)} s on GPUs; its limit is {number(limit)} s")

    def _one(self, stay: Stay, after: Stay | None) -> Iterator[Told]:
        word = stay.ended
        waits = after is None and word in GOES_ON and stay.job in self.ended
        if word not in (LAST if after is None else GOES_ON) and not waits:
            others = "is its job's last" if after is None else "has others after it"
            yield "stays", f"ended is {show_value(word)}, and the stay {others}"
            return
        if after is not None and word in SHIFTED:
            moved = after.start == stay.end and (after.gpus == stay.gpus) == (word == "moved")
            same = self.recorded and (after.held, after.places) == (stay.held, stay.places)
            if not moved or same:
                yield "stays", "is said to be moved or resized, and is not"
        yield from self._allowed(stay)
        if self.protection.is_on and word in ENDED:
            yield from self._protected(stay)
        yield from self._by(stay)

    def _allowed(self, stay: Stay) -> Iterator[Told]:
        """Whether stays may end so in this run."""
        given, word = self.given, stay.ended
        if word in ("preempted", "moved") and not given.preempts:
            yield "stays", f"is {word}; the policy preempts nobody"
        if word == "resized" and not (given.resizes and given.elastic):
            yield "stays", "is resized; the policy may resize nobody"
        if word == "dropped" and not given.decides:
            yield "stays", "is dropped; only a policy of one's own ends jobs"
        if word == "rung" and not (stay.marks and stay.marks[-1].time == stay.end):
            yield "searches", "ends at a rung; rungs.parquet has none at which it gives its GPUs back then"
        if word == "limit" and not given.limited:
            yield "stays", "reached a limit; nobody enforces limits in this run"
        if word == "evicted" and not given.makes_room:
            yield "evictions", "is evicted; nobody makes room in this run"
        if word not in ("done", "limit", "rung", "failed") and stay.end > stay.start and self.recorded:
            lost = next(
                (server for server in self._servers(stay) if (server, stay.end) in self.failing), None
            )
            if lost is not None:
                yield "outages", f"is {word} as server {lost} goes down; expected failed"

    def _protected(self, stay: Stay) -> Iterator[Told]:
        """Whether it was protected from that: but not from services, nor a guest from those within quotas."""
        protection = self.protection
        until, stopped = protection.until(stay.job, stay.start), protection.stopped[stay.job]
        protection.ended(stay)
        if stay.end >= until or stay.by_service is not None or self._over_quota(stay):
            return
        code = "evictions" if stay.ended == "evicted" else "stays"
        if until == math.inf:
            yield code, f"is {stay.ended}; max_preemptions is {protection.most}, and {stopped} before it were"
        else:
            yield code, f"is {stay.ended} though it is protected until {until:.12g} s (preempt_after)"

    def _servers(self, stay: Stay) -> Sequence[int]:
        """Those that a stay held, in order; all of them where nobody recorded it."""
        if not self.recorded:
            return range(len(self.given.cluster.gpus))
        return sorted(server for server, _ in stay.held)

    def _named(self, stay: Stay) -> list[str]:
        """The columns in which it names somebody."""
        if stay.by_job is None and stay.by_service is None and stay.by_server is None:
            return []
        return [name for name in BY if getattr(stay, name) is not None]

    def _by(self, stay: Stay) -> Iterator[Told]:
        """Whether whom it names made it end, and it names nobody else."""
        may = {"evicted": ("by_job", "by_service"), "failed": ("by_server",)}.get(stay.ended, ())
        told = self._named(stay)
        code = "outages" if stay.ended == "failed" else "evictions" if stay.ended == "evicted" else "stays"
        if len(told) != bool(may) or not set(told) <= set(may):
            names = " and ".join(told) or "nobody"
            yield code, f"is {stay.ended} and names {names}; expected {' or '.join(may) or 'nobody'}"
        elif stay.by_server is not None:
            failed = [server for server in self._servers(stay) if (server, stay.end) in self.failing]
            if stay.by_server not in (failed[:1] if self.recorded else failed):
                wanted = f"server {failed[0]}" if failed else "one of its servers that goes down then"
                yield code, f"by_server is {stay.by_server}; expected {wanted}"
        elif stay.by_service is not None:
            named_as = show_value(stay.by_service)
            if not self._may_evict(stay.job):
                yield "services", f"is evicted for {named_as}, and not preemptible"
            elif not any((stay.by_service, own, stay.end) in self.replicas for own in self._servers(stay)):
                yield "services", f"by_service is {named_as}, none of whose replicas comes there then"
        elif stay.by_job is not None:
            yield from self._by_job(stay, stay.by_job)

    def _by_job(self, stay: Stay, other: int) -> Iterator[Told]:
        """Whether a job may evict another: it stands higher, or is within its quota and the other is over."""
        name, jobs = self.given.jobs.id[other], self.given.jobs
        its = self._placed(other, stay.end)
        if its is None:
            yield "evictions", f"by_job is {name}, which does not start then"
            return
        there = set(self._servers(stay)) & set(self._servers(its))
        # Verbs, and repack's plans, may start one that evicts, and then stop it, or move it.
        moves = self.given.decides or self.given.options["policy"] == "repack"
        if its.gpus <= min(self.given.cluster.gpus) and not there and not moves:
            yield "evictions", f"by_job is {name}, which starts on none of its servers"
        priority = jobs.priority
        higher = priority is not None and priority[other] > priority[stay.job]
        if self.given.options.get("evict") and higher and self._may_evict(stay.job):
            return
        if not self._over_quota(stay):
            yield "evictions", f"by_job is {name}, which may not evict it"

    def _placed(self, job: int, time: float) -> Stay | None:
        """The stay that a job begins at an instant, or goes on with, as it got back what others took."""
        for own in self.starts.get(time, ()):
            if own.job == job:
                return own
        others = time in self.starts or time in self.came
        own_stays = (own for own in self.of.get(job, ()) if own.start < time < own.end)
        return next(own_stays, None) if others else None

    def _may_evict(self, job: int) -> bool:
        may = self.given.jobs.preemptible
        return may is None or may[job]

    def _over_quota(self, stay: Stay) -> bool:
        """Whether its owner may have held more than its quota as it began, or went on at some instant."""
        owner = self.owner(stay.job)
        if owner is None:
            return False
        most, borrows = (self.given.quotas or {})[owner[0]]
        if owner not in self.over:
            begun, ended = self.owned[owner]
            instants = dict.fromkeys(begun)
            self.over[owner] = [t for t in instants if bisect_right(begun, t) - bisect_left(ended, t) > most]
        over = self.over[owner]
        if not borrows or bisect_left(over, stay.start) < bisect_right(over, stay.end):
            return borrows
        # One of the owner's may have started first at that instant, and been evicted at once.
        return any(
            other.since <= stay.start <= other.start
            and other.job != stay.job
            and self.owner(other.job) == owner
            for other in self.book.stays
        )


def check_ends(checks: Mapping[str, Check], ends: Ends) -> None:
    """Counts a failure for each stay and each replica whose end cannot be."""
    given, book = ends.given, ends.book
    for stay, (code, says) in chain(ends.all(), ends.beyond_limits()):
        check = checks[code]
        check.add(
            [Finding(check.code, f"stay {stay.number} {says}", given.jobs.id[stay.job], time=stay.end)], 1
        )
    for time, says in ends.beyond():
        checks["evictions"].fail(says, time=time)
    last = max(stay.end for stay in book.stays)
    for replica in book.replicas:
        failed = (replica.server, replica.end) in ends.failing
        may: tuple[str, ...] = (
            ("end of run", "surplus") if replica.end == last else ("failed",) if failed else ("surplus",)
        )
        if replica.end == last and failed:
            may = ("end of run", "failed", "surplus")
        if replica.ended not in may:
            told = f"a replica of {show_value(replica.service)} ended is {show_value(replica.ended)}"
            checks["services"].fail(f"{told}; expected {' or '.join(may)}", time=replica.end)
