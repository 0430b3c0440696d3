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
from ringbco.trace.owners import OfOwners, names_of
from ringbco.trace.side_table import Form

DEFAULT_SHARE: Final = 1.0
"""The share of an owner of whom nothing else is said."""
COLUMNS: Final[dict[str, Column]] = {
    "share": Column(
        pl.Float64, False, "a finite number >= 0", "give 0 to who comes last, or {empty} for 1", 0.0
    ),
}
"""The schema, beside the columns of owners."""
Owner = tuple[str | None, ...]
"""Names from above: an owner, or an account and a user in it."""


@dataclass(frozen=True, eq=False)
class FairShares(OfOwners):
    """Checked shares of the owners of a job table: of one level, or of accounts and of the users in them."""

    form: ClassVar[Form] = Form("shares", "fair_shares", COLUMNS, ())
    most: ClassVar[int] = 2

    def shares(self) -> dict[Owner, float]:
        """The share of each owner that has a row; one without a user is the account's."""
        owners = self.frame.select(self.columns).iter_rows()
        shares = self.frame["share"].fill_null(DEFAULT_SHARE)
        return {
            owner[:1] if owner[-1] is None else owner: share
            for owner, share in zip(owners, shares, strict=True)
        }


def owners(jobs: pl.DataFrame, shares: FairShares | None) -> list[Owner] | None:
    """Whose job each row is: by the columns of the shares, else user, else vc; None if there is none."""
    named = shares.columns if shares is not None else [n for n in ("user", "vc") if n in jobs.columns][:1]
    return pl.DataFrame([names_of(jobs, name) for name in named]).rows() if named else None


def columns(
    table: JobTable, shares: FairShares | None
) -> list[tuple[NDArray[np.uint32], NDArray[np.float64]]]:
    """By level, the upper one first: the number of each job's owner, and one share per owner.

    Jobs that name no owner belong to one. Raises InputError where the job table names no owners.
    """
    found = owners(table.frame, shares)
    if found is None:
        raise InputError(
            "a column user or vc, whose jobs share the cluster; there is neither",
            file=table.source,
            hint="add one to the job table, or use another --order than fairshare",
        )
    said = {} if shares is None else shares.shares()
    return [_level([owner[: level + 1] for owner in found], said) for level in range(len(found[0]))]


def _level(found: list[Owner], said: dict[Owner, float]) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    numbers = {owner: number for number, owner in enumerate(dict.fromkeys(found))}
    share = [DEFAULT_SHARE if owner[-1] is None else said.get(owner, DEFAULT_SHARE) for owner in numbers]
    return np.array([numbers[owner] for owner in found], np.uint32), np.array(share, np.float64)
