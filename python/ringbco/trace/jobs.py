"""The job table: reading, validating and writing (docs/job-table.md)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

import ringbco
from ringbco.deprecation import renamed, renamed_fields
from ringbco.errors import InputError, UsageError, show_path
from ringbco.io import bridge  # noqa: F401 - opens the way
from ringbco.io.atomic import cannot_write, check_output, replacing
from ringbco.io.csvtext import (
    index_columns,
    read_bytes,
    read_text_table,
    refuse_doubled,
    refuse_foreign,
)
from ringbco.io.forks import use_polars
from ringbco.io.frames import ArrowColumn, ArrowTable, arrow_source, as_polars, refuse_unheld
from ringbco.io.json_text import json_text
from ringbco.io.manifest import digest
from ringbco.io.marks import Mark, signature
from ringbco.io.marks import table as table_mark
from ringbco.io.memory import raise_lack
from ringbco.io.prefetch import PARQUET_MAGIC, column_of
from ringbco.io.threads import at_once
from ringbco.trace.clock import EPOCH, clock_zero
from ringbco.trace.other_names import index_note, near_name
from ringbco.trace.schema import COLUMNS, MAX_COUNT, MOST_SECONDS, REQUIRED, Fault, check

__all__ = [
    "COLUMNS",
    "JOBS_MARK",
    "MAX_COUNT",
    "METADATA_PREFIX",
    "MOST_SECONDS",
    "REQUIRED",
    "UNREAD",
    "Dropped",
    "JobTable",
    "Screening",
    "TableLike",
    "as_table",
    "check_output_name",
    "from_frame",
    "near_name",
    "provenance",
    "read_jobs",
    "read_metadata",
    "screen_jobs",
    "table_file",
    "write_jobs",
]

METADATA_PREFIX: Final = "ringbco."
UNREAD: Final = ("status",)
"""Columns that no replay reads or carries along: they may hold anything."""
JOBS_MARK: Final = table_mark("job table", REQUIRED)
"""What is known of a file that may be one of ours before it is known which columns replace it."""
GENERATED: Final = (*REQUIRED, "user", "vc")
"""The columns that `ringbco generate` always writes."""
_BY_OPTION: Final = (
    *("gpu_type", "model", "batch_size", "min_gpus", "max_gpus", "noise_scale", "num_machines"),
    *("recorded_start", "recorded_end", "recorded_servers"),
)
"""Columns that a conversion writes with some options, or files, only."""


@renamed_fields(moved="moved_from")
@dataclass(frozen=True)
class JobTable:
    """A validated job table.

    `frame` holds the rows in input order with the schema's dtypes; its required columns hold no nulls and are
    one chunk, so `to_numpy()` copies nothing. Optional columns may be absent and may hold nulls (absent
    values). Extra columns are untouched. `metadata` holds the Parquet footer's `ringbco.*` keys.
    `moved_from` is the table whose submissions were moved, and the seed (docs/certainty.md#runs); None where
    none were. `notes` are sentences on what of the file was left out.
    """

    frame: pl.DataFrame
    source: str = "<frame>"
    metadata: dict[str, str] = field(default_factory=dict)
    moved_from: tuple[JobTable, int] | None = None
    notes: tuple[str, ...] = ()

    @property
    def num_jobs(self) -> int:
        """Number of rows."""
        return self.frame.height

    @property
    def is_sorted(self) -> bool:
        """Whether submit_time never decreases from one row to the next."""
        return bool(self.frame["submit_time"].is_sorted())

    @property
    def is_synthetic(self) -> bool:
        """Whether `generate` made it: its dates are made up."""
        return self.metadata.get(f"{METADATA_PREFIX}converter") == "generate"

    @property
    def epoch(self) -> str | None:
        """When the table's clock began, ISO 8601; None where nothing says it, and of synthetic jobs."""
        zero = None if self.is_synthetic else clock_zero(self.metadata.get(EPOCH), self.frame["submit_time"])
        return None if zero is None else zero.isoformat()

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What run.toml says of the table: path, SHA-256, rows, synthetic, epoch; not to be changed."""
        if self.moved_from is not None:
            table, seed = self.moved_from
            return {**table.identity, "moved": seed}
        path = Path(self.source)
        sha256 = digest(path) if path.is_file() else None
        told: dict[str, Any] = {"path": show_path(self.source), "sha256": sha256, "rows": self.num_jobs}
        told |= {"synthetic": True} if self.is_synthetic else {}
        return told if self.epoch is None else {**told, "epoch": self.epoch}

    told = renamed("told", "identity")
    moved = renamed("moved", "moved_from")


TableLike = JobTable | ArrowTable | pl.LazyFrame | str | os.PathLike[str]
"""What stands for a job table wherever one is asked for: itself, another library's table, or a path."""


class Dropped(NamedTuple):
    """Rows that break a rule: how many break it first, how many in all, and the lowest of them (from 1).

    first_beside: what the lowest has in the column that the rule speaks of, such as "num_gpus 4"; "" if none.
    """

    column: str
    rule: str
    rows: int
    matching: int
    first_row: int
    first_value: object
    first_beside: str = ""


class Screening(NamedTuple):
    """The rows that break no rule as a job table (None if there are none), what ails the others, row numbers.

    rows: the number in the file, from 1, of each row kept; None if all were.
    """

    table: JobTable | None
    dropped: tuple[Dropped, ...]
    rows: NDArray[np.int64] | None


def gpus_of(frame: pl.DataFrame, column: str) -> NDArray[np.uint32]:
    """min_gpus or max_gpus of every job of a table; num_gpus where it says nothing."""
    asked = frame["num_gpus"]
    return (frame[column].fill_null(asked) if column in frame.columns else asked).to_numpy()


def gpu_range(frame: pl.DataFrame) -> tuple[NDArray[np.uint32], NDArray[np.uint32]] | None:
    """The least and the most GPUs of every job; None where every job is rigid."""
    if not {"min_gpus", "max_gpus"} & set(frame.columns):
        return None
    least, most = gpus_of(frame, "min_gpus"), gpus_of(frame, "max_gpus")
    return (least, most) if (least != most).any() else None


def read_jobs(path: str | os.PathLike[str], *, without: Collection[str] = ()) -> JobTable:
    """Read and validate a job table from Parquet or CSV, told apart by content.

    without: columns to leave out; in a Parquet file they are not even read.

    In CSV every cell is text until its column's rule asks for a number, so ids keep their leading zeros and a
    vc such as `6214e9` stays what it is; extra columns stay text. Raises InputError naming file, row, column,
    value and what was expected, for the lowest row that breaks a rule; for a public trace as published, the
    `ringbco convert` command that makes a job table of it.
    """
    with _no_raw_trace(path):
        raw = read_columns(path, without)
        wanted = raw.frame.drop(without, strict=False)
        frame = _validate(wanted, raw.source, line_of=raw.line_of, as_text=raw.as_text)
    return JobTable(frame, raw.source, raw.metadata, notes=raw.notes)


def screen_jobs(path: str | os.PathLike[str]) -> Screening:
    """Read a job table whose rows may break rules, and part them.

    A row is dropped for the first rule it breaks, in the schema's order. Raises InputError for what is not a
    matter of rows: the file, its columns.
    """
    with _no_raw_trace(path):
        raw = read_columns(path)
        frame, faults = raw.frame, check(raw.frame, raw.source, as_text=raw.as_text)[1]
    gone = pl.repeat(False, frame.height, dtype=pl.Boolean, eager=True)
    dropped = []
    for fault in faults:
        newly = int((fault.rows_at_fault & ~gone).sum())
        first = fault.first_row + 1, fault.value, fault.other_column_text
        dropped.append(Dropped(fault.column, fault.rule_text, newly, fault.count, *first))
        gone = gone | fault.rows_at_fault
    kept = frame.filter(~gone) if faults else frame
    rows = np.flatnonzero(~gone.to_numpy()) + 1 if faults else None
    table = None
    if kept.height:
        made = _validate(kept, raw.source, as_text=raw.as_text)
        table = JobTable(made, raw.source, raw.metadata, notes=raw.notes)
    return Screening(table, tuple(dropped), rows)


@contextmanager
def _no_raw_trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Where a job table cannot be read because it is a trace in another form: how to convert it."""
    try:
        yield
    except InputError as error:
        # The sources are built on the job table, which knows none of them until it needs to.
        other: InputError | None = ringbco._above("remedy", path, error)
        if other is None:
            raise
        raise other from None


def from_frame(
    frame: ArrowTable | pl.LazyFrame, source: str = "<frame>", metadata: Mapping[str, str] | None = None
) -> JobTable:
    """Validate a table of polars, pyarrow, pandas or any other library that speaks the Arrow interface.

    Same rules and errors as `read_jobs`. Of `metadata`, the keys that begin with `ringbco.` are kept.
    """
    return JobTable(_validate(as_polars(frame), source), source, _own_keys(metadata or {}))


def as_table(jobs: TableLike) -> JobTable:
    """The job table that `jobs` stands for: itself, a validated frame, or the file of that name."""
    use_polars()
    if isinstance(jobs, JobTable):
        return jobs
    return read_jobs(jobs) if isinstance(jobs, (str, os.PathLike)) else from_frame(jobs)


def write_jobs(
    table: TableLike, path: str | os.PathLike[str], *, force: bool = False, csv_safe: bool = False
) -> None:
    """Write a job table: Parquet (zstd, metadata in the footer), or CSV when the name ends in .csv.

    csv_safe: in a CSV, texts that a spreadsheet would take for a formula (they begin with = + - @, a tab or a
    carriage return) get a ' in front.

    The file appears whole or not at all; the same table gives the same bytes. CSV holds no metadata. Raises
    UsageError for another ending, InputError if the file exists and `force` is not set, is no job table of
    ours or cannot be written, and as `read_jobs` for a frame that breaks a rule.
    """
    table = as_table(table)
    mark = table_mark("job table", _always(table), {*COLUMNS, *table.frame.columns})
    with table_file(path, mark, force=force) as file:
        if os.fspath(path).lower().endswith(".csv"):
            (_without_formulas(table.frame) if csv_safe else table.frame).write_csv(file)
        else:
            table.frame.rechunk().write_parquet(
                file,
                compression="zstd",
                statistics=True,
                row_group_size=1 << 18,
                metadata=dict(sorted(table.metadata.items())) or signature("job table"),
            )


def _always(table: JobTable) -> Collection[str]:
    """The columns that the verb that made the table always writes; where none did, those of any table."""
    match table.metadata.get(f"{METADATA_PREFIX}converter"):
        case None:
            return REQUIRED
        case "generate":
            return GENERATED
        case _:
            return (*REQUIRED, *(name for name in table.frame.columns if name not in _BY_OPTION))


@contextmanager
def table_file(path: str | os.PathLike[str], mark: Mark, *, force: bool = False) -> Iterator[BinaryIO]:
    """A file for a polars table, which appears whole or not at all.

    Raises UsageError unless its name says which format to write, InputError if it exists and `force` is not
    set or `mark` does not know it, or it cannot be written.
    """
    check_output_name(path)
    check_output(path, mark, force=force)
    try:
        with replacing(path, mark, force=force) as file:
            yield file
    except pl.exceptions.PolarsError as error:
        system = re.search(r"IO error: (.*?)( \(os error \d+\))?$", str(error).strip())
        raise cannot_write(path, OSError(0, system[1]) if system else error) from error


def _without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    formula = pl.col(pl.String).str.contains(r"^[=+\-@\t\r]")
    return frame.with_columns(
        pl.when(formula).then("'" + pl.col(pl.String)).otherwise(pl.col(pl.String)).name.keep()
    )


def check_output_name(path: str | os.PathLike[str]) -> None:
    """Raise UsageError unless the name says which format to write."""
    if not os.fspath(path).lower().endswith((".parquet", ".pq", ".csv")):
        raise UsageError(f"{os.fspath(path)}: expected a name ending in .parquet or .csv")


def provenance(
    source: str,
    *,
    converter: str,
    rows_read: int,
    dropped: Mapping[str, int] | None = None,
    changed: Mapping[str, int] | None = None,
    epoch: str | None = None,
    options: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """The footer metadata that says where a job table comes from.

    `source` is the format or generator, `converter` the verb that made it, `epoch` ISO 8601 (None: the times
    count from an arbitrary zero), `dropped` and `changed` numbers of rows by reason, `options` whatever
    repeats the conversion. The version of ringbco is added.
    """
    metadata = {
        "source": source,
        "converter": converter,
        "version": ringbco.__version__,
        "rows_read": str(rows_read),
        "rows_dropped": json.dumps(dict(dropped or {})),
    }
    if changed is not None:
        metadata["rows_changed"] = json.dumps(dict(changed))
    if epoch is not None:
        metadata["epoch"] = epoch
    if options is not None:
        metadata["options"] = json_text(dict(options), indent=None, sort_keys=True)
    return {METADATA_PREFIX + key: value for key, value in metadata.items()}


class Raw(NamedTuple):
    """A file's columns before any rule is applied."""

    frame: pl.DataFrame
    source: str
    as_text: bool
    line_of: Callable[[int], int] | None
    metadata: dict[str, str]
    notes: tuple[str, ...] = ()


def read_columns(path: str | os.PathLike[str], without: Collection[str] = ()) -> Raw:
    """The columns of a Parquet or CSV file, told apart by content, before any rule is applied."""
    use_polars()
    source = os.fspath(path)
    if _is_parquet(path):
        frame, metadata = _read_parquet(path, without)
        return _without_index(Raw(frame, source, False, None, metadata))
    data = read_bytes(path)
    if source.lower().endswith((".parquet", ".pq")):
        refuse_foreign(path, data)
        raise InputError(
            "is not a Parquet file (it does not begin with PAR1)",
            file=path,
            hint="it may be damaged; a CSV file needs a name ending in .csv",
        )
    text = read_text_table(path, data)
    return _without_index(Raw(text.frame, source, True, text.line, {}))


def _without_index(raw: Raw) -> Raw:
    """The same without what pandas wrote for an index that has no name, and a note of it."""
    index = index_columns(raw.frame)
    notes = tuple(index_note(raw.source, raw.frame[name]) for name in index)
    return raw._replace(frame=raw.frame.drop(index), notes=notes) if index else raw


def _own_keys(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key.startswith(METADATA_PREFIX)}


def _is_parquet(path: str | os.PathLike[str]) -> bool:
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as file:
            return file.read(4) == PARQUET_MAGIC
    except OSError:
        return False  # read_bytes meets the same failure and explains it


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The `ringbco.*` keys of a Parquet file's footer; none of another file, or of a damaged one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not _is_parquet(path):
        return {}
    try:
        pairs: dict[bytes, bytes] = pq.read_metadata(os.fspath(path)).metadata or {}
        return _own_keys(
            {key.decode(): value.decode() for key, value in pairs.items() if key[:5] != b"ARROW"}
        )
    except (pa.ArrowException, OSError, ValueError):
        return {}  # whoever reads the table explains it


def _read_parquet(
    path: str | os.PathLike[str], without: Collection[str]
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Columns and `ringbco.*` metadata of a Parquet file.

    Read with pyarrow: polars' reader panics or aborts the process on some damaged files, pyarrow's returns an
    error. The full validation and the fresh schema keep such bytes away from polars too.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(arrow_source(path))
        pairs: dict[bytes, bytes] = file.metadata.metadata or {}
        metadata = {key.decode(): value.decode() for key, value in pairs.items() if key != b"ARROW:schema"}
        names = file.schema_arrow.names
        refuse_doubled(path, names)
        refuse_unheld(path, [field for field in file.schema_arrow if field.name not in without])

        def column(name: str) -> pl.Series:
            table = column_of(path, name, arrow_source(path), file.metadata)
            return pl.Series(ArrowColumn(table.column(0))).rechunk().alias(name)

        # Two columns at a time: only two are held both as Arrow and as polars data.
        columns = at_once(partial(column, name) for name in names if name not in without)
        # Once, not a column: pages given back are paid for again when the next column needs them.
        pa.default_memory_pool().release_unused()
        frame = pl.DataFrame(columns)
    except (
        pa.ArrowException,
        pl.exceptions.PolarsError,
        OSError,
        ValueError,
        MemoryError,
        TypeError,
    ) as error:
        raise_lack(error)
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise InputError(
            f"is a truncated or damaged Parquet file ({reason})", file=path, hint="copy or make it again"
        ) from error
    return frame, _own_keys(metadata)


def _validate(
    frame: pl.DataFrame,
    source: str,
    *,
    line_of: Callable[[int], int] | None = None,
    as_text: bool = False,
) -> pl.DataFrame:
    """The frame with the schema's dtypes, or InputError for the lowest row that breaks a rule."""
    columns, faults = check(frame, source, as_text=as_text)
    if faults:
        raise _error(min(faults, key=lambda fault: fault.first_row), source, line_of)
    return frame.with_columns(columns).rechunk()


def _error(fault: Fault, source: str, line_of: Callable[[int], int] | None) -> InputError:
    row = fault.first_row + 1
    return InputError(
        fault.expected,
        file=source,
        row=row,
        column=fault.column,
        value=fault.value,
        hint=share_hint(fault.column, fault.value) or fault.hint,
        line=None if line_of is None else line_of(row),
    )


def share_hint(column: str, value: object) -> str | None:
    """What to do about a fraction of a GPU; None for a cell that is none."""
    if column != "num_gpus":
        return None
    try:
        share = float(str(value))
    except ValueError:
        return None
    if not 0 < share < 1:
        return None
    return f"a job on a share of one GPU has num_gpus 1, and {share:g} in a column gpu_share (docs/shares.md)"
