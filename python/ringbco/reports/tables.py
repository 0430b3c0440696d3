"""A page's tables: the headline figures, what was run, GPU types, priorities, the longest waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from ringbco.reports.cells import Cell, Table, named, names, words
from ringbco.reports.data_jobs import CAUSES, longest
from ringbco.reports.facts import Fact, Line
from ringbco.result.dates import zero_of
from ringbco.result.figures import rows_of
from ringbco.result.metrics import STATISTICS
from ringbco.result.outcome import Outcome
from ringbco.result.window import measured
from ringbco.units import instant, number, shared

_MOST_MEASURES: Final = 4
_JOB: Final = 300
"""The room for a job's name, pixels."""
_TIMES: Final = frozenset(("waited", "held_time", "run_time", *CAUSES))
_OF_TYPES: Final = [row for row in rows_of("type") if row.key != "servers"]
_MOST_PRIORITIES: Final = 12
_TITLES: Final = {
    "job_id": "job",
    "num_gpus": "GPUs",
    "submit_time": "submitted at",
    "waited": "waited",
    "held_time": "held GPUs",
    "run_time": "ran",
    **{cause: f"of which: {text}" for cause, (text, _) in CAUSES.items()},
}


def headlines(groups: Sequence[Sequence[Line]], labels: Collection[str]) -> list[Table]:
    """A table for each kind of statistics, and for some single figures each, with one row per result.

    Of one result two: one column per kind of statistics, and one row per single figure. A column has
    one unit, which its title tells.
    """
    if len(labels) == 1:
        return _of_one(groups)
    names = named(labels)
    made: list[Table] = []
    for group in groups:
        parts = [group[n : n + _MOST_MEASURES] for n in range(0, len(group), _MOST_MEASURES)]
        for place, lines in enumerate(parts, start=1):
            alike = _shared(lines)
            of = f", {place} of {len(parts)}" if len(parts) > 1 else ""
            columns = [line.headed(line.title.partition(" ")[0] if alike else line.title) for line in lines]
            rows = [[name, *(line.cells[n] for line in lines)] for n, name in enumerate(names.values())]
            made.append(Table((alike or "Other figures") + of, ["", *columns], rows))
    return made


def _shared(lines: Sequence[Line]) -> str:
    """What "mean waiting time", "p99 waiting time" have in common, told once; nothing of single figures."""
    statistic, _, of = lines[0].title.partition(" ")
    alike = statistic in STATISTICS and all(line.title.partition(" ")[2] == of for line in lines)
    return of.capitalize() if alike else ""


def _of_one(groups: Sequence[Sequence[Line]]) -> list[Table]:
    columns: list[str] = []
    spreads: list[dict[str, Cell]] = []
    others: list[list[Cell]] = []
    for lines in groups:
        if alike := _shared(lines):
            columns.append(lines[0].headed(alike.lower()))
            spreads.append({line.title.partition(" ")[0]: line.cells[0] for line in lines})
        else:
            others += [[*words(line.title), line.alone()] for line in lines]
    rows = [
        [*words(name), *(cells.get(name, Cell("")) for cells in spreads)]
        for name in STATISTICS
        if any(name in cells for cells in spreads)
    ]
    return [
        Table("Times and slowdown", ["", *columns], rows),
        Table("Other figures", ["figure", "value"], others),
    ]


def settings(facts: Sequence[Fact], labels: Collection[str]) -> list[Table]:
    """What was run: what all results share, and one row per result of what differs."""
    alike = [words(fact.title, fact.values[0]) for fact in facts if fact.alike]
    made = [Table("Common settings", ["setting", "value"], alike)]
    own = [fact for fact in facts if not fact.alike]
    if own:
        rows = [
            [name, *words(*(fact.values[number] for fact in own))]
            for number, name in enumerate(named(labels).values())
        ]
        made.append(Table("Settings that differ", ["", *(fact.title for fact in own)], rows))
    return made


def types(results: Mapping[str, Outcome]) -> Table | None:
    """What each result used of each GPU type; None where there is one, of which no more is known."""
    names = named(results)
    rows = [
        (names[label], row)
        for label, outcome in results.items()
        for row in outcome.summary.get("gpu_types", ())
    ]
    more = any(figure.sometimes and figure.key in row for figure in _OF_TYPES for _, row in rows)
    if not more and len({row["gpu_type"] for _, row in rows}) < 2:
        return None
    told = [figure for figure in _OF_TYPES if any(figure.key in row for _, row in rows)]
    cells = [
        [
            name,
            *(Cell(one.show(row.get(one.key, ""), whole=True), words=one.unit is None) for one in told),
        ]
        for name, row in rows
    ]
    return Table("Use by GPU type", ["result", *(figure.title for figure in told)], cells)


def by_priority(results: Mapping[str, Outcome]) -> Table | None:
    """How jobs of each priority fared, the highest first; None where no result knows evictions.

    Of more than 12 priorities, the lowest are one row.
    """
    if not any("evictions" in outcome.jobs.columns for outcome in results.values()):
        return None
    names = named(results)
    found = [(names[label], row) for label, outcome in results.items() for row in _of_priorities(outcome)]
    jct, wait = (shared("time", (row[name] for _, row in found)) for name in ("jct", "wait"))
    rows = [
        [
            name,
            row["name"],
            Cell(f"{row['jobs']:,}"),
            Cell(jct[1](row["jct"])),
            Cell(wait[1](row["wait"])),
            Cell("" if row["evictions"] is None else f"{row['evictions']:,}"),
            Cell(number(row["hours"])),
        ]
        for name, row in found
    ]
    titles = (
        "priority",
        "jobs",
        f"mean completion time,\N{NO-BREAK SPACE}{jct[0]}",
        f"mean wait,\N{NO-BREAK SPACE}{wait[0]}",
    )
    return Table("Jobs by priority", ["result", *titles, "evictions", "GPU-hours held"], rows)


def _of_priorities(outcome: Outcome) -> Iterator[dict[str, Any]]:
    jobs = measured(outcome)
    level = pl.col("priority") if "priority" in jobs.columns else pl.lit(None, pl.Int32)
    held = pl.col("held_time" if "held_time" in jobs.columns else "run_time")
    known = jobs.with_columns(level=level)
    levels = known["level"].unique().sort(descending=True)
    kept = levels if levels.len() <= _MOST_PRIORITIES else levels.head(_MOST_PRIORITIES - 1)
    # Those that are kept by themselves, then the others together.
    of = pl.col("level").replace_strict(kept, pl.int_range(kept.len(), eager=True), default=kept.len())
    groups = known.group_by(of.alias("group")).agg(
        jobs=pl.len(),
        jct=pl.col("jct").mean(),
        wait=pl.col("waited").mean(),
        evictions=pl.col("evictions").sum() if "evictions" in jobs.columns else pl.lit(None),
        hours=(pl.col("num_gpus") * held).sum() / 3600,
    )
    for row in groups.sort("group").iter_rows(named=True):
        name = "all lower" if row["group"] == kept.len() else kept[row["group"]]
        yield {**row, "name": Cell("all" if name is None else str(name), words=isinstance(name, str | None))}


def longest_waits(results: Mapping[str, Outcome]) -> list[Table]:
    """The jobs that waited longest, a table a result; no rows where none waited."""
    return [_waits(label, outcome, len(results) > 1) for label, outcome in results.items()]


def _waits(label: str, outcome: Outcome, several: bool) -> Table:
    jobs, zero = longest(outcome), zero_of(outcome)
    called = names(jobs["job_id"].to_list(), _JOB)
    # The causes are parts of the wait: they have its unit.
    held = "held_time" if "held_time" in jobs.columns else "run_time"
    waited, ran = (shared("time", jobs[name].to_list()) for name in ("waited", held))
    units = {name: ran if name == held else waited for name in jobs.columns if name in _TIMES}
    rows = [
        [
            Cell(instant(value, zero))
            if name == "submit_time"
            else Cell(units[name][1](value))
            if name in units
            else called[value]
            if name == "job_id"
            else _text(value)
            for name, value in row.items()
        ]
        for row in jobs.iter_rows(named=True)
    ]
    titles = [
        _TITLES.get(name, name) + (f",\N{NO-BREAK SPACE}{units[name][0]}" if name in units else "")
        for name in jobs.columns
    ]
    return Table(label if several else "Jobs that waited longest", titles, rows)


def _text(value: Any) -> Cell:
    if isinstance(value, float):
        return Cell(number(value))
    return Cell(f"{value:,}") if isinstance(value, int) else Cell(str(value or ""), words=True)
