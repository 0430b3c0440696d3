"""The reference model of a replica: batches, and steps of tokens. Nothing here imports ringbco."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """arrival: s. The others: tokens."""

    service: int
    arrival: float
    input: int = 0
    output: int = 0
    cached: int = 0


@dataclass
class Answer:
    """The attempt that answered; None where no replica did. first_token: None of a batch."""

    replica: int | None = None
    start: float | None = None
    first_token: float | None = None
    finish: float | None = None


Row = tuple[int, Request]
"""A request and its row."""


@dataclass(frozen=True)
class Batch:
    """seconds: (size of a batch, s). max_wait: s."""

    seconds: Sequence[tuple[int, float]]
    max_wait: float = 0.0

    def time(self, size: int) -> float:
        """How long a batch takes at speed 1, s."""
        below = [(n, s) for n, s in self.seconds if n <= size]
        above = [(n, s) for n, s in self.seconds if n >= size]
        if not below or below[-1][0] == size:
            return (below or above)[-1 if below else 0][1]
        (a, s_a), (b, s_b) = below[-1], above[0]
        return s_a + (s_b - s_a) * (size - a) / (b - a)


@dataclass(frozen=True)
class Tokens:
    """step: s. prefill, decode, context: s per token, request and token held. The others: limits."""

    step: float
    prefill: float
    decode: float
    max_running: int
    kv_tokens: int
    context: float = 0.0
    max_step_tokens: int | None = None


class Replica(ABC):
    """speed: of its GPU type, divided by that of the first type. busy: how long it worked, s."""

    def __init__(self, service: int, number: int, start: float, server: int, speed: float) -> None:
        self.service, self.number, self.start, self.server, self.speed = service, number, start, server, speed
        self.serves_from: float | None = None
        self.drains_from: float | None = None
        self.end: float | None = None
        self.busy = 0.0
        self.busy_until = math.inf
        self.began = 0.0
        self.queue: list[Row] = []
        self.answers: dict[int, Answer] = {}
        """Of the requests that it has taken."""

    def row(self) -> tuple[float, int, int]:
        """Its place among the replicas of its service. One that starts earlier serves no later."""
        return self.start, self.server, self.number

    def is_idle(self) -> bool:
        """Whether no step and no batch is under way."""
        return self.busy_until == math.inf

    def taken(self) -> list[int]:
        return list(self.answers)

    def assigned(self) -> int:
        return len(self.answers) + len(self.queue)

    def give_back(self) -> tuple[list[int], list[int]]:
        """What it has: the rows that it has taken, and those that it has not."""
        taken, queued = self.taken(), [row for row, _ in self.queue]
        self.answers, self.queue = {}, []
        return taken, queued

    def finish_at(self, now: float) -> None:
        if not self.is_idle():
            self.busy += now - self.began
        self.end, self.busy_until = now, math.inf

    def take(self, row: int, now: float) -> None:
        self.answers[row] = Answer(self.number, now)

    @abstractmethod
    def begin(self, now: float, rows: Sequence[Row]) -> None:
        """A step or a batch, with what waits."""

    @abstractmethod
    def complete(self) -> list[int]:
        """What is done where a step or a batch ends. Returns the rows answered."""


class BatchReplica(Replica):
    def __init__(
        self, kind: Batch, service: int, number: int, start: float, server: int, speed: float
    ) -> None:
        super().__init__(service, number, start, server, speed)
        self.kind = kind

    def begin(self, now: float, rows: Sequence[Row]) -> None:
        for row, _ in rows:
            self.take(row, now)
        self.began, self.busy_until = now, now + self.kind.time(len(rows)) / self.speed

    def complete(self) -> list[int]:
        self.busy += self.busy_until - self.began
        for answer in self.answers.values():
            answer.finish = self.busy_until
        self.busy_until = math.inf
        return self.taken()


class TokenReplica(Replica):
    def __init__(
        self, kind: Tokens, service: int, number: int, start: float, server: int, speed: float
    ) -> None:
        super().__init__(service, number, start, server, speed)
        self.kind = kind
        seconds = kind.step, kind.prefill, kind.decode, kind.context
        self.step, self.prefill, self.decode, self.context = (round(s / speed * 1e12) for s in seconds)
        """In picoseconds."""
        self.held: dict[int, Request] = {}
        """The requests taken, which hold what they reserved."""
        self.left: dict[int, int] = {}
        """Input tokens that are still to be taken, by row: of one request at most there are some."""
        self.tokens: dict[int, int] = {}
        """Output tokens, by row, of the requests whose prompt is complete."""
        self.spell: float | None = None
        self.total = 0
        """Picoseconds of all steps of the spell."""

    def fits(self, request: Request) -> bool:
        reserved = sum(held.input + held.output for held in self.held.values())
        is_room = reserved + request.input + request.output <= self.kind.kv_tokens
        return is_room and len(self.held) < self.kind.max_running

    def begin(self, now: float, rows: Sequence[Row]) -> None:
        if self.spell is None:
            self.spell, self.total = now, 0
        limit = self.kind.max_step_tokens
        free = math.inf if limit is None else max(0, limit - len(self.tokens))
        new = 0

        def prompt(row: int) -> None:
            nonlocal free, new
            part = int(min(free, self.left[row]))
            self.left[row] -= part
            free, new = free - part, new + part
            if self.left[row] == 0:
                del self.left[row]
                self.tokens[row] = 0

        for row in list(self.left):
            prompt(row)
        while self.queue and not self.left and free >= 1 and self.fits(self.queue[0][1]):
            row, request = self.queue.pop(0)
            self.take(row, now)
            self.held[row], self.left[row] = request, request.input - request.cached
            prompt(row)
        held = sum(self.held[row].input + tokens for row, tokens in self.tokens.items())
        self.total += self.step + self.prefill * new + self.decode * len(self.tokens) + self.context * held
        self.began, self.busy_until = now, self.spell + float(self.total) / 1e12

    def complete(self) -> list[int]:
        now = self.busy_until
        self.busy, self.busy_until = self.busy + (now - self.began), math.inf
        done = []
        for row in list(self.tokens):
            self.tokens[row] += 1
            if self.tokens[row] == 1:
                self.answers[row].first_token = now
            if self.tokens[row] == self.held[row].output:
                self.answers[row].finish = now
                done.append(row)
                del self.tokens[row], self.held[row]
        if not self.held and not self.queue:
            self.spell = None
        return done
