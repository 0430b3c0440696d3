"""The rule of repack.py as a custom policy, for jobs of one grade on GPUs that are alike.

The engine carries out what it decides: mechanism.py is the reference model of that part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ringbco
from reference.predictions import Predictions
from reference.repack import Rule
from reference.repack_view import Parts


class Repack(ringbco.Policy):
    """The rule as a custom policy: the engine carries out what it decides.

    tau: by row, seconds per iteration on the fewest servers without contention; 1 under `fixed`.
    cost: `--preempt-cost` in seconds, under the slot clock that of whole slots.
    """

    clairvoyant = True
    evicts = False

    def __init__(
        self,
        tau: NDArray[np.float64],
        cost: float,
        predictions: Predictions | None = None,
        tail: float = 0.5,
    ) -> None:
        self.tau, self.cost = tau, cost
        self.rule = Rule(self, predictions, tail)
        self.resumes: dict[int, float] = {}
        """When the pause of a running job ends."""
        self.ran: set[int] = set()
        self.wholes: dict[int, float] = {}
        self.changed = False
        """Whether somebody came or went since the last pass."""

    def decide(self, state: Any) -> None:
        self.state, self.now = state, float(state.now)
        self.before = self.parts()
        for row in state.completed:
            self.resumes.pop(int(row), None)
        self.wholes |= {int(row): self.left(row) for row in state.arrived}
        self.changed |= len(state.arrived) + len(state.completed) > 0
        if self.rule.predictions is not None:
            self.rule.predictions.news(state.completed)
        if len(state.waiting) and (self.changed or self.now >= self.rule.next):
            self.changed = False
            own = None if state.vc is None else state.jobs.vc[state.waiting[0]]
            sizes = enumerate(map(int, state.gpus))
            self.sizes = {s: size for s, size in sizes if own is None or state.vc[s] == own}
            self.rule.one_pass()
            if self.rule.next < math.inf:
                state.wake(self.rule.next)
        self.resumes = {row: self.resume(row) for row in self.parts()}
        self.ran |= set(self.parts())
        del self.state

    def waiting(self) -> list[int]:
        return [int(row) for row in self.state.waiting]

    def parts(self) -> dict[int, Parts]:
        return {int(row): self.state.allocation(row) for row in self.state.running}

    def idle(self, server: int) -> int:
        return int(self.state.idle[server])

    def of_type(self, gpu_type: int) -> dict[int, int]:
        return self.sizes

    def tried(self, row: int) -> list[int]:
        return [0]

    def type_of(self, row: int) -> int:
        return 0

    def ratio(self, row: int, gpu_type: int) -> float:
        return 1.0

    def gpus(self, row: int) -> int:
        return int(self.state.jobs.num_gpus[row])

    def share(self, row: int) -> float:
        return 0.0

    def gpu_of(self, row: int) -> int:
        raise AssertionError("no job of these cases holds a share")

    def idle_gpus(self, gpu_type: int) -> float:
        return float(self.state.idle.sum())

    def tier(self, row: int) -> int:
        return 0

    def quotas(self, row: int) -> list[tuple[tuple[int, str], int, bool]]:
        return []

    def fifo(self, row: int) -> tuple[float, int]:
        return self.origin(row), row

    def origin(self, row: int) -> float:
        return float(self.state.jobs.submit_time[row])

    def left(self, row: int) -> float:
        return float(self.state.remaining_iterations[row] * self.tau[row])

    def whole(self, row: int) -> float:
        return self.wholes[row]

    def resume(self, row: int) -> float:
        """When the pause ends of a job that runs now."""
        if self.state.allocation(row) == self.before.get(row):
            return self.resumes[row]  # as if it had never left
        return self.now + (self.cost if row in self.ran else 0.0)

    def rest(self, row: int) -> float:
        return max(0.0, self.resume(row) - self.now)

    def has_run(self, row: int) -> bool:
        return row in self.ran

    @property
    def draining(self) -> set[int]:
        return {int(server) for server in self.state.draining}

    def is_drained(self, row: int) -> bool:
        return bool({server for server, _ in self.state.allocation(row)} & self.draining)

    def is_kept(self, row: int) -> bool:
        return self.is_protected(row) or self.is_drained(row)

    def is_protected(self, row: int) -> bool:
        return bool((self.state.protected == row).any())

    def is_bound(self, row: int) -> bool:
        return False  # no job names a tier in these cases

    def in_tier(self, row: int, parts: Parts) -> bool:
        return True

    def place(self, row: int) -> bool:
        return bool(self.state.start([row]))

    def put(self, row: int, parts: Parts) -> None:
        self.state.start(row, parts)

    def stop(self, rows: Sequence[int]) -> None:
        self.state.stop(list(rows))

    def make_room(self, row: int) -> None:
        raise AssertionError("nobody is evicted by the machine's rule in these cases")
