"""The reference model of searches: trials that climb rungs, straight from docs/searches.md.

A world of searches stands on that of outages, so it serves every ranking and every queue. Who may go on from
a rung is worked out anew from all that have reached it. Nothing here imports ringbco.
"""

from dataclasses import dataclass, field
from typing import Any

from reference.mechanism import World as PreemptWorld
from reference.running import RunningJob

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15

Curve = tuple[float, float, float]
"""(a, b, c): the loss is a + 1 / (b + c part)."""


def splitmix(state: int) -> int:
    """The output of SplitMix64 that a state makes."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & MASK
    return state ^ (state >> 31)


def curve(seed: int, job_id: str) -> Curve:
    """How the loss of a trial falls."""
    state = 0xCBF29CE484222325
    for byte in f"{job_id}:loss".encode():
        state = (state ^ byte) * 0x100000001B3 & MASK
    own = splitmix(state + (seed + 1) * GOLDEN & MASK)
    draws = [(splitmix(own + n * GOLDEN & MASK) >> 11) / 2.0**53 for n in (1, 2, 3)]
    return draws[0], 0.25 + 0.75 * draws[1], 1.0 + 99.0 * draws[2]


@dataclass(frozen=True)
class Search:
    """eta and rungs; the search of every row, None for none; the curve of every row."""

    eta: int
    rungs: int
    groups: tuple[int | None, ...]
    curves: tuple[Curve, ...]


@dataclass
class Climbs:
    """What the run makes of trials; times in seconds.

    reached: (row, rung, time, loss) in order. went_on: when each (row, rung) went on. pauses: by row. ended:
    the rows that ended at a rung.
    """

    reached: list[tuple[int, int, float, float]] = field(default_factory=list)
    went_on: dict[tuple[int, int], float] = field(default_factory=dict)
    pauses: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)


def searching_world(search: Search, climbs: Climbs, base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base` with trials."""

    class Searching(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.rung = dict.fromkeys(self.jobs, 0)
            """Rungs that each trial has reached."""
            self.at_rung: list[RunningJob] = []
            self.paused: set[int] = set()
            self.back: list[int] = []
            """Trials that wait again from this instant on."""

        def whole(self, row: int) -> float:
            if self.fixed and self.slotted:
                return self.jobs[row].duration / self.options.slot
            return super().whole(row)  # type: ignore[no-any-return]

        def left_at(self, row: int, rung: int) -> float:
            whole = self.whole(row)
            return whole - whole / float(search.eta ** (search.rungs - rung))

        def mark(self, row: int) -> float:
            if search.groups[row] is None or self.rung[row] == search.rungs:
                return 0.0
            return self.left_at(row, self.rung[row])

        def ends(self, run: RunningJob) -> bool:
            if search.groups[run.row] is None or self.rung[run.row] == search.rungs:
                return super().ends(run)  # type: ignore[no-any-return]
            self.at_rung.append(run)
            return False

        def arrive(self) -> bool:
            self.back = []
            happened = False
            while self.at_rung:  # a next rung may be so near that it is reached at once
                happened |= self.judge()
                happened |= self.further()
            line = list(self.line)
            happened |= super().arrive()
            happened |= self.judge()  # admission may have refused trials that others waited for
            came = [row for row in self.line if row not in line] + self.back
            self.line = line + sorted(came, key=self.fifo)
            return happened

        def reconsiders(self) -> bool:
            return self.judge()

        def further(self) -> bool:
            happened = False
            for run in sorted(self.running, key=lambda run: run.row):
                done = self.comes_to_end(run) if self.slotted else self.end_of(run) <= self.now
                if done and run not in self.at_rung:
                    happened |= self.ends(run)
            return happened

        def loss(self, row: int, rung: int) -> float:
            a, b, c = search.curves[row]
            return a + 1.0 / (b + c * (1.0 / float(search.eta ** (search.rungs - rung))))

        def judge(self) -> bool:
            now = self.seconds(self.now)
            came = {run.row: run for run in self.at_rung}
            self.at_rung = []
            for row in sorted(came):
                rung = self.rung[row]
                self.rung[row] += 1
                climbs.reached.append((row, rung, now, self.loss(row, rung)))
                self.goes_on_from(came[row], self.left_at(row, rung), self.now)
            happened = False
            for group in sorted({g for row in self.jobs if (g := search.groups[row]) is not None}):
                trials = [row for row in self.jobs if search.groups[row] == group]
                for rung in range(search.rungs):
                    happened |= self.judge_rung(trials, rung, came)
            for row, run in came.items():
                if row not in climbs.ended and (row, self.rung[row] - 1) not in climbs.went_on:
                    self.keep(run)
                    self.leave(run)
                    self.paused.add(row)
                    climbs.pauses[row] = climbs.pauses.get(row, 0) + 1
                    happened = True
            return happened

        def judge_rung(self, trials: list[int], rung: int, came: dict[int, RunningJob]) -> bool:
            now = self.seconds(self.now)
            there = [row for row in trials if self.rung[row] > rung]
            best = sorted(there, key=lambda row: (self.loss(row, rung), *self.fifo(row)))
            chosen = best[: len(there) // search.eta]
            lost = [row for row in trials if row not in there and self.is_lost(row)]
            closed = len(there) + len(lost) == len(trials)
            if closed and there and not any((row, rung) in climbs.went_on for row in there + chosen):
                chosen = chosen or best[:1]
            happened = False
            for row in chosen:
                if (row, rung) in climbs.went_on:
                    continue
                climbs.went_on[row, rung] = now
                if row not in came:
                    self.paused.remove(row)
                    self.waiting.append(row)
                    self.back.append(row)
                    happened = True
            if closed:
                for row in there:
                    if (row, rung) not in climbs.went_on and row not in climbs.ended:
                        climbs.ended.add(row)
                        self.result.kept[row] = False
                        self.paused.discard(row)
                        if row in came:
                            self.leave(came[row])
                        happened = True
            return happened

        def is_lost(self, row: int) -> bool:
            return row in climbs.ended or self.result.refused[row]

        def saved_columns(self, row: int) -> list[tuple[Any, Any]]:
            own = [(climbs.pauses, climbs.pauses.get(row, 0))]
            return super().saved_columns(row) + own  # type: ignore[no-any-return]

        def leave(self, run: RunningJob) -> None:
            left = run.left
            self.stop(run)
            self.completed = True  # to replicas of services, which are tried again
            self.left[run.row] = left
            self.forget(run.row)

    return Searching
