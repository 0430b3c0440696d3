"""The reference model of outages: servers that fail, drain and come back, straight from docs/outages.md.

One world serves the policies that preempt and the queues: a queue is a discipline in the place of the
ranking. Which servers are down is looked up in the list of outages at every instant. Nothing here imports
ringbco.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reference.fair import Fair, Owner, Stay
from reference.mechanism import World as PreemptWorld
from reference.model import GPU, work
from reference.placement import ClusterState
from reference.running import RunningJob
from reference.shares import weight

Outage = tuple[int, float, float]
"""(server, down at, up at); infinite where it never comes back."""


@dataclass(frozen=True)
class Failures:
    """Outages and drains in any order; by row the checkpoint interval; what a checkpoint takes, s."""

    outages: tuple[Outage, ...]
    intervals: tuple[float, ...]
    cost: float = 0.0
    drains: tuple[Outage, ...] = ()


@dataclass(frozen=True)
class Queue:
    """What a queue is told besides its order and its discipline, which are in `Options`."""

    aging: float | None = None
    factor: float = 1.0
    exact: bool = False
    users: tuple[int, ...] | None = None
    reservations: int = 100
    fair: Fair | None = None
    predicted: Mapping[int, float] = field(default_factory=dict)
    """By row, s, for `sjf` and `qssf`."""
    estimated: Mapping[int, float] | None = None
    """By row, s, for backfilling and maintenance: None where it goes by something else."""


def checkpoints(progress: float, every: float) -> float:
    """The number of the last one; 0 is at the start. The tolerance is phi's: 3 x 0.1 s are 0.3 s."""
    if progress < 0:
        return -1.0
    number = progress / every * (1.0 + 1e-12)
    return math.floor(number) if number < 2.0**53 else progress / every


def failing_world(facts: Failures, base: type[PreemptWorld] = PreemptWorld) -> type[PreemptWorld]:
    """The model `base` on servers that fail."""

    class Failing(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.outages = [outage for outage in facts.outages if outage[0] in self.sizes]
            self.drains = [drain for drain in facts.drains if drain[0] in self.sizes]
            self.down: set[int] = set()
            self.draining: set[int] = set()
            self.seen = -math.inf
            self.saved: dict[int, tuple[float, float]] = {}
            """Slot clock, by running row: the last checkpoint, and the work left then."""
            self.past: dict[int, list[tuple[float, float, float]]] = {}
            """Continuous clock, by running row: (since, work left, tau) at each new rate of its stay."""
            self.written: dict[int, tuple[RunningJob, list[tuple[float, float, float]]]] = {}
            """By row its stay and, of each checkpoint that took time: begun, over, work left."""

        def up(self) -> dict[int, int]:
            held = {gpu for run in self.running for gpu in run.gpus}
            return {
                s: sum(gpu[0] == s for gpu in held) if s in self.draining else size
                for s, size in self.sizes.items()
                if s not in self.down
            }

        def cluster_state(self) -> ClusterState:
            cluster, closed = super().cluster_state(), self.down | self.draining
            return replace(cluster, idle=[gpu for gpu in cluster.idle if gpu[0] not in closed])

        def is_drained(self, row: int) -> bool:
            return any(run.row == row and run.servers & self.draining for run in self.running)

        def other_instants(self) -> list[float]:
            times = {time for _, down, up in (*self.outages, *self.drains) for time in (down, up)}
            if facts.cost and not self.slotted:
                times |= {self.due(run) for run in self.running}
            return sorted(t for t in times if self.seconds(self.now) < t < math.inf)

        def arrive(self) -> bool:
            """After completions: checkpoints, servers, and then arrivals; whether anything happened."""
            if self.slotted:
                self.save()
            changed = self.change_servers()
            return super().arrive() or changed

        def save(self) -> None:
            for run in self.running:
                every = facts.intervals[run.row]
                done, before = (self.seconds(n - run.begin) for n in (self.now, self.now - 1))
                if done > 0 and (
                    every == 0 or checkpoints(done, every) > max(0.0, checkpoints(before, every))
                ):
                    self.saved[run.row] = self.now, self.left_now(run.row)

        def change_servers(self) -> bool:
            if facts.cost:
                self.write()
            now = self.seconds(self.now)
            before, drained = self.down, self.draining
            self.draining = {s for s, begin, end in self.drains if begin <= now < end}
            self.down = {s for s, down, up in self.outages if down <= now < up}
            # A server may fail and be up again inside a slot.
            failed = {s for s, down, _ in self.outages if self.seen < down <= now} - before
            self.seen = now
            for run in sorted(self.running, key=lambda run: run.row):
                if run.servers & failed:
                    self.fail(run)
            return bool(failed) or self.down != before or self.draining != drained

        def fail(self, run: RunningJob) -> None:
            row, left = run.row, self.left[run.row]
            self.stop(run)
            self.waiting.append(row)
            self.result.failures[row] += 1
            self.fall_back(run, left)

        def fall_back(self, run: RunningJob, left: float) -> None:
            """To its last checkpoint, off its GPUs. left: the work left when its stay began."""
            row = run.row
            if facts.cost:
                over = [then for then in self.saves(run) if self.is_over(then, run)]
                self.left[row] = over[-1][2] if over else left
                self.result.lost_work[row] += self.seconds(self.unsaved(run))
                return
            if self.slotted:
                at, self.left[row] = self.saved[row]
            else:
                at, self.left[row] = self.checkpoint(run)
            self.result.lost_work[row] += self.seconds(max(0.0, self.now - at))

        # Checkpoints that take time.

        def saves(self, run: RunningJob) -> list[tuple[float, float, float]]:
            own = self.written.get(run.row)
            if own is None or own[0] is not run:
                own = self.written[run.row] = run, []
            return own[1]

        def rounding(self, time: float, run: RunningJob) -> float:
            return 1e-12 * max(0.0, time - run.begin) + (64 + len(self.saves(run))) * math.ulp(time)

        def is_over(self, save: tuple[float, float, float], run: RunningJob) -> bool:
            return self.now >= save[1] - self.rounding(save[1], run)

        def time_saving(self, run: RunningJob, now: float) -> float:
            saves = self.saves(run)
            if not self.slotted or not saves:
                return sum(min(now, over) - begun for begun, over, _ in saves)
            # Slots are exact, and there may be a checkpoint in each of many thousands.
            return (len(saves) - 1) * self.pause(facts.cost) + min(now, saves[-1][1]) - saves[-1][0]

        def unsaved(self, run: RunningJob) -> float:
            """Time of progress since the last one that counts."""
            ends = [run.begin, *(over for _, over, _ in self.saves(run))]
            if not self.saves(run) or self.is_over(self.saves(run)[-1], run):
                return max(0.0, self.now - ends[-1])
            return self.saves(run)[-1][0] - ends[-2]

        def intervals_of(self, run: RunningJob, now: float) -> float:
            """Intervals of progress up to an instant."""
            progress = now - run.begin - self.time_saving(run, now)
            return max(0.0, checkpoints(self.seconds(progress), facts.intervals[run.row]))

        def due(self, run: RunningJob) -> float:
            """Continuous clock: when the next one begins, unless the stay ends before."""
            own, every = self.saves(run), facts.intervals[run.row]
            due = run.begin + len(own) * facts.cost + (len(own) + 1) * every
            if own:
                due = max(due, math.nextafter(own[-1][1], math.inf))
            return math.inf if self.end_of(run) <= due + self.rounding(due, run) else due

        def write(self) -> None:
            """Begins those that are due now."""
            for run in self.running:
                own = self.saves(run)
                if self.now < run.since or self.now <= run.begin:
                    continue
                if self.slotted:
                    seen = self.intervals_of(run, own[-1][0]) if own else 0.0
                    due = self.intervals_of(run, self.now) > seen and (not own or self.now > own[-1][1])
                else:
                    due = self.due(run) <= self.now
                if due:
                    over = self.now + self.pause(facts.cost)
                    own.append((self.now, over, self.left_now(run.row)))
                    run.cost = facts.cost
                    self.goes_on_from(run, own[-1][2], over)

        def stop(self, run: RunningJob) -> None:
            if facts.cost:
                self.result.lost[run.row] += self.seconds(self.time_saving(run, self.now))
            super().stop(run)

        def yielded(self, run: RunningJob) -> float:
            return 0.0 if facts.cost and self.now <= run.since else float(super().yielded(run))

        def checkpoint(self, run: RunningJob) -> tuple[float, float]:
            """Continuous clock: when the last one was, and the work left then."""
            every, at = facts.intervals[run.row], max(run.begin, self.now)
            if every > 0:
                number = checkpoints(at - run.begin, every)
                at = min(at, run.begin + number * every) if number else run.begin
            since, left, tau = [then for then in self.past[run.row] if then[0] <= at][-1]
            return at, max(0.0, left - (at - since) / tau)

        def try_start(self, row: int) -> None:
            super().try_start(row)
            if self.begins(row):
                run = self.running[-1]
                self.saved[row] = run.begin, run.left
                self.past[row] = []
            elif facts.cost and self.slotted:
                self.write()  # a trial that goes on at once from a rung saves what it did up to there

        def saved_columns(self, row: int) -> list[tuple[Any, Any]]:
            own = [(column, column[row]) for column in (self.saved, self.past)]
            return super().saved_columns(row) + own  # type: ignore[no-any-return]

        def new_rates(self) -> None:
            super().new_rates()
            for run in self.running:
                self.past[run.row].append((run.since, run.left, run.tau))

    return Failing


def queue_world(queue: Queue, base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base` with the queue of `Options`: jobs keep their GPUs until they are done or fail."""

    class Queued(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.done: list[int] = []
            self.predictions: dict[int, float] = {}

        def other_instants(self) -> list[float]:
            return super().other_instants() + [t for t in self.agings() if t > self.seconds(self.now)]

        def agings(self) -> list[float]:
            if queue.aging is None:
                return []
            return [self.arrival_of(row) + queue.aging for row in self.waiting]

        def arrive(self) -> bool:
            happened = super().arrive()
            if self.options.queue == "conservative" or queue.fair is not None:
                # Reservations and usages depend on the instant: a pass is only where something happened.
                before = self.seconds(self.now - 1) if self.slotted else math.nextafter(self.now, -math.inf)
                return happened or any(before < t <= self.seconds(self.now) for t in self.agings())
            # In every slot there is a pass: one may start what the last one passed over.
            return happened or self.slotted or self.seconds(self.now) in self.agings()

        def complete(self, run: RunningJob) -> None:
            super().complete(run)
            self.done.append(run.row)

        def one_pass(self) -> None:
            for row in self.waiting:
                if row not in self.predictions:
                    self.predictions[row] = self.predict(row)
            head: int | None = None
            shadow = math.inf
            for row in sorted(self.waiting, key=self.rank):
                gpus, _ = self.find(row)
                if head is None and gpus is None:
                    if self.options.queue == "strict":
                        return
                    if self.options.queue == "easy":
                        head, shadow = row, self.shadow(row)
                    continue
                if gpus is None or (head is not None and not self.harmless(row, gpus, head, shadow)):
                    continue
                self.try_start(row)

        def rank(self, row: int) -> tuple[float, ...]:
            if queue.aging is not None and self.seconds(self.now) >= self.arrival_of(row) + queue.aging:
                return -1.0, *self.fifo(row)
            return *self.keys(row), *self.fifo(row)

        def keys(self, row: int) -> tuple[float, ...]:
            """What the order goes by."""
            job, order = self.jobs[row], self.options.order
            if queue.fair is not None and order == "fairshare":
                return tuple(self.ratio(owner, queue.fair) for owner in queue.fair.levels(row))
            keys = {
                "fifo": 0.0,
                "smallest": float(job.num_gpus),
                "sjf": queue.predicted.get(row, work(job, self.options, self.net)),
                "qssf": self.predictions[row],
            }
            return (keys[order],)

        def ratio(self, owner: Owner, fair: Fair) -> float:
            """`fairshare`: what an owner's jobs of this cluster used by now, for its share."""
            own = [other for other in fair.rows(owner) if other in self.jobs]
            now, stays = self.seconds(self.now), list[Stay]()
            for other in own:
                each = weight(self.jobs[other]) / self.jobs[other].num_gpus
                stays += [(gpus * each, start, end) for _, gpus, start, end in self.result.allocations[other]]
            stays += [
                (weight(self.jobs[run.row]), self.seconds(run.start), now)
                for run in self.running
                if run.row in own
            ]
            return fair.ratio(owner, stays, now)

        def predict(self, row: int) -> float:
            """`qssf`: run time of jobs like it that are done by its submission, times its GPUs."""
            job = self.jobs[row]
            if queue.exact:
                return job.duration * weight(job)
            if row in queue.predicted:
                return queue.predicted[row] * weight(job)
            own = [r for r in self.done if queue.users is None or queue.users[r] == queue.users[row]]
            alike = [r for r in own if self.jobs[r].num_gpus == job.num_gpus]
            known = alike or own or self.done
            total = 0.0
            for r in known:
                total += self.jobs[r].duration
            return total / len(known) * weight(job) if known else 0.0

        # EASY backfilling.

        def reckoned(self, row: int) -> float:
            """Run time left at the start of its stay, or now where it waits."""
            still, self.running = self.running, [run for run in self.running if run.row != row]
            left = self.remaining(row)
            self.running = still
            if queue.estimated is not None:
                done = work(self.jobs[row], self.options, self.net) - left
                return max(0.0, queue.estimated.get(row, math.inf) - done)
            return queue.factor * left

        def end(self, run: RunningJob) -> float:
            return self.seconds(run.start) + self.reckoned(run.row)

        def would_fit(self, row: int, running: list[RunningJob], load: dict[GPU, float]) -> bool:
            still, self.running = self.running, running
            before, self.load = self.load, load
            fits = self.find(row)[0] is not None
            self.running, self.load = still, before
            return fits

        def shadow(self, head: int) -> float:
            """When the head could be placed if nothing else started and no server changed."""
            for time in sorted({self.end(run) for run in self.running}):
                if self.would_fit(head, [run for run in self.running if self.end(run) > time], self.load):
                    return time
            return math.inf

        def harmless(self, row: int, gpus: list[GPU], head: int, shadow: float) -> bool:
            """Over before the shadow time, or not in the head's way then."""
            if self.seconds(self.now) + self.reckoned(row) <= shadow:
                return True
            there = [run for run in self.running if self.end(run) > shadow]
            more = work(self.jobs[row], self.options, self.net)
            load = self.load | {gpu: self.load.get(gpu, 0.0) + more for gpu in gpus}
            return self.would_fit(head, [*there, RunningJob(row, gpus, self.now, self.now)], load)

    return Queued
