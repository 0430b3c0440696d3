"""The reference model of verbs: a policy of one's own on GPU types that differ, from docs/own-policies.md.

A verb changes who holds which GPUs and nothing else. When the policy is done, who held what before the
instant is compared with who holds what after it: that alone says who went on, moved, was resized, stopped or
started. Only placements that ask nothing but how many GPUs of each server are idle. Nothing here imports
ringbco.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reference.model import GPU, RefusedError, StuckError, contention, iteration_time, iterations_per_slot
from reference.placement import Floor, place
from reference.types import Types
from strategies import Case

PATIENCE = 3_000
"""Slots without progress after which a run is given up as stuck."""

Parts = list[tuple[int, int]]
"""(server, GPUs), by server."""


class Impossible(Exception):
    """A verb that cannot be carried out; nothing has changed."""


@dataclass(frozen=True)
class Rules:
    """Least and most GPUs of each job, names of the types, what pauses cost, s, and noise scales."""

    least: tuple[int, ...]
    most: tuple[int, ...]
    names: tuple[str, ...]
    start: float
    preempt: float
    move: float
    resize: float
    noise: tuple[tuple[float, int], ...]
    """phi and M of each job; phi may be infinite."""


@dataclass
class Stay:
    """A job on GPUs. Times in seconds, or in slots under the slot clock."""

    parts: Parts
    start: float
    begin: float
    left: float  # of its work, at `since`
    since: float
    tau: float = math.nan
    phi: float = 0.0
    p: int = 0

    @property
    def servers(self) -> set[int]:
        return {server for server, _ in self.parts}


@dataclass
class World:
    """The cluster, the jobs, and the verbs by which `decide` acts. `now` is in seconds to it."""

    case: Case
    types: Types
    rules: Rules
    decide: Callable[["World"], None]
    time: float = 0.0  # in the clock's unit
    rng: int = 0
    tried: dict[int, list[int]] = field(default_factory=dict)
    future: list[int] = field(default_factory=list)
    present: list[int] = field(default_factory=list)
    stays: dict[int, Stay] = field(default_factory=dict)
    """As they were before this instant's verbs."""
    holding: dict[int, list[GPU]] = field(default_factory=dict)
    left: dict[int, float] = field(default_factory=dict)
    wakes: set[float] = field(default_factory=set)
    started: dict[int, float] = field(default_factory=dict)
    finished: dict[int, float] = field(default_factory=dict)
    preemptions: Counter[int] = field(default_factory=Counter)
    allocations: list[tuple[int, float, int, int, float]] = field(default_factory=list)
    """(row, start, server, GPUs, end), in seconds."""

    def __post_init__(self) -> None:
        self.rng = self.case.options.seed
        sizes = dict(enumerate(self.case.servers))
        for row, job in enumerate(self.case.jobs):
            tried = self.types.tried(row, job, sizes, self.case.net, self.case.options)
            if tried:
                self.tried[row] = tried
                self.future.append(row)

    # What a policy sees.

    @property
    def slotted(self) -> bool:
        return self.case.options.clock == "slot"

    @property
    def fixed(self) -> bool:
        return self.case.options.model == "fixed"

    def seconds(self, time: float) -> float:
        return time * self.case.options.slot if self.slotted else time

    @property
    def now(self) -> float:
        return self.seconds(self.time)

    def _fifo(self, rows: Iterable[int]) -> list[int]:
        return sorted(rows, key=lambda row: (self.case.jobs[row].submit, row))

    @property
    def waiting(self) -> list[int]:
        return self._fifo(row for row in self.present if row not in self.holding)

    @property
    def running(self) -> list[int]:
        return self._fifo(self.holding)

    @property
    def idle(self) -> list[int]:
        busy = Counter(server for gpus in self.holding.values() for server, _ in gpus)
        return [size - busy[server] for server, size in enumerate(self.case.servers)]

    def parts(self, row: int) -> Parts:
        return sorted(Counter(server for server, _ in self.holding[row]).items())

    # Verbs.

    def start(
        self,
        rows: Sequence[int],
        servers: Parts | None = None,
        *,
        gpus: int | None = None,
        type: str | None = None,
        strict: bool = True,
    ) -> int:
        if any(row not in self.waiting for row in rows):
            raise Impossible
        if servers is not None:
            self.holding[rows[0]] = self._on(rows[0], servers, self.idle)
            return 1
        chosen = None if type is None else self.rules.names.index(type)
        for row in rows:
            if chosen is not None and chosen not in self.tried[row]:
                raise Impossible
            self._check(row, gpus if gpus is not None else self.case.jobs[row].num_gpus)
        count = 0
        for row in rows:
            found = self._find(row, gpus or self.case.jobs[row].num_gpus, chosen)
            if found is not None:
                self.holding[row] = found
                count += 1
            elif strict:
                break
        return count

    def stop(self, rows: Sequence[int]) -> None:
        self._check_running(rows)
        for row in rows:
            del self.holding[row]

    def move(self, moves: Mapping[int, Parts]) -> None:
        self._check_running(moves)
        before = dict(self.holding)
        for row in moves:
            del self.holding[row]
        try:
            for row, parts in moves.items():
                self.holding[row] = self._on(row, parts, self.idle)
        except Impossible:
            self.holding = before
            raise

    def resize(self, row: int, gpus: int) -> None:
        self._check_running([row])
        self._check(row, gpus)
        own = self.holding[row]
        if len(own) == gpus:
            return
        del self.holding[row]
        found = self._find(row, gpus, None)
        self.holding[row] = own if found is None else found
        if found is None:
            raise Impossible

    def end(self, rows: Sequence[int]) -> None:
        self._check_running(rows)
        for row in rows:
            del self.holding[row]
            self.present.remove(row)

    def wake(self, at: float) -> None:
        self.wakes.add(math.ceil(at / self.case.options.slot) if self.slotted else at)

    def _check_running(self, rows: Iterable[int]) -> None:
        if any(row not in self.holding for row in rows):
            raise Impossible

    def _check(self, row: int, gpus: int) -> None:
        if not self.rules.least[row] <= gpus <= self.rules.most[row]:
            raise Impossible

    def _on(self, row: int, parts: Parts, idle: Sequence[int]) -> list[GPU]:
        """The GPUs of given servers: of one type, one that the job may use, and idle."""
        servers = [server for server, _ in parts]
        self._check(row, sum(count for _, count in parts))
        kinds = {self.types.of[server] for server in servers}
        if len(set(servers)) < len(servers) or len(kinds) != 1 or not kinds <= set(self.tried[row]):
            raise Impossible
        if any(count < 1 or count > idle[server] for server, count in parts):
            raise Impossible
        return [gpu for server, count in parts for gpu in self._free(server)[:count]]

    def _free(self, server: int) -> list[GPU]:
        busy = {gpu for gpus in self.holding.values() for gpu in gpus}
        return [(server, g) for g in range(self.case.servers[server]) if (server, g) not in busy]

    def _find(self, row: int, count: int, chosen: int | None) -> list[GPU] | None:
        """Of the job's types, or of the one chosen, the first that can place so many GPUs."""
        for gpu_type in self.tried[row] if chosen is None else [chosen]:
            own = self.types.sizes(gpu_type, dict(enumerate(self.case.servers)))
            idle = [gpu for server in sorted(own) for gpu in self._free(server)]
            load = {(server, g): 0.0 for server, size in own.items() for g in range(size)}
            asked = replace(self.case.jobs[row], num_gpus=count)
            gpus, self.rng = place(asked, Floor(own, idle, load), self.case.options, self.rng)
            if gpus is not None:
                return gpus
        return None

    # Time.

    def tau(self, row: int, stay: Stay, p: int) -> float:
        """Seconds, or slots under `fixed` and the slot clock, that a unit of its work takes."""
        job, choice = self.case.jobs[row], self.types.choices[row]
        gpu_type = self.types.of[stay.parts[0][0]]
        held = sum(count for _, count in stay.parts)
        rate = held / job.num_gpus * self.efficiency(row, held)
        if self.fixed:
            return 1.0 / (rate * choice.speed[gpu_type] / choice.recorded)
        on_type = replace(self.types.on(row, job, gpu_type), num_gpus=held)
        return iteration_time(on_type, len(stay.parts), p, self.case.net) / rate

    def efficiency(self, row: int, held: int) -> float:
        """E(w): what a sample of `held` GPUs is worth beside one of those that the job asks for."""
        phi, batch = self.rules.noise[row]
        if math.isinf(phi):
            return 1.0
        return (phi + self.case.jobs[row].num_gpus * batch) / (phi + held * batch)

    def whole(self, row: int) -> float:
        job = self.case.jobs[row]
        if not self.fixed:
            return float(job.iterations)
        return job.duration / self.case.options.slot if self.slotted else job.duration

    def pause(self, cost: float) -> float:
        return math.ceil(cost / self.case.options.slot) if self.slotted else cost

    def ask(self) -> None:
        """One decision, and what it comes to."""
        self.holding = {
            row: [(server, g) for server, count in stay.parts for g in range(count)]
            for row, stay in self.stays.items()
        }
        # Which GPUs of a server are whose is of no consequence, as long as they are different ones.
        seen: Counter[int] = Counter()
        for row in sorted(self.holding):
            self.holding[row] = []
            for server, count in self.stays[row].parts:
                self.holding[row] += [(server, seen[server] + g) for g in range(count)]
                seen[server] += count
        self.decide(self)
        for row, stay in list(self.stays.items()):
            if row in self.holding and self.parts(row) == stay.parts:
                continue
            self._leave(row)
            if row in self.present:
                self.preemptions[row] += 1
            if row in self.holding:
                resized = len(self.holding[row]) != sum(count for _, count in stay.parts)
                self._begin(row, self.rules.resize if resized else self.rules.move)
        for row in self._fifo(self.holding):
            if row not in self.stays:
                self._begin(row, self.rules.preempt if row in self.started else self.rules.start)

    def _begin(self, row: int, cost: float) -> None:
        begin = self.time + self.pause(cost)
        self.stays[row] = Stay(self.parts(row), self.time, begin, self.left[row], begin)
        self.started.setdefault(row, self.now)

    def _leave(self, row: int) -> None:
        stay = self.stays.pop(row)
        self.left[row] = stay.left
        if not self.slotted and self.time > stay.since:
            self.left[row] = max(0.0, stay.left - (self.time - stay.since) / stay.tau)
        for server, count in stay.parts:
            self.allocations.append((row, self.seconds(stay.start), server, count, self.now))

    def _step(self) -> bool:
        """Completions are done: arrivals, one decision, new rates. Whether anybody came or woke it."""
        came = [row for row in self.future if self.case.jobs[row].submit <= self.now]
        for row in came:
            self.future.remove(row)
            self.present.append(row)
            self.left[row] = self.whole(row)
        woken = {at for at in self.wakes if at <= self.time}
        self.wakes -= woken
        return bool(came or woken)

    def _rates(self) -> None:
        spanning = [stay.servers for stay in self.stays.values() if len(stay.parts) > 1]
        for row, stay in self.stays.items():
            stay.p = contention(stay.servers, spanning)
            tau = self.tau(row, stay, stay.p)
            if self.slotted:
                stay.phi = 1.0 / tau if self.fixed else iterations_per_slot(tau, self.case.options.slot)
            elif tau != stay.tau:
                if self.time > stay.since and not math.isnan(stay.tau):
                    stay.left = max(0.0, stay.left - (self.time - stay.since) / stay.tau)
                    stay.since = self.time
                stay.tau = tau

    def _complete(self, row: int) -> None:
        self.finished[row] = self.now
        self.present.remove(row)
        self._leave(row)

    def run(self) -> None:
        """Everything, until nobody is left. Raises StuckError if nothing can change any more."""
        if self.slotted:
            self._run_slots()
        else:
            self._run_events()

    def _run_slots(self) -> None:
        idle = 0
        while self.future or self.present:
            happened = progress = False
            for row in sorted(self.stays):
                stay = self.stays[row]
                if self.time > stay.begin:
                    progress |= stay.phi > 0
                    stay.left -= stay.phi
                if stay.left <= 1e-9 * stay.phi:
                    self._complete(row)
                    happened = True
            happened |= self._step()
            if happened and (self.present or self.future):
                self.ask()
            self._rates()
            idle = 0 if progress or self.future or self.wakes else idle + 1
            if idle > PATIENCE:
                raise StuckError(min(self.present))
            self.time += 1

    def _run_events(self) -> None:
        def finish(stay: Stay) -> float:
            return stay.since + stay.left * stay.tau

        while self.future or self.present:
            instants = [finish(stay) for stay in self.stays.values()] + list(self.wakes)
            instants += [self.case.jobs[row].submit for row in self.future]
            if not instants:
                raise StuckError(min(self.present))
            self.time = min(instants)
            happened = False
            for row in sorted(self.stays):
                if finish(self.stays[row]) <= self.time:
                    self._complete(row)
                    happened = True
            happened |= self._step()
            if happened and (self.present or self.future):
                self.ask()
            self._rates()


def simulate(case: Case, types: Types, rules: Rules, decide: Callable[[World], None]) -> World:
    """The run of a policy of one's own. Raises RefusedError or StuckError."""
    world = World(case, types, rules, decide)
    world.run()
    return world


__all__ = ["Impossible", "RefusedError", "Rules", "StuckError", "World", "simulate"]
