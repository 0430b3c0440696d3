"""The shapes of a report's charts: each draws data by encodings, whatever they tell.

Data have the label of a row's result in the column `policy`. A shape is handed the figure without a chart,
all results of the page, the data and the encodings, and gives the figure with its chart. For example, `bars`
draws a bar for each class and result, or a `grid` where those would be too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.elastic_lanes import Lanes
from ringbco.reports.series import (
    MOST_BESIDE,
    WINDOW,
    Figure,
    chosen,
    colour,
    label_limit,
    legend,
    order,
    short,
    strokes,
    time_axis,
    time_values,
)
from ringbco.result.outcome import Outcome

Results = Mapping[str, Outcome]

DAYS: Final = alt.X("day:Q", title="days since the first submission").axis(grid=False).scale(nice=False)
STEPS: Final[dict[str, Any]] = {"interpolate": "step-after", "strokeWidth": 1.5}
DOTS: Final[dict[str, Any]] = {"point": True, "strokeWidth": 1.5}
STATES: Final = {
    "fewer than num_gpus": "#E69F00",
    "num_gpus": "#8A8A8A",
    "more than num_gpus": "#0072B2",
    "pause": "#D55E00",
}
"""What an elastic job holds, each with its colour."""
_COLOUR: Final = "#0072B2"
_ROW: Final = 20  # pixels
_AXIS: Final = 12
# Of a server without a spanning job, with one, which meets no contention, and with most of them.
_DARKNESS: Final = (0.06, 0.25, 1.0)


def tips(*told: str) -> list[Any]:
    """Tooltips: "column", "column format" or "column format title"; a format of - is the usual one."""
    made: list[Any] = []
    for text in told:
        column, *more = text.split(" ", 2)
        named: dict[str, Any] = dict(zip(("format", "title"), more, strict=False))
        if named.get("format") == "-":
            del named["format"]
        made.append(alt.Tooltip(column, **named) if named else column)
    return made


def amount(column: str, title: str | None = None, **axis: Any) -> alt.Y:
    """An axis of amounts beside others, all as far from the left."""
    return alt.Y(f"{column}:Q", title=title).axis(**{"tickCount": 5, "minExtent": 44} | axis)


def height(results: Results) -> int:
    """Of a chart with a row a result, pixels: wide rows where there are few of them."""
    few = 6
    return (44 if len(results) <= few else _ROW) * len(results) + _AXIS


def _classes(data: pl.DataFrame, by: str) -> list[str]:
    """The classes in the order of the data."""
    return data[by].unique(maintain_order=True).to_list()


def _told(results: Results, data: pl.DataFrame) -> dict[str, Outcome]:
    """The results that the data are of."""
    there = set(data["policy"])
    return {label: outcome for label, outcome in results.items() if label in there}


def _rows(results: Results) -> alt.Y:
    return alt.Y("policy:N", title=None, sort=order(results)).axis(labelLimit=label_limit())


def grid(
    figure: Figure,
    results: Results,
    data: pl.DataFrame,
    *,
    by: str,
    value: str,
    across: str,
    told: Sequence[str],
    angle: int = 0,
    log: bool = False,
    times: bool = False,
) -> Figure:
    """A map of classes, a row a result, the darker the larger.

    across: title of the classes' axis. log: darkness by the logarithm. times: `value` is in seconds.
    """
    there = _told(results, data)
    least, most = float(data.select(value).min().item()), float(data.select(value).max().item())
    named: dict[str, Any] = {"orient": "top", "direction": "horizontal", "title": None}
    scale: dict[str, Any] = {"domain": [0.0, most if most > 0 else 1.0], "range": [0.06, 1]}
    if log:
        least = max(least, 1.0 if times else 1e-3)
        scale |= {"type": "log", "domain": [least, max(most, least * 10)]}
        data = data.with_columns(pl.col(value).clip(lower_bound=least))
    if times:
        values, texts = time_values(*scale["domain"])
        named |= {"values": values, "labelExpr": texts}
    chart = (
        alt.Chart(short(data))
        .mark_rect(color=_COLOUR)
        .encode(
            x=alt.X(f"{by}:N", title=across, sort=_classes(data, by)).axis(labelAngle=angle, labelLimit=120),
            y=_rows(there),
            opacity=alt.Opacity(f"{value}:Q").scale(**scale).legend(**named),
            tooltip=tips(*told),
        )
    )
    return replace(figure, chart=chosen(chart, results), height=height(there))


def bars(
    figure: Figure,
    results: Results,
    data: pl.DataFrame,
    *,
    by: str,
    value: str,
    across: str,
    told: Sequence[str],
    up: str | None,
    number: str,
    ceiling: float | None = None,
    limit: Any = 90,
) -> Figure:
    """A bar for each class and result, side by side; a map where there are too many results for that.

    up, number, ceiling: title, format and end of the bars' axis. limit: of the classes' names, pixels.
    """
    if len(_told(results, data)) > MOST_BESIDE:
        figure = replace(figure, note=f"{figure.note} The darker, the more.", half=False)
        return grid(figure, results, data, by=by, value=value, across=across, told=told)
    y = amount(value, up, format=number)
    chart = (
        alt.Chart(short(data))
        .mark_bar()
        .encode(
            x=alt.X(f"{by}:N", title=across, sort=_classes(data, by)).axis(labelAngle=0, labelLimit=limit),
            xOffset=alt.XOffset("policy:N", sort=order(results)),
            y=y if ceiling is None else y.scale(domain=[0, ceiling]),
            color=colour(results),
            tooltip=tips(*told),
        )
    )
    return replace(figure, chart=chosen(chart, results))


def ranges(
    figure: Figure,
    results: Results,
    data: pl.DataFrame,
    *,
    by: str,
    across: str,
    up: str,
    times: bool,
    angle: int = 0,
) -> Figure:
    """A dot and a line from low to high for each class and result, on a log scale; a map of many medians.

    times: the values are in seconds.
    """
    number, unit = (",.0f", ", s") if times else (",.2f", "")
    ends = [f"{end} {number} {name} percentile{unit}" for end, name in (("low", "10th"), ("high", "90th"))]
    told = ["policy", by, "jobs ,", f"median {number} median{unit}", *ends]
    if len(_told(results, data)) > MOST_BESIDE:
        figure = replace(
            figure,
            note=f"The median of each result's jobs.{figure.note} The darker, the larger (logarithmic).",
        )
        return grid(
            figure,
            results,
            data,
            by=by,
            value="median",
            across=across,
            told=told,
            angle=angle,
            log=True,
            times=times,
        )
    figure = replace(
        figure,
        note=f"The dot is the median, the line reaches from the 10th to the 90th percentile.{figure.note}",
    )
    low, high = data["low"].min(), data["high"].max()
    assert isinstance(low, float)
    assert isinstance(high, float)
    # A logarithm has no zero, and a scale from a number to itself no length.
    floor = max(low, 1.0 if times else 1e-3) / 1.2
    ceiling = max(high, floor * 2) * 1.2
    data = data.with_columns(
        pl.col(of).clip(floor, ceiling).alias(name)
        for name, of in (("bottom", "low"), ("middle", "median"), ("top", "high"))
    )
    axis = time_axis(floor, ceiling) if times else alt.Axis(values=_decades(floor, ceiling), format=",~g")
    scale = alt.Scale(type="log", domain=[floor, ceiling], nice=False)
    base = alt.Chart(short(data)).encode(
        x=alt.X(f"{by}:N", title=across, sort=_classes(data, by)).axis(labelAngle=angle, labelLimit=120),
        xOffset=alt.XOffset("policy:N", sort=order(results)),
        color=colour(results),
        tooltip=tips(*told),
    )
    lines = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        y=alt.Y("bottom:Q", title=up, scale=scale, axis=axis), y2="top:Q"
    )
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(y=alt.Y("middle:Q", title=up))
    return replace(figure, chart=chosen(alt.layer(lines, dots), results))


def _decades(floor: float, ceiling: float) -> list[float]:
    """Ticks for a logarithmic axis: 1, 2, 5, 10, ...; powers of ten alone where those would be many."""
    steps = (1, 2, 5) if ceiling / floor < 1e3 else (1,)
    return [
        step * 10.0**power
        for power in range(-3, 12)
        for step in steps
        if floor <= step * 10.0**power <= ceiling
    ]


def stack(
    figure: Figure,
    results: Results,
    data: pl.DataFrame,
    *,
    mark: Mapping[str, Any],
    part: str,
    palette: Mapping[str, str],
    columns: int,
    told: Sequence[str],
    x: alt.X | str,
    y: alt.Y | None = None,
    faint: str | None = None,
) -> Figure:
    """Parts on top of each other, in the order of `place`: those of `palette`, each with its colour.

    x: an axis, or the title of classes in a column called `size`. y: None for a row a result. columns: of the
    legend. faint: a part that the eye may pass over.
    """
    there = set(data[part])
    names = [name for name in palette if name in there]
    more: dict[str, Any] = {}
    if faint is not None:
        more["opacity"] = alt.condition(f"datum.{part} === '{faint}'", alt.value(0.25), alt.value(1.0))
    if isinstance(x, str):
        x = alt.X("size:N", title=x, sort=_classes(data, "size")).axis(labelAngle=0)
    chart = alt.Chart(short(data), mark=alt.MarkDef(**mark)).encode(
        x=x,
        y=_rows(results) if y is None else y,
        color=alt.Color(
            f"{part}:N",
            scale=alt.Scale(domain=names, range=[palette[name] for name in names]),
            legend=legend(names, columns),
        ),
        order=alt.Order("place:Q"),
        tooltip=tips(*told),
        **more,
    )
    if y is None:
        return replace(figure, chart=chosen(chart, results), height=height(results))
    return replace(figure, chart=chart)


def lines(
    figure: Figure,
    results: Results,
    data: pl.DataFrame,
    *,
    x: alt.X,
    y: alt.Y,
    told: Sequence[str],
    mark: Mapping[str, Any] = STEPS,
    near: int | None = None,
    zoom: bool = False,
) -> Figure:
    """A line a result. near: how far from a point its tooltip shows, pixels^2; None: on the line.

    zoom: whether the reader of the page can look at a part of x, in all such charts at once.
    """
    chart = alt.Chart(short(data), mark=alt.MarkDef(type="line", **mark)).encode(x=x, y=y, **strokes(results))
    drawn: Any = chart
    if zoom:  # the wheel alone must scroll the page
        drawn = chart.add_params(
            alt.selection_interval(
                name=WINDOW, bind="scales", encodings=["x"], zoom="wheel![event.ctrlKey]", clear="dblclick"
            )
        )
    if near is None:
        drawn = drawn.encode(tooltip=tips(*told))
    else:
        drawn = alt.layer(drawn, chart.mark_point(opacity=0, size=near).encode(tooltip=tips(*told)))
    return replace(figure, chart=chosen(drawn, results))


def areas(
    figure: Figure, results: Results, data: pl.DataFrame, *, y: alt.Y, told: Sequence[str], over: bool = False
) -> Figure:
    """An area a result over time. over: a line instead, over a grey area of the rows that are `wanted`."""
    base = alt.Chart(short(data)).encode(x=DAYS, y=y, tooltip=tips(*told))
    if not over:
        area = base.mark_area(interpolate="step-after", opacity=0.5, line={"strokeWidth": 1})
        return replace(figure, chart=area.encode(color=colour(results)))
    area = base.mark_area(interpolate="step-after", color="#8a8a8a", opacity=0.35)
    line = base.mark_line(**STEPS).transform_filter("!datum.wanted").encode(color=colour(results))
    return replace(figure, chart=alt.layer(area.transform_filter("datum.wanted"), chosen(line, results)))


def cells(
    figure: Figure,
    results: Results,
    data: pl.DataFrame,
    *,
    servers: int,
    days: float,
    top: float,
    told: Sequence[str],
) -> Figure:
    """A map of rows of servers over time, darkest at `top`: cells from day to end_day and row to end_row."""
    domain = [0.0, 1.0, top] if top > 1 else [0.0, 1.0]
    chart = (
        alt.Chart(short(data))
        .mark_rect(color="#D55E00")
        .encode(
            x=DAYS.copy().scale(domain=[0, days], nice=False),
            x2="end_day:Q",
            y=alt.Y("row:Q", title="server")
            .axis(grid=False, minExtent=44, tickMinStep=1, format="d")
            .scale(domain=[0, servers], reverse=True, nice=False),
            y2="end_row:Q",
            opacity=alt.Opacity("jobs:Q", title="spanning jobs")
            .scale(domain=domain, range=list(_DARKNESS[: len(domain)]))
            .legend(orient="top", direction="horizontal", tickCount=4),
            tooltip=tips(*told),
        )
    )
    return replace(figure, chart=chart, height=min(max(servers * 4, 70), 190))


def stepped_lanes(figure: Figure, results: Results, data: pl.DataFrame, *, lanes: Lanes, lane: int) -> Figure:
    """A lane a job, in which the GPUs that it held are a bar: the more, the higher. lane: pixels."""
    time = alt.X("day:Q", title="days since the first submission")
    time = time.axis(grid=False, tickCount=10, labelOverlap=True)
    time = time.scale(domain=list(lanes.span), nice=False)
    named = "".join(f"datum.value === {value} ? '{text}' : " for value, text in lanes.ticks.items())
    up = alt.Y("top:Q", title="GPUs").scale(domain=[0, lanes.jobs], reverse=True, nice=False)
    up = up.axis(
        values=list(lanes.ticks),
        labelExpr=f"{named}''",
        labelOverlap=False,
        grid=False,
        ticks=False,
        domain=False,
        minExtent=44,
    )
    kinds = [*STATES]
    held = (
        alt.Chart(short(data))
        .mark_rect()
        .encode(
            x=time,
            x2="end_day:Q",
            y=up,
            y2="base:Q",
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=kinds, range=list(STATES.values())),
                legend=legend(kinds, 4),
            ),
            tooltip=tips(
                "job_id", "gpus ,.4~g GPUs", "asked - num_gpus", "least - min_gpus", "most - max_gpus",
                "day ,.3f from day", "end_day ,.3f to day",
            ),
        )
    )  # fmt: skip
    rules = (
        alt.Chart(short(lanes.rules))
        .mark_rule(strokeWidth=1, opacity=0.7, color="#8A8A8A")
        .encode(
            x=time,
            x2="end_day:Q",
            y=up,
            strokeDash=alt.StrokeDash(
                "line:N", scale=alt.Scale(domain=["num_gpus", "bound"], range=[[6, 3], [1, 3]]), legend=None
            ),
        )
    )
    names = (
        alt.Chart(lanes.names)
        .mark_text(align="left", baseline="top", fontSize=11, limit=alt.ExprRef("width - 6"), dx=3, dy=2)
        .encode(x=alt.value(0), y=up, text="name:N")
    )
    return replace(figure, chart=alt.layer(held, rules, names), height=lane * lanes.jobs)
