"""The reference model of priorities, eviction, quotas (docs/priorities-reference.md) and docs/services.md.

A layer over the model of outages. Holdings, victims and what they lose are worked out anew whenever somebody
asks for them. Nothing here imports ringbco.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reference.claims import Claims, Log, Quota, Replica
from reference.clocks import PATIENCE
from reference.conservative import BY_TIME, make_reservations
from reference.losses import losing_world
from reference.mechanism import World as PreemptWorld
from reference.model import GPU
from reference.outages import Failures, Queue, checkpoints, failing_world, queue_world
from reference.placement import ClusterState
from reference.running import RunningJob
from reference.types import Types
from reference.victims import in_order, price

SOON = 200
"""Slots without progress after which a run is given up as stuck; pauses and intervals are shorter."""


def priority_world(
    claims: Claims,
    log: Log,
    facts: Failures,
    base: type[PreemptWorld] = PreemptWorld,
    queue: Queue | None = None,
    types: Types | None = None,
) -> type[PreemptWorld]:
    """The model `base`, with outages, and with the queue or else a ranking, where jobs differ in rank."""
    under = losing_world(claims.losing(), failing_world(facts, base))
    if queue is not None:
        under = queue_world(queue, under)

    class Ranked(under):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.given: tuple[list[GPU], int] | None = None
            """Where the job that starts next goes, and the random numbers then, if eviction decided it."""
            self.over: dict[int, bool] = {}
            """Whether the stay of a running row is over quota."""
            self.patient = False
            """Whether nobody is evicted for a job that finds no room."""
            self.stopped_at: dict[int, float] = {}
            """When the latest stay of a row ended, s."""
            self.seen_loads = -math.inf
            self.completed = self.changed = self.comes = False
            self.seen_then: object = None

        def give_up(self, idle: float) -> None:
            super().give_up(PATIENCE + 1 if idle > SOON else idle)

        def look(self) -> None:
            # As before where nobody came or went: there are many slots.
            here = [(run.row, run.start) for run in self.running]
            now = here, list(self.waiting), self.down, self.draining, self.active()
            if now != self.seen_then:
                super().look()
            self.looked, self.seen_then = self.now, now

        # Orders and rankings.

        def fifo(self, row: int) -> tuple[float, ...]:
            return -claims.priority[row], *super().fifo(row)

        def tier(self, row: int) -> int:
            return -claims.priority[row]

        def ranking(self) -> list[int]:
            # Those below are in order of (own key, submit_time, row).
            ranked = sorted(super().ranking(), key=lambda row: -claims.priority[row])
            ranked.sort(key=lambda row: not self.is_kept(row))
            within, guests = self.by_owner(ranked)
            return within + guests

        def by_owner(self, ranked: Sequence[int]) -> tuple[list[int], list[int]]:
            """Those within their quotas along a ranking, and guests; who may not borrow is in neither.

            Whoever is on a server that drains stays, whatever its quota.
            """
            within: list[int] = []
            guests: list[int] = []
            stuck: list[int] = []
            for row in ranked:
                own = [other for other in within if other not in stuck]
                beyond = claims.beyond(row, self.need(row), {other: self.need(other) for other in own})
                if not beyond:
                    within.append(row)
                elif self.is_drained(row):
                    within.append(row)
                    stuck.append(row)
                elif all(quota.borrow for quota in beyond):
                    guests.append(row)
            return within, guests

        def rank(self, row: int) -> tuple[float, ...]:
            assert queue is not None
            if queue.aging is not None and self.seconds(self.now) >= self.arrival_of(row) + queue.aging:
                return 0.0, *self.fifo(row)
            own = claims.column[row : row + 1] if claims.column else self.keys(row)
            return 1.0, -claims.priority[row], *own, *super().fifo(row)

        def one_pass(self) -> None:
            if queue is None:
                super().one_pass()
                return
            for row in self.waiting:
                if row not in self.predictions:
                    self.predictions[row] = self.predict(row)
            if self.options.queue == "conservative":
                make_reservations(self, queue.reservations)
                return
            head: int | None = None
            shadow = math.inf
            turn: tuple[float, ...] = (-1.0,)
            # Those evicted meanwhile have a turn too, if it is still to come.
            while coming := [row for row in self.waiting if self.rank(row) > turn]:
                row = min(coming, key=self.rank)
                turn = self.rank(row)
                if self.passed_over(row, self.need(row)):
                    continue
                gpus, _ = self.find(row)
                if head is None:
                    self.try_start(row)
                    if row in self.waiting and self.options.queue == "strict":
                        return
                    if row in self.waiting and self.options.queue == "easy":
                        head, shadow = row, self.shadow(row)
                elif gpus is not None and self.harmless(row, gpus, head, shadow):
                    self.try_start(row)

        def need(self, row: int) -> int:
            """GPUs that others make room for."""
            return int(self.jobs[row].num_gpus)

        def try_start(self, row: int) -> None:
            over = self.over_quota(row, self.need(row))
            super().try_start(row)
            makes_room = not over and not self.patient and (claims.evict or claims.books)
            if row in self.waiting and makes_room:
                self.make_room(row)
            if self.begins(row):
                self.over[row] = over

        # Quotas.

        def beyond(self, row: int, gpus: int) -> list[Quota]:
            """The quotas that it would exceed now."""
            return claims.beyond(row, gpus, {run.row: len(run.gpus) for run in self.running})

        def over_quota(self, row: int, gpus: int) -> bool:
            return bool(self.beyond(row, gpus))

        def passed_over(self, row: int, gpus: int) -> bool:
            return any(not quota.borrow for quota in self.beyond(row, gpus))

        def never(self, row: int) -> bool:
            gpus = self.jobs[row].num_gpus
            return any(not quota.borrow and gpus > quota.gpus for _, quota in claims.quotas(row))

        # Eviction.

        def find(self, row: int) -> tuple[list[GPU] | None, int]:
            if self.given is not None:
                return self.given
            return (None, self.rng) if self.never(row) else super().find(row)

        def is_victim(self, run: RunningJob, row: int) -> bool:
            if self.is_drained(run.row):
                return False
            if claims.books and self.over[run.row]:
                return True
            lower = claims.priority[run.row] < claims.priority[row]
            may_go = claims.preemptible[run.row] and not self.is_protected(run.row)
            return claims.evict and lower and may_go

        def saved_columns(self, row: int) -> list[tuple[Any, Any]]:
            own = [(log.evictions, log.evictions[row]), (self.over, self.over[row])]
            return super().saved_columns(row) + own  # type: ignore[no-any-return]

        def lost(self, run: RunningJob) -> float:
            """GPUs x seconds of progress that an eviction would lose: those since the last checkpoint."""
            if not claims.evict_loses:
                since = 0.0
            elif facts.cost:
                since = self.unsaved(run)
            elif self.slotted:
                since = max(0.0, self.now - self.saved[run.row][0])
            else:
                every, progress = facts.intervals[run.row], max(0.0, self.now - run.begin)
                since = 0.0
                if every > 0:
                    number = checkpoints(progress, every)
                    since = progress - (min(progress, number * every) if number else 0.0)
            return len(run.gpus) * self.seconds(since)

        def freed(self, leaving: Sequence[RunningJob]) -> list[GPU]:
            """GPUs that are idle once some have left: whom else they seat is `seats`'."""
            below = getattr(super(), "freed", None)
            return below(leaving) if below else [gpu for run in leaving for gpu in run.gpus]

        def in_order(self, victims: Sequence[RunningJob]) -> list[RunningJob]:
            return in_order(claims.victims, victims, claims.priority, self.lost)

        @property
        def delays(self) -> bool:
            """Whether jobs wait before they make room."""
            return claims.evict_after > 0 and (claims.evict or bool(claims.books))

        def stop(self, run: RunningJob) -> None:
            super().stop(run)
            self.stopped_at[run.row] = self.seconds(self.now)

        def makes_room_from(self, row: int) -> float:
            """Seconds."""
            return self.stopped_at.get(row, self.arrival_of(row)) + claims.evict_after

        def openings(self) -> list[float]:
            own = [self.makes_room_from(row) for row in self.waiting] if self.delays else []
            return [*super().openings(), *(time for time in own if self.seconds(self.now) < time)]

        def opens(self) -> bool:
            before = self.seconds(self.now - 1) if self.slotted else math.nextafter(self.now, -math.inf)
            comes = any(before < self.makes_room_from(row) <= self.seconds(self.now) for row in self.waiting)
            return super().opens() or (self.delays and comes and self.passed != self.now)

        def pools(self, row: int) -> list[dict[int, int]]:
            """The clusters that a job may use, in the order in which they are tried."""
            if types is None:
                return [self.sizes]
            return [types.sizes(gpu_type, self.sizes) for gpu_type in self.tried(row)]

        def make_room(self, row: int) -> None:
            if self.delays and self.seconds(self.now) < self.makes_room_from(row):
                return
            victims = self.in_order([run for run in self.running if self.is_victim(run, row)])
            for own in self.pools(row):
                result = None
                if self.need(row) <= max(own.values()):
                    result = self.on_a_server(self.need(row), own, victims)
                    if result is None and not self.jobs[row].is_bound:
                        continue
                if result is not None:
                    server, leaving = result
                    self.evict(leaving)
                    self.start_on(row, self.least(self.idle_on(server), self.need(row)), self.rng)
                else:
                    leaving_all = self.over_all(row, own, victims)
                    if leaving_all is None:
                        continue
                    self.evict(leaving_all)
                    gpus, rng = self.placed(row, own, [])
                    assert gpus is not None
                    self.start_on(row, gpus, rng)
                return

        def start_on(self, row: int, gpus: list[GPU], rng: int) -> None:
            """A job that was made room for starts there."""
            self.given = gpus, rng
            super().try_start(row)
            self.given = None

        def start_there(self, row: int, gpus: list[GPU], rng: int) -> None:
            """A job whose reservation is now starts on its GPUs."""
            self.given = gpus, rng
            self.try_start(row)
            self.given = None

        def idle_on(self, server: int) -> list[GPU]:
            return [gpu for gpu in self.cluster_state().idle if gpu[0] == server]

        def least(self, gpus: Sequence[GPU], count: int) -> list[GPU]:
            # Else U does not count, which only reservations see.
            by_time = self.options.placement in BY_TIME
            return sorted(gpus, key=lambda gpu: (by_time and self.load.get(gpu, 0.0), gpu))[:count]

        def on_a_server(
            self, need: int, own: dict[int, int], victims: Sequence[RunningJob]
        ) -> tuple[int, list[RunningJob]] | None:
            """Rules 3 and 4: the server, and who leaves it."""

            def there(runs: Sequence[RunningJob], server: int) -> int:
                return sum(1 for gpu in self.freed(runs) if gpu[0] == server)

            result: list[tuple[tuple[float, ...], int, list[RunningJob]]] = []
            for server in sorted(set(own) - self.down):
                idle = len(self.idle_on(server))
                if idle >= need:
                    continue  # the placement does not want it
                taken: list[RunningJob] = []
                for run in victims:
                    if idle + there(taken, server) < need and server in run.servers:
                        taken.append(run)
                if idle + there(taken, server) < need:
                    continue
                for run in reversed(list(taken)):
                    rest = [other for other in taken if other is not run]
                    if idle + there(rest, server) >= need:
                        taken = rest
                cost = price(claims.victims, taken, claims.priority, self.lost)
                result.append((cost, server, taken))
            if not result:
                return None
            _, server, taken = min(result, key=lambda each: each[:2])
            return server, taken

        def over_all(
            self, row: int, own: dict[int, int], victims: Sequence[RunningJob]
        ) -> list[RunningJob] | None:
            """Rule 5: who leaves the servers `own` so that the placement finds GPUs for a larger job."""
            taken: list[RunningJob] = []
            for run in victims:
                if self.placed(row, own, taken)[0] is None and run.servers & set(own):
                    taken.append(run)
            if self.placed(row, own, taken)[0] is None:
                return None
            for run in reversed(list(taken)):
                rest = [other for other in taken if other is not run]
                if self.placed(row, own, rest)[0] is not None:
                    taken = rest
            return taken

        def placed(
            self, row: int, own: dict[int, int], without: Sequence[RunningJob]
        ) -> tuple[list[GPU] | None, int]:
            """What the placement finds on the servers `own` if some were not there."""
            still, self.running = self.running, [run for run in self.running if run not in without]
            cluster = self.cluster_state()
            self.running = still
            idle = [gpu for gpu in cluster.idle if gpu[0] in own]
            load = {gpu: u for gpu, u in cluster.load.items() if gpu[0] in own}
            asked = replace(self.jobs[row], num_gpus=self.need(row))
            return self.placed_on(asked, ClusterState(dict(sorted(own.items())), idle, load))  # type: ignore[no-any-return]

        def evict(self, leaving: Sequence[RunningJob]) -> None:
            for run in leaving:
                ended = self.interrupt(run)
                log.evictions[run.row] += ended
                if ended:
                    self.tell(run.row, "preempted", "evicted")
                self.waiting.append(run.row)

        # Services.

        def other_instants(self) -> list[float]:
            to_come = [load.time for load in claims.loads if load.time > self.seen_loads]
            return super().other_instants() + to_come

        def complete(self, run: RunningJob) -> None:
            super().complete(run)
            self.completed = True

        def arrive(self) -> bool:
            """Replicas are tried again at completions, servers, loads and arrivals."""
            coming = len(self.future)
            happened = super().arrive()
            self.comes = self.completed or self.changed or len(self.future) < coming
            if claims.loads:
                loads = self.change_loads()
                happened |= loads
                if self.comes or loads:
                    happened |= self.place_replicas()
            self.completed = False
            return happened

        def active(self) -> list[Replica]:
            return [replica for replica in log.replicas if replica.end == math.inf]

        def change_servers(self) -> bool:
            before, seen = self.down, self.seen
            self.changed = changed = super().change_servers()
            now = self.seconds(self.now)
            failed = {s for s, down, _ in self.outages if seen < down <= now} - before
            for replica in self.active():
                if replica.server in failed:
                    replica.end = now
            return changed

        def others(self, server: int) -> list[tuple[float, float]]:
            return [(each.start, each.end) for each in log.replicas if each.server == server]

        def change_loads(self) -> bool:
            """The rows whose time has come; whether there are any."""
            now = self.seconds(self.now)
            come = any(self.seen_loads < load.time <= now for load in claims.loads)
            self.seen_loads = now
            for service in claims.services():
                own = [replica for replica in self.active() if replica.service == service]
                for replica in own[claims.wanted(service, now) :]:
                    replica.end = now
            return come

        def place_replicas(self) -> bool:
            """Whether one was placed."""
            now, placed = self.seconds(self.now), False
            for service in claims.services():
                while sum(each.service == service for each in self.active()) < claims.wanted(service, now):
                    server = self.server_of_replica(claims.size(service))
                    if server is None:
                        break
                    gpus = self.least(self.idle_on(server), claims.size(service))
                    log.replicas.append(Replica(service, gpus, now))
                    placed = True
            return placed

        def server_of_replica(self, size: int) -> int | None:
            """Where the next replica goes, made room for."""
            idle = {server: len(self.idle_on(server)) for server in self.sizes if server not in self.down}
            holding = [server for server in idle if idle[server] >= size]
            if holding:
                return min(holding, key=lambda server: (idle[server], server))
            may_go = [run for run in self.running if claims.preemptible[run.row]]
            victims = [run for run in may_go if not self.is_drained(run.row)]
            result = self.on_a_server(size, self.sizes, self.in_order(victims))
            if result is None:
                return None
            self.evict(result[1])
            return result[0]

        def up(self) -> dict[int, int]:
            """GPUs that are up and that no replica holds, by server."""
            replicas = [replica for replica in self.active() if replica.server not in self.draining]
            held = [gpu[0] for replica in replicas for gpu in replica.gpus]
            return {server: size - held.count(server) for server, size in super().up().items()}

        def cluster_state(self) -> ClusterState:
            cluster, held = super().cluster_state(), self.lent()
            return replace(cluster, idle=[gpu for gpu in cluster.idle if gpu not in held])

        def lent(self) -> set[GPU]:
            return {gpu for replica in self.active() for gpu in replica.gpus}

    return Ranked
