"""Constraints (1) to (5): gangs whole and in one place, servers known, allowed and never over-committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ringbco.audits import sharing
from ringbco.audits.episodes import Episodes
from ringbco.audits.facts import Bools, Facts, Floats, Ints
from ringbco.audits.findings import Check, Finding, blame, blame_stretches, number

if TYPE_CHECKING:
    from ringbco.audits.served import Served


def check_stretches(check: Check, facts: Facts, ragged: Ints) -> None:
    """Nobody moves while running: stretches last from start to finish; a preempted job's do not overlap."""
    check.looked_at = facts.a_job.size
    job, start, end = facts.a_job, facts.a_start, facts.a_end
    if facts.preemptive:
        bad = (start < facts.start[job]) | (end > facts.finish[job]) | (end < start)
    else:
        bad = (start != facts.start[job]) | (end != facts.finish[job])
    blame_stretches(
        check,
        facts,
        np.flatnonzero(bad),
        lambda i: (
            f"holds GPUs until {number(end[i])} s; it ran from {number(facts.start[job[i]])}"
            f" to {number(facts.finish[job[i]])} s"
        ),
    )
    others = ragged[~np.isin(ragged, job[bad])]
    blame(check, facts, others, "its stretches overlap: expected one a server, all starting together")


def check_gangs(check: Check, facts: Facts) -> None:
    """The GPUs of a job's stretches add up to num_gpus all the time, from start to finish.

    Those of an elastic job add up to min_gpus to max_gpus. A share is that of the job table.
    """
    n = facts.num_gpus.size
    check.looked_at = n
    held = facts.a_end > facts.a_start
    whole = (facts.a_start == facts.start[facts.a_job]) & (facts.a_end == facts.finish[facts.a_job])
    uneven = np.zeros(n, dtype=bool)
    uneven[facts.a_job[~whole]] = True
    given = np.bincount(facts.a_job, weights=facts.a_gpus, minlength=n).astype(np.int64)
    least, most = _may_hold(facts)
    bad = np.flatnonzero(((given < least) | (given > most)) & ~uneven)
    blame(
        check,
        facts,
        bad,
        lambda j: f"{given[j]} GPUs allocated; expected {_so_many(least[j], most[j])}",
        time=facts.start,
    )
    empty = np.flatnonzero(facts.a_gpus == 0)
    blame_stretches(check, facts, empty, "a stretch of 0 GPUs; expected at least 1")
    sharing.check_holdings(check, facts)
    odd = list(_uneven_gangs(check.code, facts, uneven[facts.a_job] & held))
    check.add(odd, len(odd))


def _may_hold(facts: Facts) -> tuple[Ints, Ints]:
    """The least and the most GPUs of each job."""
    return (facts.least, facts.most) if facts.elastic else (facts.num_gpus, facts.num_gpus)


def _so_many(least: np.integer[Any], most: np.integer[Any]) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _uneven_gangs(code: str, facts: Facts, chosen: Bools) -> Iterator[Finding]:
    """Jobs whose stretches differ, one by one: the first moment at which the gang is not whole."""
    may_hold = _may_hold(facts)
    rows: dict[int, list[tuple[float, float, int]]] = {}
    for i in np.flatnonzero(chosen):
        stretch = (float(facts.a_start[i]), float(facts.a_end[i]), int(facts.a_gpus[i]))
        rows.setdefault(int(facts.a_job[i]), []).append(stretch)
    for job, stretches in rows.items():
        least, most = may_hold[0][job], may_hold[1][job]
        # What is added at each instant; a job may have as many stretches as there are quanta in its life.
        change = dict.fromkeys((t for a, b, _ in stretches for t in (a, b)), 0)
        for a, b, gpus in stretches:
            if a < b:
                change[a] += gpus
                change[b] -= gpus
        held = 0
        for t in sorted(change):
            held += change[t]
            # Between two runs of a preempted job it holds nothing.
            free = held == 0 and (facts.preemptive or t >= facts.finish[job])
            if not (least <= held <= most or free):
                said = f"{held} GPUs allocated; expected {_so_many(least, most)}"
                yield Finding(code, said, facts.id(job), time=t)
                break


def check_servers(check: Check, facts: Facts) -> None:
    """Every server is one of the cluster's."""
    check.looked_at = facts.a_job.size
    at = np.flatnonzero(facts.a_server >= facts.cluster.num_servers)
    blame_stretches(check, facts, at, f"no such server; expected 0 to {facts.cluster.num_servers - 1}")


def check_vcs(check: Check, facts: Facts) -> None:
    """Every server belongs to the job's virtual cluster."""
    if facts.cluster.server_vc is None:
        check.not_run = "the cluster has no virtual clusters"
        return
    check.looked_at = facts.a_job.size
    names = facts.cluster.vc_names
    known = np.flatnonzero(facts.a_server < facts.cluster.num_servers)
    mine, its = facts.vc[facts.a_job[known]], facts.server_vc[facts.a_server[known]]
    blame_stretches(
        check,
        facts,
        known[mine != its],
        lambda i: (
            f"belongs to {names[facts.server_vc[facts.a_server[i]]]}; the job to"
            f" {names[facts.vc[facts.a_job[i]]]}"
        ),
    )


def check_capacity(check: Check, facts: Facts, services: Served | None) -> None:
    """At no time are more GPUs of a server held than it has, or more of a GPU than all of it."""
    check.looked_at = facts.cluster.num_servers
    if facts.shared:
        check.looked_at = facts.cluster.num_gpus
        sharing.check_room(check, facts)
        return
    server, gpus, start, end = facts.a_server, facts.a_gpus, facts.a_start, facts.a_end
    if services is not None:
        server, gpus = np.append(server, services.server), np.append(gpus, services.num_gpus)
        start, end = np.append(start, services.start), np.append(end, services.end)
    known = (server < facts.cluster.num_servers) & (end > start)
    server, gpus = server[known], gpus[known]
    server = np.concatenate([server, server])
    time = np.concatenate([start[known], end[known]])
    change = np.concatenate([gpus, -gpus])
    # By server, then time, GPUs freed before GPUs taken. Each server's changes add up to nothing, so the
    # running sum over all of them is each server's own.
    order = np.lexsort((change, time, server))
    server, time, used = server[order], time[order], np.cumsum(change[order])
    over = used > facts.server_gpus[server]
    began = np.flatnonzero(over & ~np.append(False, over[:-1] & (server[1:] == server[:-1])))
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


def until(when: Floats, times: Floats, what: NDArray[Any] | None = None) -> NDArray[Any]:
    """How many of `when` (or the sum of their `what`) are at or before each of `times`."""
    if what is None:
        return np.searchsorted(np.sort(when), times, side="right")
    order = np.argsort(when, kind="stable")
    total = np.append(0, np.cumsum(what[order]))
    return np.asarray(total[np.searchsorted(when[order], times, side="right")])


def check_types(check: Check, facts: Facts, eps: Episodes) -> None:
    """A gang holds GPUs of one type, and one that its job may use."""
    if facts.types is None:
        check.not_run = "all GPUs are alike to every job"
        return
    check.looked_at = eps.job.size
    first, mixed = facts.types.of_episodes(eps.pair_episode, eps.pair_server, eps.job.size)
    at = np.flatnonzero(mixed)
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
    """Nothing runs on a server that is down."""
    down = facts.outages
    if down is None:
        check.not_run = "the run knows no outages"
        return
    check.looked_at = facts.a_job.size + facts.done
    if not down.server.size:
        return
    at = down.latest(facts.a_server, facts.a_end)
    over = (at >= 0) & (down.up[at] > facts.a_start) & (facts.a_end > facts.a_start)
    blame_stretches(
        check,
        facts,
        np.flatnonzero(over),
        lambda i: (
            f"holds GPUs of server {facts.a_server[i]}, which is down from {number(down.down[at[i]])}"
            f" to {number(down.up[at[i]])} s"
        ),
    )
