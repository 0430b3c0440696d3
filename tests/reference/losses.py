"""The reference model of stays that lose work as others take their GPUs: docs/policies.md.

Nothing here imports ringbco.
"""

from dataclasses import dataclass
from typing import Any

from reference.mechanism import World as PreemptWorld
from reference.running import RunningJob


@dataclass
class Ending:
    """What an ended stay leaves of its job: the work left, and the lost work so far."""

    time: float
    full: tuple[float, float]
    fallen: tuple[float, float]


def losing_world(losing: set[str], base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base`, one of outages. losing: how stays end that lose work, as netting names it."""
    if not losing:
        return base

    class Losing(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.endings: dict[int, Ending] = {}
            """The latest of each row."""

        def saved_columns(self, row: int) -> list[tuple[Any, Any]]:
            own = [(self.result.lost_work, self.result.lost_work[row])]
            return super().saved_columns(row) + own  # type: ignore[no-any-return]

        def has_left(self, row: int) -> tuple[float, float]:
            return self.left[row], self.result.lost_work[row]

        def interrupt(self, run: RunningJob) -> bool:
            row, begun = run.row, self.left[run.row]
            ended = bool(super().interrupt(run))
            if ended:
                full = self.has_left(row)
                self.fall_back(run, begun)
                self.endings[row] = Ending(self.now, full, self.has_left(row))
                self.settle(row)
            return ended

        def tell(self, row: int, before: str, after: str) -> None:
            super().tell(row, before, after)
            self.settle(row)

        def settle(self, row: int) -> None:
            """The work left of a job, by how its stay ended at this instant as far as it is known."""
            ending, how = self.endings.get(row), self.stops[row][-1:]
            if ending is not None and ending.time == self.now and how and how[0][0] == self.now:
                falls = how[0][1] in losing
                self.left[row], self.result.lost_work[row] = ending.fallen if falls else ending.full

    return Losing
