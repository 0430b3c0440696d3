"""Why stays ended: whether that is allowed here, and whether whom a stay names did it (docs/results.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ringbco.audits.findings import Finding, number
from ringbco.audits.inputs import BY
from ringbco.checker import clock
from ringbco.checker.arrays import by_group, ranges
from ringbco.checker.inputs import DONE, ENDED, LIMIT, MOVED, NONE, PREEMPTED, RESIZED
from ringbco.checker.protection import STOPPED, Protection
from ringbco.errors import show_value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ringbco.audits.findings import Check
    from ringbco.checker.inputs import Bools, Floats, RunInputs, StayLog

GOES_ON: Final = ("preempted", "moved", "resized", "evicted", "failed", "rung")
"""How a stay may end that is not its job's last."""
LAST: Final = ("done", "dropped", "limit", "rung")
"""How a job's last stay may end."""
SHIFTED: Final = ("moved", "resized")
Owner = tuple[int, str, int]
"""Of which file of quotas whose counts, and the number of the virtual cluster: each has quotas of its own."""
Told = tuple[str, str]
"""A code, and what is wrong."""


class Ends:
    """The stays of a stay log, and who may have made them end.

    failing: (server, instant) of each server that goes down. at_rung: (job, instant) at which a trial gives
    its GPUs back. ended: jobs that a custom policy ended or may have, since they are not done.
    recorded: whether stays say who held which servers. owned: of each owner of a quota, when its GPUs began
    and ceased to be held, in order. over: when they were more. looked_at: how many comparisons were made, by
    code.
    """

    def __init__(
        self, inputs: RunInputs, stay_log: StayLog, ended: Collection[int], *, recorded: bool
    ) -> None:
        self.inputs, self.stays, self.replicas = inputs, stay_log.stays, stay_log.replicas
        self.ended, self.recorded = ended, recorded
        self.down = clock.down(inputs.outages or (), inputs.slot)
        self.failing = {(outage.server, outage.down) for outage in self.down}
        self.protection = Protection(inputs)
        rungs, left = stay_log.rungs, stay_log.rungs.went_on != stay_log.rungs.time
        self.at_rung = set(zip(rungs.job[left].tolist(), rungs.time[left].tolist(), strict=True))
        self.over: dict[Owner, Floats] = {}
        self.looked_at = Counter[str]()
        self.owned: dict[Owner, tuple[Floats, Floats]] = {}
        stays = self.stays
        of = {owner: np.flatnonzero(jobs[stays.job]) for owner, jobs in self._owners.items()}
        for owner, rows in sorted(of.items(), key=lambda one: one[1][:1].tolist()):
            if rows.size:
                gpus = stays.gpus[rows]
                begun, ceased = (np.sort(np.repeat(own[rows], gpus)) for own in (stays.start, stays.end))
                self.owned[owner] = begun, ceased

    @cached_property
    def _owners(self) -> dict[Owner, Bools]:
        """The jobs of each owner of a quota in each virtual cluster."""
        jobs = self.inputs.jobs
        found: dict[Owner, Bools] = {}
        for at, book in enumerate(self.inputs.quotas or ()):
            for name in book.quotas:
                mine = book.owner.eq_missing(pl.Series([name])).to_numpy()
                for vc in np.unique(jobs.in_vc[mine]).tolist():
                    found[at, name, vc] = mine & (jobs.in_vc == vc)
        return found

    @cached_property
    def _starts(self) -> dict[float, list[int]]:
        """Who starts at an instant, row by row."""
        found: dict[float, list[int]] = {}
        for row, start in enumerate(self.stays.start.tolist()):
            found.setdefault(start, []).append(row)
        return found

    @cached_property
    def _left_behind(self) -> set[int]:
        """The stays that end while others go on, on the same seats."""
        seat, start, end = self.stays.seat, self.stays.start, self.stays.end
        found = set[int]()
        there: list[int] = []
        if seat is None:
            return found
        for row in np.lexsort((start, seat)).tolist():
            there = [other for other in there if seat[other] == seat[row] != NONE]
            found |= {other for other in there if start[row] < end[other] < end[row]}
            found |= {row for other in there if start[row] < end[row] < end[other]}
            there = [other for other in there if end[other] > start[row]] + [row]
        return found

    @cached_property
    def _came(self) -> set[tuple[str, int, float]]:
        """The replicas: service, server, start."""
        told = self.replicas
        names, servers, starts = told.service.to_list(), told.server.tolist(), told.start.tolist()
        return set(zip(names, servers, starts, strict=True))

    def owners(self, job: int) -> list[Owner]:
        """Whose quotas count for a job."""
        vc = int(self.inputs.jobs.in_vc[job])
        books = enumerate(self.inputs.quotas or ())
        return [(at, own, vc) for at, book in books if (own := book.owner[job]) in book.quotas]

    def quota(self, owner: Owner) -> tuple[int, bool]:
        """GPUs that an owner may hold, and whether it may borrow more."""
        assert self.inputs.quotas is not None
        return self.inputs.quotas[owner[0]].quotas[owner[1]]

    def beyond(self) -> Iterator[tuple[float, str]]:
        """When an owner first holds more than a quota without borrowing, and how much."""
        for owner in self.owned:
            most, borrows = self.quota(owner)
            if borrows:
                continue
            begun, ended = self._counted(owner)
            times = np.unique(begun)
            held = np.searchsorted(begun, times, side="right") - np.searchsorted(ended, times, side="right")
            self.looked_at["evictions"] += times.size
            if (held > most).any():
                at = int((held > most).argmax())
                yield float(times[at]), f"{show_value(owner[1])} holds {held[at]} GPUs; its quota is {most}"

    def _counted(self, owner: Owner) -> tuple[Floats, Floats]:
        """When GPUs that count in an owner's quota began and ceased to be held.

        A job that a ranking lets borrow in one file counts in no other: jobs that may do so are left out.
        """
        ranks = self.inputs.preempts or self.inputs.decides or self.inputs.resizes
        if not ranks or not (self.inputs.quotas or ())[1:]:
            return self.owned[owner]
        rows = self._owners[owner][self.stays.job]
        for at, book in enumerate(self.inputs.quotas or ()):
            if at != owner[0]:
                borrowers = [name for name, (_, borrows) in book.quotas.items() if borrows]
                rows &= ~book.owner.is_in(borrowers).fill_null(value=False).to_numpy()[self.stays.job]
        gpus = self.stays.gpus[rows]
        begun, ceased = (np.sort(np.repeat(own[rows], gpus)) for own in (self.stays.start, self.stays.end))
        return begun, ceased

    def all(self) -> Iterator[tuple[int, Told]]:
        """Every stay whose end cannot be."""
        stays = self.stays
        last: Bools = np.append(stays.job[1:] != stays.job[:-1], [True])
        for row in np.flatnonzero(~self._plainly(last)).tolist():
            for told in self._one(row, last=bool(last[row])):
                yield row, told

    def _plainly(self, last: Bools) -> Bools:
        """Stays that end as most do, which need no second look."""
        stays, inputs = self.stays, self.inputs
        named = (stays.by_job != NONE) | (stays.by_server != NONE)
        if stays.by_service is not None:
            named |= stays.by_service.is_not_null().to_numpy()
        plain: Bools = last & (stays.ended == DONE)
        if not self.protection.is_on and not self.failing and not self.at_rung:
            if inputs.preempts:
                plain |= ~last & (stays.ended == PREEMPTED)
            if inputs.preempts or (inputs.resizes and inputs.elastic):
                plain |= ~last & self._shifted()
        plain &= ~named
        self.looked_at["stays"] += int(np.count_nonzero(plain))
        return plain

    def _shifted(self) -> Bools:
        """Stays that are moved or resized, and go on at once elsewhere, or on other GPUs."""
        stays, inputs = self.stays, self.inputs
        ways = [
            way
            for way, may in ((MOVED, inputs.preempts), (RESIZED, inputs.resizes and inputs.elastic))
            if may
        ]
        found: Bools = np.zeros(len(stays), np.bool_)
        rows = np.flatnonzero(np.isin(stays.ended[:-1], ways))
        after = rows + 1
        right = (stays.end[rows] == stays.start[after]) & (
            (stays.gpus[rows] == stays.gpus[after]) == (stays.ended[rows] == MOVED)
        )
        if inputs.jobs.share is None:
            other = stays.servers[rows] != stays.servers[after]
            same = np.flatnonzero(~other)
            count = stays.servers[rows[same]]
            one, two = (ranges(stays.first[own[same]], count) for own in (rows, after))
            differs = (stays.server[one] != stays.server[two]) | (stays.held[one] != stays.held[two])
            if same.size:
                other[same] = by_group(differs.astype(np.int64), np.cumsum(count) - count) > 0
            if stays.seat is not None:
                other |= stays.seat[rows] != stays.seat[after]
            found[rows[right & other]] = True
        return found

    def beyond_limits(self) -> Iterator[tuple[int, Told]]:
        """The last stays of jobs that held GPUs for longer than their limits, or reached them too early."""
        limits, stays = self.inputs.jobs.plain.get("time_limit"), self.stays
        if limits is None or not self.inputs.limited:
            return
        total = by_group(stays.end - stays.start, stays.head)
        limit = clock.boundary(limits[stays.job[stays.head]], self.inputs.slot)
        count = np.diff(np.append(stays.head, len(stays)))
        near = 1e-9 * total + 64.0 * count * np.spacing(np.abs(stays.end[stays.tail]))
        cut = stays.ended[stays.tail] == LIMIT
        self.looked_at["stays"] += total.size
        for at in np.flatnonzero((total > limit + near) | (cut & (total < limit - near))).tolist():
            said = f"ends after {number(total[at])} s on GPUs; its limit is {number(limit[at])} s"
            yield int(stays.tail[at]), ("stays", said)

    def _one(self, row: int, *, last: bool) -> Iterator[Told]:
        stays, word = self.stays, ENDED[self.stays.ended[row]]
        waits = last and word in GOES_ON and int(stays.job[row]) in self.ended
        self.looked_at["stays"] += 1
        if word not in (LAST if last else GOES_ON) and not waits:
            others = "is its job's last" if last else "has others after it"
            yield "stays", f"ended is {show_value(word)}, and the stay {others}"
            return
        if not last and word in SHIFTED:
            as_many = stays.gpus[row + 1] == stays.gpus[row]
            moved = stays.start[row + 1] == stays.end[row] and as_many == (word == "moved")
            if not moved or (self.recorded and self._held(row + 1) == self._held(row)):
                yield "stays", "is said to be moved or resized, and is not"
        yield from self._allowed(row, word)
        if self.protection.is_on and stays.ended[row] in STOPPED:
            yield from self._protected(row)
        yield from self._by(row, word)

    def _held(self, row: int) -> list[list[int]]:
        """What a stay holds, in order."""
        stays, told = self.stays, slice(*self.stays.first[row : row + 2])
        found = [stays.server[told].tolist(), stays.held[told].tolist()]
        if stays.spot is not None and stays.on is not None and stays.gpu is not None:
            told = slice(*stays.spot[row : row + 2])
            found += [stays.on[told].tolist(), stays.gpu[told].tolist()]
        if stays.seat is not None:
            found.append([int(stays.seat[row])])
        return found

    def _allowed(self, row: int, word: str) -> Iterator[Told]:
        """Whether stays may end so in this run."""
        inputs, stays = self.inputs, self.stays
        end = float(stays.end[row])
        if word in ("preempted", "moved") and not inputs.preempts:
            yield "stays", f"is {word}; the policy preempts no job"
        if word == "resized" and not (inputs.resizes and inputs.elastic):
            yield "stays", "is resized; the policy may resize no job"
        if word == "dropped" and not inputs.decides:
            yield "stays", "is dropped; only a custom policy ends jobs"
        if word == "rung" and stays.mark[row] != end:
            yield "searches", "ends at a rung; rungs.parquet has none at which it gives its GPUs back then"
        away = word not in LAST and end > stays.start[row]
        if away and (int(stays.job[row]), end) in self.at_rung:
            yield "searches", f"is {word} as its trial gives its GPUs back at a rung; expected rung"
        if word == "limit" and not inputs.limited:
            yield "stays", "reached a limit; this run enforces none"
        if word == "evicted" and not inputs.makes_room:
            yield "evictions", "is evicted; this run has no eviction"
        if word not in ("done", "limit", "rung", "failed") and end > stays.start[row] and self.recorded:
            lost = next((server for server in self._servers(row) if (server, end) in self.failing), None)
            if lost is not None:
                yield "outages", f"is {word} as server {lost} goes down; expected failed"

    def _protected(self, row: int) -> Iterator[Told]:
        """Whether it was protected from that: never from services, nor a job over quota from those within."""
        protection, stays = self.protection, self.stays
        job, word = int(stays.job[row]), ENDED[stays.ended[row]]
        until, stopped = protection.until(job, float(stays.start[row])), protection.stopped[job]
        protection.ended(job, int(stays.ended[row]))
        if stays.end[row] >= until or self._service(row) is not None or self._over_quota(row):
            return
        code = "evictions" if word == "evicted" else "stays"
        if protection.keeps(job):
            yield code, f"is {word} though its preemptible is false (keep_unpreemptible)"
        elif until == math.inf:
            yield code, f"is {word}; max_preemptions is {protection.most}, and {stopped} before it were"
        else:
            yield code, f"is {word} though it is protected until {until:.12g} s (preempt_after)"

    def _servers(self, row: int) -> Sequence[int]:
        """Those that a stay held, in order; all of them where it was not recorded."""
        if not self.recorded:
            return range(self.inputs.cluster.gpus.size)
        return sorted(self.stays.server[slice(*self.stays.first[row : row + 2])].tolist())

    def _service(self, row: int) -> str | None:
        told = self.stays.by_service
        return None if told is None else told[row]

    def _by(self, row: int, word: str) -> Iterator[Told]:
        """Whether what it names made it end, and it names nothing else."""
        stays, end = self.stays, float(self.stays.end[row])
        if word == "evicted" and not self.inputs.decides and row in self._left_behind:
            yield "evictions", "is evicted, and others stay on its seat: that frees no GPUs"
        may = {"evicted": ("by_job", "by_service"), "failed": ("by_server",)}.get(word, ())
        by_job, by_server, service = int(stays.by_job[row]), int(stays.by_server[row]), self._service(row)
        there = zip(BY, (by_job != NONE, service is not None, by_server != NONE), strict=True)
        told = [name for name, is_there in there if is_there]
        code = {"failed": "outages", "evicted": "evictions"}.get(word, "stays")
        self.looked_at[code] += code != "stays"  # those were counted
        if len(told) != bool(may) or not set(told) <= set(may):
            names = " and ".join(told) or "none"
            yield code, f"is {word} and names {names}; expected {' or '.join(may) or 'none'}"
        elif by_server != NONE:
            failed = [server for server in self._servers(row) if (server, end) in self.failing]
            if by_server not in (failed[:1] if self.recorded else failed):
                wanted = f"server {failed[0]}" if failed else "one of its servers that goes down then"
                yield code, f"by_server is {by_server}; expected {wanted}"
        elif service is not None:
            named_as = show_value(service)
            self.looked_at["services"] += 1
            if not self._may_evict(int(stays.job[row])):
                yield "services", f"is evicted for {named_as}, and not preemptible"
            elif not any((service, own, end) in self._came for own in self._servers(row)):
                yield "services", f"by_service is {named_as}, none of whose replicas comes there then"
        elif by_job != NONE:
            yield from self._by_job(row, by_job)

    def _by_job(self, row: int, other: int) -> Iterator[Told]:
        """Whether a job may evict another: it stands higher, or is within its quota and the other is over."""
        stays, job = self.stays, int(self.stays.job[row])
        name, jobs = self.inputs.jobs.id[other], self.inputs.jobs
        its = self._placed(other, float(stays.end[row]))
        if its is None:
            yield "evictions", f"by_job is {name}, which does not start then"
            return
        there = set(self._servers(row)) & set(self._servers(its))
        # Verbs, and repack's plans, may start one that evicts, and then stop it, or move it.
        moves = self.inputs.decides or self.inputs.options["policy"] == "repack"
        if stays.gpus[its] <= self.inputs.cluster.gpus.min() and not there and not moves:
            yield "evictions", f"by_job is {name}, which starts on none of its servers"
        priority = jobs.plain.get("priority")
        higher = priority is not None and priority[other] > priority[job]
        if self.inputs.options.get("evict") and higher and self._may_evict(job):
            return
        if not self._over_quota(row):
            yield "evictions", f"by_job is {name}, which may not evict it"

    def _placed(self, job: int, time: float) -> int | None:
        """The stay that a job begins at an instant, or goes on with, as it got back what others took."""
        stays, starts = self.stays, self._starts.get(time, ())
        for row in starts:
            if stays.job[row] == job:
                return row
        if not starts and stays.seat is None and not (self.replicas.start == time).any():
            return None
        low, high = np.searchsorted(stays.job, (job, job + 1))
        on = (stays.start[low:high] < time) & (time < stays.end[low:high])
        return int(low + on.argmax()) if on.any() else None

    def _may_evict(self, job: int) -> bool:
        may = self.inputs.jobs.plain.get("preemptible")
        return may is None or bool(may[job])

    def _over_quota(self, row: int) -> bool:
        """Whether an owner may have held more than its quota as it began, or went on at some instant."""
        return any(self._over_that(owner, row) for owner in self.owners(int(self.stays.job[row])))

    def _over_that(self, owner: Owner, row: int) -> bool:
        stays = self.stays
        most, borrows = self.quota(owner)
        start, end = stays.start[row], stays.end[row]
        begun, ended = self.owned[owner]
        if owner not in self.over:
            times = np.unique(begun)
            held = np.searchsorted(begun, times, side="right") - np.searchsorted(ended, times, side="left")
            self.over[owner] = times[held > most]
        over = self.over[owner]
        if not borrows or np.searchsorted(over, start) < np.searchsorted(over, end, side="right"):
            return borrows
        if self.inputs.resizes:  # its end may have been a resize beyond the quota, taken back at once
            held = np.searchsorted(begun, end, side="right") - np.searchsorted(ended, end, side="left")
            if held - stays.gpus[row] + self.inputs.jobs.most[stays.job[row]] > most:
                return True
        # One of the owner's may have started first at that instant, and been evicted at once.
        others = self._owners[owner][stays.job] & (stays.job != stays.job[row])
        return bool((others & (stays.since <= start) & (start <= stays.start)).any())


def check_ends(checks: Mapping[str, Check], ends: Ends) -> None:
    """Counts a failure for each stay and each replica whose end cannot be."""
    inputs, stays, replicas = ends.inputs, ends.stays, ends.replicas
    for row, (code, says) in chain(ends.all(), ends.beyond_limits()):
        check, job = checks[code], inputs.jobs.id[int(stays.job[row])]
        message = f"stay {stays.number[row]} {says}"
        check.add([Finding(check.code, message, job, time=float(stays.end[row]))], 1)
    for time, says in ends.beyond():
        checks["evictions"].fail(says, time=time)
    for code, number_of in ends.looked_at.items():
        checks[code].looked_at += number_of
    last = float(stays.end.max())
    if inputs.answering is not None:
        last = max(last, float(replicas.end.max(initial=0.0)))
    each = zip(
        replicas.service.to_list(),
        replicas.server.tolist(),
        replicas.end.tolist(),
        replicas.ended.to_list(),
        strict=True,
    )
    for service, server, end, ended in each:
        failed = (server, end) in ends.failing
        may: tuple[str, ...] = (
            ("end of run", "surplus") if end == last else ("failed",) if failed else ("surplus",)
        )
        if end == last and failed:
            may = ("end of run", "failed", "surplus")
        said = f"a replica of {show_value(service)} ended is {show_value(ended)}; expected {' or '.join(may)}"
        checks["services"].expect(holds=ended in may, message=said, time=end)
