"""The difference of a result's tables from those that follow from its stay log: which rows, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.audits.findings import Finding, number
from ringbco.audits.inputs import rows_of
from ringbco.errors import show_value

if TYPE_CHECKING:
    from ringbco.audits.findings import Check
    from ringbco.checker import Recomputed, RunInputs
    from ringbco.checker.inputs import Column, Table
    from ringbco.result.outcome import Outcome

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RELATIVE: Final = 1e-9
"""How far sums may be from what they should be: they depend on the order of adding up."""
SINGLE: Final = 1e-5
"""The same of float32."""
WAITS: Final = ("wait_behind", "wait_gpus", "wait_fragmented")
RUNS: Final = ("run_spread", "run_contention", "run_contention_uplinks", "run_resized", "run_on_type")
TABLES: Final = {
    "jobs": "jobs",
    "stays": "stays_written",
    **{name: name for name in ("allocations", "timeline", "servers", "replicas", "rungs", "searches")},
    "links": "links",
    "latency": "latency",
}
"""By the checker's names: where an outcome has the tables that follow from a stay log."""
CODES: Final = {
    "jobs": "inputs",
    "stays": "stays",
    "allocations": "stretches",
    "timeline": "timeline",
    "servers": "servers",
    "links": "links",
    "latency": "latency",
    "replicas": "services",
    "rungs": "searches",
    "searches": "searches",
    **{f"jobs.{name}": "arithmetic" for name in ("wait_time", "run_time", "jct", "waited", "slowdown")},
    **{f"jobs.{name}": "stretches" for name in ("start_time", "finish_time", "preemptions")},
    **{f"jobs.{name}": "held" for name in ("held_time", "lost_time", "held_gpu_time", "lost_gpu_time")},
    **dict.fromkeys(("jobs.failures", "jobs.lost_work", "stays.lost", "stays.lost_time"), "outages"),
    **dict.fromkeys(("jobs.pauses", "jobs.paused_time", "stays.paused_at_rung"), "searches"),
    **{f"jobs.{name}": "causes" for name in (*WAITS, *RUNS)},
    **{f"stays.{name}": "causes" for name in WAITS},
    "jobs.job_id": "jobs",
    "jobs.num_servers": "num-servers",
    **dict.fromkeys(("jobs.max_contention", "jobs.max_crossing"), "contention"),
    "jobs.moves": "stays",
    "jobs.resizes": "stays",
    "jobs.reached_limit": "stays",
    "jobs.run_cut": "causes",
    "jobs.evictions": "evictions",
    "jobs.gpu_share": "gangs",
    "stays.pause": "held",
    "stays.work": "run-times",
    "allocations.stay": "stays",
    "allocations.seat": "seats",
    **dict.fromkeys(("allocations.num_gpus", "allocations.gpu", "allocations.share"), "gangs"),
}  # fmt: skip
"""Under which check a difference goes: that of the column, else that of its table."""
EXACT: Final = (
    *("submit_time", "start_time", "finish_time", "end_time", "wait_time", "run_time", "jct"),
    *("slowdown", "went_on", "loss", "deadline", "gpu_share", "share"),
)
"""Columns that are one operation away from what the stay log says, or none."""
INSTANTS: Final = ("time", "finish_time", "serves_from", "drains_from")
"""Columns of times that count from the job table's zero, and may be rounded."""
OLDER: Final = (
    *(*WAITS, *RUNS, "held_time", "lost_time", "moves", "resizes", "held_gpu_time", "lost_gpu_time"),
    "watts",
)
"""Columns of jobs.parquet and timeline.parquet without which a result can be read."""
PLACED: Final = {
    "jobs": ("num_servers", "max_contention", "max_crossing", *WAITS, *RUNS, "run_cut"),
    "stays": ("num_servers", "work", "lost", "gpu_type", *WAITS),
    "timeline": ("spanning_jobs", "mean_contention", "watts"),
}
"""Columns that say nothing unless the run recorded allocations."""


def code_of(table: str, column: str) -> str:
    """The check under which a difference in a column goes."""
    return CODES.get(f"{table}.{column}", CODES[table])


@dataclass(frozen=True)
class Difference:
    """A column of a result beside what follows from its stay log.

    compared: how many rows were. rows: which differ. says: what is odd, where all of it is.
    """

    table: str
    column: str
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    compared: int = 1
    says: str = ""
    told: pl.Series | None = None
    right: Column | None = None

    @property
    def code(self) -> str:
        """Under which check it goes."""
        return code_of(self.table, self.column)

    def how(self, row: int) -> str:
        """What a row says and should say."""
        assert self.told is not None, "rows"
        assert self.right is not None, "rows"
        right = self.right[row] if isinstance(self.right, pl.Series) else self.right[row].item()
        where = "" if self.table in ("jobs", "timeline") else f"{self.table}.parquet, row {row + 1}: "
        return f"{where}{self.column} is {_shown(self.told[row])}; expected {_shown(right)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return number(value) if isinstance(value, int | float) else show_value(value)


def blame(check: Check, frame: pl.DataFrame, found: Difference) -> None:
    """Counts what was compared, and a failure for each row that differs, or one for all of them."""
    if found.compared:
        check.looked_at += found.compared
        check.not_run = None
    if found.says:
        check.fail(found.says)
        return
    ids = frame.get_column("job_id", default=None)
    server, time = frame.get_column("server", default=None), frame.get_column("time", default=None)
    check.add(
        (
            Finding(
                check.code,
                found.how(row),
                None if ids is None else str(ids[row]),
                None if server is None or server[row] is None else int(server[row]),
                None if time is None or time[row] is None else float(time[row]),
            )
            for row in found.rows.tolist()
        ),
        found.rows.size,
    )


class Differences:
    """A result beside what follows from its stay log.

    recorded: whether the stays say who held which servers. ulp: how fine its times are. whole, alone: by row
    of the job table, its work and its ideal run time.
    """

    def __init__(
        self, outcome: Outcome, inputs: RunInputs, found: Recomputed, *, recorded: bool = True
    ) -> None:
        self.outcome, self.inputs, self.found, self.recorded = outcome, inputs, found, recorded
        jobs = inputs.jobs
        self._arrays: dict[tuple[str, str], Floats] = {}
        latest = max(np.abs(self._floats("stays", "end_time")).max(), np.abs(jobs.submit).max())
        self.ulp = float(np.spacing(latest + 1e-9))
        self.whole = jobs.duration if inputs.model == "fixed" else jobs.iterations
        self.alone = jobs.ideal

    def _floats(self, table: str, column: str) -> Floats:
        """A column of numbers as it follows from the stay log; NaN for none."""
        key = table, column
        if key not in self._arrays:
            right = self.found.tables[table][column]
            if isinstance(right, pl.Series):
                right = right.cast(pl.Float64).fill_null(np.nan).to_numpy()
            self._arrays[key] = right.astype(np.float64, copy=False)
        return self._arrays[key]

    def frame(self, table: str) -> pl.DataFrame | None:
        """What the result says."""
        found: pl.DataFrame | None = getattr(self.outcome, TABLES[table])
        return found

    def all(self) -> Iterator[Difference]:
        """Every column of every table that was compared."""
        for table in TABLES:
            frame, right = self.frame(table), self.found.tables.get(table)
            if table == "stays" and (frame is None or not self.inputs.several):
                if frame is not None or self.inputs.several:
                    said = "is there only for runs in which a stay may end early"
                    yield Difference(table, "", says=f"stays.parquet {said}")
                continue
            if not self.recorded and (
                table in ("allocations", "links") or (table == "servers" and self._sleeps)
            ):
                continue
            if (frame is None) != (right is None):
                said = "is missing" if frame is None else "is there; expected none"
                yield Difference(table, "", says=f"{table}.parquet {said}")
            elif frame is not None and right is not None:
                yield from self._columns(table, frame, right)

    @property
    def _sleeps(self) -> bool:
        return self.inputs.sleep_after < float("inf")

    @property
    def _least_busy(self) -> bool:
        """Whether who is busy says where gangs may go, and verbs or evictions may undo starts."""
        options = self.inputs.options
        literal = options["variant"] == "literal" and options["placement"] in ("lbsgf", "sjf-bco")
        return literal and (self.inputs.decides or self.inputs.makes_room)

    def _columns(self, table: str, frame: pl.DataFrame, right: Table) -> Iterator[Difference]:
        height = len(next(iter(right.values())))
        if frame.height != height:
            said = f"{table}.parquet has {frame.height} rows; expected {height}"
            yield Difference(table, "", says=said)
            return
        for column in (*right, *(name for name in frame.columns if name not in right)):
            if not self.recorded and column in (*PLACED.get(table, ()), *self._paused(table)):
                continue
            if column not in right or column not in frame.columns:
                if column not in frame.columns and table in ("jobs", "timeline") and column in OLDER:
                    continue
                said = f"has a column {column}; expected none"
                if column not in frame.columns:
                    said = f"has no column {column}"
                yield Difference(table, column, says=f"{table}.parquet {said}")
                continue
            sure, bad = self._compared(table, frame, column, right)
            rows = np.flatnonzero(bad if sure is None else bad & sure)
            compared = bad.size if sure is None else int(np.count_nonzero(sure))
            yield Difference(table, column, rows, compared, told=frame[column], right=right[column])

    def _paused(self, table: str) -> Sequence[str]:
        """Columns that say nothing unless the run recorded which servers woke up."""
        unknown = {
            "jobs": ("lost_time", "lost_gpu_time", "lost_work"),
            "stays": ("pause", "saving", "lost_time"),
        }
        return unknown.get(table, ()) if self._sleeps else ()

    def _compared(
        self, table: str, frame: pl.DataFrame, column: str, right: Table
    ) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_]]:
        """Which rows of a column the stay log tells, None for all of them; and which differ."""
        told, expected = frame[column], right[column]
        if not told.dtype.is_numeric() or (isinstance(expected, pl.Series) and expected.dtype == pl.String):
            # Whatever kind of column it is: numbers told as words are no numbers.
            plain = pl.Series(column, expected).cast(pl.String)
            bad = told.cast(pl.String, strict=False).ne_missing(plain).to_numpy()
        else:
            want = self._floats(table, column)
            if table == "jobs" and column == "slowdown":
                # To the last bit of what the result says itself.
                with np.errstate(divide="ignore", invalid="ignore"):
                    want = self._floats(table, "jct") / frame["ideal_run_time"].to_numpy()
            near: Floats | float = 0.0
            if not told.dtype.is_integer() and column not in EXACT:
                near = self._near(table, column, want, right)
            found = told.cast(pl.Float64).fill_null(np.nan).to_numpy()
            with np.errstate(invalid="ignore"):
                bad = ~((np.abs(found - want) <= near) | (found == want))
            bad &= ~(told.is_null().to_numpy() & np.isnan(want))
        if self._least_busy and column == "wait_behind" and "wait_fragmented" in frame.columns:
            # What is started and stopped at one instant counts as accumulated time, and is in no stay log.
            parts = ("wait_behind", "wait_fragmented")
            both = np.sum([frame[name].cast(pl.Float64).fill_null(np.nan) for name in parts], axis=0)
            bad = ~(np.abs(both - np.sum([self._floats(table, name) for name in parts], axis=0)) <= near)
        unsure = self._unsure(table, frame, column)
        return None if unsure is None else ~unsure, bad

    def _near(self, table: str, column: str, want: Floats, right: Table) -> Floats:
        """How far each row of a column of sums may be off."""
        near: Floats = RELATIVE * np.abs(want) * (column not in INSTANTS)
        if table == "jobs":
            return near + self._near_of_job(column, want, right)
        if table == "stays" and column in ("work", "lost"):
            row = rows_of(pl.Series(right["job_id"]), self.inputs.jobs.id)
            near = self.whole[row] * (RELATIVE + 64.0 * self.ulp / self.alone[row])
        elif table == "stays" and column in WAITS:
            waited = np.abs(np.sum([self._floats(table, name) for name in WAITS], axis=0))
            # Less than a millionth of a wait is no part of it.
            near = 2e-6 * waited + 256.0 * self.ulp
        elif column == "watts":
            near = np.full(want.size, RELATIVE * float(np.abs(want).max(initial=0.0)))
        elif column == "gpu_hours":
            gpus = int(self.inputs.cluster.gpus.sum()) * len(self.found.tables["stays"]["stay"])
            near = near + 8.0 * self.ulp * gpus / 3600.0
        elif column != "mean_contention":
            near = near + 8.0 * self.ulp
        return near

    def _near_of_job(self, column: str, want: Floats, right: Table) -> Floats:
        """What of that is for a job's stays: each begins and ends at times that are only so fine."""
        stays = np.ones(want.size)
        for name in ("preemptions", "evictions", "failures", "pauses"):
            stays += self._floats("jobs", name) if name in right else 0.0
        near: Floats = 8.0 * self.ulp * stays
        if column in (*WAITS, *RUNS, "run_cut"):
            near = SINGLE * np.abs(want) + 1e-6 * self._floats("jobs", "jct") + 8.0 * near
            if column not in WAITS:  # what is left of the whole run, of which most may be cut
                near = near + RELATIVE * np.abs(self._floats("jobs", "ideal_run_time"))
        elif column.endswith("gpu_time"):
            near = near * int(self.inputs.cluster.gpus.sum())
        return near

    def _unsure(self, table: str, frame: pl.DataFrame, column: str) -> NDArray[np.bool_] | None:
        """Rows of a column of which the stay log does not say enough."""
        untold = self.found.untold.get((table, column))
        if untold is not None:
            return untold
        if column == "wait_fragmented" and self._least_busy:
            return np.ones(frame.height, dtype=bool)
        if table == "jobs" and column in ("max_contention", "max_crossing"):
            # Whether others were there as a job too short for float64 ran the stay log does not say: some may
            # come after it at its instant, some may have been stopped for it and have gone on.
            wide = self._floats("stays", "num_servers") > 1
            start, end = (self._floats("stays", name)[wide] for name in ("start_time", "end_time"))
            times, count = np.unique(start, return_counts=True)
            met = start[start == end] if self.inputs.several else times[count > 1]
            if np.isin(met, start[start == end]).any():
                return np.ones(frame.height, dtype=bool)
        if table == "servers" and column == "by" and self.outcome.allocations is not None:
            # Of several jobs that come to a server at one instant, one too short for float64 among them, the
            # stay log does not say who was first and woke it: it was one of them.
            came = self.outcome.allocations.group_by(server="server", time="start_time").agg(who="job_id")
            several = frame.join(came, on=["server", "time"], how="left", maintain_order="left")
            woke = (pl.col("what") == "woke") & (pl.col("who").list.len() > 1)
            one = pl.col("by").cast(pl.String).is_in(pl.col("who"))
            return several.select((woke & one).fill_null(value=False)).to_series().to_numpy()
        return None
