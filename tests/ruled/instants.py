"""When decisions fall: at arrivals, completions and due instants, or at the ticks of an interval."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from ringbco.audits import rows, rungs, served
from ringbco.audits.episodes import Episodes
from ringbco.audits.facts import Bools, Facts, Floats
from ringbco.audits.findings import Check, blame, number
from ringbco.audits.options import policy_is, preempts
from ringbco.run.registry import PRESETS, REPLAY

TICKS = {
    policy: name
    for name in ("interval", "quantum")
    for policy in REPLAY[name].policies
    if policy not in REPLAY["resize_every"].policies
}
"""The policies that decide at multiples of an option, and which option."""


INTERVAL = 60.0
"""Seconds between the decisions of a ranking that was told no other number."""

LONG = 80.0
"""Seconds after its submission from which on repack may look at a job of its own accord."""


def check_instants(check: Check, facts: Facts, eps: Episodes) -> None:
    """Nobody is given GPUs, or loses them before the end, at an instant at which nobody decides."""
    if facts.logged:
        check.not_run = "a log, or a policy of one's own, decided"
        return
    policy = str(facts.options.get("policy"))
    option = TICKS.get(policy)
    if (
        option == "interval"
        and facts.options.get(option) is None
        and "at intervals" not in PRESETS[policy].is_
    ):
        option = None  # it does so only where it is told how often
    first = np.ones(eps.job.size, dtype=bool)
    first[1:] = eps.job[1:] != eps.job[:-1]
    last = np.append(first[1:], True)[: first.size]
    check.looked_at = int(eps.job.size + np.count_nonzero(~last))
    if option is not None:
        period = facts.options.get(option)
        period = INTERVAL if period is None else period
        if not (isinstance(period, int | float) and 0 < period < np.inf):
            check.fail(f"run.toml: options.{option}: {period}: expected seconds > 0")
            return
        said = f"though its policy decides every {number(period)} s"
        early = ~_on_ticks(facts, eps.start, float(period))
        lost = ~last & ~_on_ticks(facts, eps.end, float(period))
        lost &= ~_ended(facts, eps, "failed", "rung")
        services = served.read(facts)
        if services is not None:
            lost &= ~np.isin(eps.end, services.start)  # a replica may evict at any instant
        early &= ~_at_openings(facts, eps, eps.start)
        lost &= ~_at_openings(facts, eps, eps.end)
    else:
        said = "though nobody arrives or completes then"
        early, lost = np.zeros((2, first.size), dtype=bool)
        for vc in np.unique(facts.vc).tolist():
            mine = facts.vc[eps.job] == vc
            decided = np.concatenate([_events(facts, vc), _openings(facts, eps, mine)])
            early |= mine & ~_among(facts, eps.start, decided)
            looks = policy == "repack"
            if looks:
                early[mine] &= ~_looked(facts, eps, mine, eps.start[mine], "right")
            # Whoever evicts starts then.
            decided = np.concatenate([decided, eps.start[mine & ~early]])
            lost |= mine & ~last & ~np.isin(eps.end, decided)
            if looks and facts.outcome.quota is not None:  # who may borrow nothing may have to stop then
                lost[mine] &= ~_looked(facts, eps, mine, eps.end[mine], "left")
        interval = facts.options.get("interval") if _resizes(facts) else None
        if interval is not None:
            early &= ~_on_ticks(facts, eps.start, float(interval))
            lost &= ~_on_ticks(facts, eps.end, float(interval))
    if _resizes(facts):
        _check_ages(check, facts, eps, ~last & ~_ended(facts, eps, "failed", "evicted", "rung"))
    given = "is given GPUs" if facts.preemptive else "starts"
    for bad, times, what in ((early, eps.start, given), (lost, eps.end, "is preempted")):
        blame(check, facts, np.flatnonzero(bad), f"{what}, {said}", job=eps.job, time=times)


def _openings(facts: Facts, eps: Episodes, mine: Bools) -> Floats:
    """When jobs cease to be protected from preemption: then there is a decision where somebody waits."""
    after = float(facts.options.get("preempt_after") or 0.0)
    return np.asarray(facts.first_instant(eps.start[mine] + after) if after > 0 else np.zeros(0))


def _at_openings(facts: Facts, eps: Episodes, times: Floats) -> Bools:
    """Whether some job of the same (virtual) cluster ceases to be protected at each episode's time."""
    found = np.zeros(times.size, dtype=bool)
    for vc in np.unique(facts.vc).tolist():
        mine = facts.vc[eps.job] == vc
        found[mine] = np.isin(times[mine], _openings(facts, eps, mine))
    return found


def _check_ages(check: Check, facts: Facts, eps: Episodes, lost: Bools) -> None:
    """Nobody loses GPUs, but at a rung or to what fails or makes room, before a stay is --resize-every old.

    lost: the episodes in which that may be so.
    """
    age = float(facts.options["resize_every"])
    young = lost & (eps.end - eps.start < age)
    said = f"loses GPUs though it has held them for less than {number(age)} s"
    blame(check, facts, np.flatnonzero(young), said, job=eps.job, time=eps.end)


def _looked(facts: Facts, eps: Episodes, mine: Bools, times: Floats, side: Literal["left", "right"]) -> Bools:
    """Whether repack may look at the queue at each time: one of those episodes' jobs waits and has done so
    for long. What has been done of it is not asked: that makes it longer.

    side: "right" where a wait counts that begins at that time.
    """
    job, start = eps.job[mine], eps.start[mine]
    since = facts.first_instant(facts.submit[job] + LONG)
    again = job[1:] == job[:-1]
    since[1:][again] = np.maximum(since[1:], eps.end[mine][:-1])[again]
    waited = since <= start
    begun = np.searchsorted(np.sort(since[waited]), times, side=side)
    over = np.searchsorted(np.sort(start[waited]), times, side="left")
    return np.asarray(begun > over)


def _ended(facts: Facts, eps: Episodes, *words: str) -> Bools:
    """Which episodes ended in one of some ways, as stays.parquet says it."""
    told = facts.outcome.stays_written
    if told is None or not (mine := told["ended"].is_in(words)).any():
        return np.zeros(eps.job.size, np.bool_)
    key = ["job_id", "start_time"]
    ids = told["job_id"].filter(mine).unique()
    stays = told.select(*key, so=mine).filter(pl.col("job_id").is_in(ids.implode())).unique(key, keep="last")
    episodes = pl.DataFrame({"job_id": facts.ids.gather(eps.job), "start_time": eps.start})
    found = episodes.join(stays, on=key, how="left", maintain_order="left")["so"]
    return found.fill_null(value=False).to_numpy()


def _on_ticks(facts: Facts, times: Floats, period: float) -> Bools:
    """Whether each time is a multiple of the period, or the first slot boundary from one on."""
    near = np.floor(times / period)
    found = np.zeros(times.size, dtype=bool)
    for k in (near - 1, near, near + 1):
        found |= (facts.first_instant(np.maximum(k, 0.0) * period) == times) & (k >= 0)
    return found


def _events(facts: Facts, vc: int) -> Floats:
    """When a policy without an interval decides: arrivals, completions, jobs that age, outages, services."""
    chosen = facts.vc == vc
    happens = [facts.first_instant(facts.submit[chosen]), facts.finish[chosen]]
    if _resizes(facts):  # also a job that is refused comes, and with it a decision for those that are there
        refused = rows.refusable(facts)
        submit = facts.table.frame["submit_time"].to_numpy()[refused[facts.vc_of_row[refused] == vc]]
        happens.append(facts.first_instant(submit.astype(np.float64)))
    aging = facts.options.get("aging")
    if aging is not None:
        happens.append(facts.first_instant(facts.submit[chosen] + float(aging)))
    services = served.read(facts)
    if services is not None:
        happens.append(_of_services(services))
    climbs = rungs.read(facts)
    if climbs is not None:
        mine = chosen[climbs.job]
        happens += [climbs.time[mine], climbs.went_on[mine]]
    if facts.outages is not None:
        happens += [facts.outages.down, facts.outages.up]
    return np.unique(np.concatenate(happens))


def _among(facts: Facts, times: Floats, decided: Floats) -> Bools:
    """Whether each time is one of those decided; under the slot clock a pass may also follow a start."""
    found = np.isin(times, decided)
    if not facts.slots or preempts(facts.options):
        return found
    evicts = facts.options.get("evict") or facts.outcome.quota is not None
    if facts.options["queue"] == "strict" and not evicts:
        return found
    # A pass that passed one job over and then started another, or evicted one, is followed by one at the next
    # boundary: of boundaries in a row with starts, all are right from the first on that is.
    boundary, at = np.unique(np.rint(times / facts.slot), return_inverse=True)
    right = np.zeros(boundary.size, dtype=np.int64)
    np.maximum.at(right, at, found)
    first = np.flatnonzero(np.append(True, boundary[1:] != boundary[:-1] + 1)[: boundary.size])
    total = np.cumsum(right)
    before = np.repeat(total[first] - right[first], np.diff(np.append(first, boundary.size)))
    return np.asarray((total > before)[at])


def _resizes(facts: Facts) -> bool:
    """Whether the policy is a built-in one that resizes jobs."""
    return policy_is(facts.options, "resizes")


def _of_services(found: served.Served) -> Floats:
    """When services decide: loads, and replicas that begin or end."""
    loads = [time for own in found.loads for time, _ in own]
    return np.concatenate([np.array(loads, np.float64), found.start, found.end])
