"""What is wrong and known: recognised by its cause, one line each.

A cause that is mended has its line in `tests/test_cases.py` fail, as what it excuses is no longer there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cases.run import Fault, Seen

GUESSED = "a reader guesses why a stay ended"


@dataclass(frozen=True)
class Known:
    """cause: in a few words. of: whether a fault of a case comes of it."""

    cause: str
    of: Callable[[Seen, Fault], bool]


def _slots_and_outages(seen: Seen, fault: Fault) -> bool:
    told = seen.case.options.get("clock") == "slot" and "outages" in seen.case.files
    return told and fault.kind.startswith("figures utilisation")


def _frozen(seen: Seen, fault: Fault) -> bool:
    policy = seen.case.policy in ("gavel", "allox", "sia")
    return policy and bool({"outages", "services"} & {*seen.case.files}) and fault.kind.startswith("run ")


def _no_length(seen: Seen, fault: Fault) -> bool:
    if seen.outcome is None or seen.outcome.allocations is None:
        return False
    rows = seen.outcome.allocations
    jobs = seen.outcome.jobs
    none = (rows["start_time"] == rows["end_time"]).any() or (jobs["start_time"] == jobs["finish_time"]).any()
    return bool(none) and fault.kind.startswith(("audit", "again log", "twin"))


def _resized_beside_services(seen: Seen, fault: Fault) -> bool:
    resizing = seen.case.policy in ("afs", "optimus", "elastic-srtf", "elasticflow", "sia")
    return resizing and "services" in seen.case.files and fault.kind.startswith("audit")


KNOWN = (
    Known("slot clock: figures count outages in seconds", _slots_and_outages),
    Known("policies in Python freeze the servers of their first decision", _frozen),
    Known("stays of no length", _no_length),
    Known("resizes beside services", _resized_beside_services),
)


def excuse(seen: Seen, fault: Fault) -> str | None:
    """The known cause of a fault, if it has one."""
    return next((known.cause for known in KNOWN if known.of(seen, fault)), None)
