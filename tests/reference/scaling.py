"""The reference model of how many replicas a service wants. Nothing here imports ringbco."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fixed:
    replicas: int


@dataclass(frozen=True)
class Loads:
    """counts: (time, replicas from then on)."""

    counts: Sequence[tuple[float, int]]


@dataclass(frozen=True)
class Target:
    """target: requests a replica. least, most: replicas. every, down_after: s."""

    target: float
    least: int
    most: int
    every: float = 30.0
    tolerance: float = 0.1
    down_after: float = 300.0


class Autoscaler:
    """wanted: by the last tick or load."""

    def __init__(self, scale: Fixed | Loads | Target) -> None:
        self.scale = scale
        self.wanted = scale.least if isinstance(scale, Target) else 0
        self.changed = 0.0
        """When it last wanted another number."""
        self.desired: list[tuple[float, int]] = []
        """At each tick so far."""

    def loads(self) -> list[float]:
        match self.scale:
            case Fixed():
                return [0.0]
            case Loads(counts):
                return [time for time, _ in counts]
            case Target():
                return []

    def next_tick(self, now: float) -> float:
        if not isinstance(self.scale, Target):
            return math.inf
        k = len(self.desired)
        return k * self.scale.every

    def is_due(self, now: float) -> bool:
        return now in self.loads() or now == self.next_tick(now)

    def is_settled(self, now: float) -> bool:
        """Whether more ticks change nothing, if nothing else happens."""
        return not isinstance(self.scale, Target) or now - self.changed > self.scale.down_after

    def tick(self, now: float, unanswered: int) -> None:
        before = self.wanted
        match self.scale:
            case Fixed(replicas):
                self.wanted = replicas
            case Loads(counts):
                self.wanted = dict(counts)[now]
            case Target():
                self.wanted = self.evaluate(self.scale, now, unanswered)
        if self.wanted != before:
            self.changed = now

    def evaluate(self, scale: Target, now: float, n: int) -> int:
        w = self.wanted
        if w > 0 and abs(n / (w * scale.target) - 1) <= scale.tolerance:
            desired = w
        else:
            desired = math.ceil(n / scale.target)
        desired = max(scale.least, min(scale.most, desired))
        self.desired.append((now, desired))
        if desired >= w:
            return desired
        recent = [d for time, d in self.desired if now - scale.down_after <= time <= now]
        return min(w, max(recent))
