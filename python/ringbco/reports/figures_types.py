"""A report's charts of GPU types: how much of each type's time jobs held, GPU-hours, and power over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import altair as alt
import polars as pl

from ringbco.reports.figures_time import ZOOM, lines
from ringbco.reports.maps import class_figure
from ringbco.reports.series import Figure
from ringbco.result.figures import rows_of
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
_TOLD: Final = {row.key: row.title for row in rows_of("type") if row.sometimes}
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
    return class_figure(
        results,
        data,
        (f"types-{measure.replace('_', '-')}", title, note),
        by="gpu_type",
        classes=names,
        value=measure,
        title="GPU type",
        tips=tips,
        up=None,
        number=number,
        scale=alt.Scale(domain=[0, 1]) if measure == "utilisation" else alt.Scale(domainMin=0),
    )
