"""Whether stays lie in the tier of their job, and their segments each in one group (docs/tiers.md#placement)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ringbco.audits.findings import blame_stays
from ringbco.trace.forms import bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.audits.facts import Facts
    from ringbco.audits.findings import Check


def check_stays(check: Check, facts: Facts) -> None:
    """One group of within_tier holds a stay, and a group of segment_tier whole segments of it."""
    found = bounds(facts.table, facts.cluster.tiers) if facts.options["placement"] == "compact" else None
    if found is None:
        return
    within, segment, segment_tier = found[facts.row].T
    job, stay = facts.a_job, facts.a_job * (facts.a_stay.max(initial=0) + 1) + facts.a_stay
    _, first, of = np.unique(stay, return_index=True, return_inverse=True)
    group = _groups(facts, within[job])
    blame_stays(
        check,
        facts,
        check.broken((within[job] > 0) & (group != group[first][of])),
        lambda i: f"server {facts.a_server[i]}; expected one group of its within_tier",
    )
    at = np.flatnonzero(segment[job] > 0)
    if at.size:
        group = _groups(facts, segment_tier[job])
        _, part = np.unique(np.stack([of[at], group[at]]), axis=1, return_inverse=True)
        gpus = np.bincount(part.ravel(), facts.a_gpus[at]).astype(np.int64)[part.ravel()]
        bad = np.zeros(job.size, np.bool_)
        bad[at] = gpus % segment[job[at]] != 0
        held = np.zeros(job.size, np.int64)
        held[at] = gpus
        blame_stays(
            check,
            facts,
            check.broken(bad),
            lambda i: f"{held[i]} GPUs in one group; expected whole segments of {segment[job[i]]}",
        )


def _groups(facts: Facts, tier: NDArray[Any]) -> NDArray[np.int64]:
    """The group of each row's server in a tier: 1 for the server itself; -1 beyond the cluster."""
    servers, count = facts.a_server, facts.cluster.num_servers
    known = np.minimum(servers, count - 1)
    found = np.where(servers < count, servers, -1).astype(np.int64)
    for number, own in enumerate(facts.cluster.tiers):
        found = np.where(tier == number + 2, own.group_of(count)[known].astype(np.int64), found)
    return found
