"""Why a job took as long as it did: each cause of its wait and its run, held_time and lost_time, again."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.audits import rungs
from ringbco.audits.contention import Episodes, Segments
from ringbco.audits.facts import Facts, Floats, Ints, policy_is
from ringbco.audits.findings import Check, blame, number
from ringbco.audits.idling import any_idle_will_do, decided, obstacles
from ringbco.audits.ranking import places
from ringbco.audits.rows import PARTS_RELATIVE, PARTS_SECONDS, compare, numeric
from ringbco.audits.times import (
    gpus_held,
    iteration_time,
    measured_work,
    pauses,
    progress,
    relative_rate,
    speedups,
    taus,
)
from ringbco.trace import profiles

_WAITS: Final = ("wait_gpus", "wait_fragmented")
_RUNS: Final = ("run_spread", "run_contention")
_HELD: Final = 1e-9
"""How far held_time and lost_time may be from the stretches, relative; they are sums of float64 times."""


def check_held(check: Check, facts: Facts, jobs: pl.DataFrame, eps: Episodes) -> None:
    """held_time is the time in a job's stretches; lost_time what of it went into resuming."""
    paused = facts.preemptive or facts.pauses_at_start
    if not paused or not {"held_time", "lost_time"} <= set(jobs.columns):
        check.not_run = "the result does not say" if paused else "the policy preempts nobody"
        return
    check.looked_at = facts.done
    held, lost = held_and_lost(facts, eps)
    resolution = 4 * np.spacing(facts.finish) * np.bincount(eps.job, minlength=facts.start.size)
    expected = {"held_time": held, "lost_time": lost}
    if facts.elastic:
        gpus = gpus_held(facts, eps) * (facts.weight / facts.num_gpus)[eps.job]
        times = (eps.end - eps.start, np.minimum(eps.end - eps.start, pauses(facts, eps)))
        for name, seconds in zip(("held_gpu_time", "lost_gpu_time"), times, strict=True):
            expected[name] = np.bincount(eps.job, gpus * seconds, facts.start.size).astype(np.float64)
        resolution = resolution * np.maximum(facts.most, 1)
    for name, values in expected.items():
        compare(check, facts, numeric(jobs, name), values, _HELD * values + resolution)


def held_and_lost(facts: Facts, eps: Episodes) -> tuple[Floats, Floats]:
    """Seconds that each job held GPUs, and those without progress: the first of every run but its first."""
    n, length = facts.start.size, eps.end - eps.start
    idle = np.minimum(length, pauses(facts, eps))
    if not facts.preemptive and not facts.pauses_at_start:
        idle = np.zeros(length.size)
    held: Floats = np.bincount(eps.job, length, n).astype(np.float64)
    lost: Floats = np.bincount(eps.job, idle, n).astype(np.float64)
    return held, lost


def check_causes(check: Check, facts: Facts, jobs: pl.DataFrame, eps: Episodes, parts: Segments) -> None:
    """Each cause of a wait follows from who was idle when; each of a run from its servers and contention."""
    if not {*_WAITS, *_RUNS} <= set(jobs.columns):
        check.not_run = "the result does not say"
        return
    check.looked_at = facts.done
    held, lost = held_and_lost(facts, eps)
    ran, wait = held - lost, (facts.finish - facts.submit) - held
    resolution = 4 * np.spacing(np.maximum(np.abs(facts.finish), np.abs(facts.submit)))
    job, since, until = _waits(facts, eps)
    few, apart, known = obstacles(facts, job, since, until)
    few, apart = (np.bincount(job, seconds, wait.size).astype(np.float64) for seconds in (few, apart))
    known = known[: wait.size]
    if facts.planned:
        turn = _turns(facts)
        apart = (facts.start - turn) - obstacles(facts, np.arange(turn.size), turn, facts.start)[0]
        known[:] = True
    tolerance = PARTS_RELATIVE * wait + PARTS_SECONDS + resolution
    compare(check, facts, numeric(jobs, "wait_gpus"), few, tolerance)
    tolerance = np.where(known, tolerance, np.inf)
    compare(check, facts, numeric(jobs, "wait_fragmented"), apart, tolerance)

    tolerance = PARTS_RELATIVE * ran + PARTS_SECONDS + resolution
    if facts.elastic:
        resized = _resized(facts, eps, parts)
        tolerance = tolerance + PARTS_RELATIVE * np.abs(resized)
        compare(check, facts, numeric(jobs, "run_resized"), resized, tolerance)
        ran = ran - resized
    if facts.types is not None:
        on_type = _on_type(facts, eps, parts)
        tolerance = tolerance + PARTS_RELATIVE * np.abs(on_type)
        compare(check, facts, numeric(jobs, "run_on_type"), on_type, tolerance)
        ran = ran - on_type
    spread, contention = _longer(facts, jobs, eps, parts, ran)
    compare(check, facts, numeric(jobs, "run_spread"), spread, tolerance)
    compare(check, facts, numeric(jobs, "run_contention"), contention, tolerance)


def _turns(facts: Facts) -> Floats:
    """From when on theta kept a job of a plan waiting: the start of the one before it in the order."""
    if facts.options.get("dispatch") == "reserve":
        return np.zeros(facts.start.size)
    order = np.argsort(places(facts, np.arange(facts.start.size)).young)
    turn = np.zeros(order.size)
    turn[order[1:]] = facts.start[order[:-1]]
    return turn


def _waits(facts: Facts, eps: Episodes) -> tuple[Ints, Floats, Floats]:
    """Every wait: whose, from when, until when. Those for a first start come first, one a job."""
    first: Ints = np.arange(facts.start.size)
    if not facts.preemptive:
        return first, facts.arrival(), facts.start
    again = np.flatnonzero(eps.job[1:] == eps.job[:-1])
    rests = rungs.rests(facts, eps)
    back = np.where(np.isnan(rests), eps.end, rests)
    return (
        np.concatenate([first, eps.job[again]]),
        np.concatenate([facts.arrival(), back[again]]),
        np.concatenate([facts.start, eps.start[again + 1]]),
    )


def _longer(
    facts: Facts, jobs: pl.DataFrame, eps: Episodes, parts: Segments, ran: Floats
) -> tuple[Floats, Floats]:
    """run_spread and run_contention as docs/results.md defines them."""
    longer = ran - facts.workload.ideal_run_time[facts.row]
    if facts.options["model"] != "rar":
        return longer, np.zeros(longer.size)
    held = gpus_held(facts, eps)
    slower = iteration_time(facts, eps.job, held, eps.servers) - iteration_time(
        facts, eps.job, held, _fewest(facts, eps.job, held)
    )
    slower *= _iterations(facts, eps, parts)
    spread: Floats = np.bincount(eps.job, slower, longer.size).astype(np.float64)
    # k = max(1, xi1 p): with k = 1 exactly nobody lost anything to contention.
    contended = facts.cluster.network.xi1 * jobs["max_contention"].to_numpy() > 1
    spread, longer = spread[: contended.size], longer[: contended.size]
    spread = np.where(contended, spread, longer)
    return spread, longer - spread


def _resized(facts: Facts, eps: Episodes, parts: Segments) -> Floats:
    """run_resized: what its work took longer on other GPUs than it asks for, both on the fewest servers."""
    held, asked = gpus_held(facts, eps), facts.num_gpus[eps.job]
    if facts.options["model"] == "fixed":
        parts = progress(facts, eps, parts)
        share = relative_rate(facts, eps.job, held) * speedups(facts, eps)
        done: Floats = np.bincount(parts.episode, parts.length, eps.job.size).astype(np.float64) * share
        _cap_last(facts, eps, done, facts.table.frame["duration"].to_numpy()[facts.row])
        slower = done * (1.0 / share - 1.0 / speedups(facts, eps))
    elif facts.speeds is not None:
        of = _types_of(facts, eps)
        slower = _alone(facts, eps, of, held) - _alone(facts, eps, of, asked)
        slower *= _iterations(facts, eps, parts)
    else:
        speedup = speedups(facts, eps)
        slower = iteration_time(facts, eps.job, held, _fewest(facts, eps.job, held), speedup=speedup)
        slower -= iteration_time(facts, eps.job, asked, _fewest(facts, eps.job, asked), speedup=speedup)
        slower *= _iterations(facts, eps, parts)
    longer: Floats = np.bincount(eps.job, np.where(held == asked, 0.0, slower), facts.start.size).astype(
        np.float64
    )
    return longer


def _on_type(facts: Facts, eps: Episodes, parts: Segments) -> Floats:
    """run_on_type: what its work took longer on other types than it was recorded on."""
    speedup = speedups(facts, eps)
    if facts.options["model"] == "fixed":
        parts = progress(facts, eps, parts)
        rate = relative_rate(facts, eps.job, gpus_held(facts, eps)) * speedup
        done: Floats = np.bincount(parts.episode, parts.length, eps.job.size).astype(np.float64) * rate
        _cap_last(facts, eps, done, facts.table.frame["duration"].to_numpy()[facts.row])
        slower = done * (1.0 / speedup - 1.0)
    elif facts.speeds is not None:
        asked, recorded = facts.num_gpus[eps.job], facts.speeds.reference[facts.row[eps.job]]
        slower = _alone(facts, eps, _types_of(facts, eps), asked) - _alone(facts, eps, recorded, asked)
        slower *= _iterations(facts, eps, parts)
    else:
        compute = facts.workload.compute_time[facts.row[eps.job]]
        slower = (compute / speedup - compute) * _iterations(facts, eps, parts)
    longer: Floats = np.bincount(eps.job, slower, facts.start.size).astype(np.float64)
    return longer


def _types_of(facts: Facts, eps: Episodes) -> Ints:
    """The GPU type of each episode."""
    assert facts.types is not None, "servers name GPU types"
    return facts.types.of_episodes(eps.pair_episode, eps.pair_server, eps.job.size)[0]


def _alone(facts: Facts, eps: Episodes, gpu_type: Ints, gpus: Ints) -> Floats:
    """Seconds an iteration was measured to take on so many GPUs of a type, on the fewest servers."""
    assert facts.speeds is not None, "model table"
    rate = facts.speeds.rate(facts.row[eps.job], gpu_type, gpus, _fewest(facts, eps.job, gpus))
    return 1.0 / rate


def _fewest(facts: Facts, job: Ints, gpus: Ints) -> Ints:
    """The fewest servers of its (virtual) cluster that hold so many GPUs: the largest ones first."""
    fewest = np.zeros(job.size, np.int64)
    for vc in np.unique(facts.vc[job]).tolist():
        mine = facts.vc[job] == vc
        sizes = facts.cluster.server_gpus[facts.server_vc == vc]
        fewest[mine] = profiles.fewest_servers(gpus[mine].astype(np.uint32), sizes)
    return fewest


def _iterations(facts: Facts, eps: Episodes, parts: Segments) -> Floats:
    """How many iterations each episode did."""
    parts = progress(facts, eps, parts)
    if facts.speeds is not None:
        work = measured_work(facts, eps, parts)
    else:
        rate = 1.0 / taus(facts, eps, parts)
        if facts.slots:
            rate = np.floor(facts.slot * rate * (1.0 + 1e-12)) / facts.slot
        work = parts.length * rate
    done: Floats = np.bincount(parts.episode, work, eps.job.size).astype(np.float64)
    _cap_last(facts, eps, done, facts.workload.iterations[facts.row])
    return done


def _cap_last(facts: Facts, eps: Episodes, done: Floats, whole: NDArray[Any]) -> None:
    """A job's last slot has room for more than was left of its work to do: its last episode did just that."""
    last = np.flatnonzero(np.append(eps.job[1:] != eps.job[:-1], eps.job.size > 0))
    last = last[eps.job[last] < facts.done]
    done[last] -= np.bincount(eps.job, done, facts.start.size)[eps.job[last]]
    done[last] += whole[eps.job[last]]


def check_nobody_waits_in_vain(check: Check, facts: Facts, eps: Episodes) -> None:
    """Where a pass tries every waiting job, none goes on waiting at a moment when it could be placed.

    That holds of the discipline `skip` and, where any idle GPUs will do, of the policies that preempt at
    arrivals and completions: who is not selected does not fit in what the selected ones leave.
    """
    # A job that loses its GPUs of one type waits for the next pass, though those of another may be idle.
    ranked = policy_is(facts.options, "ranks") and not policy_is(facts.options, "at intervals")
    if facts.preemptive and not (ranked and facts.types is None and any_idle_will_do(facts)):
        return
    if not facts.preemptive and not (facts.options["queue"] == "skip" and decided(facts)):
        return
    check.looked_at, check.not_run = facts.start.size, None
    job, since, until = _waits(facts, eps)
    few, apart, _ = obstacles(facts, job, since, until)
    vain = (until - since) - few - apart
    slack = 1e-9 * (until - since) + 1e-6 + 64 * np.spacing(until)
    bad = np.flatnonzero(vain > slack)
    blame(
        check,
        facts,
        bad,
        lambda i: (
            f"waits until {number(until[i])} s, for {number(vain[i])} s of that though its"
            f" {facts.num_gpus[job[i]]} GPUs could be placed"
        ),
        job=job,
        time=since,
    )
