"""The reference model of fair share over the past: docs/operators-reference.md. Imports no ringbco."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

Stay = tuple[float, float, float]
"""(GPUs, from, to), s."""


@dataclass(frozen=True)
class Fair:
    """By row whose job it is; the shares that are not 1; s."""

    owners: tuple[str | None, ...]
    shares: tuple[tuple[str, float], ...]
    half_life: float

    def ratio(self, owner: str | None, stays: Iterable[Stay], now: float) -> float:
        """What an owner's jobs used, all their stays up to now, for its share; to 31 binary digits."""
        share = dict(self.shares).get(owner or "", 1.0)
        if share == 0:
            return math.inf
        used = math.fsum(gpus * self.aged(start, end, now) for gpus, start, end in stays)
        part, exponent = math.frexp(used / share)
        return math.ldexp(round(part * 2.0**31), exponent - 31)

    def aged(self, start: float, end: float, now: float) -> float:
        """The integral of 2^(-age / half-life) over a stay: its last second counts most."""
        length, age = (end - start) / self.half_life, (now - end) / self.half_life
        return self.half_life / math.log(2.0) * -math.expm1(-length * math.log(2.0)) * 2.0**-age
