"""The reference model of recorded, straight from docs/policies.md#recorded. Nothing here imports ringbco.

A job starts when and where it did in the log. Everything is worked out again at every instant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.deciding import ImpossibleError, Parts, State


@dataclass
class Recorded:
    """The policy. starts: s. places: None where unknown. recorded_on: names of types, if any."""

    starts: Sequence[float]
    places: Sequence[Parts | None]
    recorded_on: Sequence[str | None]
    unknown: set[int] = field(default_factory=set)
    """Rows whose recorded place was not allowed."""

    def __call__(self, state: State) -> None:
        for row in state.world.jobs:
            if self.starts[row] > state.now:
                state.wake(self.starts[row])
        for row in sorted(state.waiting, key=lambda row: (self.starts[row], row)):
            if self.starts[row] <= state.now and not self.in_place(state, row):
                self.anywhere(state, row)

    def in_place(self, state: State, row: int) -> bool:
        """Whether it starts where it did."""
        parts = self.places[row]
        if parts is None or row in self.unknown:
            return False
        share = state.world.jobs[row].share
        if share:
            ((server, _),) = parts
            rooms = state.world.rooms()
            gpus = [gpu for gpu in rooms if gpu[0] == server and rooms[gpu] >= share]
            parts = [(server, [min(gpus, key=lambda gpu: (rooms[gpu], gpu))[1]])] if gpus else []
        if parts and self.starts_on(state, row, parts):
            return True
        self.unknown.add(row)
        return False

    def anywhere(self, state: State, row: int) -> None:
        """On the type of its recording if it may, else on the next one that has room."""
        world = state.world
        on = self.recorded_on[row]
        types = sorted(world.tried(row), key=lambda kind: on is None or kind != world.type_named(on))
        for kind in types:
            parts = self.room(state, row, kind)
            if parts is not None:
                assert self.starts_on(state, row, parts)
                return

    def room(self, state: State, row: int, kind: int) -> Parts | None:
        """GPUs of a type for it."""
        world, job = state.world, state.world.jobs[row]
        if job.share:
            rooms = world.rooms()
            gpus = [gpu for gpu in rooms if world.type_at(gpu[0]) == kind and rooms[gpu] >= job.share]
            best = min(gpus, key=lambda gpu: (rooms[gpu], gpu), default=None)
            return None if best is None else [(best[0], [best[1]])]
        mine = [server for server, idle in enumerate(state.idle) if idle and world.type_at(server) == kind]
        here = [(server, state.idle[server]) for server in mine]
        whole = [(idle, server) for server, idle in here if idle >= job.num_gpus]
        if whole:
            return [(min(whole)[1], job.num_gpus)]
        parts, missing = [], job.num_gpus
        pods = [(server, idle // job.pod * job.pod) for server, idle in here if idle >= job.pod]
        for server, held in sorted(pods, key=lambda one: (-one[1], one[0])):
            if missing:
                parts.append((server, min(held, missing)))
                missing -= parts[-1][1]
        return None if missing else parts

    def starts_on(self, state: State, row: int, parts: Parts) -> bool:
        try:
            return bool(state.start(row, parts))
        except ImpossibleError:
            return False
