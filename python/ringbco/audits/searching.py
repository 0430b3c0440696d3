"""Searches: losses, who went on from which rung, the work between rungs, and searches.parquet again."""

from __future__ import annotations

import bisect
import math
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.audits import rungs, sharing, times
from ringbco.audits.contention import Episodes, Segments, at_best
from ringbco.audits.findings import Check, blame, number
from ringbco.audits.rows import dropped, left_out, refusable

if TYPE_CHECKING:
    from ringbco.audits.facts import Bools, Facts, Floats, Ints

RELATIVE = 1e-9
_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def check_searches(check: Check, facts: Facts, eps: Episodes, parts: Segments) -> None:
    """Trials go on by their losses, and do between two rungs the work that lies between them."""
    climbs = rungs.read(facts)
    if climbs is None or facts.outcome.rungs is None:
        check.not_run = "no search was judged"
        return
    check.looked_at = facts.outcome.rungs.height
    if climbs.job.size != facts.outcome.rungs.height:
        strangers = facts.outcome.rungs.height - climbs.job.size
        if facts.outcome.allocations is None:
            check.not_run = "the run recorded no allocations"
            return
        check.fail(f"{strangers} rows of rungs.parquet are of jobs that the result does not know")
        return
    if _order_faults(check, facts, climbs):
        return
    _check_losses(check, facts, climbs)
    # When a policy of one's own, or elasticflow, refused or ended somebody nobody else tells.
    untold = facts.outcome.summary.get("jobs_refused") and not facts.options.get("admission")
    if not facts.logged and not untold:
        _check_choices(check, facts, climbs)
    if facts.outcome.allocations is not None:
        _check_ends(check, facts, climbs, eps)
        _check_work(check, facts, climbs, eps, parts)
    _check_pauses(check, facts, climbs)
    _check_table(check, facts, climbs)


def _check_pauses(check: Check, facts: Facts, climbs: rungs.Climbs) -> None:
    """pauses and paused_time count the rungs at which a trial that was done did not go on at once."""
    jobs = facts.jobs
    if not {"pauses", "paused_time", "group"} <= set(jobs.columns):
        check.fail("jobs.parquet has no columns pauses, paused_time and group; the run judged searches")
        return
    left = climbs.left & facts.finished[climbs.job]
    n = facts.row.size
    counted = np.bincount(climbs.job[left], minlength=n)[: facts.done]
    rested = np.bincount(climbs.job[left], (climbs.went_on - climbs.time)[left], n)[: facts.done]
    pauses, seconds = jobs["pauses"].to_numpy().astype(np.int64), jobs["paused_time"].to_numpy()
    bad = (counted != pauses) | (np.abs(rested - seconds) > RELATIVE * rested)
    named = jobs["group"].equals(facts.table.frame["group"].gather(facts.row[: facts.done]))
    if not named:
        check.fail("group is not that of the job table")
    blame(
        check,
        facts,
        np.flatnonzero(bad),
        lambda j: (
            f"paused {pauses[j]} times for {number(seconds[j])} s; expected {counted[j]} times for"
            f" {number(rested[j])} s"
        ),
    )


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
        np.flatnonzero(bad),
        lambda i: f"is at rung {climbs.rung[i]} out of turn",
        job=climbs.job,
        time=climbs.time,
    )
    reached: Ints = np.bincount(climbs.job[~np.isnan(climbs.went_on)], minlength=facts.row.size)
    group = facts.table.frame["group"].is_not_null().to_numpy()[facts.row]
    short = np.flatnonzero(facts.finished & group & (reached != climbs.search.rungs))
    most = climbs.search.rungs
    blame(check, facts, short, lambda j: f"is done, and went on from {reached[j]} rungs of {most}")
    stray = np.flatnonzero(~group & (np.bincount(climbs.job, minlength=facts.row.size) > 0))
    blame(check, facts, stray, "is at a rung, and no trial")
    return bool(bad.any() or short.size or stray.size)


def loss(seed: int, job_id: str, part: float) -> float:
    """The loss of a trial that has done a part of its work, as docs/searches.md says it."""
    state = 0xCBF29CE484222325
    for byte in (job_id + ":loss").encode():
        state = (state ^ byte) * 0x100000001B3 & _MASK
    own = _mix(state + (seed + 1) * _GOLDEN)
    u, v, w = ((_mix(own + step * _GOLDEN) >> 11) / 2.0**53 for step in (1, 2, 3))
    return u + 1.0 / ((0.25 + 0.75 * v) + (1.0 + 99.0 * w) * part)


def _mix(state: int) -> int:
    state &= _MASK
    state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ state >> 27) * 0x94D049BB133111EB) & _MASK
    return state ^ state >> 31


def _check_losses(check: Check, facts: Facts, climbs: rungs.Climbs) -> None:
    seed = int(facts.options.get("seed", 0))
    pairs = zip(climbs.job.tolist(), climbs.rung.tolist(), strict=True)
    right = np.array([loss(seed, facts.id(job), climbs.search.part(at)) for job, at in pairs])
    blame(
        check,
        facts,
        np.flatnonzero(right != climbs.loss),
        lambda i: f"its loss at rung {climbs.rung[i]} is {climbs.loss[i]!r}; expected {right[i]!r}",
        job=climbs.job,
        time=climbs.time,
    )


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
    gone: dict[str, list[float]] = {}
    seen = facts.first_instant(facts.table.frame["submit_time"].to_numpy())
    for row in refused:
        if names[row] is not None:
            gone.setdefault(names[row], []).append(float(seen[row]))
    for name, events in by_name.items():
        due = _followed(facts, climbs, events, gone.get(name, []), sizes[name])
        wrong = np.array([at for at, when in due.items() if not _same(when, climbs.went_on[at])], np.int64)
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


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _followed(
    facts: Facts,
    climbs: rungs.Climbs,
    events: list[tuple[float, int, int]],
    gone: list[float],
    size: int,
) -> dict[int, float]:
    """When each climb of a search should have gone on; NaN for never.

    events: (when, job, climb). gone: when trials were refused.
    """
    levels = [_Level() for _ in range(climbs.search.rungs)]
    ended: set[int] = set()
    at_rung: dict[tuple[int, int], int] = {}
    frame = facts.table.frame
    level_of = frame["priority"].fill_null(0).to_numpy() if "priority" in frame.columns else None
    # Completions and rungs come before arrivals, and so before refusals: they are judged apart.
    moments = sorted({(when, 0) for when, _, _ in events} | {(when, 1) for when in gone})
    waiting = deque(sorted(events))
    for when, kind in moments:
        if kind == 1:
            for level in levels:
                level.lost += gone.count(when)
        while kind == 0 and waiting and waiting[0][0] == when:
            _, job, at = waiting.popleft()
            row = int(facts.row[job])
            first = 0.0 if level_of is None else -float(level_of[row])
            fifo = (first, float(facts.submit[job]), float(row))
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


def _check_ends(check: Check, facts: Facts, climbs: rungs.Climbs, eps: Episodes) -> None:
    """A trial that does not go on from a rung at once gives its GPUs back as it comes there."""
    stays = pl.DataFrame({"job": eps.job, "time": eps.end}).unique()
    came = pl.DataFrame({"job": climbs.job, "time": climbs.time, "at": np.arange(climbs.job.size)})
    lost = came.filter(pl.Series(climbs.left)).join(stays, on=["job", "time"], how="anti")["at"].to_numpy()
    blame(
        check,
        facts,
        lost,
        lambda i: f"comes to rung {climbs.rung[i]} at {number(climbs.time[i])} s; expected the end of a stay",
        job=climbs.job,
        time=climbs.time,
    )


def _check_work(check: Check, facts: Facts, climbs: rungs.Climbs, eps: Episodes, parts: Segments) -> None:
    """Between two rungs, and from the last one to the end, a trial does the work that lies between them.

    Trials that a failing server threw back are left out.
    """
    alone = times.measured_rates(facts, eps) if facts.speeds is not None else None
    parts = sharing.slowed(facts, eps, times.progress(facts, eps, parts), alone)
    pieces, leg = _legs(facts, eps, parts, climbs)
    job = eps.job[pieces.episode]
    done, last = _work(facts, eps, pieces)
    legs = climbs.search.rungs + 1
    total = np.bincount(job * legs + leg, done, facts.row.size * legs)
    room = np.zeros(facts.row.size * legs)
    room[job * legs + leg] = last  # pieces are in order of time: that of the last one stays
    if not facts.slots:
        # A leg of no length has no piece: its work takes less time than float64 tells apart.
        fastest = np.zeros(facts.row.size)
        np.maximum.at(fastest, eps.job, _work(facts, eps, at_best(eps))[1])
        room = np.where(np.bincount(job * legs + leg, minlength=room.size), room, np.repeat(fastest, legs))
    fixed = facts.options["model"] == "fixed"
    if fixed:
        whole = facts.table.frame["duration"].to_numpy()[facts.row].astype(np.float64)
    else:
        whole = facts.workload.iterations[facts.row].astype(np.float64)
    share = np.diff([0.0, *(climbs.search.part(rung) for rung in range(legs))])
    wanted = (whole[:, None] * share).ravel()
    slack = RELATIVE * np.repeat(whole, legs)
    if facts.slots:
        bad = (total < wanted - slack) | (total - room >= wanted + slack)
    else:
        # A leg may be too short for the clock: then no piece says how fast the job was there.
        fastest = whole / facts.workload.ideal_run_time[facts.row]
        np.maximum.at(fastest, job, last)
        bad = np.abs(total - wanted) > slack + np.repeat(fastest * 8 * np.spacing(facts.finish), legs)
    known = np.zeros(facts.row.size * legs, dtype=bool)
    known[climbs.job * legs + climbs.rung] = True
    trial = np.bincount(climbs.job, minlength=facts.row.size) > 0
    known[np.flatnonzero(facts.finished & trial) * legs + climbs.search.rungs] = True
    if "failures" in facts.jobs.columns:
        failed = np.ones(facts.row.size, dtype=bool)  # of those that ended nobody tells
        failed[: facts.done] = facts.jobs["failures"].to_numpy() > 0
        known &= ~np.repeat(failed, legs)
    at = np.flatnonzero(bad & known)
    blame(
        check,
        facts,
        at,
        lambda i: (
            f"does {number(total[i])} {'recorded seconds' if fixed else 'iterations'} on its way to"
            f" {'its end' if i % legs == legs - 1 else f'rung {i % legs}'}; expected {number(wanted[i])}"
        ),
        job=np.arange(facts.row.size * legs) // legs,
    )


def _work(facts: Facts, eps: Episodes, parts: Segments) -> tuple[Floats, Floats]:
    """Work done in each part, and what its last slot may yield; with the other clock, work a second."""
    at = parts.episode
    if facts.options["model"] == "fixed":
        held = times.relative_rate(facts, eps.job, times.gpus_held(facts, eps))
        rate = (held * times.speedups(facts, eps))[at]
        rate = rate if parts.slowed is None else rate / parts.slowed
        return parts.length * rate, rate * (facts.slot if facts.slots else 1.0)
    tau = times.taus(facts, eps, parts)
    if not facts.slots:
        return parts.length / tau, 1.0 / tau
    phi = np.floor(facts.slot / tau * (1.0 + 1e-12))
    if facts.speeds is not None:
        return times.measured_work(facts, eps, parts), phi
    return phi * np.rint(parts.length / facts.slot), phi


def _legs(facts: Facts, eps: Episodes, parts: Segments, climbs: rungs.Climbs) -> tuple[Segments, Ints]:
    """The parts, cut at rungs, and how many rungs lie behind each."""
    job = eps.job[parts.episode]
    low = _rungs_behind(climbs, job, parts.start, inclusive=True)
    high = np.maximum(_rungs_behind(climbs, job, parts.end, inclusive=False), low)
    count = high - low + 1
    of = np.repeat(np.arange(job.size), count)
    first = np.cumsum(count) - count
    leg = low[of] + np.arange(of.size) - first[of]
    base = np.searchsorted(climbs.job, job)[of]  # the first climb of each job
    rung_time = np.append(climbs.time, np.inf)
    start = np.where(leg > low[of], rung_time[np.minimum(base + leg - 1, climbs.time.size)], parts.start[of])
    end = np.where(leg < high[of], rung_time[np.minimum(base + leg, climbs.time.size)], parts.end[of])
    slowed = None if parts.slowed is None else parts.slowed[of]
    return Segments(parts.episode[of], start, end, parts.p[of], slowed), leg


def _rungs_behind(climbs: rungs.Climbs, job: Ints, time: Floats, *, inclusive: bool) -> Ints:
    """How many rungs the job of each row had reached before a time, or by then."""
    both = np.concatenate([climbs.job, job]), np.concatenate([climbs.time, time])
    asks = np.repeat([False, True], [climbs.job.size, job.size])
    order = np.lexsort((asks if inclusive else ~asks, both[1], both[0]))
    counted = np.cumsum(~asks[order])
    found = np.empty(asks.size, np.int64)
    found[order] = counted
    return np.asarray(found[climbs.job.size :] - np.searchsorted(climbs.job, job))


def _check_table(check: Check, facts: Facts, climbs: rungs.Climbs) -> None:
    """searches.parquet: counts, GPU-hours and the best trial of each search."""
    told = facts.outcome.searches
    if told is None:
        check.fail("searches.parquet is missing")
        return
    rows = {row["group"]: row for row in told.iter_rows(named=True)}
    expected = dict(_expected(facts, climbs))
    if list(rows) != list(expected):
        check.fail(f"searches.parquet has rows of {len(rows)} searches; expected {len(expected)}")
        return
    for name, figures in expected.items():
        for key, value in figures.items():
            said = rows[name][key]
            numbers = isinstance(value, float) and isinstance(said, float)
            slack = RELATIVE + facts.coarse(key)
            near = numbers and math.isclose(said, value, rel_tol=RELATIVE, abs_tol=slack)
            if said != value and not near:
                check.fail(f"search {name!r}: {key} is {said}; expected {value}")


def _expected(facts: Facts, climbs: rungs.Climbs) -> Iterator[tuple[str, dict[str, Any]]]:
    names = facts.table.frame["group"]
    away = set(dropped(facts).tolist())
    seed, submit = int(facts.options.get("seed", 0)), facts.table.frame["submit_time"]
    job_of = {int(row): job for job, row in enumerate(facts.row)}
    last = {int(job): at for at, job in enumerate(climbs.job)}
    held = np.bincount(facts.a_job, facts.a_held * (facts.a_end - facts.a_start), facts.row.size) / 3600.0
    trials: dict[str, list[int]] = {}
    for row, name in enumerate(names.to_list()):
        if name is None:
            continue
        rows = trials.setdefault(name, [])  # the order of searches is that of the table, dropped rows and all
        if row not in away:
            rows.append(row)
    for name, rows in trials.items():
        if not rows:
            continue
        jobs = [job_of[row] for row in rows if row in job_of]
        first = min(submit[row] for row in rows)
        figures: dict[str, Any] = {
            "trials": len(rows),
            "finished": sum(job < facts.done for job in jobs),
            "submit_time": first,
        }
        if facts.outcome.allocations is not None:
            figures["gpu_hours"] = float(sum(held[job] for job in jobs))
            figures["finish_time"] = max((float(facts.finish[job]) for job in jobs), default=None)
        best: tuple[float, int, float] | None = None
        for job in jobs:
            row = int(facts.row[job])
            if job < facts.done:
                own = (loss(seed, facts.id(job), 1.0), row, float(facts.finish[job]))
            elif job in last:
                own = (float(climbs.loss[last[job]]), row, float(climbs.time[last[job]]))
            else:
                continue
            best = own if best is None else min(best, own)
        if best is not None:
            figures |= {"best_loss": best[0], "time_to_best": best[2] - first}
            figures["best_job_id"] = facts.table.frame["job_id"][best[1]]
        yield name, figures


def merged(facts: Facts, chosen: Bools, rho: Floats) -> tuple[Floats, Ints]:
    """The rho of each job and of each search, whose trials are one job, and the row that stands for it."""
    rows = facts.row[chosen]
    submit, finish = facts.submit[chosen], facts.finish[chosen]
    ideal = facts.workload.ideal_run_time[rows]
    trials: dict[str, list[int]] = {}
    found: list[tuple[int, float]] = []
    for at, name in enumerate(facts.table.frame["group"].gather(rows).to_list()):
        if name is None:
            found.append((int(rows[at]), float(rho[at])))
        else:
            trials.setdefault(name, []).append(at)
    for own in trials.values():
        first = min(submit[own])
        best = max(submit[own] - first + ideal[own])
        found.append((int(rows[own[0]]), float((max(finish[own]) - first) / best)))
    found.sort()
    return np.array([value for _, value in found]), np.array([row for row, _ in found])
