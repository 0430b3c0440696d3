"""The tests' form of the checker: all that follows from a book, from the pages of docs/ alone.

Plain Python and `math.fsum`; of ringbco it takes nothing but `io` and `errors`. It believes a run's inputs
and its book: when each stay began and ended, where, and why. From them it integrates contention and work,
and adds up every column and every figure.
"""

from __future__ import annotations

from functools import cache

from judge import clock, contention, stays
from judge.given import Book, Given, Judgement
from judge.idle import Room
from judge.speed import Speeds
from judge.work import Worker
from physics import columns, searches, services, timeline
from physics.figures import Summary
from physics.span import Span

__all__ = ["Book", "Given", "Judgement", "judge"]


def judge(given: Given, book: Book) -> Judgement:
    """Every column, every figure, and how far each job's work is off at its end.

    It writes what it finds into the stays of the book, so a book is judged once: stays by job and time, on
    GPUs that there are.
    """
    speeds = Speeds(given)
    down = clock.seen(given.outages or (), given.slot)
    stays.chain(given, book)
    slept = stays.spells(given, book, down)
    stays.pause(given, book.stays, slept)
    spanning = contention.contend(book.stays)
    if speeds.meets and given.jobs.share is not None:
        contention.crowd(book.stays, given.jobs.share)
    off = Worker(given, speeds).integrate(book.stays)
    room = Room(given, speeds)
    room.waits(book, down)

    span = Span.of(given, book, down, slept)
    done = columns.records(given, book.stays)
    tables = {
        "jobs": columns.jobs_table(given, speeds, done),
        "stays": columns.stays_table(given, book.stays),
        "allocations": columns.allocations_table(given, book.stays),
        "timeline": timeline.timeline_table(span, spanning),
    }
    if given.outages is not None or given.sleep_after < float("inf"):
        tables["servers"] = timeline.servers_table(span)
    if given.services is not None:
        tables["replicas"] = services.replicas_table(
            span, list(dict.fromkeys(row.service for row in given.services))
        )
    lost = cache(lambda job: not room.placeable(job))
    found = None
    if given.searched:
        judged = searches.Searches(given, book, lost)
        tables["rungs"], found = judged.rungs_table(), judged.table()
        tables["searches"] = found
    summary = Summary(span, done, lost).of(spanning, found)
    return Judgement(tables, summary, off)
