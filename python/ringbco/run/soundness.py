"""Can this result be drawn? What is damaged is named by file, row and column before any chart fails on it.

Only what a drawing needs: whether the result is possible is for `ringbco audit` to say.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from ringbco.cluster.spec import MAX_GPUS
from ringbco.errors import ABSENT, InputError, show_value
from ringbco.result.causes import CAUSES_SCHEMA
from ringbco.result.figures import COMPARED, MAY_BE_NULL, SPREADS, rows_of
from ringbco.result.metrics import STATISTICS
from ringbco.result.outcome import Outcome
from ringbco.result.schema import (
    ALLOCATIONS_SCHEMA,
    ELASTIC_SCHEMA,
    EVICTION_SCHEMA,
    FAILURE_SCHEMA,
    GPUS_SCHEMA,
    JOBS_SCHEMA,
    POWER_SCHEMA,
    PREEMPTION_SCHEMA,
    PRIORITY_SCHEMA,
    TIMELINE_SCHEMA,
    TYPES_SCHEMA,
)
from ringbco.result.window import measured, of_summary
from ringbco.run.options_generated import REPLAY

_JOBS: Final = "jobs.parquet"
_ALLOCATIONS: Final = "allocations.parquet"
_TIMELINE: Final = "timeline.parquet"
_SUMMARY: Final = "summary.json"
_RUN: Final = "run.toml"
_NAMES: Final = ("user", "vc")
_ENDLESS: Final = frozenset(name for name, option in REPLAY.items() if option.endless)
_NUMBER: Final = "a finite number"
# A trace counts microseconds, and a chart adds and squares: beyond this they would overflow.
_MOST: Final = 1e150


def check_drawable(outcome: Outcome, folder: Path) -> None:
    """Raises InputError for the first thing in a result, read from `folder`, that could not be drawn."""
    result = _Result(outcome, folder)
    result.check_run()
    check_tables(outcome, folder)
    result.check_allocations()
    result.check_summary()


def check_tables(outcome: Outcome, folder: Path | None = None) -> None:
    """The same of the jobs and the timeline alone, which need not come from a folder."""
    result = _Result(outcome, folder)
    result.check_jobs()
    result.check_timeline()


@dataclass(frozen=True)
class _Result:
    outcome: Outcome
    folder: Path | None

    def check_jobs(self) -> None:
        jobs = self.outcome.jobs
        if jobs.is_empty():
            raise self._refusal(_JOBS, "holds no job, so there is nothing to show")
        optional = {
            name: None
            for name in (
                *CAUSES_SCHEMA,
                *PREEMPTION_SCHEMA,
                *FAILURE_SCHEMA,
                *EVICTION_SCHEMA,
                *PRIORITY_SCHEMA,
                *ELASTIC_SCHEMA,
                *TYPES_SCHEMA,
                "paused_time",
                "run_cut",
            )
            if name in jobs.columns
        }
        for name in optional:
            dtype = jobs.schema[name]
            self._check_type(_JOBS, jobs, name, "numbers", fits=dtype.is_float() or dtype.is_integer())
        for name in (name for name in _NAMES if name in jobs.columns):
            self._check_type(_JOBS, jobs, name, "texts", fits=jobs.schema[name] == pl.String)
        if "reached_limit" in jobs.columns:
            fits = jobs.schema["reached_limit"] == pl.Boolean
            self._check_type(_JOBS, jobs, "reached_limit", "true or false", fits=fits)
            optional["reached_limit"] = None
        self._check_values(_JOBS, jobs, [*JOBS_SCHEMA, *optional])
        self._check_rows(_JOBS, jobs, "num_gpus", jobs["num_gpus"] < 1, "1 GPU or more")
        if "gpu_share" in jobs.columns:
            self._check_type(_JOBS, jobs, "gpu_share", "numbers", fits=jobs.schema["gpu_share"].is_float())
            self._check_share(_JOBS, jobs, "gpu_share")

    def check_timeline(self) -> None:
        timeline = self.outcome.timeline
        if timeline.is_empty():
            raise self._refusal(_TIMELINE, "holds no sample of the cluster, not even one")
        told = [name for name in POWER_SCHEMA if name in timeline.columns]
        for name in told:
            self._check_type(_TIMELINE, timeline, name, "numbers", fits=timeline.schema[name].is_float())
        self._check_values(_TIMELINE, timeline, [*TIMELINE_SCHEMA, *told])
        if not timeline["time"].is_sorted():
            back = timeline["time"].diff().fill_null(0.0) < 0
            self._check_rows(_TIMELINE, timeline, "time", back, "no time before the row above")

    def check_allocations(self) -> None:
        """Stretches are on servers of the cluster, of jobs that ran, and end after they start."""
        stretches, jobs = self.outcome.allocations, self.outcome.jobs
        if stretches is None:
            return
        if stretches.is_empty():
            raise self._refusal(_ALLOCATIONS, "holds no stretch, though jobs ran")
        self._check_values(_ALLOCATIONS, stretches, ALLOCATIONS_SCHEMA)
        servers = sum(group["count"] for group in self.outcome.run["cluster"]["servers"])
        beyond = stretches["server"] >= servers
        self._check_rows(
            _ALLOCATIONS, stretches, "server", beyond, f"0 to {servers - 1}, the cluster's servers"
        )
        self._check_rows(_ALLOCATIONS, stretches, "num_gpus", stretches["num_gpus"] < 1, "1 GPU or more")
        ends_early = stretches["end_time"] < stretches["start_time"]
        self._check_rows(_ALLOCATIONS, stretches, "end_time", ends_early, "no time before start_time")
        self._check_shares(stretches)
        if jobs["job_id"].n_unique() < jobs.height:
            again = ~jobs["job_id"].is_first_distinct()
            self._check_rows(_JOBS, jobs, "job_id", again, "each job once")
        # A job's stretches follow each other: one lookup does for them all.
        ids = stretches["job_id"]
        ids = ids.filter(ids.ne_missing(ids.shift()))
        unknown = ids.filter(~ids.is_in(jobs["job_id"].implode()))
        if len(unknown):
            strays = stretches["job_id"].is_in(unknown.implode())
            self._check_rows(_ALLOCATIONS, stretches, "job_id", strays, f"a job of {_JOBS}")

    def _check_shares(self, stretches: pl.DataFrame) -> None:
        """Where jobs share GPUs, a stretch tells the GPU and, of a share, how much of it."""
        if "gpu_share" not in self.outcome.jobs.columns and not any(
            name in stretches.columns for name in GPUS_SCHEMA
        ):
            return
        for name in GPUS_SCHEMA:
            if name not in stretches.columns:
                raise self._refusal(_ALLOCATIONS, "a column, as jobs share GPUs; there is none", column=name)
            dtype = stretches.schema[name]
            fits = dtype.is_float() if name == "share" else dtype.is_integer()
            self._check_type(_ALLOCATIONS, stretches, name, "numbers", fits=fits)
        gpu = stretches["gpu"]
        self._check_rows(_ALLOCATIONS, stretches, "gpu", (gpu < 0).fill_null(True), "a GPU's index, from 0")
        self._check_share(_ALLOCATIONS, stretches, "share")

    def _check_share(self, file: str, frame: pl.DataFrame, column: str) -> None:
        share = frame[column]
        beyond = ~((share > 0) & (share <= 1)).fill_null(True)
        self._check_rows(file, frame, column, beyond, "a share > 0 and <= 1, or none")

    def check_summary(self) -> None:
        """summary.json has the figures that every result has, and numbers wherever numbers are shown."""
        summary: Any = self.outcome.summary
        if not isinstance(summary, dict):
            raise self._refusal(_SUMMARY, "expected an object with the figures of a run")
        if not isinstance(summary.get("policy"), str):
            raise self._key(_SUMMARY, summary, "policy", "a policy's name")
        jobs = measured(self.outcome).height
        if not is_number(summary.get("jobs")) or summary["jobs"] != jobs:
            where = "" if of_summary(summary) is None else " in the window"
            raise self._key(_SUMMARY, summary, "jobs", f"{jobs}, the rows of {_JOBS}{where}")
        wrong = wrong_figure(summary)
        if wrong is not None:
            raise self._key(_SUMMARY, summary, *wrong)
        types = summary.get("gpu_types", [])
        if not isinstance(types, list) or not all(map(_is_type, types)):
            raise self._key(_SUMMARY, summary, "gpu_types", "GPU types, each with its figures")

    def check_run(self) -> None:
        """run.toml says which servers there were, and what else the page tells is of the right kind."""
        run: Mapping[str, Any] = self.outcome.run
        for table in ("ringbco", "trace", "cluster", "options"):
            if not isinstance(run.get(table, {}), dict):
                raise self._key(_RUN, run, table, "a table")
        for key, value in _leaves(run):
            endless = key.removeprefix("options.") in _ENDLESS and value == math.inf
            if isinstance(value, float) and not (math.isfinite(value) or endless):
                raise self._key(_RUN, {key: value}, key, _NUMBER)
        cluster, trace = run.get("cluster", {}), run.get("trace", {})
        groups = cluster.get("servers")
        if not isinstance(groups, list) or not groups or not all(map(_is_group, groups)):
            where = {"cluster.servers": groups} if "servers" in cluster else {}
            raise self._key(_RUN, where, "cluster.servers", "groups of servers, each with count and gpus")
        if sum(group["count"] * group["gpus"] for group in groups) > MAX_GPUS:
            raise self._key(_RUN, {}, "cluster.servers", f"at most {MAX_GPUS} GPUs in all")
        network = cluster.get("network", {})
        if not isinstance(network, dict):
            raise self._key(_RUN, {"cluster.network": network}, "cluster.network", "a table")
        for key, value in network.items():
            if not is_number(value):
                name = f"cluster.network.{key}"
                raise self._key(_RUN, {name: value}, name, _NUMBER)
        if not is_number(trace.get("rows", 0)):
            raise self._key(_RUN, {"trace.rows": trace["rows"]}, "trace.rows", "a number of rows")
        for table, key in (("trace", "sha256"), ("ringbco", "version")):
            value = run.get(table, {}).get(key)
            if not isinstance(value, str | None):
                raise self._key(_RUN, {f"{table}.{key}": value}, f"{table}.{key}", "a text")
        self._check_clock(run.get("options", {}))
        self._check_costs(run.get("options", {}))
        self._check_warnings(run)

    def _check_clock(self, options: Mapping[str, Any]) -> None:
        """A slot's length says when the jobs of a timeline were first seen."""
        slot = options.get("slot")
        if options.get("clock") == "slot" and not (is_number(slot) and options["slot"] > 0):
            raise self._key(
                _RUN, {} if slot is None else {"options.slot": slot}, "options.slot", "a slot's seconds"
            )

    def _check_costs(self, options: Mapping[str, Any]) -> None:
        """How long a job pauses as it is resized is drawn."""
        for name in ("preempt_cost", "resize_cost"):
            if options.get(name) is not None and not is_number(options[name]):
                raise self._key(_RUN, {f"options.{name}": options[name]}, f"options.{name}", "seconds")

    def _check_warnings(self, run: Mapping[str, Any]) -> None:
        """The page shows them as they are."""
        lines = run.get("warnings", [])
        if not (isinstance(lines, list) and all(isinstance(line, str) for line in lines)):
            raise self._key(_RUN, run, "warnings", "a list of texts")

    def _check_values(self, file: str, frame: pl.DataFrame, columns: Any) -> None:
        """No null, and where there are seconds or shares nothing that is no number."""
        for name in columns:
            column = frame[name]
            text = column.dtype == pl.String
            if column.null_count():
                self._check_rows(file, frame, name, column.is_null(), "a text" if text else _NUMBER)
            # Extremes pass over NaN, which is sought by itself.
            if column.dtype.is_float():
                seconds = column.cast(pl.Float64)  # in single precision the limit would be infinite
                low, high = seconds.min(), seconds.max()
                assert isinstance(low, float)
                assert isinstance(high, float)
                if not (low >= -_MOST and high <= _MOST) or seconds.is_nan().any():
                    wrong = ~(seconds.is_between(-_MOST, _MOST) & seconds.is_not_nan())
                    finite = math.isfinite(seconds.filter(wrong)[0])
                    expected = f"a number of at most {_MOST:g}" if finite else _NUMBER
                    self._check_rows(file, frame, name, wrong, expected)

    def _check_type(self, file: str, frame: pl.DataFrame, column: str, expected: str, *, fits: bool) -> None:
        if not fits:
            raise self._refusal(file, expected, column=column, value=str(frame.schema[column]))

    def _check_rows(
        self, file: str, frame: pl.DataFrame, column: str, wrong: pl.Series, expected: str
    ) -> None:
        """Names the first row that is wrong, and whose it is."""
        if not wrong.any():
            return
        row = wrong.arg_max()
        assert row is not None
        job = frame["job_id"][row] if "job_id" in frame.columns and column != "job_id" else None
        whose = "" if job is None else f", in this row of job {show_value(job)}"
        raise self._refusal(file, f"{expected}{whose}", row=row + 1, column=column, value=frame[column][row])

    def _key(self, file: str, table: Mapping[str, Any], key: str, expected: str) -> InputError:
        if key not in table:
            return self._refusal(file, f"{expected}; there is none", key=key)
        return self._refusal(file, expected, key=key, value=table[key])

    def _refusal(self, file: str, expected: str, *, value: object = ABSENT, **place: Any) -> InputError:
        if self.folder is None:
            return InputError(expected, file=file, value=value, **place)
        hint = f"run `ringbco audit {self.folder}` to see what else is wrong"
        return InputError(expected, file=self.folder / file, value=value, hint=hint, **place)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The single values of a document, each with its place such as cluster.network.alpha."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(below, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for below in value:
            yield from _leaves(below, path)
    else:
        yield path, value


def wrong_figure(summary: object) -> tuple[str, str] | None:
    """The first key of a summary that has no number where one is shown, and what it should have.

    Where it is no table at all, the key is "".
    """
    if not isinstance(summary, dict):
        return "", "a table"
    empty = {key for key in MAY_BE_NULL if summary.get(key, 0) is None}
    # Earlier versions knew no bounded slowdown.
    always = ["makespan", *(f"{statistic}_{name}" for name, *_ in SPREADS[:-1] for statistic in STATISTICS)]
    shown = (*(measure.key for measure in COMPARED), "jobs_dropped")
    for key in always:
        if not is_number(summary.get(key)):
            return key, _NUMBER
        if summary[key] < 0:
            return key, "0 or more"
    told = (key for key in shown if key in summary and key not in empty)
    return next(((key, _NUMBER) for key in told if not is_number(summary[key])), None)


def is_number(value: object) -> bool:
    """A finite one, and no truth value."""
    most = sys.float_info.max
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most


def _is_type(row: object) -> bool:
    """Whether it is a GPU type's row of summary.json."""
    counted = [told for told in rows_of("type") if told.unit]
    return (
        isinstance(row, dict)
        and isinstance(row.get("gpu_type"), str)
        and all(is_number(row.get(told.key)) for told in counted if told.key in row or not told.sometimes)
    )


def _is_group(group: object) -> bool:
    """Whether this is an entry of [[cluster.servers]]."""
    if not isinstance(group, dict):
        return False
    counts = all(type(group.get(key)) is int and group[key] >= 1 for key in ("count", "gpus"))
    return counts and all(isinstance(group.get(key), str | None) for key in ("vc", "gpu_type"))
