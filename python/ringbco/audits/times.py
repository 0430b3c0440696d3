"""Times: nobody early, slots kept, run times equal to the work done under the contention met (eq. 6 to 9)."""

from __future__ import annotations

import numpy as np
import polars as pl

from ringbco.audits import failures, sharing
from ringbco.audits.contention import Episodes, Segments, at_best
from ringbco.audits.facts import Bools, Facts, Floats, Ints
from ringbco.audits.findings import Check, blame, number
from ringbco.trace import profiles

RELATIVE = 1e-9
"""How far the iterations done may be from F_j, relative to F_j (continuous clock)."""


def check_starts(check: Check, facts: Facts) -> None:
    """Nobody starts before it was submitted."""
    check.looked_at = facts.start.size
    bad = np.flatnonzero(facts.start < facts.submit)
    blame(
        check,
        facts,
        bad,
        lambda j: f"started, submitted only at {number(facts.submit[j])} s",
        time=facts.start,
    )


def check_slots(check: Check, facts: Facts) -> None:
    """Slot clock: starts and finishes are multiples of the slot."""
    if not facts.slots:
        check.not_run = "the clock is continuous"
        return
    check.looked_at = 2 * facts.start.size
    for name, times in (("start", facts.start), ("finish", facts.finish)):
        bad = np.flatnonzero(np.rint(times / facts.slot) * facts.slot != times)
        said = f"its {name} is not a multiple of the slot, {number(facts.slot)} s"
        blame(check, facts, bad, said, time=times)


def check_run_times(check: Check, facts: Facts, eps: Episodes, parts: Segments) -> None:
    """A job ends when its work is done, and not before.

    rar: the integral of 1/tau over its run is F_j; in slots, the sum of phi reaches F_j in its last slot.
    fixed: it runs for its recorded duration, in slots rounded up. A job that was preempted makes no progress
    in the first preempt_cost seconds (in slots, rounded up) of each run but its first, and in the first
    start_cost seconds of that, and wake_time longer where a server was asleep. Each of its GPUs computes as
    fast as its type says; with n shares on one each takes 1 + interference (n - 1) times as long, or what
    was measured of two side by side.
    """
    n = facts.start.size
    placed = np.zeros(n, dtype=bool)
    placed[eps.job] = True
    if facts.searched:  # those of trials are checked from rung to rung
        placed &= facts.table.frame["group"].is_null().to_numpy()[facts.row]
    check.looked_at = int(placed.sum())
    alone = measured_rates(facts, eps) if facts.speeds is not None else None
    parts = sharing.slowed(facts, eps, progress(facts, eps, parts), alone)
    if facts.options["model"] == "fixed":
        _fixed(check, facts, eps, parts, placed)
    elif facts.speeds is not None and facts.slots:
        _measured_slots(check, facts, eps, parts, placed)
    elif facts.slots:
        _rar_slots(check, facts, eps, parts, placed)
    else:
        _rar_continuous(check, facts, eps, parts, placed)


def pauses(facts: Facts, eps: Episodes) -> Floats:
    """Seconds at the beginning of each episode in which its job holds GPUs without progress.

    A job's first has the start cost. Others were moved, resized or resumed, as stays.parquet says. One that
    wakes a server waits for it, too.
    """

    again = np.zeros(eps.job.size, dtype=bool)
    again[1:] = eps.job[1:] == eps.job[:-1]  # episodes are sorted by job, then time
    moved, changed = _moved(facts, eps)
    cost = np.where(moved, _seconds(facts, "move_cost"), _seconds(facts, "preempt_cost"))
    cost = np.where(moved & changed, _seconds(facts, "resize_cost"), cost)
    cost = np.where(again, cost, facts.start_cost)
    if facts.sleep is not None:
        cost = cost + np.where(facts.sleep.wakes(eps), facts.sleep.wake_time, 0.0)
    return _to_slots(facts, cost)


def resize_pauses(facts: Facts, eps: Episodes) -> tuple[Bools, Floats]:
    """Which episodes began as their job was resized, and the seconds of each in which it pauses for that."""
    moved, changed = _moved(facts, eps)
    resized = moved & changed & (eps.job == np.roll(eps.job, 1))
    cost = _to_slots(facts, np.where(resized, _seconds(facts, "resize_cost"), 0.0))
    return resized, np.minimum(eps.end - eps.start, cost)


def _moved(facts: Facts, eps: Episodes) -> tuple[Bools, Bools]:
    """Which episodes begin as the one before ends by a decision, and which hold another number of GPUs."""
    if facts.stays is None:
        moved, changed = np.zeros((2, eps.job.size), dtype=bool)
        return moved, changed
    changed = facts.stays.began(eps, "resized")
    return facts.stays.began(eps, "moved") | changed, changed


def _seconds(facts: Facts, option: str) -> float:
    cost = facts.options.get(option)
    return float(facts.options.get("preempt_cost", 0.0) if cost is None else cost)


def _to_slots(facts: Facts, cost: Floats) -> Floats:
    to_the_second = not facts.slots or facts.speeds is not None
    return cost if to_the_second else np.ceil(cost / facts.slot) * facts.slot


def progress(facts: Facts, eps: Episodes, parts: Segments) -> Segments:
    """The segments without the time in which resumed jobs pause, and without work that was lost."""
    if not facts.preemptive and not facts.pauses_at_start:
        return parts
    begin = eps.start + pauses(facts, eps)
    end = parts.end
    if facts.outages is not None:
        end = np.minimum(end, failures.losses(facts, eps, begin).until[parts.episode])
    begin = np.maximum(begin[parts.episode], parts.start)
    kept = end > begin
    return Segments(parts.episode[kept], begin[kept], end[kept], parts.p[kept])


def gpus_held(facts: Facts, eps: Episodes) -> Ints:
    """GPUs that each episode's job holds: what it asks for, unless it may hold others."""
    return eps.gpus if facts.elastic else facts.num_gpus[eps.job]


def relative_rate(facts: Facts, job: Ints, gpus: Ints) -> Floats:
    """How fast so many GPUs do a job's work beside all that it asks for: (w / G) E(w) of the model's page."""
    asked = facts.num_gpus[job]
    share = gpus / asked
    frame = facts.table.frame
    if not facts.elastic or "noise_scale" not in frame.columns:
        return np.asarray(share)
    phi = frame["noise_scale"].fill_null(np.inf).to_numpy()[facts.row[job]]
    batch = np.ones(frame.height)
    if "batch_size" in frame.columns:
        batch = frame["batch_size"].fill_null(1).cast(pl.Float64).to_numpy()
    batch = batch[facts.row[job]]
    with np.errstate(invalid="ignore"):
        efficiency = (phi + asked * batch) / (phi + gpus * batch)
    return np.where(np.isinf(phi), share, share * efficiency)


def speedups(facts: Facts, eps: Episodes) -> Floats:
    """How fast each episode computes beside the type recorded on; 1 where all GPUs are alike."""
    if facts.types is None:
        return np.ones(eps.job.size)
    first, _ = facts.types.of_episodes(eps.pair_episode, eps.pair_server, eps.job.size)
    return np.nan_to_num(facts.types.speedup[facts.row[eps.job], first], nan=1.0)


def taus(facts: Facts, eps: Episodes, parts: Segments) -> Floats:
    """Iteration time of every segment, s."""
    at = parts.episode
    if facts.speeds is not None:
        tau = (1.0 / measured_rates(facts, eps))[at]
    else:
        held, speedup = gpus_held(facts, eps)[at], speedups(facts, eps)[at]
        tau = iteration_time(facts, eps.job[at], held, eps.servers[at], parts.p, speedup=speedup)
    return tau if parts.slowed is None else tau * parts.slowed


def measured_rates(facts: Facts, eps: Episodes) -> Floats:
    """Iterations a second of every episode, under model `table`."""
    assert facts.speeds is not None, "model table"
    assert facts.types is not None, "servers name GPU types"
    first, _ = facts.types.of_episodes(eps.pair_episode, eps.pair_server, eps.job.size)
    rate = facts.speeds.rate(facts.row[eps.job], first, gpus_held(facts, eps), eps.servers)
    return np.nan_to_num(rate)


def measured_work(facts: Facts, eps: Episodes, parts: Segments) -> Floats:
    """Iterations that every segment does, under model `table`."""
    assert facts.speeds is not None, "model table"
    slot, rate = facts.slot if facts.slots else None, measured_rates(facts, eps)[parts.episode]
    return facts.speeds.done(parts.length, rate if parts.slowed is None else rate / parts.slowed, slot)


def iteration_time(
    facts: Facts,
    job: Ints,
    gpus: Ints,
    servers: Ints,
    p: Ints | None = None,
    *,
    speedup: Floats | float = 1.0,
) -> Floats:
    """Seconds that an iteration takes on so many GPUs of so many servers, without `p` alone on its links.

    On fewer GPUs than asked for an iteration takes several turns, on more it takes less than one, as E(w)
    says. `speedup`: how fast they compute beside those that the job was recorded on.
    """
    row = facts.row[job]
    once = profiles.iteration_time(
        gpus.astype(np.uint32),
        facts.workload.gradient_bytes[row],
        facts.workload.compute_time[row] / speedup,
        servers.astype(np.uint32),
        facts.cluster.network,
        contention=None if p is None else p.astype(np.uint32),
    )
    return np.asarray(once / relative_rate(facts, job, gpus))


def _fixed(check: Check, facts: Facts, eps: Episodes, parts: Segments, placed: Bools) -> None:
    duration = facts.table.frame["duration"].to_numpy()[facts.row]
    start = facts.start
    if facts.elastic or facts.types is not None or parts.slowed is not None or not facts.finished.all():
        _fixed_shares(check, facts, eps, parts, placed)
        return
    if facts.preemptive or facts.pauses_at_start:
        # As if it had run without a break: all its time in progress, up to its finish.
        done = np.bincount(eps.job[parts.episode], weights=parts.length, minlength=start.size)
        start = facts.finish - done
    if facts.slots:
        expected = start + np.ceil(duration / facts.slot) * facts.slot
        bad = np.rint((facts.finish - expected) / facts.slot) != 0
    else:
        expected = start + duration
        bad = np.abs(facts.finish - expected) > 1e-9 * np.abs(expected)
    blame(
        check,
        facts,
        np.flatnonzero(bad & placed),
        lambda j: f"finishes; expected {number(expected[j])} s",
        time=facts.finish,
    )


def _fixed_shares(check: Check, facts: Facts, eps: Episodes, parts: Segments, placed: Bools) -> None:
    """Work counts recorded seconds, of which a job on half of its GPUs does half a one a second, times E."""
    n = facts.start.size
    job = eps.job[parts.episode]
    rate = (relative_rate(facts, eps.job, gpus_held(facts, eps)) * speedups(facts, eps))[parts.episode]
    if parts.slowed is not None:
        rate = rate / parts.slowed
    wanted = facts.table.frame["duration"].to_numpy()[facts.row]
    length, unit = parts.length, 1.0
    if facts.slots:  # counted in slots, as the engine does
        length, unit = np.rint(length / facts.slot), facts.slot
    work = wanted / unit
    done = np.bincount(job, weights=length * rate, minlength=n)
    if facts.slots:
        # The last slot has room for more than was left to do.
        room, whole = np.zeros(n), np.ones(n, dtype=bool)
        room[job] = rate
        whole[job[rate != np.floor(rate)]] = False
        # Sums of whole numbers are exact. Others count if they fall short by 1e-12, but for those of which so
        # small a part of a slot is left over: whether their sums are known to a rounding decides.
        slack = np.where(whole, 0.0, 2e-12 * work)
        over = work - np.floor(work)
        late = done - room >= work - np.where((over > 0.0) & (over < slack), -slack, slack / 4)
    else:
        slack = RELATIVE * work + 8 * np.spacing(facts.finish)
        late = done > work + slack
    bad = np.where(facts.finished, (done < work - slack) | late, done > work + slack)
    _blame_work(check, facts, bad & placed, np.asarray(done * unit), wanted)


def _rar_continuous(check: Check, facts: Facts, eps: Episodes, parts: Segments, placed: Bools) -> None:
    n = facts.start.size
    job = eps.job[parts.episode]
    tau = taus(facts, eps, parts)
    done = np.bincount(job, weights=parts.length / tau, minlength=n)
    wanted = facts.workload.iterations[facts.row].astype(np.float64)
    shortest = np.full(n, np.inf)
    np.minimum.at(shortest, job, tau)
    if np.isinf(shortest[placed]).any():  # of a job of no length no part is left
        np.minimum.at(shortest, eps.job, taus(facts, eps, at_best(eps)))
    # Times are float64: near the end of a long trace they are only so fine.
    tolerance = RELATIVE * wanted + 8 * np.spacing(facts.finish) / shortest
    bad = np.where(facts.finished, np.abs(done - wanted) > tolerance, done > wanted + tolerance)
    _blame_work(check, facts, bad & placed, done, wanted)


def _blame_work(check: Check, facts: Facts, bad: Bools, done: Floats | Ints, wanted: Floats | Ints) -> None:
    """Blames the jobs that did too little or too much until their finish."""
    units = "recorded seconds" if facts.options["model"] == "fixed" else "iterations"

    def said(job: int) -> str:
        ended, most = ("finishes", "") if job < facts.done else ("is ended", "less than ")
        return (
            f"{ended} after {number(facts.finish[job] - facts.start[job])} s with {number(done[job])} {units}"
            f" done under the contention it met; expected {most}{number(wanted[job])}"
        )

    blame(check, facts, np.flatnonzero(bad), said, time=facts.finish)


def _rar_slots(check: Check, facts: Facts, eps: Episodes, parts: Segments, placed: Bools) -> None:
    n = facts.start.size
    job = eps.job[parts.episode]
    phi = np.floor(facts.slot / taus(facts, eps, parts) * (1.0 + 1e-12))
    slots = np.rint(parts.length / facts.slot)
    wanted = facts.workload.iterations[facts.row].astype(np.int64)
    # No job needs more in a slot than all its iterations; with that the sums below stay exact unless a result
    # is absurd, and then float64 is near enough to show it.
    phi = np.minimum(phi, wanted[job].astype(np.float64))
    exact = phi * slots
    if exact.size and exact.max() > 2.0**62:
        exact = np.minimum(exact, 2.0**62)
    done = np.zeros(n, dtype=np.int64)
    np.add.at(done, job, exact.astype(np.int64))
    # Segments are sorted by job and time: the last one written stays.
    last = np.zeros(n, dtype=np.int64)
    last[job] = phi.astype(np.int64)
    bad = np.where(facts.finished, (done < wanted) | (done - last >= wanted), done >= wanted)
    _blame_work(check, facts, bad & placed, done, wanted)


def _measured_slots(check: Check, facts: Facts, eps: Episodes, parts: Segments, placed: Bools) -> None:
    """The slot in which a pause ends yields what fits in its rest."""
    n = facts.start.size
    job = eps.job[parts.episode]
    whole = measured_work(facts, eps, parts)
    wanted = facts.workload.iterations[facts.row].astype(np.float64)
    done = np.bincount(job, whole, n)
    # What the last slot yields: a segment's last slot is whole unless there is no other.
    last = np.zeros(n)
    phi = np.floor(facts.slot / taus(facts, eps, parts) * (1.0 + 1e-12))
    last[job] = np.minimum(phi, whole)
    bad = np.where(facts.finished, (done < wanted) | (done - last >= wanted), done >= wanted)
    _blame_work(check, facts, bad & placed, done, wanted)


def check_contention(check: Check, facts: Facts, eps: Episodes, parts: Segments, reported: Ints) -> None:
    """max_contention is the largest p_j that the allocations imply."""
    n = facts.start.size
    worst = np.zeros(n, dtype=np.int64)
    np.maximum.at(worst, eps.job[parts.episode], parts.p)
    instant = np.zeros(n, dtype=bool)
    instant[eps.job[eps.end <= eps.start]] = True
    worst, instant = worst[: facts.done], instant[: facts.done]
    bad = reported != worst
    if instant.any():
        # Jobs too short for float64 share servers for no time at all: no sweep over time can see it.
        bad = (reported < worst) & ~instant
    check.looked_at = facts.done
    at = np.flatnonzero(bad)
    blame(check, facts, at, lambda j: f"max_contention is {reported[j]}; expected {worst[j]}")
