"""The reference model of `repack` among all other features: the rule of repack.py over the other models.

Nothing here imports ringbco.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from reference.claims import Claims
from reference.compact import lies
from reference.mechanism import World as PreemptWorld
from reference.model import fewest_servers, iteration_time
from reference.predictions import Predictions
from reference.repack import Rule
from reference.repack_view import Parts
from reference.running import RunningJob
from reference.shares import Sharing, weight
from reference.types import Types


def repack_world(
    claims: Claims,
    users: Sequence[str | None] | None,
    base: type[PreemptWorld],
    types: Types | None = None,
    sharing: Sharing | None = None,
    *,
    exact: bool,
    tail: float = 0.5,
    predicted: Mapping[int, float] | None = None,
) -> type[PreemptWorld]:
    """The model `base`, one of priorities, under `repack`. users: by row; None where none is named.

    predicted: run times in a column, by row; None where the run has none.
    """

    class Repacking(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.done: list[int] = []
            self.paused_since: dict[int, float] = {}
            self.at_rungs: dict[int, float] = {}
            self.rule: Rule | None = None

        def begin(self) -> Rule:
            predictions = None
            if not exact:
                count = 1 + max(self.jobs)
                submit = [self.jobs[row].submit if row in self.jobs else 0.0 for row in range(count)]
                gpus = [weight(self.jobs[row]) if row in self.jobs else 0 for row in range(count)]
                whole = [self.ideal(row) if row in self.jobs else 0.0 for row in range(count)]
                predictions = Predictions(submit, gpus, users, whole, predicted)
            return Rule(WorldView(self), predictions, tail)

        def complete(self, run: RunningJob) -> None:
            super().complete(run)
            self.done.append(run.row)

        def other_instants(self) -> list[float]:
            looks = [self.rule.next] if self.rule is not None and self.waiting and not self.slotted else []
            return [*super().other_instants(), *looks]

        def arrive(self) -> bool:
            if self.rule is None:
                self.rule = self.begin()
            happened = super().arrive()
            if self.rule.predictions is not None:
                self.rule.predictions.news(self.done)
            self.done = []
            now = self.seconds(self.now)
            paused = getattr(self, "paused", set())
            for row in paused - set(self.paused_since):
                self.paused_since[row] = now
            for row in set(self.paused_since) - paused:
                self.at_rungs[row] = self.at_rungs.get(row, 0.0) + (now - self.paused_since.pop(row))
            return happened or now >= self.rule.next

        def one_pass(self) -> None:
            assert self.rule is not None
            if self.waiting:
                self.rule.one_pass()

        def at_best(self, row: int) -> float:
            """Run time left on the fewest servers without contention, s."""
            if self.fixed:
                return self.remaining(row)  # type: ignore[no-any-return]
            job = self.jobs[row]
            servers = fewest_servers(job.num_gpus, list(self.sizes.values()))
            return self.left_now(row) * iteration_time(job, servers, 1, self.net)  # type: ignore[no-any-return]

        def ratio(self, row: int, gpu_type: int) -> float:
            """How many times as long a job takes on a type as where it was recorded."""
            assert types is not None
            if self.fixed:
                return 1.0 / types.ratio(row, gpu_type)
            job, own = self.jobs[row], types.sizes(gpu_type, self.sizes)
            there = types.on(row, job, gpu_type)
            unit = iteration_time(there, fewest_servers(job.num_gpus, list(own.values())), 1, self.net)
            recorded = iteration_time(
                job, fewest_servers(job.num_gpus, list(self.sizes.values())), 1, self.net
            )
            return unit / recorded

        def put_on(self, row: int, parts: Parts) -> None:
            # Where GPUs are shared nobody adds up their times, and the lowest are taken.
            least = self.least if sharing is None else lambda idle, count: sorted(idle)[:count]
            gpus = [gpu for server, count in parts for gpu in least(self.idle_on(server), count)]
            self.given = gpus, self.rng
            self.try_start(row)
            self.given = None

        def preempt(self, run: RunningJob) -> None:
            if self.interrupt(run):
                self.result.preemptions[run.row] += 1
                self.shifted[run.row] = self.now
            self.waiting.append(run.row)

        def start_by_evicting(self, row: int) -> None:
            if not self.over_quota(row, self.need(row)):
                self.make_room(row)
                if self.begins(row):
                    self.over[row] = False

    class WorldView:
        """What the rule sees of a world."""

        def __init__(self, world: Repacking) -> None:
            self.world = world

        @property
        def now(self) -> float:
            return self.world.seconds(self.world.now)

        @property
        def cost(self) -> float:
            return self.world.seconds(self.world.pause(self.world.rules.cost))

        @property
        def sizes(self) -> dict[int, int]:
            return self.world.sizes

        @property
        def evicts(self) -> bool:
            return claims.evict or bool(claims.books)

        def waiting(self) -> list[int]:
            return list(self.world.waiting)

        def parts(self) -> dict[int, Parts]:
            return {run.row: sorted(Counter(s for s, _ in run.gpus).items()) for run in self.world.running}

        def of_type(self, gpu_type: int) -> dict[int, int]:
            return self.world.sizes if types is None else types.sizes(gpu_type, self.world.sizes)

        def tried(self, row: int) -> list[int]:
            return [0] if types is None else self.world.tried(row)

        def type_of(self, row: int) -> int:
            run = next(run for run in self.world.running if run.row == row)
            return 0 if types is None else types.of[run.gpus[0][0]]

        def ratio(self, row: int, gpu_type: int) -> float:
            return 1.0 if types is None else self.world.ratio(row, gpu_type)

        def idle(self, server: int) -> int:
            return len(self.world.idle_on(server))

        def gpus(self, row: int) -> int:
            return self.world.jobs[row].num_gpus

        def share(self, row: int) -> float:
            return self.world.jobs[row].share / 1000

        def gpu_of(self, row: int) -> int:
            run = next(run for run in self.world.running if run.row == row)
            return run.gpus[0][1]

        def idle_gpus(self, gpu_type: int) -> float:
            own = self.of_type(gpu_type)
            if sharing is None:
                return float(sum(map(self.idle, own)))
            rooms = sharing.rooms(self.world, self.world.running)
            return sum(room for gpu, room in rooms.items() if gpu[0] in own) / 1000

        def tier(self, row: int) -> int:
            return -claims.priority[row]

        def quotas(self, row: int) -> list[tuple[tuple[int, str], int, bool]]:
            return [
                ((claims.books.index(book), book.owners[row] or ""), quota.gpus, quota.borrow)
                for book, quota in claims.quotas(row)
            ]

        def fifo(self, row: int) -> tuple[float, ...]:
            return self.world.fifo(row)[1:]  # type: ignore[no-any-return]

        def origin(self, row: int) -> float:
            return self.world.arrival_of(row) + self.world.at_rungs.get(row, 0.0)

        def left(self, row: int) -> float:
            return self.world.at_best(row)

        def whole(self, row: int) -> float:
            return self.world.ideal(row)

        def rest(self, row: int) -> float:
            run = next(run for run in self.world.running if run.row == row)
            return self.world.seconds(max(0.0, run.begin - self.world.now))

        def has_run(self, row: int) -> bool:
            return not math.isnan(self.world.result.start[row])

        @property
        def draining(self) -> set[int]:
            return self.world.draining  # type: ignore[no-any-return]

        def is_drained(self, row: int) -> bool:
            return self.world.is_drained(row)  # type: ignore[no-any-return]

        def is_kept(self, row: int) -> bool:
            return self.world.is_kept(row)  # type: ignore[no-any-return]

        def is_protected(self, row: int) -> bool:
            return self.world.is_protected(row)  # type: ignore[no-any-return]

        def is_bound(self, row: int) -> bool:
            return self.world.jobs[row].is_bound  # type: ignore[no-any-return]

        def in_tier(self, row: int, parts: Parts) -> bool:
            return lies(self.world.jobs[row], parts, self.world.options.tiers)

        def place(self, row: int) -> bool:
            self.world.patient = True
            self.world.try_start(row)
            self.world.patient = False
            return row not in self.world.waiting

        def put(self, row: int, parts: Parts) -> None:
            self.world.put_on(row, parts)

        def stop(self, rows: Sequence[int]) -> None:
            for row in rows:
                self.world.preempt(next(run for run in self.world.running if run.row == row))

        def make_room(self, row: int) -> list[int] | None:
            waited = set(self.world.waiting)
            self.world.start_by_evicting(row)
            if row in self.world.waiting:
                return None
            return [other for other in self.world.waiting if other not in waited]

    return Repacking
