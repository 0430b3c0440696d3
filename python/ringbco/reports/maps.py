"""Results by classes of jobs: bars, or a map where they are many, a row a result, the darker the larger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.series import (
    MOST_BESIDE,
    Figure,
    chosen,
    colour,
    label_limit,
    order,
    short,
    time_values,
)
from ringbco.result.outcome import Outcome

_COLOUR: Final = "#0072B2"
_ROW: Final = 20  # pixels
_AXIS: Final = 12


def height(results: Mapping[str, Outcome]) -> int:
    """Of a chart with a row a result, pixels: wide rows where there are few of them."""
    few = 6
    return (44 if len(results) <= few else _ROW) * len(results) + _AXIS


def class_map(
    results: Mapping[str, Outcome],
    data: pl.DataFrame,
    *,
    by: str,
    classes: Sequence[str],
    value: str,
    title: str,
    tips: Sequence[Any],
    angle: int = 0,
    log: bool = True,
    times: bool = False,
) -> Any:
    """The chart: `data` has `policy`, the class in column `by` (in the order of `classes`) and `value`.

    title: of the classes' axis. log: darkness by the logarithm. times: `value` is in seconds.
    """
    least, most = float(data.select(value).min().item()), float(data.select(value).max().item())
    legend: dict[str, Any] = {"orient": "top", "direction": "horizontal", "title": None}
    scale: dict[str, Any] = {"domain": [0.0, most if most > 0 else 1.0], "range": [0.06, 1]}
    if log:
        least = max(least, 1.0 if times else 1e-3)
        scale |= {"type": "log", "domain": [least, max(most, least * 10)]}
        data = data.with_columns(pl.col(value).clip(lower_bound=least))
    if times:
        values, texts = time_values(*scale["domain"])
        legend |= {"values": values, "labelExpr": texts}
    chart = (
        alt.Chart(short(data))
        .mark_rect(color=_COLOUR)
        .encode(
            x=alt.X(f"{by}:N", title=title, sort=list(classes)).axis(labelAngle=angle, labelLimit=120),
            y=alt.Y("policy:N", title=None, sort=order(results)).axis(labelLimit=label_limit()),
            opacity=alt.Opacity(f"{value}:Q").scale(**scale).legend(**legend),
            tooltip=list(tips),
        )
    )
    return chosen(chart, results)


def class_figure(
    results: Mapping[str, Outcome],
    data: pl.DataFrame,
    said: tuple[str, str, str],
    *,
    by: str,
    classes: Sequence[str],
    value: str,
    title: str,
    tips: Sequence[Any],
    up: str | None,
    number: str,
    scale: Any = alt.Undefined,
    limit: Any = 90,
) -> Figure:
    """Bars that stand side by side, or a map where there are too many results for that.

    said: name, title, and how to read it. data, by, classes, value, title, tips: as for `class_map`. up,
    number, scale: title, format and scale of the bars' axis. limit: of the classes' names, pixels.
    """
    name, heading, note = said
    if len(results) > MOST_BESIDE:
        grid = class_map(
            results, data, by=by, classes=classes, value=value, title=title, tips=tips, log=False
        )
        return Figure(name, heading, f"{note} The darker, the more.", grid, height=height(results))
    bars = (
        alt.Chart(short(data))
        .mark_bar()
        .encode(
            x=alt.X(f"{by}:N", title=title, sort=list(classes)).axis(labelAngle=0, labelLimit=limit),
            xOffset=alt.XOffset("policy:N", sort=order(results)),
            y=alt.Y(f"{value}:Q", title=up, scale=scale).axis(format=number, tickCount=5, minExtent=44),
            color=colour(results),
            tooltip=list(tips),
        )
    )
    return Figure(name, heading, note, chosen(bars, results), half=True)
