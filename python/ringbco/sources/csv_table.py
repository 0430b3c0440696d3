"""Any CSV of jobs, or JSON Lines: columns are mapped to the job table's with `--map`, then cleaned.

Besides the job table's own columns, `start_time` and `end_time` may be mapped: their difference is the
duration where no duration is. Each time and each duration is read by itself, in any of several forms; a cell
of an optional column that cannot be read is left out, and counted.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from ringbco.errors import InputError, UsageError
from ringbco.io.csvtext import index_columns
from ringbco.io.printed import not_a_table
from ringbco.io.times import DAY, MICRO, UNITS, divided, in_seconds, lengths, moments, numbers
from ringbco.sources.account import ROW, Rule, change, clean, drop
from ringbco.sources.json_lines import NO_OBJECT, JsonLines, keys
from ringbco.sources.opening import Opened
from ringbco.sources.parsing import as_text, iso, truth
from ringbco.sources.records import first_record
from ringbco.sources.rules import (
    SECONDS,
    asks_gpus,
    beside_others,
    has_id,
    in_order,
    lasting,
    left_out,
    no_more_cells,
    not_negative,
    timed,
    whole_gpus,
)
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission
from ringbco.sources.tables import EXTRA, CsvFile
from ringbco.trace.jobs import COLUMNS, MOST_SECONDS, REQUIRED
from ringbco.trace.other_names import (
    NODES_ALONE,
    NODES_GO,
    convert_command,
    hint_at,
    index_note,
    lists_nodes,
    near_name,
)
from ringbco.trace.plausibility import slurm_parts
from ringbco.trace.recorded import RAN
from ringbco.trace.schema import other_names_of

ROW_NUMBER: Final = "#"
"""What --map job_id takes for ids that count the rows."""
SPAN: Final = ("start_time", "end_time")  # may stand for the duration
TIMES: Final = ("submit_time", *SPAN, *RAN, "deadline")
DURATIONS: Final = ("duration", "time_limit", "checkpoint_interval")
OPTIONAL_VALUES: Final = tuple(
    name for name, c in COLUMNS.items() if not c.required and c.dtype is not pl.String
)
A_TIME: Final = "a time such as 2020-09-01 12:00:00, 2020-09-01T12:00 or 2020-09-01"
_A_LENGTH: Final = f"{SECONDS}, or [D-]HH:MM:SS"
_UNLIMITED: Final = ("unlimited", "infinite", "partition_limit", "4294967295")  # Slurm's words for no limit
_BESIDE: Final = "__"  # before the names of columns that a rule looks at and nothing keeps


@dataclass(frozen=True)
class AnyCsv:
    """Whatever has a first line with more than one cell, or a JSON object in it."""

    role: str = "jobs"
    what: str = "a CSV file with a header line, or JSON Lines"

    def recognises(self, head: str) -> bool:
        """Whether the first line is a JSON object, or several cells and not what a command prints."""
        if _is_json(head):
            return keys(head) is not None
        return len(first_record(head)) > 1 and not_a_table("", head) is None

    def likeness(self, head: str) -> float:
        """Other JSON can be made JSON Lines; nothing else is nearly a CSV file."""
        return float(_is_json(head))

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError for JSON that is not an object a line."""
        raise InputError(
            "is not a file of csv: it is JSON, but not JSON Lines (an object a line)",
            file=opened.shown,
            hint=f"of a list of objects, `jq -c '.[]' {shlex.quote(opened.shown)} > jobs.jsonl` makes them",
        )


def _is_json(head: str) -> bool:
    return head.lstrip().startswith(("[", "{"))


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of the rows; dates count from the midnight before the first kept submission."""
    _check(options)
    opened = inputs["jobs"]
    file = _file(opened, options.columns)
    names, beside = _names(file, options)
    extras = [c for c in file.columns if c and c not in names.values()]
    for extra in extras:
        if extra in names:
            raise InputError(
                f"has a column {extra} beside the one mapped to it",
                file=opened.shown,
                hint=f"rename or drop its column {extra}",
            )
    cells = {**names, **{_BESIDE + c: theirs for c, theirs in beside.items()}}
    theirs = [
        as_text(theirs, text=_is_text(ours)).alias(ours)
        for ours, theirs in cells.items()
        if theirs != ROW_NUMBER or theirs in file.columns
    ]
    unnamed = [c for c in file.columns[:1] if not c]
    text = file.read([*theirs, *map(pl.col, (*unnamed, *extras, EXTRA))])
    index = index_columns(text.select(*unnamed, *extras))
    left_out = [index_note(opened.shown, text[c]) for c in index]
    extras = [c for c in extras if c not in index]
    if "job_id" not in text.columns:
        text = text.with_columns(pl.int_range(pl.len()).cast(pl.String).alias("job_id"))
    parsed = _Parsed(text, options, thousands=getattr(file, "separator", ",") != ";")
    frame = parsed.frame([*names, *(_BESIDE + c for c in beside)], [*extras, EXTRA])
    places = file.locate()
    more = NO_OBJECT if isinstance(file, JsonLines) else no_more_cells(len(file.columns))
    kept, account = clean(
        frame,
        [more, *_rules(names, parsed, options)],
        unit="rows",
        file=opened.shown,
        locate=lambda row, column: places(row, cells.get(column, column)),
        strict=options.strict,
    )
    kept, epoch = parsed.counted(kept)
    if options.deadline_from and "deadline" in kept.columns:
        kept = kept.with_columns(pl.col("deadline") + pl.col("submit_time"))
    if "duration" not in names:
        kept = kept.with_columns(duration=pl.col("end_time") - pl.col("start_time"))
    ours = [c for c in COLUMNS if c in kept.columns]
    return Trace(
        by_submission(kept, [*ours, *extras], num_gpus=pl.col("num_gpus").cast(pl.UInt32)),
        account,
        epoch,
        parsed.epoch_note,
        notes=[*left_out, *slurm_parts(kept["job_id"])],
        choices={
            "map": ", ".join(f"{a}={b}" for a, b in options.column_map.items()),
            **({"unit": options.unit} if options.unit else {}),
            **({"columns": ",".join(options.columns)} if options.columns else {}),
            **({"deadline_from": options.deadline_from} if options.deadline_from else {}),
        },
    )


def _check(options: Options) -> None:
    """Raises UsageError for choices that there are not."""
    if options.unit is not None and options.unit not in UNITS:
        raise UsageError(f"--unit {options.unit}: choose one of {', '.join(UNITS)}")
    if options.deadline_from not in (None, "submit"):
        raise UsageError(f"--deadline-from {options.deadline_from}: expected submit")
    if options.columns is not None and not all(options.columns):
        raise UsageError(f"--columns {','.join(options.columns)}: a name for every column")
    twice = [c for c in options.columns or () if (options.columns or ()).count(c) > 1]
    if twice:
        raise UsageError(f"--columns: two columns named {twice[0]}")


def _file(opened: Opened, columns: Sequence[str] | None) -> CsvFile | JsonLines:
    """The file as a table of text. Raises UsageError for `columns` that are not those of its first line."""
    if keys(opened.head) is not None:
        if columns:
            raise UsageError(f"--columns: {opened.shown} holds JSON Lines, which name their columns")
        return JsonLines(opened)
    if not columns:
        return CsvFile(opened)
    first = first_record(opened.head)
    if len(first) != len(columns) and not (len(first) == len(columns) + 1 and not first[-1]):
        raise UsageError(
            f"--columns: {len(columns)} names, but the first line of {opened.shown} has {len(first)} cells"
        )
    return CsvFile(opened, names=tuple(columns))


def _is_text(ours: str) -> bool:
    return ours in COLUMNS and COLUMNS[ours].dtype is pl.String


def _names(file: CsvFile | JsonLines, options: Options) -> tuple[dict[str, str], dict[str, str]]:
    """Our column -> theirs, for all that the file has, and the start and end that stand beside a duration.

    Raises UsageError for an unknown name on either side, InputError for a required column that is missing.
    """
    shown, columns, column_map = file.opened.shown, file.columns, options.column_map
    allowed = [*COLUMNS, *SPAN]
    for ours, theirs in column_map.items():
        if theirs in allowed and ours in columns and not (ours in allowed and theirs in columns):
            raise UsageError(
                f"--map {ours}={theirs}: the wrong way round, expected OURS=THEIRS: --map {theirs}={ours}"
            )
        if ours not in allowed and theirs in allowed and theirs not in columns:
            near = near_name(ours, columns) or other_names_of([theirs], columns)[0].get(theirs, "THEIRS")
            raise UsageError(
                f"--map {ours}={theirs}: the wrong way round, expected OURS=THEIRS: --map {theirs}={near};"
                f" the columns of {shown} are {', '.join(columns)}"
            )
        if ours not in allowed:
            raise UsageError(
                f"--map {ours}={theirs}: {ours} is no column of the job table"
                + (
                    f", and {shown} has {theirs} under that name: leave --map {ours}={theirs} out"
                    if theirs in allowed and theirs in columns
                    else hint_at(ours, allowed) or f": choose among {', '.join(allowed)}"
                )
            )
        if theirs not in columns and (ours, theirs) != ("job_id", ROW_NUMBER):
            raise UsageError(
                f"--map {ours}={theirs}: {shown} has no column {theirs}"
                + (hint_at(theirs, columns) or f": its columns are {', '.join(columns)}")
            )
    own = {**{name.lower(): name for name in columns}, **{name: name for name in columns}}
    names = {c: column_map.get(c) or own.get(c, c) for c in allowed}
    names = {c: theirs for c, theirs in names.items() if theirs in columns or theirs == ROW_NUMBER}
    taken = set(column_map.values())
    names = {c: t for c, t in names.items() if c in column_map or t not in taken}
    beside: dict[str, str] = {}
    if "duration" in names:
        beside = {c: names[c] for c in SPAN if set(SPAN) <= names.keys()}
        names = {c: t for c, t in names.items() if c not in SPAN}
    elif set(SPAN) <= names.keys():
        names = dict(zip(RAN, map(names.__getitem__, SPAN), strict=True)) | names
    if options.deadline_from and "deadline" not in names:
        raise UsageError(
            f"--deadline-from: {shown} has no column deadline; name it with --map deadline=THEIRS"
        )
    wanted = [c for c in REQUIRED if c != "duration" or not set(SPAN) <= names.keys()]
    missing = [column for column in wanted if column not in names]
    if missing:
        raise _without(missing, len(missing) == len(wanted), names, file, column_map)
    return names, beside


def _without(
    missing: Sequence[str],
    all_of_them: bool,
    names: Mapping[str, str],
    file: CsvFile | JsonLines,
    column_map: Mapping[str, str],
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
    if all_of_them and not meant and any(_is_value(c) for c in columns):
        return InputError(
            "has no header: its first line holds values",
            file=shown,
            hint=f"name its columns in order: --columns {','.join(REQUIRED)}",
        )
    return InputError(
        f"has no column{'s'[: len(missing) - 1]} {', '.join(missing)}",
        file=shown,
        hint=f"say which {'they are' if missing[1:] else 'one it is'}:"
        f" `{convert_command(shown, {**column_map, **meant}, unknown)}`"
        + (f" (its columns are {', '.join(columns)}" if unknown else "")
        + (f"; {ROW_NUMBER} numbers the rows" if "job_id" in unknown else "")
        + ")" * bool(unknown),
    )


def _is_value(cell: str) -> bool:
    """Whether a cell of a first line is a number or a time, so no name."""
    cells = pl.Series([cell])
    return bool(numbers(cells, thousands=True).is_not_null()[0] or moments(cells)[0].is_not_null()[0])


class _Parsed:
    """Columns of text as what the job table wants; cells that cannot be read are null.

    Times are seconds (float64), or microseconds since 1970 (int64) where submissions are dates: those with an
    offset if most of them have one. `astray` has the rows in which another column's time is of another kind.
    """

    def __init__(self, text: pl.DataFrame, options: Options, *, thousands: bool) -> None:
        if "time_limit" in text.columns:
            no_limit = pl.col("time_limit").str.to_lowercase().is_in(_UNLIMITED)
            text = text.with_columns(pl.when(~no_limit).then("time_limit").alias("time_limit"))
        self.text, self.thousands = text, thousands
        self.unit = options.unit or "s"
        self.relative = ("deadline",) if options.deadline_from else ()
        submit = text["submit_time"]
        seconds = numbers(submit, thousands=thousands)
        self.dated = self.zoned = False
        if seconds.null_count() > submit.null_count():
            micros, zoned = moments(submit)
            self.dated = micros.count() > seconds.count()
            self.zoned = 2 * int(zoned.sum()) > micros.count()
        self.astray: dict[str, pl.Series] = {}
        self.times: list[str] = []

    def frame(self, columns: Sequence[str], carried: Sequence[str]) -> pl.DataFrame:
        """The columns parsed, with `ROW`, what is carried along, and which optional cells were filled."""
        self.times = [c for c in columns if c in TIMES and c not in self.relative]
        made = [self._column(name) for name in columns]
        filled = [self.text[c].is_not_null().alias(_written(c)) for c in columns if c in OPTIONAL_VALUES]
        astray = [mask.alias(_astray(name)) for name, mask in self.astray.items()]
        kept = [self.text[c] for c in (ROW, *carried)]
        return pl.DataFrame([*kept, *made, *filled, *astray])

    def counted(self, kept: pl.DataFrame) -> tuple[pl.DataFrame, str]:
        """The rows with times in seconds, and time 0 in ISO.

        Where times are dates it is the midnight before the first submission: so days are calendar days.
        """
        if not self.dated:
            return kept, iso(0.0)
        first = kept["submit_time"].min() or 0
        assert isinstance(first, int)
        day = first // (DAY * MICRO) * DAY
        counted = (divided(kept[c] - day * MICRO, MICRO) for c in self.times)
        midnight = datetime(1970, 1, 1) + timedelta(seconds=day)
        return kept.with_columns(counted), midnight.isoformat() + ("Z" if self.zoned else "")

    @property
    def epoch_note(self) -> str:
        """What to know of time 0."""
        if not self.dated:
            return "a placeholder: the file counts seconds"
        clock = "in UTC" if self.zoned else "on the file's own wall clock"
        return f"midnight before the first kept submission, {clock}"

    def _column(self, name: str) -> pl.Series:
        cells, ours = self.text[name], name.removeprefix(_BESIDE)
        if ours in TIMES and ours not in self.relative:
            return self._time(cells)
        if _is_text(ours):
            return cells
        column = COLUMNS[ours]
        if column.dtype is pl.Boolean:
            return self.text.select(truth(name)).to_series()
        lasts = ours in DURATIONS or ours in self.relative
        values = (
            lengths(cells, self.unit, thousands=self.thousands)
            if lasts
            else numbers(cells, thousands=self.thousands)
        )
        return values if column.endless else values.set(values.is_infinite(), None)

    def _time(self, cells: pl.Series) -> pl.Series:
        seconds = numbers(cells, thousands=self.thousands)
        seconds = seconds.set(seconds.is_infinite(), None)
        rest = cells.null_count() < seconds.null_count()
        if not self.dated and not rest:
            return in_seconds(seconds, self.unit)
        micros, zoned = moments(cells)
        if not self.dated:
            astray = micros.is_not_null()
            made = in_seconds(seconds, self.unit)
        else:
            other = zoned != self.zoned
            astray = seconds.is_not_null() | (micros.is_not_null() & other)
            made = micros.set(other, None)
        if astray.any():
            self.astray[cells.name] = astray
        return made


_PART_OF_A_GPU: Final = drop(
    "num_gpus is below 1: write 1, and the part in a column gpu_share",
    pl.col("num_gpus").is_between(0, 1, closed="none"),
    "num_gpus",
    "1, and the part of the GPU in a column gpu_share",
)


def _written(column: str) -> str:
    return f"__{column}_written"


def _astray(column: str) -> str:
    return f"__{column}_astray"


def _rules(names: Mapping[str, str], parsed: _Parsed, options: Options) -> list[Rule]:
    expected = A_TIME if parsed.dated else SECONDS
    rules = [asks_gpus("num_gpus"), has_id("job_id"), _PART_OF_A_GPU, whole_gpus("num_gpus")]
    kind = (
        ("a time with an offset" if parsed.zoned else "a time without an offset")
        if parsed.dated
        else "a number"
    )
    times = ("submit_time", *(SPAN if "duration" not in names else ()))
    for name in times:
        if name in parsed.astray:
            reason = f"{name} is not {kind}, as most of submit_time are"
            rules.append(drop(reason, pl.col(_astray(name)), name, kind))
        rules += timed(name, expected=expected)
        if not parsed.dated:
            rules += [] if name in SPAN else [not_negative(name)]
            rules.append(_too_late(name))
    if "duration" in names:
        rules += lasting("duration", expected=_A_LENGTH)
        rules.append(_too_late("duration"))
    else:
        rules += in_order(*times)
    rules += [_optional_value(c, parsed, expected) for c in names if c in OPTIONAL_VALUES]
    rules += beside_others(names)
    if _BESIDE + SPAN[0] in parsed.text.columns:
        rules.append(_contradiction(parsed, options))
    return rules


def _too_late(name: str) -> Rule:
    most = f"{MOST_SECONDS:.0e}".replace("e+", "e")
    return drop(f"{name} is beyond {most} s", pl.col(name) > MOST_SECONDS, name, f"at most {most} s")


def _optional_value(name: str, parsed: _Parsed, a_time: str) -> Rule:
    """Cells of an optional column that break the table's rule are left out; an empty cell is fine."""
    column, value = COLUMNS[name], pl.col(name)
    broken = value.is_null()
    is_time = name in TIMES and name not in parsed.relative
    if column.dtype is not pl.Boolean and not (is_time and parsed.dated):
        broken = broken | (value < column.low if column.low_included else value <= column.low)
        if column.high is not None:
            broken = broken | (value > column.high)
        if column.dtype.is_integer():
            broken = broken | (value != value.floor())
    reason = f"{name} is not {'a time' if is_time else column.rule}"
    return left_out(reason, pl.col(_written(name)) & broken, name, a_time if is_time else column.rule)


def _contradiction(parsed: _Parsed, options: Options) -> Rule:
    """Rows whose start and end are not as far apart as they say that they ran: what was recorded is kept."""
    start, end = (pl.col(_BESIDE + c) for c in SPAN)
    span = (end - start) / (MICRO if parsed.dated else 1)
    # Each of the three may have been rounded to the whole second, or to the whole unit.
    slack = max(1.0, UNITS[parsed.unit] / 2 if options.unit else 0.0)
    apart = (span - pl.col("duration")).abs() > slack
    reason = f"duration is not end_time - start_time, by more than {slack:g} s: duration kept"
    return change(reason, apart, "duration", "end_time - start_time")


SOURCE: Final = Source(
    name="csv",
    title="Any CSV of jobs",
    url="",
    licence="that of your file",
    citation="",
    shapes=(AnyCsv(),),
    needs=("jobs",),
    read=read,
    options=frozenset({"map", "unit", "columns", "deadline-from"}),
    cluster_hint="write --cluster SxG when replaying",
)
