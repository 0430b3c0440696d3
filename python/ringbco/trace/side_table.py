"""A table that stands beside a job table (speeds, outages, quotas, services): read and checked in one way."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, NamedTuple, Self, TypeVar

import numpy as np
import polars as pl

from ringbco.cluster.hostlist import nearest_server, server_ranges
from ringbco.deprecation import renamed, warn
from ringbco.errors import InputError, show_path
from ringbco.io.csvtext import refuse_doubled
from ringbco.io.digests import sha256_of
from ringbco.io.frames import ArrowTable, as_polars
from ringbco.io.marks import Mark, signature
from ringbco.io.marks import table as table_mark
from ringbco.trace.clock import NO_EPOCH, NO_EPOCH_HINT, date_on, seconds_since
from ringbco.trace.column import Column
from ringbco.trace.group_rows import with_groups
from ringbco.trace.jobs import Raw, read_columns, table_file
from ringbco.trace.schema import MOST_SECONDS, Fault, check_column
from ringbco.units import DATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster

_Copy = TypeVar("_Copy")

INSTANT: Final = Column(
    pl.Float64,
    True,
    "a finite number of seconds >= 0",
    "count seconds from the epoch of submit_time, or drop the row",
    0.0,
    True,
    MOST_SECONDS,
)
"""A column of times on the clock of the job table."""
_SEVERAL: Final = r"^\s*\d+\s*[-,]"
"""What begins as several servers do."""
_RANGES: Final = "indexes and ranges of servers such as 0-3,7, the lower index first"
MOST_ROWS: Final = 10_000_000
"""The most rows that ranges of servers may come to."""


class Form(NamedTuple):
    """What a table has to be: the row of a kind of side tables.

    noun: what its rows are, in the plural. option: the option that names it. columns: its schema. needed: the
    columns that must be there, though their cells may be empty where the schema says so. beyond: what is
    wrong beyond one cell. may_be_empty: whether it may have no rows. instants: its columns of times on the
    clock of the job table. name: another than the option, for an outcome and the file of a result folder.
    entry: another for the table of run.toml that tells of it. ranged: its column of indexes of servers, whose
    cells may also be texts such as "0-3,7": a row for each of those servers. numbers: the servers that may be
    named there. groups: of the network, which columns called as their tier may name in place of servers.
    owners: where columns of the job table are columns of the table, the form with these and the
    table with text in them. seldom: columns that a result's copy lacks where no row has a value.
    """

    noun: str
    option: str
    columns: Mapping[str, Column]
    needed: tuple[str, ...]
    beyond: Callable[[pl.DataFrame], Iterable[Fault]] = lambda _: ()
    may_be_empty: bool = False
    instants: tuple[str, ...] = ()
    name: str = ""
    entry: str = ""
    ranged: str = ""
    numbers: Mapping[str, int] = {}
    groups: Mapping[str, Mapping[str, list[range]]] = {}
    owners: Callable[[Raw, Form], tuple[Form, pl.DataFrame]] | None = None
    seldom: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """The name of an outcome's table that is the run's copy of it."""
        return self.name or self.option

    @property
    def file(self) -> str:
        """The file of a result folder that holds the copy."""
        return f"{self.table}.parquet"

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The types of its columns."""
        return {name: column.dtype() for name, column in self.columns.items()}


class ReadContext(NamedTuple):
    """What a side table is read against; None for what is not known yet.

    jobs: the job table. servers, largest: of the cluster, how many there are, and GPUs of the largest. epoch:
    what 0 is on the clock of the job table; where it is None, dates are refused. numbers: the index of each
    server that has a name. cluster: for the groups of its network.
    """

    jobs: pl.DataFrame | None = None
    servers: int | None = None
    largest: int | None = None
    epoch: datetime | None = None
    numbers: Mapping[str, int] = {}
    cluster: Cluster | None = None

    @classmethod
    def of(
        cls, cluster: Cluster, jobs: pl.DataFrame | None = None, epoch: datetime | None = None
    ) -> ReadContext:
        """What is known of tables beside runs on a cluster."""
        largest = int(cluster.server_gpus.max())
        return cls(jobs, cluster.num_servers, largest, epoch, cluster.server_numbers, cluster)


@dataclass(frozen=True, eq=False)
class SideTable:
    """A checked table that stands beside a job table; each kind of them is a class, a row of `KINDS`.

    frame: as given, with the columns of its schema, rows in input order. source: where it comes from. sha256:
    of the file's bytes; None for a frame.
    """

    frame: pl.DataFrame
    source: str
    sha256: str | None = None

    form: ClassVar[Form]
    """What it has to be, whatever is known."""
    is_copied: ClassVar[bool] = True
    """Whether a result keeps a copy; of another table run.toml says where it is, as of the job table."""

    @classmethod
    def mark(cls) -> Mark:
        """How a file that `write` wrote is known."""
        return table_mark(f"table of {cls.form.noun}", cls.form.needed, cls.form.columns)

    @classmethod
    def form_for(cls, known: ReadContext) -> Form:
        """What it has to be beside what is known."""
        return cls.form

    @classmethod
    def settled(cls, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame that was checked, with what stands for values that it leaves out."""
        return frame

    @classmethod
    def takes(cls, value: object) -> bool:
        """Whether `read` takes it: a path, a frame, or what such was read as."""
        of_kind = isinstance(value, SideTable) and (isinstance(value, cls) or issubclass(cls, type(value)))
        return of_kind or is_table(value)

    @classmethod
    def read(cls, given: object, known: ReadContext | None = None, source: str | None = None) -> Self:
        """The table that `given` stands for: itself, a frame, or the Parquet or CSV file of that name.

        source: the file that a frame comes from. Raises InputError naming file, row, column, value and what
        was expected, for the lowest row at fault.
        """
        known = known or ReadContext()
        read = given.frame if isinstance(given, SideTable) else given
        frame, named, sha256 = read_side_table(read, cls.form_for(known), source, known.epoch)
        if isinstance(given, cls):
            return given
        if isinstance(given, SideTable):
            named, sha256 = given.source, given.sha256
        return cls(cls.settled(frame), named, sha256)

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The copies of it in an outcome, by name."""
        return {self.form.table: self.copied} if self.is_copied else {}

    @classmethod
    def copies(cls, find: Callable[[str], _Copy | None]) -> _Copy | list[_Copy] | None:
        """What `read` makes it of again. find: gives the copy of that name, None where there is none."""
        return find(cls.form.table) if cls.is_copied else None

    @property
    def copied(self) -> pl.DataFrame:
        """What a result keeps of it."""
        return self.frame.drop(name for name in self.form.seldom if self.frame[name].is_null().all())

    @property
    def written(self) -> pl.DataFrame:
        """What a file of it holds."""
        return self.frame

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes a file, Parquet or CSV by its ending, whole or not at all.

        Raises UsageError for another ending, InputError if the file exists and `force` is not set or it is
        none of ours, and where it cannot be written.
        """
        with table_file(path, self.mark(), force=force) as file:
            self.write_to(file, as_csv=os.fspath(path).lower().endswith(".csv"))

    save = renamed("save", "write")

    def write_to(self, file: BinaryIO, *, as_csv: bool) -> None:
        """Writes it into an open file, as CSV or as Parquet."""
        if as_csv:
            self.written.write_csv(file)
        else:
            self.written.write_parquet(file, compression="zstd", metadata=signature(self.form.noun))

    @property
    def identity(self) -> dict[str, object]:
        """What run.toml says of the table: path, SHA-256 of the file, rows."""
        return {"path": show_path(self.source), "sha256": self.sha256, "rows": self.frame.height}

    def told(self) -> dict[str, object]:
        """The old name of `identity`."""
        warn(f"{type(self).__name__}.told()", "identity")
        return self.identity

    def times(self, first: float) -> tuple[pl.Series, pl.Series] | None:
        """From when to when each row is, s; None where rows have no times, or what they say holds always.

        first: the first submission.
        """
        return None


def is_table(value: object) -> bool:
    """Whether `read_side_table` takes it: a path or a frame."""
    return isinstance(value, str | os.PathLike | pl.LazyFrame | ArrowTable)


def read_side_table(
    given: object, form: Form, source: str | None = None, epoch: datetime | None = None
) -> tuple[pl.DataFrame, str, str | None]:
    """The table of a frame, or of the Parquet or CSV file of that name; its source, and the file's SHA-256.

    source: where a frame comes from, if that is a file. epoch: what 0 is on the clock of the job table, for
    dates and times in a column of instants.
    Raises InputError naming file, row, column, value and what was expected, for the lowest row at fault.
    """
    if isinstance(given, str | os.PathLike):
        raw = read_columns(given)
        return check_table(dated(raw, form, epoch), form), raw.source, sha256_of(given)
    source = source or f"<{form.option}>"
    if not is_table(given):
        raise InputError(
            f"{form.option}: expected a path, or a table of polars, pyarrow, pandas (2.2 or newer) or another"
            f" library with the Arrow PyCapsule interface, not {type(given).__name__}"
        )
    frame = as_polars(given, form.option)
    raw = dated(Raw(frame, source, False, None, {}), form, epoch)
    return check_table(raw, form), source, None


def dated(raw: Raw, form: Form, epoch: datetime | None) -> Raw:
    """The same with seconds from the epoch for dates and times in columns of instants."""
    frame = raw.frame
    for name in form.instants:
        if name not in frame.columns:
            continue
        cells = frame[name]
        if isinstance(cells.dtype, pl.Datetime | pl.Date):
            at = cells.is_not_null()
        elif cells.dtype == pl.String:
            at = cells.str.contains(DATE).fill_null(value=False)
        else:
            continue
        if at.any():
            seconds = _seconds(raw, name, at, epoch)
            if cells.dtype == pl.String and (raw.as_text or not at.filter(cells.is_not_null()).all()):
                seconds = cells.zip_with(~at, seconds.cast(pl.String))
            frame = frame.with_columns(seconds.alias(name))
    return raw._replace(frame=frame)


def _seconds(raw: Raw, column: str, dated: pl.Series, epoch: datetime | None) -> pl.Series:
    """Seconds from the epoch to the dates and times of a column, null elsewhere. dated: where they are."""
    cells, expected, hint = raw.frame[column], f"seconds: {NO_EPOCH}", NO_EPOCH_HINT
    bad = dated
    if epoch is not None:
        expected, hint = date_on(epoch), "mend it, or count seconds from the epoch"
        seconds = seconds_since(epoch, cells)
        bad = dated & seconds.is_null()
        if not bad.any():
            return seconds
    row = int(bad.arg_max() or 0)
    raise at_row(raw, row, expected, column=column, value=cells[row], hint=hint)


def check_table(raw: Raw, form: Form) -> pl.DataFrame:
    """The columns of the form, rows in input order. Raises InputError as `read_side_table` does."""
    frame, source, as_text = raw.frame, raw.source, raw.as_text
    refuse_doubled(source, frame.columns)
    _require_columns(form, frame.columns, source)
    if frame.height == 0:
        if not form.may_be_empty:
            raise InputError(f"holds no {form.noun}, only column names", file=source)
        return pl.DataFrame(schema={name: column.dtype for name, column in form.columns.items()})
    if form.owners is not None:
        form, frame = form.owners(raw._replace(frame=frame), form)
    if as_text:
        # An empty cell of CSV is no text.
        frame = frame.with_columns(
            pl.col(name).replace("", None) for name in form.columns if name in frame.columns
        )
    frame, rows, faults = _spread(frame, form, raw)
    columns: list[pl.Series] = []
    for name, column in form.columns.items():
        if name not in frame.columns:
            columns.append(pl.repeat(None, frame.height, dtype=column.dtype(), eager=True).rename(name))
            continue
        cells, fault = check_column(frame[name], column, source, as_text)
        columns.append(cells)
        faults += [] if fault is None else [fault]
    made = pl.DataFrame(columns)
    faults += (fault for fault in form.beyond(made) if fault.rows_at_fault.any())
    if faults:
        worst = min(faults, key=lambda fault: fault.first_row)
        row, value, expected, hint = worst.first_row, worst.value, worst.expected, worst.hint
        if rows is not None:
            row = int(rows[row])
            if worst.column in raw.frame.columns:
                value = raw.frame[worst.column][row]
        if worst.column == form.ranged and isinstance(value, str):
            if form.numbers:
                expected = f"{expected}, or names of servers"
                hint = nearest_server(value, form.numbers) or hint
            elif re.search(r"\d\s*[-,]", value):
                expected += f", or {_RANGES}"
        raise at_row(raw, row, expected, column=worst.column, value=value, hint=hint)
    return made.rechunk()


def _require_columns(form: Form, names: list[str], source: str) -> None:
    by_group = any(name in names for name in form.groups)
    missing = [name for name in form.needed if name not in names and not (name == form.ranged and by_group)]
    if missing:
        others = [name for name in form.columns if name not in form.needed]
        may = f", and may have {', '.join(others)}" if others else ""
        may += ", and one of owners, such as user" if form.owners is not None else ""
        may += f"; {' or '.join(form.groups)} may stand in place of {form.ranged}" if form.groups else ""
        raise InputError(
            f"has no column {', '.join(missing)}",
            file=source,
            hint=f"{form.noun} have the columns {', '.join(form.needed)}{may}",
        )


def at_row(raw: Raw, row: int, expected: str, **told: Any) -> InputError:
    """The error for a row, from 0. told: column, value, hint."""
    line = None if raw.line_of is None else raw.line_of(row + 1)
    return InputError(expected, file=raw.source, row=row + 1, line=line, **told)


def _spread(
    frame: pl.DataFrame, form: Form, raw: Raw
) -> tuple[pl.DataFrame, NDArray[np.int64] | None, list[Fault]]:
    """A row for each server that a row names, and the row (from 0) that each comes from; None: its own.

    A cell that names nothing stays as it is, and of one that names servers beyond the last only the highest
    is left: the check of the column tells of both. Rows at fault that name a group are the third part.
    Raises InputError for more than `MOST_ROWS` rows.
    """
    frame, grouped, faults = with_groups(frame, form.ranged, form.groups, form.columns)
    cells = frame.get_column(form.ranged, default=None) if form.ranged else None
    if cells is None or cells.dtype != pl.String:
        return frame, None, faults
    if not (grouped or form.numbers or cells.str.contains(_SEVERAL).any()):
        return frame, None, faults
    last = form.columns[form.ranged].high
    found: dict[object, list[range]] = {}
    for cell in cells.unique():
        try:
            ranges = [] if cell is None else grouped.get(cell) or server_ranges(cell, form.numbers)
        except ValueError:
            ranges = []
        high = max((part[-1] for part in ranges), default=0)
        found[cell] = [range(high, high + 1)] if last is not None and high > last else ranges
    size = {cell: max(sum(map(len, ranges)), 1) for cell, ranges in found.items()}
    counts = np.array([size[cell] for cell in cells], np.int64)
    beyond = np.flatnonzero(counts.cumsum() > MOST_ROWS)
    if beyond.size:
        row = int(beyond[0])
        expected = f"at most {MOST_ROWS:,} rows in all, one a server"
        hint = "split the file, or name fewer servers"
        raise at_row(raw, row, expected, column=form.ranged, value=cells[row].strip("\0"), hint=hint)
    named = {
        cell: [*map(str, sorted(set().union(*ranges)))] if ranges else [cell]
        for cell, ranges in found.items()
    }
    lists = [named[cell] for cell in cells]
    counts = np.array([len(each) for each in lists], np.int64)
    rows = np.repeat(np.arange(frame.height), counts)
    servers = pl.Series(form.ranged, [server for each in lists for server in each], pl.String)
    if not raw.as_text:
        servers = servers.cast(pl.Int64, strict=False)
    spread = [replace(one, rows_at_fault=one.rows_at_fault[rows], given=one.given[rows]) for one in faults]
    return frame[rows].with_columns(servers), rows, spread
