"""Seats of random cases: jobs that start beside others, on the same GPUs."""

from random import Random
from typing import Any

from cases import custom_policies
from cases.case import Case
from cases.draw import column, feature

LUCIDS = ("evict", "placement", "victims")
_OF_OTHERS = (
    *("order", "queue", "aging", "predict", "estimate", "estimate_factor", "reservations", "interval"),
    *("quantum", "thresholds", "tail", "admission", "half_life", "resize_every", "within", "parameters"),
    *("move_cost", "resize_cost"),
)
"""Options that lucid does not read."""


@feature(0.12)
def seats(rng: Random, case: Case) -> None:
    """Under lucid, or a policy that pairs at random; here and there memory, scores, estimates, pairs."""
    own = rng.random() < 0.45
    for name in _OF_OTHERS if not own else ("order", "queue", "parameters"):
        case.options.pop(name, None)
    case.files.pop("fair_shares", None)
    case.options["policy"] = custom_policies.Paired if own else "lucid"
    case.options["jobs_per_gpu"] = rng.choice((2, 2, 2, 3))
    if rng.random() < 0.5:
        column(case, "estimated_duration", [_near(rng, job["duration"]) for job in case.jobs])
    if rng.random() < 0.6:
        column(case, "colocation_score", [rng.choice((0, 0, 1, 1, 2, None)) for _ in case.jobs])
    if rng.random() < 0.4:
        column(case, "gpu_memory_mib", [rng.choice((0.0, 512.0, 512.0, 700.0, None)) for _ in case.jobs])
        for facts in case.gpu_types.values():
            if rng.random() < 0.8:
                facts["memory_gb"] = 1.0
    if rng.random() < 0.4:
        case.options["interference"] = rng.choice((0.25, 0.5, 1.0))
    if rng.random() < 0.7:
        _pairs(rng, case)


def _near(rng: Random, duration: float) -> float | None:
    return rng.choice((None, duration, duration, duration * 2.0, duration * 0.5))


def _pairs(rng: Random, case: Case) -> None:
    """Fractions of some pairs of models, and rates of some on so many GPUs where rates are measured."""
    rows: list[dict[str, Any]] = case.files.setdefault("tables", [])
    for row in rows:
        row.setdefault("partner", None)
        row.setdefault("partner_rate", None)
    if not any(job.get("model") for job in case.jobs):
        column(case, "model", [rng.choice(("m0", "m1")) for _ in case.jobs])
    names = list(case.gpu_types) or ["t0"]
    alone = [row for row in rows if row["partner"] is None]
    for model, partner in (("m0", "m0"), ("m0", "m1"), ("m1", "m0"), ("m1", "m1")):
        for name in names:
            parts = [rng.choice((0.0, 0.5, 0.5, 0.75, 0.75, 1.0, 1.25)) for _ in range(2)]
            pair = {"model": model, "gpu_type": name, "partner": partner}
            if rng.random() < 0.5:
                rows.append({**pair, "gpus": 0, "servers": 0, "rate": parts[0], "partner_rate": parts[1]})
            own = [row for row in alone if (row["model"], row["gpu_type"]) == (model, name)]
            for row in rng.sample(own, min(len(own), rng.choice((0, 1, 3)))):
                if row["gpus"] == 1 and "gpu_share" in case.jobs[0]:
                    continue  # that of shares
                rates = {"rate": row["rate"] * parts[1], "partner_rate": row["rate"] * parts[0]}
                rows.append({**pair, "gpus": row["gpus"], "servers": row["servers"], **rates})
    if not rows:
        del case.files["tables"]
