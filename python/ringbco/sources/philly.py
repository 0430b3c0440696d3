"""Microsoft Philly (2017): one JSON array of jobs, each with its attempts to run (cluster_job_log).

Conventions for jobs of several attempts conflict, so they are named modes:
- span: from the first attempt's start to the last one's end, GPUs of the first (the authors' notebook);
- sum: the attempts' lengths added up, GPUs of the widest;
- split: a job per attempt;
- last: the last attempt only.
"""

from __future__ import annotations

import codecs
import mmap
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec
import polars as pl

from ringbco.cluster.presets import PRESETS
from ringbco.errors import InputError, UsageError
from ringbco.io.csvtext import LONGEST_ROW, long_row
from ringbco.sources.account import ROW, Entry, Rule, change, clean, drop
from ringbco.sources.opening import Opened
from ringbco.sources.parsing import iso, optional_text, wall_clock
from ringbco.sources.rules import A_TIME, has_id, in_order, known_vc, terminal, timed
from ringbco.sources.source import (
    Inputs,
    Options,
    Source,
    Trace,
    by_submission,
    first_submission,
    ran_from,
    read_nodes,
    server_numbers,
    without_servers,
)
from ringbco.sources.tables import CsvTable
from ringbco.trace.other_names import hint_at
from ringbco.trace.recorded import RAN

_JOB: Final = "__job"  # which job of the array a row is of
SERVERS: Final = PRESETS["philly"].servers
STATUSES: Final = ("Pass", "Killed", "Failed")


class _Place(msgspec.Struct, gc=False):
    ip: Any = None
    gpus: list[str] | None = None


class _Attempt(msgspec.Struct, gc=False):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Place] | None = None

    @property
    def num_gpus(self) -> int:
        return sum(len(place.gpus) for place in self.detail or () if place.gpus)

    def place(self, servers: Mapping[str, int]) -> tuple[str | None, str | None]:
        """The servers and the GPUs held of each, "0:4 3:4"; else the first machine that is none of them."""
        held: Counter[int] = Counter()
        for part in self.detail or ():
            if part.gpus:
                if str(part.ip) not in servers:
                    return None, str(part.ip)
                held[servers[str(part.ip)]] += len(part.gpus)
        return " ".join(f"{server}:{gpus}" for server, gpus in sorted(held.items())) or None, None


class _Job(msgspec.Struct, gc=False):
    jobid: str | None = None
    submitted_time: str | None = None
    user: str | None = None
    vc: str | None = None
    status: str | None = None
    attempts: list[_Attempt] | None = None


@dataclass(frozen=True)
class JobLog:
    """The JSON array of jobs."""

    role: str = "log"
    what: str = "a Philly job log (cluster_job_log)"

    def recognises(self, head: str) -> bool:
        """Whether an array begins with an object that has Philly's keys."""
        return head.lstrip().startswith("[") and self.likeness(head) == 1.0

    def likeness(self, head: str) -> float:
        """Share of the keys found in JSON text; 0 for anything else."""
        if not head.lstrip().startswith(("[", "{")):
            return 0.0
        keys = ("jobid", "attempts", "submitted_time")
        return sum(f'"{key}"' in head for key in keys) / len(keys)

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError if the JSON is no array."""
        if opened.head.lstrip().startswith("{"):
            raise InputError(
                "is JSON, but one object (or one a line) instead of an array of jobs",
                file=opened.shown,
                hint="the published file begins with [ and ends with ]",
            )


MACHINES: Final = CsvTable(
    role="machines",
    what="Philly's list of machines (cluster_machine_list)",
    columns=("machineId", "number of GPUs", "single GPU mem"),
    required=("machineId", "number of GPUs"),
    looks={"machineId": r"m\d+", "number of GPUs": r"\d+", "single GPU mem": r"\d+ ?GB"},
)

# submitted, start, end (as written), the attempt whose GPUs count
Row = tuple[str | None, str | None, str | None, _Attempt]


def _span(job: _Job, attempts: Sequence[_Attempt]) -> list[Row]:
    return [(job.submitted_time, attempts[0].start_time, attempts[-1].end_time, attempts[0])]


def _sum(job: _Job, attempts: Sequence[_Attempt]) -> list[Row]:
    widest = max(attempts, key=lambda attempt: attempt.num_gpus)
    return [(job.submitted_time, attempts[0].start_time, attempts[-1].end_time, widest)]


def _last(job: _Job, attempts: Sequence[_Attempt]) -> list[Row]:
    return _span(job, attempts[-1:])


def _split(job: _Job, attempts: Sequence[_Attempt]) -> list[Row]:
    """An attempt after the first counts as submitted when the one before it ended (or it started itself)."""
    rows = _span(job, attempts[:1])
    for before, attempt in pairwise(attempts):
        known = [time for time in (before.end_time, attempt.start_time) if time and time != "None"]
        # Times as written sort as text does.
        rows.append((min(known, default=None), attempt.start_time, attempt.end_time, attempt))
    return rows


MODES: Final[Mapping[str, Callable[[_Job, Sequence[_Attempt]], list[Row]]]] = {
    "span": _span,
    "sum": _sum,
    "split": _split,
    "last": _last,
}

_STILL = pl.col("end_text").is_null() | pl.col("end_text").is_in(["", "None"])


def _rules(mode: str, known_vcs: bool) -> tuple[Rule, ...]:
    """The rules of a mode, in order."""
    attempt = "attempt" if mode == "split" else "job"
    start = (
        drop("no attempt has both a start and an end", pl.col("summed").is_null(), "start_time", A_TIME),
        drop("an attempt ends before it starts", pl.col("shortest") < 0, "end_time", "later than start_time"),
        drop("ran for no time (its attempts last 0 s)", pl.col("summed") == 0, "end_time", "run time"),
        drop(
            "starts before it is submitted (start_time < submitted_time)",
            pl.col("start_time") < pl.col("submitted_time"),
            "start_time",
            "no earlier than submitted_time",
        ),
        change(
            "attempts without a start or an end left out of the sum",
            pl.col("untimed") > 0,
            "start_time",
            "a start and an end for every attempt",
        ),
        change(
            "its first attempt with both times starts before it is submitted: recorded_start left out",
            pl.col("first_start") < pl.col("submitted_time"),
            "start_time",
            "no earlier than submitted_time",
            first_start=pl.lit(None),
        ),
    )
    span = (*timed("start_time"), *in_order("submitted_time", "start_time", "end_time"))
    return (
        drop("not in the published form", pl.col("broken"), "job", "an object with Philly's keys"),
        terminal("status", STATUSES),
        has_id("jobid"),
        drop("never ran (no attempt)", pl.col("num_attempts") == 0, "attempts", "at least one attempt"),
        drop(
            f"{attempt} still running when the log was cut, or its end not recorded (no end_time)",
            _STILL,
            "end_time",
            A_TIME,
        ),
        *timed("submitted_time", "end_time"),
        drop("no GPUs recorded", pl.col("num_gpus") == 0, "detail", "at least one GPU"),
        *(start if mode == "sum" else span),
        *([known_vc([group.vc for group in SERVERS if group.vc])] if known_vcs else ()),
        change(
            "held GPUs of a machine that the list of machines lacks: recorded_servers left out",
            pl.col("ip").is_not_null(),
            "ip",
            "a machine of the list",
        ),
    )


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of the log under `options.mode`; submit_time 0 is the first kept submission."""
    mode = options.mode or "span"
    if mode not in MODES:
        raise UsageError(f"--mode {mode}: choose one of {', '.join(MODES)}{hint_at(mode, MODES)}")
    opened = inputs["log"]
    data = _mapped(opened)
    raws = _split_array(data, opened.shown)
    machines = None if options.known_vcs or "machines" not in inputs else inputs.csv("machines")
    servers, left_out = SERVERS, tuple[Entry, ...]()
    numbers: dict[str, int] = {}
    if machines is not None:
        name, gpus = MACHINES.required
        servers, left_out = read_nodes(machines, options, name=name, gpus=gpus)
        numbers = server_numbers(machines, name=name, gpus=gpus)
    text, lengths = _decode(raws, mode, numbers)
    frame = _parsed(text)
    if mode == "sum":
        frame = frame.join(_summed(lengths), on=ROW, how="left", maintain_order="left")

    def locate(row: int, column: str) -> tuple[int, int | None, object]:
        job = int(text[_JOB][row])
        value = text[column][row] if column in text.columns else _misfit(bytes(raws[job]))
        return job + 1, _line(data, raws, job), value

    kept, account = clean(
        frame,
        _rules(mode, options.known_vcs),
        unit="attempts" if mode == "split" else "jobs",
        file=opened.shown,
        locate=locate,
        strict=options.strict,
        unique_column="jobid",
    )
    epoch = first_submission(kept.rename({"submitted_time": "submit_time"}))
    table = by_submission(
        kept,
        [
            *("job_id", "submit_time", "num_gpus", "duration", "user", "vc", "status", "num_attempts"),
            *(RAN if machines is None else (*RAN, "recorded_servers")),
        ],
        submit_time=pl.col("submitted_time") - epoch,
        duration=pl.col("summed") if mode == "sum" else pl.col("end_time") - pl.col("start_time"),
        **ran_from("first_start" if mode == "sum" else "start_time", "end_time", epoch),
    )
    notes = [] if machines is not None else [*without_servers(table, SERVERS, "of unknown size")]
    if machines is None and "machines" in inputs:
        notes.append(
            f"{inputs['machines'].shown} has no effect with --known-vcs: the servers are those of the virtual"
            " clusters, and recorded_servers is left out"
        )
    return Trace(
        table,
        account.plus(left_out),
        iso(epoch),
        "the first kept submission, on the log's own wall clock",
        servers,
        (*notes, *(_apart(kept) if mode == "split" else ())),
        {"mode": mode, **({"known_vcs": "yes"} if options.known_vcs else {})},
    )


def _apart(kept: pl.DataFrame) -> Iterator[str]:
    """The note on attempts of one job, which are jobs without any order now."""
    several = kept.filter(pl.len().over(_JOB) > 1)
    if several.height:
        jobs = several[_JOB].n_unique()
        yield (
            f"{several.height:,} attempts are of {jobs:,} job{'s'[: jobs > 1]} with several: in a replay"
            " each arrives at its recorded time, even while an earlier one of its job still waits or runs;"
            f" first: {several['job_id'][0]}"
        )


def _mapped(opened: Opened) -> memoryview:
    """The file's bytes, fetched as they are needed; the mapping lives as long as anything refers to it."""
    with open(opened.path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return view[3:] if bytes(view[:3]) == codecs.BOM_UTF8 else view


def _split_array(data: memoryview, shown: str) -> list[msgspec.Raw]:
    """The jobs of the array, not decoded yet."""
    try:
        found = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise InputError("is JSON, but no array of jobs", file=shown) from None
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            raise InputError(
                "is JSON that ends before its array does", file=shown, hint="fetch it again"
            ) from None
        at = re.search(r"byte (\d+)", str(error))
        line = bytes(data[: int(at[1])]).count(b"\n") + 1 if at else None
        raise InputError(f"valid JSON ({error})", file=shown, line=line, hint="fetch it again") from None
    for row, raw in enumerate(found, start=1):
        if len(memoryview(raw)) > LONGEST_ROW:
            raise long_row(shown, row=row)
    return found


def _decode(
    raws: Sequence[msgspec.Raw], mode: str, servers: Mapping[str, int]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One row per job (or attempt, in mode split), times as text; and, for mode sum, one row per attempt.

    servers: the number of each machine, empty where no list names them: then no row has a place.
    """
    decoder = msgspec.json.Decoder(_Job)
    rows_of = MODES[mode]
    rows: list[tuple[object, ...]] = []
    lengths: list[tuple[int, str | None, str | None]] = []
    for number, raw in enumerate(raws):
        try:
            job, broken = decoder.decode(raw), False
        except (msgspec.DecodeError, UnicodeDecodeError):  # a wrong type is a DecodeError too
            job, broken = _Job(), True
        attempts = job.attempts or ()
        if mode == "sum":
            lengths += [(len(rows), attempt.start_time, attempt.end_time) for attempt in attempts]
        of_job = rows_of(job, attempts) if attempts else [(job.submitted_time, None, None, _Attempt())]
        for part, (*times, held) in enumerate(of_job, start=1):
            name = f"{job.jobid}#{part}" if mode == "split" and job.jobid else job.jobid
            place = held.place(servers) if servers else (None, None)
            rows.append(
                (number, name, job.user, job.vc, job.status, *times, held.num_gpus)
                + (len(attempts), broken, *place)
            )
    schema = {
        _JOB: pl.UInt32,
        **dict.fromkeys(("jobid", "user", "vc", "status"), pl.String),
        **dict.fromkeys(("submitted_time", "start_time", "end_time"), pl.String),
        "num_gpus": pl.UInt32,
        "num_attempts": pl.UInt32,
        "broken": pl.Boolean,
        "recorded_servers": pl.String,
        "ip": pl.String,
    }
    text = pl.DataFrame(rows, schema=schema, orient="row").with_row_index(ROW)
    parts = {ROW: pl.UInt32, "start_time": pl.String, "end_time": pl.String}
    return text, pl.DataFrame(lengths, schema=parts, orient="row")


def _parsed(text: pl.DataFrame) -> pl.DataFrame:
    return text.with_columns(
        optional_text("jobid").alias("job_id"),
        optional_text("user"),
        optional_text("vc"),
        pl.col("end_time").alias("end_text"),
        *map(wall_clock, ("submitted_time", "start_time", "end_time")),
    )


def _summed(lengths: pl.DataFrame) -> pl.DataFrame:
    """Seconds of all attempts of a row, of its shortest one, its first start, and how many have no times."""
    seconds = wall_clock("end_time") - wall_clock("start_time")
    return (
        lengths.select(ROW, seconds=seconds, start=wall_clock("start_time"))
        .group_by(ROW)
        .agg(
            pl.col("seconds").filter(pl.col("seconds").is_not_null()).sum().alias("total"),
            pl.col("seconds").min().alias("shortest"),
            pl.col("start").filter(pl.col("seconds").is_not_null()).min().alias("first_start"),
            pl.col("seconds").null_count().alias("untimed"),
            pl.col("seconds").count().alias("timed"),
        )
        .with_columns(pl.when(pl.col("timed") > 0).then("total").alias("summed"))
    )


def _misfit(job: bytes) -> str:
    """What in a job is not as published: the key and its value, or the whole element."""
    try:
        msgspec.json.decode(job, type=_Job)
        element = msgspec.json.decode(job)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        at = re.search(r"`\$\.(\w+)", str(error))
        try:
            element = msgspec.json.decode(job)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return job.decode(errors="replace")
        if at is not None and isinstance(element, dict):
            return f"{at[1]}: {msgspec.json.encode(element[at[1]]).decode()}"
    return msgspec.json.encode(element).decode()


def _line(data: memoryview, raws: Sequence[msgspec.Raw], job: int) -> int:
    """The line on which a job begins (from 1): only asked for an error, so the file is searched anew."""
    whole, at = bytes(data), 0
    for raw in raws[:job]:
        text = bytes(raw)
        at = whole.index(text, at) + len(text)
    return whole.count(b"\n", 0, whole.index(bytes(raws[job]), at)) + 1


SOURCE: Final = Source(
    name="philly",
    title="Microsoft Philly (August to December 2017)",
    url="https://github.com/msr-fiddle/philly-traces",
    licence="CC-BY-4.0",
    citation="""\
@inproceedings{jeon2019philly,
  author    = {Jeon, Myeongjae and Venkataraman, Shivaram and Phanishayee, Amar and Qian, Junjie and
               Xiao, Wencong and Yang, Fan},
  title     = {Analysis of Large-Scale Multi-Tenant {GPU} Clusters for {DNN} Training Workloads},
  booktitle = {2019 USENIX Annual Technical Conference (USENIX ATC 19)},
  year      = {2019},
  url       = {https://www.usenix.org/conference/atc19/presentation/jeon}
}""",
    shapes=(JobLog(), MACHINES),
    needs=("log",),
    read=read,
    options=frozenset({"mode", "known-vcs"}),
)
