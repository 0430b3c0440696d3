"""Under an order, or srtf and srsf, nobody starts where a server will be down before the job is over."""

from __future__ import annotations

import numpy as np

from ringbco.audits.difference import RELATIVE
from ringbco.audits.down import read_down
from ringbco.audits.facts import Facts
from ringbco.audits.findings import Check, blame_stretches, number
from ringbco.audits.options import preempts
from ringbco.result.metrics import column


def check_maintenance(check: Check, facts: Facts) -> None:
    """The first starts of jobs under an order, or srtf and srsf: the estimate is that of a whole run then."""
    by_time = facts.options["policy"] in ("srtf", "srsf")
    if facts.logged or facts.planned or (preempts(facts.options) and not by_time):
        return
    known = read_down(facts.outcome.maintenance, facts.cluster.num_servers, None)
    if known is None or not known.server.size:
        return
    factor = 1.0 if by_time else float(facts.options.get("estimate_factor", 1.0))
    job = facts.a_job
    length = facts.workload.estimate[facts.row[job]] * factor
    if facts.options.get("estimate") == "limit" and not by_time:
        limit = column(facts.table.frame, "time_limit")[facts.row[job]]
        length = np.where(np.isnan(limit), np.inf, limit)  # a job without one is reckoned to run for ever
    at = np.searchsorted(known.keys, facts.a_server + 1j * facts.a_start, side="right")
    ahead = np.minimum(at, known.server.size - 1)
    first = (facts.a_start == facts.start[job]) & (at < known.server.size)
    meets = first & (known.server[ahead] == facts.a_server)
    meets &= known.down[ahead] < facts.a_start + length * (1.0 - RELATIVE)
    blame_stretches(
        check,
        facts,
        np.flatnonzero(meets),
        lambda i: (
            f"starts on server {facts.a_server[i]}, where maintenance from {number(known.down[ahead[i]])} s"
            f" on is known, though it is reckoned to run for {number(length[i])} s"
        ),
    )
