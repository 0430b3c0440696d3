"""The reference model of services that answer requests: step by step, on requests and replicas alone.

Nothing is jumped over: every step of a replica is an instant, and at every instant all replicas are looked
at again. It knows neither jobs nor policies. Replicas are as a schedule says, or as an autoscaler wants them
on a number of servers that hold one replica each. Nothing here imports ringbco.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reference.replicas import Answer, Batch, BatchReplica, Replica, Request, TokenReplica, Tokens
from reference.scaling import Autoscaler, Fixed, Loads, Target


@dataclass(frozen=True)
class Service:
    """startup, drain: s. scale: how many replicas it wants; None where a schedule says which it has."""

    kind: Batch | Tokens
    startup: float = 0.0
    drain: float = 60.0
    scale: Fixed | Loads | Target | None = None


@dataclass(frozen=True)
class Scheduled:
    """A replica of a schedule: when it gets GPUs of that speed, begins to drain, and loses its server."""

    service: int
    start: float
    server: int = 0
    speed: float = 1.0
    drains: float = math.inf
    fails: float = math.inf


@dataclass(frozen=True)
class Outage:
    """A server that is down in [start, end)."""

    server: int
    start: float
    end: float


@dataclass(frozen=True)
class Sample:
    """The state of a service after an instant; its arrivals and latencies since the sample before."""

    service: int
    time: float
    arrivals: int
    p50_latency: float | None
    p99_latency: float | None
    queued: int
    running: int
    serving: int
    wanted: int


@dataclass
class Result:
    """answers: one per request. wanted: (time, service, replicas) at each tick and load.

    replicas: in the order of their placement. begun_anew, busy (s): by service. end: of the run, s.
    """

    answers: list[Answer]
    replicas: list[Replica]
    wanted: list[tuple[float, int, int]] = field(default_factory=list)
    begun_anew: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    end: float = 0.0


class UnansweredError(Exception):
    """Nothing but ticks is left, and a service has requests without an answer."""


class World:
    """speeds: of the servers, each of which holds one replica of any service.

    jobs_end: when the last job is done, s. samples: the instants of samples, s.
    """

    def __init__(
        self,
        services: Sequence[Service],
        requests: Sequence[Request],
        schedule: Sequence[Scheduled] = (),
        *,
        speeds: Sequence[float] = (),
        outages: Sequence[Outage] = (),
        jobs_end: float = 0.0,
        samples: Sequence[float] = (),
    ) -> None:
        self.services, self.requests, self.schedule = services, requests, schedule
        self.speeds, self.outages, self.jobs_end = speeds, outages, jobs_end
        self.sample_times = list(samples)
        self.now = -math.inf
        self.replicas: list[Replica] = []
        self.placed: dict[int, Replica] = {}
        """The replicas of the schedule, by their place in it."""
        self.arrived: set[int] = set()
        self.waiting: list[list[int]] = [[] for _ in services]
        """Requests of each service that no replica has: all of a batch service that are not taken."""
        self.result = Result([Answer() for _ in requests], self.replicas)
        self.result.begun_anew = [0] * len(services)
        self.scalers = [None if service.scale is None else Autoscaler(service.scale) for service in services]

    # What there is.

    def of(self, service: int) -> list[Replica]:
        """The replicas of a service that hold GPUs and do not drain, in the order of replicas.parquet."""
        found = [r for r in self.replicas if r.service == service and r.end is None and r.drains_from is None]
        return sorted(found, key=Replica.row)

    def serving(self, service: int) -> list[Replica]:
        return [replica for replica in self.of(service) if replica.serves_from is not None]

    def is_down(self, server: int) -> bool:
        return any(o.server == server and o.start <= self.now < o.end for o in self.outages)

    def unanswered(self, service: int) -> int:
        """Requests that arrived and have no answer."""
        return sum(
            self.requests[row].service == service and self.result.answers[row].finish is None
            for row in self.arrived
        )

    def wanted(self, service: int) -> int:
        scaler = self.scalers[service]
        return 0 if scaler is None else scaler.wanted

    def order(self, rows: Sequence[int]) -> list[int]:
        return sorted(rows, key=lambda row: (self.requests[row].arrival, row))

    # Time.

    def events(self) -> Iterator[float]:
        """When something may happen that is no tick."""
        yield from (r.arrival for row, r in enumerate(self.requests) if row not in self.arrived)
        yield from (time for told in self.schedule for time in (told.start, told.drains, told.fails))
        yield from (time for outage in self.outages for time in (outage.start, outage.end))
        yield self.jobs_end
        for replica in self.replicas:
            if replica.end is None:
                yield replica.start + self.services[replica.service].startup
                yield replica.busy_until
                if replica.drains_from is not None:
                    yield replica.drains_from + self.services[replica.service].drain
        for at, (service, waiting) in enumerate(zip(self.services, self.waiting, strict=True)):
            if isinstance(service.kind, Batch) and waiting and any(r.is_idle() for r in self.serving(at)):
                yield self.requests[self.order(waiting)[0]].arrival + service.kind.max_wait
        yield from (time for scaler in self.scalers if scaler for time in scaler.loads())

    def next(self) -> float:
        """The next instant; infinity if nothing can ever happen."""
        after = min((time for time in self.events() if time > self.now), default=math.inf)
        ticks = min((scaler.next_tick(self.now) for scaler in self.scalers if scaler), default=math.inf)
        if after == math.inf and all(scaler and scaler.is_settled(self.now) for scaler in self.scalers):
            for at in range(len(self.services)):
                if self.unanswered(at):
                    raise UnansweredError(at)
        return min(after, ticks)

    def run(self) -> Result:
        while (then := self.next()) < math.inf:
            self.sample(then)
            self.now = then
            self.complete()
            if self.is_over():
                break
            self.servers()
            self.ticks()
            self.place()
            self.arrive()
            self.begin()
        self.result.end = self.now
        for replica in self.replicas:
            if replica.end is None and self.is_over():
                replica.finish_at(self.now)
        self.sample(math.nextafter(self.now, math.inf))
        return self.result

    def is_over(self) -> bool:
        """A run of a schedule without jobs goes on until nothing happens."""
        if all(scaler is None for scaler in self.scalers):
            return False
        return self.now >= self.jobs_end and all(answer.finish is not None for answer in self.result.answers)

    # The parts of an instant, in order.

    def complete(self) -> None:
        for replica in self.replicas:
            if replica.end is None and replica.busy_until == self.now:
                for row in replica.complete():
                    self.result.answers[row] = replica.answers.pop(row)
        for replica in self.replicas:
            if replica.end is None and replica.drains_from is not None:
                over = self.now >= replica.drains_from + self.services[replica.service].drain
                if over or not replica.assigned():
                    self.end(replica)

    def end(self, replica: Replica) -> None:
        """Ends a replica. What it has is given back."""
        taken, queued = replica.give_back()
        self.result.begun_anew[replica.service] += len(taken)
        self.waiting[replica.service] += [*taken, *queued]
        replica.finish_at(self.now)

    def servers(self) -> None:
        for at, told in enumerate(self.schedule):
            if told.fails == self.now and at in self.placed and self.placed[at].end is None:
                self.end(self.placed[at])
        for replica in self.replicas:
            if self.speeds and replica.end is None and self.is_down(replica.server):
                self.end(replica)

    def ticks(self) -> None:
        for at, told in enumerate(self.schedule):
            if told.drains == self.now and at in self.placed and self.placed[at].end is None:
                self.drain(self.placed[at])
        for at, scaler in enumerate(self.scalers):
            if scaler and scaler.is_due(self.now):
                scaler.tick(self.now, self.unanswered(at))
                self.result.wanted.append((self.now, at, scaler.wanted))
                while len(held := self.of(at)) > scaler.wanted:
                    # The latest start goes first, then the higher row.
                    self.drain(min(reversed(held), key=lambda replica: replica.assigned()))

    def drain(self, replica: Replica) -> None:
        replica.drains_from = self.now
        if self.services[replica.service].drain == 0.0 or not replica.assigned():
            self.end(replica)

    def place(self) -> None:
        for at, told in enumerate(self.schedule):
            if told.start == self.now:
                self.placed[at] = self.new(told.service, told.server, told.speed)
        for at in range(len(self.services)):
            while len(self.of(at)) < self.wanted(at):
                held = {replica.server for replica in self.replicas if replica.end is None}
                idle = [s for s in range(len(self.speeds)) if s not in held and not self.is_down(s)]
                if not idle:
                    break
                self.new(at, idle[0], self.speeds[idle[0]])
        for replica in self.replicas:
            if replica.end is None and replica.drains_from is None and replica.serves_from is None:
                serves = replica.start + self.services[replica.service].startup
                if self.now >= serves:
                    replica.serves_from = serves
        for at, service in enumerate(self.services):
            if isinstance(service.kind, Tokens) and self.serving(at):
                rows, self.waiting[at] = self.order(self.waiting[at]), []
                for row in rows:
                    self.deal(row)

    def new(self, service: int, server: int, speed: float) -> Replica:
        number = sum(replica.service == service for replica in self.replicas)
        kind = self.services[service].kind
        facts = service, number, self.now, server, speed
        replica: Replica
        replica = BatchReplica(kind, *facts) if isinstance(kind, Batch) else TokenReplica(kind, *facts)
        self.replicas.append(replica)
        return replica

    def deal(self, row: int) -> None:
        """Gives a request to the replica with the fewest, or lets it wait."""
        service = self.requests[row].service
        replicas = self.serving(service)
        if isinstance(self.services[service].kind, Batch) or not replicas:
            self.waiting[service].append(row)
        else:
            # The first of several is the one that serves longest.
            min(replicas, key=lambda replica: replica.assigned()).queue.append((row, self.requests[row]))

    def arrive(self) -> None:
        for row, request in enumerate(self.requests):
            if request.arrival == self.now:
                self.arrived.add(row)
                self.deal(row)

    def begin(self) -> None:
        for at, service in enumerate(self.services):
            if isinstance(service.kind, Batch):
                idle = [replica for replica in self.serving(at) if replica.is_idle()]
                while idle and (rows := self.batch(at, service.kind)):
                    idle.pop(0).begin(self.now, [(row, self.requests[row]) for row in rows])
                    self.waiting[at] = [row for row in self.waiting[at] if row not in rows]
        for replica in self.replicas:
            if (
                isinstance(replica, TokenReplica)
                and replica.end is None
                and replica.is_idle()
                and replica.assigned()
            ):
                replica.begin(self.now, [])

    def batch(self, service: int, kind: Batch) -> list[int]:
        """The requests of a batch that begins now, none if none does."""
        queue = self.order(self.waiting[service])
        largest = kind.seconds[-1][0]
        if queue and (len(queue) >= largest or self.now >= self.requests[queue[0]].arrival + kind.max_wait):
            return queue[:largest]
        return []

    # Samples.

    def sample(self, before: float) -> None:
        """Takes the samples before an instant."""
        while self.sample_times and self.sample_times[0] < before:
            time = self.sample_times.pop(0)
            self.result.samples += [self.state(at, time) for at in range(len(self.services))]

    def state(self, service: int, time: float) -> Sample:
        last = max((s.time for s in self.result.samples if s.service == service), default=-math.inf)
        rows = [row for row in self.arrived if self.requests[row].service == service]
        ends = [(self.result.answers[row].finish, self.requests[row].arrival) for row in rows]
        latencies = sorted(end - came for end, came in ends if end is not None and last < end <= time)
        running = sum(len(r.taken()) for r in self.replicas if r.service == service and r.end is None)
        return Sample(
            service,
            time,
            sum(last < self.requests[row].arrival <= time for row in rows),
            percentile(latencies, 0.5),
            percentile(latencies, 0.99),
            self.unanswered(service) - running,
            running,
            len(self.serving(service)),
            0 if self.is_over() else self.wanted(service),
        )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Linear between the two nearest of values in order."""
    if not values:
        return None
    place = share * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)
