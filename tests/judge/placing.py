"""Where placements that go by idle GPUs put a gang (docs/placements.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from judge.splitmix import GOLDEN, MASK, mix

Parts = list[tuple[int, int]]
"""(server, GPUs) of one gang, by server."""
KNOWN = ("best-fit", "consolidate", "emptiest", "fa-ffp", "first-fit", "worst-fit")
"""Placements that go by how many GPUs of each server are idle."""


def _bits(servers: list[int]) -> int:
    """A number with these bits set: written once, as each step on a long number copies it."""
    made = bytearray(max(servers, default=-1) // 8 + 1)
    for server in servers:
        made[server >> 3] |= 1 << (server & 7)
    return int.from_bytes(made, "little")


class Servers:
    """The idle GPUs of each server, and for every number of them the servers with so many, as bits."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self.sizes = sizes
        self.largest = max(sizes.values())
        self.total = sum(sizes.values())
        self.idle = dict(sizes)
        of: list[list[int]] = [[] for _ in range(self.largest + 1)]
        for server, size in sizes.items():
            of[size].append(server)
        self.having = [_bits(servers) for servers in of]
        self.levels = sum(1 << idle for idle, servers in enumerate(self.having) if servers)
        self.all = _bits(list(sizes))
        self.unopened = self.all
        self.hidden: dict[int, int] = {}
        """Idle GPUs of servers that are down, which nobody sees."""
        self.choose: dict[str, Callable[[int], Parts | None]] = {
            "consolidate": self.consolidate,
            "best-fit": self.consolidate,
            "emptiest": self.emptiest,
            "first-fit": self.first_fit,
            "worst-fit": self.worst_fit,
            "fa-ffp": self.fa_ffp,
        }
        """By placement: the servers that it takes for so many GPUs; None where it takes none."""

    def change(self, parts: Parts, sign: int) -> None:
        """Frees (+1) or takes (-1) GPUs."""
        for server, gpus in parts:
            if server in self.hidden:
                self.hidden[server] += sign * gpus
                continue
            before = self.idle[server]
            self.idle[server] = after = before + sign * gpus
            self.total += after - before
            bit, having, size = 1 << server, self.having, self.sizes[server]
            having[before] ^= bit
            if not having[before]:
                self.levels ^= 1 << before
            having[after] |= bit
            self.levels |= 1 << after
            if after == size:
                self.unopened |= bit
            elif before == size:
                self.unopened ^= bit

    def turn(self, server: int, *, up: bool) -> None:
        """A server goes down, or is up again."""
        if up:
            self.change([(server, self.hidden.pop(server))], 1)
        else:
            idle = self.idle[server]
            self.change([(server, idle)], -1)
            self.hidden[server] = idle

    def _from_most(self, among: int) -> Iterator[int]:
        """The servers `among`, as bits, that have idle GPUs: those with most first, then by index."""
        levels = self.levels & ~1
        while levels:
            idle = levels.bit_length() - 1
            levels ^= 1 << idle
            servers = self.having[idle] & among
            while servers:
                yield lowest(servers)
                servers &= servers - 1

    def tightest(self, wanted: int, among: int | None = None) -> int | None:
        """Of the servers `among`, as bits: the one with the fewest idle GPUs that holds so many."""
        levels = self.levels >> wanted << wanted
        while levels:
            servers = self.having[lowest(levels)]
            if among is not None:
                servers &= among
            if servers:
                return lowest(servers)
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
            chosen.append((lowest(ready), self.largest))
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
            server = lowest(some)
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


def lowest(bits: int) -> int:
    """The number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def splitmix64(state: int) -> tuple[int, int]:
    """The next number and the next state."""
    state = (state + GOLDEN) & MASK
    return mix(state), state


def drawn(wanted: int, idle: int, state: int) -> tuple[set[int], int]:
    """So many of the ranks below `idle`, by Floyd's algorithm, and the state of the numbers afterwards."""
    taken: set[int] = set()
    for i in range(idle - wanted, idle):
        number, state = splitmix64(state)
        t = (number * (i + 1)) >> 64
        taken.add(i if t in taken else t)
    return taken, state


def by_server(gpus: Sequence[tuple[int, int]]) -> Parts:
    """(server, GPU) of each, as so many GPUs of each server."""
    count: dict[int, int] = {}
    for server, _ in gpus:
        count[server] = count.get(server, 0) + 1
    return sorted(count.items())
