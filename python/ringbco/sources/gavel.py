"""Gavel's simulated traces and its measured throughputs (OSDI 2020): jobs of so many steps, steps a second.

A job type such as `LM (batch size 80)` is a model here, and so it is called in both tables. Steps are the
iterations. Of each type the rate on several servers is that of `TYPE_unconsolidated`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from ringbco.errors import InputError, UsageError, show_value
from ringbco.io.csvtext import LONGEST_ROW
from ringbco.sources.account import ROW, Locate, drop
from ringbco.sources.parsing import number, optional_text
from ringbco.sources.rules import SECONDS, not_negative, timed, whole_gpus
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission, clean_csv
from ringbco.sources.tables import CsvTable
from ringbco.trace.jobs import MAX_COUNT
from ringbco.trace.rate_table import RateTable

_LOOKS: Final = {
    "steps_argument": r"-\S+",
    "needs_data_directory": "[01]",
    "total_steps": r"\d+",
    "scale_factor": r"\d+",
    "arrival_time": r"-?\d+(\.\d+)?",
}
_REQUIRED: Final = ("job_type", "steps_argument", "total_steps", "scale_factor", "arrival_time")
_LAUNCH: Final = ("steps_argument", "needs_data_directory", "total_steps")
MODE: Final = {"mode": "static|accordion|gns"}
"""How a job of Shockwave's changes its batch size as it runs; a static one keeps it."""


def _trace(what: str, columns: tuple[str, ...], looks: dict[str, str] | None = None) -> CsvTable:
    return CsvTable(role="jobs", what=what, columns=columns, required=_REQUIRED, looks=_LOOKS | (looks or {}))


# What wrote a trace is told by its number of cells: each version of Gavel's parser takes one, in one order.
JOBS: Final = (
    _trace(
        "a Gavel trace (lines of ten cells, separated by tabs)",
        (
            *("job_type", "command", "working_directory", *_LAUNCH),
            *("scale_factor", "priority_weight", "slo", "arrival_time"),
        ),
    ),
    _trace(
        "an older Gavel trace (nine cells)",
        ("job_type", "command", *_LAUNCH, "scale_factor", "priority_weight", "slo", "arrival_time"),
    ),
    _trace(
        "an older Gavel trace (seven cells)",
        ("job_type", "command", *_LAUNCH, "arrival_time", "scale_factor"),
    ),
    _trace(
        "a Shockwave trace (twelve cells)",
        (
            *("job_type", "command", "working_directory", *_LAUNCH),
            *("scale_factor", "mode", "priority_weight", "slo", "duration", "arrival_time"),
        ),
        MODE | {"duration": r"\d+(\.\d+)?"},
    ),
)

_KEY: Final = re.compile(r"\('(.+)', ([1-9][0-9]{0,8})\)")
_APART: Final = "_unconsolidated"
_APART_BY: Final = 0.01
_STEPS: Final = "a whole number of steps, 1 or more"
_SHAPE: Final = (
    'an object {type: {"(\'MODEL\', GPUS)": {"null": steps/s, "(\'OTHER\', GPUS)": [mine, other]}}}'
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The jobs, and the rates of every type of job."""
    if options.throughputs is None:
        raise UsageError(
            "convert gavel: give --throughputs FILE, Gavel's simulation_throughputs.json: it says how long"
            f" the steps of a job take: `{SOURCE.command(inputs['jobs'].shown, inputs.shapes['jobs'])}`"
        )
    tables = _tables(options.throughputs)
    alone = tables.filter(pl.col("partner").is_null(), pl.col("rate") > 0, servers=1).select(
        "model",
        pl.col("gpus").cast(pl.Float64).alias("scale_factor"),
        recorded_on="gpu_type",
        rate="rate",
    )
    file = inputs.csv("jobs")
    given = file.columns
    known = set(alone.select(pl.struct("model", "scale_factor")).to_series().struct.unnest().rows())
    steps = pl.col("total_steps")
    frame, account = clean_csv(
        file,
        [
            (pl.row_index("job_id") + 0).cast(pl.String),
            optional_text("job_type").alias("model"),
            *map(number, ("total_steps", "scale_factor", "arrival_time")),
            *(number(name) for name in ("priority_weight", "slo") if name in given),
            *((optional_text("mode"), number("duration").alias("told")) if "mode" in given else ()),
        ],
        (
            drop("no job type", pl.col("model").is_null(), "job_type", "a job type"),
            drop(
                "total_steps missing or not a whole number of steps",
                steps.is_null() | (steps < 1) | (steps != steps.floor()) | (steps > MAX_COUNT),
                "total_steps",
                _STEPS,
            ),
            whole_gpus("scale_factor"),
            drop("scale_factor is 0", pl.col("scale_factor") == 0, "scale_factor", "one GPU or more"),
            *timed("arrival_time", expected=SECONDS),
            not_negative("arrival_time"),
            drop(
                "job type with so many GPUs not in the throughputs",
                ~pl.struct("model", "scale_factor").map_elements(
                    lambda job: (job["model"], job["scale_factor"]) in known, pl.Boolean
                ),
                "job_type",
                f"a job type with a rate above 0 on so many GPUs in {options.throughputs.name}",
            ),
        ),
        unit="jobs",
        options=options,
        id_column="job_type",
    )
    frame = _on_a_type(
        frame.with_columns(pl.col("told") if "mode" in given else pl.lit(None).alias("told")), alone
    )
    notes = _of_shockwave(frame, options.throughputs.name, file.locate()) if "mode" in given else ()
    frame = by_submission(
        frame.rename({"arrival_time": "submit_time"}),
        [
            *("job_id", "submit_time", "num_gpus", "duration", "model", "recorded_on", "iterations"),
            *(name for name in ("mode", "priority_weight", "slo") if name in given),
        ],
        num_gpus=pl.col("scale_factor").cast(pl.UInt32),
        iterations=steps.cast(pl.UInt64),
        **({"slo": pl.when(pl.col("slo") >= 0).then("slo")} if "slo" in given else {}),
    )
    return Trace(
        frame,
        account,
        "1970-01-01T00:00:00",
        "a placeholder: the trace counts seconds from its beginning",
        notes=tuple(notes),
        choices={"throughputs": options.throughputs.name},
        tables=tables,
    )


def _on_a_type(frame: pl.DataFrame, alone: pl.DataFrame) -> pl.DataFrame:
    """The jobs with the GPU type they were recorded on: that of the trace's own run time, else the fastest.

    gap: seconds between that run time (whole seconds in the trace) and the duration; inf without one.
    """
    gap = (pl.col("told") - pl.col("duration")).abs()
    near = gap <= (pl.col("told") * _APART_BY).clip(lower_bound=1.0)
    return (
        frame.join(alone, on=["model", "scale_factor"], how="left", maintain_order="left_right")
        .with_columns(duration=pl.col("total_steps") / pl.col("rate"))
        .with_columns(gap=pl.when(near).then(gap).otherwise(float("inf")))
        .sort(ROW, "gap", -pl.col("rate"), maintain_order=True)
        .unique(ROW, keep="first", maintain_order=True)
    )


def _of_shockwave(frame: pl.DataFrame, throughputs: str, locate: Locate) -> Iterator[str]:
    """Notes on what a job table does not say of Shockwave's jobs, and on run times of other throughputs."""
    changing = frame.filter((pl.col("mode") != "static").fill_null(value=True))
    if changing.height:
        mode, row = changing.select("mode", ROW).row(0)
        yield (
            f"{changing.height:,} of {frame.height:,} jobs change their batch size as they run (mode"
            f" accordion or gns), which is not kept: they run at that of their job type throughout; first:"
            f" line {locate(row, 'mode')[1]}, {mode or 'no mode'}"
        )
    other = frame.filter(pl.col("told").is_not_null(), pl.col("gap").is_infinite())
    if other.height:
        told, made, row = other.select("told", "duration", ROW).row(0)
        yield (
            f"in {other.height:,} of {frame.height:,} jobs the trace's own run time is steps / throughput on"
            f" no GPU type, so they run as long as on the fastest: is {throughputs} the file of this trace?"
            f" First: line {locate(row, 'duration')[1]}, {told:g} s in the trace, {made:g} s here"
        )


def _tables(path: Path) -> pl.DataFrame:
    """The throughputs as a table of measured speeds. Raises InputError for a file of another shape."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(LONGEST_ROW + 1)
        if len(data) > LONGEST_ROW:
            raise InputError(f"holds more than {LONGEST_ROW >> 20} MiB: expected {_SHAPE}", file=path)
        document = json.loads(data)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise InputError(
            f"cannot be read as JSON ({getattr(error, 'strerror', None) or error})",
            file=path,
            hint="--throughputs takes Gavel's simulation_throughputs.json, plain or as gzip",
        ) from None
    rows = list(_rows(path, document))
    if not rows:
        raise InputError(f"holds no throughput: expected {_SHAPE}", file=path)
    frame = pl.DataFrame(rows, schema=RateTable.form.schema, orient="row")
    # Where the same GPUs of one server have a rate, 0 on several servers means that nobody measured it.
    key = ["model", "gpu_type", "gpus"]
    fit = frame.filter(pl.col("partner").is_null(), pl.col("rate") > 0, servers=1).select(key)
    apart = frame.filter(pl.col("partner").is_null(), pl.col("rate") == 0, pl.col("servers") > 1)
    unknown = apart.join(fit, on=key, how="semi").select(*key, "servers")
    return frame.join(unknown, on=[*key, "servers"], how="anti", maintain_order="left")


def _rows(path: Path, document: Any) -> Iterator[tuple[Any, ...]]:
    for gpu_type, models in _items(path, document, "the file"):
        name, apart = gpu_type.removesuffix(_APART), gpu_type.endswith(_APART)
        for key, entries in _items(path, models, gpu_type):
            model, gpus = _key(path, gpu_type, key)
            if apart and gpus == 1:
                continue  # a single GPU is on one server
            for other, rates in _items(path, entries, f"{gpu_type}.{key}"):
                where = f"{gpu_type}.{key}.{other}"
                if other == "null":
                    yield model, name, gpus, 1 + apart, _rate(path, rates, where), None, None
                    continue
                partner, beside = _key(path, where, other)
                if not isinstance(rates, list) or len(rates) != 2 or beside != gpus:
                    raise InputError(
                        "two rates, of jobs on equally many GPUs",
                        file=path,
                        key=where,
                        value=show_value(str(rates)),
                    )
                mine, theirs = (_rate(path, rate, where) for rate in rates)
                yield model, name, gpus, 1 + apart, mine, partner, theirs


def _items(path: Path, found: Any, where: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(found, dict):
        raise InputError(_SHAPE, file=path, key=where, value=show_value(str(found)))
    yield from found.items()


def _key(path: Path, where: str, key: str) -> tuple[str, int]:
    found = _KEY.fullmatch(key)
    if found is None:
        raise InputError(
            "a job type and its GPUs, such as ('LM (batch size 5)', 1)", file=path, key=where, value=key
        )
    return found[1], int(found[2])


def _rate(path: Path, rate: Any, where: str) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= sys.float_info.max:
        raise InputError("a finite number of steps/s >= 0", file=path, key=where, value=rate)
    return float(rate)


SOURCE: Final = Source(
    name="gavel",
    title="Gavel (Stanford): simulated traces with measured throughputs",
    url="https://github.com/stanford-futuredata/gavel",
    licence="MIT",
    citation="""\
@inproceedings{narayanan2020heterogeneity,
  author    = {Narayanan, Deepak and Santhanam, Keshav and Kazhamiaka, Fiodar and Phanishayee, Amar and
               Zaharia, Matei},
  title     = {Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads},
  booktitle = {14th USENIX Symposium on Operating Systems Design and Implementation (OSDI 20)},
  pages     = {481--498},
  year      = {2020}
}""",
    shapes=JOBS,
    needs=("jobs",),
    read=read,
    options=frozenset({"throughputs"}),
    asks="--throughputs FILE",
    cluster_hint="Gavel takes it as an option: write a cluster file with gpu_type v100, p100 and k80",
)
