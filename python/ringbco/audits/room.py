"""Who makes room for whom, and what quotas allow (docs/priorities.md).

What follows from the stretches, the job table and the folder's quota.parquet alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ringbco.audits import failures, rungs, served
from ringbco.audits.facts import preempts
from ringbco.audits.findings import Check, blame
from ringbco.audits.quotas import check_holdings, read_quotas
from ringbco.trace.standing import preemptible, priorities

if TYPE_CHECKING:
    import polars as pl

    from ringbco.audits.contention import Episodes
    from ringbco.audits.facts import Bools, Facts, Ints
    from ringbco.trace.quotas import Quotas


def check_room(check: Check, facts: Facts, jobs: pl.DataFrame, eps: Episodes) -> None:
    """Nobody is evicted but for a job that may ask for it; quotas without borrowing hold."""
    if not facts.makes_room:
        check.not_run = "jobs make no room for others"
        return
    check.looked_at = facts.done
    if "evictions" not in jobs.columns:
        check.fail("jobs.parquet has no column evictions; jobs make room for others")
        return
    quotas = read_quotas(facts)
    if not preempts(facts.options):
        # Then every stay that neither failed, nor ended at a rung, nor was the last is an eviction.
        _check_reasons(check, facts, eps, quotas)
    elif quotas is None and facts.outcome.services is None:
        level = _levels(facts)
        able = _preemptible(facts) & (level < level.max())
        taken = facts.evictions > 0
        blame(check, facts, np.flatnonzero(taken & ~able), "is evicted, though nobody may evict it")
    if quotas is not None:
        check_holdings(check, facts, eps, quotas)


def _levels(facts: Facts) -> Ints:
    given = priorities(facts.table.frame)
    return np.zeros(facts.row.size, np.int64) if given is None else given[facts.row].astype(np.int64)


def _preemptible(facts: Facts) -> Bools:
    given = preemptible(facts.table.frame)
    return np.ones(facts.row.size, bool) if given is None else given[facts.row]


def _check_reasons(check: Check, facts: Facts, eps: Episodes, quotas: Quotas | None) -> None:
    """Every eviction has a job, or a replica, that starts at that instant and may evict that job."""
    last = np.append(eps.job[1:] != eps.job[:-1], True)
    paused = ~np.isnan(rungs.rests(facts, eps))
    ended = np.flatnonzero(~last & ~paused & ~failures.failed(facts, eps))
    counted = np.bincount(eps.job[ended], minlength=facts.row.size)
    bad = np.flatnonzero(counted[: facts.done] != facts.evictions[: facts.done])
    blame(
        check,
        facts,
        bad,
        lambda j: f"evictions is {facts.evictions[j]}; {counted[j]} stays ended early",
    )
    level, able = _levels(facts), _preemptible(facts)
    # The highest priority of whoever starts on each server at each instant, and on any server.
    here: dict[tuple[float, int], int] = {}
    start = eps.start[eps.pair_episode].tolist()
    mine = level[eps.job[eps.pair_episode]].tolist()
    for server, time, own in zip(eps.pair_server.tolist(), start, mine, strict=True):
        for key in ((time, server), (time, -1)):
            here[key] = max(own, here.get(key, own))
    replicas = served.read(facts)
    came = set()
    if replicas is not None:
        came = set(zip(replicas.start.tolist(), replicas.server.tolist(), strict=True))
    first = np.searchsorted(eps.pair_episode, ended)
    after = np.searchsorted(eps.pair_episode, ended, side="right")
    largest = facts.num_gpus.max() > facts.server_gpus.min()
    guilty = []
    for episode, low, high in zip(ended.tolist(), first.tolist(), after.tolist(), strict=True):
        job, time = int(eps.job[episode]), float(eps.end[episode])
        servers = eps.pair_server[low:high].tolist()
        if able[job] and any((time, server) in came for server in servers):
            continue
        # A gang larger than a server may have taken others' places than those that it left.
        among = [*servers, -1] if largest else servers
        highest = max((here[time, server] for server in among if (time, server) in here), default=None)
        if highest is None or (quotas is None and (highest <= level[job] or not able[job])):
            guilty.append(episode)
    blame(
        check,
        facts,
        np.array(guilty, np.int64),
        "is evicted, though nobody starts then who may evict it",
        job=eps.job,
        time=eps.end,
    )
