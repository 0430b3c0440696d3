"""What the rule of `repack` sees of a world, and does to it. Nothing here imports ringbco."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Parts = list[tuple[int, int]]
"""(server, GPUs)."""


class View(Protocol):
    """The cluster as the rule sees it, at one instant. Times in seconds; servers are those of one cluster."""

    @property
    def now(self) -> float: ...
    @property
    def cost(self) -> float:
        """c of the page."""

    @property
    def sizes(self) -> dict[int, int]:
        """GPUs of each server, up or not."""

    def of_type(self, gpu_type: int) -> dict[int, int]:
        """The same of those of a GPU type."""

    def tried(self, row: int) -> list[int]:
        """The types that a job may use, in their order."""

    def type_of(self, row: int) -> int:
        """The type that a running job holds."""

    def ratio(self, row: int, gpu_type: int) -> float:
        """How many times as long it takes there as where it was recorded."""

    @property
    def evicts(self) -> bool:
        """Whether jobs may evict others by the machine's rule."""

    def waiting(self) -> list[int]: ...
    def parts(self) -> dict[int, Parts]:
        """What each running job holds."""

    def idle(self, server: int) -> int: ...
    def gpus(self, row: int) -> int:
        """num_gpus."""

    def share(self, row: int) -> float:
        """What a job takes of its GPU; 0 for whole ones."""

    def gpu_of(self, row: int) -> int:
        """The GPU, of its server, of which a running job has a share."""

    def idle_gpus(self, gpu_type: int) -> float:
        """GPUs of a type that are idle, parts of them too."""

    def tier(self, row: int) -> int:
        """The less, the higher its priority."""

    def quotas(self, row: int) -> list[tuple[tuple[int, str], int, bool]]:
        """Those of its owners: book and owner, the GPUs of the quota, whether it may borrow."""

    def fifo(self, row: int) -> tuple[float, ...]: ...
    def origin(self, row: int) -> float:
        """From when on its time counts."""

    def left(self, row: int) -> float:
        """Run time left on the fewest servers without contention."""

    def whole(self, row: int) -> float:
        """S of the page."""

    def rest(self, row: int) -> float:
        """What is left of the pause of a running job."""

    def has_run(self, row: int) -> bool: ...
    @property
    def draining(self) -> set[int]:
        """The servers that drain."""

    def is_drained(self, row: int) -> bool:
        """Whether a running job holds GPUs of a server that drains."""

    def is_kept(self, row: int) -> bool:
        """Either of both."""

    def is_protected(self, row: int) -> bool:
        """Whether a running job is protected (docs/operators-reference.md)."""

    def is_bound(self, row: int) -> bool:
        """Whether it must lie in a tier, or in segments."""

    def in_tier(self, row: int, parts: Parts) -> bool:
        """Whether it may lie there."""

    def place(self, row: int) -> bool:
        """Starts a job where the run's placement puts it, if it can."""

    def put(self, row: int, parts: Parts) -> None: ...
    def stop(self, rows: Sequence[int]) -> None: ...
    def make_room(self, row: int) -> list[int] | None:
        """Starts a job by the machine's eviction: who was evicted; None where that cannot be."""
