"""The slow truth of conservative backfilling, straight from docs/operators.md.

Which GPUs are free for a stretch of time is asked of every GPU, at every instant at which a job might begin.
Nothing here imports ringbco.
"""

import math
from typing import Any, NamedTuple

from oracle.model import GPU
from oracle_stretch import Stretch


class Reservation(NamedTuple):
    """A job's GPUs from `begin` until before `end`, s."""

    row: int
    begin: float
    end: float
    gpus: list[GPU]

    def meets(self, begin: float, end: float) -> bool:
        """Whether it holds its GPUs at any instant from `begin` until before `end`."""
        return self.end > max(self.begin, begin) and (self.begin < end or self.begin <= begin)


def make_reservations(world: Any, most: int) -> None:
    """One pass of a world of queues over the first so many that wait."""
    reserved: list[Reservation] = []
    now, looked, blocked = world.seconds(world.now), 0, False
    turn: tuple[float, ...] = (-1.0,)
    # Those evicted meanwhile have a turn too, if it is still to come.
    while looked < most and (coming := [row for row in world.waiting if world.rank(row) > turn]):
        row = min(coming, key=world.rank)
        turn = world.rank(row)
        if world.passed_over(row, world.need(row)):
            continue
        looked += 1
        estimate = world.reckoned(row)
        for begin in instants(world, reserved):
            gpus, rng = found(world, row, begin, begin + estimate, reserved)
            if gpus is not None:
                break
        else:
            begin, gpus, rng = math.inf, [], world.rng
        if begin == now:
            world.start_there(row, gpus, rng)
            continue
        if not blocked:
            world.try_start(row)  # nothing idle is enough, but others may make room
        if row in world.waiting:
            blocked = True
            reserved.append(Reservation(row, begin, begin + estimate, gpus))


def leaves(world: Any, run: Stretch) -> float:
    """When a running job is estimated to end: after now."""
    return float(max(world.end(run), math.nextafter(world.seconds(world.now), math.inf)))


def instants(world: Any, reserved: list[Reservation]) -> list[float]:
    """When a reservation may begin."""
    now = world.seconds(world.now)
    ends = {leaves(world, run) for run in world.running} | {own.end for own in reserved}
    ends |= {up for _, _, up in getattr(world, "windows", ())}
    return [now, *sorted(end for end in ends if now < end < math.inf)]


def found(
    world: Any, row: int, begin: float, end: float, reserved: list[Reservation]
) -> tuple[list[GPU] | None, int]:
    """Where a job is placed on the GPUs that are free from `begin` until before `end`."""
    holders = [run for run in world.running if leaves(world, run) > begin]
    holders += [Stretch(own.row, own.gpus, world.now, world.now) for own in reserved if own.meets(begin, end)]

    def ask() -> tuple[list[GPU] | None, int]:
        gpus, rng = world.find(row)
        if gpus is not None and world.options.placement == "random":
            # What is drawn says how many of which servers; of each the lowest.
            drawn = [s for s, _ in gpus]
            idle = {s: sorted(gpu for gpu in world.floor().idle if gpu[0] == s) for s in drawn}
            gpus = [gpu for s in sorted(idle) for gpu in idle[s][: drawn.count(s)]]
        return gpus, rng

    running, world.running = world.running, holders
    # Maintenance that is known ahead: servers come back, and others are left alone.
    later = begin > world.seconds(world.now) and hasattr(world, "windows")
    answer: tuple[list[GPU] | None, int] = world.at(begin, row, ask) if later else ask()
    world.running = running
    return answer
