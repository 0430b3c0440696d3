"""The rows of stays.parquet beside the episodes of the allocations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.audits.contention import Episodes
    from ringbco.result.outcome import Outcome


@dataclass(frozen=True)
class Stays:
    """The rows of stays.parquet by job, then as they are numbered; first: where those of each job begin."""

    frame: pl.DataFrame
    first: NDArray[np.int64]

    def of(self, eps: Episodes) -> NDArray[np.int64]:
        """The row of each episode; -1 where there is none that begins then."""
        place = np.arange(eps.job.size) - np.searchsorted(eps.job, eps.job)
        at = self.first[eps.job] + place
        known = at < self.first[eps.job + 1]
        start = np.append(self.frame["start_time"].to_numpy(), np.nan)
        at = np.where(known, at, self.frame.height)
        return np.where(start[at] == eps.start, at, -1)

    def began(self, eps: Episodes, word: str) -> NDArray[np.bool_]:
        """Whether each episode began so."""
        at = self.of(eps)
        said = np.append((self.frame["began"] == word).to_numpy(), False)
        return np.asarray(said[at])


def read(outcome: Outcome, ids: pl.Series) -> Stays | None:
    """Those of the jobs in that order; None where no stay may end before its job is done."""
    if outcome.stays_written is None:
        return None
    jobs = ids.alias("job_id").to_frame().with_row_index("_job")
    found = outcome.stays_written.join(jobs, on="job_id", how="inner").sort(
        "_job", "stay", maintain_order=True
    )
    count = np.bincount(found["_job"].to_numpy(), minlength=ids.len())
    return Stays(found, np.concatenate([[0], np.cumsum(count)]).astype(np.int64))
