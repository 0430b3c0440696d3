"""Gavel: lines of ten cells, separated by tabs, without a header."""

from __future__ import annotations

import random
from collections import Counter

from raw import Raw, in_order, plan

RATES = {("A3C", 1): 4.0, ("A3C", 2): 6.0, ("LM (batch size 5)", 1): 0.5}
"""Steps a second, on v100."""
THROUGHPUTS = {"v100": {f"('{model}', {gpus})": {"null": rate} for (model, gpus), rate in RATES.items()}}
STEPS = "total_steps missing or not a whole number of steps"
DROPPED = {
    "no type": "no job type",
    "no steps": STEPS,
    "zero steps": STEPS,
    "half a step": STEPS,
    "zero gpus": "scale_factor is 0",
    "no gpus": "scale_factor missing or not a whole number of GPUs",
    "no arrival": "arrival_time missing or unreadable",
    "before": "arrival_time is negative",
    "unknown": "job type with so many GPUs not in the throughputs",
    "too large": "job type with so many GPUs not in the throughputs",
}


def generate(seed: int = 0, good: int = 60, each: int = 2) -> Raw:
    """A trace of `good` sound jobs and `each` of every defect."""
    rng = random.Random(seed)
    lines, jobs, dropped = [], [], Counter()
    for number, kind in enumerate(["", *plan(rng, good - 1, list(DROPPED), each)]):
        model, gpus = rng.choice(list(RATES))
        steps, arrival, weight = rng.randint(1, 10**6), rng.randrange(100_000), rng.choice((1, 2.5))
        cells = {"type": model, "steps": steps, "gpus": gpus, "arrival": arrival} | {
            "no type": {"type": ""},
            "no steps": {"steps": ""},
            "zero steps": {"steps": 0},
            "half a step": {"steps": 0.5},
            "zero gpus": {"gpus": 0},
            "no gpus": {"gpus": "many"},
            "no arrival": {"arrival": ""},
            "before": {"arrival": -1},
            "unknown": {"type": "GPT"},
            "too large": {"gpus": 64},
        }.get(kind, {})
        lines.append(
            f"{cells['type']}\tpython3 a.py\tfolder\t--steps\t1\t{cells['steps']}\t{cells['gpus']}\t{weight}"
            f"\t-1.000000\t{cells['arrival']}\n"
        )
        if kind:
            dropped[DROPPED[kind]] += 1
            continue
        jobs.append(
            {
                "job_id": str(number),
                "submit_time": arrival,
                "num_gpus": gpus,
                "duration": steps / RATES[model, gpus],
                "model": model,
                "recorded_on": "v100",
                "iterations": steps,
            }
        )
    return Raw({"small.trace": "".join(lines)}, len(lines), in_order(jobs, 0), dropped)
