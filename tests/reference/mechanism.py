"""The reference model of the policies that preempt: plain Python, straight from docs/policies.md.

All is worked out again at every instant, and under the slot clock in every slot: the ranking,
the quota, idle GPUs, accumulated times, contention. Nothing here imports ringbco.
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reference import clocks
from reference.arrivals import Arriving
from reference.causes import Causes
from reference.links import Held
from reference.model import (
    GPU,
    Job,
    Net,
    Options,
    OversizeError,
    RefusedError,
    StuckError,
    fewest_servers,
    iteration_time,
    iterations_per_slot,
    too_slow,
    work,
)
from reference.netting import Netting
from reference.placement import ClusterState, clusters, place
from reference.preemption import Preemption
from reference.protection import Protecting
from reference.result import PreemptResult
from reference.running import RunningJob
from reference.tiers import felt, of_cluster


@dataclass
class World(Arriving, Causes, Protecting, Netting):
    """One cluster, or one virtual cluster."""

    sizes: dict[int, int]
    jobs: dict[int, Job]
    deadlines: Sequence[float]
    net: Net
    options: Options
    rules: Preemption
    rng: int
    result: PreemptResult
    future: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    running: list[RunningJob] = field(default_factory=list)
    load: dict[GPU, float] = field(default_factory=dict)
    left: dict[int, float] = field(default_factory=dict)
    served: dict[int, float] = field(default_factory=dict)
    gpu_times: list[float] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    listed: dict[int, int] = field(default_factory=dict)
    """The queue of each row of the stable lists, all of them in one order."""
    states: list[tuple[float, int, int, int, int]] = field(default_factory=list)
    seen_by_links: list[tuple[float, list[Held]]] = field(default_factory=list)
    short: list[int] = field(default_factory=list)
    apart: list[int] = field(default_factory=list)
    looked: float = 0.0
    passed: float = -math.inf
    """When the latest pass was."""
    last: float = -1.0
    """The latest instant, s."""
    tick: int = 0
    """The number of the next tick, where the policy decides at ticks only."""
    again: bool = False
    """Whether this instant has another decision."""
    shifted: dict[int, float] = field(default_factory=dict)
    """When jobs were preempted last."""
    now: float = 0.0  # in the clock's unit

    @property
    def slotted(self) -> bool:
        return self.options.clock == "slot"

    @property
    def fixed(self) -> bool:
        return self.options.model == "fixed"

    def seconds(self, time: float) -> float:
        return time * self.options.slot if self.slotted else time

    def pause(self, cost: float) -> float:
        return math.ceil(cost / self.options.slot) if self.slotted else cost

    def up(self) -> dict[int, int]:
        """The servers that are up; failing ones are `outages`'."""
        return self.sizes

    def other_instants(self) -> list[float]:
        """Instants to come, in seconds, besides completions, arrivals and ticks."""
        return []

    # A job's figures, now.

    def whole(self, row: int) -> float:
        job = self.jobs[row]
        if not self.fixed:
            return float(job.iterations)
        return math.ceil(job.duration / self.options.slot) if self.slotted else job.duration

    def left_now(self, row: int) -> float:
        for run in self.running:
            if run.row == row:
                if self.slotted or self.now <= run.since:
                    return run.left
                return max(0.0, run.left - (self.now - run.since) / run.tau)
        return self.left[row]

    def remaining(self, row: int) -> float:
        """Remaining run time in seconds, on one server and uncontended."""
        left = self.left_now(row)
        if not self.fixed:
            return left * iteration_time(self.jobs[row], 1, 0, self.net)
        if self.slotted:
            return max(0.0, self.jobs[row].duration - (self.whole(row) - left) * self.options.slot)
        return left

    def ideal(self, row: int) -> float:
        job = self.jobs[row]
        if self.fixed:
            return job.duration
        servers = fewest_servers(job.num_gpus, list(self.sizes.values()))
        return job.iterations * iteration_time(job, servers, 1, self.net)

    def attained(self, row: int) -> float:
        """GPU-seconds: all time on GPUs, the resume cost too."""
        held = self.served[row]
        for run in self.running:
            if run.row == row:
                held += self.now - run.start
        return self.size(row) * self.seconds(held)

    def size(self, row: int) -> float:
        """The GPUs by which its time counts."""
        return self.jobs[row].num_gpus

    def level(self, row: int) -> int:
        return sum(1 for t in self.rules.thresholds if self.attained(row) >= t)

    def gittins(self, row: int) -> float:
        a = self.attained(row)
        beyond = [s - a for s in self.gpu_times if s > a]
        ratios = (sum(1 for s in beyond if s <= d) / sum(min(s, d) for s in beyond) for d in beyond)
        # In single precision, so that indexes which differ by rounding alone tie.
        return float(struct.unpack("f", struct.pack("f", max(ratios, default=0.0)))[0])

    def fifo(self, row: int) -> tuple[float, ...]:
        return self.jobs[row].submit, self.jobs[row].tie, row

    def ranking(self) -> list[int]:
        runs = [run.row for run in self.running]
        fifo = self.fifo

        def inside(row: int) -> tuple[float, ...]:
            return (list(self.listed).index(row),) if self.rules.within == "list" else fifo(row)

        def deadline(row: int) -> float:
            return math.inf if math.isnan(self.deadlines[row]) else self.deadlines[row]

        def unfairness(row: int) -> float:
            return (self.seconds(self.now) - self.arrival_of(row) + self.remaining(row)) / self.ideal(row)

        keys: dict[str, Callable[[int], tuple[float, ...]]] = {
            "srtf": lambda row: (self.remaining(row), *fifo(row)),
            "srsf": lambda row: (self.remaining(row) * self.size(row), *fifo(row)),
            "tiresias": lambda row: (self.level(row), *inside(row)),
            "gittins": lambda row: (self.level(row), -self.gittins(row), *inside(row)),
            "ftf": lambda row: (-unfairness(row), *fifo(row)),
            "edf": lambda row: (deadline(row), *fifo(row)),
        }
        if self.rules.within == "list":
            ahead = sorted(self.listed, key=lambda row: row not in runs)
            joins = [row for row in runs + self.waiting if self.listed.get(row) != self.level(row)]
            order = [row for row in ahead if row not in joins] + sorted(joins, key=fifo)
            self.listed = {row: self.level(row) if row in joins else self.listed[row] for row in order}
        if self.rules.policy == "time-slice":
            ran = sorted((row for row in self.line if row in runs), key=fifo)
            self.line = [row for row in self.line if row not in runs] + ran
            return list(self.line)
        ranked = sorted(runs + self.waiting, key=keys[self.rules.policy])
        return self.leveled(ranked, unfairness) if self.rules.policy == "ftf" else ranked

    def leveled(self, ranked: list[int], value: Callable[[int], float]) -> list[int]:
        """The same with those in order of fifo whose values are within 1e-12 of the greatest of them."""
        ranked, greatest = sorted(ranked, key=self.tier), {}
        first = ranked[0] if ranked else 0
        for row in ranked:
            near = value(first) - value(row) <= 1e-12 * abs(value(first))
            if not near or self.tier(row) != self.tier(first):
                first = row
            greatest[row] = ranked.index(first)
        return sorted(ranked, key=lambda row: (greatest[row], *self.fifo(row)))

    def tier(self, row: int) -> int:
        """The less the higher its priority."""
        return 0

    def too_slow(self, row: int) -> bool:
        """Not one iteration fits in a slot, even uncontended and on the fewest servers."""
        return too_slow(self.jobs[row], list(self.sizes.values()), self.net, self.options.slot)

    # One pass.

    def select(self) -> list[int]:
        """Who should run: the ranking walked with a quota of all GPUs."""
        quota = sum(self.up().values())
        selected = []
        for row in self.ranking():
            if self.jobs[row].num_gpus <= quota:
                quota -= self.jobs[row].num_gpus
                selected.append(row)
        return selected

    def find(self, row: int) -> tuple[list[GPU] | None, int]:
        """The idle GPUs that a job would get, and the state of the random numbers afterwards."""
        return self.placed_on(self.jobs[row], self.cluster_state())

    def placed_on(self, job: Job, cluster: ClusterState) -> tuple[list[GPU] | None, int]:
        """The same of a job on some servers, all of one type."""
        return place(job, cluster, self.options, self.rng)

    def lent(self) -> set[GPU]:
        """GPUs that others than jobs hold: replicas are `priorities`'."""
        return set()

    def tau(self, run: RunningJob, p: int) -> float:
        """Seconds a unit of a job's work takes where it runs, among p spanning jobs."""
        return 1.0 if self.fixed else self.iteration(run, p, run.bandwidth)

    def iteration(self, run: RunningJob, p: int, bandwidth: float | None) -> float:
        """Eq. 8 on all the GPUs that it asks for."""
        return iteration_time(self.jobs[run.row], len(run.servers), p, self.net, bandwidth)

    def one_pass(self) -> None:
        selected = self.select()
        for run in sorted(self.running, key=lambda run: run.row):
            if run.row not in selected:
                if self.interrupt(run):
                    self.result.preemptions[run.row] += 1
                    self.shifted[run.row] = self.now
                self.waiting.append(run.row)
        for row in selected:
            if row in self.waiting:
                self.try_start(row)

    def try_start(self, row: int) -> None:
        gpus, rng = self.find(row)
        if gpus is None:
            return
        self.rng = rng
        if self.goes_on(row, gpus):
            return
        first, cost = math.isnan(self.result.start[row]), self.cost_of(row, gpus) + self.waking(gpus)
        self.tell(row, "preempted", "moved")
        begin = self.now + self.pause(cost)
        run = RunningJob(row, gpus, self.now, begin, left=self.left[row], since=begin, cost=cost)
        self.waiting.remove(row)
        self.running.append(run)
        for g in gpus:
            self.load[g] = self.load.get(g, 0.0) + work(self.jobs[row], self.options, self.net)
        if first:
            self.result.start[row] = self.seconds(self.now)

    def cost_of(self, row: int, gpus: list[GPU]) -> float:
        """Seconds of the pause with which a stay there begins."""
        if math.isnan(self.result.start[row]):
            return self.rules.start_cost
        # After a second pass at the instant at which it was preempted it has moved.
        moves = self.shifted.get(row) == self.now
        return self.rules.price(row, self.rules.move_cost if moves else None)

    def waking(self, gpus: list[GPU]) -> float:
        """Seconds by which the pause of a stay that begins there is longer; who sleeps is `energy`'s."""
        return 0.0

    def begins(self, row: int) -> bool:
        """Whether a stay of it begins now."""
        return any(run.row == row and run.start == self.now for run in self.running)

    def goes_on_from(self, run: RunningJob, left: float, since: float) -> None:
        """So much is left of its work until `since`, and falls from then on."""
        run.left, run.since = left, since

    def stop(self, run: RunningJob) -> None:
        """Off its GPUs, done or not."""
        row = run.row
        self.left[row] = self.left_now(row)
        self.running.remove(run)
        self.result.max_contention[row] = max(self.result.max_contention[row], run.most)
        self.result.max_crossing[row] = max(self.result.max_crossing[row], run.crossing)
        self.served[row] += self.now - run.start
        self.result.held[row] += self.seconds(self.now - run.start)
        self.result.lost[row] += self.seconds(min(self.now, run.begin) - run.start)
        for s in sorted(run.servers):
            count = sum(1 for g in run.gpus if g[0] == s)
            stay = (s, count, self.seconds(run.start), self.seconds(self.now))
            self.result.allocations[row].append(stay)

    def complete(self, run: RunningJob) -> None:
        self.stop(run)
        self.result.finish[run.row] = self.seconds(self.now)
        self.gpu_times.append(self.attained(run.row))
        self.forget(run.row)

    def forget(self, row: int) -> None:
        """A row is in no line any more."""
        if row in self.line:
            self.line.remove(row)
        self.listed.pop(row, None)

    def turned_away(self, row: int) -> bool:
        """Whether a job is refused on arrival."""
        late = self.seconds(self.now) + self.ideal(row) > self.deadlines[row]
        return self.rules.admission and late

    def arrive(self) -> bool:
        """Lets in who arrives by now; whether anybody came."""
        entered = False
        for row in sorted(self.take_arrivals(self.seconds(self.now)), key=self.fifo):
            if self.turned_away(row):
                self.result.refused[row], self.result.kept[row] = True, False
                continue
            entered = True
            self.waiting.append(row)
            self.line.append(row)
            self.left[row], self.served[row] = self.whole(row), 0.0
        return entered

    def cluster_state(self) -> ClusterState:
        gpus = [(s, g) for s in sorted(self.sizes) for g in range(self.sizes[s])]
        busy = {g for run in self.running for g in run.gpus}
        load = {g: self.load.get(g, 0.0) for g in gpus}
        return ClusterState(dict(sorted(self.sizes.items())), [g for g in gpus if g not in busy], load)

    def new_rates(self) -> None:
        for run, own in zip(self.running, felt(self.running, self.net), strict=True):
            run.p, run.bandwidth, run.without, run.own = own.p, own.bandwidth, own.without, own.own
            run.crossing = max(run.crossing, own.crossing)
            run.most = max(run.most, run.p)
            tau = self.tau(run, run.p)
            if self.slotted:
                run.phi = 1.0 / tau if self.fixed else iterations_per_slot(tau, self.options.slot)
            elif tau != run.tau:
                if self.now > run.since and not math.isnan(run.tau):
                    run.left = max(0.0, run.left - (self.now - run.since) / run.tau)
                    run.since = self.now
                run.tau = tau
        busy = sum(len(run.gpus) for run in self.running)
        total = sum(run.p for run in self.running)
        self.states.append((self.seconds(self.now), len(self.running), len(self.waiting), busy, total))
        if self.net.tree is not None and self.net.tree.tiers:
            there = [
                Held(run.row, list(run.gpus), self.seconds(max(run.begin, run.since))) for run in self.running
            ]
            self.seen_by_links.append((self.seconds(self.now), there))

    # The clocks.

    def is_due(self, happened: bool) -> bool:
        """Whether there is a pass now."""
        if not self.rules.ticks:
            return happened
        due = self.next_tick() <= self.seconds(self.now)
        while self.next_tick() <= self.seconds(self.now):
            self.tick += 1
        # Whom the pass of this tick started may be done at it.
        return due or (happened and self.passed == self.now and self.rules.policy != "time-slice")

    def next_tick(self) -> float:
        """Seconds."""
        return self.tick * self.rules.interval if self.rules.ticks and self.rules.interval else math.inf

    def reconsiders(self) -> bool:
        """Whether a pass has changed who waits: what searches make of it is theirs."""
        return False

    def after_jobs(self) -> None:
        """What goes on once all jobs are gone: requests are `answering`'s."""

    def give_up(self, idle: float) -> None:
        if idle > clocks.PATIENCE:
            raise StuckError(min(self.waiting + [run.row for run in self.running]))

    def yielded(self, run: RunningJob) -> float:
        """Work done in the slot that ends now."""
        return run.phi

    def mark(self, row: int) -> float:
        """The work left at which a stay ends; trials end theirs at rungs, too."""
        return 0.0

    def comes_to_end(self, run: RunningJob) -> bool:
        # What is left of rounding is little beside a slot's work, and beside all of it where that is less.
        return run.left - self.mark(run.row) <= 1e-9 * min(run.phi, self.whole(run.row))

    def end_of(self, run: RunningJob) -> float:
        left = max(0.0, run.left - self.mark(run.row))
        return run.since + (left * run.tau if left else 0.0)

    def ends(self, run: RunningJob) -> bool:
        """A stay ends by itself; whether that is an event."""
        run.left = 0.0 if self.slotted else run.left
        self.complete(run)
        return True


def simulate(
    jobs: Sequence[Job],
    deadlines: Sequence[float],
    servers: Sequence[int],
    net: Net,
    options: Options,
    rules: Preemption,
    server_vc: Sequence[int] | None = None,
    world_type: type[World] = World,
) -> PreemptResult:
    """Replay `jobs` in a world of that type; deadlines are NaN where there is none.
    Raises OversizeError, RefusedError or StuckError, naming a row at fault.
    """
    result = PreemptResult.nothing_yet(len(jobs))
    worlds = [
        world_type(sizes, mine, deadlines, of_cluster(net, sizes), options, rules, seed, result)
        for sizes, mine, seed in clusters(jobs, servers, server_vc, options.seed)
    ]
    for world in worlds:
        for row in list(world.jobs):
            if world.find(row)[0] is None:
                result.kept[row] = False
                del world.jobs[row]
    if options.oversize == "error" and not all(result.kept):
        raise OversizeError(result.kept.index(False))
    if options.clock == "slot" and options.model == "rar":
        refused = [row for world in worlds for row in world.jobs if world.too_slow(row)]
        if refused:
            raise RefusedError(refused[0])
    for world in worlds:
        clocks.run(world)
        world.after_jobs()
        result.states.append(world.states)
        result.seen_by_links.append((world.seen_by_links, world.net))
    return result
