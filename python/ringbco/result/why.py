"""One job's story as data: facts, its sentences made of them, and a lane (docs/why.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ringbco.deprecation import renamed
from ringbco.result.why_words import sentence


@dataclass(frozen=True)
class Fact:
    """Something that the record says. time: when, s; None where it is of no instant.

    figures: what is known of it, by the names that JSON has. submitted: when the job was, from when on its
    sentence counts times; None where unknown. stay: of the job's, from 0: with the wait before it; None
    where it is about none. zero: what 0 of the clock is; None where unknown. called: what each
    server is called, by index, whose figures have that; empty where none has a name.
    """

    kind: str
    time: float | None
    figures: Mapping[str, Any]
    submitted: float | None
    stay: int | None = None
    zero: datetime | None = None
    called: Sequence[str] = ()

    told = renamed("told", "figures")

    @property
    def sentence(self) -> str:
        """The same in words."""
        return sentence(self.kind, self.time, self.figures, self.submitted, self.zero, called=self.called)


@dataclass(frozen=True)
class Interval:
    """A part of a job's life. what: waiting, resting (at a rung), pausing (on its GPUs) or running.

    gpus, servers: what it held; 0 and none while it waited. ended: why a running part was over.
    """

    start: float
    end: float
    what: str
    gpus: float = 0
    servers: tuple[int, ...] = ()
    ended: str | None = None


@dataclass(frozen=True)
class Story:
    """What happened to a job, and why. Times in seconds on the job table's clock.

    epoch: what 0 of that clock is, ISO 8601; None where unknown. queue: the discipline, of a policy with
    a queue. submitted, finished: None where unknown, or it never was. facts: in order of time. lane: its
    life, in parts that follow each other.
    """

    job: str
    policy: str
    queue: str | None
    cluster: str
    submitted: float | None
    finished: float | None
    facts: tuple[Fact, ...]
    lane: tuple[Interval, ...]
    epoch: str | None = None

    @property
    def sentences(self) -> list[str]:
        """The story in words, a sentence or two a fact."""
        return [fact.sentence for fact in self.facts]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values: what `ringbco why --json` prints."""
        return {
            "job": self.job,
            "policy": self.policy,
            "queue": self.queue,
            "cluster": self.cluster,
            "epoch": self.epoch,
            "submitted": self.submitted,
            "finished": self.finished,
            "story": [
                {
                    "fact": fact.kind,
                    "stay": fact.stay,
                    "time": fact.time,
                    "sentence": fact.sentence,
                    **fact.figures,
                }
                for fact in self.facts
            ],
            "lane": [{**part.__dict__, "servers": list(part.servers)} for part in self.lane],
        }

    as_dict = renamed("as_dict", "to_dict")
