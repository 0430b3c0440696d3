"""One instant at a time: completions, arrivals, one pass over the queue, new rates; and the two clocks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.model import (
    GPU,
    Job,
    Net,
    Options,
    OversizeError,
    RefusedError,
    StuckError,
    iteration_time,
    iterations_per_slot,
    too_slow,
    work,
)
from reference.placement import ClusterState, clusters, place
from reference.tiers import felt


@dataclass
class Gang:
    """A running job: where, since when (seconds), and the progress its clock keeps."""

    row: int
    gpus: list[GPU]
    start: float
    p: int = 0
    bandwidth: float | None = None
    tau: float = math.nan
    remaining: float = 0.0
    since: float = 0.0
    done: int = 0
    phi: int = 0

    @property
    def servers(self) -> set[int]:
        return {s for s, _ in self.gpus}


@dataclass(frozen=True)
class State:
    """What holds from `time` on, until the next state."""

    time: float
    running: int
    queued: int
    busy_gpus: int
    queued_gpus: int
    spanning: int
    contention: int
    """Sum of p_j."""


@dataclass
class Result:
    """Per row; a dropped job has NaN times, no GPUs, no contention. `states`: one list a virtual cluster."""

    kept: list[bool]
    start: list[float]
    finish: list[float]
    allocations: list[dict[int, int]]
    max_contention: list[int]
    states: list[list[State]]
    contention_seconds: float = 0.0
    spanning_seconds: float = 0.0


@dataclass
class World:
    """One cluster, or one virtual cluster: its servers (index to size) and its jobs (row to job)."""

    sizes: dict[int, int]
    jobs: dict[int, Job]
    net: Net
    options: Options
    rng: int
    result: Result
    future: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    running: list[Gang] = field(default_factory=list)
    placed: list[tuple[int, list[GPU]]] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    # What the definitions call rho_j, U_g and so on, worked out anew whenever asked.

    def estimate(self, row: int) -> float:
        return work(self.jobs[row], self.options, self.net)

    def backfill_estimate(self, row: int) -> float:
        """The run time that EASY reckons with."""
        return self.estimate(row)

    def other_instants(self, now: float) -> list[float]:
        """Instants after `now`, besides completions and arrivals, at which there is a pass."""
        return []

    def cluster_state(self, running: Sequence[Gang], placed: Sequence[tuple[int, list[GPU]]]) -> ClusterState:
        gpus = [(s, g) for s in sorted(self.sizes) for g in range(self.sizes[s])]
        busy = {g for gang in running for g in gang.gpus}
        load = dict.fromkeys(gpus, 0.0)
        for row, given in placed:
            more = self.estimate(row)
            for g in given:
                load[g] += more
        return ClusterState(dict(sorted(self.sizes.items())), [g for g in gpus if g not in busy], load)

    def fits(
        self, row: int, running: Sequence[Gang], placed: Sequence[tuple[int, list[GPU]]]
    ) -> tuple[list[GPU] | None, int]:
        return place(self.jobs[row], self.cluster_state(running, placed), self.options, self.rng)

    def rank(self, row: int) -> tuple[float, float, int]:
        job = self.jobs[row]
        if self.options.order == "sjf":
            return self.estimate(row), job.submit, row
        if self.options.order == "smallest":
            return job.num_gpus, job.submit, row
        if self.options.order == "fifo":
            return 0, job.submit, row
        raise ValueError(self.options.order)

    def too_slow(self, row: int) -> bool:
        """Not one iteration fits in a slot, even uncontended and on the fewest servers."""
        return too_slow(self.jobs[row], list(self.sizes.values()), self.net, self.options.slot)

    # One scheduling pass.

    def one_pass(self, now: float) -> None:
        head: int | None = None
        shadow = math.inf
        for row in sorted(self.queue, key=self.rank):
            gpus, rng = self.fits(row, self.running, self.placed)
            if head is None and gpus is None:
                if self.options.queue == "strict":
                    return
                if self.options.queue == "easy":
                    head, shadow = row, self.shadow(row)
                continue
            if gpus is None or (head is not None and not self.harmless(row, gpus, head, now, shadow)):
                continue
            self.rng = rng
            self.queue.remove(row)
            self.running.append(Gang(row, gpus, now))
            self.placed.append((row, gpus))
            self.result.start[row] = now
            for s, _ in gpus:
                self.result.allocations[row][s] = self.result.allocations[row].get(s, 0) + 1

    def shadow(self, head: int) -> float:
        """The earliest estimated completion at which the head could be placed if nothing else started."""
        for t in sorted({gang.start + self.backfill_estimate(gang.row) for gang in self.running}):
            if self.fits(head, self.still_there(self.running, t), self.placed)[0] is not None:
                return t
        return math.inf

    def still_there(self, running: Sequence[Gang], t: float) -> list[Gang]:
        return [gang for gang in running if gang.start + self.backfill_estimate(gang.row) > t]

    def harmless(self, row: int, gpus: list[GPU], head: int, now: float, shadow: float) -> bool:
        """EASY: over before the shadow time, or not in the head's way then."""
        if now + self.backfill_estimate(row) <= shadow:
            return True
        later = [*self.still_there(self.running, shadow), Gang(row, gpus, now)]
        return self.fits(head, later, [*self.placed, (row, gpus)])[0] is not None

    # Rates.

    def new_contention(self) -> None:
        for gang, own in zip(self.running, felt(self.running, self.net), strict=True):
            gang.p, gang.bandwidth = own.p, own.bandwidth
            self.result.max_contention[gang.row] = max(self.result.max_contention[gang.row], gang.p)

    def tau(self, gang: Gang) -> float:
        return iteration_time(self.jobs[gang.row], len(gang.servers), gang.p, self.net, gang.bandwidth)

    def fixed_time(self, gang: Gang) -> float:
        """Seconds that a job runs under `fixed`."""
        return self.jobs[gang.row].duration

    def fixed_slots(self, gang: Gang) -> int:
        """Slots that a job runs under `fixed`."""
        return math.ceil(self.jobs[gang.row].duration / self.options.slot)

    def complete(self, gang: Gang, now: float) -> None:
        self.running.remove(gang)
        self.result.finish[gang.row] = now

    def note(self, now: float) -> None:
        self.states.append(
            State(
                time=now,
                running=len(self.running),
                queued=len(self.queue),
                busy_gpus=sum(len(gang.gpus) for gang in self.running),
                queued_gpus=sum(self.jobs[row].num_gpus for row in self.queue),
                spanning=sum(1 for gang in self.running if len(gang.servers) > 1),
                contention=sum(gang.p for gang in self.running),
            )
        )

    # The clocks.

    def run_slots(self) -> None:
        """Every slot, from 0 until the last job is done."""
        slot = self.options.slot
        fixed = self.options.model == "fixed"
        n = 0
        while self.future or self.queue or self.running:
            now = n * slot
            for gang in sorted(self.running, key=lambda gang: gang.row):
                job = self.jobs[gang.row]
                gang.done += gang.phi
                if gang.done >= (self.fixed_slots(gang) if fixed else job.iterations):
                    self.complete(gang, now)
            self.arrive(now)
            for gang in self.running:
                gang.phi = 1 if fixed else iterations_per_slot(self.tau(gang), slot)
            self.note(now)
            if not self.future and all(gang.phi == 0 for gang in self.running):
                left = [gang.row for gang in self.running] + self.queue
                if left:
                    raise StuckError(min(left))
            n += 1

    def arrive(self, now: float) -> None:
        """The queue takes in what has been submitted, and starts what it can."""
        for row in [row for row in self.future if self.jobs[row].submit <= now]:
            self.future.remove(row)
            self.queue.append(row)
        self.one_pass(now)
        self.new_contention()

    def run_events(self) -> None:
        """From one completion or arrival to the next."""
        fixed = self.options.model == "fixed"

        def finish(gang: Gang) -> float:
            if fixed:
                return gang.start + self.fixed_time(gang)
            return gang.since + gang.remaining * gang.tau

        now = -math.inf
        while self.future or self.queue or self.running:
            instants = [finish(gang) for gang in self.running] + [self.jobs[r].submit for r in self.future]
            instants += self.other_instants(now)
            if not instants:
                raise StuckError(min(self.queue))
            now = min(instants)
            for gang in sorted(self.running, key=lambda gang: gang.row):
                if finish(gang) <= now:
                    self.complete(gang, now)
            self.arrive(now)
            for gang in self.running:
                tau = self.tau(gang)
                if math.isnan(gang.tau):
                    gang.remaining, gang.since, gang.tau = float(self.jobs[gang.row].iterations), now, tau
                elif tau != gang.tau:
                    gang.remaining = max(0.0, gang.remaining - (now - gang.since) / gang.tau)
                    gang.since, gang.tau = now, tau
            self.note(now)


def simulate(
    jobs: Sequence[Job],
    servers: Sequence[int],
    net: Net,
    options: Options,
    server_vc: Sequence[int] | None = None,
    world_type: type[World] = World,
) -> Result:
    """Replay `jobs` on servers of these sizes; `server_vc` splits them into virtual clusters, run one by one.

    `world_type` may be a World with another ranking.

    Raises OversizeError, RefusedError or StuckError, naming the lowest row at fault.
    """
    n = len(jobs)
    result = Result(
        kept=[True] * n,
        start=[math.nan] * n,
        finish=[math.nan] * n,
        allocations=[{} for _ in jobs],
        max_contention=[0] * n,
        states=[],
    )
    worlds = [
        world_type(sizes, mine, net, options, seed, result)
        for sizes, mine, seed in clusters(jobs, servers, server_vc, options.seed)
    ]

    for world in worlds:
        for row in list(world.jobs):
            if world.fits(row, [], [])[0] is None:
                result.kept[row] = False
                del world.jobs[row]
    if options.oversize == "error" and not all(result.kept):
        raise OversizeError(result.kept.index(False))

    if options.clock == "slot" and options.model == "rar":
        refused = [row for world in worlds for row in world.jobs if world.too_slow(row)]
        if refused:
            raise RefusedError(min(refused))

    stuck = []
    for world in worlds:
        world.future = list(world.jobs)
        try:
            if options.clock == "slot":
                world.run_slots()
            else:
                world.run_events()
        except StuckError as error:
            stuck.append(error.row)
        result.states.append(world.states)
        for state, following in zip(world.states, world.states[1:], strict=False):
            result.contention_seconds += state.contention * (following.time - state.time)
            result.spanning_seconds += state.spanning * (following.time - state.time)
    if stuck:
        raise StuckError(min(stuck))
    return result
