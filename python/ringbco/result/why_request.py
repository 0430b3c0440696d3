"""One request's story put together from requests.parquet and replicas.parquet (docs/why.md#a-request)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from ringbco.result.dates import zero_of
from ringbco.result.why import Fact, Interval, Story
from ringbco.trace.serving import BatchKind, TokenKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome
    from ringbco.trace.serving import ServiceKeys

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RequestStory(Story):
    """What happened to a request, and why. request: its row of the file, from 0. service: its service.

    job is empty; submitted is its arrival.
    """

    request: int = 0
    service: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values: what `ringbco why --request --json` prints."""
        told = super().to_dict()
        del told["job"]
        return {"request": self.request, "service": self.service, **told}


class Attempt(NamedTuple):
    """A time for which a replica had taken the request, s, and gave it back as it ended."""

    start: float
    end: float


@dataclass(frozen=True)
class Asked:
    """Requests of one service, a value each, in the order of (arrival, row); times in s.

    rows: of the file. need: input and output tokens. first: NaN for a batch. cached: input tokens.
    """

    rows: Ints
    arrival: Floats
    taken: Ints
    given: Ints
    cached: Ints
    replica: Ints
    start: Floats
    first: Floats
    finish: Floats

    @property
    def need(self) -> Ints:
        """Tokens that each holds of kv_tokens."""
        return self.taken + self.given


@dataclass(frozen=True)
class Serving:
    """The replicas of one service, and what it wanted: (s, replicas)."""

    number: Ints
    server: Ints
    start: Floats
    serves: Floats
    drains: Floats
    end: Floats
    ended: pl.Series
    wanted: Sequence[tuple[float, int]]

    @classmethod
    def of(cls, outcome: Outcome, service: str) -> Serving:
        """Those of a result."""
        assert outcome.replicas is not None
        own = outcome.replicas.filter(pl.col("service") == service)

        def floats(name: str) -> Floats:
            return own[name].cast(pl.Float64).fill_null(math.nan).to_numpy()

        number, server = (own[name].to_numpy().astype(np.int64) for name in ("replica", "server"))
        start, serves, drains, end = map(floats, ("start_time", "serves_from", "drains_from", "end_time"))
        wanted: list[tuple[float, int]] = []
        if outcome.services is not None:
            rows = outcome.services.filter(pl.col("service") == service).sort("time")
            wanted = rows.select("time", "replicas").rows()
        return cls(number, server, start, serves, drains, end, own["ended"], wanted)

    @property
    def leaves(self) -> Floats:
        """From when on each takes no new request."""
        return np.fmin(self.drains, self.end)

    def at(self, number: int) -> int:
        """The place of a replica."""
        return int(np.flatnonzero(self.number == number)[0])

    def serve(self, time: float) -> float:
        """The first instant from `time` on at which a replica takes requests; infinite if there is none."""
        if ((self.serves <= time) & (time < self.leaves)).any():
            return time
        later = self.serves[(self.serves > time) & (self.serves < self.leaves)]
        return float(later.min()) if later.size else math.inf

    def wants(self, time: float) -> int:
        """How many replicas the service wants at an instant."""
        return next((count for since, count in reversed(self.wanted) if since <= time), 0)


class Teller:
    """The story of the request at a place of `asked`."""

    def __init__(self, outcome: Outcome, keys: ServiceKeys, asked: Asked, place: int) -> None:
        self.outcome, self.keys, self.asked, self.place = outcome, keys, asked, place
        self.serving = Serving.of(outcome, keys.name)
        self.arrival = float(asked.arrival[place])
        self.replica = int(asked.replica[place])
        self.start, self.first, self.finish = (
            float(column[place]) for column in (asked.start, asked.first, asked.finish)
        )
        self.zero = zero_of(outcome)
        self.facts: list[Fact] = []
        self.lane: list[Interval] = []
        self.waits: dict[str, float] = {}

    def say(self, kind: str, time: float, **told: Any) -> None:
        """Adds a fact."""
        told |= {"service": self.keys.name, "after": time - self.arrival}
        self.facts.append(Fact(kind, time, told, self.arrival, zero=self.zero))

    def story(self, attempts: Sequence[Attempt], why_not: str | None) -> RequestStory:
        """All of it.

        attempts: those that were cut short, in order. why_not: why nothing tells them, if it does not.
        """
        asked, at, run = self.asked, self.place, self.outcome.run
        told: dict[str, Any] = {}
        if isinstance(self.keys.kind, TokenKind):
            names = ("input_tokens", "output_tokens", "cached_tokens")
            columns = (asked.taken, asked.given, asked.cached)
            told = {name: int(column[at]) for name, column in zip(names, columns, strict=True)}
        before = np.arange(asked.rows.size) < at
        there = before & (asked.finish > self.arrival)
        running = int((there & (asked.start < self.arrival)).sum())
        told |= {"unanswered": int(there.sum()), "running": running}
        self.say("request", self.arrival, **told)
        since = self.arrival
        for attempt in attempts:
            since = self._began_anew(since, attempt)
        if why_not is not None:
            self.say("request unknown", since, why_not=why_not)
        self._waited(since, self.start, self.replica)
        self._answered()
        run_options, cluster = run.get("options", {}), run.get("cluster", {})
        epoch = None if self.zero is None else self.zero.isoformat()
        return RequestStory(
            job="",
            policy=str(run_options.get("policy")),
            queue=None,
            cluster=str(cluster.get("name", "?")),
            submitted=self.arrival,
            finished=self.finish,
            facts=tuple(self.facts),
            lane=tuple(self.lane),
            epoch=epoch,
            request=int(asked.rows[at]),
            service=self.keys.name,
        )

    def _add(self, start: float, end: float, what: str, ended: str | None = None, number: int = -1) -> None:
        if end > start:
            own = (int(self.serving.server[self.serving.at(number)]),) if number >= 0 else ()
            self.lane.append(Interval(start, end, what, self.keys.gpus if own else 0, own, ended))

    def _began_anew(self, since: float, attempt: Attempt) -> float:
        """A replica took the request, and ended before it had answered. Returns when."""
        serving = self.serving
        start, end = attempt
        may = np.flatnonzero((serving.end == end) & (serving.serves <= start))
        numbers = serving.number[may].tolist()
        one = numbers[0] if len(numbers) == 1 else None
        self._waited(since, start, one)
        failed = any(serving.ended[int(each)] == "failed" for each in may)
        told = {"replicas": numbers, "seconds": end - start, "failed": failed, "drain": self.keys.drain}
        told["servers"] = sorted({int(serving.server[each]) for each in may})
        self.say("request anew", end, **told)
        self._add(start, end, "answering", "failed" if failed else "drained", -1 if one is None else one)
        return end

    def _waited(self, since: float, until: float, number: int | None) -> None:
        """Why it was not taken between two instants. number: of the replica that took it, if known."""
        self._add(since, until, "waiting")
        serving = self.serving
        served = min(serving.serve(since), until)
        if served > since:
            self._none_served(since, served)
        if isinstance(self.keys.kind, BatchKind):
            self._waited_for_batch(served, until)
            if number is not None and until == self.start:
                self._batch(number)
            return
        if number is None:  # several replicas ended together, of which one had taken it
            self._count("turn", until - served)
            if until > served:
                self.say("request queued", until, seconds=until - served)
            return
        own = serving.at(number)
        gave = self._may_have_had(served, until)
        late = serving.serves[own] > served or self._overtaken(number, until)
        if late:
            # A request goes at once to a replica that serves: it came to this one as another ended.
            moved = float(serving.end[gave].max(initial=served))
            moved = max(moved, float(serving.serves[own]))
            told = {"replicas": serving.number[gave].tolist(), "seconds": moved - served, "number": number}
            self.say("request moved", moved, **told)
            self._count("turn", moved - served)
            served, gave = moved, gave[:0]
        self._waited_on(served, until, number, self.keys.kind, serving.number[gave].tolist())

    def _may_have_had(self, since: float, until: float) -> Ints:
        """Replicas that took requests at an instant, and gave some back by another."""
        serving, failed = self.serving, (self.serving.ended == "failed").to_numpy()
        gives = failed | (serving.end >= serving.drains + self.keys.drain)
        took = (serving.serves <= since) & (since < serving.leaves)
        return np.flatnonzero(gives & took & (serving.end <= until))

    def _overtaken(self, number: int, until: float) -> bool:
        """Whether the replica took a later request first: none overtakes in its queue."""
        asked = self.asked
        later = np.arange(asked.rows.size) > self.place
        return bool((later & (asked.replica == number) & (asked.start < until)).any())

    def _count(self, what: str, seconds: float) -> None:
        if seconds > 0:
            self.waits[what] = self.waits.get(what, 0.0) + seconds

    def _none_served(self, since: float, served: float) -> None:
        """No replica took requests."""
        serving = self.serving
        self._count("replica", served - since)
        first = np.flatnonzero(serving.serves == served)
        told: dict[str, Any] = {"seconds": served - since, "wanted": serving.wants(since)}
        if first.size:
            own = int(first[0])
            told |= {"number": int(serving.number[own]), "startup": self.keys.startup}
            told |= {"without": max(0.0, float(serving.start[own]) - since)}
        self.say("request none served", served, **told)

    def _waited_on(self, since: float, until: float, number: int, keys: TokenKind, others: list[int]) -> None:
        """On a replica of tokens, for places of its steps. others: replicas that may have had it first."""
        if until <= since:
            return
        asked, mine = self.asked, self.asked.replica == number
        start, finish, need = asked.start[mine], asked.finish[mine], asked.need[mine]
        order = np.argsort(start, kind="stable")
        begun, head = start[order], need[order]
        done = np.argsort(finish, kind="stable")
        times = np.concatenate([[since], start, finish])
        times = np.unique(times[(times >= since) & (times < until)])
        lengths = np.diff(np.append(times, until))
        taken, over = (np.searchsorted(each, times, "right") for each in (begun, finish[done]))
        tokens = np.append(0, np.cumsum(head))[taken] - np.append(0, np.cumsum(need[done]))[over]
        following = head[np.minimum(taken, head.size - 1)]
        full = taken - over >= keys.max_running
        no_room = ~full & (tokens + following > keys.kv_tokens)
        parts = {
            "max_running": float(lengths[full].sum()),
            "kv_tokens": float(lengths[no_room].sum()),
            "step": float(lengths[~full & ~no_room].sum()),
        }
        for name, seconds in parts.items():
            self._count(name, seconds)
        ahead = int(((start >= since) & (start < until)).sum())
        told = {"number": number, "seconds": until - since, "ahead": ahead, "parts": parts}
        told |= {"max_running": keys.max_running, "kv_tokens": keys.kv_tokens}
        told |= {"max_step_tokens": keys.max_step_tokens, "others": others}
        self.say("request queued", until, **told)

    def _waited_for_batch(self, since: float, until: float) -> None:
        """In the queue of a service that answers in batches: for its turn, or for others to fill a batch."""
        if until <= since:
            return
        asked, serving = self.asked, self.serving
        batches = np.unique(np.stack([asked.replica, asked.start, asked.finish]), axis=1)
        leaves = dict(zip(serving.number.tolist(), serving.leaves.tolist(), strict=True))
        ends = np.minimum(batches[2], [leaves[int(number)] for number in batches[0]])
        served = ~np.isnan(serving.serves)
        times = np.concatenate([[since], batches[1], ends, serving.serves[served], serving.leaves[served]])
        times = np.unique(times[(times >= since) & (times < until)])
        lengths = np.diff(np.append(times, until))

        def on(begin: Floats, end: Floats) -> Ints:
            counts = np.searchsorted(np.sort(begin), times, "right")
            return counts - np.searchsorted(np.sort(end), times, "right")

        busy = on(batches[1], ends) >= on(serving.serves[served], serving.leaves[served])
        turn = float(lengths[busy].sum())
        self._count("turn", turn)
        self._count("batch", until - since - turn)
        before = np.arange(asked.rows.size) < self.place
        ahead = int((before & (asked.start > since) & (asked.start < until)).sum())
        told = {"seconds": until - since, "turn": turn, "batch": until - since - turn, "ahead": ahead}
        self.say("request in line", until, **told)

    def _batch(self, number: int) -> None:
        """How its batch began."""
        asked, keys = self.asked, self.keys.kind
        assert isinstance(keys, BatchKind)
        own = (asked.replica == number) & (asked.start == self.start)
        oldest = self.start - float(asked.arrival[own].min())
        told = {"number": number, "size": int(own.sum()), "largest": keys.largest, "oldest": oldest}
        self.say("request batch", self.start, **told, max_wait=keys.max_wait)

    def _answered(self) -> None:
        asked, at, keys = self.asked, self.place, self.keys
        number, given = self.replica, int(asked.given[at])
        measured = {"latency": self.finish - self.arrival}
        if isinstance(keys.kind, TokenKind):
            measured["first_token"] = self.first - self.arrival
            self._add(self.start, self.first, "prompt", None, number)
            self._add(self.first, self.finish, "answering", None, number)
            told: dict[str, Any] = {"number": number, "prompt": self.first - self.start}
            told |= {"tokens": given - 1, "seconds": self.finish - self.first}
            if given > 1:
                measured["per_token"] = told["per_token"] = (self.finish - self.first) / (given - 1)
                told["beside"] = self._beside(number)
            self.say("request tokens", self.first, **told)
        else:
            self._add(self.start, self.finish, "answering", None, number)
        slo = {} if keys.slo is None else keys.slo.given()
        kept = {name: [measured[name], most] for name, most in slo.items() if name in measured}
        told = {"latency": measured["latency"], "waits": dict(self.waits), "kept": kept}
        self.say("request answered", self.finish, **told, ran=self.finish - self.start)

    def _beside(self, number: int) -> float:
        """How many other requests its replica had on average while it had its tokens."""
        asked = self.asked
        mine = asked.replica == number
        both = np.minimum(asked.finish[mine], self.finish) - np.maximum(asked.start[mine], self.first)
        return float(np.maximum(both, 0.0).sum()) / (self.finish - self.first) - 1.0
