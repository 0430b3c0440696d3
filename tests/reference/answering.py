"""The reference model of services that answer requests beside jobs, straight from docs/serving.md.

A layer over the model of jobs (`priorities`), beside which the model of requests (`serving`) runs step by
step. What services want, and which replica goes, is worked out anew at every tick. Nothing here imports
ringbco.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.claims import Log, Replica
from reference.mechanism import World as PreemptWorld
from reference.replicas import Answer, Request
from reference.replicas import Replica as Serves
from reference.scaling import Autoscaler
from reference.serving import Service, UnansweredError
from reference.serving import World as Serving


@dataclass
class Placed(Replica):
    """A replica on its GPUs. of: the same as requests see it. drained: when it gives them back."""

    of: Serves | None = None
    drained: float = math.inf


@dataclass(frozen=True)
class Asked:
    """names, gpus: of services and of their replicas. speeds: of servers, by that of the first type."""

    names: Sequence[str]
    gpus: Sequence[int]
    services: Sequence[Service]
    requests: Sequence[Request]
    speeds: Sequence[float]


@dataclass
class Told:
    """What came of the requests. wanted: (time, service, replicas) where that changed. end: of the run, s."""

    answers: list[Answer] = field(default_factory=list)
    wanted: list[tuple[float, int, int]] = field(default_factory=list)
    begun_anew: list[int] = field(default_factory=list)
    end: float = math.nan


class Beside(Serving):
    """Requests and replicas; who places and ends these is another."""

    def __init__(self, asked: Asked) -> None:
        super().__init__([*map(_without_scale, asked.services)], asked.requests)

    def ends_of_work(self) -> None:
        for replica in self.replicas:
            if replica.end is None and replica.busy_until == self.now:
                for row in replica.complete():
                    self.result.answers[row] = replica.answers.pop(row)

    def next_event(self) -> float:
        return min((time for time in self.events() if time > self.now), default=math.inf)

    def run_to(self, until: float) -> None:
        """All before an instant, and what ends at it."""
        while (then := self.next_event()) < until:
            self.now = then
            self.ends_of_work()
            self.settle()
        self.now = until
        self.ends_of_work()

    def settle(self) -> None:
        """The rest of an instant."""
        self.place()
        for row, request in enumerate(self.requests):
            if request.arrival == self.now and row not in self.arrived:
                self.arrived.add(row)
                self.deal(row)
        self.begin()

    def done_at(self, replica: Serves) -> float:
        """When a replica that drains has nothing left."""
        ahead, at = copy.deepcopy(self), self.replicas.index(replica)
        while ahead.replicas[at].assigned():
            ahead.settle()
            ahead.now = ahead.next_event()
            ahead.ends_of_work()
        return ahead.now

    def last_answer(self) -> float | None:
        finishes = [answer.finish for answer in self.result.answers]
        known = [finish for finish in finishes if finish is not None]
        return max(known, default=0.0) if len(known) == len(finishes) else None


def _without_scale(service: Service) -> Service:
    return Service(service.kind, service.startup, service.drain)


def answering_world(asked: Asked, told: Told, log: Log, base: type[PreemptWorld]) -> type[PreemptWorld]:
    """The model `base`, whose services answer requests."""

    class Answering(base):  # type: ignore[misc, valid-type]
        def __init__(self, *parts: object) -> None:
            super().__init__(*parts)
            self.beside = Beside(asked)
            self.scalers = [Autoscaler(service.scale) for service in asked.services if service.scale]
            self.quiet = self.has_ended = False
            """Whether nothing but a tick came at the latest instant; whether the run is over."""
            self.seen_ticks = -math.inf
            self.seen_requests: dict[int, int] = {}

        # What there is.

        def replicas_held(self) -> list[Placed]:
            return [replica for replica in self.active() if isinstance(replica, Placed)]

        def staying(self, service: int) -> list[Placed]:
            own = [each for each in self.replicas_held() if each.service == asked.names[service]]
            return [each for each in own if each.of is not None and each.of.drains_from is None]

        def jobs_left(self) -> bool:
            return bool(self.future or self.waiting or self.running or getattr(self, "paused", ()))

        # Time.

        def other_instants(self) -> list[float]:
            own = [time for scaler in self.scalers for time in scaler.loads() if time > self.seen_ticks]
            own += [each.drained for each in self.replicas_held() if each.drained < math.inf]
            others = [*super().other_instants(), *own]
            ticks = [time for scaler in self.scalers if (time := scaler.next_tick(self.now)) < math.inf]
            return others if self.ticks_in_vain(others) else [*others, *ticks]

        def ticks_in_vain(self, others: Sequence[float]) -> bool:
            """Whether more ticks change nothing."""
            if others or self.future or self.running or not self.quiet:
                return False
            return self.beside.next_event() == math.inf and all(
                map(self.is_settled, range(len(self.scalers)))
            )

        def is_settled(self, service: int) -> bool:
            """Whether its requests are as many as at the latest tick, which desired what is wanted."""
            scaler, seen = self.scalers[service], self.seen_requests.get(service)
            desired = [replicas for _, replicas in scaler.desired][-1:]
            as_before = seen == self.beside.unanswered(service) and desired == [scaler.wanted]
            return as_before or scaler.next_tick(self.now) == math.inf

        def arrive(self) -> bool:
            moves = self.replica_moves()
            self.beside.run_to(self.now)
            for each in [each for each in self.replicas_held() if each.drained <= self.now]:
                self.end_replica(each)
            if not self.jobs_left() and self.beside.last_answer() is not None:
                self.end_run(self.now)
                return bool(super().arrive())
            happened = super().arrive()
            ticks = self.change_wanted()
            comes = self.comes or self.replica_moves() != moves
            if comes or ticks:
                self.place_replicas()
            self.beside.settle()
            moved = self.replica_moves() != moves
            self.quiet = not (happened or comes or moved)
            return bool(happened or moved)

        def replica_moves(self) -> int:
            return len(log.replicas) + sum(replica.end < math.inf for replica in log.replicas)

        # Servers, ticks, replicas.

        def change_servers(self) -> bool:
            held = self.replicas_held()
            changed = bool(super().change_servers())
            for each in held:
                if each.end < math.inf:  # its server failed
                    self.end_replica(each)
            return changed

        def end_replica(self, each: Placed) -> None:
            assert each.of is not None
            each.end = self.now
            self.beside.end(each.of)

        def change_wanted(self) -> bool:
            """Whether there is a tick, or a load."""
            self.seen_ticks, due = self.now, False
            for at, scaler in enumerate(self.scalers):
                if not scaler.is_due(self.now):
                    continue
                due = True
                self.seen_requests[at] = self.beside.unanswered(at)
                scaler.tick(self.now, self.seen_requests[at])
                before = [wanted for _, service, wanted in told.wanted if service == at]
                if before[-1:] != [scaler.wanted]:
                    told.wanted.append((self.now, at, scaler.wanted))
                while len(own := self.staying(at)) > scaler.wanted:
                    # The latest start goes first, then the higher row.
                    own.sort(key=lambda each: (each.start, each.server, each.of.number))  # type: ignore[union-attr]
                    self.drain_replica(min(reversed(own), key=lambda each: each.of.assigned()), at)  # type: ignore[union-attr]
            return due

        def drain_replica(self, each: Placed, service: int) -> None:
            assert each.of is not None
            each.of.drains_from = self.now
            most = self.now + asked.services[service].drain
            each.drained = min(most, self.beside.done_at(each.of))
            if each.drained <= self.now:
                self.end_replica(each)

        def place_replicas(self) -> bool:
            for at, name in enumerate(asked.names):
                while len(self.staying(at)) < self.scalers[at].wanted:
                    server = self.server_of_replica(asked.gpus[at])
                    if server is None:
                        break
                    gpus = self.least(self.idle_on(server), asked.gpus[at])
                    of = self.beside.new(at, server, asked.speeds[server])
                    log.replicas.append(Placed(name, gpus, self.now, of=of))
            return True

        # The end.

        def end_run(self, now: float) -> None:
            self.has_ended = True
            for each in self.replicas_held():
                each.end = now
                assert each.of is not None
                each.of.end = now
                if each.of.serves_from is not None and each.of.serves_from >= now:
                    each.of.serves_from = None  # the model of requests had gone on
            told.end = now
            told.answers = self.beside.result.answers
            told.begun_anew = self.beside.result.begun_anew

        def after_jobs(self) -> None:
            """From the end of the last job to the last answer."""
            while not self.has_ended:
                then = min(self.other_instants(), default=math.inf)
                self.beside.settle()
                self.beside.run_to(min(then, 1e300))
                last = self.beside.last_answer()
                if last is not None and last < then:
                    self.end_run(max(last, self.now))
                elif then == math.inf:
                    raise UnansweredError
                else:
                    self.now = then
                    self.arrive()

    return Answering
