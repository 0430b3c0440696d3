"""Charts of replays, by altair; PNG through vl-convert, so without a browser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import altair as alt
import numpy as np
import polars as pl

from ringbco.errors import one_line
from ringbco.io.json_text import json_text
from ringbco.reports.drawing import draw
from ringbco.reports.names import label_expression, shortened
from ringbco.result import metrics
from ringbco.result.outcome import Outcome
from ringbco.result.window import measured

# Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_FONT: Final = "Liberation Sans, Helvetica, Arial, sans-serif"
TICKS: Final[dict[float, str]] = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3_600: "1 h",
    21_600: "6 h",
    86_400: "1 d",
    432_000: "5 d",
    2_592_000: "30 d",
    31_536_000: "1 y",
}
_BUCKETS: Final = 160
_POINTS: Final = 400
_MOST_ROWS: Final = 4_800
"""Rows of one chart's data, whatever the number of results: below the 5,000 at which altair refuses."""
# Solid, then dashes that differ in length and number: with the colours 64 lines that can be told apart.
DASHES: Final = ([1, 0], [6, 3], [2, 2], [10, 4], [8, 3, 2, 3], [3, 6], [12, 3, 2, 3, 2, 3], [1, 3])
# What XML has no character for, and what ends a line of the script that the drawing library runs.
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_DAY: Final = 86_400.0
_LONGEST: Final = 280  # of a legend's texts, pixels


def comparison(outcomes: Mapping[str, Outcome], *, title: str, num_gpus: int) -> Any:
    """Replays of one trace side by side: completion times, and GPUs busy and asked for over time.

    `outcomes` maps a label to its replay; `num_gpus` is the cluster's size.
    """
    left = _panel(completion_times(outcomes), 380, 396)
    right = alt.vconcat(
        _panel(over_time(outcomes, "busy_gpus", "GPUs busy", limit=num_gpus), 420, 165),
        _panel(over_time(outcomes, "queued_gpus", "GPUs asked for by queued jobs"), 420, 165),
        spacing=24,
    )
    subtitle = f"{next(iter(outcomes.values())).jobs.height:,} jobs on {num_gpus:,} GPUs"
    both = alt.hconcat(left, right, spacing=36).resolve_scale(color="shared")
    return framed(both, title, subtitle).configure_legend(
        labelFontSize=13, symbolStrokeWidth=4, symbolSize=250
    )


def framed(chart: Any, title: str, subtitle: str | list[str]) -> Any:
    """A whole sheet: the title, then the charts, in one style on white."""
    return (
        chart.properties(
            title=alt.TitleParams(
                title,
                subtitle=subtitle,
                anchor="start",
                fontSize=18,
                subtitleFontSize=13,
                subtitleColor="#555",
                offset=16,
            ),
            padding=20,
            background="white",
        )
        .configure(font=_FONT)
        .configure_axis(
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            titleColor="#333",
            gridColor="#e6e6e6",
            domainColor="#888",
            tickColor="#888",
        )
        .configure_view(stroke=None)
        .configure_title(fontSize=14, anchor="start", fontWeight="bold")
    )


def completion_times(outcomes: Mapping[str, Outcome]) -> Any:
    """The share of jobs completed within a time, on a logarithmic axis."""
    return distribution(
        outcomes, "jct", "Jobs completed within a time of their submission", "job completion time"
    )


def distribution(
    outcomes: Mapping[str, Outcome], column: str, title: str, axis_title: str, *, times: bool = True
) -> Any:
    """The share of jobs with at most so much of a column, on a logarithmic axis from 1.

    Less than 1 is shown as 1. times: the column is in seconds, so the axis speaks of minutes, hours and days.
    """
    frames = []
    points = points_each(len(outcomes))
    for label, outcome in outcomes.items():
        value, share = metrics.cumulative_distribution(metrics.column(measured(outcome), column), points)
        frames.append(pl.DataFrame({"policy": label, "value": np.maximum(value, 1.0), "share": share}))
    data = pl.concat(frames)
    largest = max(float(metrics.column(data, "value").max()), 10.0)
    axis = alt.Axis(tickCount=6, format=",~r")
    if times:
        axis = time_axis(largest)
    return (
        alt.Chart(data, title=title)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", title=f"{axis_title} (log scale)", axis=axis).scale(
                type="log", domain=[1, largest]
            ),
            y=alt.Y("share:Q", title="share of jobs").scale(domain=[0, 1]).axis(format="%"),
            **strokes(outcomes),
        )
    )


def points_each(results: int) -> int:
    """Points of a distribution for each of so many results: 400, or fewer of many."""
    return max(2, min(_POINTS, _MOST_ROWS // results))


def intervals_each(results: int) -> int:
    """Intervals for each of so many results: 160, or fewer of many."""
    return max(2, min(_BUCKETS, _MOST_ROWS // results))


def time_axis(largest: float) -> alt.Axis:
    """A logarithmic axis of seconds from 1 to `largest` that speaks of minutes, hours and days."""
    labels = "".join(f"datum.value === {value} ? '{text}' : " for value, text in TICKS.items()) + "''"
    ticks = [value for value in TICKS if value <= largest]
    return alt.Axis(values=ticks, labelExpr=labels, labelFlush=False)


def over_time(
    outcomes: Mapping[str, Outcome],
    column: str,
    title: str,
    *,
    unit: str = "GPUs",
    limit: int | None = None,
) -> Any:
    """A timeline column, averaged over even intervals, against days since the first submission.

    The axis ends when the last job was submitted and, under every policy, the queue was empty for good: what
    follows is only the longest jobs running out.
    """
    end = max(last_demand(outcome) for outcome in outcomes.values())
    buckets = intervals_each(len(outcomes))
    frames = []
    for label, outcome in outcomes.items():
        start = outcome.timeline["time"][0]
        elapsed = (pl.col("time") - start) / (end - start)
        means = (
            outcome.timeline.lazy()
            .filter(elapsed < 1)
            .group_by((elapsed * buckets).floor().alias("bucket"), maintain_order=True)
            .agg(pl.col(column).mean().alias("value"))
            .with_columns(
                day=(pl.col("bucket") + 0.5) * ((end - start) / buckets / _DAY), policy=pl.lit(label)
            )
            .collect()
        )
        frames.append(means)
    scale = alt.Scale(domainMin=0, nice=True) if limit is None else alt.Scale(domain=[0, limit])
    return (
        alt.Chart(pl.concat(frames), title=title)
        .mark_line(strokeWidth=1.5, strokeJoin="round", opacity=0.85)
        .encode(
            x=alt.X("day:Q", title="days since the first submission")
            .axis(grid=False)
            .scale(nice=False, domainMin=0),
            y=alt.Y("value:Q", title=unit, scale=scale).axis(tickCount=5),
            **strokes(outcomes),
        )
    )


def last_demand(outcome: Outcome) -> float:
    """When the last job has been submitted and nothing waits any more, s; past the timeline's first point."""
    timeline = outcome.timeline
    waiting = timeline.filter(pl.col("queued_jobs") > 0)["time"]
    times = [float(metrics.column(outcome.jobs, "submit_time").max()), *waiting.tail(1)]
    return max(times) if max(times) > timeline["time"][0] else float(timeline["time"][-1]) + 1.0


def save_png(chart: Any, path: Path, *, scale: float = 2.0) -> None:
    """Writes the chart as a PNG of `scale` times its size in pixels."""
    path.write_bytes(png(chart, scale=scale))


def png(chart: Any, *, scale: float = 2.0) -> bytes:
    """The chart as a PNG of `scale` times its size in pixels."""
    # Altair refuses 5,000 rows, lest a notebook grow; who makes a chart here has a limit of its own.
    with alt.data_transformers.enable("default", max_rows=None):
        return draw("png", document(chart), scale=scale)


def document(chart: Any) -> str:
    """The chart as the drawing library reads it, which ends the process at a control character in a text."""
    return json_text(drawable(chart.to_dict()), indent=None, sort_keys=True)


def drawable(value: Any) -> Any:
    """A chart's description without control characters, at which the drawing library ends the process."""
    if isinstance(value, str):
        return _NO_XML.sub(lambda found: one_line(found[0]), value)
    if isinstance(value, dict):
        return {drawable(key): drawable(entry) for key, entry in value.items()}
    return [drawable(entry) for entry in value] if isinstance(value, list) else value


def _panel(chart: Any, width: int, height: int) -> Any:
    return chart.properties(width=width, height=height)


def colour(labels: Mapping[str, Outcome]) -> alt.Color:
    """One colour a label, the same in every chart of these outcomes."""
    return alt.Color(
        "policy:N",
        sort=list(labels),
        scale=alt.Scale(domain=list(labels), range=[COLOURS[n % len(COLOURS)] for n in range(len(labels))]),
        legend=_legend(labels),
    )


def _legend(labels: Sequence[str] | Mapping[str, object]) -> alt.Legend:
    # Over the lines there is room for few.
    orient: Any = "top-left" if len(labels) <= len(COLOURS) else "right"
    written = label_expression(shortened(list(labels), _LONGEST)) or "datum.label"
    return alt.Legend(
        title=None, orient=orient, direction="vertical", symbolLimit=0, labelLimit=0, labelExpr=written
    )


def dashes(number: int) -> list[list[int]]:
    """The dash of each of so many lines: the first eight are solid, the next eight share another."""
    return [DASHES[n // len(COLOURS) % len(DASHES)] for n in range(number)]


def strokes(labels: Mapping[str, Outcome]) -> dict[str, Any]:
    """The encoding of lines: colours and, for more outcomes than there are colours, dashes as well."""
    if len(labels) <= len(COLOURS):
        return {"color": colour(labels)}
    names = list(labels)
    scale = alt.Scale(domain=names, range=dashes(len(names)))
    dash = alt.StrokeDash("policy:N", sort=names, scale=scale, legend=_legend(labels))
    return {"color": colour(labels), "strokeDash": dash}
