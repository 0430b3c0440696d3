"""The two clocks of the reference model, straight from docs/model.md: slots, or instants one after another.

Nothing here imports ringbco.
"""

import math
from typing import Any

from reference.model import StuckError

PATIENCE = 3_000
"""Slots, or ticks, without progress after which a run is given up as stuck."""


def opening(world: Any, step: float) -> int:
    """A multiple of `step`, s, before which nothing happens: all are counted from time 0."""
    first = min([*(world.arrival_of(row) for row in world.future), *world.other_instants()], default=0.0)
    return max(0, math.floor(first / step) - 1)


def run(world: Any) -> None:
    """All jobs of a (virtual) cluster from their submission to their end."""
    world.future = list(world.jobs)
    world.tick = opening(world, world.rules.interval or math.inf)
    if world.slotted:
        run_slots(world)
    else:
        run_events(world)


def run_slots(world: Any) -> None:
    n, idle = opening(world, world.options.slot), 0
    while world.future or world.waiting or world.running:
        world.now = n
        world.count_time()
        happened, progress = world.again, False
        for run in sorted(world.running, key=lambda run: run.row):
            if n > run.begin and not world.again:
                progress |= run.phi > 0
                run.left -= world.yielded(run)
            if world.comes_to_end(run):
                happened |= world.ends(run)
        decide(world, happened)
        idle = 0 if progress or world.future or world.other_instants() else idle + 1
        world.give_up(idle)
        n += not world.again


def run_events(world: Any) -> None:
    idle = 0
    while world.future or world.waiting or world.running:
        instants = [world.end_of(run) for run in world.running]
        instants += [world.arrival_of(row) for row in world.future]
        instants += world.other_instants() + world.openings() + [world.now] * world.again
        idle = idle + 1 if min(instants, default=math.inf) == math.inf else 0
        instants.append(world.next_tick())
        if idle > PATIENCE or min(instants) == math.inf:
            raise StuckError(min(world.waiting + [run.row for run in world.running]))
        world.now = min(instants)
        world.count_time()
        happened = world.again
        for run in sorted(world.running, key=lambda run: run.row):
            if world.end_of(run) <= world.now:
                happened |= world.ends(run)
        decide(world, happened)


def decide(world: Any, happened: bool) -> None:
    """What comes after completions; whether the instant has another decision."""
    happened |= world.arrive()
    due = world.is_due(happened)
    if due | world.opens():
        world.passed = world.now
        world.one_pass()
    world.again = world.reconsiders()
    world.new_rates()
    world.look()
    world.last = world.seconds(world.now)
