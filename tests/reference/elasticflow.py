"""The filling and the admission of `elasticflow`, straight from docs/elastic-policies.md.

A part of the model of the policies that resize jobs. Nothing here imports ringbco.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from reference.running import RunningJob
from reference.shares import MILLI_GPU
from reference.types import Types


@dataclass(frozen=True)
class Elastic:
    """What the policies are told. Times in seconds; one value a row where there are several."""

    policy: str
    least: tuple[int, ...]
    most: tuple[int, ...]
    deadlines: tuple[float, ...]  # NaN: none
    resize_every: float = 300.0
    interval: float | None = None
    start: float = 0.0
    preempt: float = 30.0
    move: float | None = None
    resize: float | None = None
    """As `preempt` if they are None."""
    noise: tuple[tuple[float, int], ...] = ()
    """phi and M of each job; phi may be infinite, as it is for all where nothing is given."""
    after: float = 0.0
    protected_most: float = math.inf
    kept: frozenset[int] = frozenset()
    own: Mapping[int, float] = field(default_factory=dict)
    """As `Preemption.after`, `most`, `kept` and `own`."""


@dataclass(frozen=True)
class Taken:
    """Thousandths of GPUs of a type that are not free from `start` to `end`."""

    gpu_type: int
    milli_gpus: int
    start: float
    end: float


class Filling:
    """Of a world of policies that resize jobs."""

    elastic: ClassVar[Elastic]
    kinds: ClassVar[Types]

    @property
    def world(self) -> Any:
        """Itself, as the world that it is a part of."""
        return self

    def deadline(self, row: int) -> float:
        return math.inf if math.isnan(self.elastic.deadlines[row]) else self.elastic.deadlines[row]

    def free_at(self, time: float, gpu_type: int, taken: Sequence[Taken]) -> int:
        busy = sum(t.milli_gpus for t in taken if t.gpu_type == gpu_type and t.start <= time < t.end)
        return int(MILLI_GPU * sum(self.kinds.sizes(gpu_type, self.world.up()).values()) - busy)

    def run_with(self, row: int, share: int, gpu_type: int, taken: Sequence[Taken]) -> list[Taken] | None:
        """What a job with that share takes until it is done; None if it is not by its deadline."""
        now = self.world.seconds(self.world.now)
        changes = sorted({now} | {t for each in taken for t in (each.start, each.end) if t > now})
        left = self.world.work_left(row)
        takes: list[Taken] = []
        for a, b in zip(changes, [*changes[1:], math.inf], strict=True):
            if a == math.inf:
                break
            gpus = min(share, self.free_at(a, gpu_type, taken) // self.world.milli_gpus(row, 1))
            if gpus < self.elastic.least[row]:
                continue
            speed = self.world.speed(row, gpus, gpu_type)
            end = a + left / speed if speed > 0 else math.inf
            if end <= b and end < math.inf:
                soon = math.nextafter(a, math.inf)
                takes.append(Taken(gpu_type, self.world.milli_gpus(row, gpus), a, max(end, soon)))
                return takes if end <= self.elastic.deadlines[row] else None
            takes.append(Taken(gpu_type, self.world.milli_gpus(row, gpus), a, b))
            left = max(0.0, left - (b - a) * speed) if speed > 0 else left
        return None

    def fill(
        self, rows: Sequence[int], taken: list[Taken], kept: dict[int, Taken]
    ) -> dict[int, list[Taken] | None]:
        """What each of `rows` takes, one after another; None for those that are late.

        kept: of `taken`, what is for those that are protected.
        """
        filled: dict[int, list[Taken] | None] = {}
        held = {run.row: self.world.type_of(run) for run in self.world.running}
        for row in rows:
            filled[row] = None
            if row in kept:
                taken.remove(kept[row])
            for gpu_type in [held[row]] if row in held else self.world.tried(row):
                for share in range(self.elastic.least[row], self.elastic.most[row] + 1):
                    if filled[row] is None:
                        filled[row] = self.run_with(row, share, gpu_type, taken)
            own = [kept[row]] if row in kept else []
            taken += own if filled[row] is None else filled[row]
        return filled

    def admits(self, row: int) -> bool:
        if math.isnan(self.elastic.deadlines[row]):
            return True
        present = [*self.world.waiting, *(run.row for run in self.world.running)]
        others = [other for other in present if not math.isnan(self.elastic.deadlines[other])]
        without = self.fill(sorted(others, key=self.world.base_key), [], {})
        with_it = self.fill(sorted([*others, row], key=self.world.base_key), [], {})
        return with_it[row] is not None and not any(
            with_it[other] is None and without[other] is not None for other in others
        )

    def reserve(
        self,
        order: list[int],
        taken: list[Taken],
        number: dict[int, int],
        draws: dict[int, int],
        free: dict[int, int],
    ) -> None:
        """Numbers of this instant by filling, as far as owners may have so many."""
        now = self.world.seconds(self.world.now)
        kept = {
            row: self.until_done(row, self.elastic.least[row], draws[row])
            for row in order
            if self.world.is_protected(row)
        }
        taken += kept.values()
        due = [row for row in order if not math.isnan(self.elastic.deadlines[row])]
        for row, takes in self.fill(due, taken, kept).items():
            if takes is not None:
                draws[row] = takes[0].gpu_type
                taken_now = sum(t.milli_gpus for t in takes if t.start == now) // self.world.milli_gpus(
                    row, 1
                )
                more = int(min(max(0, taken_now - number[row]), self.world.room(row, number)))
                more = more if number[row] + more >= self.elastic.least[row] else 0
                number[row] += more
                free[draws[row]] -= self.world.milli_gpus(row, more)

    def until_done(self, row: int, gpus: int, gpu_type: int) -> Taken:
        """What a job takes that keeps so many GPUs until it is done."""
        now = self.world.seconds(self.world.now)
        end = max(now + self.world.time(row, gpus, gpu_type), math.nextafter(now, math.inf))
        return Taken(gpu_type, self.world.milli_gpus(row, gpus), now, end)

    def taken_by(self, young: list[RunningJob]) -> list[Taken]:
        now, taken = self.world.seconds(self.world.now), []
        for run in young:
            kind = self.world.type_of(run)
            end = self.until_done(run.row, len(run.gpus), kind).end
            # What is given back on a server that drains is nobody's.
            stuck = sum(server in self.world.draining for server, _ in run.gpus)
            for gpus, until in ((len(run.gpus) - stuck, end), (stuck, math.inf)):
                if gpus:
                    taken.append(Taken(kind, self.world.milli_gpus(run.row, gpus), now, until))
        return taken
