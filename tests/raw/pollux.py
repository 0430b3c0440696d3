"""Pollux: workload-N.csv; its profiles are a folder beside it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from raw import Raw, csv_text, in_order, plan

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")
PROFILES = {
    # A step takes a second a sample and GPU, wherever the GPUs are.
    "placements.csv": "placement,local_bsz,step_time,sync_time\n"
    + "".join(f"{where},{local},{local},0\n" for where in (1, 2, 4) for local in (1, 8)),
    "scalability.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,1,1,0\n6,6,8,8,0\n",
    # 40 steps at batch 8; at 16 a step is worth two where all is noise.
    "validation-8.csv": "progress,iteration,metric,grad_sqr,grad_var\n40,40,1,0,1\n",
    "validation-16.csv": "progress,iteration,metric,grad_sqr,grad_var\n40,20,1,0,1\n",
}
BATCH = "batch_size missing or not a whole number"
DROPPED = {
    "no id": "no name",
    "no gpus": "num_replicas missing or not a whole number of GPUs",
    "zero gpus": "num_replicas is 0",
    "no time": "time missing or unreadable",
    "before": "time is negative",
    "no batch": BATCH,
    "half a batch": BATCH,
    "unknown": "application without a profile",
    "twice": "name occurred before",
}


def write_profiles(folder: Path) -> Path:
    """The profiles of the one application, `toy`; the folder for --profiles."""
    (folder / "profiles" / "toy").mkdir(parents=True)
    for name, text in PROFILES.items():
        (folder / "profiles" / "toy" / name).write_text(text)
    return folder / "profiles"


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A workload of `good` sound jobs and `each` of every defect."""
    rng = random.Random(seed)
    rows, jobs, dropped = [], [], Counter()
    for number, kind in enumerate(["", *plan(rng, good - 1, list(DROPPED), each)]):
        batch = rng.choice((8, 16))
        row = {
            "name": f"toy-{number}",
            "time": rng.randrange(28_800),
            "application": "toy",
            "num_replicas": rng.choice((2, 4)),
            "batch_size": batch,
        }
        row |= {
            "no id": {"name": None},
            "no gpus": {"num_replicas": None},
            "zero gpus": {"num_replicas": 0},
            "no time": {"time": None},
            "before": {"time": -5},
            "no batch": {"batch_size": None},
            "half a batch": {"batch_size": 0.5},
            "unknown": {"application": "gpt"},
            "twice": {"name": rows[0]["name"] if rows else None},
        }.get(kind, {})
        rows.append(row)
        if kind:
            dropped[DROPPED[kind]] += 1
            continue
        jobs.append(
            {
                "job_id": row["name"],
                "submit_time": row["time"],
                "num_gpus": row["num_replicas"],
                # 320 samples' worth of steps, each GPU a sample a second.
                "duration": 320.0 / row["num_replicas"],
                "model": f"toy (batch size {batch})",
                "gpu_type": "T4",
                "iterations": 40_000,
            }
        )
    return Raw({"workload-1.csv": csv_text(COLUMNS, rows)}, len(rows), in_order(jobs, 0), dropped)
