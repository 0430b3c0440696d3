"""The reference model of allox, straight from docs/gavel.md. Nothing here imports ringbco.

Matchings are told: of several that are optima the page names none. Each is compared with the optimum.
"""

import math
from collections import Counter
from dataclasses import dataclass

from reference.deciding import State
from reference.following import WrongError
from reference.levels import Choices, Program, check_best, levels

Slot = tuple[int, float, int]
"""A type, when its GPUs are free, s from now, and how many these are."""
Matched = list[tuple[int, int]]
"""The slot of each job, and which place from the end of its queue."""


@dataclass
class Allox:
    """The policy; `chosen` tells the matchings."""

    chosen: Choices
    alpha: float = 1.0

    def __call__(self, state: State) -> None:
        world, rows = state.world, state.waiting
        if not rows or (not any(world.idle_of(kind) for kind in world.kinds()) and not world.evicts):
            return
        self.told = self.chosen(state.now) or []
        level, *_ = levels(state, rows, {row: state.jobs.num_gpus[row] for row in rows}, keeps=True)
        for number in range(max(level.values()) + 1):
            own = [row for row in rows if level[row] == number]
            while self.start_first(state, [row for row in own if not state.held(row)]) and world.has_shares:
                pass
            for row in own if world.evicts else ():
                if not state.held(row):
                    state.evict_for(row)

    def coming_back(self, state: State, kind: int) -> int:
        """GPUs of a type that jobs hold on servers that do not drain."""
        gpus = [state.gpus_of(row) for row in state.running]
        mine = [own for own in gpus if state.world.type_at(own[0][0]) == kind]
        return sum(server not in state.draining for own in mine for server, _ in own)

    def start_first(self, state: State, rows: list[int]) -> int:
        """Starts those of a level that come first on idle GPUs; how many."""
        world = state.world
        kinds = world.kinds()
        if not rows or not any(world.idle_of(kind) for kind in kinds):
            return 0
        times: dict[int, list[float]] = {}
        for row in rows:
            rates = [world.rate(row, state.jobs.num_gpus[row], kind) for kind in kinds]
            coming = [world.idle_of(kind) + self.coming_back(state, kind) for kind in kinds]
            enough = [not state.draining or world.weight(row) <= gpus for gpus in coming]
            times[row] = [
                world.work_left(row) / rate if rate and own else math.inf
                for rate, own in zip(rates, enough, strict=True)
            ]
        while True:
            able = [row for row in rows if min(times[row]) < math.inf]
            idle = {j: world.idle_of(kind) for j, kind in enumerate(kinds)}
            able = able[: max(sum(idle.values()), int(self.alpha * len(able)))]
            fits = [
                times[row][j] < math.inf and world.weight(row) <= world.room_of(kind) + 1e-9
                for row in able
                for j, kind in enumerate(kinds)
            ]
            if not any(fits):
                return 0
            slots = [(j, 0.0, n) for j, n in idle.items() if n]
            for row in state.running:
                kind = world.type_at(state.gpus_of(row)[0][0])
                ready = world.work_left(row) / world.rate(row, state.jobs.num_gpus[row], kind)
                back = sum(server not in state.draining for server, _ in state.gpus_of(row))
                if back:  # what is given back on a server that drains is nobody's
                    slots.append((kinds.index(kind), max(ready, 1e-9), back))
            if not self.told:
                raise WrongError(f"a matching is due at {state.now} s")
            result, size = self.told.pop(0), {row: world.weight(row) for row in able}
            check_matching(result, able, {row: times[row] for row in able}, size, slots)
            first = firsts(result, able, times, size, slots)
            started = sum(state.start(row, type=kinds[kind], strict=False) for row, kind in first)
            if state.running:
                return started
            for row, kind in first:
                times[row][kind] = math.inf


def ready_for(size: float, kind: int, slots: list[Slot]) -> float:
    """When a type has enough idle GPUs for a gang."""
    free = 0.0
    for own, ready, gpus in sorted(slots, key=lambda slot: slot[1]):
        free += gpus if own == kind else 0
        if own == kind and free >= size:
            return ready
    return math.inf


def costs(
    rows: list[int], times: dict[int, list[float]], size: dict[int, float], slots: list[Slot]
) -> dict[tuple[int, int, int], float]:
    """Of each job (its number), slot and place, where it can be."""
    result = {}
    for at, row in enumerate(rows):
        for number, (kind, ready, _) in enumerate(slots):
            first = max(ready, ready_for(size[row], kind, slots)) + times[row][kind]
            for place in range(1, len(rows) + 1) if first < math.inf else ():
                result[at, number, place] = first + (place - 1) * size[row] * times[row][kind]
    return result


def check_matching(
    found: Matched,
    rows: list[int],
    times: dict[int, list[float]],
    size: dict[int, float],
    slots: list[Slot],
) -> None:
    """Raises WrongError unless every job has a place that there is, and the sum of costs is the least."""
    cost = costs(rows, times, size, slots)
    taken = [(at, *place) for at, place in enumerate(found)]
    there = len(found) == len(rows) and all(each in cost for each in taken)
    if not there or any(n > slots[number][2] for (number, _), n in Counter(found).items()):
        raise WrongError(f"no matching: {found} of {rows}")
    cells = list(cost)
    program = Program([1.0] * len(cells))
    for at in range(len(rows)):
        program.at_most({n: -1.0 for n, cell in enumerate(cells) if cell[0] == at}, -1.0)
    for number, (_, _, gpus) in enumerate(slots):
        for place in range(1, len(rows) + 1):
            here = {n: 1.0 for n, cell in enumerate(cells) if cell[1:] == (number, place)}
            if len(here) > gpus:
                program.at_most(here, float(gpus))
    check_best(-sum(cost[each] for each in taken), program.best([-cost[cell] for cell in cells]))


def firsts(
    found: Matched,
    rows: list[int],
    times: dict[int, list[float]],
    size: dict[int, float],
    slots: list[Slot],
) -> list[tuple[int, int]]:
    """(row, type) of those that come first on idle GPUs, the one before the most others first."""
    starting = []
    for number, (kind, ready, _) in enumerate(slots):
        behind = 0  # those one place nearer to the front, each on a GPU of its own
        for place in range(len(rows), 0, -1) if ready == 0.0 else ():
            here = [row for row, own in zip(rows, found, strict=True) if own == (number, place)]
            work = {row: times[row][kind] * size[row] for row in here}
            here.sort(key=lambda row: work[row])
            starting += [
                (-place, work[row], rows.index(row), row, kind) for row in here[: len(here) - behind]
            ]
            behind = len(here)
    return [each[3:] for each in sorted(starting)]
