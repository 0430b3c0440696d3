"""SWF: header comments and 18 numbers a line."""

from __future__ import annotations

import random
from collections import Counter

from raw import Raw, in_order, plan

HEADER = """\
; Version: 2.2
; Computer: made up
; UnixStartTime: 1000000000
; MaxNodes: 16 (all alike)
; MaxProcs: 128
"""
REQUESTED = "processors allocated unknown: those requested used"
DROPPED = {
    "short": "fewer than 18 fields or no number among them",
    "words": "fewer than 18 fields or no number among them",
    "burst": "one stretch of a checkpointed job (status 2, 3 or 4)",
    "no job": "no job",
    "no submit": "submit_time missing or unreadable",
    "no run": "run_time missing or unreadable",
    "zero": "ran for no time (run_time = 0)",
    "no processors": "processors unknown (allocated and requested)",
    "twice": "job occurred before",
}
STATUS = {0: "FAILED", 1: "COMPLETED", 5: "CANCELLED", -1: None}


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A log of `good` sound lines and `each` of every defect."""
    rng = random.Random(seed)
    lines, jobs, dropped, changed = [], [], Counter(), Counter()
    for number, kind in enumerate(
        ["", *plan(rng, good - 1, [*DROPPED, "requested", "early", "no wait"], each)]
    ):
        submit, run = rng.randrange(1_000_000), rng.choice([rng.randrange(1, 9000), 12.5])
        wait = {"early": -7, "no wait": -1}.get(kind, rng.choice([0, 5, 2.5]))
        allocated, requested, status = rng.choice([1, 8, 64]), 32, rng.choice(list(STATUS))
        cells: dict[str, object] = {
            "job": number + 1, "submit": submit, "wait": wait, "run": run, "allocated": allocated, "cpu": -1,
            "memory": -1, "requested": requested, "time": 3600, "requested memory": -1, "status": status,
            "user": 7, "group": 1, "application": -1, "queue": 2, "partition": -1, "before": -1, "think": -1,
        }  # fmt: skip
        cells |= {
            "burst": {"job": 1, "status": rng.choice([2, 3, 4])},
            "no job": {"job": -1},
            "no submit": {"submit": -1},
            "no run": {"run": -1},
            "zero": {"run": 0},
            "no processors": {"allocated": -1, "requested": -1},
            "requested": {"allocated": -1},
            "twice": {"job": 1},
            "words": {"run": "long"},
        }.get(kind, {})
        text = " ".join(f"{cell:>6}" for cell in cells.values())
        lines.append(text.rsplit(None, 1)[0] if kind == "short" else text)
        if kind in DROPPED:
            dropped[DROPPED[kind]] += 1
            continue
        if kind == "requested":
            changed[REQUESTED] += 1
        if kind == "early":
            changed["wait_time is negative: start left out"] += 1
        jobs.append(
            {
                "job_id": str(number + 1),
                "submit_time": submit,
                "num_gpus": requested if kind == "requested" else allocated,
                "duration": float(run),
                "user": "7",
                "status": STATUS[status],
                "time_limit": 3600.0,
                "queue": 2,
                "partition": None,
                "recorded_start": None if wait < 0 else submit + wait,
                "recorded_end": None if wait < 0 else submit + wait + run,
            }
        )
    lines.insert(len(lines) // 2, "; a remark in the middle")
    lines.insert(len(lines) // 2, "")
    text = HEADER + "\n".join(lines) + "\n"
    return Raw({"made.swf": text}, len(lines) - 2, in_order(jobs, 0), dropped, changed)
