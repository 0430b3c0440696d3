"""The shape of latency over time, beside the replicas that answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.data_requests import FINEST, LINES, SERIES
from ringbco.reports.series import Figure, legend, scaled, short
from ringbco.reports.shapes import STEPS, said
from ringbco.reports.time_axis import over

_TICKS: Final = 4
"""Of replicas, above 0."""


def against_replicas(figure: Figure, results: Mapping[str, object], data: pl.DataFrame) -> Figure:
    """Two lines of latency, on the left axis; replicas serving over those wanted on the right one.

    data: series, of `SERIES`, day, value and policy.
    """
    data, x = over(data, results)
    of_latency = pl.col("series").is_in(LINES)
    latency, replicas = data.filter(of_latency), data.filter(~of_latency)
    scale = scaled(latency, "value", times=True, finest=FINEST)
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(SERIES), range=list(SERIES.values())),
        legend=legend(list(SERIES), 4),
    )

    def chart(rows: pl.DataFrame, told: str, y: alt.Y) -> Any:
        drawn = alt.Chart(said(short(rows), ("series", told)))
        return drawn.encode(x=x, y=y, color=colour, description="said:N")

    most = max(1, math.ceil(float(replicas["value"].max() or 0.0)))  # type: ignore[arg-type]
    ticks = list(range(0, most + 1, math.ceil(most / _TICKS)))
    right = alt.Y("value:Q", title="replicas").axis(orient="right", values=ticks, format="d", grid=False)
    right = right.scale(domain=[0, most], nice=False)
    steps = chart(replicas, "value .3g", right)
    area = steps.transform_filter("datum.series === 'replicas wanted'")
    line = steps.transform_filter("datum.series === 'replicas serving'")
    behind = alt.layer(area.mark_area(interpolate="step-after", opacity=0.3), line.mark_line(**STEPS))
    left = alt.Y("value:Q", title=scale.titled("latency"), scale=scale.scale, axis=scale.axis)
    placed = pl.when(pl.col("value").is_not_null()).then(scale.place("value")).alias("value")
    lines = chart(latency.with_columns(placed), "value time", left)
    lines = lines.mark_line(strokeWidth=1.5, strokeJoin="round", clip=True, point={"size": 7})
    return replace(figure, chart=alt.layer(behind, lines).resolve_scale(y="independent"))
