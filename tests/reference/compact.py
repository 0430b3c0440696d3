"""The reference model of `compact`, straight from docs/placements.md#compact: groups are sets of servers.

Nothing here imports ringbco.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference.model import GPU, Job

Group = tuple[int, ...]
"""Servers."""


class Levels:
    """The groups of servers by level: servers, each tier from below, all of them.

    idle: GPUs of each server, in order. tiers: the group of every server of the whole cluster, by tier.
    """

    def __init__(self, idle: dict[int, list[GPU]], tiers: Sequence[Sequence[int]], pod: int) -> None:
        self.idle, self.pod = idle, pod
        servers = sorted(idle)
        self.levels: list[list[Group]] = [[(server,) for server in servers]]
        for group in tiers:
            numbers = sorted({group[server] for server in servers})
            self.levels.append([tuple(s for s in servers if group[s] == number) for number in numbers])
        self.levels.append([tuple(servers)])

    def room(self, group: Group) -> int:
        """GPUs of the whole pods that a group holds."""
        return sum(len(self.idle[server]) // self.pod * self.pod for server in group)

    def tightest(self, groups: Sequence[Group], gpus: int) -> Group | None:
        """Of the groups that hold so many GPUs the one with least room, the first on ties."""
        return min((group for group in groups if self.room(group) >= gpus), key=self.room, default=None)

    def take(self, level: int, group: Group, gpus: int) -> list[GPU]:
        """So many GPUs of a group, which holds them."""
        if level == 0:
            own = self.idle[group[0]]
            self.idle[group[0]] = own[gpus:]
            return own[:gpus]
        taken: list[GPU] = []
        while len(taken) < gpus:
            children = [each for each in self.levels[level - 1] if {*each} <= {*group}]
            child = self.tightest(children, gpus - len(taken))
            if child is None:
                child = max(children, key=self.room)
                taken += self.take(level - 1, child, self.room(child))
            else:
                taken += self.take(level - 1, child, gpus - len(taken))
        return taken

    def regions(self, job: Job) -> Iterator[Group]:
        """Where all segments of a job may lie, in the order in which that is tried."""
        top = len(self.levels) - 1
        lowest = top if job.within is None else job.within
        tried = [lowest] if job.strict else range(lowest, top + 1)
        for level in tried:
            holding = [group for group in self.levels[level] if self.room(group) >= job.num_gpus]
            yield from sorted(holding, key=self.room)

    def segments(self, job: Job, region: Group) -> list[GPU] | None:
        """Its segments one after another; None if one finds no place."""
        before, gpus = dict(self.idle), []
        # A region inside a group of the tier is the part of that group that lies in it.
        level = min(job.segment_tier, next(n for n, groups in enumerate(self.levels) if region in groups))
        for _ in range(job.num_gpus // job.segment):
            part = self.tightest([each for each in self.levels[level] if {*each} <= {*region}], job.segment)
            if part is None:
                self.idle = before
                return None
            gpus += self.take(level, part, job.segment)
        return gpus


def lies(job: Job, parts: Sequence[tuple[int, int]], tiers: Sequence[Sequence[int]]) -> bool:
    """Whether GPUs of these servers are a place of a job. parts: (server, GPUs)."""

    def group(level: int, server: int) -> int:
        return server if level == 0 else tiers[level - 1][server]

    if job.strict and job.within is not None and len({group(job.within, server) for server, _ in parts}) > 1:
        return False
    held = Counter[int]()
    for server, gpus in parts:
        held[group(job.segment_tier, server)] += gpus
    return not job.segment or all(gpus % job.segment == 0 for gpus in held.values())


def compact(job: Job, idle: dict[int, list[GPU]], tiers: Sequence[Sequence[int]]) -> list[GPU] | None:
    """The GPUs that a job gets; None: it waits. idle: of each server."""
    found = Levels(idle, tiers, job.pod)
    if job.segment:
        for region in found.regions(job):
            gpus = found.segments(job, region)
            if gpus is not None:
                return gpus
        return None
    last = job.within if job.strict and job.within is not None else len(found.levels) - 1
    for level, groups in enumerate(found.levels[: last + 1]):
        group = found.tightest(groups, job.num_gpus)
        if group is not None:
            return found.take(level, group, job.num_gpus)
    return None
