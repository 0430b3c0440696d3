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
STRANGER = "held GPUs of a machine that the list of machines lacks: recorded_servers left out"
PARTLY = "attempts without a start or an end left out of the sum"
NEVER = "never ran (no attempt)"
FORM = "not in the published form"
TWICE = "jobid occurred before"
REVERSED = "ends before it starts (end_time < start_time)"
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
        held = [(f"m{rng.randrange(500)}", count) for count in hosts]
        expected["attempts"].append((start, now, held))
        published.append(
            {
                "start_time": clock(START, start),
                "end_time": clock(START, now),
                "detail": [
                    {"ip": machine, "gpus": [f"gpu{g}" for g in range(count)]} for machine, count in held
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


Row = tuple[int, int, list[tuple[str, int]], int, int]
TAKEN = [f"m{at}" for at in range(500) if at % 50 != 7]  # machines of the list that have GPUs


def _rows(mode: str, expected: dict[str, Any]) -> list[Row]:
    """(submitted, seconds run, GPUs held by machine, start, end) of a sound job's rows."""
    submit, attempts = expected["submit"], expected["attempts"]
    first, last = attempts[0], attempts[-1]
    if mode == "span":
        return [(submit, last[1] - first[0], first[2], first[0], last[1])]
    if mode == "sum":
        widest = max(attempts, key=lambda attempt: gpus_of(attempt[2]))[2]
        return [(submit, sum(e - s for s, e, _ in attempts), widest, first[0], last[1])]
    if mode == "last":
        return [(submit, last[1] - last[0], last[2], last[0], last[1])]
    ends = [submit, *(e for _, e, _ in attempts)]
    return [(ends[k], e - s, held, s, e) for k, (s, e, held) in enumerate(attempts)]


def gpus_of(held: list[tuple[str, int]]) -> int:
    """GPUs in all."""
    return sum(gpus for _, gpus in held)


def place_of(held: list[tuple[str, int]]) -> str | None:
    """Where they are in the list of machines, or None where it lacks one of them."""
    totals: Counter[int] = Counter()
    for machine, gpus in held:
        if machine not in TAKEN:
            return None
        totals[TAKEN.index(machine)] += gpus
    return " ".join(f"{at}:{totals[at]}" for at in sorted(totals))


def generate(
    mode: str = "span", seed: int = 0, good: int = 60, each: int = 2, *, machines: bool = False
) -> Raw:
    """A log of `good` sound jobs and `each` of every defect, converted under `mode`.

    machines: whether there is a list of machines as well. It lacks a few, and a few have no GPUs.
    """
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
        if kind in ("no submit", "None submit") and mode == "split":
            lost = {0: ALWAYS[kind]}  # later attempts are submitted when the one before them ends
        elif kind == "twice":
            lost = {0: TWICE}
            rows = rows[:1]
        elif kind in ALWAYS:
            lost = dict.fromkeys(range(len(rows)), ALWAYS[kind])
        elif kind == "first start":
            if mode in ("span", "split"):
                lost = {0: START_MISSING}
            elif mode == "sum":
                changed[PARTLY] += 1
                rows = [(rows[0][0], sum(e - s for s, e, _ in expected["attempts"][1:]), *rows[0][2:])]
                rows = [(*rows[0][:3], expected["attempts"][1][0], rows[0][4])]
        elif kind == "middle":
            if mode == "split":
                lost = {1: START_MISSING}
            elif mode == "sum":
                changed[PARTLY] += 1
                kept = [expected["attempts"][0], expected["attempts"][2]]
                rows = [(rows[0][0], sum(e - s for s, e, _ in kept), *rows[0][2:])]
        elif kind in per_attempt:
            lost = {0: per_attempt[kind]}
        if kind == "twice" and mode == "split":
            lost = {0: TWICE}
        rows_read += len(rows)
        for at, (submit, length, held, start, end) in enumerate(rows):
            if at in lost:
                dropped[lost[at]] += 1
                continue
            jobs.append(
                {
                    "job_id": job["jobid"] + (f"#{at + 1}" if mode == "split" else ""),
                    "submit_time": submit,
                    "num_gpus": gpus_of(held),
                    "duration": float(length),
                    "user": job["user"],
                    "vc": job["vc"],
                    "status": job["status"],
                    "num_attempts": len(attempts) if kind != "twice" else 1,
                    "recorded_start": start,
                    "recorded_end": end,
                }
            )
            if machines:
                jobs[-1]["recorded_servers"] = place_of(held)
                changed[STRANGER] += jobs[-1]["recorded_servers"] is None
    files, noted = {"cluster_job_log": json.dumps(entries, indent=4)}, Counter()
    if machines:
        sizes = dict.fromkeys(TAKEN, 8) | {f"m{at}": 0 for at in range(7, 200, 50)}
        rows_of_list = [f"{name}, {sizes[name]}, 24GB" for name in sorted(sizes, key=lambda m: int(m[1:]))]
        files["cluster_machine_list"] = "\n".join(
            ["machineId, number of GPUs, single GPU mem", *rows_of_list]
        )
        noted["node left out of the cluster: no GPUs (number of GPUs = 0)"] = 4
    return Raw(files, rows_read, in_order(jobs), dropped, +changed, noted)


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
