"""What the reference models of policies that preempt are told. Nothing here imports ringbco."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

INTERVALS = ("tiresias", "gittins", "ftf", "time-slice")
"""Policies that always decide at multiples of an interval."""


@dataclass(frozen=True)
class Preemption:
    """What the preemptive policies are told."""

    policy: str
    cost: float = 30.0
    thresholds: tuple[float, ...] = (18_000.0,)
    interval: float | None = 60.0
    admission: bool = False
    start_cost: float = 0.0
    move_cost: float | None = None
    """Of who is preempted and placed elsewhere at one instant; as `cost` if it is None."""
    within: str = "fifo"
    after: float = 0.0
    """Seconds of a stay for which its job is protected (docs/operators-reference.md)."""
    most: float = math.inf
    """Stays ended for others after which a job is protected."""
    kept: frozenset[int] = frozenset()
    """Rows that are protected for good."""
    own: Mapping[int, float] = field(default_factory=dict)
    """By row the cost of a preemption, where a job has its own."""
    by_cost: float = 0.0
    """A stay is protected for so many times that cost, too..."""
    until_saved: Mapping[int, float] = field(default_factory=dict)
    """...and, by row, for what it then takes to save, s."""

    def protected_for(self, row: int) -> float:
        """Seconds of a stay for which a job is protected."""
        return self.after + self.by_cost * self.price(row, None) + self.until_saved.get(row, 0.0)

    def price(self, row: int, given: float | None) -> float:
        """What a job pays that is resumed, or changes its GPUs; given: what an option says of a change."""
        return self.own.get(row, self.cost) if given is None else given

    @property
    def ticks(self) -> bool:
        """Whether it decides at multiples of the interval only."""
        return self.policy in INTERVALS or (self.policy in ("srtf", "srsf") and self.interval is not None)
