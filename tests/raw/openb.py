"""openb: a list of pods and a list of nodes."""

from __future__ import annotations

import random
from collections import Counter

from raw import Raw, csv_text, in_order, plan

COLUMNS = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
    *("creation_time", "deletion_time", "scheduled_time"),
)
LOG_END = 12_902_960

MILLI = "gpu_milli missing or not in 1 to 1000"
GPUS = "num_gpu missing or not a whole number of GPUs"
DROPPED = {
    "pending": "never scheduled (Pending)",
    "pending cpu": "never scheduled (Pending)",
    "pending zero": "never scheduled (Pending)",
    "cpu": "no GPUs asked for (num_gpu = 0: a CPU job)",
    "no name": "no name",
    "odd phase": "pod_phase is unknown",
    "no phase": "pod_phase is unknown",
    "no num_gpu": GPUS,
    "half num_gpu": GPUS,
    "no milli": MILLI,
    "zero milli": MILLI,
    "large milli": MILLI,
    "no creation": "creation_time missing or unreadable",
    "no scheduled": "scheduled_time missing or unreadable",
    "no deletion": "deletion_time missing or unreadable",
    "nan deletion": "deletion_time missing or unreadable",
    "negative": "creation_time is negative",
    "soon": "starts before it is submitted (scheduled_time < creation_time)",
    "reversed": "ends before it starts (deletion_time < scheduled_time)",
    "zero": "ran for no time (deletion_time = scheduled_time)",
    "twice": "name occurred before",
}
CENSORED = "still running at the log's last second: run time is cut off there (kept)"


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A list of `good` sound pods and `each` of every defect; the jobs to come out are by hand's rules."""
    rng = random.Random(seed)
    rows, jobs, dropped, noted = [], [], Counter(), Counter()
    kinds = ["", *plan(rng, good - 1, [*DROPPED, "censored"], each)]
    for number, kind in enumerate(kinds):
        created = rng.randrange(10_000_000)
        scheduled = created + rng.choice([0, 0, 3, 400])
        deleted = scheduled + rng.randrange(1, 500_000)
        phase = rng.choice(["Running", "Failed", "Succeeded"])
        gpus = rng.choice([1, 1, 1, 2, 8])
        milli = rng.choice([1000, 460, 810]) if gpus == 1 else 1000
        spec = rng.choice(["", "", "V100M16", "V100M16|V100M32"])
        if kind == "censored":
            phase, deleted = "Running", LOG_END
        row = {
            "name": f"openb-pod-{number:04d}",
            "cpu_milli": 4000,
            "memory_mib": 15258,
            "num_gpu": gpus,
            "gpu_milli": milli,
            "gpu_spec": spec,
            "qos": rng.choice(["LS", "BE", "Burstable"]),
            "pod_phase": phase,
            "creation_time": created,
            "deletion_time": deleted,
            "scheduled_time": scheduled,
        }
        pending = {"pod_phase": "Pending", "scheduled_time": None}
        row |= {
            "pending": pending,
            "pending cpu": {**pending, "num_gpu": 0, "gpu_milli": 0},
            "pending zero": {**pending, "deletion_time": created},
            "cpu": {"num_gpu": 0, "gpu_milli": 0},
            "no name": {"name": None},
            "odd phase": {"pod_phase": "Evicted"},
            "no phase": {"pod_phase": None},
            "no num_gpu": {"num_gpu": None},
            "half num_gpu": {"num_gpu": 0.5},
            "no milli": {"gpu_milli": None},
            "zero milli": {"gpu_milli": 0},
            "large milli": {"gpu_milli": 1001},
            "no creation": {"creation_time": None},
            "no scheduled": {"scheduled_time": None},
            "no deletion": {"deletion_time": None},
            "nan deletion": {"deletion_time": "nan"},
            "negative": {"creation_time": -1},
            "soon": {"scheduled_time": created - 1},
            "reversed": {"deletion_time": scheduled - 1},
            "zero": {"deletion_time": scheduled},
            "twice": {"name": rows[0]["name"] if rows else None},
        }.get(kind, {})
        rows.append(row)
        if kind in DROPPED:
            dropped[DROPPED[kind]] += 1
            continue
        if phase == "Running" and deleted == LOG_END:
            noted[CENSORED] += 1
        jobs.append(
            {
                "job_id": row["name"],
                "submit_time": created,
                "num_gpus": gpus,
                "duration": float(deleted - scheduled),
                "status": phase,
                "gpu_type": spec or None,
                "gpu_share": milli / 1000 if gpus == 1 and milli < 1000 else None,
                "gpu_spec": spec or None,
                "qos": row["qos"],
                "cpu_milli": 4000,
                "memory_mib": 15258,
                "recorded_start": scheduled,
                "recorded_end": None if phase == "Running" and deleted == LOG_END else deleted,
            }
        )
    # Some pods may run on a V100M16 only.
    servers = [(2, "P100")] * 3 + [(0, "")] + [(8, "G2")] * 2 + [(2, "P100"), (8, "V100M16")]
    nodes = [
        {"sn": f"openb-node-{i:04d}", "cpu_milli": 64000, "memory_mib": 262144, "gpu": g, "model": m}
        for i, (g, m) in enumerate(servers)
    ]
    return Raw(
        {
            "openb_pod_list_made.csv": csv_text(COLUMNS, rows),
            "openb_node_list_made.csv": csv_text(("sn", "cpu_milli", "memory_mib", "gpu", "model"), nodes),
        },
        len(rows),
        in_order(jobs, 0),
        dropped,
        noted=noted,
    )
