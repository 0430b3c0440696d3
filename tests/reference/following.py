"""The reference model of a decision log, from docs/results.md: its rows are carried out, verb by verb.

Who made room for whom is worked out beside it, and must be what the log says. Nothing here imports ringbco.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from reference.deciding import ImpossibleError, Parts, State
from reference.mechanism import World as PreemptWorld
from reference.running import RunningJob

VERBS = ("start", "stop", "move", "resize", "refuse", "end", "evicted")
"""What a policy decided, and who made room for it; all else in a log is the machine's."""


class WrongError(Exception):
    """The log says what cannot be, or what the rules do not say."""


class Entry(NamedTuple):
    """A decision. time: s. parts: where its job gets GPUs. by: the row that gets those of an evicted one.
    beside: the row on whose GPUs it starts.

    number: which pass of its instant, 0 where it was before the first, on arrival. after: whether it comes
    after the move above.
    """

    time: float
    verb: str
    row: int
    parts: Parts = ()
    by: int | None = None
    beside: int | None = None
    number: int = 1
    after: bool = False


def following_world(entries: Sequence[Entry], base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base`, of `deciding`, that is asked when the log decides."""

    class Following(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            mine = [each for each in entries if each.row in self.jobs]
            self.wakes = {self.instant(each.time) for each in mine if each.number}
            self.away = {each.row for each in mine if not each.number}

        def instant(self, time: float) -> float:
            return round(time / self.options.slot) if self.slotted else time

        def arrive(self) -> bool:
            wakes = {at for at in self.wakes if at > self.now}
            happened = super().arrive()
            self.wakes = wakes
            return bool(happened)

        def turned_away(self, row: int) -> bool:
            return row in self.away

        def opens(self) -> bool:
            return False

        def openings(self) -> list[float]:
            return []

        def end_of(self, run: RunningJob) -> float:
            """At the decision next to it, if only rounding is between them."""
            end = float(super().end_of(run))
            near = min(self.wakes | {self.now}, key=lambda at: abs(at - end))
            return near if abs(near - end) <= 8 * math.ulp(near) else end

        def one_pass(self) -> None:
            if self.slotted or self.decide.left(self):
                super().one_pass()

        def other_instants(self) -> list[float]:
            again = [self.now] if not self.slotted and self.decide.left(self) else []
            return [*super().other_instants(), *again]

    return Following


class Follow:
    """The policy that does what a log says."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = [each for each in entries if each.number]

    def left(self, world: Any) -> list[Entry]:
        """What is to be done now."""
        return [
            each for each in self.entries if each.row in world.jobs and world.instant(each.time) == world.now
        ]

    def __call__(self, state: State) -> None:
        """Carries out one pass, under the slot clock all of them. Raises WrongError."""
        world = state.world
        mine = [each for each in self.entries if each.row in world.jobs]
        if mine and world.instant(mine[0].time) < world.now:
            raise WrongError(f"not carried out in its time: {mine[0]}")
        now = self.left(world)
        now = [each for each in now if world.slotted or each.number == now[0].number]
        self.entries = [each for each in self.entries if each not in now]
        leaving: list[Entry] = []
        for verb, group in groupby(now, lambda each: (each.verb, each.verb != "move" or each.after)):
            several = list(group)
            try:
                if verb == ("move", False):
                    state.move({each.row: each.parts for each in several})
                    continue
                for each in several:
                    if each.verb == "evicted":
                        leaving.append(each)
                    else:
                        self.carry_out(state, each, leaving)
                        leaving = []
            except ImpossibleError:
                raise WrongError(f"cannot be: {several}") from None

    def carry_out(self, state: State, each: Entry, leaving: Sequence[Entry]) -> None:
        """One decision, for which others left."""
        world = state.world
        if leaving:
            self.make_room(world, each, leaving)
        elif each.verb == "start" and each.beside is not None:
            state.start(each.row, beside=each.beside)
        elif each.verb == "start":
            state.start(each.row, each.parts)
        elif each.verb == "stop":
            world.put_off(world.run_of(each.row))
        elif each.verb == "resize" and list(each.parts) == state.allocation(each.row):
            return  # it found no room
        elif each.verb in ("move", "resize"):
            state.move({each.row: each.parts})
        elif each.verb == "refuse":
            state.refuse(each.row)
        elif each.verb == "end":
            state.end(each.row)

    def make_room(self, world: Any, each: Entry, leaving: Sequence[Entry]) -> None:
        """A start by eviction, as the rules say it."""
        before = list(world.waiting)
        gpus = sum(part if isinstance(part, int) else len(part) for _, part in each.parts)
        starts = world.start_by_room(each.row, gpus, world.type_at(each.parts[0][0]))
        left = sorted(row for row in world.waiting if row not in before)
        parts = State(world).allocation(each.row) if starts else []
        if left != sorted(one.row for one in leaving) or parts != sorted(each.parts):
            raise WrongError(f"{leaving} for {each}; by the rules {left} leave, for {parts}")
