"""A report's charts of GPU types: how much of each type's time jobs held, GPU-hours, and power over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.figures_time import ZOOM, lines
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
_TOLD: Final = {
    "asleep_gpu_hours": "asleep, GPU-hours",
    "energy_kwh": "energy, kWh",
    "cost": "cost",
}
"""Figures of a type that not every result has."""


def by_type(results: Mapping[str, Outcome]) -> list[Figure]:
    """Utilisation and GPU-hours of each type, and the power; none where no result tells GPU types apart."""
    rows = [
        {
            "policy": label,
            "gpu_type": row["gpu_type"],
            **{key: float(row[key]) for key in ("gpus", *_MEASURES)},
            **{key: row.get(key) for key in _TOLD},
        }
        for label, outcome in results.items()
        for row in outcome.summary.get("gpu_types", ())
    ]
    if not rows:
        return []
    data = pl.DataFrame(rows, schema_overrides=dict.fromkeys(_TOLD, pl.Float64), infer_schema_length=None)
    names = data["gpu_type"].unique(maintain_order=True).to_list()
    return [*(_figure(results, data, names, measure) for measure in _MEASURES), *_power(results)]


def _power(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    """What the GPUs of each result draw over time, of those whose types all have watts."""
    drawing = {
        label: replace(outcome, timeline=outcome.timeline.with_columns(kilowatts=pl.col("watts") / 1000.0))
        for label, outcome in results.items()
        if "watts" in outcome.timeline.columns
    }
    if not drawing:
        return
    note = (
        "What all GPUs draw: those held at their type's busy watts, the others at its idle watts, those of"
        " servers that are asleep or down nothing."
    )
    chart = lines(drawing, "kilowatts", "kW", number=",.3~g", among=results)
    yield Figure("types-power", "Power over time", note, chart, height=170, handling=ZOOM)


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
            for key, told in _TOLD.items()
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
