"""Helios: cluster_log.csv and cluster_gpu_number.csv."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

from raw import Raw, clock, csv_text, in_order, plan

COLUMNS = (
    *("job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state"),
    *("submit_time", "start_time", "end_time", "duration", "queue"),
)
START = "2020-04-01 00:00:00"
STATES = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")

CPU = "no GPUs asked for (gpu_num = 0: a CPU job)"
EARLY = "submitted before 2020-04-01"
STATE = "state is not one of a job that ended"
TWICE = "job_id occurred before"
OTHER = "recorded duration is not end_time - start_time: the difference used"
LONG = "longer than 1,209,600 s: cut to that"

# Defect -> the reason it must be dropped for.
DROPPED = {
    "cpu": CPU,
    "early": EARLY,
    "RUNNING": STATE,
    "SUSPENDED": STATE,
    "no state": STATE,
    "no id": "no job_id",
    "no gpus": "gpu_num missing or not a whole number of GPUs",
    "half a gpu": "gpu_num missing or not a whole number of GPUs",
    "negative gpus": "gpu_num missing or not a whole number of GPUs",
    "gpus no number": "gpu_num missing or not a whole number of GPUs",
    "no submit": "submit_time missing or unreadable",
    "no start": "start_time missing or unreadable",
    "None start": "start_time missing or unreadable",
    "no end": "end_time missing or unreadable",
    "30 February": "end_time missing or unreadable",
    "soon": "starts before it is submitted (start_time < submit_time)",
    "reversed": "ends before it starts (end_time < start_time)",
    "zero": "ran for no time (end_time = start_time)",
    "twice": TWICE,
}
CHANGED = {"long": LONG, "other duration": OTHER}


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A log of `good` sound jobs and `each` of every defect, blank lines among them."""
    rng = random.Random(seed)
    rows, jobs, dropped, changed = [], [], Counter(), Counter()
    # The first job is sound, so that there is one to repeat.
    for number, kind in enumerate(["", *plan(rng, good - 1, [*DROPPED, *CHANGED], each)]):
        submit = rng.randrange(40 * 86_400) * 4
        start = submit + rng.choice([0, 3, rng.randrange(5000)])
        length = rng.randrange(1, 400_000)
        gpus: object = rng.choice([1, 1, 1, 2, 4, 8, 16, 64])
        state = rng.choice(STATES)
        recorded: object = length
        if kind == "long":
            length = recorded = 1_209_600 + rng.randrange(1, 9_000)
        elif kind == "other duration":
            recorded = length + 7
        elif kind == "early":
            submit, start = -100, -50
        elif kind == "soon":
            submit = start + 1
        elif kind == "reversed":
            length = -5
        elif kind == "zero":
            length = recorded = 0
        row = {
            "job_id": 500_000 + number,
            "user": rng.choice(["uAAAA", "uBBBB", "uCCCC"]),
            "vc": rng.choice(["vcvGl", "vcKeu", "vcOld"]),
            "gpu_num": gpus,
            "cpu_num": 4,
            "node_num": 1,
            "state": state,
            "submit_time": clock(START, submit),
            "start_time": clock(START, start),
            "end_time": clock(START, start + length),
            "duration": recorded,
            "queue": start - submit,
        }
        row |= {
            "cpu": {"gpu_num": 0},
            "RUNNING": {"state": "RUNNING"},
            "SUSPENDED": {"state": "SUSPENDED"},
            "no state": {"state": None},
            "no id": {"job_id": None},
            "no gpus": {"gpu_num": None},
            "half a gpu": {"gpu_num": 1.5},
            "negative gpus": {"gpu_num": -1},
            "gpus no number": {"gpu_num": "two"},
            "no submit": {"submit_time": None},
            "no start": {"start_time": None},
            "None start": {"start_time": "None"},
            "no end": {"end_time": ""},
            "30 February": {"end_time": "2020-02-30 00:00:00"},
            "twice": {"job_id": rows[0]["job_id"] if rows else None},
        }.get(kind, {})
        rows.append(row)
        if kind in DROPPED:
            dropped[DROPPED[kind]] += 1
            continue
        if kind in CHANGED:
            changed[CHANGED[kind]] += 1
        jobs.append(
            {
                "job_id": str(row["job_id"]),
                "submit_time": submit,
                "num_gpus": row["gpu_num"],
                "duration": float(min(length, 1_209_600)),
                "user": row["user"],
                "vc": row["vc"],
                "status": state,
                "recorded_start": start,
                "recorded_end": start + length,
            }
        )
    first_day = min(job["submit_time"] for job in jobs) // 86_400 * 86_400
    lines = csv_text(COLUMNS, rows).split("\n")
    lines.insert(len(lines) // 2, "")
    sizes = [
        {"date": "2020-09-01", "vcvGl": 160, "vcKeu": 20, "vcOld": 0, "total": 180},
        {"date": "2020-09-02", "vcvGl": 80, "vcKeu": 0, "vcOld": 8, "total": 88},
    ]
    return Raw(
        {
            "cluster_log.csv": "\n".join(lines),
            "cluster_gpu_number.csv": csv_text(("date", "vcvGl", "vcKeu", "vcOld", "total"), sizes),
        },
        len(rows),
        in_order(jobs, first_day),
        dropped,
        changed,
    )


def write_large(path: Path, rows: int, seed: int = 0) -> None:
    """A log of sound rows in bulk, about half of them CPU jobs, as in the real ones."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(1_585_699_200, 1_601_164_800, rows))
    queue = rng.exponential(800, rows).astype(np.int64)
    length = np.maximum(rng.lognormal(5, 3, rows), 1).astype(np.int64)
    users = np.array([f"u{i:05x}" for i in range(1000)])
    vcs = np.array([f"vc{i:03x}" for i in range(100)])

    def times(seconds: np.ndarray) -> pl.Series:
        return pl.from_epoch(pl.Series(seconds), time_unit="s").dt.strftime("%Y-%m-%d %H:%M:%S")

    pl.DataFrame(
        {
            "job_id": np.arange(rows),
            "user": rng.choice(users, rows),
            "vc": rng.choice(vcs, rows),
            "gpu_num": rng.choice([0, 1, 2, 4, 8, 16], rows, p=[0.53, 0.3, 0.05, 0.05, 0.05, 0.02]),
            "cpu_num": rng.integers(1, 64, rows),
            "node_num": np.ones(rows, dtype=np.int64),
            "state": rng.choice(["COMPLETED", "CANCELLED", "FAILED"], rows),
            "submit_time": times(submit),
            "start_time": times(submit + queue),
            "end_time": times(submit + queue + length),
            "duration": length,
            "queue": queue,
        }
    ).write_csv(path)
