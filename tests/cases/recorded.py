"""Random cases under `--policy recorded`: those of all features, with starts and places of a log."""

from dataclasses import replace
from random import Random

from cases.case import Case
from cases.draw import build, column, toss
from cases.modelled import Model
from reference.recorded import Recorded

KEPT = (
    *("clock", "slot", "oversize", "search", "interference", "sharing", "ties", "sample", "seed"),
    *("preempt_cost", "start_cost", "sleep_after", "wake_time", "type_order", "enforce_limits"),
    *("checkpoint_interval", "checkpoint_cost", "measure_from", "measure_to", "allocations"),
)
"""Options that mean something under it."""
FILES = ("outages", "maintenance", "services")
UNREAD = frozenset({"policy", "order", "placement", "evict"})


def recorded_case(seed: int) -> Case:
    """A case of the seed whose jobs have recorded starts: on time, too early for the room, or late."""
    rng = Random(f"{seed} recorded")
    case = build(seed, tuple(name for name in toss(seed) if name not in UNREAD))
    case.options = {name: value for name, value in case.options.items() if name in KEPT}
    case.options |= {"policy": "recorded", "model": "fixed"}
    case.files = {name: rows for name, rows in case.files.items() if name in FILES}
    waits = rng.choice(((0.0,), (0.0, 0.0, 1.0, 4.0), (0.0, 2.0, 9.0, 25.0)))
    starts = [job["submit_time"] + case.span(rng, 0.0, rng.choice(waits)) for job in case.jobs]
    for row in range(len(starts)):
        other = rng.randrange(len(starts))
        if rng.random() < 0.3 and starts[other] >= case.jobs[row]["submit_time"]:
            starts[row] = starts[other]
    column(case, "recorded_start", list(starts))
    known = rng.choice((0.0, 0.5, 1.0))
    places = [_place(rng, case, job) if rng.random() < known else None for job in case.jobs]
    column(case, "recorded_servers", list(places))
    return case


def _place(rng: Random, case: Case, job: dict[str, object]) -> str | None:
    """Any servers, of any type and of any virtual cluster."""
    missing, parts = int(job["num_gpus"]), []  # type: ignore[call-overload]
    for server in rng.sample(range(len(case.servers)), len(case.servers)):
        gpus = min(missing, case.servers[server]["gpus"])
        if gpus and rng.random() < 0.3:
            gpus = rng.randint(1, gpus)
        if gpus:
            parts.append((server, gpus))
            missing -= gpus
    if missing:
        server, gpus = parts[-1]
        parts[-1] = server, gpus + missing  # more than it has
    return " ".join(f"{server}:{gpus}" for server, gpus in rng.sample(parts, len(parts)))


def model_of(case: Case) -> tuple[Model, list[Recorded]]:
    """The reference model of a case, and its policies, one for each virtual cluster, once it has run."""
    named = [server.get("gpu_type") for server in case.servers]
    there = list(dict.fromkeys(name for name in named if name))
    made: list[Recorded] = []

    def recorded_on(job: dict[str, str | None]) -> str | None:
        listed = [name for name in (job.get("gpu_type") or "").split("|") if name in there]
        return job.get("recorded_on") or (listed or there or [None])[0]

    def parts(text: str | None) -> list[tuple[int, int]] | None:
        pairs = [part.split(":") for part in (text or "").split()]
        return [(int(server), int(gpus)) for server, gpus in pairs] or None

    def decides(_: object) -> Recorded:
        made.append(
            Recorded(
                [job["recorded_start"] for job in case.jobs],
                [parts(job["recorded_servers"]) for job in case.jobs],
                [recorded_on(job) for job in case.jobs],
            )
        )
        return made[-1]

    model = Model(case, decides=decides)
    # A job waits for want of GPUs, and never because they are scattered.
    model.options = replace(model.options, placement="emptiest")
    return model, made
