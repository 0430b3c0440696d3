"""Quotas: how many GPUs the jobs of each owner may hold together (docs/priorities.md#quotas)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.column import Column
from ringbco.trace.schema import MAX_COUNT, Fault
from ringbco.trace.side_table import Form, ReadContext, SideTable

_OWNER: Final = "text"
_HINT: Final = "name a value of that column of the job table, or drop the row"
OWNERS: Final = ("vc", "user")
COLUMNS: Final[dict[str, Column]] = {
    "vc": Column(pl.String, False, _OWNER, _HINT),
    "user": Column(pl.String, False, _OWNER, _HINT),
    "gpus": Column(
        pl.UInt64,
        True,
        "an integer >= 0",
        "give the GPUs that the owner's jobs may hold together",
        0.0,
        True,
        MAX_COUNT,
    ),
    "borrow": Column(pl.Boolean, True, "true or false", "say whether its jobs may start beyond the quota"),
}
"""The schema. A file has one of the two columns of owners."""


class OfOwners(SideTable):
    """A table of the owners of a job table; one of the columns vc and user is null throughout."""

    @classmethod
    def form_for(cls, known: ReadContext) -> Form:
        """What it has to be beside the jobs."""
        return cls.form._replace(beyond=partial(owner_faults, noun=cls.form.noun, jobs=known.jobs))

    @property
    def column(self) -> str:
        """The column of the job table that names the owners."""
        return OWNERS[0] if self.frame[OWNERS[0]].is_not_null().any() else OWNERS[1]


@dataclass(frozen=True, eq=False)
class Quotas(OfOwners):
    """Checked quotas of the owners of a job table."""

    form: ClassVar[Form] = Form("quotas", "quota", COLUMNS, ("gpus", "borrow"), entry="quotas")

    def columns(self, jobs: pl.DataFrame) -> tuple[NDArray[np.uint32], list[int], list[bool]]:
        """The place of each job's owner, 2^32 - 1 for a job without a quota; GPUs; whether to borrow."""
        owners = self.frame[self.column]
        places = list(range(owners.len()))
        owner = jobs[self.column].replace_strict(
            list(owners), places, default=2**32 - 1, return_dtype=pl.UInt32
        )
        return owner.to_numpy(), self.frame["gpus"].to_list(), self.frame["borrow"].to_list()


def owner_faults(frame: pl.DataFrame, noun: str, jobs: pl.DataFrame | None) -> Iterator[Fault]:
    """Owners that are missing, of both columns, named twice, or of no job. noun: what the rows are."""
    first, second = (frame[name] for name in OWNERS)
    column = OWNERS[0] if first.is_not_null().any() else OWNERS[1]
    if column == OWNERS[0] and second.is_not_null().any():
        rule = "nothing: the owners of this file are virtual clusters (vc)"
        yield Fault(OWNERS[1], second.is_not_null(), second, rule, rule, "give users a file of their own")
    owner = frame[column]
    if owner.is_null().any():
        rule = "the name of an owner"
        if first.is_null().all() and second.is_null().all():
            # Which of the two the file has cannot be seen here, nor whether it has any.
            column, rule = OWNERS[0], "the name of an owner, in the column vc or in the column user"
        yield Fault(column, owner.is_null(), owner, rule, rule, _HINT)
    again = owner.is_not_null() & ~owner.is_first_distinct()
    if again.any():
        rule = "every owner once"
        yield Fault(column, again, owner, rule, rule, "drop one of the two rows")
    if jobs is None:
        return
    if column not in jobs.columns:
        rule = f"an owner of jobs: the job table has no column {column}"
        hint = f"add it to the job table, or give {noun} by {'user' if column == 'vc' else 'vc'}"
        yield Fault(column, owner.is_not_null(), owner, rule, rule, hint)
        return
    nobody = owner.is_not_null() & ~owner.is_in(jobs[column].unique().to_list())
    if nobody.any():
        rule = f"an owner of jobs: no job of the table has this {column}"
        yield Fault(column, nobody, owner, rule, rule, _HINT)
