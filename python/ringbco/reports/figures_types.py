"""A report's charts of GPU types: how much of each type's time jobs held, and how many GPU-hours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.maps import class_map, height
from ringbco.reports.series import MOST_BESIDE, Figure, chosen, colour, order, short
from ringbco.result.outcome import Outcome

_MEASURES: Final = {
    # key of summary.json's gpu_types: (title, how to read it, number format)
    "utilisation": (
        "Utilisation by GPU type",
        "GPU time of each type that jobs held, of all its GPU time to the makespan.",
        ".0%",
    ),
    "gpu_hours": ("GPU-hours by GPU type", "GPU-hours of each type that jobs held.", ",.0f"),
}


def by_type(results: Mapping[str, Outcome]) -> list[Figure]:
    """Utilisation and GPU-hours of each type; none where no result tells GPU types apart."""
    rows = [
        {
            "policy": label,
            "gpu_type": row["gpu_type"],
            **{key: float(row[key]) for key in ("gpus", *_MEASURES)},
            **{key: row.get(key) for key in ("energy_kwh", "cost")},
        }
        for label, outcome in results.items()
        for row in outcome.summary.get("gpu_types", ())
    ]
    if not rows:
        return []
    costs = {"energy_kwh": pl.Float64, "cost": pl.Float64}
    data = pl.DataFrame(rows, schema_overrides=costs, infer_schema_length=None)
    names = data["gpu_type"].unique(maintain_order=True).to_list()
    return [_figure(results, data, names, measure) for measure in _MEASURES]


def _figure(results: Mapping[str, Outcome], data: pl.DataFrame, names: list[str], measure: str) -> Figure:
    title, note, number = _MEASURES[measure]
    tips = [
        "policy",
        alt.Tooltip("gpu_type", title="GPU type"),
        alt.Tooltip("gpus", format=",", title="GPUs"),
        alt.Tooltip("utilisation", format=".1%"),
        alt.Tooltip("gpu_hours", format=",.0f", title="GPU-hours"),
        *(
            alt.Tooltip(key, format=",.0f", title=told)
            for key, told in (("energy_kwh", "energy, kWh"), ("cost", "cost"))
            if data[key].null_count() < data.height
        ),
    ]
    name = measure.replace("_", "-")
    if len(results) > MOST_BESIDE:
        grid = class_map(
            results, data, by="gpu_type", classes=names, value=measure, title="GPU type", tips=tips, log=False
        )
        return Figure(f"types-{name}", title, f"{note} The darker, the more.", grid, height=height(results))
    return Figure(
        f"types-{name}",
        title,
        note,
        _bars(results, data, names, measure, number=number, tips=tips),
        half=True,
    )


def _bars(
    results: Mapping[str, Outcome],
    data: pl.DataFrame,
    names: list[str],
    measure: str,
    *,
    number: str,
    tips: list[Any],
) -> Any:
    scale = alt.Scale(domain=[0, 1]) if measure == "utilisation" else alt.Scale(domainMin=0)
    chart = (
        alt.Chart(short(data))
        .mark_bar()
        .encode(
            x=alt.X("gpu_type:N", title="GPU type", sort=names).axis(labelAngle=0, labelLimit=90),
            xOffset=alt.XOffset("policy:N", sort=order(results)),
            y=alt.Y(f"{measure}:Q", title=None, scale=scale).axis(format=number, tickCount=5, minExtent=44),
            color=colour(results),
            tooltip=tips,
        )
    )
    return chosen(chart, results)
