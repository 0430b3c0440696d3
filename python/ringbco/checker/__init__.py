"""The checker: all that follows from a result's stays, worked out again from the pages of docs/ alone.

Columns of numpy; of ringbco it takes nothing but `io` and `errors`. It believes a run's inputs and its book:
when each stay began and ended, where, and why. From them it integrates contention and work, and adds up every
column and every figure. It knows no policy.
"""

from __future__ import annotations

import numpy as np

from ringbco.checker import clock, columns, contention, searches, services, stays, timeline
from ringbco.checker.figures import Summary
from ringbco.checker.given import Book, Given, Judgement
from ringbco.checker.idle import Room
from ringbco.checker.run_interval import RunInterval
from ringbco.checker.speed import Speeds
from ringbco.checker.work import Worker

__all__ = ["Book", "Given", "Judgement", "check"]


def check(given: Given, book: Book) -> Judgement:
    """Every column, every figure, and how far each job's work is off at its end.

    It writes what it finds into the stays of the book: stays by job and time, on GPUs that there are.
    """
    speeds = Speeds(given)
    down = clock.seen(given.outages or (), given.slot)
    marks = stays.chain(given, book)
    slept = stays.sleep_intervals(given, book, down)
    stays.pause(given, book.stays, slept)
    spanning, parts = contention.contend(book.stays)
    if speeds.meets and given.jobs.share is not None:
        parts += contention.crowd(book.stays, given.jobs.share)
    ended, off = Worker(given, speeds, book.stays, contention.parts_of(parts)).integrate(marks, book.rungs)
    room = Room(given, speeds)
    room.waits(book, down)

    interval = RunInterval.of(given, book, down, slept)
    done = columns.Records(given, book.stays)
    tables = {
        "jobs": columns.jobs_table(given, speeds, done),
        "stays": columns.stays_table(given, book.stays),
        "allocations": columns.allocations_table(given, book.stays),
        "timeline": timeline.timeline_table(interval, spanning),
    }
    if given.outages is not None or given.sleep_after < np.inf:
        tables["servers"] = timeline.servers_table(interval)
    if given.services is not None:
        tables["replicas"] = services.replicas_table(interval)
    missing = np.ones(len(given.jobs), np.bool_)
    missing[book.stays.job] = False
    placeable = room.placeable if missing.any() or given.searched else ~missing
    found = None
    if given.searched:
        seen = searches.Searches(given, book, placeable)
        tables["rungs"], found = seen.rungs_table(), seen.table()
        tables["searches"] = found
    return Judgement(tables, Summary(interval, done, placeable).of(spanning, found), ended, off)
