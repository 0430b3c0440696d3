"""A page's tables: the headline figures, what was run, GPU types, priorities, the longest waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from ringbco.reports.cells import Cell, Table, named, words
from ringbco.reports.data_jobs import CAUSES, longest
from ringbco.reports.facts import Fact, Line
from ringbco.result.figures import rows_of
from ringbco.result.metrics import STATISTICS
from ringbco.result.outcome import Outcome
from ringbco.result.window import measured
from ringbco.units import number, time

_MOST_MEASURES: Final = 4
_TIMES: Final = frozenset(("submit_time", "waited", "run_time", *CAUSES))
_OF_TYPES: Final = [row for row in rows_of("type") if row.key != "servers"]
_MOST_PRIORITIES: Final = 12
_TITLES: Final = {
    "job_id": "job",
    "num_gpus": "GPUs",
    "submit_time": "submitted at",
    "waited": "waited",
    "run_time": "ran",
    **{cause: f"of it {text}" for cause, (text, _) in CAUSES.items()},
}


def headlines(groups: Sequence[Sequence[Line]], labels: Sequence[str]) -> list[Table]:
    """A table for each kind of statistics, and for some single figures each, with one row per result.

    Of one result two: one row per kind of statistics, and one row per single figure.
    """
    if len(labels) == 1:
        return _of_one(groups)
    names = named(labels)
    made: list[Table] = []
    for group in groups:
        parts = [group[n : n + _MOST_MEASURES] for n in range(0, len(group), _MOST_MEASURES)]
        for place, lines in enumerate(parts, start=1):
            shared = _shared(lines)
            of = f", {place} of {len(parts)}" if len(parts) > 1 else ""
            columns = [line.title.partition(" ")[0] if shared else line.title for line in lines]
            rows = [[name, *(line.cells[n] for line in lines)] for n, name in enumerate(names.values())]
            made.append(Table((shared or "Other figures") + of, ["", *columns], rows))
    return made


def _shared(lines: Sequence[Line]) -> str:
    """What "mean waiting time", "p99 waiting time" have in common, told once; nothing of single figures."""
    statistic, _, shared = lines[0].title.partition(" ")
    alike = statistic in STATISTICS and all(line.title.partition(" ")[2] == shared for line in lines)
    return shared.capitalize() if alike else ""


def _of_one(groups: Sequence[Sequence[Line]]) -> list[Table]:
    spreads, others = [], []
    for lines in groups:
        shared = _shared(lines)
        if shared:
            known = {line.title.partition(" ")[0]: line.cells[0] for line in lines}
            spreads.append([*words(shared.lower()), *(known.get(name, Cell("")) for name in STATISTICS)])
        else:
            others += [[*words(line.title), line.cells[0]] for line in lines]
    return [
        Table("Times and slowdown", ["", *STATISTICS], spreads),
        Table("Other figures", ["figure", "value"], others),
    ]


def settings(facts: Sequence[Fact], labels: Sequence[str]) -> list[Table]:
    """What was run: what all results share, and one row per result of what differs."""
    alike = [words(fact.title, fact.values[0]) for fact in facts if fact.alike]
    made = [Table("What was run", ["setting", "value"], alike)]
    own = [fact for fact in facts if not fact.alike]
    if own:
        rows = [
            [name, *words(*(fact.values[number] for fact in own))]
            for number, name in enumerate(named(labels).values())
        ]
        made.append(Table("Where the results differ", ["", *(fact.title for fact in own)], rows))
    return made


def types(results: Mapping[str, Outcome]) -> Table | None:
    """What each result used of each GPU type; None where no result tells types apart."""
    names = named(list(results))
    rows = [
        (names[label], row)
        for label, outcome in results.items()
        for row in outcome.summary.get("gpu_types", ())
    ]
    if not rows:
        return None
    told = [figure for figure in _OF_TYPES if any(figure.key in row for _, row in rows)]
    cells = [
        [
            name,
            *(Cell(one.show(row.get(one.key, ""), whole=True), words=one.unit is None) for one in told),
        ]
        for name, row in rows
    ]
    return Table("What was used of each GPU type", ["result", *(figure.title for figure in told)], cells)


def by_priority(results: Mapping[str, Outcome]) -> Table | None:
    """How jobs of each priority fared, the highest first; None where no result knows evictions.

    Of more than 12 priorities, the lowest are one row.
    """
    if not any("evictions" in outcome.jobs.columns for outcome in results.values()):
        return None
    names = named(list(results))
    rows = [[names[label], *cells] for label, outcome in results.items() for cells in _of_priorities(outcome)]
    titles = ("priority", "jobs", "mean completion time", "mean wait", "evictions", "GPU-hours held")
    return Table("Jobs by priority", ["result", *titles], rows)


def _of_priorities(outcome: Outcome) -> Iterator[list[Cell]]:
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
        yield [
            Cell("all" if name is None else str(name), words=isinstance(name, str | None)),
            Cell(f"{row['jobs']:,}"),
            Cell(time(row["jct"])),
            Cell(time(row["wait"])),
            Cell("" if row["evictions"] is None else f"{row['evictions']:,}"),
            Cell(number(row["hours"])),
        ]


def longest_waits(results: Mapping[str, Outcome]) -> list[Table]:
    """The jobs that waited longest, a table a result; no rows where none waited."""
    return [_waits(label, outcome, len(results) > 1) for label, outcome in results.items()]


def _waits(label: str, outcome: Outcome, several: bool) -> Table:
    jobs = longest(outcome)
    rows = [[_text(name, value) for name, value in row.items()] for row in jobs.iter_rows(named=True)]
    title = f"The longest waits: {label}" if several else "The longest waits"
    return Table(title, [_TITLES.get(name, name) for name in jobs.columns], rows)


def _text(name: str, value: Any) -> Cell:
    if name in _TIMES:
        return Cell(time(value))
    if isinstance(value, float):
        return Cell(number(value))
    return Cell(f"{value:,}") if isinstance(value, int) else Cell(str(value or ""), words=True)
