"""Any CSV of jobs: its columns are mapped to the job table's with `--map ours=theirs`, then cleaned.

Besides the job table's own columns, `start_time` and `end_time` may be mapped: their difference is the
duration where no duration is. Times may be seconds, wall clocks or times with an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from ringbco.errors import InputError, UsageError
from ringbco.io.printed import not_a_table
from ringbco.sources.account import ROW, Rule, clean, drop
from ringbco.sources.opening import Opened
from ringbco.sources.parsing import (
    endless_number,
    filled,
    iso,
    number,
    offset_clock,
    optional_text,
    truth,
    wall_clock,
)
from ringbco.sources.records import first_record
from ringbco.sources.rules import (
    A_TIME,
    SECONDS,
    asks_gpus,
    has_id,
    in_order,
    lasting,
    no_more_cells,
    not_negative,
    timed,
    whole_gpus,
)
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission, first_submission
from ringbco.sources.tables import EXTRA, TIME_LIKE, CsvFile
from ringbco.trace.jobs import COLUMNS, REQUIRED, near_name
from ringbco.trace.other_names import NODES_ALONE, NODES_GO, convert_command, lists_nodes
from ringbco.trace.schema import other_names_of

SPAN: Final = ("start_time", "end_time")  # may stand for the duration
TIMES: Final = ("submit_time", *SPAN, "deadline")
OPTIONAL_VALUES: Final = tuple(
    name for name, c in COLUMNS.items() if not c.required and c.dtype is not pl.String
)
_CLOCKS: Final = ((TIME_LIKE + r"[+-]\d\d:?\d\d$", offset_clock), (TIME_LIKE + "$", wall_clock))


@dataclass(frozen=True)
class AnyCsv:
    """Whatever has a first line with more than one cell."""

    role: str = "jobs"
    what: str = "a CSV file with a header line"

    def recognises(self, head: str) -> bool:
        """Whether the first line holds several cells and is no JSON, nor what a command prints."""
        several = not head.lstrip().startswith(("[", "{")) and len(first_record(head)) > 1
        return several and not_a_table("", head) is None

    def likeness(self, head: str) -> float:
        """Nothing is nearly a CSV file."""
        return 0.0

    def refuse_missing(self, opened: Opened) -> None:
        """Nothing can be said."""


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of the rows; times written as dates count from the first kept submission."""
    opened = inputs["jobs"]
    file = CsvFile(opened)
    names = _names(file, options.column_map)
    extras = [c for c in file.columns if c and c not in names.values()]
    for extra in extras:
        if extra in names:
            raise InputError(
                f"has a column {extra} beside the one mapped to it",
                file=opened.shown,
                hint=f"rename or drop its column {extra}",
            )
    theirs = [filled(theirs).alias(ours) for ours, theirs in names.items()]
    text = file.read([*theirs, *map(pl.col, (*extras, EXTRA))])
    # An ISO time may have a T between day and hour and a Z for UTC.
    text = text.with_columns(
        pl.col(c).str.replace(r"(\d)T(\d)", "$1 $2").str.replace(r"Z$", "+00:00") for c in TIMES if c in names
    )
    clock = _clock(text, [c for c in TIMES if c in names])
    frame = text.select(
        ROW,
        *(_parsed(ours, clock) for ours in names),
        *(pl.col(c).is_not_null().alias(_written(c)) for c in names if c in OPTIONAL_VALUES),
        *map(pl.col, (*extras, EXTRA)),
    )
    places = file.locate()
    kept, account = clean(
        frame,
        [no_more_cells(len(file.columns)), *_rules(names, clock)],
        unit="rows",
        file=opened.shown,
        locate=lambda row, column: places(row, names.get(column, column)),
        strict=options.strict,
    )
    dated = clock is not number
    epoch = first_submission(kept) if dated else 0.0
    times = [c for c in ("submit_time", "deadline") if c in names]
    kept = kept.with_columns(pl.col(c) - epoch for c in times)
    if "duration" not in names:
        kept = kept.with_columns(duration=pl.col("end_time") - pl.col("start_time"))
    ours = [c for c in COLUMNS if c in kept.columns]
    return Trace(
        by_submission(kept, [*ours, *extras], num_gpus=pl.col("num_gpus").cast(pl.UInt32)),
        account,
        iso(epoch, utc=clock is offset_clock),
        "the first kept submission" if dated else "a placeholder: the file counts seconds",
        choices={"map": ", ".join(f"{a}={b}" for a, b in options.column_map.items())},
    )


def _names(file: CsvFile, column_map: Mapping[str, str]) -> dict[str, str]:
    """Our column -> theirs, for all that the file has.

    Raises UsageError for an unknown name on either side, InputError for a required column that is missing.
    """
    shown, columns = file.opened.shown, file.columns
    allowed = [*COLUMNS, *SPAN]
    for ours, theirs in column_map.items():
        if ours not in allowed:
            near = near_name(ours, allowed)
            raise UsageError(
                f"--map {ours}={theirs}: {ours} is no column of the job table"
                + (f"; did you mean {near}?" if near else f": choose among {', '.join(allowed)}")
            )
        if theirs not in columns:
            near = near_name(theirs, columns)
            raise UsageError(
                f"--map {ours}={theirs}: {shown} has no column {theirs}"
                + (f"; did you mean {near}?" if near else f": its columns are {', '.join(columns)}")
            )
    own = {**{name.lower(): name for name in columns}, **{name: name for name in columns}}
    names = {c: column_map.get(c) or own.get(c, c) for c in allowed}
    names = {c: theirs for c, theirs in names.items() if theirs in columns}
    taken = set(column_map.values())
    names = {c: t for c, t in names.items() if c in column_map or t not in taken}
    if "duration" in names:
        names = {c: t for c, t in names.items() if c not in SPAN}
    wanted = [c for c in REQUIRED if c != "duration" or not set(SPAN) <= names.keys()]
    missing = [column for column in wanted if column not in names]
    if missing:
        raise _without(missing, names, file, column_map)
    return names


def _without(
    missing: Sequence[str], names: Mapping[str, str], file: CsvFile, column_map: Mapping[str, str]
) -> InputError:
    """What to raise for a file without the columns `missing`: what it is, or the command that names them."""
    from ringbco.sources import not_jobs_yet  # it knows this source too

    shown, columns = file.opened.shown, file.columns
    published = not_jobs_yet(shown, [file.opened.head])
    if published is not None:
        return published
    meant, unknown = other_names_of(missing, [c for c in columns if c and c not in names.values()])
    if lists_nodes(columns) and {"job_id", "submit_time", "duration"} <= {*unknown}:
        return InputError(NODES_ALONE, file=shown, hint=NODES_GO)
    return InputError(
        f"has no column{'s'[: len(missing) - 1]} {', '.join(missing)}",
        file=shown,
        hint=f"say which {'they are' if missing[1:] else 'one it is'}:"
        f" `{convert_command(shown, {**column_map, **meant}, unknown)}`"
        + (f" (its columns are {', '.join(columns)})" if unknown else ""),
    )


def _clock(text: pl.DataFrame, columns: Sequence[str]) -> Callable[[str], pl.Expr]:
    """How the times are written, by the first cells that are not empty."""
    for column in columns:
        cells = text[column].drop_nulls().head(1000)
        for pattern, clock in _CLOCKS:
            if cells.str.contains(pattern).any():
                return clock
    return number


def _parsed(ours: str, clock: Callable[[str], pl.Expr]) -> pl.Expr:
    """A column of text as what the job table wants; cells that cannot be read become null."""
    if ours in TIMES:
        return clock(ours)
    kind = COLUMNS[ours].dtype if ours in COLUMNS else pl.Float64
    if kind is pl.Boolean:
        return truth(ours)
    if ours in COLUMNS and COLUMNS[ours].endless:
        return endless_number(ours)
    return optional_text(ours) if kind is pl.String else number(ours)


def _written(column: str) -> str:
    return f"__{column}_written"


def _rules(names: Mapping[str, str], clock: Callable[[str], pl.Expr]) -> tuple[Rule, ...]:
    expected = SECONDS if clock is number else A_TIME
    rules = [
        asks_gpus("num_gpus"),
        has_id("job_id"),
        whole_gpus("num_gpus"),
        *timed("submit_time", expected=expected),
    ]
    if clock is number:
        rules.append(not_negative("submit_time"))
    if "duration" in names:
        rules += lasting("duration")
    else:
        rules += timed(*SPAN, expected=expected)
        rules += in_order("submit_time", *SPAN)
    rules += [_optional_value(c) for c in names if c in OPTIONAL_VALUES]
    return tuple(rules)


def _optional_value(name: str) -> Rule:
    """Rows whose cell of an optional column breaks the table's rule are dropped; an empty cell is fine."""
    column, value = COLUMNS[name], pl.col(name)
    broken = value.is_null()
    if column.dtype is not pl.Boolean:
        broken = broken | (value < column.low if column.low_included else value <= column.low)
        if column.high is not None:
            broken = broken | (value > column.high)
        if column.dtype.is_integer():
            broken = broken | (value != value.floor())
    return drop(f"{name} is not {column.rule}", pl.col(_written(name)) & broken, name, column.rule)


SOURCE: Final = Source(
    name="csv",
    title="Any CSV of jobs",
    url="",
    licence="that of your file",
    citation="",
    shapes=(AnyCsv(),),
    needs=("jobs",),
    read=read,
    options=frozenset({"map"}),
    cluster_hint="write --cluster SxG when replaying",
)
