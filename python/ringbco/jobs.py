"""The job table: its schema, reading, validating and writing (docs/job-table.md)."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from ringbco.atomic import cannot_write, check_output, replacing
from ringbco.csvtext import PARQUET_MAGIC, read_bytes, read_text_table, refuse_doubled, refuse_foreign
from ringbco.errors import InputError, UsageError, show_value

MAX_COUNT: Final = 2**53
"""The largest count float64 holds exactly: the bound of `iterations`."""

METADATA_PREFIX: Final = "ringbco."


class Column(NamedTuple):
    """One column of the schema; `rule` completes "expected ...", `hint` says how to mend a bad value."""

    dtype: type[pl.DataType]
    required: bool
    rule: str
    hint: str
    low: float = -math.inf
    low_included: bool = True
    high: int | None = None


def _text(name: str) -> Column:
    return Column(pl.String, False, "text or nothing", f"store {name} as text, or leave it out")


_LEAVE_OUT: Final = "mend it, or leave it empty to have it filled from the model profile"

COLUMNS: Final[dict[str, Column]] = {
    "job_id": Column(pl.String, True, "a non-empty text, unique in the table", "give every job its own id"),
    "submit_time": Column(
        pl.Float64,
        True,
        "a finite number of seconds >= 0",
        "count seconds from the trace's epoch, or drop the job",
        0.0,
    ),
    "num_gpus": Column(
        pl.UInt32,
        True,
        "an integer >= 1",
        "give the number of GPUs the job asked for",
        1.0,
        True,
        2**32 - 1,
    ),
    "duration": Column(
        pl.Float64,
        True,
        "a finite number of seconds > 0",
        "give the recorded run time, or drop the job",
        0.0,
        False,
    ),
    "user": _text("user"),
    "vc": _text("vc"),
    "status": _text("status"),
    "model": _text("model"),
    "gpu_type": _text("gpu_type"),
    "iterations": Column(pl.UInt64, False, "an integer >= 1", _LEAVE_OUT, 1, True, MAX_COUNT),
    "gradient_bytes": Column(pl.Float64, False, "a finite number of bytes >= 0", _LEAVE_OUT, 0.0),
    "batch_size": Column(pl.UInt32, False, "an integer >= 1", _LEAVE_OUT, 1, True, 2**32 - 1),
    "fp_time": Column(pl.Float64, False, "a finite number of seconds >= 0", _LEAVE_OUT, 0.0),
    "bp_time": Column(pl.Float64, False, "a finite number of seconds >= 0", _LEAVE_OUT, 0.0),
    "deadline": Column(
        pl.Float64,
        False,
        "a finite number of seconds",
        "count from the same epoch as submit_time, or leave it empty",
    ),
}
"""The schema, in canonical order: name -> (polars dtype, required, rule, ...)."""

REQUIRED: Final = tuple(name for name, column in COLUMNS.items() if column.required)
_INTEGERS: Final = (pl.UInt32, pl.UInt64)


@dataclass(frozen=True)
class JobTable:
    """A validated job table.

    `frame` holds the rows in input order with the schema's dtypes; its required columns hold no nulls and are
    one chunk, so `to_numpy()` copies nothing. Optional columns may be absent and may hold nulls (absent
    values). Extra columns are untouched. `metadata` holds the Parquet footer's `ringbco.*` keys.
    """

    frame: pl.DataFrame
    source: str = "<frame>"
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def num_jobs(self) -> int:
        """Number of rows."""
        return self.frame.height

    @property
    def is_sorted(self) -> bool:
        """Whether submit_time never decreases from one row to the next."""
        return bool(self.frame["submit_time"].is_sorted())


def read_jobs(path: str | os.PathLike[str]) -> JobTable:
    """Read and validate a job table from Parquet or CSV, told apart by content.

    In CSV every cell is text until its column's rule asks for a number, so ids keep their leading zeros and a
    vc such as `6214e9` stays what it is; extra columns stay text. Raises InputError naming file, row, column,
    value and what was expected, for the lowest row that breaks a rule.
    """
    source = os.fspath(path)
    if _is_parquet(path):
        frame, metadata = _read_parquet(path)
        return JobTable(_validate(frame, source), source, metadata)
    data = read_bytes(path)
    if source.lower().endswith((".parquet", ".pq")):
        refuse_foreign(path, data)
        raise InputError(
            "is not a Parquet file (it does not begin with PAR1)",
            file=path,
            hint="it may be damaged; a CSV file needs a name ending in .csv",
        )
    text = read_text_table(path, data)
    return JobTable(_validate(text.frame, source, line_of=text.line, as_text=True), source)


def from_frame(
    frame: pl.DataFrame, source: str = "<frame>", metadata: Mapping[str, str] | None = None
) -> JobTable:
    """Validate a DataFrame as a job table; same rules and errors as `read_jobs`.

    Of `metadata`, the keys that begin with `ringbco.` are kept.
    """
    return JobTable(_validate(frame, source), source, _own_keys(metadata or {}))


def write_jobs(table: JobTable, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write a job table: Parquet (zstd, metadata in the footer), or CSV when the name ends in .csv.

    The file appears whole or not at all; the same table gives the same bytes. CSV holds no metadata. Raises
    UsageError for another ending, InputError if the file exists and `force` is not set or cannot be written.
    """
    check_output_name(path)
    check_output(path, force=force)
    try:
        with replacing(path, force=force) as file:
            if os.fspath(path).lower().endswith(".csv"):
                table.frame.write_csv(file)
            else:
                table.frame.rechunk().write_parquet(
                    file,
                    compression="zstd",
                    statistics=True,
                    row_group_size=1 << 18,
                    metadata=dict(sorted(table.metadata.items())),
                )
    except pl.exceptions.PolarsError as error:
        system = re.search(r"IO error: (.*?)( \(os error \d+\))?$", str(error).strip())
        raise cannot_write(path, OSError(0, system[1]) if system else error) from error


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
    from importlib.metadata import version

    metadata = {
        "source": source,
        "converter": converter,
        "version": version("ringbco"),
        "rows_read": str(rows_read),
        "rows_dropped": json.dumps(dict(dropped or {})),
    }
    if changed is not None:
        metadata["rows_changed"] = json.dumps(dict(changed))
    if epoch is not None:
        metadata["epoch"] = epoch
    if options is not None:
        metadata["options"] = json.dumps(dict(options), sort_keys=True)
    return {METADATA_PREFIX + key: value for key, value in metadata.items()}


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The name in `known` most like `name`, or None when none is near."""
    lowered = {candidate.lower().strip(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower().strip(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


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


def _read_parquet(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """Columns and `ringbco.*` metadata of a Parquet file.

    Read with pyarrow: polars' reader panics or aborts the process on some damaged files, pyarrow's returns an
    error. The full validation and the fresh schema keep such bytes away from polars too.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        pairs: dict[bytes, bytes] = file.metadata.metadata or {}
        metadata = {key.decode(): value.decode() for key, value in pairs.items() if key != b"ARROW:schema"}
        table = file.read()
        table.validate(full=True)
        names = table.column_names
        refuse_doubled(path, names)
        frame = pl.from_arrow(pa.Table.from_arrays(table.columns, names=names))
    except (
        pa.ArrowException,
        pl.exceptions.PolarsError,
        OSError,
        ValueError,
        MemoryError,
        TypeError,
    ) as error:
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise InputError(
            f"is a truncated or damaged Parquet file ({reason})", file=path, hint="copy or make it again"
        ) from error
    assert isinstance(frame, pl.DataFrame)
    return frame, _own_keys(metadata)


class _Fault(NamedTuple):
    """The first row (from 0) at which a column breaks a rule, and the error to raise for it."""

    row: int
    order: int
    column: str
    value: object
    expected: str
    hint: str


def _validate(
    frame: pl.DataFrame,
    source: str,
    *,
    line_of: Callable[[int], int] | None = None,
    as_text: bool = False,
) -> pl.DataFrame:
    """The frame with the schema's dtypes, or InputError for the lowest row that breaks a rule."""
    _require_columns(frame.columns, source)
    if frame.height == 0:
        raise InputError(
            "holds no jobs, only column names", file=source, hint="a job table needs at least one row"
        )
    columns: list[pl.Series] = []
    faults: list[_Fault] = []
    for order, (name, column) in enumerate(COLUMNS.items()):
        if name not in frame.columns:
            continue
        cast = _as_text if column.dtype is pl.String else _as_number
        outcome = cast(frame[name], column, order, source, as_text)
        if isinstance(outcome, _Fault):
            faults.append(outcome)
        else:
            columns.append(outcome)
    duplicate = _first_duplicate(frame["job_id"])
    if duplicate is not None:
        faults.append(duplicate)
    if faults:
        fault = min(faults, key=lambda found: (found.row, found.order))
        raise InputError(
            fault.expected,
            file=source,
            row=fault.row + 1,
            column=fault.column,
            value=fault.value,
            hint=fault.hint,
            line=None if line_of is None else line_of(fault.row + 1),
        )
    return frame.with_columns(columns).rechunk()


def _require_columns(names: list[str], source: str) -> None:
    refuse_doubled(source, names)
    missing = [name for name in REQUIRED if name not in names]
    if len(missing) == len(REQUIRED) and not any(near_name(name, names) for name in missing):
        raise InputError(
            f"is not a job table: it has none of the columns {', '.join(REQUIRED)}",
            file=source,
            hint="the first line must name the columns; a public trace is converted with `ringbco convert`",
        )
    if missing:
        near = near_name(missing[0], [name for name in names if name not in COLUMNS])
        found = show_value(", ".join(names)) if near is None else show_value(near)
        raise InputError(
            f"the column {missing[0]} is missing",
            file=source,
            hint=f"found {found}" + ("" if near is None else f": rename it to {missing[0]}"),
        )


def _as_text(series: pl.Series, column: Column, order: int, source: str, as_text: bool) -> pl.Series | _Fault:
    name, dtype = series.name, series.dtype
    if dtype != pl.String:
        if not (dtype.is_integer() or dtype == pl.Null or isinstance(dtype, (pl.Categorical, pl.Enum))):
            # A float here has usually been text once: a reader turned 6214e9 into a number, or 007 into 7.
            raise InputError(
                f"text, not {dtype}", file=source, column=name, hint="read it as text where the table is made"
            )
        series = series.cast(pl.String)
    if column.required:
        bad = (series.is_null() | (series == "")).arg_max()
        assert bad is not None
        value = series[bad]
        if value is None or value == "":
            return _Fault(bad, order, name, value, column.rule, column.hint)
    return series


def _as_number(
    series: pl.Series, column: Column, order: int, source: str, as_text: bool
) -> pl.Series | _Fault:
    name, written = series.name, series
    if as_text:
        parsed, broken = _parse_numbers(series)
        series = parsed
    elif series.dtype.is_decimal():
        series, broken = series.cast(pl.Float64), None
    elif series.dtype.is_numeric() or series.dtype == pl.Null:
        broken = None
    else:
        first = series.drop_nulls().head(1).to_list()
        row = 1 if not first else int(series.is_not_null().arg_max() or 0) + 1
        raise InputError(
            f"{column.rule}, stored as a number, not {series.dtype}",
            file=source,
            row=row,
            column=name,
            value=first[0] if first else None,
            hint=column.hint,
        )
    if series.dtype == pl.Null:
        series = series.cast(pl.Float64)
    bad = _breaks_rule(series, column)
    if broken is not None:
        bad = bad | broken
    if bad.any():
        row = int(bad.arg_max() or 0)
        return _Fault(row, order, name, written[row], _explain(series[row], column), column.hint)
    return series.cast(column.dtype)


def _parse_numbers(text: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """Numbers of a text column (integers where all are), and which cells are no number."""
    stripped = text.str.strip_chars()
    stripped = stripped.set(stripped == "", None)
    integers = stripped.cast(pl.Int64, strict=False)
    if integers.null_count() == stripped.null_count():
        return integers, None
    numbers = stripped.cast(pl.Float64, strict=False)
    return numbers, numbers.is_null() & stripped.is_not_null()


def _breaks_rule(series: pl.Series, column: Column) -> pl.Series:
    # As an expression, not on the Series: there the bounds would have to fit the column's own dtype.
    value = pl.col(series.name)
    bad = value < column.low if column.low_included else value <= column.low
    if column.high is not None:
        bad = bad | (value > column.high)
    if series.dtype.is_float():
        bad = bad | ~value.is_finite()
        if column.dtype in _INTEGERS:
            bad = bad | (value.floor() != value)
    return series.to_frame().select(bad.fill_null(column.required)).to_series()


def _explain(value: object, column: Column) -> str:
    """The rule, with the bound that a too large value broke."""
    if column.high is not None and isinstance(value, (int, float)) and column.high < value < math.inf:
        return f"{column.rule} and <= {column.high}"
    return column.rule


def _first_duplicate(ids: pl.Series) -> _Fault | None:
    if ids.n_unique() == ids.len():
        return None
    # Empty and missing ids are reported as such, not as duplicates of each other.
    repeated = ~ids.is_first_distinct() & ids.is_not_null()
    if not repeated.any():
        return None
    row = int(repeated.arg_max() or 0)
    first = int((ids == ids[row]).arg_max() or 0)
    return _Fault(
        row,
        0,
        "job_id",
        ids[row],
        f"every job_id once, but row {first + 1} has it too",
        COLUMNS["job_id"].hint,
    )
