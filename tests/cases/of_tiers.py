"""Features of random cases: placement `compact`, jobs that a tier must hold, segments of jobs."""

from random import Random

from cases.case import Case
from cases.draw import column, feature


def tiers_of(case: Case) -> list[str]:
    return ["server", *(str(tier["name"]) for tier in case.tiers)]


@feature(0.2)
def compact(_: Random, case: Case) -> None:
    case.options["placement"] = "compact"


@feature(0.1)
def within_tier(rng: Random, case: Case) -> None:
    """A tier for some jobs, now and then as a wish."""
    case.options["placement"] = "compact"
    likely = rng.choice((0.3, 0.7, 1.0))
    named = [rng.choice(tiers_of(case)) if rng.random() < likely else None for _ in case.jobs]
    column(case, "within_tier", [name and name + rng.choice(("", "", "?")) for name in named])


@feature(0.1)
def segments(rng: Random, case: Case) -> None:
    """Segments of rigid jobs, each in one group of a tier."""
    case.options["placement"] = "compact"
    likely = rng.choice((0.3, 0.7, 1.0))
    for job in case.jobs:
        gpus, pod = job["num_gpus"], job.get("gpus_per_pod") or 1
        rigid = all(job.get(name) in (None, gpus) for name in ("min_gpus", "max_gpus"))
        sizes = [each for each in range(pod, gpus + 1, pod) if gpus % each == 0]
        has = rigid and not job.get("gpu_share") and rng.random() < likely
        job["segment"] = rng.choice(sizes) if has else None
        job["segment_tier"] = rng.choice(tiers_of(case)) if has else None
