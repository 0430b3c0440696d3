"""The reservation of a job that waits under conservative backfilling (docs/operators.md), worked out again.

Which GPU of a server a job holds is in no table. Those of a server that are free at the same times are one as
good as the other, so that they are counted. Where a reservation may have taken some or others, both ways are
followed, and what is told is what holds in each.
"""

from __future__ import annotations

import itertools
import math
from typing import Final, NamedTuple

import numpy as np

from ringbco.judge.placing import KNOWN, Servers
from ringbco.result.why_order import CLOSE, Order
from ringbco.result.why_record import WHOLE, Moment, Record
from ringbco.result.why_room import wants

MOST: Final = 20_000
"""Instants that are looked at, of all jobs together."""
WAYS: Final = 64
"""Ways that are followed at once."""
SEVERAL: Final = 8
"""Kinds of GPUs of one server, of which there are ways to take some."""


Parts = tuple[tuple[int, int], ...]
"""(server, GPUs) of one gang."""


class Place(NamedTuple):
    """When a job that waits is reserved GPUs by the estimates, s, and how many of which servers."""

    begin: float
    on: Parts


class Kind(NamedTuple):
    """GPUs of one server that are free from one instant on, and kept for jobs in the same stretches."""

    server: int
    free_from: float
    kept: tuple[tuple[float, float], ...] = ()

    def is_free(self, begin: float, end: float) -> bool:
        """Whether nobody has them at `begin`, nor until before `end`."""
        busy = ((b < end or b <= begin) and e > begin for b, e in self.kept)
        return self.free_from <= begin and not any(busy)


State = dict[Kind, int]
"""How many GPUs of each kind there are."""


class UnsureError(Exception):
    """The tables do not say it."""


def reservation(record: Record, order: Order, moment: Moment, row: int) -> Place | None:
    """The reservation that a job had after the pass of a moment; None where it is not sure, or has none."""
    try:
        return _Pass(record, order, moment, row).reservation()
    except UnsureError:
        return None


class _Pass:
    """What a pass reserves in which nobody starts."""

    def __init__(self, record: Record, order: Order, moment: Moment, row: int) -> None:
        self.record, self.order, self.now, self.row = record, order, moment.time, row
        self._check(moment)
        self.estimates = order.reckoned()
        if np.isnan(self.estimates).any():
            raise UnsureError
        there = np.flatnonzero(record.servers_of(row)).tolist()
        self.sizes = {server: int(record.gpus[server]) for server in there}
        self.looks = 0
        self.state = self._now(moment)

    def _check(self, moment: Moment) -> None:
        record, options = self.record, self.record.options
        held = moment.within(record.start, record.end) & record.beside(self.row)[record.row]
        plain = options.get("placement") in KNOWN and options.get("variant") != "literal"
        several = len(record.cluster.types) > 1 or record.shared or record.stretches is None
        others = record.outcome.quota is not None or record.outcome.replicas is not None
        if not plain or several or others or record.outcome.maintenance is not None:
            raise UnsureError
        # A pass that starts jobs makes reservations in between; an interrupted job has less left to do.
        if (record.start[held] == self.now).any() or record.number[held].any():
            raise UnsureError

    def _now(self, moment: Moment) -> State:
        """Until when GPUs are held at the moment, by the estimates, and what is idle."""
        record = self.record
        assert record.stretches is not None
        down, since, until = record.down
        closed = set(down[moment.within(since, until)].tolist())
        idle = {server: gpus for server, gpus in self.sizes.items() if server not in closed}
        found: State = {}
        held = record.stretches.at(moment)
        running = np.flatnonzero(moment.within(record.start, record.end))
        began = dict(zip(record.row[running].tolist(), record.start[running].tolist(), strict=True))
        columns = held.who.tolist(), held.server.tolist(), (held.units // WHOLE).tolist()
        for who, server, gpus in zip(*columns, strict=True):
            if server in idle:
                end = began[who] + float(self.estimates[who])
                self._tell(end, self.now)
                kind = Kind(server, max(end, math.nextafter(self.now, math.inf)))
                found[kind] = found.get(kind, 0) + gpus
                idle[server] -= gpus
        return found | {Kind(server, -math.inf): gpus for server, gpus in idle.items() if gpus}

    def _tell(self, one: float, other: float) -> None:
        """Raises UnsureError where rounding may decide which of two times comes first."""
        if one != other and abs(one - other) <= CLOSE * abs(other):
            raise UnsureError

    def reservation(self) -> Place | None:
        """That of the job itself, after those of all that go before it."""
        moment = Moment(self.now)
        rows = self.order.waiting(moment)
        number = self.record.number[self.order.waits]
        there = moment.within(self.record.since[self.order.waits], self.record.start[self.order.waits])
        if number[there].any():
            raise UnsureError  # what was done of it already is in no estimate
        states = [self.state]
        for row in self.order.ahead(rows, moment).tolist():
            after: dict[frozenset[tuple[Kind, int]], State] = {}
            for state in states:
                for way in self._ways(state, self._place(state, row), float(self.estimates[row])):
                    after[frozenset(way.items())] = way
            if len(after) > WAYS:
                raise UnsureError
            states = list(after.values())
        first, *others = [self._place(state, self.row) for state in states]
        if any(other != first for other in others):
            raise UnsureError
        return first

    def _place(self, state: State, row: int) -> Place | None:
        """The earliest that is free for a job."""
        estimate = float(self.estimates[row])
        want = wants(self.record, row)
        if want.share or not want.sure:
            raise UnsureError
        ends = {time for kind in state for time in (kind.free_from, *(end for _, end in kind.kept))}
        for begin in sorted({self.now, *(time for time in ends if self.now < time < math.inf)}):
            self.looks += 1
            if self.looks > MOST:
                raise UnsureError
            end = begin + estimate
            for kind in state:
                for since, _ in kind.kept:
                    self._tell(since, end)
            parts = self._placed(want.gpus, state, begin, end)
            if parts is not None and begin == self.now:
                raise UnsureError  # it would have started
            if parts is not None:
                return Place(begin, parts)
        return None

    def _placed(self, gpus: int, state: State, begin: float, end: float) -> Parts | None:
        """Where the placement puts a gang on the GPUs that are free from one instant to another."""
        idle = dict.fromkeys(self.sizes, 0)
        for kind, count in state.items():
            if kind.is_free(begin, end):
                idle[kind.server] += count
        if sum(idle.values()) < gpus:
            return None
        servers = Servers(self.sizes)
        servers.change([(server, size - idle[server]) for server, size in self.sizes.items()], -1)
        parts = servers.choose[str(self.record.options["placement"])](gpus)
        return None if parts is None else tuple(parts)

    def _ways(self, state: State, place: Place | None, estimate: float) -> list[State]:
        """What there may be once a reservation is made: of each server some of the GPUs that are free."""
        if place is None or estimate == 0:
            return [state]
        states = [state]
        stretch = place.begin, place.begin + estimate
        for server, gpus in place.on:
            free = [kind for kind in state if kind.server == server and kind.is_free(*stretch)]
            if len(free) > SEVERAL:
                raise UnsureError
            states = [
                self._take(way, free, counts, stretch)
                for way in states
                for counts in itertools.product(*(range(min(gpus, state[kind]) + 1) for kind in free))
                if sum(counts) == gpus
            ]
            if len(states) > WAYS:
                raise UnsureError
        return states

    def _take(
        self, state: State, kinds: list[Kind], counts: tuple[int, ...], stretch: tuple[float, float]
    ) -> State:
        found = dict(state)
        for kind, count in zip(kinds, counts, strict=True):
            if count:
                found[kind] -= count
                kept = kind._replace(kept=(*kind.kept, stretch))
                found[kept] = found.get(kept, 0) + count
        return {kind: count for kind, count in found.items() if count}
