"""What rungs.parquet says of the trials of a result, beside its stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ringbco.trace.searches import Search

if TYPE_CHECKING:
    from ringbco.audits.facts import Bools, Facts, Floats, Ints


@dataclass(frozen=True)
class Climbs:
    """A value a rung that a trial reached, by job and rung. Times in seconds.

    job: as `Facts` counts them. went_on: NaN where the trial did not go on. search: how they are judged.
    """

    job: Ints
    rung: Ints
    time: Floats
    loss: Floats
    went_on: Floats
    search: Search

    @property
    def left(self) -> Bools:
        """Whether the trial gave its GPUs back there."""
        return np.asarray(self.went_on != self.time)


def read(facts: Facts) -> Climbs | None:
    """Those of jobs that the result knows; None for a run without searches."""
    told = facts.outcome.rungs
    if told is None or facts.options.get("search") is None:
        return None
    jobs = pl.DataFrame({"job_id": facts.ids, "job": np.arange(facts.ids.len())})
    known = told.join(jobs, on="job_id", how="inner").sort("job", "rung")
    return Climbs(
        known["job"].to_numpy().astype(np.int64),
        known["rung"].to_numpy().astype(np.int64),
        known["time"].to_numpy(),
        known["loss"].to_numpy(),
        known["went_on"].fill_null(np.nan).to_numpy(),
        Search.parse(str(facts.options["search"])),
    )
