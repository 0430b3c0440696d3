"""The checker: all that follows from a result's stays, worked out again from the pages of docs/ alone.

Columns of numpy; of ringbco it takes nothing but `io` and `errors`. It believes a run's inputs and stays:
when each stay began and ended, where, and why. From them it integrates contention and work, and adds up every
column and every figure. It knows no policy.
"""

from __future__ import annotations

import numpy as np

from ringbco.checker import (
    clock,
    columns,
    contention,
    draining,
    fabric,
    links,
    searches,
    seats,
    services,
    stays,
    timeline,
)
from ringbco.checker.figures import Summary
from ringbco.checker.idle import Placeable
from ringbco.checker.inputs import Bools, Recomputed, RunInputs, StayLog
from ringbco.checker.run_interval import RunInterval
from ringbco.checker.speed import Speeds
from ringbco.checker.work import Worker

__all__ = ["Recomputed", "RunInputs", "StayLog", "check"]


def check(inputs: RunInputs, stay_log: StayLog) -> Recomputed:
    """Every column, every figure, and how far each job's work is off at its end.

    It writes what it finds into the stays of the stay log: stays by job and time, on GPUs that there are.
    """
    speeds = Speeds(inputs)
    places = seats.sit(stay_log.stays)
    down, drains = (of_kind(inputs.outages or (), inputs.slot) for of_kind in (clock.down, clock.drains))
    marks = stays.chain(inputs, stay_log)
    slept = stays.sleep_intervals(inputs, stay_log, down + drains)
    stays.pause(inputs, stay_log.stays, slept)
    spanning, parts = contention.contend(stay_log.stays)
    felt = fabric.contend(inputs, stay_log.stays)
    parts = parts if felt is None else felt[0]
    if speeds.meets and inputs.jobs.share is not None:
        places |= contention.on_shares(stay_log.stays, inputs.jobs.share)
    if places:
        parts = seats.together(parts, contention.crowd(stay_log.stays, places))
    columns_of = contention.parts_of(parts)
    worker = Worker(inputs, speeds, stay_log.stays, columns_of)
    ended, off = worker.integrate(marks, stay_log.rungs)
    if inputs.cluster.tiers:
        stay_log.stays.uplinks = worker.uplinks()
    room = Placeable(inputs, speeds)
    room.waits(stay_log, down + drains)

    drained = draining.drained(inputs, stay_log, down, drains)
    interval = RunInterval.of(inputs, stay_log, (down, drains, drained), slept)
    done = columns.Records(inputs, stay_log.stays)
    tables = {
        "jobs": columns.jobs_table(inputs, speeds, done),
        "stays": columns.stays_table(inputs, stay_log.stays),
        "allocations": columns.allocations_table(inputs, stay_log.stays),
        "timeline": timeline.timeline_table(interval, spanning),
    }
    if inputs.outages is not None or inputs.sleep_after < np.inf:
        tables["servers"] = timeline.servers_table(interval)
    uplinks = None
    if inputs.cluster.tiers:
        gangs = {} if felt is None else felt[1]
        carried = links.Links(inputs, speeds, stay_log.stays, (gangs, columns_of), worker.written)
        tables["links"], uplinks = carried.table(interval), carried.summary(interval)
    if inputs.services is not None:
        tables["replicas"] = services.replicas_table(interval)
    untold: dict[tuple[str, str], Bools] = {}
    if inputs.answering is not None:
        tables["latency"], rows = services.latency_table(interval)
        untold = {("latency", column): unknown for column, unknown in rows.items()}
    missing = np.ones(len(inputs.jobs), np.bool_)
    missing[stay_log.stays.job] = False
    placeable = room.placeable if missing.any() or inputs.searched else ~missing
    found = None
    if inputs.searched:
        seen = searches.Searches(inputs, stay_log, placeable)
        tables["rungs"], found = seen.rungs_table(), seen.table()
        tables["searches"] = found
    summary = Summary(interval, done, placeable).of(spanning, found)
    if uplinks is not None:
        summary["links"] = uplinks
    return Recomputed(tables, summary, ended, off, untold)
