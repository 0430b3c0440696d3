"""`ringbco report` of a sweep's folder: what is best or meets the target, a chart of each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

import ringbco
from ringbco.reports.cells import Cell, Table, words
from ringbco.reports.html import document
from ringbco.reports.series import Figure
from ringbco.reports.style import shown as drawing
from ringbco.reports.sweep_figures import by_axis, heat_map
from ringbco.reports.sweep_points import CLUSTER, Axis, Point, Spread, SweepRuns, named, row_texts
from ringbco.reports.text_tables import Cell as PaperCell
from ringbco.reports.text_tables import Sheet
from ringbco.result.figures import COMPARED
from ringbco.result.figures import Figure as Measure
from ringbco.result.sentences import of_runs
from ringbco.sweeps.targets import TargetResult
from ringbco.units import plain, same

_BEST: Final = 30
_VALUES: Final = 12
_ERRORS: Final = 5
_MOST_TOLD: Final = 60
_MOST_ANSWERS: Final = 6
_GLANCE: Final = 4
_FEW: Final = 3
_ALSO: Final = ("median_jct", "mean_wait", "mean_slowdown", "utilisation_to_last_submission", "utilisation")
"""What the table has beside what is drawn, as far as there is room."""
_MOST_COLUMNS: Final = 8


def sweep_title(runs: SweepRuns) -> str:
    """The traces and the clusters of the runs."""
    traces, clusters = (
        list(dict.fromkeys(str(value).replace("\\", "/").rsplit("/", 1)[-1] for value in runs.frame[name]))
        for name in ("trace", "cluster")
    )
    axis = next((axis for axis in runs.axes if axis.name == CLUSTER), None)
    if axis is not None and axis.places is not None and len(clusters) > _FEW:
        clusters = [f"{len(clusters)} clusters from {axis.values[0]} to {axis.values[-1]}"]
    return f"{', '.join(traces)} on {', '.join(clusters)}"


def sweep_page(runs: SweepRuns, *, title: str) -> tuple[str, list[Figure]]:
    """The page as text, and the charts on it."""
    first = next((axis for axis in runs.axes if axis.name == runs.sought), None)
    first = first or next((axis for axis in runs.axes if axis.places is not None), None)
    ordered = sorted(runs.axes, key=lambda axis: axis is not first)
    charts = [(axis, by_axis(runs, axis)) for axis in ordered]
    beside = heat_map(runs)
    glance = charts[0][1][:1] if charts else []
    glance += [] if beside is None else [beside]
    if charts:
        glance += charts[0][1][1 : 1 + _GLANCE - len(glance)]
    chapters = [(axis, [one for one in group if one not in glance]) for axis, group in charts]
    note, best = _best(runs)
    text = document(
        "sweep",
        title=title,
        subtitle=_subtitle(runs),
        answers=_answers(runs),
        errors=runs.frame["error"].drop_nulls().unique(maintain_order=True).head(_ERRORS).to_list(),
        glance=[drawing(figure) for figure in glance],
        chapters=[
            (axis.title, f"by-{axis.title}", [drawing(figure) for figure in group])
            for axis, group in chapters
            if group
        ],
        best=best,
        note=note,
        notes=_notes(runs),
        told=_told(runs),
        settings=_settings(runs),
        version=ringbco.__version__,
    )
    figures = [*glance, *(figure for _, group in chapters for figure in group)]
    return text, [figure for figure in figures if figure.chart is not None]


def sweep_caption(runs: SweepRuns) -> str:
    """Runs, jobs, cluster and version of a sweep."""
    of = ["one run"] if runs.over is None else of_runs(runs.over.runs, runs.over.of)
    return f"{_jobs(runs)} jobs of {sweep_title(runs)}; {of[0]}; ringbco {ringbco.__version__}."


def sweep_sheet(runs: SweepRuns) -> Sheet:
    """The best points of a sweep as a table, and all of them as its frame."""
    (note, best), over = _best(runs), runs.over
    frame = runs.frame if over is None else over.frame
    flat = frame.drop(name for name, dtype in frame.schema.items() if dtype.is_nested())
    rows = [[PaperCell(_line(cell)) for cell in row] for row in best.rows]
    return Sheet(sweep_caption(runs), best.columns, rows, [note, *_notes(runs), *_told(runs)], flat)


def _jobs(runs: SweepRuns) -> str:
    counts = sorted(set(runs.frame.filter(pl.col("error").is_null())["jobs"].drop_nulls()))
    if len(counts) > _FEW:
        return f"{counts[0]:,} to {counts[-1]:,}"
    return ", ".join(f"{count:,}" for count in counts)


def _subtitle(runs: SweepRuns) -> str:
    height = runs.frame.height
    failed = height - runs.frame["error"].null_count()
    parts = [f"{_jobs(runs)} jobs", f"{height:,} runs" + (f", {failed:,} failed" if failed else "")]
    if runs.over is not None:
        parts.append(f"{len(runs.points):,} points of {runs.over.runs} runs")
    return "; ".join(parts)


def _answers(runs: SweepRuns) -> list[str]:
    """What the page has to say first: what meets the target, or which point is best."""
    if runs.found:
        lines = [line for found in sorted(runs.found, key=_reached) for line in found.lines()]
        more = len(lines) - _MOST_ANSWERS
        told = [f"{line[0].upper()}{line[1:]}." for line in lines[:_MOST_ANSWERS]]
        return told + ([f"{more} more such lines are printed by ringbco sweep."] if more > 0 else [])
    if not runs.ranked:
        return []
    measure, best, worst = runs.measures[0], runs.ranked[0], runs.ranked[-1]
    values = [point.figures[measure.key].value for point in runs.ranked]
    title = f"{measure.title[0].upper()}{measure.title[1:]}"
    first, last = (_line(_cell(measure, point.figures[measure.key])) for point in (best, worst))
    if not best.settings:
        return [f"{title} is {first}: nothing was varied."]
    if same(values[0], values[-1]):
        return [f"{title} is the same at every point: {first}."]
    alike = sum(same(value, values[0]) for value in values)
    where = named(best.settings) + (f" and {alike - 1} other points alike" if alike > 1 else "")
    end = "greatest" if measure.better == "most" else "least"
    against = ""
    if measure.better != "most" and values[-1] > 0:
        against = f", {100.0 * (1.0 - values[0] / values[-1]):.1f} % below"
    return [
        f"{title} is {end} with {where}: {first}{against or ', against'} {last} with {named(worst.settings)}."
    ]


def _reached(found: TargetResult) -> tuple[float, float]:
    """The smaller, the sooner it is told: where the target is met, from the side where that is hard."""
    if found.best is None or found.best.value is None:
        return math.inf, 0.0
    sign = -1.0 if found.target.measure.better == "most" else 1.0
    place = -found.best.place if found.name == "load" else found.best.place
    return place, sign * found.best.value


def _cell(measure: Measure, figure: Spread | None) -> Cell:
    """A figure, its range below it."""
    if figure is None:
        return Cell("-")
    low, high = figure.interval or (figure.value, figure.value)
    below = () if low == high else (f"({measure.brief(low)} to {measure.brief(high)})",)
    return Cell(measure.brief(figure.value), below=below)


def _line(cell: Cell) -> str:
    return " ".join((cell.text, *cell.below))


def _notes(runs: SweepRuns) -> list[str]:
    return [] if runs.over is None else of_runs(runs.over.runs, runs.over.of, len(_told(runs)))


def _told(runs: SweepRuns) -> list[str]:
    """The verdicts on the first measure, in words."""
    if runs.over is None or not runs.measures:
        return []
    enough = pl.col("verdict") != "too few runs"
    of_first = runs.over.frame.filter(enough, pl.col("measure") == runs.measures[0].key)
    return of_first["sentence"].drop_nulls().head(_MOST_TOLD).to_list()


def _best(runs: SweepRuns) -> tuple[str, Table]:
    """The best points, their settings and their figures with ranges, and a note on them."""
    there = {key for point in runs.points for key in point.figures}
    # What only such runs have, as failures with outages, before what all runs have.
    others = [row for row in COMPARED if row.shown_in == "headline" and row.sometimes]
    others += [row for row in COMPARED if row.key in _ALSO]
    shown = [measure for measure in dict.fromkeys([*runs.measures, *others]) if measure.key in there]
    shown = shown[: max(_MOST_COLUMNS - len(runs.axes), len(runs.measures))]

    def row(point: Point) -> list[Cell]:
        settings = [Cell(row_texts(name, value)) for name, value in point.settings.items()] or [Cell("all")]
        return settings + [_cell(measure, point.figures.get(measure.key)) for measure in shown]

    count, title = len(runs.points), runs.measures[0].title if runs.measures else "order"
    of = f"The best {_BEST} of {count:,} points" if count > _BEST else "All points"
    file = "runs.parquet" if runs.over is None else "seeds.parquet"
    note = f"{of} by {title}, the best first; {file} has all of them and all measures."
    if runs.over_seeds:
        note += " Figures are means over the seeds that the specification varies."
    columns = [axis.title for axis in runs.axes] or ["run"]
    columns += [one.title for one in shown]
    return note, Table("Best points", columns, [row(point) for point in runs.ranked[:_BEST]])


def _settings(runs: SweepRuns) -> list[Table]:
    """What was varied, and what holds for all runs."""
    made = []
    if runs.axes:
        rows = [words(axis.title, _values(axis)) for axis in runs.axes]
        made.append(Table("Varied", ["setting", "values"], rows))
    named = runs.spec.get("runs")
    if isinstance(named, Mapping):
        rows = [
            words(name, ", ".join(f"{key.replace('_', '-')} {_plain(value)}" for key, value in own.items()))
            for name, own in named.items()
            if isinstance(own, Mapping)
        ]
        made.append(Table("Runs by name", ["run", "settings"], rows))
    base = runs.spec.get("base")
    if isinstance(base, Mapping) and base:
        alike = [words(str(name).replace("_", "-"), _plain(value)) for name, value in base.items()]
        made.append(Table("For all runs", ["setting", "value"], alike))
    return made


def _plain(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_plain, value))
    return plain(value)


def _values(axis: Axis) -> str:
    values = ", ".join(row_texts(axis.name, value) for value in axis.values[:_VALUES])
    return values + (f", ... ({len(axis.values):,} in all)" if len(axis.values) > _VALUES else "")
