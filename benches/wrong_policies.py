"""Policies that decide otherwise than they are said to: whole runs for benches/audit_catalogue.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ringbco


class Lifo(ringbco.KeyPolicy):
    """The last that was submitted goes first."""

    def key(self, state: ringbco.State, rows: Any) -> Any:
        return -state.jobs.submit_time[rows]


@dataclass
class Late(ringbco.Policy):
    """As fifo, but nobody starts before it has waited for `delay` seconds."""

    resizes = False
    delay: float = 1.0

    def decide(self, state: ringbco.State) -> None:
        rows = state.waiting
        since = state.jobs.submit_time[rows]
        ripe = since + self.delay <= state.now
        state.start(rows[ripe])
        if not ripe.all():
            state.wake(float((since[~ripe] + self.delay).min()))


class Lazy(ringbco.Policy):
    """As fifo, but at every other decision nobody starts while others run."""

    resizes = False

    def __init__(self) -> None:
        self.calls = 0

    def decide(self, state: ringbco.State) -> None:
        self.calls += 1
        if self.calls % 2 or not len(state.running):
            state.start(state.waiting)


@dataclass
class Elsewhere(ringbco.Policy):
    """As fifo, on servers of another placement."""

    resizes = False
    placement: str = "first-fit"

    def decide(self, state: ringbco.State) -> None:
        state.start(state.waiting, placement=self.placement)


class Skipping(ringbco.Policy):
    """Passes over the first of the queue while others wait."""

    resizes = False

    def decide(self, state: ringbco.State) -> None:
        state.start(state.waiting[1:], strict=False)
        if not len(state.running):
            state.start(state.waiting)


class MostLeft(ringbco.RankPolicy):
    """Preempts for the job with the most left to do."""

    clairvoyant = True
    preemptive = True

    def rank(self, state: ringbco.State, rows: Any) -> Any:
        return -state.remaining[rows]


class Newest(ringbco.RankPolicy):
    """Preempts for the job that came last."""

    preemptive = True

    def rank(self, state: ringbco.State, rows: Any) -> Any:
        return -state.jobs.submit_time[rows]


class Least(ringbco.Policy):
    """Nobody gets more GPUs than its least, and nobody is resized."""

    def decide(self, state: ringbco.State) -> None:
        for row in state.waiting:
            if not state.start(row, gpus=int(state.jobs.min_gpus[row])):
                return


ALIKE: Final[dict[str, tuple[type[ringbco.Policy | ringbco.KeyPolicy | ringbco.RankPolicy], ...]]] = {
    "queue": (Lifo, Late, Lazy, Elsewhere, Skipping),
    "own key": (Late, Lazy, Elsewhere, Skipping),
    "ranking": (MostLeft, Newest, Late, Lazy, Elsewhere),
    "resizing": (Least, MostLeft, Newest, Lazy, Elsewhere),
    "in Python": (Least, MostLeft, Newest, Lazy, Elsewhere),
}
"""Those that a family of policies might be taken for."""
