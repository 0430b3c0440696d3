"""What a story needs to know of the engine, and what the engine said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ringbco import _core
from ringbco.result.why_record import QUEUES, Record
from ringbco.trace.quotas import BOOKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

FULL: Final = 50
"""Stays that are told in full; of a job with more, the last two and so many less two of the first."""
_IS: Final = {each["name"]: each["is_"] for each in _core.policies()}
_ORDERS: Final = {
    "srtf": "the ranking by least remaining run time",
    "srsf": "the ranking by least remaining run time x num_gpus",
    "edf": "the ranking by deadline",
    "tiresias": "the ranking by attained service",
    "gittins": "the ranking by Gittins index",
    "lucid": "the ranking by estimated duration x num_gpus",
    "ftf": "the ranking by finish-time fairness",
    "time-slice": "the order of turns",
}
"""By what the rankings go."""


class Wait(NamedTuple):
    """A wait of a job: from when until when, s, and whether it is told who was at the head of the queue."""

    since: float
    start: float
    heads: bool


class Said(NamedTuple):
    """How a job stood as its wait began, and just before it was over. heads: (row, s) of the queue."""

    begun: _core._Answer
    over: _core._Answer
    heads: list[tuple[int, float]]


@dataclass(frozen=True)
class Asked:
    """What the engine said of the waits of a job, by stay. why_not: why it could not be asked.

    kept: whether anything could hold the job; None where unknown.
    """

    said: Mapping[int, Said] = field(default_factory=dict)
    kept: bool | None = None
    why_not: str | None = None

    @property
    def types(self) -> list[int] | None:
        """The GPU types that the job may use, where that is known."""
        return next((said.begun["types"] for said in self.said.values()), None)


def skipped(stays: int) -> range:
    """The stays, of so many, that are not told."""
    return range(FULL - 2, stays - 2) if stays > FULL else range(0)


def waits_of(record: Record, own: NDArray[np.int64]) -> dict[int, Wait]:
    """The waits of a job that a story tells of, by stay. own: the places of its stays among all."""
    since, start = record.since[own].tolist(), record.start[own].tolist()
    heads = is_queue(record) and str(record.options.get("queue")) != "skip"
    # Under fair share the head is another at every pass, and a quota that may not be exceeded passes it over.
    heads &= record.options.get("order") != "fairshare" and not passes_over(record)
    waits = {at: Wait(*wait, heads) for at, wait in enumerate(zip(since, start, strict=True))}
    return {at: wait for at, wait in waits.items() if wait.start > wait.since and at not in skipped(own.size)}


def passes_over(record: Record) -> bool:
    """Whether a job over quota is passed over, so that the first of the queue keeps no job waiting."""
    books = [getattr(record.outcome, name) for name in BOOKS]
    return any(book is not None and not book["borrow"].all() for book in books)


def is_queue(record: Record) -> bool:
    """Whether jobs wait in a queue with a discipline."""
    return record.policy in QUEUES or record.run.get("own_policy", {}).get("kind") == "KeyPolicy"


def ranks(record: Record) -> bool:
    """Whether a ranking decides whenever something happens."""
    traits = _IS.get(record.policy, ())
    return "ranks" in traits and "at intervals" not in traits and record.options.get("interval") is None


def order_of(record: Record) -> str:
    """By what the jobs of a line are ranked, as a sentence tells it."""
    named = str(record.options["order"]) if record.policy in QUEUES else record.policy
    return _ORDERS.get(record.policy, f"the order of {named}")
