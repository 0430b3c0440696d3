"""Custom policies for random cases, of each rung.

like: the options of a run that must be the same, if there is one. resizes: whether a job's range counts.
"""

import contextlib
import math
from typing import Any, ClassVar

import numpy as np

import ringbco


def may_start(state: ringbco.State, row: Any) -> bool:
    """Whether a quota without borrowing does not hold a job back."""
    gpus = state.jobs.num_gpus[row]
    return all(
        quota is None or quota.borrow or quota.held + gpus <= quota.gpus for quota in state.quotas(row)
    )


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
        return state.remaining_time[rows]


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

    def __init__(self) -> None:
        self.came: dict[int, int] = {}
        """By row its number: those of one submission come together, in the order of fifo."""

    def decide(self, state: ringbco.State) -> None:
        for row in state.waiting:
            self.came.setdefault(int(row), len(self.came))
        if not state.evicts:
            state.start(state.waiting)
            return
        last = (-math.inf, 0.0, 0)
        # Whoever is evicted on the way has a turn, too, if it is to come.
        while coming := [row for row in state.waiting if self.place(state, row) > last]:
            row, last = coming[0], self.place(state, coming[0])
            if may_start(state, row) and not state.start(row):
                return

    def place(self, state: ringbco.State, row: Any) -> tuple[float, float, int]:
        """In the order of fifo. Jobs after others come when their turn may be over: theirs is by row."""
        priority = state.jobs.priority[row] if "priority" in state.jobs else 0
        number = int(row) if "after" in state.jobs else self.came[int(row)]
        return -float(priority or 0), float(state.jobs.submit_time[row]), number


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
        state.start([row for row in state.waiting if may_start(state, row)], strict=False)
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


class Paired(Restless):
    """Starts jobs beside others now and then, too, whether they may or not."""

    def decide(self, state: ringbco.State) -> None:
        for row in list(state.waiting):
            if len(state.started) and self.rng.random() < 0.7:
                other = int(self.rng.choice(state.started))
                crowd = len(state.beside(other))
                with contextlib.suppress(ringbco.DecisionError):
                    state.start(row, beside=other)
                    assert len(state.beside(row)) == crowd + 1
        super().decide(state)

    def disturb(self, state: ringbco.State) -> None:
        if self.rng.random() < 0.4:
            self.rejoin(state)
        else:
            super().disturb(state)

    def rejoin(self, state: ringbco.State) -> None:
        """Stops one, and starts it again on the same GPUs, on others or beside another."""
        row, other = (int(self.rng.choice(state.running)) for _ in range(2))
        with contextlib.suppress(ringbco.DecisionError):
            state.stop(row)
            if other != row and self.rng.random() < 0.7:
                state.start(row, beside=other)
