"""How each stay began, since when its job had waited for it, and how long it pauses (docs/results.md)."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from ringbco.checker.arrays import pairs
from ringbco.checker.chains import first_submission
from ringbco.checker.clock import boundary
from ringbco.checker.inputs import FAILED, MOVED, RESIZED, RUNG, Ints, RunInputs, StayLog, Stays
from ringbco.checker.settings import Outage

BEGAN: Final = ("first", "resumed", "moved", "resized", "restarted")
FIRST, RESUMED, AS_MOVED, AS_RESIZED, RESTARTED = range(len(BEGAN))
"""How a stay begins, by number."""
AFTER: Final = {MOVED: AS_MOVED, RESIZED: AS_RESIZED, FAILED: RESTARTED}
"""By how the one before it ended: most are resumed."""
COST: Final = ("start_cost", "preempt_cost", "move_cost", "resize_cost", "preempt_cost")
"""Which option says how long a stay pauses, by how it began."""


class SleepInterval(NamedTuple):
    """A server asleep. until: infinite where it sleeps on. woken: whether a stay or a replica ended it."""

    server: int
    since: float
    until: float
    woken: bool


class Marks(NamedTuple):
    """The rungs that trials reached, each with the stay in which they did, in order of both."""

    stay: Ints
    rung: Ints


def chain(inputs: RunInputs, stay_log: StayLog) -> Marks:
    """Writes number, began, since, rest, mark into the stays. Returns in which each rung was reached."""
    stays = stay_log.stays
    size, head = len(stays), stays.head
    stays.number = np.arange(size) - np.repeat(head, np.diff(np.append(head, size)))
    stays.began = np.full(size, RESUMED)
    stays.since, stays.rest = np.empty(size), np.zeros(size)
    before = np.maximum(np.arange(size) - 1, 0)
    for ended, began in AFTER.items():
        stays.began[stays.ended[before] == ended] = began
    stays.since[:] = stays.end[before]
    came = boundary(inputs.jobs.submit[stays.job[head]], inputs.slot)
    stays.began[head], stays.since[head] = FIRST, np.minimum(came, stays.start[head])
    marks = _reached(stay_log)
    at, went_on = marks.stay, stay_log.rungs.went_on[marks.rung]
    last = np.append(at[1:] != at[:-1], np.ones(min(1, at.size), np.bool_))
    stays.mark = np.full(size, np.nan)
    stays.mark[at[last]] = stay_log.rungs.time[marks.rung[last]]
    paused = last & (stays.ended[at] == RUNG) & ~np.isnan(went_on)
    after, since = at[paused] + 1, went_on[paused]
    inside = after < size
    after, since = after[inside], since[inside]
    same = stays.job[after] == stays.job[after - 1]
    after, since = after[same], since[same]
    stays.since[after], stays.rest[after] = since, since - stays.end[after - 1]
    return marks


def _reached(stay_log: StayLog) -> Marks:
    """Each rung in the first stay that is not over before it, and has not ended at another.

    Only a stay that ended at a rung has one where the trial paused, as its last. Scalar: rungs are few.
    """
    stays, rungs = stay_log.stays, stay_log.rungs
    found: list[tuple[int, int]] = []
    if not rungs.job.size:
        return Marks(np.zeros(0, np.int64), np.zeros(0, np.int64))
    own: dict[int, list[int]] = {}
    for row, job in enumerate(rungs.job.tolist()):
        own.setdefault(job, []).append(row)
    time, pauses = rungs.time, rungs.went_on != rungs.time
    mine = np.flatnonzero(np.isin(stays.job, rungs.job))
    for stay, job, end, ended in zip(
        mine.tolist(),
        stays.job[mine].tolist(),
        stays.end[mine].tolist(),
        stays.ended[mine].tolist(),
        strict=True,
    ):
        left = own[job]
        while left and time[left[0]] <= end:
            if pauses[left[0]] and ended != RUNG:
                break
            rung = left.pop(0)
            found.append((stay, rung))
            if pauses[rung]:
                break
    stay_of, rung_of = (np.array([pair[i] for pair in found], np.int64) for i in (0, 1))
    return Marks(stay_of, rung_of)


def sleep_intervals(inputs: RunInputs, stay_log: StayLog, down: list[Outage]) -> list[SleepInterval]:
    """When which servers slept, by server and time (docs/energy.md)."""
    after = inputs.sleep_after
    if after == math.inf:
        return []
    stays, replicas = stay_log.stays, stay_log.replicas
    rows = np.flatnonzero((stays.end > stays.start)[stays.of])
    of = stays.of[rows]
    server = np.concatenate(
        [stays.server[rows], replicas.server, np.array([outage.server for outage in down], np.int64)]
    )
    start = np.concatenate([stays.start[of], replicas.start, np.array([outage.down for outage in down])])
    end = np.concatenate([stays.end[of], replicas.end, np.array([outage.up for outage in down])])
    wakes = np.arange(server.size) < rows.size + len(replicas)
    order = np.lexsort((end, start, server))
    server, start, end, wakes = server[order], start[order], end[order], wakes[order]
    opens = float(boundary(np.array([first_submission(inputs.jobs)]), inputs.slot)[0])
    bounds = np.searchsorted(server, np.arange(inputs.cluster.gpus.size + 1))
    found = []
    for number, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        idle = np.maximum.accumulate(np.concatenate([[opens], end[low:high]]))
        for at in np.flatnonzero(start[low:high] - idle[:-1] > after).tolist():
            until, woken = float(start[low + at]), bool(wakes[low + at])
            found.append(SleepInterval(number, float(idle[at]) + after, until, woken))
        if idle[-1] < math.inf:
            found.append(SleepInterval(number, float(idle[-1]) + after, math.inf, False))
    return found


def may_pause(inputs: RunInputs) -> bool:
    """Whether a job that is not stopped may hold GPUs without progress."""
    wakes = inputs.sleep_after < math.inf and inputs.options.get("wake_time", 0.0) > 0
    return wakes or bool(inputs.options.get("start_cost"))


def pause(inputs: RunInputs, stays: Stays, slept: list[SleepInterval]) -> None:
    """Writes into the stays whether they woke a server, and for how long they make no progress at first."""
    size = len(stays)
    stays.woke, stays.pause, stays.begin = np.zeros(size, np.bool_), np.zeros(size), np.full(size, -math.inf)
    woken = [sleep for sleep in slept if sleep.woken]
    if woken:
        ends = pairs(np.array([sleep.server for sleep in woken]), np.array([sleep.until for sleep in woken]))
        there = np.isin(pairs(stays.server, stays.start[stays.of]), ends)
        stays.woke[stays.of[there]] = True
        stays.woke &= stays.end > stays.start
    if not inputs.several and not may_pause(inputs):
        return
    slot = None if inputs.model == "table" else inputs.slot
    cost = [inputs.cost(name) for name in COST]
    if inputs.options.get("start_cost") is None:
        cost[FIRST] = 0.0
    wake = float(inputs.options.get("wake_time", 0.0))
    seconds = np.array(cost)[stays.began]
    own = inputs.jobs.plain.get("preempt_cost")
    if own is not None:
        given = np.array([name == "start_cost" or inputs.options.get(name) is not None for name in COST])
        given[[RESUMED, RESTARTED]] = False
        mine = own[stays.job]
        seconds = np.where(given[stays.began] | np.isnan(mine), seconds, mine)
    seconds = seconds + np.where(stays.woke, wake, 0.0)
    if slot is not None:
        seconds = np.ceil(seconds / slot) * slot
    stays.begin = stays.start + seconds
    stays.pause = np.minimum(seconds, stays.end - stays.start)
