"""The job table's schema and its rules, checked column by column over all rows at once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.errors import InputError, show_value
from ringbco.io.csvtext import refuse_doubled
from ringbco.io.threads import at_once
from ringbco.trace.column import Column
from ringbco.trace.other_names import (
    NODES_ALONE,
    NODES_GO,
    columns_meant,
    convert_command,
    lists_nodes,
    near_name,
)
from ringbco.trace.predecessors import circle_text, circles, predecessors

_DTYPES: Final[dict[str, type[pl.DataType]]] = {
    "text": pl.String, "bool": pl.Boolean, "f64": pl.Float64,
    "u32": pl.UInt32, "u64": pl.UInt64, "i32": pl.Int32,
}  # fmt: skip


def _columns() -> dict[str, Column]:
    """The schema, in canonical order, as rust/trace/columns.rs declares it."""
    rows: list[Any] = [row | {"dtype": _DTYPES[row["dtype"]]} for row in _core.columns()]
    return {row["name"]: Column(*(row[field] for field in Column._fields)) for row in rows}


COLUMNS: Final = _columns()
MAX_COUNT: Final = COLUMNS["iterations"].high or 0
"""The largest count float64 holds exactly: the bound of `iterations`."""
MOST_SECONDS: Final = COLUMNS["submit_time"].high or 0
"""Beyond it float64 cannot tell seconds apart; such times are probably in a shorter unit."""

REQUIRED: Final = tuple(name for name, column in COLUMNS.items() if column.required)
TIERS: Final = ("within_tier", "segment_tier")
"""Columns that name a tier of the cluster."""
_OF_RESULTS: Final = frozenset(("jct", "ideal_run_time", "slowdown"))
_DATED: Final = re.compile(r"\s*\d{4}[-/]\d\d?[-/]\d\d?")
_INTEGERS: Final = (pl.UInt32, pl.UInt64, pl.Int32)
_AT_LEAST_ONE: Final = (
    "a job table needs at least one row; for requests alone let it be job_id,submit_time,num_gpus,duration"
    " with the row placeholder,0,1,1"
)


@dataclass(frozen=True)
class Fault:
    """The rows at which one column breaks its rule.

    rows_at_fault: a mask, bool[rows]. given: the column as it was given. rule_text: the rule they break.
    `expected` completes "expected ..." for the first of them, `first_row`. other_column_text: the value of
    the other column that the rule refers to, in the first row.
    """

    column: str
    rows_at_fault: pl.Series
    given: pl.Series
    rule_text: str
    expected: str
    hint: str
    other_column_text: str = ""

    @property
    def first_row(self) -> int:
        """The lowest row at fault, from 0."""
        return int(self.rows_at_fault.arg_max() or 0)

    @property
    def value(self) -> object:
        """The value at the lowest row at fault, as it was given."""
        return self.given[self.first_row]

    @property
    def count(self) -> int:
        """Number of rows at fault."""
        return int(self.rows_at_fault.sum())


def check(frame: pl.DataFrame, source: str, *, as_text: bool = False) -> tuple[list[pl.Series], list[Fault]]:
    """The schema's columns of `frame` in canonical dtypes, and the faults of those that break a rule.

    as_text: every column is text as written in a CSV file, numbers included. Only columns without a
    fault are returned. Faults come in the schema's order. Raises InputError where no row is to blame:
    a column missing, doubled or of a wrong kind, a table without rows.
    """
    _require_columns(frame.columns, source, as_text)
    if frame.height == 0:
        raise InputError("holds no jobs, only column names", file=source, hint=_AT_LEAST_ONE)
    names = [name for name in COLUMNS if name in frame.columns]
    checked = at_once(partial(_checked, frame[name], source, as_text) for name in names)
    columns = [column for column, _ in checked]
    faults = [fault for _, new_faults in checked for fault in new_faults]
    by_name = {column.name: column for column in columns}
    faults += _beyond_num_gpus(by_name, as_text) + _shares_of_gangs(by_name, as_text)
    faults += _chained(by_name, as_text)
    faults += _uneven_pods(by_name, as_text) + _uneven_segments(by_name, as_text)
    faulty_names = {fault.column for fault in faults}
    return [column for column in columns if column.name not in faulty_names], faults


def _beyond_num_gpus(columns: dict[str, pl.Series], as_text: bool) -> list[Fault]:
    """The faults of elastic jobs: the least GPUs above num_gpus, or the most below."""
    faults = []
    for name, sign in (("min_gpus", "<="), ("max_gpus", ">=")):
        if name not in columns:
            continue
        limit, asked, column = columns[name], columns["num_gpus"], COLUMNS[name]
        bad = ((limit > asked) if name == "min_gpus" else (limit < asked)).fill_null(False)
        if bad.any():
            asks = asked[int(bad.arg_max() or 0)]
            expected, other = f"{column.rule}, which is {asks}", f"num_gpus {asks}"
            faults.append(Fault(name, bad, limit, f"{sign} num_gpus", expected, column.mend(as_text), other))
    return faults


def _shares_of_gangs(columns: dict[str, pl.Series], as_text: bool) -> list[Fault]:
    """The fault of shares of several GPUs, or of jobs that may hold several."""
    if "gpu_share" not in columns:
        return []
    share, mend = columns["gpu_share"], COLUMNS["gpu_share"].mend(as_text)
    for name in ("num_gpus", "max_gpus"):
        if name not in columns:
            continue
        gpus = columns[name]
        bad = share.is_not_null() & (gpus > 1).fill_null(False)
        if bad.any():
            has = f"{name} {gpus[int(bad.arg_max() or 0)]}"
            expected = f"a share only where {name} is 1; this row has {has}"
            return [Fault("gpu_share", bad, share, f"only where {name} is 1", expected, mend, has)]
    return []


def _chained(columns: dict[str, pl.Series], as_text: bool) -> list[Fault]:
    """The faults of jobs after others: of no row, of the row itself, in a circle; think times without one."""
    jobs, after = columns["job_id"], columns.get("after")
    depends = pl.repeat(False, jobs.len(), dtype=pl.Boolean, eager=True)
    faults = []
    if after is not None and after.null_count() < after.len():
        before = predecessors(jobs, after)
        depends = pl.Series(before != -1)
        mend, rule = COLUMNS["after"].mend(as_text), "the job_id of another row"
        unknown, itself = pl.Series(before == -2), pl.Series(before == np.arange(before.size))
        if unknown.any():
            faults.append(Fault("after", unknown, after, rule, rule, mend))
        if itself.any():
            faults.append(Fault("after", itself, after, rule, f"{rule}, not of this one", mend))
        around = circles(np.where(unknown | itself, -1, before))
        if around.size:
            bad, said = np.zeros(before.size, np.bool_), circle_text(before, jobs, int(around[0]))
            bad[around] = True
            faults.append(Fault("after", pl.Series(bad), after, "no circle", f"no circle, but {said}", mend))
    think = columns.get("think_time")
    if think is not None:
        alone = think.is_not_null() & ~depends
        if alone.any():
            rule = "nothing where after names no job"
            mend = "name the job in a column after, or leave the cell empty"
            faults.append(Fault("think_time", alone, think, rule, rule, mend))
    return faults


def _uneven_pods(columns: dict[str, pl.Series], as_text: bool) -> list[Fault]:
    """The faults of pods that do not divide num_gpus, or of jobs on shares and of elastic jobs."""
    if "gpus_per_pod" not in columns:
        return []
    pods, asked, mend = columns["gpus_per_pod"], columns["num_gpus"], COLUMNS["gpus_per_pod"].mend(as_text)
    wrong = {"num_gpus": ("a divisor of num_gpus", (asked % pods) != 0)}
    if "gpu_share" in columns:
        shared = columns["gpu_share"].is_not_null()
        wrong["num_gpus"] = ("a divisor of num_gpus", wrong["num_gpus"][1] & ~shared)
        wrong["gpu_share"] = ("1 for a job with a gpu_share", shared & (pods > 1))
    for name in ("min_gpus", "max_gpus"):
        if name in columns:
            wrong[name] = (f"1 for a job whose {name} is not num_gpus", (columns[name] != asked) & (pods > 1))
    faults = []
    for name, (rule, is_wrong) in wrong.items():
        bad = is_wrong.fill_null(False)
        if bad.any():
            has = f"{name} {show_value(columns[name][int(bad.arg_max() or 0)])}"
            expected = f"{rule}; this row has {has}"
            faults.append(Fault("gpus_per_pod", bad, pods, rule, expected, mend, has))
    return faults


def _uneven_segments(columns: dict[str, pl.Series], as_text: bool) -> list[Fault]:
    """The faults of segments: no divisor of num_gpus, no whole pods, of an elastic job, without a tier."""
    names = [name for name in ("segment", "segment_tier") if name in columns]
    faults = []
    for name, other in (("segment", "segment_tier"), ("segment_tier", "segment")):
        if name in names:
            there = columns[name].is_not_null()
            alone = there if other not in names else there & columns[other].is_null()
            if alone.any():
                rule, mend = f"nothing where {other} is empty", f"fill in {other}, or leave both out"
                faults.append(Fault(name, alone, columns[name], rule, rule, mend))
    if "segment" not in names:
        return faults
    segment, asked, mend = columns["segment"], columns["num_gpus"], COLUMNS["segment"].mend(as_text)
    wrong = {"num_gpus": ("a divisor of num_gpus", (asked % segment) != 0)}
    for name in ("min_gpus", "max_gpus"):
        if name in columns:
            wrong[name] = (f"nothing for a job whose {name} is not num_gpus", columns[name] != asked)
    if "gpu_share" in columns:
        wrong["gpu_share"] = ("nothing for a job with a gpu_share", columns["gpu_share"].is_not_null())
    if "gpus_per_pod" in columns:
        wrong["gpus_per_pod"] = ("a multiple of gpus_per_pod", (segment % columns["gpus_per_pod"]) != 0)
    for name, (rule, is_wrong) in wrong.items():
        bad = (is_wrong & segment.is_not_null()).fill_null(False)
        if bad.any():
            has = f"{name} {show_value(columns[name][int(bad.arg_max() or 0)])}"
            faults.append(Fault("segment", bad, segment, rule, f"{rule}; this row has {has}", mend, has))
    return faults


def _checked(series: pl.Series, source: str, as_text: bool) -> tuple[pl.Series, list[Fault]]:
    """A column in its canonical dtype, null where it breaks its rule, and what is wrong with it."""
    made, fault = check_column(series, COLUMNS[series.name], source, as_text)
    if series.name in TIERS:
        made = made.replace("", None)
    faults = [] if fault is None else [fault]
    return made, faults + (_repeated(series) if series.name == "job_id" else [])


def engine_column(frame: pl.DataFrame, name: str) -> NDArray[Any] | None:
    """A column for the engine. Nulls are replaced by `Column.absent`; None if every value is that."""
    if name not in frame.columns:
        return None
    column = COLUMNS[name]
    assert column.absent is not None, "the default depends on more than the column"
    absent = np.array(column.absent, frame[name].dtype.to_python())
    values = frame[name].fill_null(absent.item()).to_numpy()
    return None if is_default_everywhere(values, name) else values


def is_default_everywhere(values: NDArray[Any], name: str) -> bool:
    """Whether every value of a column is `Column.absent`."""
    absent = np.array(COLUMNS[name].absent, values.dtype)
    return np.array_equal(values, np.broadcast_to(absent, values.shape), equal_nan=True)


def check_column(
    series: pl.Series, column: Column, source: str, as_text: bool
) -> tuple[pl.Series, Fault | None]:
    """A series in the column's dtype, null where it breaks the column's rule, and its fault if it does."""
    match column.dtype:
        case pl.String:
            return _text_column(series, column, source)
        case pl.Boolean:
            return _truth_column(series, column, source, as_text)
        case _:
            return _number_column(series, column, source, as_text)


def _require_columns(names: list[str], source: str, as_text: bool) -> None:
    """Raises InputError unless every required column is there; how to mend it, where that can be said.

    as_text: the columns are those of a CSV file, which `convert csv` reads.
    """
    refuse_doubled(source, names)
    missing = [name for name in REQUIRED if name not in names]
    if not missing:
        return
    if not missing[1:] and _OF_RESULTS.issubset(names):
        raise InputError(
            "is the jobs.parquet of a result, not a job table",
            file=source,
            hint="give the table that was replayed; run.toml beside it names it",
        )
    meant, unknown = other_names_of(missing, [name for name in names if name not in COLUMNS])
    if lists_nodes(names) and {"job_id", "submit_time", "duration"} <= {*unknown}:
        raise InputError(NODES_ALONE, file=source, hint=NODES_GO)
    if len(missing) == len(REQUIRED) and not meant:
        raise InputError(
            f"is not a job table: it has none of the columns {', '.join(REQUIRED)}",
            file=source,
            hint="the first line must name the columns; a public trace is converted with `ringbco convert`",
        )
    present = f"found {show_value(', '.join(names))}"
    if as_text:
        hint = convert_hint(source, names)
    elif missing == list(meant):
        renamed = (f"{theirs}: rename it to {ours}" for ours, theirs in meant.items())
        hint = f"found {', '.join(renamed)}"
    else:
        hint = present
    subject = f"the columns {', '.join(missing)} are" if missing[1:] else f"the column {missing[0]} is"
    raise InputError(f"{subject} missing", file=source, hint=hint)


def convert_hint(source: str, names: Iterable[str]) -> str:
    """How `convert csv` makes a job table of a file whose columns are `names`."""
    own = {name.lower() for name in names}
    missing = [name for name in REQUIRED if name not in own]
    meant, unknown = other_names_of(missing, [name for name in names if name not in COLUMNS])
    hint = f"`{convert_command(source, meant, unknown)}` makes a job table of it"
    if not unknown:
        return hint
    told = ", with its own names for THEIRS" if unknown != ["job_id"] else ", with the rows' numbers for ids"
    return f"{hint}{told}; found {show_value(', '.join(names))}"


def other_names_of(wanted: Iterable[str], present: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """What the `wanted` columns are called among `present` (ours -> theirs), and those nothing is near to.

    A name of the table of other names is taken first, then the most like; a start and an end may stand for
    the duration.
    """
    wanted, present = list(wanted), list(present)
    meant = columns_meant(wanted, present)
    unknown = []
    for name in wanted:
        if name in meant or (name == "duration" and "end_time" in meant):
            continue
        near = near_name(name, [other for other in present if other not in meant.values()])
        if near is None:
            unknown.append(name)
        else:
            meant[name] = near
    return {name: meant[name] for name in (*wanted, *meant) if name in meant}, unknown


def _text_column(series: pl.Series, column: Column, source: str) -> tuple[pl.Series, Fault | None]:
    name, dtype = series.name, series.dtype
    if dtype != pl.String:
        if not (dtype.is_integer() or dtype == pl.Null or isinstance(dtype, (pl.Categorical, pl.Enum))):
            # A float here has usually been text once: a reader turned 6214e9 into a number, or 007 into 7.
            raise InputError(
                f"text, not {dtype}", file=source, column=name, hint="read it as text where the table is made"
            )
        series = series.cast(pl.String)
    if column.required:
        bad = series.is_null() | (series == "")
        if bad.any():
            return series, Fault(name, bad, series, column.rule, column.rule, column.hint)
    return series, None


def _truth_column(
    series: pl.Series, column: Column, source: str, as_text: bool
) -> tuple[pl.Series, Fault | None]:
    if series.dtype in (pl.Boolean, pl.Null):
        made = series.cast(pl.Boolean)
        bad = made.is_null() & column.required
    elif series.dtype == pl.String:
        cells = series.str.strip_chars().str.to_lowercase()
        cells = cells.set(cells == "", None)
        made = (cells == "true").set(cells.is_not_null() & ~cells.is_in(["true", "false"]), None)
        bad = made.is_null() & (cells.is_not_null() | column.required)
    else:
        raise InputError(
            f"{column.rule}, not {series.dtype}",
            file=source,
            column=series.name,
            hint="cast the column to booleans",
        )
    if bad.any():
        return made, Fault(series.name, bad, series, column.rule, column.rule, column.mend(as_text))
    return made, None


def _number_column(
    series: pl.Series, column: Column, source: str, as_text: bool
) -> tuple[pl.Series, Fault | None]:
    name, given = series.name, series
    not_numeric = None
    if as_text:
        series, not_numeric = _parse_numbers(series)
    elif series.dtype.is_decimal() or series.dtype.is_float() or series.dtype == pl.Null:
        # In single precision a value beyond a bound may round to the bound.
        series = series.cast(pl.Float64)
    elif not series.dtype.is_numeric():
        row = int(series.is_not_null().arg_max() or 0)
        raise InputError(
            f"{column.rule}, stored as a number, not {series.dtype}",
            file=source,
            row=row + 1,
            column=name,
            value=series[row],
            hint=_stored(series, column, series[row]) or column.mend(as_text),
        )
    bad = _breaks_rule(series, column)
    if not_numeric is not None:
        bad = bad | not_numeric
    if bad.any():
        first = series[int(bad.arg_max() or 0)]
        fault = Fault(name, bad, given, column.rule, _explain(first, column), column.mend(as_text))
        return series.set(bad, None).cast(column.dtype), fault
    return series.cast(column.dtype), None


def _stored(series: pl.Series, column: Column, value: object) -> str | None:
    """How to store a column of another kind as numbers; None for what the column's own hint tells."""
    dates = isinstance(series.dtype, pl.Datetime | pl.Date) or bool(_DATED.match(str(value)))
    if dates and column is COLUMNS.get(series.name):
        return f"write the table as jobs.csv: `{convert_command('jobs.csv', {})}` reads dates"
    if isinstance(series.dtype, pl.Duration):
        return "`.dt.total_seconds()` of polars and pandas gives seconds"
    if series.dtype == pl.String:
        return f"cast the column to {'integers' if column.dtype in _INTEGERS else 'floats'}"
    return None


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
        bad = bad | ((value.is_nan() | (value == -math.inf)) if column.endless else ~value.is_finite())
        if column.dtype in _INTEGERS:
            bad = bad | (value.floor() != value)
    return series.to_frame().select(bad.fill_null(column.required)).to_series()


def _explain(value: object, column: Column) -> str:
    """The rule, with the bound that a too large value broke, unless the rule names it."""
    named = str(column.high) in column.rule.split()
    if (
        column.high is not None
        and not named
        and isinstance(value, (int, float))
        and column.high < value < math.inf
    ):
        return f"{column.rule} and <= {column.high}"
    return column.rule


_IDS_SAMPLED: Final = 1 << 10
"""Rows that show whether a table's job_ids are likely to grow all along."""


def _grow(texts: pl.Series) -> bool:
    """Whether each text is longer than the one before, or as long and greater: job-9, job-10, job-11."""
    before, after = texts.slice(0, max(texts.len() - 1, 0)), texts.slice(1)
    shorter, longer = before.str.len_bytes(), after.str.len_bytes()
    grow = (shorter < longer) | ((shorter == longer) & (before < after))
    return texts.null_count() == 0 and grow.all()


def _repeated(ids: pl.Series) -> list[Fault]:
    """The fault of rows whose job_id an earlier row has; empty and missing ids are another fault."""
    if ids.dtype == pl.String and _grow(ids.head(_IDS_SAMPLED)) and _grow(ids):
        return []
    # Hashes are told apart faster than texts. Equal texts have equal hashes: where no hash comes twice, no
    # text does. Where one does, the texts decide.
    if ids.hash().n_unique() == ids.len() or ids.n_unique() == ids.len():
        return []
    bad = ~ids.is_first_distinct() & ids.is_not_null()
    if not bad.any():
        return []
    first = int((ids == ids[int(bad.arg_max() or 0)]).arg_max() or 0)
    expected = f"every job_id once, but row {first + 1} has it too"
    return [Fault("job_id", bad, ids, "unique", expected, COLUMNS["job_id"].hint)]
