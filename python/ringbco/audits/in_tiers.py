"""Whether stays lie in the tier of their job, and in whole segments (docs/tiers.md#placement)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringbco.audits.findings import blame_stays
from ringbco.trace.forms import bounds
from ringbco.trace.strays import strays

if TYPE_CHECKING:
    from ringbco.audits.facts import Facts
    from ringbco.audits.findings import Check


def check_stays(check: Check, facts: Facts) -> None:
    """One group of within_tier holds a stay, and a group of segment_tier whole segments of it."""
    found = bounds(facts.table, facts.cluster.tiers) if facts.options["placement"] == "compact" else None
    if found is None:
        return
    job, bound = facts.a_job, found[facts.row][facts.a_job]
    stay = job * (facts.a_stay.max(initial=0) + 1) + facts.a_stay
    away = strays(facts.cluster, bound, stay, facts.a_server, facts.a_gpus)
    blame_stays(
        check,
        facts,
        check.broken(away.beyond),
        lambda i: f"server {facts.a_server[i]}; expected one group of its within_tier",
    )
    blame_stays(
        check,
        facts,
        check.broken(away.uneven),
        lambda i: f"{away.in_group[i]} GPUs in one group; expected whole segments of {bound[i, 1]}",
    )
