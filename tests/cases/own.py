"""Policies of one's own for random cases, of each rung.

like: the options of a run that must be the same, if there is one. resizes: whether a job's range counts.
"""

import contextlib
from typing import Any, ClassVar

import numpy as np

import ringbco


class Keyed(ringbco.KeyPolicy):
    """The fewest GPUs first, as `smallest`."""

    resizes: ClassVar = False
    like: ClassVar[dict[str, Any]] = {"order": "smallest"}

    def key(self, state: ringbco.State, rows: Any) -> Any:
        return state.jobs.num_gpus[rows].astype(float)


class LeastLeft(ringbco.RankPolicy):
    """As `srtf`."""

    resizes: ClassVar = False
    clairvoyant = True
    preemptive = True
    like: ClassVar[dict[str, Any]] = {"policy": "srtf"}

    def rank(self, state: ringbco.State, rows: Any) -> Any:
        return state.remaining[rows]


class Smallest(ringbco.RankPolicy):
    """As `smallest` with discipline skip."""

    resizes: ClassVar = False
    preemptive = False
    like: ClassVar[dict[str, Any]] = {"order": "smallest", "queue": "skip"}

    def rank(self, state: ringbco.State, rows: Any) -> Any:
        return state.jobs.num_gpus[rows].astype(float)


class InTurn(ringbco.Policy):
    """As `fifo`."""

    resizes: ClassVar = False
    like: ClassVar[dict[str, Any]] = {"order": "fifo", "queue": "strict"}

    def decide(self, state: ringbco.State) -> None:
        state.start(state.waiting)


class Restless(ringbco.Policy):
    """Uses every verb now and then, by a stream of numbers of its own."""

    resizes: ClassVar = True
    like: ClassVar[None] = None

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.calls = 0

    def decide(self, state: ringbco.State) -> None:
        self.calls += 1
        if self.calls < 60 and len(state.running):
            self.disturb(state)
        state.start(state.waiting, strict=False)
        if self.calls < 60 and self.rng.random() < 0.2:
            state.wake(state.now + float(self.rng.integers(1, 20)))

    def disturb(self, state: ringbco.State) -> None:
        row = int(self.rng.choice(state.running))
        drawn = self.rng.random()
        if drawn < 0.2:
            state.stop(row)
        elif drawn < 0.6:
            gpus = int(self.rng.integers(state.jobs.min_gpus[row], state.jobs.max_gpus[row] + 1))
            with contextlib.suppress(ringbco.DecisionError):
                state.resize(row, gpus)
        elif drawn < 0.65 and self.calls > 1:
            state.end(row)
