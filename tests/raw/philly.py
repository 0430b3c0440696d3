"""Philly: cluster_job_log, one JSON array."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from raw import Raw, clock, in_order, plan

START = "2017-08-07 10:00:00"
STATUSES = ("Pass", "Killed", "Failed")
UNKNOWN = "status is not one of a job that ended"
STILL = "{} still running when the log was cut, or its end not recorded (no end_time)"
START_MISSING = "start_time missing or unreadable"
NO_GPUS = "no GPUs recorded"
PARTLY = "attempts without a start or an end left out of the sum"
NEVER = "never ran (no attempt)"
FORM = "not in the published form"
TWICE = "jobid occurred before"
REVERSED = "ends before it starts (end_time < start_time)"
LOST = "the job before it was left out: after is empty"
ZERO = "ran for no time (end_time = start_time)"
SOON = "starts before it is submitted (start_time < submitted_time)"

# Defects of a job that keep it out whatever the mode.
ALWAYS = {
    "empty": NEVER,
    "null attempts": NEVER,
    "odd status": UNKNOWN,
    "no status": UNKNOWN,
    "no id": "no jobid",
    "no submit": "submitted_time missing or unreadable",
    "None submit": "submitted_time missing or unreadable",
    "wrong type": FORM,
    "not an object": FORM,
    "twice": TWICE,
}


def make_job(
    rng: random.Random, number: int, attempts: int | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A sound job as published, and what comes of it: seconds of submission and of every attempt, GPUs."""
    submit = rng.randrange(100 * 86_400)
    expected: dict[str, Any] = {"submit": submit, "attempts": []}
    published, now = [], submit
    for _ in range(attempts or rng.choice([1, 1, 1, 2, 3])):
        start = now + rng.randrange(1, 500)
        now = start + rng.randrange(1, 90_000)
        hosts = rng.choice([[1], [2], [8], [8, 8], [4, 2]])
        expected["attempts"].append((start, now, sum(hosts)))
        published.append(
            {
                "start_time": clock(START, start),
                "end_time": clock(START, now),
                "detail": [
                    {"ip": f"m{rng.randrange(500)}", "gpus": [f"gpu{g}" for g in range(count)]}
                    for count in hosts
                ],
            }
        )
    job = {
        "status": rng.choice(STATUSES),
        "vc": rng.choice(["6214e9", "ee9e8c", "795a4c"]),
        "jobid": f"application_{number:06d}",
        "attempts": published,
        "submitted_time": clock(START, submit),
        "user": rng.choice(["ce2f4c", None, "a1b2c3"]),
    }
    return job, expected


def _rows(mode: str, expected: dict[str, Any]) -> list[tuple[int, int, int]]:
    """(submitted, seconds run, GPUs) of a sound job's rows."""
    attempts = expected["attempts"]
    if mode == "span":
        return [(expected["submit"], attempts[-1][1] - attempts[0][0], attempts[0][2])]
    if mode == "sum":
        return [(expected["submit"], sum(e - s for s, e, _ in attempts), max(g for *_, g in attempts))]
    if mode == "last":
        return [(expected["submit"], attempts[-1][1] - attempts[-1][0], attempts[-1][2])]
    return [(expected["submit"], e - s, g) for s, e, g in attempts]


def generate(mode: str = "span", seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A log of `good` sound jobs and `each` of every defect, converted under `mode`."""
    rng = random.Random(seed)
    per_attempt = {
        "running": STILL.format("attempt" if mode == "split" else "job"),
        "None end": STILL.format("attempt" if mode == "split" else "job"),
        "first start": START_MISSING,
        "no gpus": NO_GPUS,
        "reversed": REVERSED if mode != "sum" else "an attempt ends before it starts",
        "zero": ZERO if mode != "sum" else "ran for no time (its attempts last 0 s)",
        "soon": SOON,
    }
    entries: list[Any] = []
    jobs: list[dict[str, Any]] = []
    dropped: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    noted: Counter[str] = Counter()
    rows_read = 0
    for number, kind in enumerate(["", *plan(rng, good - 1, [*ALWAYS, *per_attempt, "middle"], each)]):
        if kind in ("first start", "middle"):
            job, expected = make_job(rng, number, 3)
        elif kind in per_attempt:
            job, expected = make_job(rng, number, 1)
        else:
            job, expected = make_job(rng, number)
        rows = _rows(mode, expected)
        attempts = job["attempts"]
        only = attempts[0]
        if kind == "empty":
            job["attempts"] = []
        elif kind == "null attempts":
            job["attempts"] = None
        elif kind == "odd status":
            job["status"] = "Running"
        elif kind == "no status":
            del job["status"]
        elif kind == "no id":
            job["jobid"] = None
        elif kind == "no submit":
            job["submitted_time"] = None
        elif kind == "None submit":
            job["submitted_time"] = "None"
        elif kind == "wrong type":
            job["attempts"] = "three"
        elif kind == "twice":
            job["jobid"], job["attempts"] = entries[0]["jobid"], attempts[:1]
        elif kind == "running":
            only["end_time"] = None
        elif kind == "None end":
            only["end_time"] = "None"
        elif kind == "first start":
            only["start_time"] = None
        elif kind == "no gpus":
            only["detail"] = []
        elif kind == "reversed":
            only["end_time"] = clock(START, expected["attempts"][0][0] - 1)
        elif kind == "zero":
            only["end_time"] = only["start_time"]
        elif kind == "soon":
            job["submitted_time"] = clock(START, expected["attempts"][0][0] + 1)
        elif kind == "middle":
            attempts[1]["start_time"] = "None"
        entries.append(job if kind != "not an object" else "lost")

        if kind in ("empty", "null attempts", "wrong type", "not an object"):
            rows_read += 1
            dropped[ALWAYS[kind]] += 1
            continue
        lost: dict[int, str] = {}  # row of this job -> why it is dropped
        if kind == "twice":
            lost = {0: TWICE}
            rows = rows[:1]
        elif kind in ALWAYS:
            lost = dict.fromkeys(range(len(rows)), ALWAYS[kind])
        elif kind == "first start":
            if mode in ("span", "split"):
                lost = {0: START_MISSING}
            elif mode == "sum":
                changed[PARTLY] += 1
                rows = [(rows[0][0], sum(e - s for s, e, _ in expected["attempts"][1:]), rows[0][2])]
        elif kind == "middle":
            if mode == "split":
                lost = {1: START_MISSING}
            elif mode == "sum":
                changed[PARTLY] += 1
                kept = [expected["attempts"][0], expected["attempts"][2]]
                rows = [(rows[0][0], sum(e - s for s, e, _ in kept), rows[0][2])]
        elif kind in per_attempt:
            lost = {0: per_attempt[kind]}
        if kind == "twice" and mode == "split":
            lost = {0: TWICE}
        rows_read += len(rows)
        for at, (submit, length, gpus) in enumerate(rows):
            if at in lost:
                dropped[lost[at]] += 1
                continue
            follows = mode == "split" and at > 0
            noted[LOST] += follows and at - 1 in lost
            after = f"{job['jobid']}#{at}" if follows and at - 1 not in lost else None
            chained = {"after": after, "think_time": None if after is None else 0.0}
            jobs.append(
                {
                    "job_id": job["jobid"] + (f"#{at + 1}" if mode == "split" else ""),
                    "submit_time": submit,
                    "num_gpus": gpus,
                    "duration": float(length),
                    "user": job["user"],
                    "vc": job["vc"],
                    "status": job["status"],
                    **({"num_attempts": len(attempts), **chained} if mode == "split" else {}),
                }
            )
    text = json.dumps(entries, indent=4)
    return Raw({"cluster_job_log": text}, rows_read, in_order(jobs), dropped, changed, +noted)


def write_large(path: Path, megabytes: int, seed: int = 0) -> int:
    """About so many megabytes of sound jobs, indented as published; the number of jobs."""
    rng = random.Random(seed)
    block = [json.dumps(make_job(rng, number)[0], indent=4) for number in range(2000)]
    copies = max(1, megabytes * 1_000_000 // sum(map(len, block)))
    with open(path, "w") as file:
        file.write("[")
        for copy in range(copies):
            for at, text in enumerate(block):
                file.write(",\n" if copy or at else "\n")
                file.write(text.replace('"application_', f'"application_{copy:04d}_'))
        file.write("\n]\n")
    return copies * len(block)
