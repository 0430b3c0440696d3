"""The reference model of the policies that resize jobs, straight from docs/elastic-policies.md.

The mechanism is that of the other models: types, tables, outages and U are theirs. Here are stays of any
number of GPUs, the instants at which the policies decide, and the decisions. Every step is taken from scratch
at each instant. Nothing here imports ringbco.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from reference.elasticflow import Elastic, Filling
from reference.energy import Sleep, sleeping_world
from reference.limits import Limits, limited_world
from reference.mechanism import Preemption
from reference.mechanism import World as PreemptWorld
from reference.model import (
    GPU,
    Job,
    Net,
    Options,
    fewest_servers,
    iteration_time,
    work,
)
from reference.outages import Failures
from reference.priorities import Claims, Log, priority_world
from reference.running import RunningJob
from reference.searches import Climbs, Search, searching_world
from reference.shares import MILLI_GPU, Sharing
from reference.sized import Ranges, sized_world
from reference.tables import MeasuredJob, rate
from reference.types import Choices, Types

POLICIES = ("afs", "optimus", "elastic-srtf", "elasticflow")

MILLION = 1_000_000


def alike(jobs: Sequence[Job], servers: Sequence[int]) -> Types:
    """All GPUs of one type, on which all jobs were recorded."""
    return Types((0,) * len(servers), (Choices((0,), {0: 1.0}, 1.0),) * len(jobs), (1.0,), "listed")


def elastic_world(
    rules: Elastic,
    types: Types,
    facts: Failures,
    claims: Claims,
    log: Log,
    sharing: Sharing | None = None,
    sleep: Sleep | None = None,
    search: tuple[Search, Climbs] | None = None,
) -> type[PreemptWorld]:
    """The model of the policy of `rules` on servers of those types that fail, where jobs differ in rank.

    sharing: where jobs may hold shares of a GPU. sleep: where servers sleep. search: where jobs are trials.
    """
    noise = rules.noise or ((math.inf, 1),) * len(rules.least)
    under = sized_world(Ranges(rules.least, rules.most, noise), types, sharing)
    if sleep is not None:
        under = sleeping_world(sleep, under)
    under = priority_world(claims, log, facts, under, types=types)
    if search is not None:
        under = searching_world(*search, under)

    class Elastics(Filling, under):  # type: ignore[misc, valid-type]
        elastic, kinds = rules, types

        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.fresh: list[int] = []
            """Who came since the last decision."""
            self.lifted: dict[int, int] = {}
            """GPUs that those held whom decisions of the instant `lifted_at` stopped."""
            self.lifted_at = -math.inf
            self.evicted: dict[int, int] = {}
            """GPUs that those held who were evicted since a decision last let jobs in."""
            self.known: dict[int, list[int]] = {}
            self.speeds: dict[tuple[int, int, int], float] = {}

        def tried(self, row: int) -> list[int]:
            if row not in self.known:
                self.known[row] = super().tried(row)
            return self.known[row]

        def need(self, row: int) -> int:
            return rules.least[row]

        def start_on(self, row: int, gpus: list[GPU], rng: int) -> None:
            """A job that waits has these GPUs from now on."""
            self.rng = rng
            if self.goes_on(row, gpus):
                self.lifted.pop(row, None)
                return
            first = math.isnan(self.result.start[row])
            given = None
            if row in self.lifted:
                given = rules.move if self.lifted[row] == len(gpus) else rules.resize
            cost = rules.own.get(row, rules.preempt) if given is None else given
            if first:
                cost = rules.start
            cost += self.waking(gpus)
            self.over[row] = self.over_quota(row, len(gpus))
            self.tell(row, "preempted", "moved")
            self.waiting.remove(row)
            begin = self.now + self.pause(cost)
            run = RunningJob(row, gpus, self.now, begin, left=self.left[row], since=begin, cost=cost)
            self.running.append(run)
            self.saved[row] = begin, run.left
            self.past[row] = []
            for gpu in gpus:
                self.load[gpu] = self.load.get(gpu, 0.0) + work(self.jobs[row], self.options, self.net)
            if first:
                self.result.start[row] = self.seconds(self.now)

        def look(self) -> None:
            """Why jobs wait is nothing that this reference model tells."""

        def count_time(self) -> None:
            """Nor what time was spent on."""

        def milli_gpus(self, row: int, gpus: int) -> int:
            """GPUs in thousandths: those that a job holds of so many."""
            return gpus * (self.jobs[row].share or MILLI_GPU)

        # What the page calls L, r, T, u and v.

        def work_left(self, row: int) -> float:
            """Iterations, or recorded seconds."""
            return float(self.remaining(row) if self.fixed else self.left_now(row))

        def speed(self, row: int, gpus: int, gpu_type: int) -> float:
            """r(w): work a second on the fewest servers of the type, were they empty. It never changes."""
            if (row, gpus, gpu_type) not in self.speeds:
                self.speeds[row, gpus, gpu_type] = self.speed_anew(row, gpus, gpu_type)
            return self.speeds[row, gpus, gpu_type]

        def speed_anew(self, row: int, gpus: int, gpu_type: int) -> float:
            sizes = list(types.sizes(gpu_type, self.sizes).values())
            if sum(sizes) < gpus:
                return 0.0
            servers = fewest_servers(gpus, sizes)
            job = self.on(row, gpus, gpu_type)
            if self.fixed:
                return self.pace(row, gpus, gpu_type)
            if isinstance(job, MeasuredJob):
                return rate(job.rows, job.measured_as, gpu_type, gpus, servers) or 0.0
            return self.part(row, gpus) / iteration_time(job, servers, 1, self.net)

        def time(self, row: int, gpus: int, gpu_type: int) -> float:
            """T(w): the remaining run time on so many GPUs."""
            speed = self.speed(row, gpus, gpu_type)
            return self.work_left(row) / speed if speed > 0 else math.inf

        # Numbers.

        def is_young(self, run: RunningJob) -> bool:
            """Or keeps its number for another reason."""
            is_young = self.seconds(self.now) - self.seconds(run.start) < rules.resize_every
            return is_young or bool(self.is_drained(run.row))

        def numbers(self, within: list[int], guests: list[int]) -> tuple[dict[int, int], dict[int, int]]:
            """By row of those that take part: how many GPUs, and of which type. In order of the base."""
            order = within + guests
            young = [run for run in self.running if self.is_young(run)]
            old = {run.row: self.type_of(run) for run in self.running if not self.is_young(run)}
            free = {t: MILLI_GPU * sum(types.sizes(t, self.up()).values()) for t in sorted(set(types.of))}
            for run in young:
                free[self.type_of(run)] -= self.milli_gpus(run.row, len(run.gpus))
            number = dict.fromkeys([*old, *self.waiting], 0)
            draws = dict(old)
            order = [row for row in order if row in number]
            within, guests = (
                [row for row in within if row in number],
                [row for row in guests if row in number],
            )
            if rules.policy == "elasticflow":
                firm = [row for row in within if self.is_protected(row)]
                for row in firm:
                    number[row] = rules.least[row]
                    free[draws[row]] -= self.milli_gpus(row, number[row])
                taken = self.taken_by(young)
                for rows in (within, guests):
                    self.reserve(rows, taken, number, draws, free)
            firmly = [sorted(rows, key=lambda row: not self.is_protected(row)) for rows in (within, guests)]
            for row in firmly[0] + firmly[1]:
                if number[row] or self.room(row, number) < rules.least[row]:
                    continue
                types_tried = [draws[row]] if row in draws else self.tried(row)
                least = self.milli_gpus(row, rules.least[row])
                enough = next((t for t in types_tried if free[t] >= least), None)
                if enough is not None:
                    number[row], draws[row] = rules.least[row], enough
                    free[enough] -= least
            for gpu_type in sorted(set(types.of)):
                while free[gpu_type] >= MILLI_GPU:
                    gaining = [
                        row
                        for row in order
                        if 0 < number[row] < rules.most[row]
                        and draws[row] == gpu_type
                        and self.gains(row, number[row], gpu_type)
                        and self.room(row, number) > 0
                    ]
                    if not gaining:
                        break
                    number[self.best(gaining, number, gpu_type)] += 1
                    free[gpu_type] -= MILLI_GPU
            return number, draws

        def room(self, row: int, number: dict[int, int]) -> float:
            """GPUs that its owners may have besides those of `number` and of young stays."""
            has = number | {run.row: len(run.gpus) for run in self.running if run.row not in number}
            left = [
                quota.gpus - sum(has[other] for other in book.rows(row, has))
                for book, quota in claims.quotas(row)
                if not quota.borrow
            ]
            return min(left, default=math.inf)

        def gains(self, row: int, gpus: int, gpu_type: int) -> bool:
            """Whether a GPU more makes a job faster; less is rounding."""
            return self.speed(row, gpus + 1, gpu_type) > self.speed(row, gpus, gpu_type) * (1.0 + 1e-12)

        def base_key(self, row: int) -> tuple[float, ...]:
            priority, *rest = self.fifo(row)
            if rules.policy in ("afs", "elastic-srtf"):
                return priority, self.remaining(row), *rest
            if rules.policy == "elasticflow":
                return priority, self.deadline(row), *rest
            return priority, *rest

        def best(self, gaining: list[int], number: dict[int, int], gpu_type: int) -> int:
            """Who gets the next GPU, of those that can gain in order of the base."""
            if rules.policy == "afs":
                times = [self.times(row, number[row], gpu_type) for row in gaining]
                beaten = [any(b + MILLION < a for b in times[at + 1 :]) for at, a in enumerate(times)]
                return gaining[beaten.index(False)]

            def falls(row: int) -> float:
                before = self.time(row, number[row], gpu_type)
                return math.inf if before == math.inf else before - self.time(row, number[row] + 1, gpu_type)

            return min(gaining, key=lambda row: (-falls(row), *self.fifo(row)))

        def times(self, row: int, gpus: int, gpu_type: int) -> int:
            """c in millionths."""
            now, more = (self.speed(row, n, gpu_type) for n in (gpus, gpus + 1))
            return round(now / (more - now) * 1e6)

        # Places.

        def one_pass(self) -> None:
            if self.lifted_at < self.now:
                self.lifted, self.lifted_at = {}, self.now
            self.admit()
            ranked = sorted([*(run.row for run in self.running), *self.waiting], key=self.base_key)
            firmly = sorted(ranked, key=lambda row: not self.is_kept(row))
            within, guests = (sorted(rows, key=ranked.index) for rows in self.by_owner(firmly))
            number, draws = self.numbers(within, guests)
            held = {run.row: run for run in self.running if run.row in number}
            changed = [row for row in number if number[row] != (len(held[row].gpus) if row in held else 0)]
            firm = [row for row in changed if number[row] > 0 and self.is_protected(row)]
            changed = [row for row in changed if row not in firm]
            for row in sorted(changed, key=self.fifo):
                if row in held:
                    self.lift(held[row])
            by_change = sorted(
                firm, key=lambda row: (number[row] > len(held[row].gpus), -number[row], *self.fifo(row))
            )
            for row in by_change:
                self.resize_in_place(held[row], number[row], draws[row])
            to_place = sorted(
                (row for row in changed if number[row] > 0), key=lambda row: (-number[row], *self.fifo(row))
            )
            for row in to_place:
                self.place_down(row, number[row], [draws[row]])
            if claims.evict or claims.books:
                self.let_in(within, guests)

        def lift(self, run: RunningJob) -> None:
            """Off its GPUs. One that began at this instant has held none."""
            if self.interrupt(run):
                self.lifted[run.row] = len(run.gpus)
                self.result.preemptions[run.row] += 1
            self.waiting.append(run.row)

        def resize_in_place(self, run: RunningJob, number: int, gpu_type: int) -> None:
            """Another number of GPUs for a job that is protected; its own, if there is no room for it."""
            row, parts = run.row, Counter(server for server, _ in run.gpus)
            self.lift(run)
            self.place_down(row, number, [gpu_type])
            if row in self.waiting:
                own = [
                    gpu for server in sorted(parts) for gpu in self.least(self.idle_on(server), parts[server])
                ]
                self.start_on(row, own, self.rng)

        def let_in(self, within: list[int], guests: list[int]) -> None:
            """Those that wait still have a turn each."""
            self.evicted = {}
            for row in within + guests:
                if row in self.waiting:
                    self.place_down(row, self.evicted.get(row, rules.least[row]), self.tried(row))
                if row in self.waiting and row in within and not self.over_quota(row, rules.least[row]):
                    self.make_room(row)
            for row in within + guests:
                if row in self.waiting and row in self.evicted:
                    self.place_down(row, self.evicted[row], self.tried(row))

        def place_down(self, row: int, most: int, on: Sequence[int]) -> None:
            """Starts a job on so many GPUs, or on as many fewer as it takes, of the first of these types."""
            for count in range(most, rules.least[row] - 1, -1):
                if self.passed_over(row, count):
                    continue
                for gpu_type in on:
                    gpus, rng = self.put(row, count, gpu_type)
                    if gpus is not None:
                        self.start_on(row, gpus, rng)
                        return

        def evict(self, leaving: Sequence[RunningJob]) -> None:
            self.evicted.update({run.row: len(run.gpus) for run in leaving})
            super().evict(leaving)

        # The clocks.

        def is_due(self, happened: bool) -> bool:
            return happened or self.next_tick() <= self.seconds(self.now)

        def next_tick(self) -> float:
            """The first multiple of the interval after the latest instant, while somebody waits or runs."""
            every = rules.interval
            if every is None or not (self.waiting or self.running):
                return math.inf
            first = max(0, math.floor(self.last / every) - 1) if self.last >= 0 else 0
            return next(k * every for k in range(first, first + 4) if k * every > self.last)

        def arrive(self) -> bool:
            future = list(self.future)
            happened = super().arrive()
            came = [row for row in future if row not in self.future]
            self.fresh += came
            return bool(happened or came)

        def admit(self) -> None:
            """Who came is let in, or is refused, one by one."""
            if rules.policy == "elasticflow":
                self.waiting = [row for row in self.waiting if row not in self.fresh]
                for row in sorted(self.fresh, key=self.fifo):
                    if self.admits(row):
                        self.waiting.append(row)
                    else:
                        self.result.refused[row], self.result.kept[row] = True, False
            self.fresh = []

    return Elastics


def simulation_arguments(
    jobs: Sequence[Job],
    servers: Sequence[int],
    net: Net,
    options: Options,
    rules: Elastic,
    types: Types | None = None,
    facts: Failures | None = None,
    server_vc: Sequence[int] | None = None,
    claims: Claims | None = None,
    log: Log | None = None,
    sharing: Sharing | None = None,
    limits: Limits | None = None,
    sleep: Sleep | None = None,
    search: tuple[Search, Climbs] | None = None,
) -> tuple[Any, ...]:
    """What `mechanism.simulate` is given to replay `jobs` under a policy that resizes them.

    log: told what else came of the run. sharing: where jobs may hold shares of a GPU; told who held which.
    """
    world = elastic_world(
        rules,
        types or alike(jobs, servers),
        facts or Failures((), (math.inf,) * len(jobs)),
        claims or Claims((0,) * len(jobs), (True,) * len(jobs)),
        log or Log([0] * len(jobs)),
        sharing,
        sleep,
        search,
    )
    if limits is not None:
        world = limited_world(limits, world)
    told = Preemption(rules.policy, after=rules.after, most=rules.protected_most, kept=rules.kept)
    return jobs, rules.deadlines, servers, net, options, told, server_vc, world
