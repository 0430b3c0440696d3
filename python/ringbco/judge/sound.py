"""Whether a book can be read at all: what is no book is refused, so that all else may rely on it."""

from __future__ import annotations

import math

from ringbco.errors import InputError
from ringbco.judge.columns import OVER
from ringbco.judge.given import Book, Given, Stay


def check(given: Given, book: Book) -> None:
    """Raises InputError for the first thing in a book that cannot be: no GPUs, unknown servers, odd times."""
    row, since, done = 0, float("-inf"), False
    jobs, servers, shared = len(given.jobs.id), len(given.cluster.gpus), given.jobs.share is not None
    for stay in book.stays:
        if stay.job > row:
            row, since = stay.job, float("-inf")
        if not row <= stay.job < jobs or not since <= stay.start <= stay.end < math.inf:
            raise _no_book(given, stay, "stays in order of job and time, at finite times")
        held = stay.held
        if shared or len(held) != 1 or held[0][1] < 1 or not 0 <= held[0][0] < servers:
            _check_held(given, stay)
        since, done = stay.end, done or stay.ended in OVER
    if not done:
        raise InputError("a book of a run in which some job was done")
    services = {load.service for load in given.services or ()}
    for replica in book.replicas:
        known = replica.service in services and 0 <= replica.server < len(given.cluster.gpus)
        if (
            not known
            or replica.gpus < 1
            or not math.isfinite(replica.start)
            or not replica.start < replica.end
        ):
            raise InputError(
                "a replica of one of the services, on a server that there is", value=tuple(replica)
            )
    for rung in book.rungs:
        if not given.searched or not 0 <= rung.job < len(given.jobs.id) or not math.isfinite(rung.time):
            raise InputError("a rung of a trial, at a finite time", value=tuple(rung))


def _check_held(given: Given, stay: Stay) -> None:
    """Of a stay: GPUs of servers that there are, each server once."""
    servers = len(given.cluster.gpus)
    for server, gpus in stay.held:
        if gpus < 1 or not 0 <= server < servers:
            raise _no_book(given, stay, "GPUs of servers that there are")
    if not stay.held or (len(stay.held) > 1 and len({server for server, _ in stay.held}) < len(stay.held)):
        raise _no_book(given, stay, "some GPUs, and each server once")
    if given.jobs.share is None:
        return
    if len(stay.places) != stay.gpus or any(gpu >= given.cluster.gpus[server] for server, gpu in stay.places):
        raise _no_book(given, stay, "GPUs that there are")


def _no_book(given: Given, stay: Stay, what: str) -> InputError:
    known = 0 <= stay.job < len(given.jobs.id)
    name = given.jobs.id[stay.job] if known else stay.job
    return InputError(what, value=f"stay of job {name} from {stay.start!r} to {stay.end!r} s")
