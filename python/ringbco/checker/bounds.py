"""Gangs bound to a tier, or in segments, under placement `compact` (docs/tiers.md#placement).

A region holds as many segments as its parts hold, each alone. A gang without segments is one segment, and its
region the part. Where a tier need not hold the gang, the whole pool holds what any part of it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ringbco.checker.levels import Changes, Moves, Steps, atleast, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringbco.checker.inputs import Ints, Tier


class Gang(NamedTuple):
    """gpus: that it asks for. pod: GPUs of each pod.

    within: the tier that must hold it, 1 for a server, 0 for none. segment: GPUs of each segment, 0 without;
    segment_tier: as within.
    """

    gpus: int
    pod: int
    within: int = 0
    segment: int = 0
    segment_tier: int = 0

    @property
    def is_bound(self) -> bool:
        """Whether more counts than its pods."""
        return self.within > 0 or self.segment > 0

    def groups(self, tiers: Sequence[Tier], servers: Ints) -> tuple[Ints, Ints]:
        """The part and the region in which each server is, by number."""
        top = len(tiers) + 2
        region = self.within or top
        part = min(self.segment_tier, region) if self.segment else region
        return _numbers(tiers, servers, part), _numbers(tiers, servers, region)

    @property
    def each(self) -> int:
        """GPUs of one segment."""
        return self.segment or self.gpus


def holds(gang: Gang, tiers: Sequence[Tier], servers: Ints, sizes: Ints) -> bool:
    """Whether a region of empty servers holds a gang. sizes: GPUs of each."""
    part, region = gang.groups(tiers, servers)
    room = np.bincount(part, sizes // gang.pod * gang.pod).astype(np.int64)
    held = np.bincount(_above(part, region), room // gang.each)
    return bool((held * gang.each >= gang.gpus).any())


def fits(gang: Gang, tiers: Sequence[Tier], servers: Ints, sizes: Ints, moves: Moves) -> Steps:
    """1 while a region of servers holds a gang, else 0. sizes, moves: GPUs of the servers."""
    numbers = np.zeros(int(servers.max()) + 1, np.int64)
    numbers[servers] = np.arange(servers.size)
    part, region = gang.groups(tiers, servers)
    above = _above(part, region)
    at, pod = numbers[moves.server], gang.pod
    change = (moves.after // pod - moves.before // pod) * pod
    rooms = _levels(part[at], moves, change, np.bincount(part, sizes // pod * pod).astype(np.int64))
    change = rooms.after // gang.each - rooms.before // gang.each
    first = np.bincount(part, sizes // pod * pod).astype(np.int64) // gang.each
    held = _levels(above[rooms.server], rooms, change, np.bincount(above, first).astype(np.int64))
    least = gang.gpus // gang.each
    change = (held.after >= least).astype(np.int64) - (held.before >= least)
    empty = np.bincount(above, first) >= least
    return atleast(steps(held.time, change, int(empty.sum())), 1)


def _levels(place: Ints, moves: Moves, change: Ints, at_first: Ints) -> Moves:
    none = np.zeros(0, np.int64)
    return Changes(place, moves.time, change).levels(at_first, Changes(none, np.zeros(0), none))


def _above(part: Ints, region: Ints) -> Ints:
    """The region of each part."""
    found = np.zeros(int(part.max()) + 1, np.int64)
    found[part] = region
    return found


def _numbers(tiers: Sequence[Tier], servers: Ints, tier: int) -> Ints:
    """The group of each server in a tier, numbered from 0."""
    if tier > len(tiers) + 1:
        return np.zeros(servers.size, np.int64)
    group = servers if tier == 1 else tiers[tier - 2].group[servers]
    return np.unique(group, return_inverse=True)[1].astype(np.int64)
