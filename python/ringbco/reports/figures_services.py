"""A report's charts of services: replicas wanted and served over time, and attainment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.reports.figures_time import DAY, spans
from ringbco.reports.maps import class_figure
from ringbco.reports.series import Figure, chosen, colour, short
from ringbco.result.outcome import Outcome

_STRETCHES = 96
_MOST_SERVICES = 6

Floats = NDArray[np.float64]


def services(results: Mapping[str, Outcome]) -> list[Figure]:
    """Replicas over time by service, and attainment; none where no result knows services."""
    serving = {label: found for label, found in results.items() if found.replicas is not None}
    return [*_over_time(serving), *_attainment(serving)] if serving else []


def _over_time(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    names = _names(results)
    if not names:
        return
    frames = []
    wishes: list[pl.DataFrame] = []
    for label, (first, last) in spans(dict(results)).items():
        outcome = results[label]
        assert outcome.services is not None
        assert outcome.replicas is not None
        # Results side by side mostly have the same services: what these want is drawn once.
        known = any(outcome.services.equals(other) for other in wishes)
        wishes.append(outcome.services)
        edges = np.linspace(first, last, _STRETCHES + 1)
        for name in names[:_MOST_SERVICES]:
            mine = outcome.replicas.filter(pl.col("service") == name)
            held = _mean(mine["start_time"].to_numpy(), np.ones(mine.height), edges)
            held -= _mean(mine["end_time"].to_numpy(), np.ones(mine.height), edges)
            frames.append(_steps(edges, held, policy=label, service=name, wanted=False))
            if not known:
                rows = outcome.services.filter(pl.col("service") == name).sort("time")
                change = np.diff(rows["replicas"].to_numpy().astype(np.float64), prepend=0.0)
                wanted = _mean(rows["time"].to_numpy(), change, edges)
                frames.append(_steps(edges, wanted, policy=label, service=name, wanted=True))
    data = pl.concat(frames)
    note = "Replicas that run, and in grey those that the service wants, means over even stretches of time."
    if len(names) > _MOST_SERVICES:
        note += f" The first {_MOST_SERVICES} services of {len(names)} are drawn."
    for number, name in enumerate(names[:_MOST_SERVICES], start=1):
        yield Figure(
            f"services-replicas-{number}",
            f"Replicas of {name}",
            note,
            _lines(results, data.filter(pl.col("service") == name)),
            height=140,
        )
        note = ""


def _mean(times: Floats, changes: Floats, edges: Floats) -> Floats:
    """Means, over each stretch between two edges, of a sum that changes at these times."""
    after = np.maximum(edges[1:, None] - np.maximum(times[None, :], edges[:-1, None]), 0.0)
    found: Floats = (after * changes[None, :]).sum(axis=1) / np.diff(edges)
    return found


def _steps(edges: Floats, mean: Floats, **facts: str | bool) -> pl.DataFrame:
    days = (edges - edges[0]) / DAY
    return pl.DataFrame({"day": days, "replicas": np.append(mean, mean[-1])}).with_columns(
        **{name: pl.lit(value) for name, value in facts.items()}
    )


def _lines(results: Mapping[str, Outcome], data: pl.DataFrame) -> Any:
    tips: list[Any] = [
        "policy",
        alt.Tooltip("day", format=",.2f"),
        alt.Tooltip("replicas", format=",.2f", title="mean"),
    ]
    base = alt.Chart(short(data.drop("service"))).encode(
        x=alt.X("day:Q", title="days since the first submission").axis(grid=False).scale(nice=False),
        y=alt.Y("replicas:Q", title="replicas").axis(tickCount=4, minExtent=44),
        tooltip=tips,
    )
    area = base.mark_area(interpolate="step-after", color="#8a8a8a", opacity=0.35)
    line = base.mark_line(interpolate="step-after", strokeWidth=1.5)
    return alt.layer(
        area.transform_filter("datum.wanted"),
        chosen(line.transform_filter("!datum.wanted").encode(color=colour(results)), results),
    )


def _attainment(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    rows = [
        {
            "policy": label,
            "service": row["service"],
            "attainment": float(row["attainment"]),
            "scale_up": row["mean_time_to_scale_up"],
            "worst": row["worst_time_to_scale_up"],
            "hours": float(row["gpu_hours"]),
        }
        for label, found in results.items()
        for row in found.summary.get("services", [])
    ]
    if not rows:
        return
    schema = {"scale_up": pl.Float64, "worst": pl.Float64}
    data = pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)
    names = data["service"].unique(maintain_order=True).to_list()
    tips = [
        "policy",
        "service",
        alt.Tooltip("attainment", format=".2%"),
        alt.Tooltip("scale_up", format=",.1f", title="mean time to scale up, s"),
        alt.Tooltip("worst", format=",.1f", title="worst, s"),
        alt.Tooltip("hours", format=",.1f", title="GPU-hours"),
    ]
    yield class_figure(
        results,
        data,
        ("services-attainment", "Attainment", "Replica-seconds served, of those wanted."),
        by="service",
        classes=names,
        value="attainment",
        title="service",
        tips=tips,
        up="served, of wanted",
        number="%",
        scale=alt.Scale(domain=[0, 1]),
    )


def _names(results: Mapping[str, Outcome]) -> list[str]:
    """All services, in the order of their first rows."""
    found: dict[str, None] = {}
    for outcome in results.values():
        if outcome.services is not None:
            found |= dict.fromkeys(outcome.services["service"].to_list())
    return list(found)
