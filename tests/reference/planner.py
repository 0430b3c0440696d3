"""The slow planner: Algorithm 1 slot by slot, with every kappa, straight from docs/paper.md.

Nothing is shared between two schedules, nothing is cut short: each pair of theta and kappa is placed and
simulated from the first slot to the last, one slot at a time, contention and rates worked out afresh in each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.model import GPU, Job, Net, iteration_time, iterations_per_slot
from reference.placement import splitmix64
from reference.tiers import contention


@dataclass(frozen=True)
class PlanOptions:
    """The knobs of a plan, spelt as the planner spells them."""

    policy: str = "sjf-bco"
    order: str = "smallest"
    dispatch: str = "idle"
    variant: str = "practical"
    model: str = "rar"
    kappa: int | None = None
    lambda_: float = 1.0
    u: float = 1.0
    horizon: int | None = None
    slot: float = 1.0
    seed: int = 0


@dataclass
class Schedule:
    """One schedule; times in slots, by row."""

    start: dict[int, int]
    finish: dict[int, int]
    gpus: dict[int, list[GPU]]
    load: dict[GPU, float]

    @property
    def makespan(self) -> int:
        return max(self.finish.values())

    @property
    def w_max(self) -> float:
        return max(self.load.values())


@dataclass(frozen=True)
class Planned:
    """What Algorithm 1 returns."""

    schedule: Schedule
    theta: int
    kappa: int
    horizon: int
    work_bound: float


@dataclass
class ClusterState:
    """The cluster while jobs are being given GPUs."""

    sizes: Sequence[int]
    options: PlanOptions
    theta: float
    kappa: int
    load: dict[GPU, float] = field(init=False)
    busy: set[GPU] = field(default_factory=set)
    given: set[int] = field(default_factory=set)
    rng: int = 0

    def __post_init__(self) -> None:
        self.load = {(s, g): 0.0 for s, size in enumerate(self.sizes) for g in range(size)}
        self.rng = self.options.seed

    def is_candidate(self, gpu: GPU, charge: float) -> bool:
        if self.options.dispatch == "idle" and gpu in self.busy:
            return False
        return self.load[gpu] + charge <= self.theta

    def is_opened(self, server: int) -> bool:
        if self.options.dispatch == "reserve":
            return server in self.given
        return any(s == server for s, _ in self.busy)

    def mean_load(self, server: int) -> float:
        total = 0.0
        for g in range(self.sizes[server]):
            total += self.load[server, g]
        return total / self.sizes[server]

    def give(self, wanted: int, charge: float) -> list[GPU] | None:
        """The GPUs for a gang, or None: it waits. What is given is entered in U."""
        candidates = [gpu for gpu in sorted(self.load) if self.is_candidate(gpu, charge)]
        policy = self.options.policy
        if policy == "ff":
            gpus = candidates[:wanted] if len(candidates) >= wanted else None
        elif policy == "ls":
            gpus = self.least(candidates, wanted)
        elif policy == "rand":
            gpus = self.draw(candidates, wanted)
        elif wanted > self.kappa:
            gpus = self.lbsgf(candidates, wanted)
        elif self.options.variant == "literal":
            gpus = self.least(candidates, wanted)
        else:
            gpus = self.fa_ffp(candidates, wanted)
        if gpus is None:
            return None
        for gpu in gpus:
            self.load[gpu] += charge
            self.given.add(gpu[0])
            if self.options.dispatch == "idle":
                self.busy.add(gpu)
        return gpus

    def least(self, candidates: list[GPU], wanted: int) -> list[GPU] | None:
        if len(candidates) < wanted:
            return None
        return sorted(candidates, key=lambda gpu: (self.load[gpu], gpu))[:wanted]

    def draw(self, candidates: list[GPU], wanted: int) -> list[GPU] | None:
        if len(candidates) < wanted:
            return None
        ranks: set[int] = set()
        for i in range(len(candidates) - wanted, len(candidates)):
            number, self.rng = splitmix64(self.rng)
            t = (number * (i + 1)) >> 64
            ranks.add(i if t in ranks else t)
        return [candidates[rank] for rank in sorted(ranks)]

    def fa_ffp(self, candidates: list[GPU], wanted: int) -> list[GPU] | None:
        if len(candidates) < wanted:
            return None
        on = {s: [gpu for gpu in candidates if gpu[0] == s] for s in range(len(self.sizes))}
        for opened in (True, False):
            holding = [s for s in on if self.is_opened(s) is opened and len(on[s]) >= wanted]
            if holding:
                return self.least(on[min(holding, key=lambda s: (len(on[s]), s))], wanted)
        chosen: list[GPU] = []
        for opened in (True, False):
            servers = [s for s in on if self.is_opened(s) is opened]
            for s in sorted(servers, key=lambda s: (-len(on[s]), s)):
                chosen += self.least(on[s], min(len(on[s]), wanted - len(chosen))) or []
        return chosen

    def lbsgf(self, candidates: list[GPU], wanted: int) -> list[GPU] | None:
        prefix: list[int] = []
        offered = 0
        for s in sorted(range(len(self.sizes)), key=lambda s: (self.mean_load(s), s)):
            if offered >= self.options.lambda_ * wanted:
                break
            prefix.append(s)
            literal = self.options.variant == "literal"
            offered += self.sizes[s] if literal else sum(gpu[0] == s for gpu in candidates)
        return self.least([gpu for gpu in candidates if gpu[0] in prefix], wanted)


def estimate(job: Job, net: Net, options: PlanOptions) -> float:
    """rho_j, seconds."""
    if options.model == "fixed":
        return job.duration
    return float(job.iterations) * iteration_time(job, 1, 0, net)


def queue_order(jobs: Sequence[Job], options: PlanOptions) -> list[int]:
    rows = list(range(len(jobs)))
    if options.order == "smallest":
        rows.sort(key=lambda row: (jobs[row].num_gpus, row))
    return rows


def slots_left(job: Job, options: PlanOptions) -> int:
    return math.ceil(job.duration / options.slot)


def advance(
    now: int,
    running: dict[int, list[GPU]],
    left: dict[int, int],
    jobs: Sequence[Job],
    net: Net,
    options: PlanOptions,
) -> bool:
    """One slot of progress for every running job; False if none of them made any."""
    servers = {row: {s for s, _ in gpus} for row, gpus in running.items()}
    spanning = [own for own in servers.values() if len(own) > 1]
    moved = False
    for row in running:
        if options.model == "fixed":
            step = 1
        else:
            p = contention(servers[row], spanning)
            step = iterations_per_slot(iteration_time(jobs[row], len(servers[row]), p, net), options.slot)
        moved = moved or step > 0
        left[row] -= step
    return moved


def try_schedule(
    theta: int, kappa: int, jobs: Sequence[Job], sizes: Sequence[int], net: Net, options: PlanOptions
) -> Schedule | None:
    """The schedule of one theta and one kappa, or None if there is none."""
    cluster = ClusterState(sizes, options, theta * options.slot, kappa)
    waiting = queue_order(jobs, options)
    charge = {row: estimate(jobs[row], net, options) / options.u for row in waiting}
    gpus: dict[int, list[GPU]] = {}
    queues: dict[GPU, list[int]] = {gpu: [] for gpu in cluster.load}
    if options.dispatch == "reserve":
        for row in waiting:
            got = cluster.give(jobs[row].num_gpus, charge[row])
            if got is None:
                return None
            gpus[row] = got
            for gpu in got:
                queues[gpu].append(row)
    start: dict[int, int] = {}
    finish: dict[int, int] = {}
    running: dict[int, list[GPU]] = {}
    left: dict[int, int] = {}
    now = 0
    while True:
        for row in [row for row in running if left[row] <= 0]:
            finish[row] = now
            for gpu in running.pop(row):
                cluster.busy.discard(gpu)
                if options.dispatch == "reserve":
                    queues[gpu].remove(row)
        if len(finish) == len(jobs):
            return Schedule(start, finish, gpus, cluster.load)
        started = []
        if options.dispatch == "reserve":
            started = [row for row in waiting if all(queues[gpu][0] == row for gpu in gpus[row])]
        else:
            for row in waiting:
                got = cluster.give(jobs[row].num_gpus, charge[row])
                if got is None:
                    break
                gpus[row] = got
                started.append(row)
        for row in started:
            waiting.remove(row)
            start[row] = now
            running[row] = gpus[row]
            left[row] = slots_left(jobs[row], options) if options.model == "fixed" else jobs[row].iterations
        if not running or not advance(now, running, left, jobs, net, options):
            return None
        now += 1


def work_bound(jobs: Sequence[Job], sizes: Sequence[int], net: Net, options: PlanOptions) -> float:
    longest = area = 0.0
    for job in jobs:
        rho = estimate(job, net, options)
        longest = max(longest, rho)
        area += job.num_gpus * rho
    return max(longest, area / sum(sizes))


def plan(jobs: Sequence[Job], sizes: Sequence[int], net: Net, options: PlanOptions) -> Planned | None:
    """Algorithm 1; None if no schedule ends within the horizon that is given."""
    bound = work_bound(jobs, sizes, net, options)
    horizon = options.horizon or math.ceil(2 * bound / options.slot)
    kappas = [0]
    if options.policy == "sjf-bco":
        kappas = list(range(1, max(job.num_gpus for job in jobs) + 1))
        if options.kappa is not None:
            kappas = [options.kappa]
    while True:
        best: Planned | None = None
        makespan = horizon
        left, right = 1, horizon
        if options.policy == "rand":
            left = horizon
        while left <= right:
            theta = (left + right) // 2
            here: tuple[Schedule, int] | None = None
            for kappa in kappas:
                schedule = try_schedule(theta, kappa, jobs, sizes, net, options)
                if schedule and (here is None or schedule.makespan < here[0].makespan):
                    here = (schedule, kappa)
            if here and here[0].makespan < makespan:
                makespan = here[0].makespan
                best = Planned(here[0], theta, here[1], horizon, bound)
                right = theta - 1
            else:
                left = theta + 1
        if best or options.horizon is not None:
            return best
        horizon *= 2
