"""Tables of the owners of jobs: what quotas and fair shares have in common.

An owner is a value of a column of the job table, of text or of integers. A table names the owners in a column
of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, Self

import polars as pl

from ringbco.errors import InputError, nearest
from ringbco.trace.column import Column
from ringbco.trace.jobs import Raw
from ringbco.trace.schema import Fault
from ringbco.trace.side_table import Form, ReadContext, SideTable, read_side_table

_HINT: Final = "name a value of that column of the job table, or drop the row"
_NAMES: Final = "of text or of integers"
USUAL: Final = ("vc", "user")
"""The columns of owners that most job tables have."""
OWNER: Final = Column(pl.String, False, "text", _HINT)
"""A column of owners; numbers become text."""


def is_of_names(dtype: pl.DataType) -> bool:
    """Whether a column of the job table can name owners."""
    return dtype.is_integer() or isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


def names_of(jobs: pl.DataFrame, column: str) -> pl.Series:
    """The owner of each job, as text."""
    return jobs[column].cast(pl.String)


class OfOwners(SideTable):
    """A table of the owners of a job table.

    most: how many columns of owners it may have, the upper one first.
    """

    most: ClassVar[int] = 1

    @classmethod
    def form_for(cls, known: ReadContext) -> Form:
        """What it has to be beside the jobs."""
        rules = tuple(cls.form.columns)
        return cls.form._replace(
            owners=partial(_with_owners, jobs=known.jobs, most=cls.most),
            beyond=partial(_faults, rules=rules, jobs=known.jobs, most=cls.most),
        )

    @classmethod
    def read(cls, given: object, known: ReadContext | None = None, source: str | None = None) -> Self:
        """As `SideTable.read`; a table that was read without the job table is checked against it."""
        if isinstance(given, cls):
            form = cls.form_for(known or ReadContext())
            frame = read_side_table(given.frame, form, source or given.source)[0]
            return given if frame.equals(given.frame) else replace(given, frame=frame)
        return super().read(given, known, source)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the job table that name the owners."""
        return _owner_columns(self.frame, tuple(self.form.columns), self.most)


def _owner_columns(frame: pl.DataFrame, rules: tuple[str, ...], most: int) -> tuple[str, ...]:
    """The columns of owners of a checked table: all of its levels, or of one level that with values."""
    names = [name for name in frame.columns if name not in rules]
    if most > 1 and tuple(frame.columns) != (*USUAL, *rules):
        return tuple(names[:most])
    return tuple([name for name in names if frame[name].is_not_null().any()][:1] or names[:1])


def _with_owners(raw: Raw, form: Form, *, jobs: pl.DataFrame | None, most: int) -> tuple[Form, pl.DataFrame]:
    """The form with the columns of owners that a table has, and the table with text in them.

    Raises InputError where it has none.
    """
    others = [name for name in raw.frame.columns if name not in form.columns]
    names = [name for name in others if jobs is None or name in jobs.columns] or others[:1]
    if not names:
        raise InputError(
            "has no column of owners",
            file=raw.source,
            hint=f"beside {', '.join(form.columns)} give a column of the job table, such as user",
        )
    text = [pl.col(name).cast(pl.String) for name in names if raw.frame[name].dtype.is_integer()]
    return form._replace(columns=_laid_out(raw, form, names, most)), raw.frame.with_columns(text)


def _laid_out(raw: Raw, form: Form, names: list[str], most: int) -> dict[str, Column]:
    """The columns of a checked table, in their order.

    Owners of a single level that are vcs or users have both columns, of which one is null throughout. Users
    in vcs stand behind the rest, so that they differ from those although no row names a user.
    """
    one_of_two = {**dict.fromkeys(USUAL, OWNER), **form.columns}
    if not {*names} <= {*USUAL}:
        return {**dict.fromkeys(names, OWNER), **form.columns}
    if most == 1 or len(names) == 1:
        return one_of_two
    first, second = names
    if tuple(names) != USUAL:
        return {first: OWNER, second: OWNER, **form.columns}
    is_copy = not raw.as_text and tuple(raw.frame.columns) == tuple(one_of_two)
    if _is_empty(raw.frame[first]) or (is_copy and _is_empty(raw.frame[second])):
        return one_of_two
    return {first: OWNER, **form.columns, second: OWNER}


def _is_empty(cells: pl.Series) -> bool:
    said = cells.is_not_null() & (cells != "") if cells.dtype == pl.String else cells.is_not_null()
    return not said.any()


def _faults(
    frame: pl.DataFrame, *, rules: tuple[str, ...], jobs: pl.DataFrame | None, most: int
) -> Iterator[Fault]:
    """Owners that are missing, of too many columns, named twice, or of no job."""
    columns = _owner_columns(frame, rules, most)
    for name in (name for name in frame.columns if name not in (*rules, *columns)):
        cells = frame[name]
        shown = " and ".join(columns)
        rule = f"nothing: the owners of this file are those of {shown}"
        yield Fault(name, cells.is_not_null(), cells, rule, rule, "give them a file of their own")
    first, last = frame[columns[0]], frame[columns[-1]]
    rule = "the name of an owner"
    yield Fault(columns[0], first.is_null(), first, rule, rule, _HINT)
    owners = frame.select(columns)
    again = first.is_not_null() & ~_first_distinct(owners)
    rule = "every owner once"
    yield Fault(columns[-1], again, last, rule, rule, "drop one of the two rows")
    if jobs is not None:
        yield from _strangers(owners, jobs)


def _first_distinct(frame: pl.DataFrame) -> pl.Series:
    return frame.select(pl.struct(pl.all()).is_first_distinct()).to_series()


def _strangers(owners: pl.DataFrame, jobs: pl.DataFrame) -> Iterator[Fault]:
    """Owners that no job of the table has, and columns that name none."""
    for name, cells in owners.to_dict().items():
        if name not in jobs.columns:
            near = nearest(name, jobs.columns)
            rule = f"an owner of jobs: the job table has no column {name}"
            hint = (
                f"did you mean {near}?" if near else "name the column as the job table does, or add it there"
            )
            yield Fault(name, cells.is_not_null(), cells, rule, rule, hint)
            return
        if not is_of_names(jobs[name].dtype):
            rule = f"an owner of jobs: the job table's column {name} is {jobs[name].dtype}, not {_NAMES}"
            yield Fault(name, cells.is_not_null(), cells, rule, rule, "take another column for owners")
            return
    for level in range(1, len(owners.columns) + 1):
        names = owners.columns[:level]
        known = pl.DataFrame([names_of(jobs, name) for name in names]).unique()
        here = owners.select(names).with_row_index("row")
        found = here.join(known, on=names, how="semi")["row"]
        cells = owners[names[-1]]
        nobody = cells.is_not_null() & owners[names[0]].is_not_null()
        nobody &= ~pl.Series(range(cells.len())).is_in(found.implode())
        if nobody.any():
            column = names[-1]
            rule = f"an owner of jobs: no job of the table has this {' and '.join(reversed(names))}"
            yield Fault(column, nobody, cells, rule, rule, _HINT)
            return
