"""A sweep's points as charts: lines over a setting of numbers, rows of names, a map of two settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports import shapes
from ringbco.reports.series import AT_ONCE, Figure, Styled, scaled
from ringbco.reports.shapes import Aim, blocks, rows
from ringbco.reports.sweep_looks import styled
from ringbco.reports.sweep_points import CLUSTER, REPEATED, Axis, Point, SweepRuns, named, row_texts
from ringbco.result.figures import Figure as Measure
from ringbco.units import brief as figure_told

_MOST_LINES: Final = 16
_MOST_VALUES: Final = 60
_MOST_TICKS: Final = 12
_SPAN: Final = 8.0
_CELL: Final = 30
_SHADE: Final = "#2B7BBA"
_PALE: Final = (0.05, 0.55)
_HOUR: Final = 3_600.0


def by_axis(runs: SweepRuns, axis: Axis) -> list[Figure]:
    """A chart of each measure over the axis, or the sentence in its place."""
    return [_figure(runs, axis, measure) for measure in runs.measures]


def heat_map(runs: SweepRuns) -> Figure | None:
    """The first measure by the first two settings of numbers; None without two, or with too many values."""
    numbers = [axis for axis in runs.axes if axis.places is not None]
    if len(numbers) < 2 or len(numbers[0].values) > _MOST_TICKS:
        return None
    across, up = numbers[:2]
    measure = runs.measures[0]
    figure = Figure(
        f"map-{measure.key}".replace("_", "-"),
        f"{_title(measure)} by {across.title} and {up.title}",
        _averaged(runs, [across, up], "Darker is higher.")
        + (" Framed cells meet the target." if runs.target else ""),
        None,
    )
    cells: dict[tuple[Any, Any], list[float]] = {}
    for point in runs.ranked:
        place = point.settings[across.name], point.settings[up.name]
        cells.setdefault(place, []).append(point.figures[measure.key].value)
    data = pl.DataFrame(
        [
            {
                "x": row_texts(across.name, x),
                "y": row_texts(up.name, y),
                "value": (value := sum(values) / len(values)),
                "text": _text(measure, value),
                "met": runs.target is not None and runs.target.met_by(value),
            }
            for (x, y), values in cells.items()
        ]
    )
    order = [[row_texts(axis.name, value) for value in axis.values] for axis in (across, up)]
    scale = alt.Scale(range=list(_PALE), zero=False, type="log" if _spans(data["value"]) else "linear")
    made = blocks(
        figure,
        data,
        shade=alt.Opacity("value:Q", scale=scale, legend=None),
        fill=_SHADE,
        height=_CELL * len(up.values),
        x=alt.X("x:N", title=_axis_title(across), sort=order[0]).axis(labelAngle=0, orient="bottom"),
        y=alt.Y("y:N", title=_axis_title(up), sort=order[1][::-1]),
    )
    return replace(made, data=data.drop("met", "text"))


def _figure(runs: SweepRuns, axis: Axis, measure: Measure) -> Figure:
    shown = _told_apart(runs, axis)
    data = _rows(runs, axis, shown, measure)
    if data.is_empty():
        note, instead = "", f"No run has a {measure.title}."
    else:
        note, instead = _note(runs, axis, shown, data), ""
        if not data.select(pl.col("most").abs().max()).item():
            instead = f"The {measure.title} is 0 at every point."
    figure = Figure(
        f"{axis.name}-{measure.key}".replace("_", "-"),
        f"{_title(measure)} by {axis.title}",
        "" if instead else note,
        None,
        instead=instead,
        data=data.rename({"policy": "line"}).drop("place", "least", "most") if not instead else None,
    )
    if instead:
        return figure
    lines = styled(runs, shown, data["policy"].unique(maintain_order=True).to_list())
    if axis.places is None:
        return _rows_of_names(runs, figure, lines, data, measure)
    return _lines(runs, figure, lines, data, measure, axis=axis)


def _title(measure: Measure) -> str:
    return measure.title[0].upper() + measure.title[1:]


def _axis_title(axis: Axis) -> str:
    return f"{axis.title}, GPUs" if axis.name == CLUSTER and axis.places is not None else axis.title


def _text(measure: Measure, value: float) -> str:
    return figure_told(measure.unit, value)


def _spans(values: pl.Series) -> bool:
    """Whether they want a logarithmic scale."""
    least, most = float(values.min()), float(values.max())  # type: ignore[arg-type]
    return least > 0 and most / least > _SPAN


def _told_apart(runs: SweepRuns, axis: Axis) -> list[Axis]:
    """Which of the other axes a chart tells apart: as many, first ones first, as leave it readable."""
    shown: list[Axis] = []
    others = [other for other in runs.axes if other is not axis]
    for other in sorted(others, key=lambda other: other.places is not None):  # names before numbers
        names = [*(chosen.name for chosen in shown), other.name]
        if len({tuple(point.settings[name] for name in names) for point in runs.points}) <= _MOST_LINES:
            shown.append(other)
    return [other for other in others if other in shown]


def _rows(runs: SweepRuns, axis: Axis, shown: Sequence[Axis], measure: Measure) -> pl.DataFrame:
    """By the axis's value and the line: the measure, what it is sure within, and the points that it is of."""
    place = dict(zip(axis.values, axis.places or range(len(axis.values)), strict=True))
    groups: dict[tuple[str, Any], list[Point]] = {}
    for point in runs.points:
        if measure.key in point.figures:
            line = named({other.name: point.settings[other.name] for other in shown})
            groups.setdefault((line, point.settings[axis.name]), []).append(point)
    order = _in_order(runs, shown)
    rows = []
    for (line, value), points in groups.items():
        figures = [point.figures[measure.key] for point in points]
        mean = sum(figure.value for figure in figures) / len(figures)
        least, most = min(min(one.values) for one in figures), max(max(one.values) for one in figures)
        low, high = (figures[0].interval if len(figures) == 1 else None) or (least, most)
        scale = 1 / _HOUR if measure.unit == "GPU time" else 1.0
        ends = (None, None) if low == high else (low * scale, high * scale)
        rows.append(
            (line, value, place[value], mean * scale, *ends, least * scale, most * scale, len(points))
        )
    rows.sort(key=lambda row: (order[row[0]], row[2]))
    numbers = dict.fromkeys(("place", "value", "low", "high", "least", "most"), pl.Float64())
    schema = {"policy": pl.String(), "at": pl.String()} | numbers | {"points": pl.Int64()}
    rows = [(row[0], row_texts(axis.name, row[1]), *row[2:]) for row in rows]
    if axis.places is None:
        rows = [row for row in rows if row[2] < _MOST_VALUES]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _in_order(runs: SweepRuns, shown: Sequence[Axis]) -> dict[str, int]:
    """The lines of these axes, each with its place: numbers ascend, others are by their mean rank."""
    numbers = all(axis.places is not None for axis in shown)
    places: dict[str, list[tuple[float, ...]]] = {}
    ranks = [*enumerate(runs.ranked), *((len(runs.points), point) for point in runs.points)]
    for rank, point in ranks:
        settings = {axis.name: point.settings[axis.name] for axis in shown}
        ascending = tuple(float(axis.values.index(settings[axis.name])) for axis in shown)
        places.setdefault(named(settings), []).append(ascending if numbers else (float(rank),))
    order = sorted(
        places, key=lambda line: tuple(sum(part) / len(part) for part in zip(*places[line], strict=True))
    )
    return {line: place for place, line in enumerate(order)}


def _averaged(runs: SweepRuns, apart: Sequence[Axis], note: str) -> str:
    """The note, and over what a chart averages that tells these axes apart."""
    others = [axis.title for axis in runs.axes if axis not in apart] + [REPEATED] * runs.over_seeds
    return f"{note} Averaged over {' and '.join(others)}." if others else note


def _note(runs: SweepRuns, axis: Axis, shown: Sequence[Axis], data: pl.DataFrame) -> str:
    kind = "line" if axis.places is not None else "colour"
    note = f"One {kind} per {' and '.join(other.title for other in shown)}. " if shown else ""
    note = _averaged(runs, [axis, *shown], note).strip()
    if data["low"].null_count() < data.height:
        sure = runs.over is not None and set(data["points"]) == {1}
        of = f"ranges over {runs.over.runs} runs" if sure and runs.over else "minimum and maximum"
        note += f" Bars: {of}."
    if axis.places is None and len(axis.values) > _MOST_VALUES:
        note += f" Only the first {_MOST_VALUES} of {len(axis.values):,} values are shown."
    return note.strip()


def _drawn(measure: Measure, data: pl.DataFrame) -> pl.DataFrame:
    """With what a mark says when it is pointed at; what reaches below 0 is cut there."""
    texts = [_text(measure, value * (_HOUR if measure.unit == "GPU time" else 1)) for value in data["value"]]
    return data.with_columns(pl.col("low").clip(lower_bound=0.0), figure=pl.Series(texts, dtype=pl.String))


def _y_title(measure: Measure) -> str:
    return measure.title + (", GPU-hours" if measure.unit == "GPU time" else "")


def _lines(
    runs: SweepRuns, figure: Figure, lines: Styled, data: pl.DataFrame, measure: Measure, *, axis: Axis
) -> Figure:
    """A line for each of the other settings, the interval of each of its points, and the target."""
    target = runs.target.value if runs.target is not None and runs.target.measure == measure else None
    times, drawn, aim = measure.unit == "time", _drawn(measure, data), None
    if target is not None:
        aim = Aim(target, f"target {_text(measure, target)}")
    if measure.unit in ("share", "index"):
        y = alt.Y("value:Q", title=None).scale(zero=False)
        y = y.axis(tickCount=5, format="%") if measure.unit == "share" else y.axis(tickCount=5)
    else:
        ends = drawn.select("value", "low", "high", target=pl.lit(target, dtype=pl.Float64))
        zero = AT_ONCE if times and "wait" in measure.key else "0"
        scale = scaled(ends, *ends.columns, times=times, zero=zero, grid=True)
        y = alt.Y("value:Q", title=scale.titled(None), scale=scale.scale, axis=scale.axis)
        placed = [scale.place(name) for name in ends.columns if ends[name].count()]
        ends = ends.with_columns(placed)
        drawn = drawn.with_columns(ends.drop("target"))
        if aim is not None:
            aim = aim._replace(value=ends["target"][0])
    places = sorted(set(axis.places or ()))
    wide = places[0] > 0 and places[-1] / places[0] > _SPAN
    kind: dict[str, Any] = {"type": "log"} if wide else {"zero": False}
    ticks: dict[str, Any] = {"format": ",~r"}
    if len(places) <= _MOST_TICKS:
        texts = map(row_texts, [""] * len(places), places)
        each = (f"datum.value === {place!r} ? '{text}' : " for place, text in zip(places, texts, strict=True))
        ticks = {"values": places, "labelExpr": "".join(each) + "''"}
    x = alt.X(
        "place:Q",
        title=_axis_title(axis) + " (log scale)" * wide,
        scale=alt.Scale(nice=False, padding=14, **kind),
    )
    return shapes.lines(
        replace(figure, height=220),
        lines,
        drawn,
        y=y,
        x=x.axis(alt.Axis(grid=False, labelOverlap="greedy", labelSeparation=6, **ticks)),
        mark={"strokeWidth": 2},
        marked=True,
        ends=("low", "high") if drawn["low"].count() else None,
        aim=aim,
        told=("policy", "at", "figure"),
    )


def _rows_of_names(
    runs: SweepRuns, figure: Figure, lines: Styled, data: pl.DataFrame, measure: Measure
) -> Figure:
    """One row per value, in it a dot for each of the other settings; the target is a tick."""
    target = runs.target.value if runs.target is not None and runs.target.measure == measure else None
    drawn = _drawn(measure, data).with_columns(target=pl.lit(target, dtype=pl.Float64))
    axis = {"number": "%" if measure.unit == "share" else ".2f"} if measure.unit in ("share", "index") else {}
    return rows(
        figure,
        lines,
        drawn,
        by="at",
        value="value",
        across=_y_title(measure),
        told=("policy", "at", "figure"),
        times=measure.unit == "time",
        ends=("low", "high") if drawn["low"].count() else None,
        least="target" if target is not None else None,
        zero=AT_ONCE if "wait" in measure.key else "0",
        **axis,  # type: ignore[arg-type]
    )
