"""What the models of policies that preempt tell of a run."""

import math
from dataclasses import dataclass, field
from typing import Self

from reference.links import Instants
from reference.model import Net


@dataclass
class PreemptResult:
    """Per row. `allocations`: (server, GPUs, start, end) in order of (start, server), times in seconds."""

    kept: list[bool]
    refused: list[bool]
    arrival: list[float]
    """When it came; its submission, but for jobs after others."""
    start: list[float]
    finish: list[float]
    preemptions: list[int]
    held: list[float]
    lost: list[float]
    max_contention: list[int]
    allocations: list[list[tuple[int, int, float, float]]]
    wait_gpus: list[float]
    """Seconds in which it waited and fewer GPUs were idle than it asks for."""
    wait_fragmented: list[float]
    """Seconds in which it waited and enough GPUs were idle, but the placement could not use them."""
    waited: list[float]
    """Seconds in which it waited, before its first start or after a preemption."""
    run_spread: list[float]
    """Seconds that its work took longer on more servers than the fewest, without contention."""
    run_contention: list[float]
    """Seconds that its work took longer on top of that for contention."""
    run_contention_uplinks: list[float]
    """Seconds of those that its uplinks cost."""
    max_crossing: list[float]
    rounding: list[float]
    """Seconds on GPUs that whole iterations did not fill, under `rar` with the slot clock."""
    failures: list[int]
    lost_work: list[float]
    states: list[list[tuple[float, int, int, int, int]]] = field(default_factory=list)
    """(time, running, queued, busy GPUs, sum of p_j) after each instant, one list a virtual cluster."""
    seen_by_links: list[tuple[Instants, Net]] = field(default_factory=list)
    """In a network of tiers who is there after each instant, and the network, one a virtual cluster."""

    def stays(self) -> list[list[tuple[float, float]]]:
        """(start, end) of the stays of every row."""
        return [list(dict.fromkeys((start, end) for _, _, start, end in rows)) for rows in self.allocations]

    @classmethod
    def nothing_yet(cls, n: int) -> Self:
        """Of n jobs before the first instant."""
        return cls(
            kept=[True] * n,
            refused=[False] * n,
            arrival=[math.nan] * n,
            start=[math.nan] * n,
            finish=[math.nan] * n,
            preemptions=[0] * n,
            held=[0.0] * n,
            lost=[0.0] * n,
            max_contention=[0] * n,
            allocations=[[] for _ in range(n)],
            wait_gpus=[0.0] * n,
            wait_fragmented=[0.0] * n,
            waited=[0.0] * n,
            run_spread=[0.0] * n,
            run_contention=[0.0] * n,
            run_contention_uplinks=[0.0] * n,
            max_crossing=[0.0] * n,
            rounding=[0.0] * n,
            failures=[0] * n,
            lost_work=[0.0] * n,
        )
