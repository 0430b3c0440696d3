"""The files of a Slurm log: which are known by what, and sacct's text as a table of texts.

Every reader gives one frame: the columns `TEXTS` (null where a file has no such column or an empty cell), the
number of the file (`FILE`), the place of the record in it (`AT`) and whether it has more cells than names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from ringbco.errors import InputError
from ringbco.io.csvtext import SEPARATORS
from ringbco.io.printed import SACCT
from ringbco.sources.account import ROW
from ringbco.sources.opening import Opened
from ringbco.sources.records import first_record, header_at, separator
from ringbco.sources.tables import EXTRA, CsvFile, CsvTable

FILE: Final = "__file"
AT: Final = "__at"
SURPLUS: Final = "__surplus"
DAMAGED: Final = "__damaged"
TEXTS: Final = (
    *("jobid", "jobidraw", "cluster", "user", "account", "partition", "qos", "state"),
    *("submit", "eligible", "start", "end", "elapsedraw", "elapsed", "suspended", "timelimit"),
    *("timelimitraw", "nnodes", "alloctres", "allocgres", "reqtres", "nodelist", "priority"),
)
NAMES: Final = {
    name.lower(): name
    for name in (
        *("JobID", "JobIDRaw", "QOS", "ElapsedRaw", "TimelimitRaw", "NNodes"),
        *("AllocTRES", "AllocGRES", "ReqTRES", "NodeList"),
    )
}
"""How sacct spells a column, where it is not the name with a capital."""
_NEEDED: Final = ("state", "submit", "start", "end")
_FREE: Final = ("jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir")
_STATES: Final = "PENDING|RUNNING|COMPLETED|FAILED|TIMEOUT|CANCELLED( by \\d+)?|NODE_FAIL|OUT_OF_MEMORY"
ID: Final = (
    r"\d+(?:_(?:\d+|\[[^\]|]*\]?))?(?:\+\d+)?"
    r"(?:\.(?:batch|extern|interactive|TBD|\d+(?:\+\d+)?))?"
)
_MARKS: Final = "|;\t"
"""What separates the cells of a text without a header; a comma would part the items of AllocTRES."""
_CHUNK: Final = 1 << 18
_LONGEST: Final = 200


def spelled(column: str) -> str:
    """The column's name as sacct has it."""
    return NAMES.get(column, column.capitalize())


def _first_line(head: str) -> str:
    return head[header_at(head) :].split("\n", 1)[0].rstrip("\r")


def _header(head: str) -> tuple[list[str], str] | None:
    """The names of a header line in lower case and what separates them; None for any other line."""
    first = _first_line(head)
    if '"' in first:  # as CSV writers quote cells
        names = [name.lower() for name in first_record(head)]
        return (names, separator(head)) if {"jobid", "jobidraw"} & set(names) else None
    mark = re.match(r"\s*[\w%]+([^\w%]+)[\w%]", first)
    if mark is None or not mark[1].strip(" "):
        return None
    names = [name.strip().lower() for name in first.split(mark[1])]
    return (names, mark[1]) if {"jobid", "jobidraw"} & set(names) else None


def _refuse_fixed_width(opened: Opened) -> None:
    lines = opened.head[header_at(opened.head) :].split("\n", 2)
    if len(lines) > 1 and re.fullmatch(r"-[-\s|]*", lines[1]):
        raise InputError(
            "the columns of sacct are cut to their width (line 2 is dashes)",
            file=opened.shown,
            hint=f"use sacct -P: `{SACCT}`",
        )


def _lacking(names: Sequence[str]) -> list[str]:
    missing = [spelled(name) for name in _NEEDED if name not in names]
    if not {"jobid", "jobidraw"} & set(names):
        missing.insert(0, "JobID or JobIDRaw")
    if not {"alloctres", "allocgres"} & set(names):
        missing.append("AllocTRES or AllocGRES")
    return missing


def _refuse_lacking(names: Sequence[str], shown: str) -> None:
    missing = _lacking(names)
    if missing:
        raise InputError(
            f"has no column {', '.join(missing)}", file=shown, hint=f"export the log with `{SACCT}`"
        )


@dataclass(frozen=True)
class SacctText:
    """What `sacct -P` or `-p` prints, with or without (-n) its header."""

    role: str = "log"
    what: str = "a log of Slurm's sacct (sacct -P)"

    def recognises(self, head: str) -> bool:
        """Whether a header has the columns that are needed, or a first row an id, a state and a time."""
        found = _header(head)
        if found is not None:
            return not _lacking(found[0])
        cells = [cell.strip() for cell in re.split(f"[{_MARKS}]", _first_line(head))]
        return all(any(re.fullmatch(p, cell) for cell in cells) for p in (ID, _STATES, r"\d{4}-\d\d-\d\dT.+"))

    def likeness(self, head: str) -> float:
        """1 for a header with a JobID, else 0."""
        return float(_header(head) is not None)

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError for the columns that the header lacks."""
        found = _header(opened.head)
        if found is not None:
            _refuse_lacking(found[0], opened.shown)


@dataclass(frozen=True)
class SacctJson:
    """What `sacct --json` prints: an object with the array `jobs`."""

    role: str = "log"
    what: str = "a log of Slurm's sacct (sacct --json)"

    def recognises(self, head: str) -> bool:
        """Whether an object begins with Slurm's keys."""
        keys = ('"job_id"', '"association"', '"tres"', '"slurm"')
        return head.lstrip().startswith("{") and '"jobs"' in head and any(key in head for key in keys)

    def likeness(self, head: str) -> float:
        """As `recognises` has it."""
        return float(self.recognises(head))

    def refuse_missing(self, opened: Opened) -> None:
        """There is nothing to be missed before the whole is read."""


@dataclass(frozen=True)
class ScontrolNodes:
    """What `scontrol show node` prints, with or without -o."""

    role: str = "nodes"
    what: str = "a list of Slurm's nodes (scontrol show node)"

    def recognises(self, head: str) -> bool:
        """Whether the text begins with NodeName=."""
        return head.lstrip().startswith("NodeName=")

    def likeness(self, head: str) -> float:
        """As `recognises` has it."""
        return float(self.recognises(head))

    def refuse_missing(self, opened: Opened) -> None:
        """There is nothing to be missed."""


@dataclass(frozen=True)
class NotRead:
    """A file of Slurm that may be given and is not read. begins: its first line. so: what follows."""

    role: str
    what: str
    begins: str
    so: str

    def recognises(self, head: str) -> bool:
        """Whether the first line that is no comment begins as such a file does."""
        return re.match(rf"(?:\s+|#.*\n|---\n)*(?:{self.begins})", head) is not None

    def likeness(self, head: str) -> float:
        """As `recognises` has it."""
        return float(self.recognises(head))

    def refuse_missing(self, opened: Opened) -> None:
        """There is nothing to be missed."""


NOT_READ: Final = (
    NotRead(
        "reservations",
        "a list of Slurm's reservations (scontrol show res)",
        "ReservationName=|No reservations in the system",
        "their GPUs count as free for all jobs; for maintenance see --maintenance of replay",
    ),
    NotRead(
        "topology",
        "a topology of Slurm (topology.yaml, topology.conf)",
        "- *topology:|SwitchName=|BlockName=",
        "--topology FILE with --cluster-out makes tiers of a topology.conf",
    ),
)
JOB_TABLE: Final = CsvTable(
    role="log",
    what="slurmdbd's job_table (CSV)",
    columns=(
        *("id_job", "id_array_job", "id_array_task", "het_job_id", "het_job_offset", "id_user", "account"),
        *("partition", "id_qos", "state", "timelimit", "time_submit", "time_eligible", "time_start"),
        *("time_end", "time_suspended", "nodes_alloc", "nodelist", "tres_alloc", "tres_req", "priority"),
    ),
    required=("id_job", "time_submit", "time_start", "time_end", "state", "tres_alloc"),
)


def names_and_mark(opened: Opened, fields: Sequence[str]) -> tuple[list[str], str, bool]:
    """The columns of a text of sacct, their separator, and whether it has a header line."""
    _refuse_fixed_width(opened)
    found = _header(opened.head)
    if found is not None:
        names, mark = found
    elif not fields:
        raise InputError(
            "has no header line (sacct -n)",
            file=opened.shown,
            hint="name its columns with --fields JobID,State,... as sacct's -o had them",
        )
    else:
        first = _first_line(opened.head)
        mark = next((each for each in _MARKS if first.count(each) + 1 >= len(fields)), _MARKS[0])
        names = [name.split("%")[0].strip().lower() for name in fields]
        if first.endswith(mark) and first.count(mark) == len(names):
            names.append("")
        if len(first.split(mark)) < len(names):
            raise InputError(
                f"{len(names)} cells, as --fields has names",
                file=opened.shown,
                line=1,
                value=first[:_LONGEST],
            )
    _refuse_lacking(names, opened.shown)
    return names, mark, found is not None


@dataclass(frozen=True)
class Records:
    """The records of one file, whether it has ReqTRES, and the line of the record at a place."""

    frame: pl.DataFrame
    asked: bool
    line: Callable[[int], int | None]


def read_text(opened: Opened, fields: Sequence[str]) -> Records:
    """The records of a text of sacct."""
    names, mark, headed = names_and_mark(opened, fields)
    if mark in SEPARATORS and '"' in opened.head:
        return _read_csv(opened, names)
    ends_in_mark = not names[-1]
    if ends_in_mark:
        names.pop()
    lines = _lines(opened, headed)
    records = _records(opened, lines, names, mark)
    del lines
    parts = [
        _cells(records.slice(at, _CHUNK), names, mark, ends_in_mark)
        for at in range(0, max(records.height, 1), _CHUNK)
    ]
    return Records(pl.concat(parts), "reqtres" in names, lambda at: at + 1)


def _read_csv(opened: Opened, names: Sequence[str]) -> Records:
    """The records of a table with quoted cells, as other programs write what sacct printed."""
    file = CsvFile(opened, None, names=() if _header(opened.head) else tuple(names))
    columns = {name.lower(): name for name in file.columns}
    cells = [_filled(pl.col(columns[name])).alias(name) for name in TEXTS if name in columns]
    extra = pl.col(EXTRA).is_not_null().alias(SURPLUS)
    frame = file.read([*cells, extra]).rename({ROW: AT}).with_columns(pl.lit(value=False).alias(DAMAGED))
    locate = file.locate()
    return Records(complete(frame), "reqtres" in columns, lambda at: locate(at, "")[1])


def _lines(opened: Opened, headed: bool) -> pl.DataFrame:
    """The lines but blank ones and the header (again, where files were joined), with their place from 0."""
    lines = pl.read_csv(
        opened.path,
        has_header=False,
        schema={"text": pl.String},
        separator="\x01",
        quote_char=None,
        row_index_name=AT,
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
        glob=False,
    )
    text = pl.col("text").str.strip_suffix("\r")
    lines = lines.with_columns(text).filter(text.str.strip_chars() != "")
    if headed and lines.height:
        first = lines["text"][0]
        lines = lines.filter(pl.col("text") != first)
    return lines


def _records(opened: Opened, lines: pl.DataFrame, names: Sequence[str], mark: str) -> pl.DataFrame:
    """The records: a line whose JobID is no id belongs to the record above."""
    key = "jobid" if "jobid" in names else "jobidraw"
    place = names.index(key)
    if place == 0:
        begins = lines["text"].str.contains(rf"^\s*{ID}\s*(?:{re.escape(mark)}|$)")
    else:
        parts = [
            lines["text"]
            .slice(at, _CHUNK)
            .str.split(mark)
            .list.get(place, null_on_oob=True)
            .str.contains(rf"^\s*{ID}\s*$")
            .fill_null(False)
            for at in range(0, max(lines.height, 1), _CHUNK)
        ]
        begins = pl.concat(parts)
    if begins.all():  # of no lines too
        return lines
    if not begins[0]:
        cells = lines["text"][0].split(mark)
        raise InputError(
            "an id of Slurm such as 12, 12_3 or 12.batch",
            file=opened.shown,
            row=1,
            line=int(lines[AT][0]) + 1,
            column=spelled(key),
            value=cells[place] if place < len(cells) else lines["text"][0][:_LONGEST],
        )
    record = begins.cast(pl.UInt32).cum_sum()
    lines = lines.with_columns(record.alias("record"), begins.alias("begins"))
    broken = lines.filter(pl.col("record").is_in(record.filter(~begins).unique().implode()))
    joined = broken.group_by("record", maintain_order=True).agg(
        pl.col(AT).first(), pl.col("text").str.join("\n")
    )
    whole = lines.join(joined, on="record", how="anti", maintain_order="left")
    return pl.concat([whole.select(AT, "text"), joined.select(AT, "text")]).sort(AT)


def _cells(records: pl.DataFrame, names: Sequence[str], mark: str, ends_in_mark: bool) -> pl.DataFrame:
    """The cells of some records; what is too much goes to the one column of free text, if there is one."""
    text = pl.col("text").str.strip_suffix(mark) if ends_in_mark else pl.col("text")
    split = records.select(AT, pl.col("text").str.contains("\ufffd").alias(DAMAGED), text.str.split(mark))
    extra = pl.col("text").list.len().cast(pl.Int64) - len(names)
    free = [name for name in names if name in _FREE]
    place = names.index(free[0]) if len(free) == 1 else len(names)
    cells = []
    for at, name in enumerate(names):
        if name not in TEXTS or name in names[:at]:  # sacct prints a column as often as it is asked to
            continue
        plain = pl.col("text").list.get(at, null_on_oob=True)
        if at > place:  # it moved by as many cells as are too many
            moved = pl.col("text").list.get(at + extra.clip(lower_bound=0), null_on_oob=True)
            plain = pl.when(extra > 0).then(moved).otherwise(plain)
        cells.append(_filled(plain).alias(name))
    surplus = (extra > 0) & pl.lit(value=len(free) != 1)
    return complete(split.select(AT, DAMAGED, surplus.alias(SURPLUS), *cells))


def _filled(cell: pl.Expr) -> pl.Expr:
    cell = cell.str.strip_chars()
    return pl.when(cell != "").then(cell)


def complete(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of every reader, in their order."""
    lacking = [pl.lit(None, pl.String).alias(name) for name in TEXTS if name not in frame.columns]
    return frame.with_columns(lacking).select(pl.col(AT).cast(pl.UInt32), DAMAGED, SURPLUS, *TEXTS)
