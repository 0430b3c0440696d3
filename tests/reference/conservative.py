"""The reference model of conservative backfilling, straight from docs/operators-reference.md.

Which GPUs are free for an interval is asked of every GPU, at every instant at which a job might begin.
Nothing here imports ringbco.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from reference.model import GPU
from reference.running import RunningJob

BY_TIME = ("least-loaded", "fa-ffp", "lbsgf", "sjf-bco")
"""Placements that go by U."""


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
            gpus, rng = placement_between(world, row, begin, begin + estimate, reserved)
            if gpus is not None:
                break
        else:
            begin, gpus, rng = math.inf, [], world.rng
        if begin == now:
            world.start_there(row, gpus, rng)
            continue
        if not blocked:
            world.try_start(row)  # nothing idle is enough, but others may make room
            for run in world.running:
                if run.row == row:
                    run.gpus = lowest(world, run.gpus, [*world.cluster_state().idle, *run.gpus])
        if row in world.waiting:
            blocked = True
            reserved.append(Reservation(row, begin, begin + estimate, gpus))


def lowest(world: Any, gpus: list[GPU], idle: Iterable[GPU]) -> list[GPU]:
    """As many of each server: where U does not count the lowest. `random` draws how many of which."""
    if world.options.placement in BY_TIME:
        return gpus
    drawn = [s for s, _ in gpus]
    there = {s: sorted(gpu for gpu in idle if gpu[0] == s) for s in sorted({*drawn})}
    return [gpu for s, own in there.items() for gpu in own[: drawn.count(s)]]


def leaves(world: Any, run: RunningJob) -> float:
    """When a running job is estimated to end: after now."""
    return float(max(world.end(run), math.nextafter(world.seconds(world.now), math.inf)))


def instants(world: Any, reserved: list[Reservation]) -> list[float]:
    """When a reservation may begin."""
    now = world.seconds(world.now)
    leaving = [run for run in world.running if run.servers - getattr(world, "draining", set())]
    ends = {leaves(world, run) for run in leaving} | {own.end for own in reserved}
    ends |= {up for _, _, up in getattr(world, "windows", ())}
    return [now, *sorted(end for end in ends if now < end < math.inf)]


def placement_between(
    world: Any, row: int, begin: float, end: float, reserved: list[Reservation]
) -> tuple[list[GPU] | None, int]:
    """Where a job is placed on the GPUs that are free from `begin` until before `end`."""
    holders = [run for run in world.running if leaves(world, run) > begin]
    holders += [
        RunningJob(own.row, own.gpus, world.now, world.now) for own in reserved if own.meets(begin, end)
    ]

    def ask() -> tuple[list[GPU] | None, int]:
        gpus, rng = world.find(row)
        return None if gpus is None else lowest(world, gpus, world.cluster_state().idle), rng

    running, world.running = world.running, holders
    # Maintenance that is known ahead: servers come back, and others are left alone.
    later = begin > world.seconds(world.now) and hasattr(world, "windows")
    answer: tuple[list[GPU] | None, int] = world.at(begin, row, ask) if later else ask()
    world.running = running
    return answer
