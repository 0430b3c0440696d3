"""spot-gpu: job_info_df.csv and node_info_df.csv."""

from __future__ import annotations

import random
from collections import Counter

from raw import Raw, csv_text, in_order, plan

COLUMNS = (
    *("job_name", "organization", "gpu_model", "cpu_request", "gpu_request", "worker_num"),
    *("submit_time", "duration", "job_type"),
)
WORKERS = "worker_num missing or not a whole number above 0"
DROPPED = {
    "cpu": "no GPUs asked for (gpu_request = 0: a CPU job)",
    "no name": "no job_name",
    "no gpus": "gpu_request missing or negative",
    "negative gpus": "gpu_request missing or negative",
    "no workers": WORKERS,
    "zero workers": WORKERS,
    "no submit": "submit_time missing or unreadable",
    "negative submit": "submit_time is negative",
    "no duration": "duration missing or unreadable",
    "negative": "duration is negative",
    "zero": "ran for no time (duration = 0)",
    "twice": "job_name occurred before",
}


TYPES = {"HP": (1, False), "High-priority": (1, False), "Spot": (0, True)}
ODD = {"no type": None, "odd type": "batch"}
UNKNOWN = "job_type is neither HP nor Spot: priority 0, may be evicted"


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A list of `good` sound jobs and `each` of every defect; odd types of jobs are kept."""
    rng = random.Random(seed)
    rows, jobs, dropped, noted = [], [], Counter(), Counter()
    kinds = ["", *plan(rng, good - 1, list(DROPPED), each), *(kind for kind in ODD for _ in range(each))]
    for number, kind in enumerate(kinds):
        gpus, workers = rng.choice([(1, 1), (1, 16), (8, 4), (0.5, 1), (0.25, 5), (1.0, 3.0)])
        # Odd types come last, so that the first jobs are sound throughout.
        submit, length = rng.randrange(10_000_000), rng.randrange(1, 3_000_000)
        submit += 10_000_000 * (kind in ODD)
        row = {
            "job_name": 239_255 + number,
            "organization": rng.randrange(60),
            "gpu_model": rng.choice(["A10", "A100-SXM4-80GB", "GPU-series-1"]),
            "cpu_request": 8,
            "gpu_request": gpus,
            "worker_num": workers,
            "submit_time": submit,
            "duration": length,
            "job_type": ODD[kind] if kind in ODD else rng.choice(list(TYPES)),
        }
        row |= {
            "cpu": {"gpu_request": 0},
            "no name": {"job_name": None},
            "no gpus": {"gpu_request": None},
            "negative gpus": {"gpu_request": -1},
            "no workers": {"worker_num": None},
            "zero workers": {"worker_num": 0},
            "no submit": {"submit_time": None},
            "negative submit": {"submit_time": -3},
            "no duration": {"duration": None},
            "negative": {"duration": -3},
            "zero": {"duration": 0},
            "twice": {"job_name": rows[0]["job_name"] if rows else None},
        }.get(kind, {})
        rows.append(row)
        if kind in DROPPED:
            dropped[DROPPED[kind]] += 1
            continue
        priority, preemptible = (None, None) if kind in ODD else TYPES[str(row["job_type"])]
        noted[UNKNOWN] += kind in ODD
        jobs.append(
            {
                "job_id": str(row["job_name"]),
                "submit_time": submit,
                "num_gpus": -int(-gpus * workers // 1),
                "duration": float(length),
                "user": str(row["organization"]),
                "gpu_type": row["gpu_model"],
                "priority": priority,
                "preemptible": preemptible,
                "job_type": row["job_type"],
                "gpu_request": float(gpus),
                "worker_num": int(workers),
                "plan_gpus": float(gpus * workers),
            }
        )
    nodes = [
        {"node_name": i, "gpu_model": kind, "gpu_capacity_num": gpus, "cpu_num": 128}
        for i, (kind, gpus) in enumerate([("GPU-series-1", 4), ("A10", 1), ("A10", 1), ("A100-SXM4-80GB", 8)])
    ]
    return Raw(
        {
            "job_info_df.csv": csv_text(COLUMNS, rows),
            "node_info_df.csv": csv_text(("node_name", "gpu_model", "gpu_capacity_num", "cpu_num"), nodes),
        },
        len(rows),
        in_order(jobs, 0),
        dropped,
        noted=noted,
    )
