"""Which stays ended so that others could start, as far as a result tells it (docs/priorities.md#eviction)."""

from __future__ import annotations

import polars as pl

from ringbco.audits.facts import preempts
from ringbco.result.outcome import Outcome
from ringbco.result.resizing import STAY, failed


def evicted(outcome: Outcome) -> pl.DataFrame | None:
    """The stays that evictions ended, a row each: job_id, start_time, end_time (s).

    None where nobody is evicted or nobody can tell: a policy that preempts ends stays as well, and a result
    may have no allocations. Else it is every stay that is neither its job's last nor ended by an outage or at
    a rung.
    """
    held = outcome.allocations
    if held is None or "evictions" not in outcome.jobs.columns:
        return None
    options = outcome.run.get("options", {})
    # As text: a damaged run.toml may have a list there.
    if preempts({**options, "policy": str(options.get("policy"))}):
        return None
    counted = outcome.jobs.filter(pl.col("evictions") > 0)["job_id"]
    rows = held.filter(pl.col("job_id").is_in(counted.implode()))
    early = rows.filter(pl.col("end_time") < pl.col("end_time").max().over("job_id"))
    if outcome.rungs is not None:
        at_rung = outcome.rungs.select("job_id", end_time="time")
        early = early.join(at_rung, on=["job_id", "end_time"], how="anti")
    return (
        early.join(failed(early, outcome.outages, options), on=STAY, how="anti")
        .select(STAY)
        .unique(maintain_order=True)
    )
