"""Constraints (1) to (5): gangs whole and in one place, servers known, allowed and never over-committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ringbco.audits import in_tiers, seating, sharing
from ringbco.audits.allocated_stays import AllocatedStays
from ringbco.audits.facts import Facts, Ints
from ringbco.audits.findings import Check, Finding, blame, blame_stays, number
from ringbco.checker.arrays import by_place, in_order

if TYPE_CHECKING:
    from ringbco.audits.served import Served


def check_stays(check: Check, facts: Facts, ragged: Ints) -> None:
    """No job moves while running: stays last from start to finish; a preempted job's do not overlap."""
    job, start, end = facts.a_job, facts.a_start, facts.a_end
    if facts.preemptive:
        bad = (start < facts.start[job]) | (end > facts.finish[job]) | (end < start)
    else:
        bad = (start != facts.start[job]) | (end != facts.finish[job])
    blame_stays(
        check,
        facts,
        check.broken(bad),
        lambda i: (
            f"holds GPUs until {number(end[i])} s; it ran from {number(facts.start[job[i]])}"
            f" to {number(facts.finish[job[i]])} s"
        ),
    )
    others = ragged[~np.isin(ragged, job[bad])]
    blame(check, facts, others, "its stays overlap: expected one a server, all starting together")


def check_gangs(check: Check, facts: Facts) -> None:
    """The GPUs of each stay add up to num_gpus, those of an elastic job to min_gpus to max_gpus.

    On each server they are whole pods. A share is that of the job table. Under placement compact they lie in
    the job's tier, and in each group of segment_tier in whole segments.
    """
    key = facts.a_job * (facts.a_stay.max(initial=0) + 1) + facts.a_stay
    if (key[1:] >= key[:-1]).all():
        begins = np.diff(key, prepend=-1) != 0
        first, of = np.flatnonzero(begins), np.cumsum(begins) - 1
    else:
        _, first, of = np.unique(key, return_index=True, return_inverse=True)
    inputs = np.bincount(of, facts.a_gpus, first.size).astype(np.int64)
    gang = np.ones(first.size, dtype=bool)
    for times in (facts.a_start, facts.a_end):  # where its rows differ it is no stay
        gang[of[times != times[first][of]]] = False
    none = np.flatnonzero(np.bincount(facts.a_job, minlength=facts.num_gpus.size) == 0)
    job, inputs = np.append(facts.a_job[first][gang], none), np.append(inputs[gang], 0 * none)
    time = np.append(facts.a_start[first][gang], facts.start[none])
    least, most = facts.num_gpus[job], facts.num_gpus[job]
    if facts.elastic:
        least, most = facts.least[job], facts.most[job]
    blame(
        check,
        facts,
        check.broken((inputs < least) | (inputs > most)),
        lambda i: (
            f"{inputs[i]} GPUs allocated; expected {least[i]}{f' to {most[i]}' if least[i] < most[i] else ''}"
        ),
        job=job,
        time=time,
    )
    empty = check.broken(facts.a_gpus == 0)
    blame_stays(check, facts, empty, "a stay of 0 GPUs; expected at least 1")
    pod = facts.pod[facts.a_job]
    blame_stays(
        check,
        facts,
        check.broken(facts.a_gpus % pod != 0),
        lambda i: f"{facts.a_gpus[i]} GPUs; expected whole pods of {pod[i]}",
    )
    sharing.check_holdings(check, facts)
    in_tiers.check_stays(check, facts)


def check_servers(check: Check, facts: Facts) -> None:
    """Every server is one of the cluster's."""
    at = check.broken(facts.a_server >= facts.cluster.num_servers)
    blame_stays(check, facts, at, f"no such server; expected 0 to {facts.cluster.num_servers - 1}")


def check_vcs(check: Check, facts: Facts) -> None:
    """Every server belongs to the job's virtual cluster."""
    if facts.cluster.server_vc is None:
        check.not_run = "the cluster has no virtual clusters"
        return
    names = facts.cluster.vc_names
    known = np.flatnonzero(facts.a_server < facts.cluster.num_servers)
    mine, its = facts.vc[facts.a_job[known]], facts.server_vc[facts.a_server[known]]
    blame_stays(
        check,
        facts,
        known[check.broken(mine != its)],
        lambda i: (
            f"belongs to {names[facts.server_vc[facts.a_server[i]]]}; the job to"
            f" {names[facts.vc[facts.a_job[i]]]}"
        ),
    )


def check_capacity(check: Check, facts: Facts, services: Served | None) -> None:
    """At no time are more GPUs of a server held than it has, or more of a GPU than all of it."""
    if facts.shared:
        sharing.check_room(check, facts)
        return
    server, gpus, end = facts.a_server, facts.a_gpus, facts.a_end
    start = seating.taken_from(facts.a_seat, server, facts.a_start, end)
    if services is not None:
        server, gpus = np.append(server, services.server), np.append(gpus, services.num_gpus)
        start, end = np.append(start, services.start), np.append(end, services.end)
    known = (server < facts.cluster.num_servers) & (end > start)
    server, gpus = server[known], gpus[known]
    server = np.concatenate([server, server])
    time = np.concatenate([end[known], start[known]])
    change = np.concatenate([-gpus, gpus])
    # By server, then time, GPUs freed before GPUs taken. Each server's changes add up to nothing, so the
    # running sum over all of them is each server's own.
    order = in_order(change)
    order = order[by_place(server[order], time[order])[0]]
    server, time, used = server[order], time[order], np.cumsum(change[order])
    over = used > facts.server_gpus[server]
    began = check.broken(over & ~np.append(False, over[:-1] & (server[1:] == server[:-1]))[: over.size])
    check.add(
        (
            Finding(
                check.code,
                f"{used[i]} GPUs in use; it has {facts.server_gpus[server[i]]}",
                server=int(server[i]),
                time=float(time[i]),
            )
            for i in began
        ),
        began.size,
    )


def check_types(check: Check, facts: Facts, eps: AllocatedStays) -> None:
    """A gang holds GPUs of one type, and one that its job may use."""
    if facts.types is None:
        check.not_run = "all GPUs are alike to every job"
        return
    first, mixed = facts.types.of_stays(eps.pair_stay, eps.pair_server, eps.job.size)
    at = check.broken(mixed)
    said = "holds GPUs of several types at once; expected those of one"
    blame(check, facts, at, said, job=eps.job, time=eps.start)
    names = facts.cluster.types
    banned = np.isnan(facts.types.speedup[facts.row[eps.job], first]) & ~mixed
    blame(
        check,
        facts,
        np.flatnonzero(banned),
        lambda i: f"holds GPUs of type {names[first[i]]}, which it may not use",
        job=eps.job,
        time=eps.start,
    )


def check_outages(check: Check, facts: Facts) -> None:
    """Nothing runs on a server that is down, and nothing starts on one that drains."""
    down = facts.outages
    if down is None:
        check.not_run = "the run knows no outages"
        return
    _check_drains(check, facts)
    if not down.server.size:
        return
    at = down.latest(facts.a_server, facts.a_end)
    over = (at >= 0) & (down.up[at] > facts.a_start) & (facts.a_end > facts.a_start)
    blame_stays(
        check,
        facts,
        check.broken(over),
        lambda i: (
            f"holds GPUs of server {facts.a_server[i]}, which is down from {number(down.down[at[i]])}"
            f" to {number(down.up[at[i]])} s"
        ),
    )


def _check_drains(check: Check, facts: Facts) -> None:
    """Nothing starts on a server that drains."""
    drains = facts.drains
    if drains is None or not drains.server.size:
        return
    at = drains.latest(facts.a_server, np.nextafter(facts.a_start, np.inf))
    taken = (at >= 0) & (drains.up[at] > facts.a_start) & (facts.a_end > facts.a_start)
    blame_stays(
        check,
        facts,
        check.broken(taken),
        lambda i: (
            f"takes GPUs of server {facts.a_server[i]}, which drains from {number(drains.down[at[i]])}"
            f" to {number(drains.up[at[i]])} s"
        ),
    )
