"""The reference model's world led along the record of a run, however long: who ran where, from when to when.

Nothing is decided here. Work done, pauses, times on GPUs, U, random numbers, lists and predictions are worked
out from the log of a run; completions must come when the record has them, and stays must be those of its
table. Nothing here imports ringbco.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reference.conservative import BY_TIME
from reference.mechanism import World
from reference.model import GPU, work
from reference.outages import Queue
from reference.placement import GOLDEN, MASK
from reference.running import RunningJob
from reference.shares import weight


@dataclass(frozen=True)
class Stay:
    """parts: GPUs by server. last: whether its job is done at its end."""

    row: int
    start: float
    end: float
    parts: tuple[tuple[int, int], ...]
    last: bool

    @property
    def servers(self) -> list[int]:
        """The server of each GPU."""
        return sorted(server for server, count in self.parts for _ in range(count))


@dataclass(frozen=True)
class Costs:
    """Seconds of pauses."""

    start: float
    preempt: float
    move: float
    resize: float


@dataclass(frozen=True)
class Verb:
    """What was decided of a job. what: stop, evicted, start, move or resize.

    parts: what it gets, GPUs by server. by: the job for which it is evicted. gpus: those that it gets, where
    the log tells.
    """

    row: int
    what: str
    parts: tuple[tuple[int, int], ...] = ()
    by: int | None = None
    gpus: tuple[GPU, ...] = ()


@dataclass
class Record:
    """What a run wrote down.

    verbs: by time, in the order of the log, what was decided. gpus: by (row, start) which GPUs of its servers
    a stay holds, where neither U nor their order says so. interferes: whether jobs that share a GPU slow each
    other down.
    """

    stays: list[Stay]
    refused: frozenset[int]
    verbs: Mapping[float, Sequence[Verb]]
    costs: Costs
    gpus: Mapping[tuple[int, float], list[GPU]]
    queue: Queue | None = None
    interferes: bool = False
    begun: dict[float, list[Stay]] = field(init=False, default_factory=lambda: defaultdict(list))
    ended: dict[float, list[Stay]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for stay in self.stays:
            self.begun[stay.start].append(stay)
            self.ended[stay.end].append(stay)


def follower(base: type[World], record: Record) -> type[World]:
    """The model `base`, told what was decided."""

    class Follower(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.coming = defaultdict(list)
            for row, job in self.jobs.items():
                self.coming[job.submit].append(row)
            self.sums: dict[object, tuple[float, int]] = {}
            """Run times of jobs that are done, and how many: of a user and size, of a user, of all."""

        def instants(self) -> list[float]:
            """When something happens by the record, and where lists change, when there is a pass."""
            own = [stay for stay in record.stays if stay.row in self.jobs]
            times = {*self.coming} | {time for stay in own for time in (stay.start, stay.end)}
            last = max(times)
            changes = (*getattr(self, "outages", ()), *getattr(self, "drains", ()))
            times |= {time for _, *ends in changes for time in ends if time < last}
            if self.keeps_lists:
                times |= {self.rules.interval * n for n in range(math.ceil(last / self.rules.interval))}
            return sorted(times)

        @property
        def keeps_lists(self) -> bool:
            return self.rules.policy == "time-slice" or self.rules.within == "list"

        def gittins(self, row: int) -> float:
            """Nothing: `ranking` is asked for its lists, which go by levels."""
            return 0.0

        # An instant: what happens, and then what was decided.

        def happen(self, time: float) -> None:
            """Ends, servers and arrivals."""
            self.now = time
            for stay in sorted(record.ended.get(time, ()), key=lambda stay: stay.row):
                if stay.last and stay.row in self.jobs:
                    run = self.run_of(stay.row)
                    off = abs(self.end_of(run) - time)
                    assert off <= 1e-9 * time + 1e-6, f"row {stay.row} is done {off} s beside the record"
                    self.ends(run)
            self.future = list(self.coming.get(time, ()))
            self.arrive()

        def complete(self, run: RunningJob) -> None:
            super().complete(run)
            if record.queue is not None:
                for key in self.alike(run.row):
                    total, count = self.sums.get(key, (0.0, 0))
                    self.sums[key] = total + self.jobs[run.row].duration, count + 1

        def alike(self, row: int) -> tuple[object, ...]:
            users = record.queue.users if record.queue is not None else None
            user = None if users is None else users[row]
            return (user, self.jobs[row].num_gpus), ("user", user), "all"

        def predict(self, row: int) -> float:
            """As `outages` has it; whole seconds, so that sums are the same in any order."""
            job = self.jobs[row]
            if record.queue is not None and record.queue.exact:
                return job.duration * weight(job)
            known = next((self.sums[key] for key in self.alike(row) if key in self.sums), None)
            return known[0] / known[1] * weight(job) if known else 0.0

        def keep_history(self) -> None:
            """What a pass keeps for later ones."""
            if self.keeps_lists and self.now % self.rules.interval == 0:
                self.ranking()
            if hasattr(self, "predictions"):
                for row in self.waiting:
                    if row not in self.predictions:
                        self.predictions[row] = self.predict(row)
            if self.waiting:
                self.see_queue()

        def see_queue(self) -> None:
            """Whom `repack` finds waiting, with what it predicts for those who did not wait before."""
            rule = getattr(self, "rule", None)
            if rule is not None and rule.predictions is not None:
                new = set(self.waiting) - rule.queued
                rule.predictions.begin({row: self.at_best(row) for row in new})
                rule.join(new)
                rule.queued = set(self.waiting)

        def decide(self) -> None:
            """What the log has of this instant."""
            self.keep_history()
            verbs = [verb for verb in record.verbs.get(self.now, ()) if verb.row in self.jobs]
            left: dict[int, int] = {}
            makers: set[int] = set()
            for moves, block in itertools.groupby(verbs, key=lambda verb: verb.what == "move"):
                together = list(block)
                if moves:  # all give theirs back first
                    for verb in together:
                        self.end_stay(verb, left)
                for verb in together:
                    if not moves and verb.what != "start":
                        self.end_stay(verb, left)
                    if verb.by is not None:
                        makers.add(verb.by)
                    if verb.parts:
                        self.begin_stay(verb, left.get(verb.row), makers)
            for row in self.coming.get(self.now, ()):
                if row in record.refused and row in self.waiting:
                    self.waiting.remove(row)
            if hasattr(self, "fresh"):
                self.fresh = []
            for stay in record.begun.get(self.now, ()):
                if stay.row in self.jobs:
                    run = self.run_of(stay.row)
                    assert run.start == self.now, f"the log does not begin {stay}"
                    assert sorted(s for s, _ in run.gpus) == stay.servers, f"the log has no {stay}"
            if verbs:
                self.see_queue()
            if verbs or record.ended.get(self.now):
                self.new_rates()

        def run_of(self, row: int) -> RunningJob:
            return next(run for run in self.running if run.row == row)

        def end_stay(self, verb: Verb, left: dict[int, int]) -> None:
            run = self.run_of(verb.row)
            if self.interrupt(run):
                if verb.what == "evicted":
                    self.tell(verb.row, "preempted", "evicted")
                else:
                    left[verb.row] = len(run.gpus)
            self.waiting.append(verb.row)

        def begin_stay(self, verb: Verb, held: int | None, makers: set[int]) -> None:
            """held: GPUs that it held up to now, if it is moved. makers: for whom others were evicted."""
            row, costs = verb.row, record.costs
            gpus = list(verb.gpus) or record.gpus.get((row, self.now)) or self.taken(verb.parts)
            if self.options.placement == "random":
                # Nothing is drawn for a job that gets the server that others left for it.
                on_one = row in makers and len(gpus) <= max(self.sizes.values())
                self.rng = (self.rng + (0 if on_one else len(gpus)) * GOLDEN) & MASK
            makers.discard(row)
            if self.goes_on(row, gpus):
                return
            first = math.isnan(self.result.start[row])
            cost = costs.start if first else costs.preempt
            if held is not None:
                cost = costs.move if held == len(gpus) else costs.resize
            over = self.over_quota(row, len(gpus))
            self.tell(row, "preempted", "moved")
            begin = self.now + self.pause(cost)
            run = RunningJob(row, gpus, self.now, begin, left=self.left[row], since=begin, cost=cost)
            self.waiting.remove(row)
            self.running.append(run)
            self.saved[row], self.past[row], self.over[row] = (begin, run.left), [], over
            for gpu in gpus:
                self.load[gpu] = self.load.get(gpu, 0.0) + work(self.jobs[row], self.options, self.net)
            if first:
                self.result.start[row] = self.seconds(self.now)

        def taken(self, parts: Iterable[tuple[int, int]]) -> list[GPU]:
            """Of each server the first that are idle, or where U counts those with the least."""
            result = list[GPU]()
            for server, count in parts:
                busy = {gpu for run in self.running for gpu in run.gpus if gpu[0] == server}
                there = [gpu for each in range(self.sizes[server]) if (gpu := (server, each)) not in busy]
                if self.options.placement in BY_TIME:
                    there.sort(key=lambda gpu: (self.load.get(gpu, 0.0), gpu))
                assert len(there) >= count, f"server {server} has {len(there)} GPUs, and {count} are taken"
                result += there[:count]
            return result

        def change_servers(self) -> bool:
            return bool(super().change_servers()) if self.outages else False

        def new_rates(self) -> None:
            if not self.fixed or record.interferes:
                super().new_rates()
                self.states.clear()
                self.seen_by_links.clear()
                return
            for run in self.running:
                if math.isnan(run.tau):
                    run.tau = self.tau(run, 0)
                    self.past[run.row].append((run.since, run.left, run.tau))

    return Follower


def placed(world: Any) -> dict[int, tuple[bool, Counter[Any]]]:
    """By row that runs: whether its stay begins now, and its GPUs by server, or each if jobs share some."""
    whole = not any(world.jobs[run.row].share for run in world.running)
    return {
        run.row: (run.start == world.now, Counter(gpu[0] if whole else gpu for gpu in run.gpus))
        for run in world.running
    }
