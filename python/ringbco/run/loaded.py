"""Finished results: read from their folders and checked, before they are drawn or compared."""

from __future__ import annotations

import copy
import os
from pathlib import Path

from ringbco.result.outcome import Outcome
from ringbco.result.validation import check_drawable
from ringbco.result.window import of_summary


def read_result(folder: str | os.PathLike[str]) -> Outcome:
    """The outcome in a result folder; InputError for the first thing in it that is damaged."""
    outcome = Outcome.read(folder)
    check_drawable(without_ended(outcome), Path(folder))
    return outcome


def without_ended(outcome: Outcome) -> Outcome:
    """The outcome without the stays of jobs that a policy ended: no figure is about them.

    They have no row in jobs.parquet. As many as the summary tells are left out. One more is a stray, which a
    check of the tables finds. The summary of a window does not tell of jobs submitted outside it.
    """
    summary: object = outcome.summary  # of a damaged result it may be anything
    if not isinstance(summary, dict):
        return outcome
    ended = summary.get("jobs_ended")
    allocations = outcome.allocations
    if not isinstance(ended, int) or allocations is None or "job_id" not in allocations.columns:
        return outcome
    strays = allocations.join(outcome.jobs, on="job_id", how="anti")
    if of_summary(summary) is None and strays["job_id"].n_unique() > ended:
        return outcome
    drawn = copy.copy(outcome)
    drawn.allocations = allocations.join(outcome.jobs, on="job_id", how="semi", maintain_order="left")
    return drawn
