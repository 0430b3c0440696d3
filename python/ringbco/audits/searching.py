"""Searches: whether trials went on from their rungs by their losses, and gave their GPUs back there."""

from __future__ import annotations

import bisect
import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ringbco.audits import rungs
from ringbco.audits.allocated_stays import AllocatedStays
from ringbco.audits.findings import Check, blame, number
from ringbco.audits.rows import dropped, left_out, refusable

if TYPE_CHECKING:
    from ringbco.audits.facts import Bools, Facts, Ints


def check_searches(check: Check, facts: Facts, eps: AllocatedStays) -> None:
    """Trials go on by their losses, and give their GPUs back where they do not go on at once."""
    climbs = rungs.read(facts)
    if climbs is None or facts.outcome.rungs is None:
        check.not_run = "no search was judged"
        return
    if climbs.job.size != facts.outcome.rungs.height:
        strangers = facts.outcome.rungs.height - climbs.job.size
        if facts.outcome.allocations is None:
            check.not_run = "the run recorded no allocations"
            return
        check.fail(f"{strangers} rows of rungs.parquet are of jobs that the result does not know")
        return
    if _order_faults(check, facts, climbs):
        return
    # When a custom policy, or elasticflow, refused or ended somebody nobody else tells.
    untold = "jobs_refused" in facts.outcome.summary and not facts.options.get("admission")
    if not facts.logged and not untold:
        _check_choices(check, facts, climbs)
    if facts.outcome.allocations is not None:
        _check_ends(check, facts, climbs, eps)


def _order_faults(check: Check, facts: Facts, climbs: rungs.Climbs) -> bool:
    """Rungs come one after the other from 0 on, each after the trial went on from the last."""
    first = np.append(True, climbs.job[1:] != climbs.job[:-1])[: climbs.job.size]
    before = np.append(-1, climbs.rung[:-1])[: climbs.job.size]
    since = np.append(-np.inf, climbs.went_on[:-1])[: climbs.job.size]
    bad = climbs.rung != np.where(first, 0, before + 1)
    bad |= ~first & ~(since <= climbs.time)
    bad |= (climbs.rung >= climbs.search.rungs) | (climbs.went_on < climbs.time)
    blame(
        check,
        facts,
        check.broken(bad),
        lambda i: f"is at rung {climbs.rung[i]} out of turn",
        job=climbs.job,
        time=climbs.time,
    )
    reached: Ints = np.bincount(climbs.job[~np.isnan(climbs.went_on)], minlength=facts.row.size)
    group = facts.table.frame["group"].is_not_null().to_numpy()[facts.row]
    through = np.flatnonzero(facts.finished & group & ~_cut(facts))
    short = through[check.broken(reached[through] != climbs.search.rungs)]
    most = climbs.search.rungs
    blame(check, facts, short, lambda j: f"is done, and went on from {reached[j]} rungs of {most}")
    stray = np.flatnonzero(~group & (np.bincount(climbs.job, minlength=facts.row.size) > 0))
    blame(check, facts, stray, "is at a rung, and no trial")
    return bool(bad.any() or short.size or stray.size)


Gone = tuple[float, int, int]
"""When a trial was refused (1) or reached its limit (0), and the first rung that it will never reach."""


@dataclass
class _Level:
    """A rung of a search as it fills. came: (loss, fifo, job), the best first. on: who went on, and when."""

    came: list[tuple[float, tuple[float, ...], int]] = field(default_factory=list)
    on: dict[int, float] = field(default_factory=dict)
    lost: int = 0


def _check_choices(check: Check, facts: Facts, climbs: rungs.Climbs) -> None:
    """Follows each search from instant to instant: who may go on, and until when others wait for whom."""
    names = facts.table.frame["group"]
    away = set(dropped(facts).tolist())
    refused = [row for row in left_out(facts).tolist() if row not in away]
    if facts.options.get("admission"):
        refused = np.intersect1d(refused, refusable(facts)).astype(int).tolist()
    by_name: dict[str, list[tuple[float, int, int]]] = {}
    for at, name in enumerate(names.gather(facts.row[climbs.job]).to_list()):
        by_name.setdefault(name, []).append((float(climbs.time[at]), int(climbs.job[at]), at))
    sizes = Counter(name for row, name in enumerate(names.to_list()) if row not in away)
    gone: dict[str, list[Gone]] = {}
    seen, reckoned = facts.first_instant(facts.inputs.jobs.submit), facts.inputs.jobs.reckoned
    for row in refused:
        if reckoned is not None and reckoned[row]:
            by_name.pop(names[row] or "", None)  # when it was gone is in no table
        elif names[row] is not None:
            gone.setdefault(names[row], []).append((float(seen[row]), 1, 0))
    reached = np.bincount(climbs.job, minlength=facts.row.size)
    for job in np.flatnonzero(_cut(facts)).tolist():
        if names[int(facts.row[job])] is not None:
            lost = float(facts.finish[job]), 0, int(reached[job])
            gone.setdefault(names[int(facts.row[job])], []).append(lost)
    brief = facts.a_start == facts.a_end
    at_once = set(zip(facts.a_job[brief].tolist(), facts.a_end[brief].tolist(), strict=True))
    for name, events in by_name.items():
        there = Counter(when for when, _, _ in events)
        if any(there[when] > 1 and (job, when) in at_once for when, job, _ in events):
            continue  # some came and went within an instant: who was there before whom is in no table
        due = _followed(facts, climbs, events, gone.get(name, []), sizes[name])
        ats = np.array([*due], np.int64)
        wrong = ats[check.broken(np.array([not _same(due[at], climbs.went_on[at]) for at in due], np.bool_))]
        blame(
            check,
            facts,
            wrong,
            lambda at, due=due: (  # type: ignore[misc]
                f"went on from rung {climbs.rung[at]} at {number(float(climbs.went_on[at]))} s;"
                f" expected {number(due[at])} s"
            ),
            job=climbs.job,
            time=climbs.time,
        )


def _cut(facts: Facts) -> Bools:
    """Which jobs reached their time limits."""
    told = facts.outcome.jobs.get_column("reached_limit", default=None)
    found = np.zeros(facts.row.size, np.bool_)
    if told is not None:
        found[: told.len()] = told.to_numpy()
    return found


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _followed(
    facts: Facts,
    climbs: rungs.Climbs,
    events: list[tuple[float, int, int]],
    gone: list[Gone],
    size: int,
) -> dict[int, float]:
    """When each climb of a search should have gone on; NaN for never.

    events: (when, job, climb).
    """
    levels = [_Level() for _ in range(climbs.search.rungs)]
    ended: set[int] = set()
    at_rung: dict[tuple[int, int], int] = {}
    frame = facts.table.frame
    level_of = frame["priority"].fill_null(0).to_numpy() if "priority" in frame.columns else None
    # Completions and rungs come before arrivals, and so before refusals: they are judged apart.
    moments = sorted({(when, 0) for when, _, _ in events} | {(when, kind) for when, kind, _ in gone})
    waiting = deque(sorted(events))
    for when, kind in moments:
        for _, _, rung in (each for each in gone if each[:2] == (when, kind)):
            for level in levels[rung:]:
                level.lost += 1
        while kind == 0 and waiting and waiting[0][0] == when:
            _, job, at = waiting.popleft()
            row = int(facts.row[job])
            first = 0.0 if level_of is None else -float(level_of[row])
            fifo = (first, float(facts.known.arrivals.place[facts.row[job]]), float(row))
            bisect.insort(levels[climbs.rung[at]].came, (float(climbs.loss[at]), fifo, job))
            at_rung[job, int(climbs.rung[at])] = at
        for rung, level in enumerate(levels):
            best = [job for _, _, job in level.came[: len(level.came) // climbs.search.eta]]
            closes = len(level.came) + level.lost == size
            if closes and not level.on and not best:
                best = [job for _, _, job in level.came[:1]]
            for job in best:
                level.on.setdefault(job, when)
            for _, _, job in level.came if closes else []:
                if job not in level.on and job not in ended:
                    ended.add(job)
                    for above in levels[rung + 1 :]:
                        above.lost += 1
    return {at: levels[rung].on.get(job, math.nan) for (job, rung), at in at_rung.items()}


def _check_ends(check: Check, facts: Facts, climbs: rungs.Climbs, eps: AllocatedStays) -> None:
    """A trial that does not go on from a rung at once gives its GPUs back as it comes there."""
    stays = pl.DataFrame({"job": eps.job, "time": eps.end}).unique()
    came = pl.DataFrame({"job": climbs.job, "time": climbs.time, "at": np.arange(climbs.job.size)})
    came = came.filter(pl.Series(climbs.left))
    lost = came.join(stays, on=["job", "time"], how="anti")["at"].to_numpy()
    check.looked_at += came.height
    blame(
        check,
        facts,
        lost,
        lambda i: f"comes to rung {climbs.rung[i]} at {number(climbs.time[i])} s; expected the end of a stay",
        job=climbs.job,
        time=climbs.time,
    )
