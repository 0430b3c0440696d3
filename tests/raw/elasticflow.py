"""ElasticFlow: clusterNN.csv, one file a cluster."""

from __future__ import annotations

import random
import uuid
from collections import Counter

from raw import Raw, csv_text, in_order, plan

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")
GPUS = "num_gpu missing or not a whole number of GPUs"
DROPPED = {
    "cpu": "no GPUs asked for (num_gpu = 0: a CPU job)",
    "no id": "no job_id",
    "no gpus": GPUS,
    "negative gpus": GPUS,
    "half a gpu": GPUS,
    "no submit": "submission_time missing or unreadable",
    "word for submit": "submission_time missing or unreadable",
    "negative submit": "submission_time is negative",
    "no duration": "duration missing or unreadable",
    "negative": "duration is negative",
    "zero": "ran for no time (duration = 0)",
    "twice": "job_id occurred before",
}


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A list of `good` sound jobs and `each` of every defect."""
    rng = random.Random(seed)
    rows, jobs, dropped = [], [], Counter()
    for kind in ["", *plan(rng, good - 1, list(DROPPED), each)]:
        row = {
            "job_id": str(uuid.UUID(int=rng.getrandbits(128))),
            "submission_time": rng.randrange(5_184_000),
            "duration": rng.randrange(600, 1_000_000),
            "num_gpu": rng.choice([1, 1, 1, 2, 4, 8, 16, 64]),
        }
        row |= {
            "cpu": {"num_gpu": 0},
            "no id": {"job_id": None},
            "no gpus": {"num_gpu": None},
            "negative gpus": {"num_gpu": -4},
            "half a gpu": {"num_gpu": 0.5},
            "no submit": {"submission_time": None},
            "word for submit": {"submission_time": "soon"},
            "negative submit": {"submission_time": -3},
            "no duration": {"duration": None},
            "negative": {"duration": -3},
            "zero": {"duration": 0},
            "twice": {"job_id": rows[0]["job_id"] if rows else None},
        }.get(kind, {})
        rows.append(row)
        if kind:
            dropped[DROPPED[kind]] += 1
            continue
        jobs.append(
            {
                "job_id": row["job_id"],
                "submit_time": row["submission_time"],
                "num_gpus": row["num_gpu"],
                "duration": float(row["duration"]),
            }
        )
    return Raw({"cluster07.csv": csv_text(COLUMNS, rows)}, len(rows), in_order(jobs, 0), dropped)
