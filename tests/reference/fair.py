"""The reference model of fair share over the past: docs/operators-reference.md. Imports no ringbco."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

Stay = tuple[float, float, float]
"""(GPUs, from, to), s."""


Owner = tuple[str | None, ...]
"""Names from above: an owner, or an account and a user in it."""


@dataclass(frozen=True)
class Fair:
    """By row whose job it is; the shares that are not 1, of accounts and of users in them; s."""

    owners: tuple[Owner, ...]
    shares: tuple[tuple[Owner, float], ...]
    half_life: float

    def levels(self, row: int) -> list[Owner]:
        """Those that a row counts for, the upper one first."""
        return [self.owners[row][: level + 1] for level in range(len(self.owners[row]))]

    def rows(self, owner: Owner) -> list[int]:
        return [row for row, own in enumerate(self.owners) if own[: len(owner)] == owner]

    def ratio(self, owner: Owner, stays: Iterable[Stay], now: float) -> float:
        """What an owner's jobs used, all their stays up to now, for its share; to 31 binary digits."""
        share = dict(self.shares).get(owner, 1.0)
        if share == 0:
            return math.inf
        used = math.fsum(gpus * self.aged(start, end, now) for gpus, start, end in stays)
        part, exponent = math.frexp(used / share)
        return math.ldexp(round(part * 2.0**31), exponent - 31)

    def aged(self, start: float, end: float, now: float) -> float:
        """The integral of 2^(-age / half-life) over a stay: its last second counts most."""
        length, age = (end - start) / self.half_life, (now - end) / self.half_life
        return self.half_life / math.log(2.0) * -math.expm1(-length * math.log(2.0)) * 2.0**-age
