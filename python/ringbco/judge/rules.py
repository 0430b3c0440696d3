"""The rules of policies, cluster by cluster (docs/policies.md, placements.md, priorities.md)."""

from __future__ import annotations

from collections.abc import Iterator

from ringbco.judge import clock
from ringbco.judge.deciding import Deciding
from ringbco.judge.floor import Floor
from ringbco.judge.given import Book, Given, Stay
from ringbco.judge.idle import Room
from ringbco.judge.queue import Queue
from ringbco.judge.ranked import RANKED, Ranking
from ringbco.judge.speed import Speeds
from ringbco.judge.turns import Fault, Turns
from ringbco.judge.work import Worker

ORDERS = ("fifo", "sjf", "smallest", "qssf")


def faults(given: Given, book: Book) -> Iterator[Fault]:
    """What the policy of a run would have decided otherwise. The book has been judged."""
    speeds = Speeds(given)
    room, worker = Room(given, speeds), Worker(given, speeds)
    down = clock.seen(given.outages or (), given.slot)
    own: dict[int, list[Stay]] = {}
    for stay in book.stays:
        own.setdefault(given.jobs.in_vc(stay.job), []).append(stay)
    for vc, stays in sorted(own.items()):
        floor = Floor(given, speeds, room, vc, sorted({stay.job for stay in stays}))
        yield from Turns(book, down, policy_of(given, floor, worker, stays), stays).faults()


def policy_of(given: Given, floor: Floor, worker: Worker, stays: list[Stay]) -> Deciding:
    """Who decides."""
    known = given.options["order"] in ORDERS or given.jobs.column is not None
    if not given.preempts and known:
        return Queue(given, floor, worker, stays)
    if given.options["policy"] in RANKED:
        return Ranking(given, floor, worker, stays)
    return Deciding(given, floor, worker)
