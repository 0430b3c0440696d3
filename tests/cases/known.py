"""What is wrong and known, recognised by its cause: a line and a small case each.

`tests/test_cases.py` expects each case to fail, strictly: a cause that is mended takes its line with it.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cases.case import Case, by_hand
from cases.holding import stays_of
from cases.run import Fault, Seen


@dataclass(frozen=True)
class Known:
    """cause: in a few words. of: whether a fault of a case comes of it. case: one that shows it."""

    cause: str
    of: Callable[[Seen, Fault], bool]
    case: Case


def excuse(seen: Seen, fault: Fault) -> str | None:
    """The known cause of a fault, if it has one."""
    return next((known.cause for known in KNOWN if known.of(seen, fault)), None)


def _two_causes(seen: Seen, fault: Fault) -> bool:
    """A job goes on as a replica starts where it was, as its server fails, or as it is at a rung."""
    if seen.outcome is None or not fault.kind.startswith("audit"):
        return False
    outcome, files = seen.outcome, seen.case.files
    causes = {(row["server"], row["down_at"]) for row in files.get("outages", ())}
    if outcome.replicas is not None:
        causes |= set(outcome.replicas.select("server", "start_time").rows())
    rungs = set() if outcome.rungs is None else set(outcome.rungs.select("job_id", "time").rows())
    for job, stays in stays_of(outcome).items():
        for before, after in itertools.pairwise(stays):
            at = before.end
            if at == after.start and (
                (job, at) in rungs or any((server, at) in causes for server in before.parts)
            ):
                return True
    return False


def _load(time: float, replicas: int, gpus: int) -> dict[str, Any]:
    return {"service": "s", "time": time, "replicas": replicas, "gpus_per_replica": gpus}


RANGED = "submit_time num_gpus duration min_gpus max_gpus"

KNOWN = (
    Known(
        "readers guess why a stay ended",
        _two_causes,
        by_hand(
            (6,), RANGED, [(0.0, 3, 1000.0, 1, 4), (0.0, 3, 100.0, 3, 3)],
            services=[_load(100.0, 1, 2), _load(900.0, 0, 2)],
            policy="optimus", preempt_cost=30.0, resize_cost=50.0, resize_every=0.0,
        ),
    ),
)  # fmt: skip
