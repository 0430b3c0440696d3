"""What must hold of who held which GPUs, whatever the policy: worked out from a result's tables alone."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ringbco
from cases.case import Case

Span = tuple[float, float]


@dataclass(frozen=True)
class Stay:
    """A stretch of time in which a job held the same GPUs. parts: GPUs by server, less than 1 of a share."""

    start: float
    end: float
    parts: dict[int, float]

    @property
    def gpus(self) -> float:
        return sum(self.parts.values())


def stays_of(outcome: ringbco.Outcome) -> dict[str, list[Stay]]:
    """Of each job, in order of time."""
    assert outcome.allocations is not None
    parts: dict[tuple[str, float, float], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in outcome.allocations.iter_rows(named=True):
        held = row["num_gpus"] if row.get("share") is None else row["share"]
        parts[row["job_id"], row["start_time"], row["end_time"]][row["server"]] += held
    found: dict[str, list[Stay]] = defaultdict(list)
    for (job, start, end), own in sorted(parts.items(), key=lambda each: each[0]):
        found[job].append(Stay(start, end, dict(own)))
    return found


def down(case: Case) -> dict[int, list[Span]]:
    """When each server is down, in the instants of the clock; those that overlap or touch as one."""
    slot = case.options.get("slot") if case.options.get("clock") == "slot" else None
    found: dict[int, list[Span]] = defaultdict(list)
    given = [*case.files.get("outages", ()), *case.files.get("maintenance", ())]
    for row in sorted(given, key=lambda row: row["down_at"]):
        start, end = (boundary(row[name], slot) for name in ("down_at", "up_at"))
        own = found[row["server"]]
        if own and start <= own[-1][1]:
            own[-1] = own[-1][0], max(end, own[-1][1])
        else:
            own.append((start, end))
    return found


def boundary(time: float, slot: float | None) -> float:
    """The first instant of the clock not before a time."""
    if slot is None or math.isinf(time):
        return time
    n = math.floor(time / slot) - 1
    while n * slot < time:
        n += 1
    return n * slot


def check(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """What is wrong: (which rule, how)."""
    stays = stays_of(outcome)
    yield from _servers(case, outcome, stays)
    yield from _gangs(case, stays)
    if case.options["model"] == "fixed":
        yield from _work(case, outcome, stays)


def _servers(case: Case, outcome: ringbco.Outcome, stays: dict[str, list[Stay]]) -> Iterator[tuple[str, str]]:
    """No GPU is held twice, and none of a server that is down."""
    held: dict[int, list[tuple[float, float, float, str]]] = defaultdict(list)
    for job, own in stays.items():
        for stay in own:
            for server, gpus in stay.parts.items():
                held[server].append((stay.start, stay.end, gpus, job))
    if outcome.replicas is not None:
        for row in outcome.replicas.iter_rows(named=True):
            held[row["server"]].append((row["start_time"], row["end_time"], row["num_gpus"], row["service"]))
    spans = down(case)
    for server, rows in held.items():
        for at, *_ in rows:
            there = [row for row in rows if row[0] <= at < row[1]]
            if sum(row[2] for row in there) > case.servers[server]["gpus"] + 1e-9:
                yield "double", f"server {server} at {at!r}: {there}"
        for start, end, _, who in rows:
            for a, b in spans[server]:
                if max(start, a) < min(end, b):
                    yield "down", f"{who} on server {server}, {start!r} to {end!r}; it is down {a!r} to {b!r}"


def _gangs(case: Case, stays: dict[str, list[Stay]]) -> Iterator[tuple[str, str]]:
    """Each stay has a whole gang, after submission, and no job has two at a time."""
    for job in case.jobs:
        own = stays.get(job["job_id"], [])
        asked = job.get("gpu_share") or job["num_gpus"]
        least, most = (job.get(name) or asked for name in ("min_gpus", "max_gpus"))
        for before, stay in zip([None, *own], own, strict=False):
            if not least - 1e-9 <= stay.gpus <= most + 1e-9:
                yield "gang", f"{job['job_id']} holds {stay.gpus} of {least} to {most}: {stay}"
            if stay.start < job["submit_time"] or (before is not None and stay.start < before.end):
                yield "early", f"{job['job_id']}: {stay} after {before}"


def _work(case: Case, outcome: ringbco.Outcome, stays: dict[str, list[Stay]]) -> Iterator[tuple[str, str]]:
    """Model fixed, continuous clock: what stays do, less pauses and what failures took, is what is asked.

    Only of jobs whose stays all had one rate, as pauses and losses are told by job and not by stay.
    """
    if case.options.get("clock") == "slot" or case.options.get("interference"):
        return
    jobs = {job["job_id"]: job for job in case.jobs}
    for row in outcome.jobs.iter_rows(named=True):
        own = stays[row["job_id"]]
        rates = {rate_of(case, jobs[row["job_id"]], stay) for stay in own}
        if len(rates) != 1:
            continue
        held = row["finish_time"] - row["start_time"] if row.get("held_time") is None else row["held_time"]
        spent = sum(stay.end - stay.start for stay in own)
        lost = (row.get("lost_time") or 0.0) + (row.get("lost_work") or 0.0)
        coarse = 16.0 * len(own) * math.ulp(row["finish_time"]) + 1e-9 * spent
        if abs(held - spent) > coarse:
            yield "held", f"{row['job_id']} held GPUs for {held!r}; its stays are {spent!r}"
        started = case.options.get("start_cost", 0.0) if row.get("lost_time") is None else 0.0
        done = (spent - started - lost) * rates.pop()
        done -= row.get("run_cut") or 0.0  # its limit left so much undone
        if abs(done - row_work(jobs[row["job_id"]])) > coarse * 8.0:
            yield "work", f"{row['job_id']} did {done!r} of {row_work(jobs[row['job_id']])!r}"


def row_work(job: dict[str, Any]) -> float:
    return float(job["duration"])


def rate_of(case: Case, job: dict[str, Any], stay: Stay) -> float:
    """Recorded seconds a second under model fixed."""
    asked, held = job["num_gpus"], stay.gpus if not job.get("gpu_share") else 1.0
    scale, batch = job.get("noise_scale"), job.get("batch_size") or 1
    worth = 1.0 if scale is None else (scale + asked * batch) / (scale + held * batch)
    rate = held / asked * worth
    named = [server.get("gpu_type") for server in case.servers]
    if named[0] is None:
        return float(rate)
    listed = [name for name in (job.get("gpu_type") or "").split("|") if name in named]
    recorded = job.get("recorded_on") or (listed or named)[0]
    return float(rate * case.speed(job, named[next(iter(stay.parts))]) / case.speed(job, recorded))
