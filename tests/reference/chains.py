"""The reference model of chains: jobs that arrive after others, straight from docs/chains.md.

A world of chains stands on top of all others. A job is gone once it is in no list: neither to come, nor
waiting, running or at a rung. Nothing here imports ringbco.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reference.mechanism import World as PreemptWorld


@dataclass(frozen=True)
class Chains:
    """By row: the row of the job after which it arrives, and the seconds from its end; None for none."""

    after: Sequence[int | None]
    think_time: Sequence[float | None]


def chained_world(chains: Chains, base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base` with jobs after others."""

    class Chained(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.ended: dict[int, float] = {}
            """When each job was gone, s."""

        def arrival_of(self, row: int) -> float:
            before, submit = chains.after[row], self.jobs[row].submit
            if before is None or before not in self.jobs:  # it was left out: gone before the beginning
                return submit
            if before not in self.ended:
                return float("inf")
            think = chains.think_time[row]
            return max(submit, self.ended[before]) if think is None else self.ended[before] + think

        def note_ends(self) -> None:
            here = {*self.future, *self.waiting, *getattr(self, "paused", ())}
            here |= {run.row for run in self.running}
            for row in self.jobs:
                if row not in here:
                    self.ended.setdefault(row, self.seconds(self.now))

        def reconsiders(self) -> bool:
            again = super().reconsiders()
            self.note_ends()
            come = any(self.arrival_of(row) <= self.seconds(self.now) for row in self.future)
            return bool(again or come)

    return Chained
