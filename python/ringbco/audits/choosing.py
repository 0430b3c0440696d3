"""Which servers: the shape and the place that placements which go by the idle GPUs alone give a gang."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ringbco.audits.episodes import Episodes
from ringbco.audits.facts import Facts, Ints, policy_is
from ringbco.audits.findings import Check, blame
from ringbco.audits.ranking import ORDERS, places

Parts = list[tuple[int, int]]
"""(server, GPUs) of one gang, by server."""

MOST: Final = 1_000_000
"""Stays looked at one by one, the earliest: a policy that preempts may have made many times as many."""
_RULES: Final = {
    "consolidate": "the one with the fewest idle GPUs that holds it, or whole servers and one more",
    "worst-fit": "the one with the most idle GPUs, or whole servers and one more",
    "emptiest": "those with the most idle GPUs, one after the other",
    "first-fit": "the first idle GPUs",
    "fa-ffp": "the opened one with the fewest idle GPUs that holds it, else an unopened one, else several",
}


def check_placement(check: Check, facts: Facts, eps: Episodes) -> None:
    """A gang is on the servers that its placement chooses among those idle when it starts."""
    name = _rule(facts)
    if facts.logged:
        check.not_run = "a log, or a policy of one's own, decided"
        return
    if str(facts.options.get("order")).startswith("column"):
        check.not_run = "nobody knows in which order jobs of one instant started"
        return
    if name is None or facts.planned:
        check.not_run = "the placement goes by more than the idle GPUs"
        return
    check.looked_at = min(eps.job.size, MOST)
    stays = _Stays(facts, eps, _parts(facts, eps))
    if name in ("consolidate", "worst-fit"):
        _check_shapes(check, stays)
        if check.failed:
            return
    if facts.resizes:
        return  # who gave its GPUs back and got the same again leaves no trace
    for vc in np.unique(facts.vc).tolist():
        _sweep(check, stays, vc, name)


@dataclass(frozen=True)
class _Stays:
    """The episodes and the servers of each."""

    facts: Facts
    eps: Episodes
    parts: list[Parts]


def _rule(facts: Facts) -> str | None:
    """The rule by which servers are chosen; that of sjf-bco is fa-ffp up to kappa GPUs."""
    name, literal = facts.options["placement"], facts.options["variant"] == "literal"
    if name == "best-fit":
        return "consolidate"
    if name in ("consolidate", "emptiest", "first-fit", "worst-fit"):
        return str(name)
    return "fa-ffp" if name in ("fa-ffp", "sjf-bco") and not literal else None


def _parts(facts: Facts, eps: Episodes) -> list[Parts]:
    """Each episode's servers, with the GPUs on each."""
    order = np.lexsort((facts.a_server, facts.a_end, facts.a_start, facts.a_job))
    gpus = facts.a_gpus[order].tolist()
    pairs = list(zip(eps.pair_server.tolist(), gpus, strict=True))
    ends = np.cumsum(eps.servers).tolist()
    return [pairs[low:high] for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def _check_shapes(check: Check, stays: _Stays) -> None:
    """`consolidate`: on one server if one can hold the gang, else whole largest servers and one more.

    The servers are those of the gang's type.
    """
    facts, eps, parts = stays.facts, stays.eps, stays.parts
    largest = np.zeros((int(facts.server_vc.max()) + 1, int(facts.pool.max()) + 1), dtype=np.int64)
    np.maximum.at(largest, (facts.server_vc, facts.pool), facts.server_gpus)
    first = np.array([gang[0][0] for gang in parts], dtype=np.int64)
    gpus, most = _gpus_held(facts, eps), largest[facts.vc[eps.job], facts.pool[first]]
    fewest = np.where(gpus <= most, 1, -(-gpus // most))
    bad = (eps.servers != fewest).tolist()
    for e in np.flatnonzero(gpus > most).tolist():
        whole, rest = divmod(int(gpus[e]), int(most[e]))
        sizes = sorted((held for _, held in parts[e]), reverse=True)
        bad[e] = sizes != [int(most[e])] * whole + [rest] * (rest > 0)
    at = np.flatnonzero(bad)
    blame(
        check,
        facts,
        at,
        lambda e: (
            f"{gpus[e]} GPUs on {eps.servers[e]} servers; expected {fewest[e]}, of {most[e]} GPUs but for"
            " a remainder"
        ),
        job=eps.job,
        time=eps.start,
    )


class Servers:
    """The idle GPUs of each server, and for every number of them the servers with so many, as bits."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self.sizes = sizes
        self.largest = max(sizes.values())
        self.total = sum(sizes.values())
        self.idle = dict(sizes)
        self.having = [0] * (self.largest + 1)
        for server, size in sizes.items():
            self.having[size] |= 1 << server
        self.levels = sum(1 << idle for idle, servers in enumerate(self.having) if servers)
        self.all = sum(1 << server for server in sizes)
        self.unopened = self.all

    def change(self, parts: Parts, sign: int) -> None:
        """Frees (+1) or takes (-1) GPUs."""
        for server, gpus in parts:
            before = self.idle[server]
            after = before + sign * gpus
            self.idle[server] = after
            self.total += sign * gpus
            bit = 1 << server
            self.having[before] ^= bit
            if not self.having[before]:
                self.levels ^= 1 << before
            self.having[after] |= bit
            self.levels |= 1 << after
            if after == self.sizes[server]:
                self.unopened |= bit
            else:
                self.unopened &= ~bit

    def _from_most(self, among: int) -> Iterator[int]:
        """The servers `among`, as bits, that have idle GPUs: those with most first, then by index."""
        levels = self.levels & ~1
        while levels:
            idle = levels.bit_length() - 1
            levels ^= 1 << idle
            servers = self.having[idle] & among
            while servers:
                yield _lowest(servers)
                servers &= servers - 1

    def tightest(self, wanted: int, among: int = -1) -> int | None:
        """Of the servers `among`, as bits: the one with the fewest idle GPUs that holds so many."""
        levels = self.levels >> wanted << wanted
        while levels:
            servers = self.having[_lowest(levels)] & among
            if servers:
                return _lowest(servers)
            levels &= levels - 1
        return None

    def consolidate(self, wanted: int) -> Parts | None:
        """The servers that `consolidate` takes; None where it cannot."""
        if wanted <= self.largest:
            server = self.tightest(wanted)
            return None if server is None else [(server, wanted)]
        whole, rest = divmod(wanted, self.largest)
        ready = self.having[self.largest]
        chosen: Parts = []
        for _ in range(whole):
            if not ready:
                return None
            chosen.append((_lowest(ready), self.largest))
            ready &= ready - 1
        if rest:
            last = next(self._from_most(~sum(1 << server for server, _ in chosen)), None)
            if last is None or self.idle[last] < rest:
                return None
            chosen.append((last, rest))
        return sorted(chosen)

    def worst_fit(self, wanted: int) -> Parts | None:
        """The servers that `worst-fit` takes."""
        if wanted > self.largest:
            return self.consolidate(wanted)
        server = next(self._from_most(self.all), None)
        return None if server is None or self.idle[server] < wanted else [(server, wanted)]

    def choose(self, name: str, wanted: int) -> Parts | None:
        """The servers that a placement takes; None where it takes none."""
        rules = {
            "consolidate": self.consolidate,
            "emptiest": self.emptiest,
            "first-fit": self.first_fit,
            "worst-fit": self.worst_fit,
            "fa-ffp": self.fa_ffp,
        }
        return rules[name](wanted)

    def emptiest(self, wanted: int) -> Parts | None:
        """The servers that `emptiest` takes."""
        if wanted > self.total:
            return None
        chosen: Parts = []
        for server in self._from_most(self.all):
            chosen.append((server, min(wanted, self.idle[server])))
            wanted -= chosen[-1][1]
            if not wanted:
                break
        return sorted(chosen)

    def first_fit(self, wanted: int) -> Parts | None:
        """The servers that `first-fit` takes."""
        if wanted > self.total:
            return None
        chosen: Parts = []
        some = self.all & ~self.having[0]
        while wanted:
            server = _lowest(some)
            some &= some - 1
            chosen.append((server, min(wanted, self.idle[server])))
            wanted -= chosen[-1][1]
        return chosen

    def fa_ffp(self, wanted: int) -> Parts | None:
        """The servers that the practical reading of FA-FFP takes."""
        groups = (~self.unopened, self.unopened)
        if wanted > self.total:
            return None
        for group in groups:
            server = self.tightest(wanted, group)
            if server is not None:
                return [(server, wanted)]
        chosen: Parts = []
        for group in groups:
            for server in self._from_most(group):
                if not wanted:
                    break
                chosen.append((server, min(wanted, self.idle[server])))
                wanted -= chosen[-1][1]
        return sorted(chosen)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _sweep(check: Check, stays: _Stays, vc: int, name: str) -> None:
    facts, eps, parts = stays.facts, stays.eps, stays.parts
    pools = _pools(facts, vc)
    pool, tries = facts.pool.tolist(), facts.tries[eps.job].tolist()
    upto = int(facts.options["kappa"]) if facts.options["placement"] == "sjf-bco" else None
    mine = np.flatnonzero((facts.vc[eps.job] == vc) & (eps.end > eps.start))
    instant = set(eps.start[(facts.vc[eps.job] == vc) & (eps.end <= eps.start)].tolist())
    if policy_is(facts.options, "moves"):
        if facts.pauses_at_start:
            return  # what it starts and stops again at one instant, to make room, leaves no trace
        # It makes room at an instant, and puts a gang there: nobody else knows in which order.
        instant |= set(eps.end[mine][eps.end[mine] != facts.finish[eps.job[mine]]].tolist())
    wanted = facts.num_gpus[eps.job].tolist()
    leaving = mine[np.argsort(eps.end[mine], kind="stable")].tolist()
    ends = eps.end.tolist()
    gone = 0
    left = MOST
    for t, group in starts(facts, eps, mine, vc):
        left -= len(group)
        if left < 0:
            return
        while gone < len(leaving) and ends[leaving[gone]] <= t:
            freed = parts[leaving[gone]]
            pools[pool[freed[0][0]]].change(freed, 1)
            gone += 1
        # Who of several was placed first is known where the queue has an order. Where a job came and went at
        # this very instant, what was idle is not known.
        clear = (len(group) == 1 or not facts.preemptive) and t not in instant
        for e in group:
            if clear and (upto is None or wanted[e] <= upto):
                tried = (pools[own].choose(name, wanted[e]) for own in tries[e] if own >= 0)
                right = next((gang for gang in tried if gang is not None), None)
                if right != parts[e]:
                    said = _misplaced(stays.parts[e], right, name)
                    check.fail(said, facts.id(eps.job[e]), t)
                    clear = False
            pools[pool[parts[e][0][0]]].change(parts[e], -1)


def _pools(facts: Facts, vc: int) -> dict[int, Servers]:
    """The servers of a (virtual) cluster, by GPU type."""
    sizes: dict[int, dict[int, int]] = {}
    for server in np.flatnonzero(facts.server_vc == vc).tolist():
        sizes.setdefault(int(facts.pool[server]), {})[server] = int(facts.server_gpus[server])
    return {own: Servers(among) for own, among in sizes.items()}


def starts(facts: Facts, eps: Episodes, mine: Ints, vc: int) -> Iterator[tuple[float, list[int]]]:
    """The episodes that begin together, in the order in which a pass places them."""
    rank = np.zeros(facts.start.size, dtype=np.int64)
    if not facts.preemptive and facts.options["order"] in ORDERS:
        jobs = np.flatnonzero(facts.vc == vc)
        place = places(facts, jobs)
        rank[jobs] = np.where(place.due <= facts.start[jobs], place.aged, place.young)
    order = mine[np.lexsort((rank[eps.job[mine]], eps.start[mine]))]
    times = eps.start[order]
    first = np.flatnonzero(np.append(True, times[1:] != times[:-1])[: times.size])
    numbers, bounds = order.tolist(), [*first.tolist(), order.size]
    for a, b, t in zip(bounds[:-1], bounds[1:], times[first].tolist(), strict=True):
        yield t, numbers[a:b]


def _misplaced(found: Parts, right: Parts | None, name: str) -> str:
    said = "no servers" if right is None else ", ".join(f"{gpus} on {server}" for server, gpus in right)
    where = ", ".join(f"{gpus} on {server}" for server, gpus in found)
    return f"has GPUs {where}; {name} takes {_RULES[name]}: {said}"


def _gpus_held(facts: Facts, eps: Episodes) -> Ints:
    """GPUs that each episode's job holds: what it asks for, unless it may hold others."""
    return eps.gpus if facts.elastic else facts.num_gpus[eps.job]
