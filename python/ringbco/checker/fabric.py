"""What a network of tiers leaves each spanning stay, from instant to instant (docs/tiers.md)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ringbco.checker.contention import Part, changes
from ringbco.checker.inputs import Floats, Ints, RunInputs, Stays

Link = tuple[int, int, int]
"""(-1, server), or (tier, group), and the virtual cluster: each has every uplink to itself."""


class Gang(NamedTuple):
    """A spanning stay: the links that it crosses; its flows, and those times intensity in thousandths.

    own: its bandwidth if it were alone, and there were no uplinks.
    """

    links: tuple[Link, ...]
    flows: int
    weight: int
    own: float


def at_best(inputs: RunInputs, job: Ints, gpus: Ints, servers: Ints) -> Floats | None:
    """The bandwidth of gangs that span: alone, no uplinks, as even as can be; None for inter_bandwidth."""
    cluster, net = inputs.cluster, inputs.cluster.network
    domains = [tier for tier in cluster.tiers if tier.inside is not None]
    if not (cluster.gpu_nics or domains):
        return None
    each = gpus // np.maximum(servers, 1)
    nic = np.minimum(net.intra_bandwidth, net.inter_bandwidth * each)
    best: Floats = nic if cluster.gpu_nics else np.full(gpus.size, net.inter_bandwidth)
    for tier in domains:
        room = np.zeros((max(1, len(cluster.vcs)), int(tier.group.max()) + 1), np.int64)
        np.add.at(room, (cluster.in_vc, tier.group), cluster.gpus)
        inside = min(tier.inside or 0.0, net.intra_bandwidth)
        best = np.where(gpus <= room.max(axis=1)[inputs.jobs.in_vc[job]], np.maximum(best, inside), best)
    return best


def contend(inputs: RunInputs, stays: Stays) -> tuple[list[Part], dict[int, Gang]] | None:
    """Writes crossing, own and slowed into the stays. Returns the parts of those that span, and their links.

    None where equations 6 and 7 say it all.
    """
    cluster = inputs.cluster
    if not (cluster.tiers or cluster.gpu_nics or "intensity" in inputs.jobs.plain):
        return None
    found = _Fabric(inputs, stays)
    return found.parts, found.gangs


class _Fabric:
    """sum: flows on each link, weighed. now: since when each stay gets what `_bandwidth` says."""

    def __init__(self, inputs: RunInputs, stays: Stays) -> None:
        self.cluster, self.stays = inputs.cluster, stays
        intensity = inputs.jobs.plain.get("intensity")
        thousandths = np.full(len(inputs.jobs), 1000) if intensity is None else np.rint(1000.0 * intensity)
        wide = np.flatnonzero(stays.servers > 1)
        weights = thousandths.astype(np.int64)[stays.job].tolist()
        self.gangs = {row: self._gang(row, weights[row]) for row in wide.tolist()}
        self.sum: dict[Link, int] = {}
        self.on: dict[Link, set[int]] = {}
        self.now: dict[int, tuple[float, float, float, int]] = {}
        self.parts: list[Part] = []
        own = np.zeros(len(stays))
        own[wide] = [self.gangs[row].own for row in wide.tolist()]
        self.crossing, self.slowed = np.zeros(len(stays)), np.zeros(len(stays), np.bool_)
        stays.own, stays.crossing, stays.slowed = own, self.crossing, self.slowed
        lasts = stays.end[wide] > stays.start[wide]
        short: dict[float, list[int]] = {}
        for row in wide[~lasts].tolist():
            short.setdefault(float(stays.start[row]), []).append(row)
        instants = sorted(short, reverse=True)
        for time, leave, come in changes(wide[lasts], stays.start, stays.end):
            while instants and instants[-1] < time:
                self._meet(short[instants.pop()])
            self._step(time, leave, come)
            if instants and instants[-1] == time:
                self._meet(short[instants.pop()])
        for time in instants:
            self._meet(short[time])

    def _gang(self, row: int, thousandths: int) -> Gang:
        stays, cluster = self.stays, self.cluster
        first, last = int(stays.first[row]), int(stays.first[row + 1])
        servers, net = stays.server[first:last], cluster.network
        links: list[Link] = []
        inside, vc = None, int(cluster.in_vc[servers[0]])
        for number, tier in enumerate(cluster.tiers):
            groups = np.unique(tier.group[servers]).tolist()
            if len(groups) > 1:
                links += [(number, group, vc) for group in groups]
            elif inside is None:
                inside = tier.inside
        flows = int(stays.held[first:last].min()) if cluster.gpu_nics else 1
        own = (
            min(net.intra_bandwidth, net.inter_bandwidth * flows) if cluster.gpu_nics else net.inter_bandwidth
        )
        if inside is not None:
            own = min(inside, net.intra_bandwidth)
        elif not cluster.gpu_nics:
            links += [(-1, server, vc) for server in servers.tolist()]
        return Gang(tuple(links), flows, flows * thousandths, own)

    def _join(self, row: int) -> None:
        for link in self.gangs[row].links:
            self.sum[link] = self.sum.get(link, 0) + self.gangs[row].weight
            self.on.setdefault(link, set()).add(row)

    def _leave(self, row: int) -> None:
        for link in self.gangs[row].links:
            self.sum[link] -= self.gangs[row].weight
            self.on[link].remove(row)

    def _step(self, time: float, leave: list[int], come: list[int]) -> None:
        """Some leave and some come."""
        links = {link for row in (*leave, *come) for link in self.gangs[row].links}
        for row in leave:
            self._leave(row)
            self._close(row, time)
            del self.now[row]
        for row in come:
            self._join(row)
            self.now[row] = time, -1.0, -1.0, -1
        for row in {*come, *(row for link in links for row in self.on[link])}:
            gets = self._bandwidth(row)
            if gets != self.now[row][1:]:
                self._close(row, time)
                self.now[row] = time, *gets

    def _bandwidth(self, row: int) -> tuple[float, float, int]:
        """What a stay gets now, would get without uplinks, and the lowest tier that leaves it the least.

        The tier is -1 where that is no uplink's.
        """
        gang, cluster = self.gangs[row], self.cluster
        net, flows = cluster.network, float(gang.flows)
        bandwidth = without = gang.own
        left: list[tuple[float, int]] = []
        for link in gang.links:
            number = link[0]
            contenders = (1000 * gang.flows + self.sum[link] - gang.weight) / 1000.0
            if number < 0:
                capacity, xi1, alpha = net.inter_bandwidth, net.xi1, net.alpha
            else:
                tier = cluster.tiers[number]
                capacity, xi1, alpha = tier.bandwidth, tier.xi1, tier.alpha
                self.crossing[row] = max(self.crossing[row], contenders)
            k = max(flows, xi1 * contenders)
            own = capacity * flows / (k + alpha * (k - flows))
            bandwidth = min(bandwidth, own)
            without = min(without, own) if number < 0 else without
            left.append((own, number))
        self.slowed[row] |= bandwidth < gang.own
        return bandwidth, without, min(left)[1] if bandwidth < without else -1

    def _meet(self, short: list[int]) -> None:
        """Some of no length meet those that are there, and each other: as if all were there at once."""
        for row in short:
            self._join(row)
        for row in {row for one in short for link in self.gangs[one].links for row in self.on[link]} | {
            *short
        }:
            slowed = self.slowed[row]
            self._bandwidth(row)
            self.slowed[row] = slowed
        for row in short:
            self._leave(row)

    def _close(self, row: int, time: float) -> None:
        since, bandwidth, without, tier = self.now[row]
        if bandwidth > 0 and time > since:
            self.parts.append((row, since, time, 0, 0, -1, bandwidth, without, tier))
