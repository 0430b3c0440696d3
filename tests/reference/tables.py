"""The reference model of measured speeds: the models under model `table`, straight from docs/tables.md.

A job's rate is looked up in rows as they were written. Nothing here imports ringbco.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from reference.mechanism import World as PreemptWorld
from reference.model import Job, iterations_per_slot
from reference.running import RunningJob
from reference.types import Types, preempt_world

Row = tuple[int, int, int, int, float]
"""Model, type, GPUs, servers, iterations a second."""


def rate(rows: Sequence[Row], model: int, gpu_type: int, gpus: int, servers: int) -> float | None:
    """What the table says; None where it says nothing."""
    mine = [row for row in rows if row[:2] == (model, gpu_type)]
    measured = sorted({row[3] for row in mine})
    # The most servers not above the real ones first, then the fewest above.
    for count in [n for n in reversed(measured) if n <= servers] + [n for n in measured if n > servers]:
        sizes = {row[2]: row[4] for row in mine if row[3] == count}
        if gpus in sizes:
            return sizes[gpus]
        low = max((size for size in sizes if size < gpus), default=None)
        high = min((size for size in sizes if size > gpus), default=None)
        if low is not None and high is not None:
            return sizes[low] + (sizes[high] - sizes[low]) * ((gpus - low) / (high - low))
    return None


@dataclass(frozen=True)
class MeasuredJob(Job):
    """A job whose iteration takes what the table says of its model and of the type `on`."""

    rows: tuple[Row, ...] = ()
    measured_as: int = 0
    on: int = 0

    def seconds(self, num_servers: int) -> float:
        """Seconds an iteration takes; infinite where the rate is 0."""
        result = rate(self.rows, self.measured_as, self.on, self.num_gpus, num_servers)
        assert result is not None, "every job that runs has an entry"
        return 1.0 / result if result > 0 else math.inf


@dataclass(frozen=True)
class TableTypes(Types):
    """Types whose speeds are those of the table."""

    def on(self, row: int, job: Job, gpu_type: int) -> Job:
        assert isinstance(job, MeasuredJob)
        return replace(job, on=gpu_type)


def table_preempt_world(types: TableTypes) -> type[PreemptWorld]:
    """The model of the policies that preempt."""

    class TableWorld(preempt_world(types)):  # type: ignore[misc] - a class made by a function
        def pause(self, cost: float) -> float:
            return parts_of_slots(cost, self.options.slot) if self.slotted else cost

        def yielded(self, run: RunningJob) -> float:
            return in_slot(self, run, self.tau(run, run.p))

    return TableWorld


def parts_of_slots(cost: float, slot: float) -> Any:
    """A pause to the second, in slots: what is left of the slot in which it ends is worked in.

    A fraction, since no float has a part of a slot that is far from time 0.
    """
    whole = math.floor(cost / slot)
    return whole + Fraction(cost - whole * slot) / Fraction(slot)


def in_slot(world: PreemptWorld, run: RunningJob, tau: float) -> float:
    """Iterations of `tau` seconds in the slot that ends now; in the rest of it where a pause ends within."""
    if world.now - run.since >= 1.0:
        return run.phi
    slot = world.options.slot
    rest = run.cost - math.floor(run.cost / slot) * slot
    return iterations_per_slot(tau, slot - rest)
