"""The shape of latency over time, beside the replicas that answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.data_requests import FINEST, SERIES
from ringbco.reports.series import Figure, legend, scaled, short
from ringbco.reports.shapes import STEPS, said
from ringbco.reports.time_axis import over
from ringbco.units import time

_TICKS: Final = 4
"""Of replicas, above 0."""


def against_replicas(figure: Figure, results: Mapping[str, object], data: pl.DataFrame) -> Figure:
    """Two lines of latency, on the left axis; replicas serving over those wanted on the right one.

    data: day, policy and a column for each of `SERIES`.
    """
    latency, replicas = list(SERIES)[:2], list(SERIES)[2:]
    data, x = over(data, results)
    scale = scaled(data, *latency, times=True, finest=FINEST)
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(SERIES), range=list(SERIES.values())),
        legend=legend(list(SERIES), 4),
    )

    def layer(names: list[str], **encodings: Any) -> Any:
        long = data.unpivot(names, index=["day", "policy"], variable_name="series")
        frame = short(long)
        if names[0] in latency:
            texts = [None if value is None else time(value) for value in frame["value"]]
            frame = frame.with_columns(pl.Series("told", texts, dtype=pl.String))
            placed = pl.when(pl.col("value").is_not_null()).then(scale.place("value"))
            frame = frame.with_columns(placed.alias("value"))
        else:
            frame = frame.with_columns(told=pl.col("value").round(1).cast(pl.String))
        drawn = alt.Chart(said(frame, ("series", "told")))
        return drawn.encode(x=x, color=colour, description="said:N", **encodings)

    most = max(1, math.ceil(max(float(data[name].max() or 0.0) for name in replicas)))  # type: ignore[arg-type]
    ticks = list(range(0, most + 1, math.ceil(most / _TICKS)))
    right = alt.Y("value:Q", title="replicas").axis(orient="right", values=ticks, format="d", grid=False)
    right = right.scale(domain=[0, most], nice=False)
    area = layer(replicas[1:], y=right).mark_area(interpolate="step-after", opacity=0.3)
    line = layer(replicas[:1], y=right).mark_line(**STEPS)
    left = alt.Y("value:Q", title=scale.titled("latency"), scale=scale.scale, axis=scale.axis)
    lines = layer(latency, y=left).mark_line(strokeWidth=1.5, strokeJoin="round", clip=True)
    behind = alt.layer(area, line)
    return replace(figure, chart=alt.layer(behind, lines).resolve_scale(y="independent"))
