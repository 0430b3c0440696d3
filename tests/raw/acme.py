"""Acme: trace_seren.csv (+08:00) and trace_kalos.csv (+00:00, with a wrong duration)."""

from __future__ import annotations

import random
from collections import Counter

from raw import Raw, clock, csv_text, in_order, plan

SEREN = (
    *("job_id", "user", "node_num", "gpu_num", "cpu_num", "type", "state"),
    *("submit_time", "start_time", "end_time", "duration", "queue", "gpu_time"),
)
KALOS = (
    *("job_id", "user", "node_num", "gpu_num", "cpu_num", "mem_per_pod_GB", "shared_mem_per_pod", "type"),
    *("state", "submit_time", "start_time", "end_time", "fail_time", "stop_time", "duration", "queue"),
    "gpu_time",
)
STATES = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
START = "2023-03-01 00:00:00"  # UTC
RECORDED = "recorded duration is not end_time - start_time: recomputed, as for every job"
DROPPED = {
    "cpu": "no GPUs asked for (gpu_num = 0: a CPU job)",
    "RUNNING": "state is not one of a job that ended",
    "no id": "no job_id",
    "no gpus": "gpu_num missing or not a whole number of GPUs",
    "no start": "start_time missing or unreadable",
    "no offset": "end_time missing or unreadable",
    "reversed": "ends before it starts (end_time < start_time)",
    "zero": "ran for no time (end_time = start_time)",
    "soon": "starts before it is submitted (start_time < submit_time)",
}


def generate(cluster: str, seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """The log of `seren` or `kalos`."""
    rng = random.Random(seed)
    kalos = cluster == "kalos"
    offset, shift = ("+00:00", 0) if kalos else ("+08:00", 8 * 3600)
    rows, jobs, dropped, noted = [], [], Counter(), Counter()
    for number, kind in enumerate(plan(rng, good, list(DROPPED), each)):
        submit = rng.randrange(86_400 * 100)
        start = submit + rng.randrange(1, 100)
        length = {"reversed": -3, "zero": 0}.get(kind, rng.randrange(1, 90_000))
        if kind == "soon":
            start = submit - 1
        gpus = rng.choice([1, 8, 64, 512])

        def at(seconds: int, shift: int = shift, offset: str = offset) -> str:
            return clock(START, seconds + shift) + offset

        row = {
            **dict.fromkeys(KALOS),
            "job_id": f"dlc{number}" if kalos else 5_000_000 + number,
            "user": rng.choice(["u1", "u2"]),
            "node_num": 1,
            "gpu_num": gpus,
            "cpu_num": 16,
            "mem_per_pod_GB": 1000,
            "shared_mem_per_pod": 100.0,
            "type": rng.choice(["Other", "Pretrain", "Evaluation"]),
            "state": rng.choice(STATES),
            "submit_time": at(submit),
            "start_time": at(start),
            "end_time": at(start + length),
            "duration": start + length - submit if kalos else length,
            "queue": float(start - submit) if kalos else start - submit,
            "gpu_time": float(length * gpus),
        }
        row |= {
            "cpu": {"gpu_num": 0},
            "RUNNING": {"state": "RUNNING"},
            "no id": {"job_id": None},
            "no gpus": {"gpu_num": None},
            "no start": {"start_time": None},
            "no offset": {"end_time": clock(START, start + length)},
        }.get(kind, {})
        rows.append(row)
        if kind:
            dropped[DROPPED[kind]] += 1
            continue
        if kalos:
            noted[RECORDED] += 1
        jobs.append(
            {
                "job_id": str(row["job_id"]),
                "submit_time": submit,
                "num_gpus": gpus,
                "duration": float(length),
                "user": row["user"],
                "status": row["state"],
                "gpu_type": "A100-SXM-80GB",
                "type": row["type"],
                "recorded_start": start,
                "recorded_end": start + length,
            }
        )
    text = csv_text(KALOS if kalos else SEREN, rows)
    return Raw({f"trace_{cluster}.csv": text}, len(rows), in_order(jobs), dropped, noted=noted)
