"""What follows from a result's book beside what the result says: tables, figures, work, ends."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ringbco.audits.difference import CODES, RUNS, WAITS, Differences, blame
from ringbco.audits.ends import Ends, check_ends
from ringbco.audits.figures import check_summary
from ringbco.audits.findings import Finding, number
from ringbco.audits.given import book_of
from ringbco.checker import check
from ringbco.checker.given import DROPPED
from ringbco.checker.stays import may_pause
from ringbco.errors import InputError
from ringbco.result.validation import check_book

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringbco.audits.facts import Facts
    from ringbco.audits.findings import Check
    from ringbco.checker import Book, Given
    from ringbco.checker.given import Ints

RELATIVE: Final = 1e-9
"""How far work may be from what was to do, relative to that."""
BOOK: Final = ("jobs", "rows", "stretches", "gangs", "servers", "types", "services")
"""Where one of these fails there is no book to check."""
JUDGED: Final = (
    *("inputs", "arithmetic", "stays", "evictions", "num-servers", "contention", "run-times", "searches"),
    *("held", "causes", "summary", "timeline"),
)
Checks = dict[str, "Check"]


def check_all(checks: Checks, facts: Facts) -> None:
    """Checks the book of a result, and counts every difference from it."""
    outcome, given = facts.outcome, facts.given
    _leave_out(checks, facts, given)
    broken = [code for code in BOOK if checks[code].failed]
    if broken:
        _not_run(checks, f"{', '.join(broken)} failed")
        return
    try:
        check_book(outcome, given.jobs.id)
        book = book_of(outcome, given)
        found = check(given, book)
    except InputError as error:
        _no_book(checks, str(error))
        return
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Of a genuine result something follows. What else a damaged one holds is of any kind.
        _no_book(checks, f"{type(error).__name__}: {error}")
        return
    recorded = outcome.allocations is not None
    differences = Differences(outcome, given, found, recorded=recorded)
    for difference in differences.all():
        frame = differences.frame(difference.table)
        own = checks[difference.code]
        if own.not_run is not None:  # nothing of its kind is in this run: its column holds zeros
            own = checks[CODES[difference.table]]
        blame(own, pl.DataFrame() if frame is None else frame, difference)
    check_summary(checks["summary"], differences, len(book.stays))
    if recorded:
        _check_work(checks, given, book, differences)
    # A custom policy may end a job while it waits: its stay before that was its last.
    ended: Ints = np.zeros(0, np.int64)
    if given.decides:
        ended = np.flatnonzero(~given.jobs.id.is_in(outcome.jobs["job_id"].implode()).to_numpy())
    check_ends(checks, Ends(given, book, frozenset(ended.tolist()), recorded=recorded))


def _not_run(checks: Checks, reason: str) -> None:
    for code in JUDGED:
        if not checks[code].failed and checks[code].not_run is None:
            checks[code].not_run = reason


def _no_book(checks: Checks, says: str) -> None:
    checks["stays"].not_run = None
    checks["stays"].fail(f"what happened cannot be read: {says}")
    _not_run(checks, "stays failed")


def _leave_out(checks: Checks, facts: Facts, given: Given) -> None:
    """Marks what this result says nothing of."""
    columns = set(facts.jobs.columns)
    paused = given.several or may_pause(given)
    for code, applies, reason in (
        ("evictions", given.makes_room, "jobs make no room for others"),
        ("stays", given.several or facts.outcome.stays_written is not None, "every job has one stay"),
        ("held", paused, "the policy preempts nobody"),
        ("held", not paused or {"held_time", "lost_time"} <= columns, "the result does not say"),
        ("causes", {*WAITS[1:], *RUNS[:2]} <= columns, "the result does not say"),
    ):
        if not applies and checks[code].not_run is None:
            checks[code].not_run = reason


def _check_work(checks: Checks, given: Given, book: Book, differences: Differences) -> None:
    """Counts a failure for each job whose work is not what it should be."""
    looked_at = Counter[str]()
    for row, code, says in off(given, book, differences, looked_at):
        job, end = int(book.stays.job[row]), float(book.stays.end[row])
        checks[code].add([Finding(code, says, given.jobs.id[job], time=end)], 1)
    for code, jobs in looked_at.items():
        checks[code].looked_at += jobs


def off(
    given: Given, book: Book, differences: Differences, looked_at: Counter[str]
) -> Iterator[tuple[int, str, str]]:
    """The last stay of each job whose work was not done at its end, or before, or at its rungs; code, how.

    A job that was ended did less. looked_at: how many jobs were compared, by code.
    """
    units, stays = "recorded seconds" if given.model == "fixed" else "iterations", book.stays
    slack = (RELATIVE + 64.0 * differences.ulp / differences.alone) * differences.whole
    beyond = np.zeros(slack.size)
    beyond[differences.found.ended] = differences.found.off
    dropped = stays.job[stays.ended == DROPPED]
    ended = np.setdiff1d(differences.found.ended, dropped)
    trials = np.isin(ended, stays.job[stays.tail][~np.isnan(stays.mark[stays.tail])])
    group = given.jobs.group if given.searched else None
    if group is not None:
        trials |= group.gather(ended).is_not_null().to_numpy()
    odd = np.zeros(slack.size, np.bool_)
    odd[ended] = ~(np.abs(beyond[ended]) <= slack[ended])
    looked_at["searches"] += int(np.count_nonzero(trials))
    looked_at["run-times"] += ended.size - int(np.count_nonzero(trials)) + dropped.size
    odd[dropped] = True
    for place in np.flatnonzero(odd[stays.job[stays.head]]).tolist():
        first, row = int(stays.head[place]), int(stays.tail[place])
        job = int(stays.job[row])
        whole, more = float(differences.whole[job]), float(beyond[job])
        left = math.fsum((stays.work - stays.lost)[first : row + 1].tolist())
        after = f"after {number(float(stays.end[row] - stays.start[first]))} s with"
        met = f"{units} done under the contention it met; expected"
        if stays.ended[row] == DROPPED:
            if left > whole + slack[job]:
                yield row, "run-times", f"is ended {after} {number(left)} {met} less than {number(whole)}"
        elif not np.isnan(stays.mark[row]) or (group is not None and group[job] is not None):
            how = f"does {number(more)} {units} too many on its way to a rung, or to its end"
            yield row, "searches", how
        else:
            yield row, "run-times", f"finishes {after} {number(whole + more)} {met} {number(whole)}"
