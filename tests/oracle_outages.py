"""The slow truth of outages: the oracles on servers that fail, straight from docs/outages.md.

At every instant it is asked anew who is up, what is idle and what a job would fall back to. Under the slot
clock each job writes down what is left to do whenever a checkpoint counts. Nothing here imports ringbco.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from oracle.model import GPU, StuckError, work
from oracle.placement import Floor, place
from oracle_preempt import INTERVALS, PATIENCE, Stretch
from oracle_preempt import World as PreemptWorld

Outage = tuple[int, float, float]
"""Server, down, up; in seconds."""


@dataclass
class Failing:
    """What the worlds of a run have in common. interval: seconds of progress between checkpoints, by row."""

    outages: Sequence[Outage]
    interval: Sequence[float]
    start_cost: float = 0.0
    failures: dict[int, int] = field(default_factory=dict)
    lost_work: dict[int, float] = field(default_factory=dict)


def merged(outages: Sequence[Outage]) -> list[Outage]:
    """Outages of one server that overlap or touch are one."""
    found: list[Outage] = []
    for server, down, up in sorted(outages):
        if found and found[-1][0] == server and down <= found[-1][2]:
            found[-1] = (server, found[-1][1], max(found[-1][2], up))
        else:
            found.append((server, down, up))
    return found


def ranked_world(failing: Failing) -> type[PreemptWorld]:
    """The oracle of the policies that preempt."""

    @dataclass
    class OutageWorld(PreemptWorld):
        away: set[int] = field(default_factory=set)
        pending: list[Outage] | None = None
        """Outages to come, in the clock's unit; `up` alone is to come of those in `away`."""
        history: dict[int, list[tuple[float, float, float]]] = field(default_factory=dict)
        """Of each running job (since, left, tau) of every pace; slot clock: (n, left) at its checkpoint."""
        counted: dict[int, int] = field(default_factory=dict)

        def instant(self, time: float) -> float:
            if not self.slotted or time == math.inf:
                return time
            n = math.floor(time / self.options.slot)
            while n * self.options.slot < time:
                n += 1
            while n > 0 and (n - 1) * self.options.slot >= time:
                n -= 1
            return float(n)

        def to_come(self) -> list[Outage]:
            if self.pending is None:
                own = [outage for outage in merged(failing.outages) if outage[0] in self.sizes]
                self.pending = merged([(s, self.instant(down), self.instant(up)) for s, down, up in own])
            return self.pending

        def next_change(self) -> float:
            times = [up if s in self.away else down for s, down, up in self.to_come()]
            return min(times, default=math.inf)

        def change_servers(self) -> bool:
            """Servers that come back, then servers that go down; whether there was any."""
            happened = False
            for outage in list(self.to_come()):
                if outage[0] in self.away and outage[2] <= self.now:
                    self.away.discard(outage[0])
                    self.to_come().remove(outage)
                    happened = True
            for outage in list(self.to_come()):
                server, down, up = outage
                if server in self.away or down > self.now:
                    continue
                happened = True
                for run in sorted(self.running, key=lambda run: run.row):
                    if server in run.servers:
                        self.fail(run)
                if up <= self.now:
                    self.to_come().remove(outage)
                else:
                    self.away.add(server)
            return happened

        # What a job falls back to.

        def checkpoints(self, run: Stretch) -> int:
            """How many a stay has had, besides that where its progress started."""
            every = failing.interval[run.row]
            passed = self.seconds(self.now) - self.seconds(run.begin)
            return math.floor(passed / every * (1.0 + 1e-12)) if passed > 0 and 0 < every < math.inf else 0

        def save(self) -> None:
            """Slot clock: writes down what is left where a checkpoint counts at this boundary."""
            for run in self.running:
                if self.now > run.begin and self.checkpoints(run) > self.counted.get(run.row, 0):
                    self.counted[run.row] = self.checkpoints(run)
                    self.history[run.row] = [(self.now, run.left, math.nan)]

        def fallen(self, run: Stretch) -> tuple[float, float]:
            """The work left at the last checkpoint, and the seconds of progress since then."""
            if self.now <= run.begin or failing.interval[run.row] == 0:
                return self.left_now(run.row), 0.0
            count = self.checkpoints(run)
            if count == 0:
                return self.left[run.row], self.seconds(self.now) - self.seconds(run.begin)
            if self.slotted:
                ((at, left, _),) = self.history[run.row]
                return left, self.seconds(self.now) - self.seconds(at)
            at = min(run.begin + count * failing.interval[run.row], self.now)
            since, left, tau = [pace for pace in self.history[run.row] if pace[0] <= at][-1]
            return max(0.0, left - (at - since) / tau), self.now - at

        def fail(self, run: Stretch) -> None:
            row = run.row
            left, lost = self.fallen(run)
            failing.failures[row] = failing.failures.get(row, 0) + 1
            failing.lost_work[row] = failing.lost_work.get(row, 0.0) + lost
            self.stop(run)
            self.left[row] = left
            self.waiting.append(row)

        # What is otherwise with servers away.

        def floor(self) -> Floor:
            found = super().floor()
            return Floor(found.sizes, [gpu for gpu in found.idle if gpu[0] not in self.away], found.load)

        def select(self) -> list[int]:
            quota = sum(size for server, size in self.sizes.items() if server not in self.away)
            selected = []
            for row in self.ranking():
                if self.jobs[row].num_gpus <= quota:
                    quota -= self.jobs[row].num_gpus
                    selected.append(row)
            return selected

        def begin(self, row: int, gpus: list[GPU]) -> Stretch:
            stopped = self.result.preemptions[row] + failing.failures.get(row, 0) > 0
            cost = self.rules.cost if stopped else failing.start_cost
            pause = math.ceil(cost / self.options.slot) if self.slotted else cost
            run = Stretch(row, gpus, self.now, self.now + pause, left=self.left[row], since=self.now + pause)
            self.waiting.remove(row)
            self.running.append(run)
            self.history[row], self.counted[row] = [], 0
            for gpu in gpus:
                self.load[gpu] = self.load.get(gpu, 0.0) + work(self.jobs[row], self.options, self.net)
            if not stopped:
                self.result.start[row] = self.seconds(self.now)
            return run

        def try_start(self, row: int) -> None:
            gpus, rng = self.find(row)
            if gpus is not None:
                self.rng = rng
                self.begin(row, gpus)

        def new_rates(self) -> None:
            super().new_rates()
            for run in self.running:
                pace = (run.since, run.left, run.tau)
                if not self.slotted and (not self.history[run.row] or self.history[run.row][-1] != pace):
                    self.history[run.row].append(pace)

        # The clocks.

        def passes_at_every_boundary(self) -> bool:
            return False

        def run_slots(self) -> None:
            n = idle = tick = 0
            while self.future or self.waiting or self.running:
                self.now = n
                self.count_time()
                happened = progress = False
                for run in sorted(self.running, key=lambda run: run.row):
                    if n > run.begin:
                        progress |= run.phi > 0
                        run.left -= self.yielded(run)
                    if run.left <= 1e-9 * run.phi:
                        run.left = 0
                        self.complete(run)
                        happened = True
                self.save()
                happened |= self.change_servers()
                happened |= self.arrive()
                due = happened or self.passes_at_every_boundary()
                if self.rules.policy in INTERVALS:
                    due = tick * self.rules.interval <= self.seconds(n)
                    while tick * self.rules.interval <= self.seconds(n):
                        tick += 1
                if due:
                    self.one_pass()
                self.new_rates()
                self.look()
                idle = 0 if progress or self.future or self.next_change() < math.inf else idle + 1
                if idle > PATIENCE:
                    raise StuckError(min(self.waiting + [run.row for run in self.running]))
                n += 1

        def run_events(self) -> None:
            def finish(run: Stretch) -> float:
                return run.since + run.left * run.tau

            ticks = self.rules.policy in INTERVALS
            tick = 0
            while self.future or self.waiting or self.running:
                instants = [finish(run) for run in self.running] + [self.jobs[r].submit for r in self.future]
                instants.append(self.next_change())
                if min(instants) == math.inf and not (ticks and tick < PATIENCE):
                    raise StuckError(min(self.waiting))
                if ticks:
                    instants.append(tick * self.rules.interval)
                self.now = min(instants)
                self.count_time()
                happened = False
                for run in sorted(self.running, key=lambda run: run.row):
                    if finish(run) <= self.now:
                        self.complete(run)
                        happened = True
                happened |= self.change_servers()
                happened |= self.arrive()
                due = happened
                if ticks:
                    due = tick * self.rules.interval <= self.now
                    tick += due
                if due:
                    self.one_pass()
                self.new_rates()
                self.look()

    return OutageWorld


def queue_world(failing: Failing) -> type[PreemptWorld]:
    """The oracle of queues: jobs run to their end unless their server fails."""

    @dataclass
    class QueueWorld(ranked_world(failing)):  # type: ignore[misc] - a class made by a function
        ends: dict[int, float] = field(default_factory=dict)
        """When each running job is reckoned to end, s."""

        def key(self, row: int) -> tuple[float, float, int]:
            job = self.jobs[row]
            first = {
                "fifo": 0.0,
                "sjf": work(job, self.options, self.net),
                "smallest": float(job.num_gpus),
            }
            return first[self.options.order], job.submit, row

        def reckoned(self, row: int) -> float:
            """Seconds that EASY takes a job to run: all, or what remains after an interruption."""
            if failing.failures.get(row, 0):
                return self.remaining(row)
            return work(self.jobs[row], self.options, self.net)

        def fits(self, row: int, held: set[GPU], load: dict[GPU, float]) -> tuple[list[GPU] | None, int]:
            gpus = [(s, g) for s in sorted(self.sizes) for g in range(self.sizes[s])]
            idle = [gpu for gpu in gpus if gpu not in held and gpu[0] not in self.away]
            floor = Floor(dict(sorted(self.sizes.items())), idle, {gpu: load.get(gpu, 0.0) for gpu in gpus})
            return place(self.jobs[row], floor, self.options, self.rng)

        def held_after(self, time: float) -> set[GPU]:
            return {gpu for run in self.running if self.ends[run.row] > time for gpu in run.gpus}

        def one_pass(self) -> None:
            now = self.seconds(self.now)
            head: int | None = None
            shadow = math.inf
            for row in sorted(self.waiting, key=self.key):
                gpus, rng = self.fits(row, self.held_after(-math.inf), self.load)
                if gpus is None:
                    if head is None and self.options.queue == "strict":
                        return
                    if head is None and self.options.queue == "easy":
                        head, shadow = row, self.shadow(row)
                    continue
                if head is not None and now + self.reckoned(row) > shadow:
                    more = work(self.jobs[row], self.options, self.net)
                    load = {**self.load, **{gpu: self.load.get(gpu, 0.0) + more for gpu in gpus}}
                    if self.fits(head, self.held_after(shadow) | set(gpus), load)[0] is None:
                        continue
                self.rng = rng
                self.ends[row] = now + self.reckoned(row)
                self.begin(row, gpus)

        def shadow(self, head: int) -> float:
            for end in sorted({self.ends[run.row] for run in self.running}):
                if self.fits(head, self.held_after(end), self.load)[0] is not None:
                    return end
            return math.inf

        def passes_at_every_boundary(self) -> bool:
            return True

    return QueueWorld
