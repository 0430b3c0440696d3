"""What follows from a result's stay log beside what the result says: tables, figures, work, ends."""

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
from ringbco.audits.inputs import stay_log_of
from ringbco.checker import check
from ringbco.checker.inputs import DROPPED
from ringbco.checker.stays import may_pause
from ringbco.errors import InputError
from ringbco.result.validation import check_stay_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringbco.audits.facts import Facts
    from ringbco.audits.findings import Check
    from ringbco.checker import RunInputs, StayLog
    from ringbco.checker.inputs import Ints

RELATIVE: Final = 1e-9
"""How far work may be from what was to do, relative to that."""
NEEDED: Final = ("jobs", "rows", "stretches", "gangs", "servers", "seats", "types", "services")
"""Where one of these fails there is no stay log to check."""
RECOMPUTED: Final = (
    *(
        "inputs",
        "arithmetic",
        "stays",
        "evictions",
        "num-servers",
        "contention",
        "links",
        "run-times",
        "searches",
    ),
    *("held", "causes", "latency", "summary", "timeline"),
)
Checks = dict[str, "Check"]


def check_all(checks: Checks, facts: Facts) -> None:
    """Checks the stay log of a result, and counts every difference from it."""
    outcome, inputs = facts.outcome, facts.inputs
    _leave_out(checks, facts, inputs)
    broken = [code for code in NEEDED if checks[code].failed]
    if broken:
        _not_run(checks, f"{', '.join(broken)} failed")
        return
    try:
        check_stay_log(outcome, inputs.jobs.id)
        stay_log = stay_log_of(outcome, inputs)
        found = check(inputs, stay_log)
    except InputError as error:
        _no_stay_log(checks, str(error))
        return
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Of a genuine result something follows. What else a damaged one holds is of any kind.
        _no_stay_log(checks, f"{type(error).__name__}: {error}")
        return
    recorded = outcome.allocations is not None
    differences = Differences(outcome, inputs, found, recorded=recorded)
    for difference in differences.all():
        frame = differences.frame(difference.table)
        own = checks[difference.code]
        if own.not_run is not None:  # nothing of its kind is in this run: its column holds zeros
            own = checks[CODES[difference.table]]
        blame(own, pl.DataFrame() if frame is None else frame, difference)
    check_summary(checks["summary"], differences, len(stay_log.stays))
    if recorded:
        _check_work(checks, inputs, stay_log, differences)
    # A custom policy may end a job while it waits: its stay before that was its last.
    ended: Ints = np.zeros(0, np.int64)
    if inputs.decides:
        ended = np.flatnonzero(~inputs.jobs.id.is_in(outcome.jobs["job_id"].implode()).to_numpy())
    check_ends(checks, Ends(inputs, stay_log, frozenset(ended.tolist()), recorded=recorded))


def _not_run(checks: Checks, reason: str) -> None:
    for code in RECOMPUTED:
        if not checks[code].failed and checks[code].not_run is None:
            checks[code].not_run = reason


def _no_stay_log(checks: Checks, says: str) -> None:
    checks["stays"].not_run = None
    checks["stays"].fail(f"what happened cannot be read: {says}")
    _not_run(checks, "stays failed")


def _leave_out(checks: Checks, facts: Facts, inputs: RunInputs) -> None:
    """Marks what this result says nothing of."""
    columns = set(facts.jobs.columns)
    paused = inputs.several or may_pause(inputs)
    for code, applies, reason in (
        ("evictions", inputs.makes_room, "jobs make no room for others"),
        ("stays", inputs.several or facts.outcome.stays_written is not None, "every job has one stay"),
        ("links", bool(inputs.cluster.tiers), "the cluster has no tiers"),
        ("latency", inputs.answering is not None, "the run knows no requests"),
        ("held", paused, "the policy preempts no job"),
        ("held", not paused or {"held_time", "lost_time"} <= columns, "the result does not say"),
        ("causes", {*WAITS[1:], *RUNS[:2]} <= columns, "the result does not say"),
    ):
        if not applies and checks[code].not_run is None:
            checks[code].not_run = reason


def _check_work(checks: Checks, inputs: RunInputs, stay_log: StayLog, differences: Differences) -> None:
    """Counts a failure for each job whose work is not what it should be."""
    looked_at = Counter[str]()
    for row, code, says in off(inputs, stay_log, differences, looked_at):
        job, end = int(stay_log.stays.job[row]), float(stay_log.stays.end[row])
        checks[code].add([Finding(code, says, inputs.jobs.id[job], time=end)], 1)
    for code, jobs in looked_at.items():
        checks[code].looked_at += jobs


def off(
    inputs: RunInputs, stay_log: StayLog, differences: Differences, looked_at: Counter[str]
) -> Iterator[tuple[int, str, str]]:
    """The last stay of each job whose work was not done at its end, or before, or at its rungs; code, how.

    A job that was ended did less. looked_at: how many jobs were compared, by code.
    """
    units, stays = "recorded seconds" if inputs.model == "fixed" else "iterations", stay_log.stays
    slack = (RELATIVE + 64.0 * differences.ulp / differences.alone) * differences.whole
    beyond = np.zeros(slack.size)
    beyond[differences.found.ended] = differences.found.off
    dropped = stays.job[stays.ended == DROPPED]
    ended = np.setdiff1d(differences.found.ended, dropped)
    trials = np.isin(ended, stays.job[stays.tail][~np.isnan(stays.mark[stays.tail])])
    group = inputs.jobs.group if inputs.searched else None
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
