"""A Slurm log as sacct --json prints it, and as slurmdbd's job_table, in the columns of sacct's text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from ringbco.errors import InputError
from ringbco.sources.account import ROW
from ringbco.sources.json_stream import JobsOfJson
from ringbco.sources.opening import Opened
from ringbco.sources.slurm_files import AT, DAMAGED, JOB_TABLE, SURPLUS, TEXTS, Records, complete
from ringbco.sources.tables import EXTRA, CsvFile

_STATES: Final = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"),
    *("PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
)
_NO_TASK: Final = 4_294_967_294
_TRES: Final = {"1": "cpu", "2": "mem", "3": "energy", "4": "node", "5": "billing", "1001": "gres/gpu"}


def read_tres(path: Path | None) -> dict[str, str]:
    """The names of trackable resources by id: those of --tres, else Slurm's own and gres/gpu for 1001."""
    if path is None:
        return _TRES
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from error
    names: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip().strip('"') for cell in re.split(r"[,|;\t]", line.strip())]
        if not any(cells) or (not names and not cells[0].isdigit()):
            continue  # a header
        if len(cells) < 2 or not cells[0].isdigit() or not cells[1]:
            raise InputError("id,name such as 1001,gres/gpu", file=path, line=number, value=line)
        names[cells[0]] = "/".join(cell for cell in cells[1:3] if cell)
    return names


def read_job_table(opened: Opened, tres: dict[str, str]) -> Records:
    """The rows of a job_table."""
    file = CsvFile(opened, JOB_TABLE)
    frame = file.read([pl.col(JOB_TABLE.columns), pl.col(EXTRA)])

    def number(column: str) -> pl.Expr:
        return pl.col(column).cast(pl.Int64, strict=False)

    def time(column: str) -> pl.Expr:
        return pl.when(number(column).fill_null(1) != 0).then(column)

    task, het = number("id_array_task"), number("het_job_id")
    in_array = task.is_not_null() & (task != _NO_TASK) & (number("id_array_job") > 0)
    whole = (
        pl.when(in_array)
        .then(pl.concat_str("id_array_job", pl.lit("_"), "id_array_task"))
        .when(het > 0)
        .then(pl.concat_str("het_job_id", pl.lit("+"), "het_job_offset"))
        .otherwise("id_job")
    )
    code = number("state") & 0xFF
    state = code.replace_strict(dict(enumerate(_STATES)), default=None, return_dtype=pl.String)
    resources = {
        text: _named(text, tres)
        for column in ("tres_alloc", "tres_req")
        for text in frame[column].drop_nulls().unique()
    }

    def named(column: str) -> pl.Expr:
        return pl.col(column).replace(resources)

    cells = {
        "jobid": whole,
        "jobidraw": pl.col("id_job"),
        "user": pl.col("id_user"),
        "account": pl.col("account"),
        "partition": pl.col("partition"),
        "qos": pl.col("id_qos"),
        "state": pl.coalesce(state, "state"),
        "submit": time("time_submit"),
        "eligible": time("time_eligible"),
        "start": time("time_start"),
        "end": time("time_end"),
        "suspended": pl.col("time_suspended"),
        "timelimitraw": pl.col("timelimit"),
        "nnodes": pl.col("nodes_alloc"),
        "alloctres": named("tres_alloc"),
        "reqtres": named("tres_req"),
        "nodelist": pl.col("nodelist"),
        "priority": pl.col("priority"),
    }
    made = frame.select(
        pl.col(ROW).alias(AT),
        pl.lit(value=False).alias(DAMAGED),
        pl.col(EXTRA).is_not_null().alias(SURPLUS),
        **{name: pl.when(cell != "").then(cell) for name, cell in cells.items()},
    )
    locate = file.locate()
    return Records(complete(made), "tres_req" in file.columns, lambda at: locate(at, "id_job")[1])


def _named(text: str, tres: dict[str, str]) -> str:
    """`1=20,1002=2` with the names of its resources."""
    items = (item.strip().partition("=") for item in text.split(","))
    return ",".join(f"{tres.get(key, key)}{equals}{value}" for key, equals, value in items)


class Times(msgspec.Struct, gc=False):
    """The times of a job: Unix seconds, 0 for none."""

    submission: Any = None
    eligible: Any = None
    start: Any = None
    end: Any = None
    elapsed: Any = None
    suspended: Any = None
    limit: Any = None


class _Resource(msgspec.Struct, gc=False):
    type: str | None = None
    name: str | None = None
    count: Any = None


class _Tres(msgspec.Struct, gc=False):
    allocated: list[_Resource] | None = None
    requested: list[_Resource] | None = None


class _State(msgspec.Struct, gc=False):
    current: Any = None


class _Array(msgspec.Struct, gc=False):
    job_id: Any = None
    task_id: Any = None
    task: str | None = None


class _Het(msgspec.Struct, gc=False):
    job_id: Any = None
    job_offset: Any = None


class _Association(msgspec.Struct, gc=False):
    cluster: str | None = None
    user: str | None = None
    account: str | None = None


class _Job(msgspec.Struct, gc=False):
    job_id: Any = None
    array: _Array | None = None
    het: _Het | None = None
    association: _Association | None = None
    cluster: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    state: _State | None = None
    time: Times | None = None
    tres: _Tres | None = None
    nodes: str | None = None
    allocation_nodes: Any = None
    priority: Any = None


def read_json(opened: Opened) -> Records:
    """The jobs of `sacct --json`, decoded a part at a time."""
    jobs = JobsOfJson(opened, "sacct --json")
    decoder = msgspec.json.Decoder(_Job)
    schema = dict.fromkeys((AT,), pl.UInt32) | dict.fromkeys(TEXTS, pl.String)
    frames, before = [pl.DataFrame(schema=schema)], 0
    for part in jobs.parts():
        rows = []
        for number, raw in enumerate(part, start=before):
            try:
                rows.append((number, *_row(decoder.decode(raw))))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InputError(
                    f"a job as sacct --json has it ({error})", file=opened.shown, row=number + 1
                ) from None
        before += len(part)
        frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
    frame = pl.concat(frames, rechunk=True).with_columns(
        pl.lit(value=False).alias(DAMAGED), pl.lit(value=False).alias(SURPLUS)
    )
    return Records(complete(frame), True, lambda at: jobs.lines[at])


def _number(value: Any) -> str | None:
    """A number of Slurm's JSON, which may be wrapped as {set, infinite, number}."""
    if isinstance(value, dict):
        if value.get("infinite"):
            return "UNLIMITED"
        value = value.get("number") if value.get("set", True) else None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _time(value: Any) -> str | None:
    text = _number(value)
    return None if text in (None, "0") else text


def _row(job: _Job) -> tuple[str | None, ...]:
    """The cells in the order of `TEXTS`."""
    raw = _number(job.job_id)
    array, het, time = job.array or _Array(), job.het or _Het(), job.time or Times()
    owner, tres = job.association or _Association(), job.tres or _Tres()
    jobid = raw
    task, first = _number(array.task_id), _time(array.job_id)
    if first is not None and array.task:
        jobid = f"{first}_[{array.task}]"
    elif first is not None and task is not None and task != str(_NO_TASK):
        jobid = f"{first}_{task}"
    elif (lead := _time(het.job_id)) is not None:
        jobid = f"{lead}+{_number(het.job_offset) or 0}"
    current = job.state.current if job.state is not None else None
    if isinstance(current, list):
        current = current[0] if current else None
    cells = (
        *(jobid, raw, job.cluster or owner.cluster, job.user or owner.user, job.account or owner.account),
        *(job.partition, job.qos, None if current is None else str(current), _time(time.submission)),
        *(_time(time.eligible), _time(time.start), _time(time.end), _number(time.elapsed), None),
        *(_seconds(time.suspended), None, _number(time.limit), _number(job.allocation_nodes)),
        *(_listed(tres.allocated), None, _listed(tres.requested), job.nodes, _number(job.priority)),
    )
    return tuple(cell or None for cell in cells)


def _seconds(value: Any) -> str | None:
    """Seconds that may be split as {seconds, microseconds}."""
    return _number(value.get("seconds") if isinstance(value, dict) and "seconds" in value else value)


def _listed(resources: list[_Resource] | None) -> str | None:
    """The resources as AllocTRES has them."""
    return ",".join(
        f"{each.type}{'/' * bool(each.name)}{each.name or ''}={_number(each.count)}"
        for each in resources or ()
    )
