"""The reference model of decisions of one's own, straight from docs/custom-policies-reference.md.

A layer over all others whose pass is a function of what a policy sees, and which acts by verbs. A verb only
changes who holds which GPUs now: what was undone at the instant, who has moved and what pauses cost is said
by the netting of stays. Nothing here imports ringbco.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from reference.claims import Claims
from reference.mechanism import World as PreemptWorld
from reference.model import GPU
from reference.running import RunningJob
from reference.seats import beside_of
from reference.shares import MILLI_GPU, Sharing, weight
from reference.sized import Ranges
from reference.types import Types

Parts = Sequence[tuple[int, Any]]
"""(server, GPUs), or (server, [GPU, ...])."""


class ImpossibleError(Exception):
    """A verb that cannot be carried out; nothing has changed."""


class Held(NamedTuple):
    """The quota of an owner, and what its jobs hold."""

    owner: str
    gpus: int
    held: int
    borrow: bool


class Column(NamedTuple):
    """Job columns, one value per row."""

    submit_time: tuple[float, ...]
    num_gpus: tuple[int, ...]
    min_gpus: tuple[int, ...]
    max_gpus: tuple[int, ...]
    priority: tuple[int, ...]


def _many(rows: Any) -> list[int]:
    return [int(row) for row in rows] if isinstance(rows, Iterable) else [int(rows)]


class State:
    """What a policy sees, and its verbs. world: of `deciding_world`."""

    def __init__(self, world: Any) -> None:
        self.world = world

    @property
    def now(self) -> float:
        return float(self.world.seconds(self.world.now))

    @property
    def waiting(self) -> list[int]:
        return sorted(self.world.waiting, key=self.world.fifo)

    @property
    def running(self) -> list[int]:
        return sorted((run.row for run in self.world.running), key=self.world.fifo)

    @property
    def started(self) -> list[int]:
        return [run.row for run in self.world.started()]

    def beside(self, row: int) -> list[int]:
        return beside_of(self.world, int(row))

    @property
    def protected(self) -> list[int]:
        return [row for row in self.running if self.world.is_firm(row)]

    @property
    def draining(self) -> list[int]:
        return sorted(self.world.draining - self.world.down)

    @property
    def kept(self) -> list[int]:
        """Whom built-in policies leave where they are."""
        return [row for row in self.running if self.world.is_firm(row) or self.world.is_drained(row)]

    @property
    def jobs(self) -> Column:
        return self.world.column  # type: ignore[no-any-return]

    @property
    def arrival_time(self) -> dict[int, float]:
        return {row: self.world.arrival_of(row) for row in self.world.jobs}

    @property
    def idle(self) -> list[int]:
        """GPUs of each server that nobody holds; 0 on those of others."""
        busy = Counter(gpu[0] for gpu in self.world.cluster_state().idle)
        return [busy[server] for server in range(1 + max(self.world.sizes))]

    def allocation(self, row: int) -> list[tuple[int, int]]:
        return sorted(Counter(server for server, _ in self.gpus_of(row)).items())

    def gpus_of(self, row: int) -> list[GPU]:
        return list(self.world.run_of(int(row)).gpus)

    def held(self, row: int) -> int:
        return sum(len(run.gpus) for run in self.world.running if run.row == row)

    def can_start(self, row: int, parts: Parts) -> bool:
        """Whether a row has room on those GPUs."""
        try:
            return bool(self.world.given_gpus(row, parts, []))
        except ImpossibleError:
            return False

    def quota(self, row: int) -> Held | None:
        return next(filter(None, self.quotas(row)), None)

    def quotas(self, row: int) -> list[Held | None]:
        return self.world.held_of(int(row))  # type: ignore[no-any-return]

    # Verbs.

    def start(
        self,
        rows: Any,
        servers: Parts | None = None,
        *,
        gpus: int | None = None,
        type: str | int | None = None,
        strict: bool = True,
        beside: int | None = None,
    ) -> int:
        """How many of them start."""
        world, rows = self.world, _many(rows)
        if any(row not in world.waiting for row in rows) or len(set(rows)) < len(rows):
            raise ImpossibleError
        if beside is not None:
            (row,), other = rows, world.run_of(int(beside))
            world.check_quota(row, world.jobs[row].num_gpus, 0)
            if not hasattr(world, "sit") or not world.may_sit(row, other):
                raise ImpossibleError
            world.sit(row, other)
            return 1
        if servers is not None:
            (row,) = rows
            result = world.given_gpus(row, servers, [])
            world.check_quota(row, len(result), 0)
            world.start_on(row, result, world.rng)
            return 1
        chosen = None if type is None else world.type_named(type)
        counts = {row: int(gpus) if gpus is not None else world.jobs[row].num_gpus for row in rows}
        for row in rows:
            if chosen is not None and chosen not in world.tried(row):
                raise ImpossibleError
            world.check(row, counts[row])
            world.check_quota(row, counts[row], 0)
        for row in rows:
            if world.passed_over(row, counts[row]):
                continue
            if not world.start_somewhere(row, counts[row], chosen) and strict:
                break
        # One may have made room for another.
        return sum(row not in world.waiting for row in rows)

    def evict_for(self, row: int) -> bool:
        """Whether it starts by eviction."""
        world, row = self.world, int(row)
        gpus = world.jobs[row].num_gpus
        if not world.evicts or row not in world.waiting:
            raise ImpossibleError
        world.check_quota(row, gpus, 0)
        if world.found(row, gpus, None)[0] is not None:
            return False
        return bool(world.start_by_room(row, gpus, None))

    def stop(self, rows: Any) -> None:
        runs = [self.world.run_of(row) for row in _many(rows)]
        if any(self.world.is_firm(run.row) for run in runs):
            raise ImpossibleError
        for run in runs:
            self.world.put_off(run)

    def move(self, moves: Mapping[int, Parts]) -> None:
        world = self.world
        runs = [world.run_of(int(row)) for row in moves]
        taken: list[GPU] = []
        places: dict[int, list[GPU]] = {}
        for run, parts in zip(runs, moves.values(), strict=True):
            places[run.row] = world.given_gpus(run.row, parts, runs, taken)
            world.check_quota(run.row, len(places[run.row]), len(run.gpus))
            taken += places[run.row]
        for run in runs:
            world.put_off(run)
        for row, gpus in places.items():
            world.start_on(row, gpus, world.rng)

    def resize(self, row: int, gpus: int) -> None:
        world, run = self.world, self.world.run_of(int(row))
        world.check(run.row, int(gpus))
        if gpus == len(run.gpus):
            return
        world.check_quota(run.row, int(gpus), len(run.gpus))
        result, rng = world.without([run], lambda: world.found(run.row, int(gpus), None))
        if result is None:
            raise ImpossibleError
        world.put_off(run)
        world.start_on(run.row, result, rng)

    def refuse(self, rows: Any) -> None:
        world, rows = self.world, _many(rows)
        if any(row not in world.waiting or world.has_run(row) for row in rows):
            raise ImpossibleError
        for row in rows:
            world.result.refused[row] = True
            world.leave_for_good(row)

    def end(self, rows: Any) -> None:
        world, rows = self.world, _many(rows)
        here = [*world.waiting, *self.running]
        if any(row not in here or not world.has_run(row) for row in rows):
            raise ImpossibleError
        for row in rows:
            world.leave_for_good(row)

    def wake(self, at: float) -> None:
        world, at = self.world, float(at)
        if at <= self.now:
            raise ImpossibleError
        if world.slotted:  # the first boundary not before it
            near = math.floor(at / world.options.slot)
            at = next(n for n in range(near - 1, near + 3) if world.seconds(n) >= at)
        world.wakes.add(at)


Decide = Callable[[State], None]
Decides = Callable[[Collection[int]], Decide]
"""Makes the policy of a cluster with those rows."""


def deciding_world(
    decides: Decides,
    ranges: Ranges,
    costs: tuple[float | None, float | None],
    claims: Claims,
    types: Types,
    base: type[PreemptWorld],
    sharing: Sharing | None = None,
    names: Sequence[str] = (),
) -> type[PreemptWorld]:
    """The model `base`, of `sized` and `priorities` at least, under decisions of one's own.

    costs: pauses after a move and after a resize, s, None for that of a preemption. names: of types.
    """

    class Deciding(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.decide, self.wakes = decides(self.jobs), set[float]()
            self.gone: set[int] = set()
            self.asked: dict[int, int] = {}
            """GPUs for which room is made, by row."""
            self.only: int | None = None
            """The type on which it is made, if one was named."""
            self.made_room = self.turns_left = False
            jobs = [self.jobs.get(row) for row in range(len(self.result.kept))]
            self.column = Column(
                tuple(job.submit if job else math.nan for job in jobs),
                tuple(job.num_gpus if job else 0 for job in jobs),
                ranges.least,
                ranges.most,
                claims.priority,
            )

        @property
        def evicts(self) -> bool:
            return bool(claims.evict or claims.books)

        # When it is asked.

        def other_instants(self) -> list[float]:
            return [*super().other_instants(), *(self.seconds(at) for at in self.wakes)]

        def arrive(self) -> bool:
            happened = super().arrive()
            due = {at for at in self.wakes if at <= self.now}
            self.wakes -= due
            left, self.turns_left = self.turns_left, False
            return bool(happened or due or left)

        def one_pass(self) -> None:
            if len(self.future) == len(self.jobs) or not (self.waiting or self.running or self.future):
                return  # not before the first arrival, nor after the end
            self.made_room, gone = False, len(self.gone)
            self.decide(State(self))
            # Who was evicted has a turn once more at the next slot.
            self.turns_left = self.slotted and self.made_room
            if len(self.gone) > gone and self.judges():
                self.one_pass()

        def judges(self) -> bool:
            """Whether trials go on, or end, now that others are gone."""
            judge = getattr(self, "judge", None)
            return judge is not None and judge()

        def is_lost(self, row: int) -> bool:
            return row in self.gone or bool(super().is_lost(row))

        # What verbs ask for.

        def run_of(self, row: int) -> RunningJob:
            for run in self.running:
                if run.row == row:
                    return run
            raise ImpossibleError

        def has_run(self, row: int) -> bool:
            return not math.isnan(self.result.start[row])

        def is_firm(self, row: int) -> bool:
            """Protected, and no guest."""
            return bool(self.is_protected(row) and not self.over.get(row))

        def held_of(self, row: int) -> list[Held | None]:
            """By book."""
            gpus = {run.row: len(run.gpus) for run in self.running}
            found: list[Held | None] = []
            for book in claims.books:
                quota = book.quota(row)
                held = sum(gpus[other] for other in book.rows(row, gpus))
                owner = book.owners[row] or ""
                found.append(quota and Held(owner, quota.gpus, held, quota.borrow))
            return found

        def check(self, row: int, gpus: int) -> None:
            if not ranges.least[row] <= gpus <= ranges.most[row]:
                raise ImpossibleError

        def check_quota(self, row: int, gpus: int, has: int) -> None:
            for quota in self.held_of(row):
                if quota and not quota.borrow and gpus > has and quota.held - has + gpus > quota.gpus:
                    raise ImpossibleError

        def type_named(self, name: str | int) -> int:
            return names.index(name) if isinstance(name, str) else name

        def type_at(self, server: int) -> int:
            return types.of[server]

        def without(self, runs: Sequence[RunningJob], ask: Callable[[], Any]) -> Any:
            """What would be if some were not there."""
            still, self.running = self.running, [run for run in self.running if run not in runs]
            answer = ask()
            self.running = still
            return answer

        def given_gpus(
            self, row: int, parts: Parts, leaving: Sequence[RunningJob], taken: Sequence[GPU] = ()
        ) -> list[GPU]:
            """The GPUs of given servers: of one type, one that the job may use, with room."""
            kinds = {types.of[server] for server, _ in parts}
            mine = all(server in self.sizes for server, _ in parts)
            if not mine or len(kinds) != 1 or not kinds <= set(self.tried(row)):
                raise ImpossibleError
            if len({server for server, _ in parts}) < len(parts):
                raise ImpossibleError
            result: list[GPU] = []
            for server, wanted in sorted(parts, key=lambda part: part[0]):
                idle = self.without(leaving, lambda server=server: self.idle_on(server))
                own = self.least([gpu for gpu in idle if gpu not in taken], len(idle))
                if isinstance(wanted, int):
                    if not 1 <= wanted <= len(own):
                        raise ImpossibleError
                    result += own[:wanted]
                    continue
                rooms = self.without(leaving, self.rooms)
                share = self.jobs[row].share or MILLI_GPU
                if any(rooms[server, gpu] < share for gpu in wanted):
                    raise ImpossibleError
                result += [(server, gpu) for gpu in wanted]
            held = [sum(server == other for other, _ in result) for server, _ in parts]
            if any(gpus % self.jobs[row].pod for gpus in held):
                raise ImpossibleError
            self.check(row, len(result))
            return result

        def rooms(self) -> dict[GPU, int]:
            assert sharing is not None
            return sharing.rooms(self, self.running)

        # What verbs do.

        def weight(self, row: int) -> float:
            return weight(self.jobs[row])

        def weight_of(self, row: int, gpus: int) -> float:
            """GPUs that it holds of so many: a share is less than one."""
            return self.jobs[row].share / MILLI_GPU or float(gpus)

        @property
        def has_shares(self) -> bool:
            return sharing is not None and sharing.has_shares

        def places(self, row: int) -> list[tuple[int, Any]]:
            """Where it runs, as `start` is told."""
            gpus = sorted(self.run_of(row).gpus)
            servers = sorted({server for server, _ in gpus})
            result = [(server, [gpu for own, gpu in gpus if own == server]) for server in servers]
            return result if self.has_shares else [(server, len(own)) for server, own in result]

        def idle_of(self, gpu_type: int) -> int:
            """GPUs of a type that nobody holds, or of which a part is left."""
            if not self.has_shares:
                return sum(types.of[server] == gpu_type for server, _ in self.cluster_state().idle)
            return sum(room > 0 and types.of[gpu[0]] == gpu_type for gpu, room in self.rooms().items())

        def room_of(self, gpu_type: int) -> float:
            if not self.has_shares:
                return self.idle_of(gpu_type)
            return sum(room for gpu, room in self.rooms().items() if types.of[gpu[0]] == gpu_type) / MILLI_GPU

        def put_off(self, run: RunningJob) -> None:
            if self.interrupt(run):
                self.result.preemptions[run.row] += 1
            self.waiting.append(run.row)

        def leave_for_good(self, row: int) -> None:
            for run in [run for run in self.running if run.row == row]:
                if run.start < self.now:
                    self.stop(run)
                else:
                    self.running.remove(run)
                    if not self.result.allocations[row]:
                        self.result.start[row] = math.nan
            if row in self.waiting:
                self.waiting.remove(row)
            self.tell(row, "preempted", "ended")
            self.forget(row)
            self.result.kept[row] = False
            self.gone.add(row)

        def found(self, row: int, gpus: int, chosen: int | None) -> tuple[list[GPU] | None, int]:
            """Where the placement puts a job, of its types or of the one chosen."""
            for gpu_type in self.tried(row) if chosen is None else [chosen]:
                result, rng = self.put(row, gpus, gpu_type)
                if result is not None:
                    return result, rng
            return None, self.rng

        def start_somewhere(self, row: int, gpus: int, chosen: int | None) -> bool:
            """Where the placement puts it, or by eviction; whether it starts."""
            result, rng = self.found(row, gpus, chosen)
            if result is None:
                return self.start_by_room(row, gpus, chosen)
            self.start_on(row, result, rng)
            return True

        def start_by_room(self, row: int, gpus: int, chosen: int | None) -> bool:
            if self.evicts and not self.over_quota(row, gpus):
                self.asked[row], self.only = gpus, chosen
                self.make_room(row)
                self.asked, self.only = {}, None
            return row not in self.waiting

        def need(self, row: int) -> int:
            return self.asked.get(row, self.jobs[row].num_gpus)

        def pools(self, row: int) -> list[dict[int, int]]:
            kinds = self.tried(row) if self.only is None else [self.only]
            return [types.sizes(gpu_type, self.sizes) for gpu_type in kinds]

        def placed(
            self, row: int, own: dict[int, int], without: Sequence[RunningJob]
        ) -> tuple[list[GPU] | None, int]:
            return self.without(without, lambda: self.put(row, self.need(row), types.of[min(own)]))  # type: ignore[no-any-return]

        def evict(self, leaving: Sequence[RunningJob]) -> None:
            self.made_room = True
            super().evict(leaving)

        def start_on(self, row: int, gpus: list[GPU], rng: int) -> None:
            over = self.over_quota(row, len(gpus))
            super().start_on(row, gpus, rng)
            if self.begins(row):
                self.over[row] = over

        def cost_of(self, row: int, gpus: list[GPU]) -> float:
            was_here = self.kept_at == self.now and row in self.kept
            if was_here and self.stops[row][-1:] == ((self.now, "preempted"),):
                return self.rules.price(row, costs[len(gpus) != len(self.kept[row][0].gpus)])
            return float(super().cost_of(row, gpus))

    return Deciding
