"""`ringbco report` of a sweep's folder: what is best or meets the target, a chart of each setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

import ringbco
from ringbco.reports.answer import listed
from ringbco.reports.cells import Cell, Table, words
from ringbco.reports.html import document
from ringbco.reports.series import Figure as Chart
from ringbco.reports.style import render_chart
from ringbco.reports.sweep_figures import by_axis, heat_map
from ringbco.reports.sweep_points import CLUSTER, Axis, Point, Spread, SweepRuns, named, row_texts
from ringbco.reports.text_tables import Sheet, TextCell
from ringbco.result.figures import COMPARED
from ringbco.result.figures import Figure as Measure
from ringbco.result.sentences import ONE_RUN, of_runs
from ringbco.sweeps.targets import TargetResult
from ringbco.units import plain, same

_MAX_BEST_ROWS: Final = 30
_MAX_LISTED_VALUES: Final = 12
_MAX_ERRORS: Final = 5
_MAX_VERDICTS: Final = 60
_MAX_ANSWERS: Final = 6
_CHARTS_AT_A_GLANCE: Final = 4
_MAX_LISTED_IN_TITLE: Final = 3
_EXTRA_COLUMNS: Final = (
    "median_jct",
    "mean_wait",
    "mean_slowdown",
    "utilisation_to_last_submission",
    "utilisation",
)
"""Additional columns of the best table, as space permits."""
_MAX_COLUMNS: Final = 8


def sweep_title(runs: SweepRuns) -> str:
    """The traces and the clusters of the runs."""
    traces, clusters = (
        list(dict.fromkeys(str(value).replace("\\", "/").rsplit("/", 1)[-1] for value in runs.frame[name]))
        for name in ("trace", "cluster")
    )
    axis = next((axis for axis in runs.axes if axis.name == CLUSTER), None)
    if axis is not None and axis.places is not None and len(clusters) > _MAX_LISTED_IN_TITLE:
        clusters = [f"{len(clusters)} clusters from {axis.values[0]} to {axis.values[-1]}"]
    return f"{', '.join(traces)} on {', '.join(clusters)}"


def sweep_page(runs: SweepRuns, *, title: str) -> tuple[str, list[Chart]]:
    """The page as text, and the charts on it."""
    leading_axis = next((axis for axis in runs.axes if axis.name == runs.target_axis), None)
    leading_axis = leading_axis or next((axis for axis in runs.axes if axis.places is not None), None)
    ordered = sorted(runs.axes, key=lambda axis: axis is not leading_axis)
    charts = [(axis, by_axis(runs, axis)) for axis in ordered]
    map_chart = heat_map(runs)
    glance = charts[0][1][:1] if charts else []
    glance += [] if map_chart is None else [map_chart]
    if charts:
        glance += charts[0][1][1 : 1 + _CHARTS_AT_A_GLANCE - len(glance)]
    chapters = [(axis, [chart for chart in group if chart not in glance]) for axis, group in charts]
    note, best = _best(runs)
    text = document(
        "sweep",
        title=title,
        subtitle=_subtitle(runs),
        answers=_answers(runs),
        errors=runs.frame["error"].drop_nulls().unique(maintain_order=True).head(_MAX_ERRORS).to_list(),
        glance=[render_chart(chart) for chart in glance],
        chapters=[
            (axis.title, f"by-{axis.title}", [render_chart(chart) for chart in group])
            for axis, group in chapters
            if group
        ],
        best=best,
        note=note,
        notes=_notes(runs),
        told=_verdicts(runs),
        settings=_settings(runs),
        version=ringbco.__version__,
    )
    on_page = [*glance, *(chart for _, group in chapters for chart in group)]
    return text, [chart for chart in on_page if chart.chart is not None]


def sweep_caption(runs: SweepRuns) -> str:
    """Runs, jobs, cluster and version of a sweep."""
    of = ["one run"] if runs.over is None else of_runs(runs.over.runs, runs.over.of)
    return f"{_jobs(runs)} jobs of {sweep_title(runs)}; {of[0]}; ringbco {ringbco.__version__}."


def sweep_sheet(runs: SweepRuns) -> Sheet:
    """The best points of a sweep as a table, and all of them as its frame."""
    (note, best), over = _best(runs), runs.over
    frame = runs.frame if over is None else over.frame
    flat = frame.drop(name for name, dtype in frame.schema.items() if dtype.is_nested())
    rows = [[TextCell(_line(cell)) for cell in row] for row in best.rows]
    return Sheet(sweep_caption(runs), best.columns, rows, [note, *_notes(runs), *_verdicts(runs)], flat)


def _jobs(runs: SweepRuns) -> str:
    counts = sorted(set(runs.frame.filter(pl.col("error").is_null())["jobs"].drop_nulls()))
    if len(counts) > _MAX_LISTED_IN_TITLE:
        return f"{counts[0]:,} to {counts[-1]:,}"
    return ", ".join(f"{count:,}" for count in counts)


def _subtitle(runs: SweepRuns) -> str:
    height = runs.frame.height
    failed = height - runs.frame["error"].null_count()
    parts = [f"{_jobs(runs)} jobs", f"{height:,} runs" + (f", {failed:,} failed" if failed else "")]
    if runs.over is not None:
        parts.append(f"{len(runs.points):,} points with {runs.over.runs} runs each")
    return "; ".join(parts)


def _answers(runs: SweepRuns) -> list[str]:
    """What the page has to say first: what meets the target, or which point is best."""
    if runs.target_results:
        results = sorted(runs.target_results, key=_hardest_first)
        lines = [line for result in results for line in result.lines()]
        more = len(lines) - _MAX_ANSWERS
        told = [f"{line[0].upper()}{line[1:]}." for line in lines[:_MAX_ANSWERS]]
        return told + ([f"ringbco sweep prints {more} more lines."] if more > 0 else [])
    if not runs.ranked:
        return []
    if not runs.chosen:
        return [_span(runs)]
    # A difference without its chance would be taken for a result.
    notes = [] if runs.over or runs.over_seeds else [f"{ONE_RUN[0].upper()}{ONE_RUN[1:]}."]
    return [*([_lead(runs)] if len(runs.scenarios) == 1 else _leads(runs)), *notes]


def _extreme(runs: SweepRuns) -> str:
    """The good end of the first measure: "lowest mean completion time"."""
    measure = runs.measures[0]
    return f"{'highest' if measure.better == 'most' else 'lowest'} {measure.title}"


def _value(runs: SweepRuns, point: Point) -> str:
    measure = runs.measures[0]
    return _line(_cell(measure, point.figures[measure.key]))


def _span(runs: SweepRuns) -> str:
    """The first measure where nothing was chosen: its ends."""
    best, worst, title = runs.ranked[0], runs.ranked[-1], runs.measures[0].title
    if not best.settings:
        return f"The {title} is {_value(runs, best)}; nothing was varied."
    key = runs.measures[0].key
    if same(best.figures[key].value, worst.figures[key].value):
        return f"The {title} is {_value(runs, best)} at every point."
    ends = (f"{_value(runs, point)} ({named(point.settings)})" for point in (best, worst))
    return f"The {title} ranges from {' to '.join(ends)}."


def _lead(runs: SweepRuns) -> str:
    """Which points lead the only scenario, and how far they are from the last."""
    (scenario,) = runs.scenarios
    measure, best, worst = runs.measures[0], scenario.ranked[0], scenario.ranked[-1]
    if not scenario.leaders:
        return f"The {measure.title} is {_value(runs, best)} at every point."
    names = [_choice(runs, point) for point in scenario.leaders]
    low, high = (point.figures[measure.key].value for point in (best, worst))
    off = (
        f"{100.0 * (1.0 - low / high):.1f} % below " if measure.better != "most" and high > 0 else "against "
    )
    return (
        f"{listed(names)} {'has' if len(names) == 1 else 'have'} the {_extreme(runs)}, {_value(runs, best)},"
        f" {off}{_choice(runs, worst)} ({_value(runs, worst)})."
    )


def _leads(runs: SweepRuns) -> list[str]:
    """In how many scenarios each choice leads: points of different scenarios do not compete."""
    count, title = len(runs.scenarios), runs.measures[0].title
    of = f"{count} scenarios ({' x '.join(axis.title for axis in runs.given)})"
    leads = Counter(_choice(runs, point) for one in runs.scenarios for point in one.leaders)
    if not leads:
        return [f"The {title} is the same under every choice in each of {of}."]
    (first, most), *others = leads.most_common()
    where = f"all {of}" if most == count else f"{most} of {of}"
    text = f"{first} has the {_extreme(runs)} in {where}{_ahead(runs, first)}"
    if others:
        text += f"; {listed([f'{name} in {times}' for name, times in others])}"
    ties = sum(len(one.leaders) > 1 for one in runs.scenarios)
    lines = [text + (f", counting {ties} tie{'s' * (ties > 1)} for each." if ties else ".")]
    if equal := sum(not one.leaders for one in runs.scenarios):
        lines.append(f"In {equal} of {count} all choices are equal.")
    return lines


def _ahead(runs: SweepRuns, name: str) -> str:
    """How far a choice that leads alone is from the next one: ", 2.1 to 12 % below the next"."""
    measure, off = runs.measures[0], []
    for one in runs.scenarios:
        if len(one.leaders) == 1 and len(one.ranked) > 1 and _choice(runs, one.leaders[0]) == name:
            first, second = (point.figures[measure.key].value for point in one.ranked[:2])
            off += [100.0 * abs(first / second - 1.0)] if second else []
    if not off:
        return ""
    low, high = f"{min(off):.1f}", f"{max(off):.1f}"
    side = "above" if measure.better == "most" else "below"
    return f", {low if low == high else f'{low} to {high}'} % {side} the next"


def _choice(runs: SweepRuns, point: Point) -> str:
    """What was chosen at a point: policy and options."""
    return named({axis.name: point.settings[axis.name] for axis in runs.chosen})


def _hardest_first(result: TargetResult) -> tuple[float, float]:
    """Sort key: the hardest setting that meets the target comes first."""
    if result.best is None or result.best.value is None:
        return math.inf, 0.0
    sign = -1.0 if result.target.measure.better == "most" else 1.0
    place = -result.best.place if result.name == "load" else result.best.place
    return place, sign * result.best.value


def _cell(measure: Measure, spread: Spread | None) -> Cell:
    """A figure, its range below it."""
    if spread is None:
        return Cell("-")
    low, high = spread.interval or (spread.value, spread.value)
    below = () if low == high else (f"({measure.brief(low)} to {measure.brief(high)})",)
    return Cell(measure.brief(spread.value), below=below)


def _line(cell: Cell) -> str:
    return " ".join((cell.text, *cell.below))


def _notes(runs: SweepRuns) -> list[str]:
    return [] if runs.over is None else of_runs(runs.over.runs, runs.over.of, len(_verdicts(runs)))


def _verdicts(runs: SweepRuns) -> list[str]:
    """The verdicts on the first measure, in words."""
    if runs.over is None or not runs.measures:
        return []
    enough = pl.col("verdict") != "too few runs"
    of_first = runs.over.frame.filter(enough, pl.col("measure") == runs.measures[0].key)
    return of_first["sentence"].drop_nulls().head(_MAX_VERDICTS).to_list()


def _best(runs: SweepRuns) -> tuple[str, Table]:
    """The best points, their settings and their figures with ranges, and a note on them."""
    there = {key for point in runs.points for key in point.figures}
    # Figures that only some kinds of runs have, e.g. failures, come first.
    others = [row for row in COMPARED if row.shown_in == "headline" and row.sometimes]
    others += [row for row in COMPARED if row.key in _EXTRA_COLUMNS]
    columns_shown = [measure for measure in dict.fromkeys([*runs.measures, *others]) if measure.key in there]
    columns_shown = columns_shown[: max(_MAX_COLUMNS - len(runs.axes), len(runs.measures))]

    def row(point: Point) -> list[Cell]:
        settings = [
            Cell(row_texts(axis.name, point.settings[axis.name]), words=axis.places is None) for axis in axes
        ] or [Cell("all")]
        cells = [_cell(measure, point.figures.get(measure.key)) for measure in columns_shown]
        if point in leaders:
            cells[0] = cells[0]._replace(best=True)
        return settings + cells

    axes = [*runs.given, *runs.chosen]
    leaders = [point for scenario in runs.scenarios for point in scenario.leaders] if runs.chosen else []
    each = max(1, _MAX_BEST_ROWS // max(len(runs.scenarios), 1))
    shown = [point for scenario in runs.scenarios for point in scenario.ranked[:each]][:_MAX_BEST_ROWS]
    columns = [axis.title for axis in axes] or ["run"]
    columns += [measure.title for measure in columns_shown]
    return _note_on_points(runs, len(shown)), Table("", columns, [row(point) for point in shown])


def _note_on_points(runs: SweepRuns, shown: int) -> str:
    """Which points a table has, in which order, and where all of them are."""
    count, title = len(runs.ranked), runs.measures[0].title if runs.measures else "order"
    file = "runs.parquet" if runs.over is None else "seeds.parquet"
    note = "All points" if shown == count else f"{shown} of {count:,} points"
    if len(runs.scenarios) > 1 and runs.chosen:
        note += f", grouped by {' and '.join(axis.title for axis in runs.given)}"
        note += f"; in each group the best by {title} comes first, and green marks it."
    else:
        note += f", the best by {title} first."
    note += f" {file} has all points and measures."
    if runs.over_seeds:
        note += " Figures are means over the seeds of the specification."
    return note


def _settings(runs: SweepRuns) -> list[Table]:
    """What was varied, and what holds for all runs."""
    made = []
    if runs.axes:
        rows = [words(axis.title, _values(axis)) for axis in runs.axes]
        made.append(Table("Varied settings", ["setting", "values"], rows))
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
        base_rows = [words(str(name).replace("_", "-"), _plain(value)) for name, value in base.items()]
        made.append(Table("Common settings", ["setting", "value"], base_rows))
    return made


def _plain(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_plain, value))
    return plain(value)


def _values(axis: Axis) -> str:
    values = ", ".join(row_texts(axis.name, value) for value in axis.values[:_MAX_LISTED_VALUES])
    return values + (f", ... ({len(axis.values):,} in all)" if len(axis.values) > _MAX_LISTED_VALUES else "")
