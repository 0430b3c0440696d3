"""The reference model of what uplinks carry, from who was there after each instant (docs/tiers.md#results).

Every figure is worked out again from the gangs that run. Nothing here imports ringbco.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from reference.model import GPU, Job, Net, iteration_time
from reference.tiers import crossed, felt

if TYPE_CHECKING:
    from reference.result import PreemptResult

Link = tuple[int, int, int]
"""(virtual cluster, tier, group)."""
Row = tuple[int, int, int, float, int, int, float]
"""vc, tier, group, time, jobs, flows, bytes/s."""


@dataclass(frozen=True)
class Held:
    """A gang after an instant. moves: from when on it makes progress, s."""

    row: int
    gpus: list[GPU]
    moves: float


Instants = Sequence[tuple[float, Sequence[Held]]]
"""Who is there from when on, s; of several at one time the last counts."""


@dataclass(frozen=True)
class Flow:
    """What one gang does: the uplinks that it crosses, its flows, bytes/s while it moves.

    lost: GPUs that its uplinks idle then; tier: of the least of them, None where no uplink is the least.
    """

    held: Held
    links: Sequence[Link]
    flows: int
    rate: float
    lost: float
    tier: int | None


@dataclass(frozen=True)
class Busiest:
    vc: int
    group: int
    mean_share: float
    largest_share: float
    gpu_hours_lost: float


class Carried:
    """worlds: the instants of each virtual cluster, and its network. ring: a job on some GPUs, or None.

    None: bandwidth says nothing of how long its iterations take. first, start, last: the first submission and
    start and the last finish, s.
    """

    def __init__(
        self,
        worlds: Sequence[tuple[Instants, Net]],
        ring: Callable[[Held], Job | None],
        *,
        first: float,
        start: float,
        last: float,
    ) -> None:
        self.worlds, self.ring, self.first, self.start, self.last = worlds, ring, first, start, last
        tree = worlds[0][1].tree
        assert tree is not None
        self.tiers = tree.tiers

    def flows(self, vc: int, gangs: Sequence[Held]) -> list[Flow]:
        """What the spanning gangs do that are there at once."""
        net = self.worlds[vc][1]
        tree = net.tree
        assert tree is not None
        found = []
        for gang, own in zip(gangs, felt(gangs, net), strict=True):
            on = {server for server, _ in gang.gpus}
            if own.bandwidth is None or own.without is None:
                continue
            links = [(vc, tier, group) for tier, group in crossed(gang.gpus, tree) if tier >= 0]
            least = [sum(1 for s, _ in gang.gpus if s == server) for server in on]
            job, rate, lost = self.ring(gang), 0.0, 0.0
            if job is not None:
                tau, without = (
                    iteration_time(job, len(on), own.p, net, b) for b in (own.bandwidth, own.without)
                )
                x = job.gradient_bytes * (job.num_gpus - 1) / job.num_gpus
                rate, lost = 2.0 * x / tau, len(gang.gpus) * ((tau - without) / tau)
            flows = min(least) if tree.gpu_nics else 1
            found.append(Flow(gang, links, flows, rate, lost, own.tier))
        return found

    def rows(self, step: float | None) -> list[Row]:
        """The rows of links.parquet. step: seconds between samples; None for 2,000 of them."""
        first, length = self.first, self.last - self.first
        if step is None:
            times = [first + length * i / 1999 for i in range(1999)] + [self.last]
        else:
            times = [first + i * step for i in range(math.floor(length / step) + 1)]
        told: dict[Link, tuple[int, int, float]] = {}
        found: list[Row] = []
        before: list[object] = [None] * len(self.worlds)
        now: list[list[Flow]] = [[] for _ in self.worlds]
        for time in times:
            carried: dict[Link, tuple[int, int, float]] = {}
            for vc, (instants, _) in enumerate(self.worlds):
                at = bisect_right([when for when, _ in instants], time) - 1
                if at < 0:
                    continue
                if at != before[vc]:
                    before[vc], now[vc] = at, self.flows(vc, instants[at][1])
                for flow in sorted(now[vc], key=lambda flow: flow.held.row):
                    rate = flow.rate if flow.held.moves <= time else 0.0
                    for link in flow.links:
                        jobs, flows, total = carried.get(link, (0, 0, 0.0))
                        carried[link] = jobs + 1, flows + flow.flows, total + rate
            for link in sorted({*told, *carried}, key=lambda link: link):
                new = carried.get(link, (0, 0, 0.0))
                if new != told.get(link, (0, 0, 0.0)):
                    found.append((*link, time, *new))
                    told[link] = new
        return found

    def summary(self) -> list[Busiest]:
        """Of each tier the link with the greatest mean share, and what the tier cost."""
        bytes_: dict[Link, float] = {}
        most: dict[Link, float] = {}
        lost = [0.0] * len(self.tiers)
        for vc, (instants, _) in enumerate(self.worlds):
            for (time, gangs), (until, _) in pairwise(instants):
                if until <= time:
                    continue
                flows = self.flows(vc, gangs)
                for flow in flows:
                    moving = max(0.0, until - max(time, flow.held.moves))
                    if flow.tier is not None:
                        lost[flow.tier] += moving * flow.lost / 3600.0
                    for link in flow.links:
                        bytes_[link] = bytes_.get(link, 0.0) + moving * flow.rate
                for at in {time, *(flow.held.moves for flow in flows if time < flow.held.moves < until)}:
                    rates: dict[Link, float] = {}
                    for flow in flows:
                        for link in flow.links if flow.held.moves <= at else ():
                            rates[link] = rates.get(link, 0.0) + flow.rate
                    for link, rate in rates.items():
                        most[link] = max(most.get(link, 0.0), rate)
        found = []
        length = self.last - self.start
        for number, tier in enumerate(self.tiers):
            every = [
                (vc, number, group) for vc in range(len(self.worlds)) for group in range(max(tier.group) + 1)
            ]
            sums = [bytes_.get(link, 0.0) for link in every]
            link = every[next(at for at, own in enumerate(sums) if own >= max(sums) * (1 - 1e-9))]
            mean = bytes_.get(link, 0.0) / (tier.bandwidth * length) if length > 0 else 0.0
            found.append(Busiest(link[0], link[2], mean, most.get(link, 0.0) / tier.bandwidth, lost[number]))
        return found


def carried_of(result: PreemptResult, ring: Callable[[Held], Job | None]) -> Carried:
    """What the uplinks of a run carried."""
    stays = [stay for rows in result.allocations for stay in rows]
    ran = [row for row, rows in enumerate(result.allocations) if rows]
    return Carried(
        result.seen_by_links,
        ring,
        first=min((result.arrival[row] for row in ran), default=0.0),
        start=min((start for _, _, start, _ in stays), default=0.0),
        last=max((end for *_, end in stays), default=0.0),
    )
