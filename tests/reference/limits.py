"""The reference model of time limits, straight from docs/operators-reference.md.

A world of limits stands on top of any other, so that it serves every policy. How long a job has held its GPUs
is read from what is written of its stays. Nothing here imports ringbco.
"""

import math
from dataclasses import dataclass, field

from reference.mechanism import World as PreemptWorld
from reference.running import RunningJob


@dataclass(frozen=True)
class Limits:
    """By row the limit, s, infinite for none.

    estimated: whether EASY goes by it. enforced: whether it ends jobs. reached: told which rows ended so.
    """

    limits: tuple[float, ...]
    estimated: bool
    enforced: bool
    reached: set[int] = field(default_factory=set)


def limited_world(facts: Limits, base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base` with limits."""

    class Limited(base):  # type: ignore[misc, valid-type]
        def limit_of(self, run: RunningJob) -> float:
            """When its job will have held GPUs for as long as it may."""
            limit, held = facts.limits[run.row], self.result.held[run.row]
            if limit == math.inf or not facts.enforced:
                return math.inf
            if self.slotted:
                slots = math.ceil(limit / self.options.slot)
                slots = next(n for n in range(max(0, slots - 2), slots + 3) if n * self.options.slot >= limit)
                return run.start + max(0, slots - round(held / self.options.slot))
            return run.start + max(0.0, limit - held)

        def is_first(self, run: RunningJob) -> bool:
            """Whether the limit comes before the end or the rung: a rung at the same instant is too late."""
            limit, end = self.limit_of(run), super().end_of(run)
            near = 1e-12 * (limit - run.start) + 64 * math.ulp(limit) if limit < math.inf else 0.0
            at_rung = self.mark(run.row) > 0
            return limit < math.inf and (end >= limit - near if at_rung else end > limit + near)

        def end_of(self, run: RunningJob) -> float:
            return self.limit_of(run) if self.is_first(run) else super().end_of(run)

        def comes_to_end(self, run: RunningJob) -> bool:
            return bool(super().comes_to_end(run) or self.now >= self.limit_of(run))

        def ends(self, run: RunningJob) -> bool:
            if self.slotted:
                at_end = super().comes_to_end(run) and not self.mark(run.row) > 0
                is_cut = self.now >= self.limit_of(run) and not at_end
            else:
                is_cut = self.is_first(run)
            if not is_cut:
                return bool(super().ends(run))
            self.stop(run)
            self.result.finish[run.row] = self.seconds(self.now)
            self.forget(run.row)
            facts.reached.add(run.row)
            self.completed = True  # to replicas of services, which are tried again
            return True

        def is_lost(self, row: int) -> bool:
            return row in facts.reached or bool(super().is_lost(row))

        def reckoned(self, row: int) -> float:
            if not facts.estimated:
                return float(super().reckoned(row))
            return max(0.0, facts.limits[row] - self.result.held[row])

    return Limited
