"""The order of a plan."""

from __future__ import annotations

import numpy as np

from ringbco.audits.facts import Facts
from ringbco.audits.findings import Check
from ringbco.audits.plans import in_turn, parts


def check_order(check: Check, facts: Facts) -> None:
    """Nobody starts before one ahead of it, unless GPUs are reserved, each with a queue of its own."""
    if facts.options.get("dispatch") == "reserve":
        check.not_run = "GPUs are reserved, each with a queue of its own"
        return
    check.looked_at = facts.row.size
    for planned in parts(facts):
        order = np.argsort(in_turn(planned))
        start = planned.start[order]
        for at in np.flatnonzero(start[1:] < start[:-1]).tolist():
            late, head = planned.id(order[at + 1]), planned.id(order[at])
            check.fail(f"starts before job {head}, which is ahead of it", late, float(start[at + 1]))
