"""Fair shares: how much each owner is meant to get of the cluster (docs/operators.md#fair-share)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import InputError
from ringbco.trace.column import Column
from ringbco.trace.jobs import JobTable
from ringbco.trace.quotas import COLUMNS as QUOTAS
from ringbco.trace.quotas import OWNERS, OfOwners
from ringbco.trace.side_table import Form

USUAL: Final = 1.0
"""The share of an owner of whom nothing else is said."""
COLUMNS: Final[dict[str, Column]] = {
    **{name: QUOTAS[name] for name in OWNERS},
    "share": Column(
        pl.Float64, False, "a finite number >= 0", "give 0 to who comes last, or {empty} for 1", 0.0
    ),
}
"""The schema. A file has one of the two columns of owners."""


@dataclass(frozen=True, eq=False)
class FairShares(OfOwners):
    """Checked shares of the owners of a job table."""

    form: ClassVar[Form] = Form("shares", "fair_shares", COLUMNS, ())

    def shares(self) -> dict[str, float]:
        """The share of each owner that has a row."""
        return dict(zip(self.frame[self.column], self.frame["share"].fill_null(USUAL), strict=True))


def owners(jobs: pl.DataFrame, shares: FairShares | None) -> list[str | None] | None:
    """Whose job each row is: by the column of the shares, else by user, else by vc; None if there is none."""
    named = (
        [shares.column] if shares is not None else [name for name in ("user", "vc") if name in jobs.columns]
    )
    return jobs[named[0]].to_list() if named else None


def columns(table: JobTable, shares: FairShares | None) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """The number of each job's owner, and one share per owner. Jobs that name no owner belong to one.

    Raises InputError where the job table names no owners.
    """
    found = owners(table.frame, shares)
    if found is None:
        raise InputError(
            "a column user or vc, whose jobs share the cluster; there is neither",
            file=table.source,
            hint="add one to the job table, or use another --order than fairshare",
        )
    numbers = {owner: number for number, owner in enumerate(dict.fromkeys(found))}
    said = {} if shares is None else shares.shares()
    share = [USUAL if owner is None else said.get(owner, USUAL) for owner in numbers]
    return np.array([numbers[owner] for owner in found], np.uint32), np.array(share, np.float64)
