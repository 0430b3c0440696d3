"""Who goes before whom: priorities, quotas and services, as the reference model is told of them.

Nothing here imports ringbco.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reference.model import GPU


@dataclass(frozen=True)
class Quota:
    """How many GPUs an owner's jobs may hold together, and whether jobs may start beyond that."""

    gpus: int
    borrow: bool


@dataclass(frozen=True)
class Book:
    """A file of quotas: by row whose job it is, and the quotas by owner."""

    owners: tuple[str | None, ...]
    quotas: tuple[tuple[str, Quota], ...]

    def quota(self, row: int) -> Quota | None:
        return dict(self.quotas).get(self.owners[row] or "")

    def rows(self, row: int, among: Iterable[int]) -> list[int]:
        """The rows of the same owner."""
        return [other for other in among if self.owners[other] == self.owners[row]]


@dataclass(frozen=True)
class Load:
    """A row of the file of services."""

    service: str
    time: float
    replicas: int
    gpus_per_replica: int


@dataclass(frozen=True)
class Claims:
    """Who goes before whom: one value per row, and what the run is told."""

    priority: tuple[int, ...]
    preemptible: tuple[bool, ...]
    evict: bool = False
    books: tuple[Book, ...] = ()
    loads: tuple[Load, ...] = ()
    column: tuple[float, ...] = ()
    """`--order column:NAME`, if given."""
    victims: str = "least"
    evict_after: float = 0.0
    """Seconds."""
    evict_loses: bool = False
    preempt_loses: bool = False

    def losing(self) -> set[str]:
        """How stays end that lose work."""
        return {*(["evicted"] * self.evict_loses), *(["preempted"] * self.preempt_loses)}

    def quotas(self, row: int) -> list[tuple[Book, Quota]]:
        """That of each book that has one for its owner there."""
        return [(book, quota) for book in self.books if (quota := book.quota(row)) is not None]

    def beyond(self, row: int, gpus: int, held: Mapping[int, int]) -> list[Quota]:
        """The quotas that `gpus` more would exceed. held: GPUs by row."""
        return [
            quota
            for book, quota in self.quotas(row)
            if sum(held[other] for other in book.rows(row, held)) + gpus > quota.gpus
        ]

    def services(self) -> list[str]:
        return list(dict.fromkeys(load.service for load in self.loads))

    def size(self, service: str) -> int:
        return next(load.gpus_per_replica for load in self.loads if load.service == service)

    def wanted(self, service: str, now: float) -> int:
        """Replicas that it wants: those of its latest row."""
        come = [load for load in self.loads if load.service == service and load.time <= now]
        return max(come, key=lambda load: load.time).replicas if come else 0


@dataclass
class Replica:
    """Times in seconds; `end` is infinite while it runs."""

    service: str
    gpus: list[GPU]
    start: float
    end: float = math.inf

    @property
    def server(self) -> int:
        return self.gpus[0][0]


@dataclass
class Log:
    """What else came of a run: evictions by row, and all replicas in order of their starts."""

    evictions: list[int]
    replicas: list[Replica] = field(default_factory=list)
