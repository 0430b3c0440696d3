"""The reference model of a network of tiers: what each gang gets of its links (docs/tiers.md).

All is worked out again from the gangs that run. Nothing here imports ringbco.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reference.model import GPU, Net


@dataclass(frozen=True)
class Tier:
    """group: of each server. bandwidth: of the uplink of one group. inside: None where there is none."""

    group: tuple[int, ...]
    bandwidth: float
    xi1: float
    alpha: float
    inside: float | None = None


@dataclass(frozen=True)
class Tree:
    """tiers: from the servers up. gpu_nics: whether every GPU has a link of its own.

    thousandths: how much of a contender each row is.
    """

    tiers: tuple[Tier, ...]
    gpu_nics: bool
    thousandths: tuple[int, ...]


class Gang(Protocol):
    """A job that runs."""

    @property
    def row(self) -> int: ...
    @property
    def gpus(self) -> list[GPU]: ...


@dataclass(frozen=True)
class Felt:
    """What a gang gets. p: eq. 6.

    bandwidth: bytes/s, of a gang that spans; without: were there no uplinks; own: nor anybody else. crossing:
    the largest n of an uplink that it crosses. None and 0 where it does not span. tier: the lowest whose
    uplink leaves it the least; None where no uplink does.
    """

    p: int
    bandwidth: float | None = None
    without: float | None = None
    own: float | None = None
    crossing: float = 0.0
    tier: int | None = None


def of_cluster(net: Net, sizes: Mapping[int, int]) -> Net:
    """The same network for some of its servers: how many GPUs the largest domain of each tier has."""
    if net.tree is None:
        return net
    inside = []
    for tier in net.tree.tiers:
        if tier.inside is not None:
            room = Counter[int]()
            for server, gpus in sizes.items():
                room[tier.group[server]] += gpus
            inside.append((max(room.values()), tier.inside))
    return replace(net, inside=tuple(inside))


def at_best(gpus: int, num_servers: int, net: Net) -> float:
    """B of a spanning gang on so many servers: nobody else, no uplinks, as even as can be."""
    if net.tree is None or not net.tree.gpu_nics:
        best = net.inter
    else:
        best = min(net.intra, net.inter * (gpus // num_servers))
    for room, inside in net.inside:
        if gpus <= room:
            best = max(best, min(net.intra, inside))
    return best


def contention(servers: set[int], spanning: Sequence[set[int]]) -> int:
    """p_j (eq. 6) of a job on `servers`; `spanning`: the servers of each spanning job now, it included."""
    if len(servers) < 2:
        return 0
    return max(sum(1 for other in spanning if s in other) for s in servers)


def felt(gangs: Sequence[Gang], net: Net) -> list[Felt]:
    """What each of the gangs that run gets."""
    on = [Counter(server for server, _ in gang.gpus) for gang in gangs]
    spanning = [{*own} for own in on if len(own) > 1]
    p = [contention({*own}, spanning) for own in on]
    tree = net.tree
    if tree is None:
        return [Felt(each) for each in p]
    domains = [_domain(own, tree) for own in on]
    flows = [min(own.values()) if tree.gpu_nics else 1 for own in on]
    links = [_crossed(own, domain, tree) for own, domain in zip(on, domains, strict=True)]
    found = []
    for j, gang in enumerate(gangs):
        if len(on[j]) < 2:
            found.append(Felt(p[j]))
            continue
        domain, r = domains[j], flows[j]
        if domain is not None:
            own = min(tree.tiers[domain].inside or 0.0, net.intra)
        elif tree.gpu_nics:
            own = min(net.intra, net.inter * r)
        else:
            own = net.inter
        bandwidth, without, crossing = own, own, 0.0
        left: list[tuple[float, int]] = []
        for link in links[j]:
            others = [i for i, other in enumerate(gangs) if other is not gang and link in links[i]]
            n = (1000 * r + sum(flows[i] * tree.thousandths[gangs[i].row] for i in others)) / 1000
            kind = link[0]
            at = None if kind < 0 else tree.tiers[kind]
            capacity = net.inter if at is None else at.bandwidth
            xi1, alpha = (net.xi1, net.alpha) if at is None else (at.xi1, at.alpha)
            k = max(float(r), xi1 * n)
            b = capacity * r / (k + alpha * (k - r))
            bandwidth = min(bandwidth, b)
            if at is None:
                without = min(without, b)
            else:
                crossing = max(crossing, n)
                left.append((b, kind))
        tier = min(left)[1] if bandwidth < without else None
        found.append(Felt(p[j], bandwidth, without, own, crossing, tier))
    return found


def crossed(gpus: Sequence[GPU], tree: Tree) -> set[tuple[int, int]]:
    """The links that a gang on these GPUs crosses: (-1, server), (tier, group)."""
    own = Counter(server for server, _ in gpus)
    return _crossed(own, _domain(own, tree), tree)


def _domain(own: Counter[int], tree: Tree) -> int | None:
    """The lowest tier with `inside` of which one group holds the whole gang."""
    for number, tier in enumerate(tree.tiers):
        if tier.inside is not None and len({tier.group[server] for server in own}) == 1:
            return number
    return None


def _crossed(own: Counter[int], domain: int | None, tree: Tree) -> set[tuple[int, int]]:
    """The links that a gang crosses: (-1, server), (tier, group)."""
    if len(own) < 2:
        return set()
    links = set() if tree.gpu_nics or domain is not None else {(-1, server) for server in own}
    for number, tier in enumerate(tree.tiers):
        groups = {tier.group[server] for server in own}
        if len(groups) > 1:
            links |= {(number, group) for group in groups}
    return links
