"""What the judge makes of a result, held against it: every column and every figure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

import ringbco
from ringbco.audits.facts import decides_itself
from ringbco.audits.given import book_of, given_of
from ringbco.judge import Given, Judgement, judge
from ringbco.trace.jobs import JobTable

TABLES = ("jobs", "stays", "allocations", "timeline", "servers", "replicas", "rungs", "searches")
UNJUDGED = ("engine_seconds", "total_seconds", "jobs_per_second", "decisions")
"""Figures of wall time, and of what a policy tried."""
FATES = ("jobs_refused", "jobs_ended")
"""What a policy of one's own alone knows."""
RELATIVE = 1e-9
SINGLE = 1e-5
"""The same of float32, of what it explains."""
WAITS = ("wait_behind", "wait_gpus", "wait_fragmented")
ROUNDED = 2e-6
"""Less than a millionth of a wait is no part of it."""


def judged(outcome: ringbco.Outcome, table: JobTable) -> tuple[Given, Judgement]:
    """What the judge is handed, and what it says."""
    given = given_of(outcome, table)
    return given, judge(given, book_of(outcome, given.jobs))


def differences(outcome: ringbco.Outcome, table: JobTable) -> Iterator[tuple[str, str]]:
    """(column or figure, how) in which a result and the judge differ."""
    given, found = judged(outcome, table)
    yield from _off(outcome, given, found)
    coarse = _coarse(outcome, given)
    for name in TABLES:
        frame, mine = getattr(outcome, name), found.tables.get(name)
        if (frame is None) != (mine is None):
            yield name, "is there only once"
        elif frame is not None and mine is not None:
            yield from ((f"{name} {column}", how) for column, how in _columns(outcome, name, mine, coarse))
    planned = given.options["command"] == "plan"
    told = {
        name: value
        for name, value in outcome.summary.items()
        if name not in UNJUDGED and (not planned or name in found.summary)
    }
    yield from _figures("", found.summary, told, coarse, decides=given.decides)


def _coarse(outcome: ringbco.Outcome, given: Given) -> float:
    """How far sums may be off, as times far from zero are only so fine."""
    stays = outcome.stays
    last = float(stays["end_time"].max() or 0.0)  # type: ignore[arg-type]
    return 64.0 * abs(last) * 2.0**-52 * (1 + stays.height) * sum(given.cluster.gpus)


def _off(outcome: ringbco.Outcome, given: Given, found: Judgement) -> Iterator[tuple[str, str]]:
    """Jobs whose work was not done at their finish: beyond what float64 tells of an instant."""
    instant = 64.0 * float(outcome.stays["end_time"].max() or 0.0) * 2.0**-52  # type: ignore[arg-type]
    whole = given.jobs.duration if given.model == "fixed" else given.jobs.iterations
    for job, off in found.off.items():
        if abs(off) > (RELATIVE + instant / given.jobs.ideal[job]) * whole[job]:
            yield "work", f"{given.jobs.id[job]}: off by {off!r} of {whole[job]!r}"


def _columns(
    outcome: ringbco.Outcome, name: str, mine: Mapping[str, Sequence[Any]], coarse: float
) -> Iterator[tuple[str, str]]:
    frame: pl.DataFrame = getattr(outcome, name)
    if set(mine) != set(frame.columns):
        yield "columns", f"only once: {sorted(set(mine) ^ set(frame.columns))}"
    left_out = dict(_not_compared(outcome, name))
    for column in sorted(set(mine) & set(frame.columns)):
        told, dtype = frame[column].to_list(), frame[column].dtype
        if len(told) != len(mine[column]):
            yield column, f"{len(told)} rows; the judge has {len(mine[column])}"
            continue
        relative, slack = (0.0, 0.0) if dtype.is_integer() else (RELATIVE, coarse)
        for row, (value, right) in enumerate(zip(told, mine[column], strict=True)):
            if row in left_out.get(column, ()):
                continue
            near = slack
            if dtype == pl.Float32:
                relative, near = SINGLE, slack + 1e-6 * frame["jct"][row]
            elif column in WAITS and outcome.stays_written is None:  # out of jobs.parquet
                relative, near = SINGLE, slack + 1e-6 * outcome.jobs["jct"][row]
            elif column in WAITS:
                near = slack + ROUNDED * sum(frame[wait][row] for wait in WAITS)
            if not _near(value, right, relative, near):
                yield column, f"row {row}: {value!r}; the judge says {right!r}"
                break


def _not_compared(outcome: ringbco.Outcome, name: str) -> Iterator[tuple[str, set[int]]]:
    """Rows of columns of which the book does not say enough."""
    stays = outcome.stays
    if name in ("jobs", "stays") and _least_busy(outcome):
        # What is started and undone at one instant counts as accumulated time, and is in no book.
        rows = set(range(getattr(outcome, name).height))
        yield from ((column, rows) for column in ("wait_behind", "wait_fragmented"))
    if name == "jobs":
        # Whether others were there as a job too short for float64 ran the book does not say: some may come
        # after it at its instant, some may have been stopped for it and have gone on.
        wide = stays.filter(pl.col("num_servers") > 1)
        short = pl.col("start_time") == pl.col("end_time")
        unsure = short if outcome.stays_written is not None else short & pl.col("start_time").is_duplicated()
        found = wide.height > 0 and wide.select(unsure.any()).item()
        yield "max_contention", set(range(outcome.jobs.height)) if found else set()
    if name == "stays" and outcome.stays["work"].null_count():
        yield "work", set(range(outcome.stays.height))  # of a plan, or read from a folder
    if name == "servers" and outcome.servers is not None and outcome.allocations is not None:
        # Of several jobs that wake a server at one instant, the book does not say who was first.
        counts = outcome.allocations.group_by(server="server", time="start_time").len()
        several = outcome.servers.join(counts, on=["server", "time"], how="left", maintain_order="left")
        yield "by", set(((several["what"] == "woke") & (several["len"] > 1)).arg_true().to_list())


def _least_busy(outcome: ringbco.Outcome) -> bool:
    """Whether who is busy says where gangs may go, and starts may be undone: by verbs, or by who evicts."""
    options = outcome.run["options"]
    literal = options["variant"] == "literal" and options["placement"] in ("lbsgf", "sjf-bco")
    evicts = options.get("evict") or outcome.services is not None or outcome.quota is not None
    return literal and bool(decides_itself(options) or evicts)


def _figures(
    where: str, mine: Mapping[str, Any], told: Mapping[str, Any], coarse: float, *, decides: bool
) -> Iterator[tuple[str, str]]:
    for key in sorted({*mine, *told}):
        value, right = told.get(key), mine.get(key)
        if (key in mine) != (key in told):
            if not (decides and key in FATES):
                yield f"{where}{key}", f"is there only once: {value!r}, {right!r}"
        elif isinstance(right, list):
            if len(right) != len(value or ()):
                yield f"{where}{key}", f"{len(value or ())} rows; the judge has {len(right)}"
            for own, other in zip(right, value or (), strict=False):
                yield from _figures(f"{where}{key} ", own, other, coarse, decides=decides)
        elif isinstance(right, dict):
            yield from _figures(f"{where}{key} ", right, value or {}, coarse, decides=decides)
        elif not _near(value, right, RELATIVE, 0.0 if isinstance(value, int) else coarse):
            yield f"{where}{key}", f"{value!r}; the judge says {right!r}"


def _near(value: Any, right: Any, relative: float, near: float) -> bool:
    if not isinstance(value, float) or not isinstance(right, int | float):
        return bool(value == right)
    if math.isnan(value) or math.isnan(right):
        return math.isnan(value) and math.isnan(right)
    return abs(value - right) <= relative * max(abs(value), abs(right)) + near
