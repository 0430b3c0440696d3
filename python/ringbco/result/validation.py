"""Can a result be shown, or told of? What is damaged is named by file, row and column before anything fails.

The rows of `TABLES` say what each table has to hold. Only what a drawing or a story needs is asked: whether a
result is possible is for `ringbco audit` to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from ringbco.errors import show_value
from ringbco.result.outcome import Outcome
from ringbco.result.run_validation import Record, Refusing
from ringbco.result.schema import GPUS_SCHEMA
from ringbco.result.tables import TABLES
from ringbco.result.window import measured
from ringbco.trace.quotas import BOOKS

_NUMBER: Final = "a finite number"
# A trace counts microseconds, and a chart adds and squares: beyond this they would overflow.
_MOST: Final = 1e150
_TOLD: Final = (
    *("jobs", "stays_written", "allocations", "replicas", "outages", *BOOKS, "fair_shares", "rungs"),
)
"""The tables that a story reads."""
_SHARE: Final = (lambda share: (share > 0) & (share <= 1), "a share > 0 and <= 1, or none")
_RULES: Final[Mapping[tuple[str, str], tuple[Callable[[pl.Series], pl.Series], str]]] = {
    ("jobs", "gpu_share"): _SHARE,
    ("allocations", "share"): _SHARE,
    ("allocations", "gpu"): (lambda gpu: gpu >= 0, "a GPU's index, from 0"),
}
"""Of columns of tables that are more than numbers: what their values are."""


def check_drawable(outcome: Outcome, folder: Path) -> None:
    """Raises InputError for the first thing in a result, read from `folder`, that could not be drawn."""
    result = _Result(outcome, folder)
    record = Record(outcome.run, folder)
    record.check_shown()
    check_tables(outcome, folder)
    result.check_allocations()
    record.check_summary(outcome.summary, measured(outcome).height)


def check_tables(outcome: Outcome, folder: Path | None = None) -> None:
    """The same of the jobs and the timeline alone, which need not come from a folder."""
    result = _Result(outcome, folder)
    result.check_jobs()
    result.check_timeline()


def check_types(outcome: Outcome, names: Collection[str]) -> None:
    """The same of the types of some columns that not every jobs.parquet has."""
    for name in names:
        if name in outcome.jobs.columns:
            _Result(outcome, None).check_type("jobs", outcome.jobs[name], TABLES["jobs"].more[name])


def check_story(outcome: Outcome) -> None:
    """Raises InputError for the first thing in a result of which no story could be told."""
    result = _Result(outcome, None)
    Record(outcome.run, None).check_options()
    for name in _TOLD:
        if getattr(outcome, name) is not None:
            result.check_values(name)
    for name in ("allocations", "replicas", "outages"):
        if getattr(outcome, name) is not None:
            result.check_servers(name)
    from ringbco.result.stays import BEGAN  # of the engine

    result.check_ran()
    result.check_words("began", BEGAN)
    result.check_stays()


def check_stay_log(outcome: Outcome, job_ids: pl.Series) -> None:
    """Raises InputError for the first thing of which nothing can be added up. job_ids: of the job table."""
    result = _Result(outcome, None)
    for name in ("stays_written", "allocations", "replicas", "rungs"):
        if getattr(outcome, name) is not None:
            result.check_values(name)
    for name in ("allocations", "replicas"):
        if getattr(outcome, name) is not None:
            result.check_servers(name)
    if outcome.stays_written is None:
        result.check_ran()
    result.check_stays()
    result.check_order(job_ids)
    result.check_beside(job_ids)


@dataclass(frozen=True)
class _Result(Refusing):
    outcome: Outcome
    folder: Path | None

    @cached_property
    def servers(self) -> pl.Series:
        """GPUs of each server."""
        groups = self.outcome.run["cluster"]["servers"]
        gpus, counts = ([group[name] for group in groups] for name in ("gpus", "count"))
        return pl.Series(np.repeat(gpus, counts))

    def check_values(self, name: str) -> None:
        """Each column of a table has its type, no null where there may be none, and no odd number."""
        table, frame = TABLES[name], self._frame(name)
        for column, dtype in (*table.schema.items(), *table.more.items()):
            if column not in frame.columns:
                continue
            cells = frame[column]
            self.check_type(name, cells, dtype)
            if (name, column) in _RULES:
                good, expected = _RULES[name, column]
                self._check_rows(name, column, ~good(cells).fill_null(column in table.nulls), expected)
                continue
            if column not in table.nulls and cells.null_count():
                expected = "a text" if dtype == pl.String else _NUMBER
                self._check_rows(name, column, cells.is_null(), expected)
            # Extremes pass over NaN, which is sought by itself.
            if cells.dtype.is_float():
                seconds = cells.cast(pl.Float64)  # in single precision the limit would be infinite
                low, high = seconds.min(), seconds.max()
                within = low is None or (low >= -_MOST and high <= _MOST)  # type: ignore[operator]
                if not within or seconds.is_nan().any():
                    wrong = ~(seconds.is_between(-_MOST, _MOST) & seconds.is_not_nan()).fill_null(True)
                    finite = math.isfinite(seconds.filter(wrong)[0])
                    expected = f"a number of at most {_MOST:g}" if finite else _NUMBER
                    self._check_rows(name, column, wrong, expected)

    def check_jobs(self) -> None:
        """jobs.parquet."""
        jobs = self.outcome.jobs
        if jobs.is_empty():
            raise self.refusal(TABLES["jobs"].file, "holds no job, so there is nothing to show")
        self.check_values("jobs")
        self._check_rows("jobs", "num_gpus", jobs["num_gpus"] < 1, "1 GPU or more")

    def check_timeline(self) -> None:
        """timeline.parquet, whose samples go on in time."""
        timeline = self.outcome.timeline
        if timeline.is_empty():
            raise self.refusal(TABLES["timeline"].file, "holds no sample of the cluster, not even one")
        self.check_values("timeline")
        if not timeline["time"].is_sorted():
            back = timeline["time"].diff().fill_null(0.0) < 0
            self._check_rows("timeline", "time", back, "no time before the row above")

    def check_servers(self, name: str) -> None:
        """The servers of a table are those of the cluster, and GPUs are theirs."""
        frame, servers = self._frame(name), self.servers.len()
        beyond = frame["server"] >= servers
        self._check_rows(name, "server", beyond, f"0 to {servers - 1}, the cluster's servers")
        if "gpu" in frame.columns:
            there = frame["gpu"] < self.servers.gather(frame["server"])
            self._check_rows(name, "gpu", ~there, "a GPU of its server")

    def check_allocations(self) -> None:
        """Rows of allocations are on servers of the cluster, of jobs that ran, and end after they start."""
        rows, jobs = self.outcome.allocations, self.outcome.jobs
        if rows is None:
            return
        if rows.is_empty():
            raise self.refusal(TABLES["allocations"].file, "holds no stay, though jobs ran")
        if any(name in (*jobs.columns, *rows.columns) for name in ("gpu_share", *GPUS_SCHEMA)):
            for name in GPUS_SCHEMA:
                if name not in rows.columns:
                    told = "a column, as jobs share GPUs; there is none"
                    raise self.refusal(TABLES["allocations"].file, told, column=name)
        self.check_values("allocations")
        self.check_servers("allocations")
        self._check_rows("allocations", "num_gpus", rows["num_gpus"] < 1, "1 GPU or more")
        ends_early = rows["end_time"] < rows["start_time"]
        self._check_rows("allocations", "end_time", ends_early, "no time before start_time")
        self._check_rows("jobs", "job_id", ~jobs["job_id"].is_first_distinct(), "each job once")
        # A job's stays follow each other: one lookup does for them all.
        ids = rows["job_id"]
        ids = ids.filter(ids.ne_missing(ids.shift()))
        unknown = ids.filter(~ids.is_in(jobs["job_id"].implode()))
        if len(unknown):
            strays = rows["job_id"].is_in(unknown.implode())
            self._check_rows("allocations", "job_id", strays, f"a job of {TABLES['jobs'].file}")

    def check_ran(self) -> None:
        """Each job of jobs.parquet once, on some GPUs, for some time."""
        jobs = self.outcome.jobs
        self._check_rows("jobs", "job_id", ~jobs["job_id"].is_first_distinct(), "each job once")
        early = jobs["finish_time"] < jobs["start_time"]
        self._check_rows("jobs", "finish_time", early, "no time before start_time")
        self._check_rows("jobs", "num_gpus", jobs["num_gpus"] < 1, "1 GPU or more")

    def check_stays(self) -> None:
        """The stays of a job one after the other, and rows of allocations of those alone."""
        jobs, stays, rows = self.outcome.jobs, self.outcome.stays_written, self.outcome.allocations
        known = jobs.select("job_id", stay=pl.lit(0, pl.UInt32))
        if stays is not None:
            from ringbco.result.stays import ENDED

            name, number = stays["job_id"], stays["stay"].cast(pl.Int64)
            goes_on = (name == name.shift()) & (number == number.shift() + 1)
            goes_on &= stays["start_time"] >= stays["end_time"].shift()
            first = (number == 0) & name.is_first_distinct()
            wrong = ~(first | goes_on.fill_null(False))
            self._check_rows("stays_written", "stay", wrong, "stays of a job one after the other")
            early = stays["end_time"] < stays["start_time"]
            self._check_rows("stays_written", "end_time", early, "no time before start_time")
            self._check_rows("stays_written", "num_gpus", stays["num_gpus"] < 1, "1 GPU or more")
            self.check_words("ended", ENDED)
            if not name.filter(number == 0).equals(jobs["job_id"]):
                lacking = ~jobs["job_id"].is_in(name.implode())
                self._check_rows("jobs", "job_id", lacking, "stays of each job in stays.parquet")
            known = stays.select("job_id", "stay")
        if rows is not None and not _begins(rows).equals(known):
            there = known.with_columns(there=pl.lit(value=True))
            joined = rows.select("job_id", "stay").join(
                there, on=["job_id", "stay"], how="left", maintain_order="left"
            )
            self._check_rows("allocations", "stay", joined["there"].is_null(), "a stay that the result knows")

    def check_words(self, column: str, words: Collection[str]) -> None:
        """How stays begin, or end."""
        if self.outcome.stays_written is not None:
            wrong = ~self.outcome.stays_written[column].is_in(words)
            self._check_rows("stays_written", column, wrong, f"one of {', '.join(words)}")

    def check_order(self, job_ids: pl.Series) -> None:
        """Stays are of jobs of the job table, in its order, on servers; the last of some job was its end."""
        name = "jobs" if self.outcome.stays_written is None else "stays_written"
        stays, rows = self._frame(name), self.outcome.allocations
        at = places(stays["job_id"], job_ids)
        self._check_rows(name, "job_id", at.is_null(), "a job of the job table")
        self._check_rows(name, "job_id", at < at.shift(fill_value=0), "jobs in the job table's order")
        if name == "jobs":
            return
        by = stays["by_job"].drop_nulls()
        strays = by.filter(places(by, job_ids).is_null())
        self._check_rows(name, "by_job", stays["by_job"].is_in(strays.implode()), "a job of the job table")
        if not stays["ended"].is_in(("done", "limit")).any():
            raise self.refusal(TABLES[name].file, "a job that came to its end; there is none", column="ended")
        if rows is not None and not _begins(rows).equals(stays.select("job_id", "stay")):
            held = stays.select("job_id", "stay").join(
                rows.select("job_id", "stay", pl.lit(value=True).alias("there")).unique(["job_id", "stay"]),
                on=["job_id", "stay"],
                how="left",
                maintain_order="left",
            )
            lacking = held["there"].is_null()
            self._check_rows(name, "stay", lacking, f"a stay with rows in {TABLES['allocations'].file}")

    def check_beside(self, job_ids: pl.Series) -> None:
        """Replicas are of services that there are, rungs of jobs that there are."""
        replicas, rungs = self.outcome.replicas, self.outcome.rungs
        if replicas is not None:
            services = self.outcome.services
            known = [] if services is None else services["service"].unique().to_list()
            self._check_rows("replicas", "service", ~replicas["service"].is_in(known), "a service")
            self._check_rows("replicas", "num_gpus", replicas["num_gpus"] < 1, "1 GPU or more")
            none = replicas["end_time"] <= replicas["start_time"]
            self._check_rows("replicas", "end_time", none, "a time after start_time")
        if rungs is not None:
            at = places(rungs["job_id"], job_ids)
            self._check_rows("rungs", "job_id", at.is_null(), "a job of the job table")

    def _frame(self, name: str) -> pl.DataFrame:
        frame: pl.DataFrame = getattr(self.outcome, name)
        return frame

    def check_type(self, name: str, cells: pl.Series, wanted: pl.DataType) -> None:
        """Whether a column has numbers, texts or truth values; a count is no fraction."""
        if wanted.is_numeric():
            fits, expected = cells.dtype.is_integer(), "numbers"
            fits |= wanted.is_float() and cells.dtype.is_float()
        else:
            fits, expected = cells.dtype == wanted, "texts" if wanted == pl.String else "true or false"
        if not fits:
            raise self.refusal(TABLES[name].file, expected, column=cells.name, value=str(cells.dtype))

    def _check_rows(self, name: str, column: str, wrong: pl.Series, expected: str) -> None:
        """Names the first row of a table that is wrong, and whose it is."""
        if not wrong.any():
            return
        frame, row = self._frame(name), wrong.arg_max()
        assert row is not None
        job = frame["job_id"][row] if "job_id" in frame.columns and column != "job_id" else None
        whose = "" if job is None else f", in this row of job {show_value(job)}"
        told, value = f"{expected}{whose}", frame[column][row]
        raise self.refusal(TABLES[name].file, told, row=row + 1, column=column, value=value)


def _begins(rows: pl.DataFrame) -> pl.DataFrame:
    """The stays of rows of allocations that follow each other."""
    job, stay = rows["job_id"], rows["stay"]
    return rows.select("job_id", "stay").filter(job.ne_missing(job.shift()) | stay.ne_missing(stay.shift()))


def places(names: pl.Series, among: pl.Series) -> pl.Series:
    """Where each name stands among others; null where it does not.

    Names that follow each other are looked up once, and none if all others come in their order.
    """
    begins = names.ne_missing(names.shift()) | (pl.int_range(names.len(), eager=True) == 0)
    heads, number = names.filter(begins), begins.cast(pl.Int64).cum_sum() - 1
    if heads.equals(among):
        return number
    known = pl.DataFrame({"job_id": among, "at": pl.int_range(among.len(), eager=True)})
    told = pl.DataFrame({"job_id": heads})
    return told.join(known, on="job_id", how="left", maintain_order="left")["at"].gather(number)
