"""The reference model of shares of a GPU: the models with GPUs that several jobs hold (docs/shares.md).

At every instant the room of every GPU is added up anew from who runs, and so is fragmentation, demand by
demand and GPU by GPU. Nothing here imports ringbco.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reference.mechanism import World as PreemptWorld
from reference.model import GPU, Job, Options, iteration_time
from reference.placement import ClusterState, place, splitmix64
from reference.running import RunningJob
from reference.simulate import Gang, World
from reference.tables import MeasuredJob, in_slot, parts_of_slots
from reference.types import Types

MILLI_GPU = 1000
PLACEMENTS = ("first-fit", "consolidate", "best-fit", "worst-fit", "binpack", "compact", "fgd", "random")

Rooms = dict[GPU, int]
"""Thousandths that nobody holds, of every GPU in order of (server, GPU)."""
Row = tuple[int, float, float, int, int, int]
"""(row, start, end, server, GPU, thousandths or 0)."""


def weight(job: Job) -> float:
    """GPUs that a job holds."""
    return job.share / MILLI_GPU if job.share else float(job.num_gpus)


def asked(job: Job) -> int:
    """The same in thousandths."""
    return job.share or job.num_gpus * MILLI_GPU


Pair = tuple[int, int, int, float, float]
"""Model, GPU type, model of its partner, iterations a second of the two beside one another."""


@dataclass(frozen=True)
class Demands:
    """The demands of the job table: those that may use some servers, and how many may not."""

    usable: tuple[Job, ...]
    others: int

    def fragmentation(self, rooms: Sequence[int]) -> int:
        """Idle thousandths of a server that the demands cannot use, added up over the demands."""
        idle = sum(rooms)
        lost = self.others * idle
        for job in self.usable:
            if job.share:
                runs, needs = any(room >= job.share for room in rooms), job.share
            else:
                runs, needs = rooms.count(MILLI_GPU) >= job.num_gpus, MILLI_GPU
            lost += sum(room for room in rooms if room < needs) if runs else idle
        return lost

    def rise(self, rooms: Rooms, taken: dict[GPU, int]) -> int:
        """By how much fragmentation of one server rises if so much is taken of its GPUs."""
        (server,) = {s for s, _ in taken}
        before = [room for (s, _), room in rooms.items() if s == server]
        after = [room - taken.get(gpu, 0) for gpu, room in rooms.items() if gpu[0] == server]
        return self.fragmentation(after) - self.fragmentation(before)


def choose(
    job: Job, rooms: Rooms, options: Options, rng: int, demands: Demands
) -> tuple[list[GPU] | None, int]:
    """The GPUs that a job would get of these, and the state of the random numbers afterwards."""
    name = options.placement
    if job.share:
        return _share(job.share, rooms, name, rng, demands)
    empty = [gpu for gpu, room in rooms.items() if room == MILLI_GPU]
    sizes: dict[int, int] = {}
    for server, _ in rooms:
        sizes[server] = sizes.get(server, 0) + 1
    options = _of_gangs(options)
    gpus: list[GPU] | None
    if name in ("worst-fit", "fgd") and job.num_gpus <= max(sizes.values()):
        gpus = _on_a_server(job.num_gpus, rooms, name, sizes, empty, demands)
    else:
        gpus, rng = place(job, ClusterState(sizes, empty, dict.fromkeys(rooms, 0.0)), options, rng)
    if gpus is None:
        return None, rng
    # Of each server the lowest empty ones.
    count = {s: sum(1 for gpu in gpus if gpu[0] == s) for s, _ in gpus}
    return [gpu for s in sorted(count) for gpu in [g for g in empty if g[0] == s][: count[s]]], rng


def _of_gangs(options: Options) -> Options:
    """The rule of gangs larger than a server, and of who fits on an empty cluster."""
    own = options.placement in ("best-fit", "worst-fit", "fgd")
    return replace(options, placement="consolidate") if own else options


def _share(share: int, rooms: Rooms, name: str, rng: int, demands: Demands) -> tuple[list[GPU] | None, int]:
    fits = [gpu for gpu, room in rooms.items() if room >= share]
    if not fits:
        return None, rng
    if name == "first-fit":
        return fits[:1], rng
    if name == "random":
        number, rng = splitmix64(rng)
        return [fits[(number * len(fits)) >> 64]], rng
    if name == "worst-fit":
        return [min(fits, key=lambda gpu: (-rooms[gpu], gpu))], rng
    if name == "fgd":
        return [min(fits, key=lambda gpu: (demands.rise(rooms, {gpu: share}), gpu))], rng
    return [min(fits, key=lambda gpu: (rooms[gpu], gpu))], rng


def _on_a_server(
    w: int, rooms: Rooms, name: str, sizes: dict[int, int], empty: list[GPU], demands: Demands
) -> list[GPU] | None:
    on = {s: [gpu for gpu in empty if gpu[0] == s] for s in sizes}
    holding = [s for s in sizes if len(on[s]) >= w]
    if not holding:
        return None
    if name == "worst-fit":
        best = min(holding, key=lambda s: (-len(on[s]), s))
    else:
        best = min(holding, key=lambda s: (demands.rise(rooms, dict.fromkeys(on[s][:w], MILLI_GPU)), s))
    return on[best][:w]


@dataclass
class Sharing:
    """What the worlds of a run have in common: GPU types, interference, and the rows of allocations."""

    types: Types | None = None
    interference: float = 0.0
    rows: list[Row] = field(default_factory=list)
    pairs: Sequence[Pair] = ()
    has_shares: bool = True
    """Whether jobs hold shares: else a job's GPUs are the same where it has as many of each server."""

    def rooms(self, world: World | PreemptWorld, running: Sequence[Gang | RunningJob]) -> Rooms:
        up = (
            {*world.up()} - getattr(world, "draining", set())
            if isinstance(world, PreemptWorld)
            else {*world.sizes}
        )
        rooms = {
            (s, g): MILLI_GPU if s in up else 0 for s in sorted(world.sizes) for g in range(world.sizes[s])
        }
        for run in running:
            for gpu in run.gpus:
                if gpu[0] in up:  # several may sit on whole GPUs
                    rooms[gpu] = max(0, rooms[gpu] - (world.jobs[run.row].share or MILLI_GPU))
        if isinstance(world, PreemptWorld):
            rooms |= dict.fromkeys(world.lent(), 0)
        return rooms

    def find(
        self, world: World | PreemptWorld, row: int, running: Sequence[Gang | RunningJob]
    ) -> tuple[list[GPU] | None, int]:
        rooms = self.rooms(world, running)
        for own, demands in self._pools(world, row):
            mine = {gpu: room for gpu, room in rooms.items() if gpu[0] in own}
            gpus, rng = choose(world.jobs[row], mine, world.options, world.rng, demands)
            if gpus is not None:
                return gpus, rng
        return None, world.rng

    def tried(self, world: World | PreemptWorld, row: int) -> list[int]:
        """The types that a job tries; 0 where all are alike."""
        if self.types is None:
            return [0]
        options = _of_gangs(world.options)
        return self.types.tried(row, world.jobs[row], world.sizes, world.net, options)

    def pool(self, world: World | PreemptWorld, gpu_type: int) -> dict[int, int]:
        return world.sizes if self.types is None else self.types.sizes(gpu_type, world.sizes)

    def _pools(self, world: World | PreemptWorld, row: int) -> Iterator[tuple[dict[int, int], Demands]]:
        """The servers that a job tries, type by type, and who else may use them."""
        for gpu_type in self.tried(world, row):
            yield self.pool(world, gpu_type), self.demands(world, gpu_type)

    def demands(self, world: World | PreemptWorld, gpu_type: int) -> Demands:
        """What the jobs ask for, as the servers of a type see it."""
        usable: tuple[Job, ...] = ()
        if world.options.placement == "fgd":
            usable = tuple(world.jobs[j] for j in world.jobs if gpu_type in self.tried(world, j))
        return Demands(usable, len(world.jobs) - len(usable))

    def measured(self, world: World | PreemptWorld, run: Gang | RunningJob) -> float | None:
        """Iterations a second beside the only other share on its GPU, where the pair was measured."""
        others = [other for other in world.running if other.gpus == run.gpus and other is not run]
        if not self.pairs or not world.jobs[run.row].share or len(others) != 1:
            return None
        assert self.types is not None, "measured speeds are those of a type"
        gpu_type = self.types.of[run.gpus[0][0]]
        mine, theirs = world.jobs[run.row], world.jobs[others[0].row]
        assert isinstance(mine, MeasuredJob)
        assert isinstance(theirs, MeasuredJob)
        own = (mine.measured_as, gpu_type, theirs.measured_as)
        partners = (theirs.measured_as, gpu_type, mine.measured_as)
        result = [pair[3] for pair in self.pairs if pair[:3] == own]
        result += [pair[4] for pair in self.pairs if pair[:3] == partners]
        return result[0] if result else None

    def slowdown(self, world: World | PreemptWorld, run: Gang | RunningJob) -> float:
        """How many times as long a job takes for the others on its GPU."""
        if not world.jobs[run.row].share:
            return 1.0
        return 1.0 + self.interference * (sum(1 for other in world.running if other.gpus == run.gpus) - 1)

    def tau(self, world: World | PreemptWorld, run: Gang | RunningJob, p: int) -> float:
        """Seconds an iteration takes."""
        rate = self.measured(world, run)
        if rate is not None:
            return 1.0 / rate if rate > 0 else math.inf
        job = world.jobs[run.row]
        if self.types is not None:
            job = self.types.on(run.row, job, self.types.of[run.gpus[0][0]])
        return iteration_time(job, len(run.servers), p, world.net, run.bandwidth) * self.slowdown(world, run)

    def rate(self, run: Gang | RunningJob) -> float:
        """Recorded seconds a second under `fixed`, alone on its GPUs."""
        return 1.0 if self.types is None else self.types.ratio(run.row, self.types.of[run.gpus[0][0]])

    def note(self, job: Job, run: Gang | RunningJob, start: float, end: float) -> None:
        self.rows += [(run.row, start, end, s, g, job.share) for s, g in run.gpus]


def preempt_world(sharing: Sharing) -> type[PreemptWorld]:
    """The model of the policies that preempt."""

    @dataclass
    class ShareWorld(PreemptWorld):
        at_rate: dict[int, tuple[float, float]] = field(default_factory=dict)
        """Of each running job: the work left when its present rate began, and when that was (slots)."""
        taus: dict[int, float] = field(default_factory=dict)
        """What an iteration of each running job takes in the present slot, s."""

        def find(self, row: int) -> tuple[list[GPU] | None, int]:
            return sharing.find(self, row, self.running)

        def placed_on(self, job: Job, cluster: ClusterState) -> tuple[list[GPU] | None, int]:
            rooms = {(s, g): 0 for s, size in cluster.sizes.items() for g in range(size)}
            rooms |= dict.fromkeys(cluster.idle, MILLI_GPU)
            gpu_type = 0 if sharing.types is None else sharing.types.of[min(cluster.sizes)]
            return choose(job, rooms, self.options, self.rng, sharing.demands(self, gpu_type))

        def tried(self, row: int) -> list[int]:
            return sharing.tried(self, row)

        def cluster_state(self) -> ClusterState:
            rooms = sharing.rooms(self, self.running)
            return ClusterState(
                dict(sorted(self.sizes.items())), [g for g in rooms if rooms[g] == MILLI_GPU], {}
            )

        def select(self) -> list[int]:
            types = [0] if sharing.types is None else sorted(set(sharing.types.of))
            up = self.up()
            quota = {t: MILLI_GPU * sum(up.get(s, 0) for s in sharing.pool(self, t)) for t in types}
            held = {run.row: self.type_of(run) for run in self.running}
            selected = []
            for row in self.ranking():
                need = asked(self.jobs[row])
                draws = [held[row]] if row in held else sharing.tried(self, row)
                enough = next((t for t in draws if quota[t] >= need), None)
                if enough is not None:
                    quota[enough] -= need
                    selected.append(row)
            return selected

        def type_of(self, run: RunningJob) -> int:
            return 0 if sharing.types is None else sharing.types.of[run.gpus[0][0]]

        def too_slow(self, row: int) -> bool:
            return sharing.types is None and super().too_slow(row)

        def whole(self, row: int) -> float:
            if self.fixed and self.slotted:
                return self.jobs[row].duration / self.options.slot
            return super().whole(row)

        def left_now(self, row: int) -> float:
            """Under `fixed` an interval at one rate is counted at once, which rounds once."""
            run = next((run for run in self.running if run.row == row), None)
            if run is None or run.phi == 0 or not (self.fixed and self.slotted):
                return super().left_now(row)
            left, since = self.at_rate[row]
            return max(0.0, left - run.phi * (self.now - since)) if self.now > since else left

        def new_rates(self) -> None:
            before = {run.row: (run.phi, self.left_now(run.row)) for run in self.running}
            super().new_rates()
            self.taus = {run.row: self.tau(run, run.p) for run in self.running}
            for run in self.running:
                phi, left = before[run.row]
                if run.phi != phi:
                    self.at_rate[run.row] = left, max(self.now, run.since)

        def goes_on_from(self, run: RunningJob, left: float, since: float) -> None:
            super().goes_on_from(run, left, since)
            self.at_rate[run.row] = left, since

        def size(self, row: int) -> float:
            return weight(self.jobs[row])

        def tau(self, run: RunningJob, p: int) -> float:
            if self.fixed:
                return sharing.slowdown(self, run) / sharing.rate(run)
            return sharing.tau(self, run, p)

        def pause(self, cost: float) -> float:
            to_the_second = self.options.model == "table" and self.slotted
            return parts_of_slots(cost, self.options.slot) if to_the_second else super().pause(cost)

        def yielded(self, run: RunningJob) -> float:
            if self.options.model != "table":
                return super().yielded(run)
            return in_slot(self, run, self.taus[run.row])

        def stop(self, run: RunningJob) -> None:
            sharing.note(self.jobs[run.row], run, self.seconds(run.start), self.seconds(self.now))
            super().stop(run)

        def are_same(self, gpus: list[GPU], others: list[GPU]) -> bool:
            return set(gpus) == set(others) if sharing.has_shares else super().are_same(gpus, others)

        def saved_columns(self, row: int) -> list[tuple[Any, Any]]:
            rates = [(self.at_rate, self.at_rate[row])] if row in self.at_rate else []
            return super().saved_columns(row) + rates

        def goes_on(self, row: int, gpus: list[GPU]) -> bool:
            if not super().goes_on(row, gpus):
                return False
            since = self.seconds(self.running[-1].start)
            sharing.rows = [noted for noted in sharing.rows if noted[:2] != (row, since)]
            return True

        def look(self) -> None:
            self.looked = self.now
            self.short, self.apart = [], []
            rooms = sharing.rooms(self, self.running)
            for row in self.waiting:
                pools = [sharing.pool(self, t) for t in sharing.tried(self, row)]
                idle = [sum(room for gpu, room in rooms.items() if gpu[0] in pool) for pool in pools]
                if all(milli_gpus < asked(self.jobs[row]) for milli_gpus in idle):
                    self.short.append(row)
                elif self.find(row)[0] is None:
                    self.apart.append(row)

    return ShareWorld
