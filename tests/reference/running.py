"""A job on GPUs, as the models of policies that preempt have it. Nothing here imports ringbco."""

import math
from dataclasses import dataclass

from reference.model import GPU


@dataclass(eq=False)  # each is one of its own
class RunningJob:
    """A job on GPUs, from `start`; progress from `begin`. Times in seconds, or slots under the slot clock."""

    row: int
    gpus: list[GPU]
    start: float
    begin: float
    p: int = 0
    bandwidth: float | None = None  # in a network of tiers, where it spans
    without: float | None = None  # the same were there no uplinks
    own: float | None = None  # and nobody else
    crossing: float = 0.0  # largest n at an uplink so far
    tau: float = math.nan
    phi: float = 0
    most: int = 0  # largest p so far
    left: float = 0.0  # at `since`; under the slot clock always up to date
    since: float = 0.0
    cost: float = 0.0  # seconds of its pause, or of the latest checkpoint
    order: int = -1  # among the stays of the run, where jobs may sit on the same GPUs
    seat: int = -1  # there, but for shares

    @property
    def servers(self) -> set[int]:
        return {s for s, _ in self.gpus}
