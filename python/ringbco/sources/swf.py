"""The Standard Workload Format v2.2 of the Parallel Workloads Archive: 18 numbers a job, -1 for unknown.

Processors become GPUs, one for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from ringbco.cluster.presets import ServerGroup
from ringbco.errors import InputError
from ringbco.sources.account import ROW, change, clean, drop
from ringbco.sources.opening import Opened
from ringbco.sources.parsing import iso
from ringbco.sources.records import refuse_not_utf8
from ringbco.sources.rules import SECONDS, has_id, lasting, not_negative, not_too_many_gpus, timed
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission, ran_from
from ringbco.trace.recorded import RAN

FIELDS: Final = (
    *("job", "submit_time", "wait_time", "run_time", "allocated", "cpu_time", "memory", "requested"),
    *("requested_time", "requested_memory", "status", "user", "group", "application", "queue", "partition"),
    *("preceding_job", "think_time"),
)
STATUS: Final = {0.0: "FAILED", 1.0: "COMPLETED", 5.0: "CANCELLED"}
PARTIAL: Final = (2.0, 3.0, 4.0)
"""One partial execution of a checkpointed job; the whole job has another line, with the same number."""
_COMMENT: Final = re.compile(r";\s*(\w+):\s*(.*)")
_MISSING: Final = -1
_LONGEST_LINE: Final = 4096


@dataclass(frozen=True)
class SwfLog:
    """A file of 18 numbers a line after `;` comments."""

    role: str = "log"
    what: str = "a log in the Standard Workload Format (.swf)"

    def recognises(self, head: str) -> bool:
        """Whether the first line that is no comment is 18 numbers, or all are SWF comments."""
        lines = [line for line in head.splitlines() if line.strip()]
        first = next((line for line in lines if not line.lstrip().startswith(";")), None)
        if first is None:
            return bool(lines) and any(_COMMENT.match(line.strip()) for line in lines)
        cells = first.split()
        return len(cells) == len(FIELDS) and all(re.fullmatch(r"[-+.\deE]+", cell) for cell in cells)

    def likeness(self, head: str) -> float:
        """1 for a file that starts as SWF comments do, else 0."""
        return float(head.lstrip().startswith(";"))

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError for the first line that is not 18 numbers."""
        for line, text in enumerate(opened.head.splitlines(), start=1):
            if text.strip() and not text.lstrip().startswith(";"):
                raise InputError(
                    f"{len(FIELDS)} numbers separated by blanks",
                    file=opened.shown,
                    line=line,
                    value=text.strip(),
                )


def _known(field: str) -> pl.Expr:
    return pl.when(pl.col(field) != _MISSING).then(pl.col(field)).alias(field)


_CODE = pl.col("status")
_STRETCH = _CODE.is_in(PARTIAL)

RULES: Final = (
    drop("fewer than 18 fields or no number among them", pl.col("broken"), "line", "18 numbers"),
    drop(
        "one stretch of a checkpointed job (status 2, 3 or 4)",
        _STRETCH & pl.col("again"),
        "status",
        "a whole job",
    ),
    has_id("job"),
    *timed("submit_time", expected=SECONDS),
    not_negative("submit_time"),
    *lasting("run_time"),
    drop(
        "processors unknown (allocated and requested)",
        ~((pl.col("processors") >= 1) & (pl.col("processors") == pl.col("processors").floor())).fill_null(
            False
        ),
        "allocated",
        "a whole number of processors, 1 or more",
    ),
    not_too_many_gpus("allocated", pl.col("processors")),
    change(
        "processors allocated unknown: those requested used",
        ~(pl.col("allocated") > 0).fill_null(False),
        "allocated",
        "the number of processors allocated",
    ),
    change(
        "wait_time is negative: start left out",
        pl.col("wait_time") < 0,
        "wait_time",
        "0 s or more",
        wait_time=pl.lit(None),
    ),
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of the log, on the log's own clock."""
    opened = inputs["log"]
    header = _header(opened)
    frame = _parse(opened)

    def locate(row: int, column: str) -> tuple[int, int | None, object]:
        text = _line(opened, row)
        cells = text.split()
        place = FIELDS.index(column) if column in FIELDS else len(cells)
        return int((frame[ROW] <= row).sum()), row + 1, cells[place] if place < len(cells) else text.strip()

    kept, account = clean(
        frame,
        RULES,
        unit="jobs",
        file=opened.shown,
        locate=locate,
        strict=options.strict,
        unique_column="job",
    )
    if not (kept["user"] > 0).any():
        kept = kept.with_columns(user=pl.lit(None, pl.Float64))
    start = pl.col("submit_time") + pl.col("wait_time")
    kept = kept.with_columns(start=start, end=start + pl.col("run_time"))
    sized = _servers(header)
    began = header.get("UnixStartTime", "")
    known = re.fullmatch(r"[0-9]{1,11}", began) is not None and int(began) > 0
    return Trace(
        by_submission(
            kept,
            [
                *("job_id", "submit_time", "num_gpus", "duration", "user", "status"),
                *("time_limit", "queue", "partition"),
                *(RAN if kept["start"].count() else ()),
            ],
            num_gpus=pl.col("processors").cast(pl.UInt32),
            duration=pl.col("run_time"),
            **ran_from("start", "end"),
            user=pl.col("user").cast(pl.Int64, strict=False).cast(pl.String),
            status=_CODE.replace_strict(STATUS, default=None, return_dtype=pl.String),
            time_limit=pl.when(pl.col("requested_time") > 0).then(pl.col("requested_time")),
            queue=pl.col("queue").cast(pl.Int64, strict=False),
            partition=pl.col("partition").cast(pl.Int64, strict=False),
        ),
        account,
        iso(int(began), utc=True) if known else "1970-01-01T00:00:00",
        "UnixStartTime of the log's header" if known else "a placeholder: the log has no UnixStartTime",
        sized if isinstance(sized, tuple) else None,
        [*_partial_executions(frame), *_chains(kept), *_unowned_jobs(frame)],
        no_servers=sized if isinstance(sized, str) else "",
    )


def _parse(opened: Opened) -> pl.DataFrame:
    """The 18 fields as float64 by line, `ROW` being the line from 0; unknown (-1) is null."""
    try:
        lines = pl.read_csv(
            opened.path,
            has_header=False,
            schema={"line": pl.String},
            separator="\x01",
            quote_char=None,
            row_index_name=ROW,
            truncate_ragged_lines=True,
            glob=False,
        )
    except pl.exceptions.PolarsError as error:
        refuse_not_utf8(opened)
        raise InputError(
            f"cannot be read as text ({str(error).splitlines()[0]})", file=opened.shown
        ) from error
    text = pl.col("line").str.strip_chars()
    cells = pl.col("line").str.extract_all(r"\S+")
    # The first cell that a rule needs decides whether the line is broken: numbers elsewhere may be missing.
    parsed = (
        lines.with_columns(text)
        .filter((text != "") & ~text.str.starts_with(";"))
        .with_columns(cells.alias("cells"))
        .with_columns(
            pl.col("cells").list.get(i, null_on_oob=True).cast(pl.Float64, strict=False).alias(field)
            for i, field in enumerate(FIELDS)
        )
    )
    broken = (pl.col("cells").list.len() != len(FIELDS)) | pl.any_horizontal(
        pl.col(field).is_null() | ~pl.col(field).is_finite() for field in FIELDS
    )
    wanted = [f for f in FIELDS if f != "status"]
    return (
        parsed.with_columns(broken.alias("broken"))
        .with_columns(_known(field) for field in wanted)
        .with_columns(
            pl.col("job").cast(pl.Int64, strict=False).cast(pl.String).alias("job_id"),
            pl.when(pl.col("allocated") > 0).then("allocated").otherwise("requested").alias("processors"),
            again=_numbered().is_duplicated() & _numbered().is_not_null(),
        )
        .drop("cells")
    )


def _numbered() -> pl.Expr:
    """The job numbers of the lines that are 18 numbers."""
    return pl.when(~pl.col("broken")).then("job")


def _partial_executions(frame: pl.DataFrame) -> Iterator[str]:
    """Notes on lines of partial executions whose job has no line as a whole."""
    whole = frame.filter(~pl.col("broken"), ~_STRETCH)["job"].drop_nulls()
    # In the file's order: the first of each kind is the one shown.
    alone = frame.with_row_index("row").filter(
        ~pl.col("broken"), _STRETCH, pl.col("job").is_not_null(), ~pl.col("job").is_in(whole.implode())
    )
    fates = ((False, "judged like any other line"), (True, "left out, as stretches of other jobs are"))
    for again, fate in fates:
        lines = alone.filter(again=again)
        if lines.is_empty():
            continue
        row, line, code = lines.select("row", ROW, "status").row(0)
        first = f"row {row + 1} (line {line + 1}) has status {code:.0f}"
        if lines.height == 1:
            yield f"{first}, but no line of its job as a whole: it is {fate}"
        else:
            yield (
                f"{lines.height:,} lines have status 2, 3 or 4, but no line of their job as a whole: they"
                f" are {fate}; first: {first}"
            )


def _chains(kept: pl.DataFrame) -> Iterator[str]:
    """The note on jobs that follow another one: the table does not say so."""
    following = kept.filter(pl.col("preceding_job") > 0)
    if following.is_empty():
        return
    job, before, line = following.select("job_id", "preceding_job", ROW).row(0)
    yield (
        f"{following.height:,} job{'s follow' if following.height > 1 else ' follows'} another one (fields 17"
        " and 18, preceding job and think time), which is not kept: in a replay each arrives at its recorded"
        f" submit time, even while the other runs; first: line {line + 1}, job {job} after job {before:.0f}"
    )


def _unowned_jobs(frame: pl.DataFrame) -> Iterator[str]:
    """The note on a log whose only user is number 0: users count from 1."""
    users = frame.filter(~pl.col("broken"))["user"].drop_nulls()
    if users.len() and not (users > 0).any():
        yield "no line has a user number above 0: who submitted the jobs is taken to be unknown"


def _line(opened: Opened, number: int) -> str:
    with open(opened.path, encoding="utf-8-sig", errors="replace") as file:
        return next((text for at, text in enumerate(file) if at == number), "")[:_LONGEST_LINE]


def _header(opened: Opened) -> dict[str, str]:
    """The `; Name: value` comments at the top."""
    found = (_COMMENT.match(line.strip()) for line in opened.head.splitlines())
    return {match[1]: match[2].strip() for match in found if match}


def _servers(header: dict[str, str]) -> tuple[ServerGroup, ...] | str | None:
    """Equal servers from MaxNodes and MaxProcs; why there are none, if the header has both; else None."""
    nodes, processors = (
        int(match[1]) if (match := re.match(r"([0-9]{1,10})(?![0-9])", header.get(key, ""))) else 0
        for key in ("MaxNodes", "MaxProcs")
    )
    if nodes < 1 or processors < 1:
        return None
    if processors % nodes:
        return (
            f"the header's {processors:,} processors do not divide over its {nodes:,} nodes,"
            " write --cluster SxG when replaying"
        )
    return (ServerGroup(nodes, processors // nodes),)


SOURCE: Final = Source(
    name="swf",
    title="Standard Workload Format v2.2 (Parallel Workloads Archive)",
    url="https://www.cs.huji.ac.il/labs/parallel/workload/swf.html",
    licence="by log: see its header and page in the archive",
    citation="""\
@article{feitelson2014pwa,
  author  = {Feitelson, Dror G. and Tsafrir, Dan and Krakov, David},
  title   = {Experience with using the {Parallel Workloads Archive}},
  journal = {Journal of Parallel and Distributed Computing},
  volume  = {74},
  number  = {10},
  pages   = {2967--2982},
  year    = {2014},
  doi     = {10.1016/j.jpdc.2014.06.013}
}""",
    shapes=(SwfLog(),),
    needs=("log",),
    read=read,
    cluster_hint="its header would have to give MaxNodes and MaxProcs; write --cluster SxG when replaying",
)
