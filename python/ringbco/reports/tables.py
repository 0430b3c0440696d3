"""What the tables of a report's page say: the results' names, the headline figures, the longest waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from ringbco.reports.charts import DASHES
from ringbco.reports.data_jobs import CAUSES, longest
from ringbco.reports.facts import Cell, Line
from ringbco.reports.series import COLOURS
from ringbco.reports.style import tone_name
from ringbco.result.figures import rows_of
from ringbco.result.outcome import Outcome
from ringbco.result.window import measured
from ringbco.units import duration

MOST_COLUMNS: Final = 4
"""Results that stand side by side as columns; of more each is a row."""
_MOST_MEASURES: Final = 6
_SHORT: Final = 16
_SORTED_BY: Final = "mean completion time"
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


class Swatch(NamedTuple):
    """How the charts draw a result: the style sheet's colour, and SVG's dashes or nothing."""

    tone: str
    dashes: str


class Named(NamedTuple):
    """A result as the page names it.

    short: whether the name stays in one piece; only what would push the figures off the page is broken.
    """

    number: int
    label: str
    line: Swatch
    short: bool


class Column(NamedTuple):
    """A measure's title, and whether its table is sorted by it."""

    title: str
    sorted_by: bool


class Row(NamedTuple):
    """A result's figures."""

    result: Named
    cells: tuple[Cell, ...]


class Ranking(NamedTuple):
    """A table with a row a result, best first. shared: what its measures have in common, told once."""

    shared: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


class Told(NamedTuple):
    """A cell of a table of jobs, and whether it holds a name."""

    text: str
    name: bool


class Waits(NamedTuple):
    """A result's jobs that waited longest; no rows where none waited."""

    label: str
    columns: list[str]
    rows: list[list[Told]]


class GroupTable(NamedTuple):
    """A table with a row a result and group: a GPU type, a priority."""

    columns: list[str]
    rows: list[list[Told]]


def swatch(number: int) -> Swatch:
    """The line with which the charts draw the result of that number."""
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    dashes = "" if dash == DASHES[0] else " ".join(map(str, dash))
    return Swatch(tone_name(COLOURS[number % len(COLOURS)]), dashes)


def named(labels: Sequence[str]) -> list[Named]:
    """The results of these labels, in their order."""
    return [Named(number, label, swatch(number), len(label) <= _SHORT) for number, label in enumerate(labels)]


def rankings(groups: Sequence[Sequence[Line]], labels: Sequence[str]) -> list[Ranking]:
    """A table for each kind of statistics, and for some single figures each, all in the same order."""
    lines = [line for group in groups for line in group]
    by = next((line for line in lines if line.title == _SORTED_BY), lines[0])
    results = sorted(named(labels), key=lambda result: _rank(by, result.number))
    parts = [
        group[first : first + _MOST_MEASURES]
        for group in groups
        for first in range(0, len(group), _MOST_MEASURES)
    ]
    return [_ranking(part, results, by) for part in parts]


def _rank(line: Line, number: int) -> tuple[bool, float]:
    value = line.cells[number].value
    return value is None, value or 0.0


def _ranking(lines: Sequence[Line], results: Sequence[Named], by: Line) -> Ranking:
    titles = [line.title for line in lines]
    # "mean waiting time", "p99 waiting time" ...: what they share is told once.
    shared = titles[0].partition(" ")[2]
    alike = len(titles) > 1 and all(title.partition(" ")[2] == shared for title in titles)
    return Ranking(
        shared.capitalize() if alike else "",
        tuple(Column(line.title.partition(" ")[0] if alike else line.title, line is by) for line in lines),
        tuple(Row(result, tuple(line.cells[result.number] for line in lines)) for result in results),
    )


def longest_waits(results: Mapping[str, Outcome]) -> list[Waits]:
    """The jobs that waited longest, a table a result."""
    return [_waits(label, outcome) for label, outcome in results.items()]


def types(results: Mapping[str, Outcome]) -> GroupTable | None:
    """What each result used of each GPU type; None where no result tells types apart."""
    rows = [
        (label, row) for label, outcome in results.items() for row in outcome.summary.get("gpu_types", ())
    ]
    if not rows:
        return None
    told = [figure for figure in _OF_TYPES if any(figure.key in row for _, row in rows)]
    cells = [
        [
            Told(label, True),
            *(Told(one.show(row.get(one.key, ""), whole=True), one.unit is None) for one in told),
        ]
        for label, row in rows
    ]
    return GroupTable(["result", *(figure.title for figure in told)], cells)


def by_priority(results: Mapping[str, Outcome]) -> GroupTable | None:
    """How jobs of each priority fared, the highest first; None where no result knows evictions.

    Of more than 12 priorities, the lowest are one row.
    """
    if not any("evictions" in outcome.jobs.columns for outcome in results.values()):
        return None
    rows = [
        [Told(label, True), *cells] for label, outcome in results.items() for cells in _of_priorities(outcome)
    ]
    titles = ("priority", "jobs", "mean completion time", "mean wait", "evictions", "GPU-hours held")
    return GroupTable(["result", *titles], rows)


def _of_priorities(outcome: Outcome) -> Iterator[list[Told]]:
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
            Told("all" if name is None else str(name), isinstance(name, str | None)),
            Told(f"{row['jobs']:,}", False),
            Told(duration(row["jct"]), False),
            Told(duration(row["wait"]), False),
            Told("" if row["evictions"] is None else f"{row['evictions']:,}", False),
            Told(f"{row['hours']:,.0f}", False),
        ]


def _waits(label: str, outcome: Outcome) -> Waits:
    jobs = longest(outcome)
    rows = [[_told(name, value) for name, value in row.items()] for row in jobs.iter_rows(named=True)]
    return Waits(label, [_TITLES.get(name, name) for name in jobs.columns], rows)


def _told(name: str, value: Any) -> Told:
    if name in _TIMES:
        text = duration(value)
    elif isinstance(value, float):
        text = f"{value:,.2f}"
    else:
        text = f"{value:,}" if isinstance(value, int) else str(value if value is not None else "")
    return Told(text, isinstance(value, str))
