"""The scaling curves of `ringbco bench`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.bench import Measurement

_AXES: Final = {
    "jobs": ("jobs", "jobs in the trace", True),
    "servers": ("servers", "servers of 8 GPUs, load kept", True),
    "queue": ("load", "offered load", False),
}


def scaling(measurements: Sequence[Measurement]) -> Any:
    """Engine time per job, in nanoseconds, as jobs, servers and queue grow: one panel each."""
    rows = [
        {
            "group": m.group,
            "label": m.label,
            "jobs": m.jobs,
            "servers": m.servers,
            "load": m.load,
            "cost": 1e9 * m.engine_seconds / m.jobs,
        }
        for m in measurements
    ]
    frame = pl.DataFrame(rows)
    panels = []
    for group, (column, title, logarithmic) in _AXES.items():
        data = frame.filter(pl.col("group") == group)
        if data.is_empty():
            continue
        scale = alt.Scale(type="log") if logarithmic else alt.Scale(zero=False)
        values = data[column].unique().sort().to_list()
        axis = alt.Axis(
            values=values, labelExpr="format(datum.value, '~s')" if logarithmic else "datum.label"
        )
        panels.append(
            alt.Chart(data, title=f"by {title.split(' ')[0] if group != 'queue' else 'queue'}")
            .mark_line(point=True, strokeWidth=2)
            .encode(
                x=alt.X(f"{column}:Q", title=title, scale=scale, axis=axis),
                y=alt.Y("cost:Q", title="engine time per job, ns", scale=alt.Scale(domainMin=0)),
                color=alt.Color("label:N", title=None, legend=alt.Legend(orient="bottom", columns=2)),
            )
            .properties(width=300, height=240)
        )
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
