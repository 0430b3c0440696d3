"""Times: no job early, and slots kept."""

from __future__ import annotations

import numpy as np

from ringbco.audits.facts import Facts
from ringbco.audits.findings import Check, blame, number


def check_starts(check: Check, facts: Facts) -> None:
    """No job starts before its submission."""
    bad = check.broken(facts.start < facts.submit)
    blame(
        check,
        facts,
        bad,
        lambda j: f"started, submitted only at {number(facts.submit[j])} s",
        time=facts.start,
    )


def check_slots(check: Check, facts: Facts) -> None:
    """Slot clock: starts and finishes are multiples of the slot."""
    if not facts.slots:
        check.not_run = "the clock is continuous"
        return
    for name, times in (("start", facts.start), ("finish", facts.finish)):
        bad = check.broken(np.rint(times / facts.slot) * facts.slot != times)
        said = f"its {name} is not a multiple of the slot, {number(facts.slot)} s"
        blame(check, facts, bad, said, time=times)
