"""The scaling curves of `ringbco bench`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.study.bench import Measurement

_AXES: Final = {
    "jobs": ("jobs", "jobs in the trace"),
    "servers": ("servers", "servers, load kept (triangles: filled)"),
    "queue": ("longest_queue", "longest queue, jobs"),
}


def scaling(measurements: Sequence[Measurement]) -> Any:
    """Engine time per job, in nanoseconds, as jobs, servers and queue grow: one panel each."""
    frame = pl.DataFrame(
        {
            "group": m.group,
            "label": m.label.removesuffix(", filled"),
            "filled": m.arrivals == "filled",
            "jobs": m.jobs,
            "servers": m.servers,
            "longest_queue": max(m.longest_queue, 1),  # the axis is logarithmic
            "cost": 1e9 * m.engine_seconds / m.jobs,
        }
        for m in measurements
    )
    panels = [
        _panel(data, group, column, title)
        for group, (column, title) in _AXES.items()
        if not (data := frame.filter(pl.col("group") == group)).is_empty()
    ]
    return (
        alt.hconcat(*panels, spacing=36)
        .resolve_scale(color="independent")
        .properties(
            title=alt.TitleParams("What one job costs the engine", anchor="start", fontSize=18, offset=14),
            padding=20,
            background="white",
        )
        .configure_view(stroke=None)
        .configure_axis(gridColor="#e6e6e6", titleFontWeight="normal")
    )


def _panel(data: pl.DataFrame, group: str, column: str, title: str) -> Any:
    values = data[column].unique().sort().to_list()
    if group == "queue":  # as long as they come out: ticks at each would lie on top of each other
        values = [10**power for power in range(len(str(values[-1])) + 1)]
    curves = alt.Chart(data, title=f"by {group}").encode(
        x=alt.X(
            f"{column}:Q",
            title=title,
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(values=values, format="," if group == "servers" else "~s"),
        ),
        y=alt.Y("cost:Q", title="engine time per job, ns", scale=alt.Scale(domainMin=0)),
        color=alt.Color("label:N", title=None, legend=alt.Legend(orient="bottom", columns=2)),
    )
    kept = curves.transform_filter("!datum.filled").mark_line(point=True, strokeWidth=2)
    filled = curves.transform_filter("datum.filled").mark_point(shape="triangle-up", filled=True, size=90)
    return alt.layer(kept, filled).properties(width=300, height=240)
