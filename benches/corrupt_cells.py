"""One cell of one table, or one figure, of a genuine result changed: for benches/audit_catalogue.py."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any, Final

import polars as pl

import ringbco
from cases.case import Case
from corrupt import Corrupt, coarse, resolution, unlike_at_all
from ringbco.errors import RingbcoError
from ringbco.result.folder import WALL_TIME
from ringbco.run.registry import PRESETS

TABLES: Final = {
    "jobs": "jobs",
    "allocations": "allocations",
    "stays": "stays_written",
    "timeline": "timeline",
    "replicas": "replicas",
    "rungs": "rungs",
    "searches": "searches",
    "servers": "servers",
}
"""What a run recorded, and where an outcome has it. decisions.parquet is no part of what is audited."""
GIVEN: Final = {"outages": "outages", "quota": "quota", "services": "services", "speeds": "tables"}
"""What a run was given, and the option by which: a change counts if it would have made another run."""
SUMMARY: Final = "summary"
BY_CAUSE: Final = "lost_gpu_hours_by_cause"
INSTANTS: Final = (
    *("submit_time", "start_time", "finish_time", "end_time", "deadline", "time", "went_on"),
    *("down_at", "up_at", "serves_from", "drains_from"),
)
"""Columns of times that count from the job table's zero."""
RATIOS: Final = (
    *("slowdown", "loss", "best_loss", "rate", "partner_rate", "work", "lost", "mean_contention"),
    *("gpu_share", "share"),
)
"""Columns of numbers that are no seconds."""
OPTIONAL: Final = (
    *("by_job", "by_service", "by_server", "went_on", "drains_from", "best_job_id"),
    *("user", "vc", "deadline", "group", "up_at", "cause", "by"),
)
"""Columns in which a cell may be empty."""
WORDS: Final = {
    "began": ("first", "resumed", "restarted", "moved", "resized"),
    "ended": (
        "done",
        "preempted",
        "moved",
        "resized",
        "evicted",
        "failed",
        "rung",
        "dropped",
        "surplus",
        "end",
    ),
    "what": ("down", "up", "slept", "woke"),
}
WAITS: Final = ("wait_behind", "wait_gpus", "wait_fragmented")
RUNS: Final = ("run_spread", "run_contention", "run_resized", "run_on_type")
TRIES: Final = 30

Change = Callable[[Random, "Genuine", str], "Corrupt | None"]


@dataclass(frozen=True)
class Genuine:
    """A result as the engine gives it, and what it is a result of."""

    case: Case
    outcome: ringbco.Outcome

    def table(self, name: str) -> pl.DataFrame | None:
        result: pl.DataFrame | None = getattr(self.outcome, TABLES.get(name, name))
        return result

    @property
    def step(self) -> float:
        """Seconds by which a time is changed: a slot, or about a short job's length."""
        options = self.case.options
        return float(options["slot"]) if options.get("clock") == "slot" else max(1.0, self.case.unit)


def cells(genuine: Genuine, rng: Random, count: int) -> Iterator[Corrupt]:
    """Changes of `count` different places at most, each of a table and then of a column drawn at random."""
    places = {name: result for name in (*TABLES, *GIVEN, SUMMARY) if (result := _places(genuine, name))}
    for _ in range(TRIES * count):
        if not count or not places:
            return
        name = rng.choice(list(places))
        place, change = places[name].pop(rng.randrange(len(places[name])))
        if not places[name]:
            del places[name]
        changed = change(rng, genuine, name)
        if changed is not None:
            assert changed.what.startswith(f"{name}."), (changed.what, place)
            count -= 1
            yield changed


def names(genuine: Genuine) -> Iterator[str]:
    """All columns and figures that a result has, as misses are told."""
    for name in (*TABLES, *GIVEN):
        frame = genuine.table(name)
        if frame is not None and frame.height:
            yield from (f"{name}.{column}" for column in frame.columns)
    yield from dict.fromkeys(map(_of_figure, figures(genuine.outcome.summary)))


def _of_figure(path: str) -> str:
    # Causes are a user's words.
    return f"{SUMMARY}.{BY_CAUSE if path.startswith(BY_CAUSE) else path}"


def _places(genuine: Genuine, name: str) -> list[tuple[str, Change]]:
    """What of a table may be changed."""
    if name == SUMMARY:
        return [(path, _figure(path)) for path in figures(genuine.outcome.summary)]
    frame = genuine.table(name)
    if frame is None or not frame.height:
        return []
    result: list[tuple[str, Change]] = [(column, _cell(column)) for column in frame.columns]
    result.append(("(row)", _dropped))
    if name == "rungs":
        result.append(("(last row)", _last_rung))
    if name == "allocations" and "gpu" not in frame.columns:
        result.append(("(split)", _split))
    if name == "jobs":
        for group in (WAITS, RUNS):
            pairs = [(a, b) for a in group for b in group if a < b and {a, b} <= {*frame.columns}]
            result += [(f"{a}<>{b}", _swapped(a, b)) for a, b in pairs]
    return result


# Cells of tables.


def _cell(column: str) -> Change:
    def change(rng: Random, genuine: Genuine, name: str) -> Corrupt | None:
        frame = genuine.table(name)
        assert frame is not None
        for _ in range(8):
            row = rng.randrange(frame.height)
            old = frame[column][row]
            result = [new for new in _others(rng, genuine, frame[column], old) if new != old]
            if result:
                new = rng.choice(result)
                changed = with_cell(frame, row, column, new)
                if not changed.equals(frame):
                    how = f"{name}.{column}, row {row} ({frame.row(row)[0]}): {old!r} -> {new!r}"
                    return _changed_result(genuine, name, changed, f"{name}.{column}", how)
        return None

    return change


def _others(rng: Random, genuine: Genuine, column: pl.Series, old: Any) -> list[Any]:
    """What else might stand in a cell."""
    name = column.name
    if old is not None and name in OPTIONAL and rng.random() < 0.2:
        return [None]
    if name in ("server", "by_server"):
        servers = len(genuine.case.servers)
        return [server for server in range(max(servers, 2)) if server != old]
    if column.dtype == pl.String:
        return _words(genuine, column, name)
    if column.dtype == pl.Boolean:
        return [not old]
    if column.dtype.is_float():
        return _numbers(genuine, name, 0.0 if old is None else old)
    return [1 if old is None else old + 1]


def _words(genuine: Genuine, column: pl.Series, name: str) -> list[Any]:
    if name in WORDS:
        return list(WORDS[name])
    there = column.drop_nulls().unique().sort().to_list()
    if name in ("job_id", "by_job", "best_job_id"):
        return [job["job_id"] for job in genuine.case.jobs]
    if name == "gpu_type":
        return list(genuine.case.gpu_types)
    if name in ("service", "by_service"):
        return [*{row["service"]: None for row in genuine.case.files.get("services", ())}, "other"]
    return [*there, "other"]


def _numbers(genuine: Genuine, name: str, old: float) -> list[float]:
    """Numbers that are more than rounding away."""
    near = max(1e-2 * genuine.case.unit, 16.0 * resolution(genuine.case, genuine.outcome))
    if not math.isfinite(old):
        return [genuine.step]
    if name in RATIOS:
        return [old + 1.0, *([old * 1.01] if abs(old) > 1e-6 else [])] if abs(old) < 1e6 else [old * 1.01]
    result = [new for new in (old + genuine.step, old * 1.01) if abs(new - old) > near]
    return result if name in INSTANTS else [new for new in result if abs(new - old) > 1e-4 * abs(old)]


def with_cell(frame: pl.DataFrame, row: int, column: str, value: Any) -> pl.DataFrame:
    values = frame[column].to_list()
    values[row] = value
    return frame.with_columns(pl.Series(column, values, dtype=frame.schema[column]))


def _changed_result(genuine: Genuine, name: str, frame: pl.DataFrame, what: str, how: str) -> Corrupt | None:
    """The result with another table; of what the run was given, if that would have made another run."""
    if name in GIVEN:
        try:
            other = genuine.case.replay(**{GIVEN[name]: frame})
        except RingbcoError:
            return None
        if not unlike_at_all(genuine.case, genuine.outcome, other):
            return None
    changes: dict[str, Any] = {TABLES.get(name, name): frame}
    return Corrupt(what, how, replace(genuine.outcome, **changes))


# Rows, and several cells at once.


def _without(genuine: Genuine, name: str, row: int, what: str) -> Corrupt | None:
    frame = genuine.table(name)
    assert frame is not None
    kept = frame.with_row_index("_at").filter(pl.col("_at") != row).drop("_at")
    return _changed_result(genuine, name, kept, what, f"{name}, row {row} dropped: {frame.row(row)}")


def _dropped(rng: Random, genuine: Genuine, name: str) -> Corrupt | None:
    frame = genuine.table(name)
    assert frame is not None
    if name in GIVEN and frame.height < 2:
        return None
    return _without(genuine, name, rng.randrange(frame.height), f"{name}.(a row dropped)")


def _last_rung(rng: Random, genuine: Genuine, name: str) -> Corrupt | None:
    """The last row of a trial that ended at its rung, which nothing else of it tells."""
    frame = genuine.table(name)
    assert frame is not None
    last = frame.with_row_index("_at").filter(pl.col("went_on").is_null())["_at"].to_list()
    return (
        _without(genuine, name, rng.choice(last), f"{name}.(last row of a trial dropped)") if last else None
    )


def _split(rng: Random, genuine: Genuine, name: str) -> Corrupt | None:
    """A gang over two servers has one GPU less on one and one more on the other."""
    frame = genuine.table(name)
    assert frame is not None
    rows = frame.with_row_index("_at").group_by("job_id", "stay", maintain_order=True).agg("_at", "num_gpus")
    gangs = [(at, gpus) for _, _, at, gpus in rows.iter_rows() if len(at) > 1 and max(gpus) > 1]
    if not gangs:
        return None
    at, gpus = rng.choice(gangs)
    fewer = rng.choice([row for row, held in zip(at, gpus, strict=True) if held > 1])
    more = rng.choice([row for row in at if row != fewer])
    changed = with_cell(frame, fewer, "num_gpus", frame["num_gpus"][fewer] - 1)
    changed = with_cell(changed, more, "num_gpus", frame["num_gpus"][more] + 1)
    how = f"{name}: {frame.row(fewer)} has a GPU less, {frame.row(more)} one more"
    return Corrupt(f"{name}.(a gang split otherwise)", how, replace(genuine.outcome, allocations=changed))


def _swapped(one: str, other: str) -> Change:
    """Two causes change places, in the job's row and in its stays."""

    def change(rng: Random, genuine: Genuine, name: str) -> Corrupt | None:
        jobs = genuine.outcome.jobs
        near = max(1e-2 * genuine.case.unit, 16.0 * resolution(genuine.case, genuine.outcome))
        apart = (jobs[one].cast(pl.Float64) - jobs[other].cast(pl.Float64)).abs()
        rows = (apart > near + 1e-4 * jobs["jct"]).arg_true().to_list()
        if not rows:
            return None
        row = rng.choice(rows)
        values = {one: jobs[other][row], other: jobs[one][row]}
        changed = with_cell(with_cell(jobs, row, one, values[one]), row, other, values[other])
        stays = genuine.outcome.stays_written
        if stays is not None and one in stays.columns:
            mine = pl.col("job_id") == jobs["job_id"][row]
            swap = {a: pl.when(mine).then(b).otherwise(a) for a, b in ((one, other), (other, one))}
            stays = stays.with_columns(**swap)
        what = f"jobs.({one} for {other})"
        how = f"{jobs['job_id'][row]}: {one} {values[other]!r} and {other} {values[one]!r} change places"
        return Corrupt(what, how, replace(genuine.outcome, jobs=changed, stays_written=stays))

    return change


# Figures.


def figures(summary: dict[str, Any]) -> list[str]:
    """Names of all figures: of rows of a list, one for each key."""
    result: dict[str, None] = {}
    for name, value in summary.items():
        if name in WALL_TIME:  # which no run has twice
            continue
        if isinstance(value, dict):
            result |= dict.fromkeys(f"{name}.{key}" for key in value)
        elif isinstance(value, list):
            result |= dict.fromkeys(
                f"{name}[].{key}" for row in value for key in row if not _nested(row[key])
            )
            inner = {key: row[key] for row in value for key in row if isinstance(row[key], list)}
            result |= dict.fromkeys(
                f"{name}[].{key}[].{k}" for key, rows in inner.items() for r in rows for k in r
            )
        else:
            result[name] = None
    return list(result)


def _nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _figure(path: str) -> Change:
    def change(rng: Random, genuine: Genuine, name: str) -> Corrupt | None:
        summary = copy.deepcopy(genuine.outcome.summary)
        at, where = summary, ""
        parts = path.split(".")
        for part, inner in pairwise(parts):
            at = at[part.removesuffix("[]")]
            if part.endswith("[]"):
                at = rng.choice([row for row in at if inner.removesuffix("[]") in row])
                where += f" of {next(iter(at.values()))}"
        key = parts[-1]
        old = at[key]
        result = _other_figures(genuine, key, old)
        if not result:
            return None
        at[key] = rng.choice(result)
        how = f"{path}{where}: {old!r} -> {at[key]!r}"
        return Corrupt(_of_figure(path), how, replace(genuine.outcome, summary=summary))

    return change


def _other_figures(genuine: Genuine, name: str, old: Any) -> list[Any]:
    if isinstance(old, str):
        pool = [*PRESETS] if name == "policy" else ["other", "1", "2-4", "5-8"]
        return [word for word in pool if word != old]
    if old is None or isinstance(old, int):
        return [1 if old is None else old + 1]
    result = [old + 1.0] if abs(old) < 1e6 else []
    # Where times are coarse, so are figures of them.
    if abs(old) > max(1e-6, 1600.0 * coarse(genuine.outcome) / genuine.case.unit):
        result.append(old * 1.01)
    return [new for new in result if new != old and math.isfinite(new)]
