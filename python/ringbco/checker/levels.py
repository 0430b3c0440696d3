"""Step functions of time: how much of something there is from when on."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ringbco.checker.arrays import by_place
from ringbco.checker.inputs import Bools, Floats, Ints


class Steps(NamedTuple):
    """A step function: before time[0] it is value[0], from then on value[1], and so on."""

    time: Floats
    value: Ints

    def on(self, times: Floats) -> Ints:
        """From each of some times on."""
        return self.value[np.searchsorted(self.time, times, side="right")]


class Moves(NamedTuple):
    """How many empty GPUs servers have: server, and before and after a time, in order of time."""

    server: Ints
    time: Floats
    before: Ints
    after: Ints

    def of(self, servers: Bools) -> Moves:
        """Those of some servers."""
        mine = servers[self.server]
        return Moves(self.server[mine], self.time[mine], self.before[mine], self.after[mine])


def steps(time: Floats, change: Ints, at_first: int) -> Steps:
    """A step function by its changes, in order of time."""
    rows = np.flatnonzero(change)
    time, value = time[rows], at_first + np.cumsum(change[rows])
    last = np.append(time[1:] != time[:-1], np.ones(min(1, time.size), np.bool_))
    return Steps(time[last], np.concatenate([[at_first], value[last]]).astype(np.int64))


class Waiting(NamedTuple):
    """Seconds in a state up to each of some instants, and whether it is so from then on."""

    time: Floats
    on: Bools
    sums: Floats

    @classmethod
    def of(cls, function: Steps, state: int) -> Waiting:
        """Of a step function that has changes only."""
        on = function.value == state
        lengths = np.diff(function.time) * on[1:-1]
        return cls(function.time, on, np.concatenate([[0.0, 0.0], np.cumsum(lengths)])[: on.size])

    def between(self, since: Floats, until: Floats) -> Floats:
        """Seconds in that state between two instants."""
        if not self.time.size:
            return np.where(self.on[0], until - since, 0.0)
        a, b = (np.searchsorted(self.time, times, side="right") for times in (since, until))
        opened = np.concatenate([self.time[:1], self.time])
        to, up_to = (self.sums[i] + (t - opened[i]) * self.on[i] for i, t in ((a, since), (b, until)))
        return np.where(a == b, (until - since) * self.on[a], np.maximum(0.0, up_to - to))


class Changes(NamedTuple):
    """Changes of places: how many units more are idle from a time on."""

    place: Ints
    time: Floats
    change: Ints

    @classmethod
    def of(cls, place: Ints, start: Floats, end: Floats, units: Ints) -> Changes:
        """Of holdings, from start until end; infinite: for ever."""
        both = np.concatenate([place, place]), np.concatenate([start, end]), np.concatenate([-units, units])
        ends = both[1] < math.inf
        return cls(*(column if ends.all() else column[ends] for column in both))

    def levels(self, at_first: Ints, down: Changes) -> Moves:
        """The level of each place before and after each of its changes, in order of time; 0 while down."""
        place, time = np.append(self.place, down.place), np.append(self.time, down.time)
        order, rank = by_place(place, time)
        place, time = place[order], time[order]
        first = np.flatnonzero(np.diff(place, prepend=-1))
        lengths = np.diff(np.append(first, place.size))

        def sums(change: Ints) -> Ints:
            """Of each place, up to each of its changes."""
            own = change[order]
            found = np.cumsum(own)
            return np.asarray(found - np.repeat((found - own)[first], lengths))

        level = np.maximum(0, at_first[place] + sums(np.append(self.change, np.zeros_like(down.change))))
        if down.place.size:
            level[sums(np.append(np.zeros_like(self.change), down.change)) < 0] = 0
        last = np.ones(place.size, np.bool_)
        last[:-1] = (place[1:] != place[:-1]) | (time[1:] != time[:-1])
        place, time, level, rank = place[last], time[last], level[last], rank[last]
        before = np.append(0, level[:-1])[: place.size]
        begins = np.diff(place, prepend=-1) != 0
        before[begins] = at_first[place[begins]]
        rows = np.flatnonzero(before != level)  # in order of place; then of time
        in_time = np.full(order.size, -1)
        in_time[rank[rows]] = rows
        rows = in_time[in_time >= 0]
        return Moves(place[rows], time[rows], before[rows], level[rows])


def compact(function: Steps) -> Steps:
    """Without steps that are none."""
    changed = np.flatnonzero(function.value[1:] != function.value[:-1])
    return Steps(function.time[changed], np.concatenate([function.value[:1], function.value[changed + 1]]))


def atleast(function: Steps, least: int) -> Steps:
    """1 while it is so much, else 0."""
    return compact(Steps(function.time, (function.value >= least).astype(np.int64)))


def together(one: Steps, other: Steps) -> tuple[Floats, Ints, Ints]:
    """Both at all instants at which either changes, and before them."""
    time = np.union1d(one.time, other.time)
    a, b = (np.append(own.value[:1], own.on(time)) for own in (one, other))
    return time, a, b


def both(one: Steps, other: Steps) -> Steps:
    """1 while both are, else 0."""
    time, a, b = together(one, other)
    return compact(Steps(time, a & b))
