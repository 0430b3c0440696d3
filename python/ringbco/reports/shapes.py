"""The shapes of all charts of pages: each draws data by encodings, whatever they tell.

Data have the label of a row's result in the column `policy`. A shape is handed the figure without a chart,
all results of the page, the data and the encodings, and gives the figure with its chart. For example, `rows`
draws a dot for each class and result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import altair as alt
import polars as pl

from ringbco.reports.elastic_lanes import Lanes
from ringbco.reports.names import label_expression, on_lines, shortened
from ringbco.reports.series import (
    WIDTH,
    Figure,
    colour,
    dots,
    from_zero,
    legend,
    scaled,
    shaded,
    short,
    strokes,
)
from ringbco.reports.time_axis import over
from ringbco.reports.tones import COLOURS, FIRST, GREY
from ringbco.result.outcome import Outcome
from ringbco.units import time

Results = Mapping[str, Outcome]
Labels = Mapping[str, object]
"""What a chart overlays, by label, in order: mostly results."""

HOT: Final = "#D9541E"
STEPS: Final[dict[str, Any]] = {"interpolate": "step-after", "strokeWidth": 1.5}
STATES: Final = {
    "fewer than num_gpus": "#F0A94B",
    "num_gpus": "#B9BEC6",
    "more than num_gpus": "#2B7BBA",
    "pause": HOT,
}
"""What an elastic job holds, each with its colour."""
_ROW: Final = 20  # pixels
_ROW_OF_MANY: Final = 13
_MANY: Final = 8
_TWO_LINES: Final = 29
_BESIDE: Final = 9  # of each of several dots of a row
_AXIS: Final = 4
_BESIDE_ROWS: Final = 150
"""The room for names beside a chart, pixels."""
# Of a server whose spanning jobs are alone, and of one with most of them; steps between, one path each.
_LEVELS: Final = 8
_DARKNESS: Final = (0.4, 1.0)


def said(data: pl.DataFrame, told: Sequence[str]) -> pl.DataFrame:
    """With a column `said`: what a mark says when it is pointed at.

    told: "column", or "column format" or "column format words": the format is "time", "-" for none, or one of
    Python's.
    """
    texts: list[str] = []
    columns = [text.split(" ", 2) for text in told]
    for row in data.select(column for column, *_ in columns).iter_rows():
        parts = []
        for value, (_, *more) in zip(row, columns, strict=True):
            if value is None:
                continue
            form, *words = more or ["-"]
            text = time(value) if form == "time" else format(value, form.strip("-"))
            parts.append(" ".join([text, *words]))
        texts.append(", ".join(parts))
    return data.with_columns(said=pl.Series(texts, dtype=pl.String))


def _tooltips(data: pl.DataFrame, results: Labels, told: Sequence[str] = ("policy",)) -> pl.DataFrame:
    return said(shaded(short(data), results), told)


def amount(column: str, title: str | None = None, **axis: Any) -> alt.Y:
    """An axis of amounts beside others, all as far from the left."""
    return alt.Y(f"{column}:Q", title=title).axis(**{"tickCount": 5, "minExtent": 34} | axis)


def _classes(data: pl.DataFrame, by: str) -> list[str]:
    """The classes in the order of the data."""
    names: list[str] = data[by].unique(maintain_order=True).to_list()
    return names


def names_axis(names: Sequence[str], by: str) -> alt.Y:
    """One row per name, in their order."""
    axis = alt.Axis(
        labelLimit=0,
        labelExpr=f"split({label_expression(_lines_of(names)) or 'datum.label'}, '\\n')",
        grid=False,
        ticks=False,
        domain=False,
        labelPadding=8,
        labelLineHeight=13.5,
    )
    return alt.Y(f"{by}:N", title=None, sort=list(names), scale=alt.Scale(domain=list(names)), axis=axis)


def _lines_of(names: Sequence[str]) -> dict[str, str]:
    """What is written beside the rows, on a line or two; of many rows on one."""
    return on_lines(names, _BESIDE_ROWS, wrap=len(names) <= _MANY)


def _row(names: Sequence[str]) -> int:
    """How high a row is, pixels: with room for two lines where a name has two."""
    if any("\n" in text for text in _lines_of(names).values()):
        return _TWO_LINES
    return _ROW if len(names) <= _MANY else _ROW_OF_MANY


def rows(
    figure: Figure,
    results: Labels,
    data: pl.DataFrame,
    *,
    by: str,
    value: str,
    across: str | None,
    told: Sequence[str],
    times: bool = False,
    number: str | None = None,
    ends: tuple[str, str] | None = None,
    least: str | None = None,
    zero: str = "0",
    ceiling: float | None = None,
) -> Figure:
    """One row per class, in it a dot a result, by its colour; beside each other where results are few.

    across: title of the dots' axis. times: they are in seconds. number: a format of d3 for their axis, which
    then begins at 0. ends: columns from where to where a line goes through the dot; none where results are
    many. least: a column with a grey line, which no dot can be left of. zero: what is said of a value of 0.
    """
    names = _classes(data, by)
    of_results = by == "policy"
    beside = ends is not None and not of_results and 1 < len(results) <= FIRST
    if not (beside or of_results or len(results) == 1):
        ends = None
    there = [value, *(ends or ()), *((least,) if least else ())]
    if number is None:
        scale = scaled(data, *there, times=times, zero=zero, near=of_results, grid=True)
        across = scale.titled(across)
        x = alt.X(f"{value}:Q", title=across, scale=scale.scale, axis=scale.axis)
        data = data.with_columns(scale.place(name) for name in there if data[name].count())
    else:
        x = alt.X(f"{value}:Q", title=across).axis(format=number, tickCount=5)
        x = x.scale(domain=[0, ceiling]) if ceiling is not None else x.scale(zero=True)
    y: dict[str, Any] = {"y": names_axis(names, by)}
    if beside:
        y["yOffset"] = alt.YOffset("policy:N", sort=list(results), scale=alt.Scale(domain=list(results)))
    base = alt.Chart(_tooltips(data, results, told)).encode(**y, description="said:N")
    told_apart = dots(results)
    if of_results:  # the axis tells them
        told_apart = {"color": told_apart["color"].legend(None)}
    layers = []
    if least is not None:
        bound = base.transform_filter(f"isValid(datum.{least})").mark_tick(color=GREY, thickness=3, size=16)
        layers.append(bound.encode(x=alt.X(f"{least}:Q", title=across)))
    if ends is not None:
        low, high = ends
        line = base.mark_rule(strokeWidth=2, opacity=0.55)
        layers.append(line.encode(x=alt.X(f"{low}:Q", title=across), x2=high, color=told_apart["color"]))
    layers.append(base.mark_point(filled=True, size=70, opacity=1).encode(x=x, **told_apart))
    each = max(_row(names), _BESIDE * len(results) + 6 if beside else 0)
    return replace(figure, chart=alt.layer(*layers), height=each * len(names) + _AXIS)


def stack(
    figure: Figure,
    results: Labels,
    data: pl.DataFrame,
    *,
    part: str,
    palette: Mapping[str, str],
    told: Sequence[str],
    value: str,
    across: str | None = None,
    by: str | None = None,
    columns: int = 2,
    ceiling: float = 0.0,
    times: bool = True,
) -> Figure:
    """Parts beside each other, in the order of `place`: those of `palette`, each with its colour.

    by: the classes that have a bar each; None for areas over time. across: title of the amounts' axis, which
    reaches as far as the longest bar and `ceiling`. times: the amounts are in seconds.
    """
    there = set(data[part])
    names = [name for name in palette if name in there]
    encoded: dict[str, Any] = {
        "color": alt.Color(
            f"{part}:N",
            scale=alt.Scale(domain=names, range=[palette[name] for name in names]),
            legend=legend(names, columns),
        ),
        "order": alt.Order("place:Q"),
    }
    if by is None:
        data, x = over(data, results)
        chart = alt.Chart(said(short(data), (part,))).mark_area(interpolate="step-after")
        encoded |= {"x": x, "y": amount(value, across, tickMinStep=1).stack("zero").scale(nice=False)}
        return replace(figure, chart=chart.encode(**encoded, description="said:N"))
    classes = _classes(data, by)
    sums = data.group_by(by).agg(
        most=pl.col(value).clip(lower_bound=0.0).sum(), least=pl.col(value).clip(upper_bound=0.0).sum()
    )
    ends = [float(ceiling), *sums["most"], *sums["least"]]
    scale = from_zero(min(ends), max(ends), times=times, grid=True)
    x = alt.X(f"{value}:Q", title=across, axis=scale.axis, scale=scale.scale).stack("zero")
    each = _row(classes) + 2
    drawn = alt.Chart(said(short(data), told)).mark_bar(height={"band": 0.72})
    chart = drawn.encode(x=x, y=names_axis(classes, by), description="said:N", **encoded)
    return replace(figure, chart=chart, height=each * len(classes) + _AXIS)


def lines(
    figure: Figure,
    results: Labels,
    data: pl.DataFrame,
    *,
    y: alt.Y,
    x: alt.X | None = None,
    mark: Mapping[str, Any] = STEPS,
    marked: bool = False,
    ends: tuple[str, str] | None = None,
    aim: Aim | None = None,
    told: Sequence[str] = ("policy",),
) -> Figure:
    """One line per result. x: None for time. marked: whether the points are. ends: columns from where to
    where a bar goes through a point."""
    if x is None:
        data, x = over(data, results)
    base = alt.Chart(_tooltips(data, results, told)).encode(x=x, y=y)
    layers = _aimed(aim, y)
    if ends is not None:
        low, high = ends
        bars = base.transform_filter(f"isValid(datum.{low})").mark_rule(strokeWidth=2, opacity=0.45)
        title = cast("dict[str, Any]", y.to_dict())["title"]  # layers share it
        layers.append(bars.encode(y=alt.Y(f"{low}:Q", title=title), y2=high, color=colour(results)))
    drawn = base.mark_line(clip=True, strokeJoin="round", **mark).encode(**strokes(results))
    layers.append(drawn if marked else drawn.encode(description="said:N"))
    if marked:
        points = base.mark_point(filled=True, size=50, opacity=1)
        told_apart = dots(results)
        if "shape" not in told_apart:  # the legend shows the lines, whose dashes would cut its dots
            told_apart["color"] = told_apart["color"].legend(None)
        layers.append(points.encode(**told_apart, description="said:N"))
    return replace(figure, chart=alt.layer(*layers) if len(layers) > 1 else layers[0])


class Aim(NamedTuple):
    """A dashed line across a chart, at a value of its y axis, and what is written on it."""

    value: float
    text: str = ""


def _aimed(aim: Aim | None, y: alt.Y) -> list[Any]:
    if aim is None:
        return []
    column = cast("dict[str, Any]", y.to_dict())["field"]
    rule = alt.Chart(pl.DataFrame({column: [aim.value]})).encode(y=y)
    layers: list[Any] = [rule.mark_rule(strokeDash=[5, 4], color=GREY, strokeWidth=1.5)]
    if aim.text:
        text = rule.mark_text(align="right", baseline="bottom", dy=-3, fontSize=12)
        layers.append(text.encode(x=alt.value(WIDTH - 70), text=alt.value(aim.text)))
    return layers


def areas(
    figure: Figure,
    results: Labels,
    data: pl.DataFrame,
    *,
    y: alt.Y,
    x: alt.X | None = None,
    wanted: bool = False,
    aim: Aim | None = None,
) -> Figure:
    """An area a result. x: None for time. wanted: a line instead, over a grey area of rows that are that."""
    if x is None:
        data, x = over(data, results)
    base = alt.Chart(_tooltips(data, results)).encode(x=x, y=y, description="said:N")
    if not wanted:
        area = base.mark_area(interpolate="step-after", opacity=0.5, line={"strokeWidth": 1})
        return replace(figure, chart=area.encode(color=colour(results)))
    area = base.mark_area(interpolate="step-after", color=GREY, opacity=0.35)
    line = base.mark_line(**STEPS).transform_filter("!datum.wanted").encode(**strokes(results))
    layers = [area.transform_filter("datum.wanted"), *_aimed(aim, y), line]
    return replace(figure, chart=alt.layer(*layers))


def blocks(
    figure: Figure,
    data: pl.DataFrame,
    *,
    shade: alt.Color | alt.Opacity,
    fill: str = HOT,
    height: int,
    **where: Any,
) -> Figure:
    """A rectangle a row, in the colour `fill` or by its shade. where: encodings of x, y and their ends.

    Rows where the column `met` is true have a frame; those with a column `text` say it.
    """
    base = alt.Chart(short(data)).encode(**where)
    by: dict[str, Any] = {"opacity" if isinstance(shade, alt.Opacity) else "color": shade}
    layers: list[Any] = [base.mark_rect(color=fill).encode(**by)]
    if "met" in data.columns:
        framed = base.transform_filter("datum.met")
        layers.append(framed.mark_rect(color="transparent", stroke=COLOURS[0], strokeWidth=2.5))
    if "text" in data.columns:
        layers.append(base.mark_text().encode(text="text:N"))
    return replace(figure, chart=alt.layer(*layers) if len(layers) > 1 else layers[0], height=height)


def cells(
    figure: Figure, results: Labels, data: pl.DataFrame, *, servers: int, days: float, top: float
) -> Figure:
    """A map of rows of servers over time, from the weakest colour at 1 to the strongest at `top`.

    data: cells from day to end_day and row to end_row. They are drawn in eight steps of darkness, each of
    which is one path.
    """
    most = max(top, 1.0)
    share = ((pl.col("jobs") - 1) / max(most - 1, 1e-9)).clip(0, 1)
    step = (share * (_LEVELS - 1)).round().cast(pl.Int64)
    lightest, darkest = _DARKNESS
    data = (
        data.with_columns(step=step)
        .sort("step", "row", "day")
        .with_columns(dark=lightest + (darkest - lightest) * pl.col("step") / (_LEVELS - 1))
    )
    whole = data.select("day", "end_day").vstack(pl.DataFrame({"day": [0.0], "end_day": [days]}))
    ends, x = over(whole, results)
    data = data.with_columns(ends.head(data.height))
    named = range(1, int(most) + 1, max(1, math.ceil((most - 1) / 3)))
    domain, span = ([1.0, most], [lightest, darkest]) if most > 1 else ([0.0, 1.0], [lightest, lightest])
    shade = (
        alt.Opacity("dark:Q", title=None)
        .scale(domain=span, range=span)
        .legend(
            orient="top",
            direction="horizontal",
            type="symbol",
            symbolType="square",
            symbolFillColor=HOT,
            values=[_dark(value, domain, span) for value in named],
            labelExpr=" ".join(
                f"abs(datum.value - {_dark(value, domain, span)}) < 1e-6 ? '{value}' :" for value in named
            )
            + " ''",
        )
    )
    y = (
        alt.Y("row:Q", title="server")
        .axis(grid=False, minExtent=34, tickMinStep=1, format="d")
        .scale(domain=[0, servers], reverse=True, nice=False)
    )
    height = min(max(servers * 4, 60), 150)
    return blocks(figure, data, shade=shade, height=height, x=x, x2="end_day:Q", y=y, y2="end_row:Q")


def loads(
    figure: Figure, results: Labels, data: pl.DataFrame, *, names: Sequence[str], days: float, top: float
) -> Figure:
    """A map of named rows over time, the darker, the greater their load. top: that of the strongest colour.

    data: row, link, load and its interval, from day to end_day.
    """
    whole = data.select("day", "end_day").vstack(pl.DataFrame({"day": [0.0], "end_day": [days]}))
    ends, x = over(whole, results)
    data = data.with_columns(ends.head(data.height))
    shade = (
        alt.Opacity("load:Q", title=None)
        .scale(domain=[0.0, top], range=[0.04, 1.0])
        .legend(orient="top", direction="horizontal", type="symbol", symbolType="square", format=".0%")
    )
    texts = shortened(list(names), 110)
    data = data.with_columns(pl.col("link").replace(texts))
    y = alt.Y("link:N", title=None, sort=[texts.get(name, name) for name in names]).axis(
        grid=False, ticks=False, domain=False
    )
    height = max(60, 16 * len(names))
    return blocks(figure, data, shade=shade, height=height, x=x, x2="end_day:Q", y=y)


def _dark(value: float, domain: Sequence[float], span: Sequence[float]) -> float:
    """How dark so many jobs are."""
    return span[0] + (span[1] - span[0]) * (value - domain[0]) / (domain[1] - domain[0])


def stepped_lanes(figure: Figure, results: Labels, data: pl.DataFrame, *, lanes: Lanes, lane: int) -> Figure:
    """A lane a job, in which the GPUs that it held are a bar: the more, the higher. lane: pixels."""
    bars, x = over(data, results, lanes.span)
    each = float(bars["end_day"].to_numpy().max()) / float(data["end_day"].to_numpy().max())
    rules = lanes.rules.with_columns(pl.col("day", "end_day") * each)
    named = "".join(f"datum.value === {value} ? '{text}' : " for value, text in lanes.ticks.items())
    up = alt.Y("top:Q", title="GPUs").scale(domain=[0, lanes.jobs], reverse=True, nice=False)
    up = up.axis(
        values=list(lanes.ticks),
        labelExpr=f"{named}''",
        labelOverlap=False,
        grid=False,
        ticks=False,
        domain=False,
        minExtent=34,
    )
    kinds = [*STATES]
    held = (
        alt.Chart(said(short(bars), ("job_id", "gpus ,.4g GPUs")))
        .mark_rect()
        .encode(
            x=x,
            x2="end_day:Q",
            y=up,
            y2="base:Q",
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=kinds, range=list(STATES.values())),
                legend=legend(kinds, 4),
            ),
            description="said:N",
        )
    )
    lines = (
        alt.Chart(short(rules))
        .mark_rule(strokeWidth=1, opacity=0.7, color=GREY)
        .encode(
            x=x,
            x2="end_day:Q",
            y=up,
            strokeDash=alt.StrokeDash(
                "line:N", scale=alt.Scale(domain=["num_gpus", "bound"], range=[[6, 3], [1, 3]]), legend=None
            ),
        )
    )
    texts = shortened(lanes.names["name"].unique().to_list(), WIDTH - 60)
    names = (
        alt.Chart(lanes.names.with_columns(pl.col("name").replace(texts)))
        .mark_text(align="left", baseline="top", fontSize=11, dx=3, dy=2)
        .encode(x=alt.value(0), y=up, text="name:N")
    )
    kept = data.select("job_id", "day", "end_day", "state", "gpus")
    return replace(figure, chart=alt.layer(held, lines, names), height=lane * lanes.jobs, data=kept)
