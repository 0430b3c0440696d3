"""A report's charts of outages: GPUs that were down over time, and what failures took by cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import altair as alt
import numpy as np
import polars as pl

from ringbco.reports.figures_time import DAY, spans
from ringbco.reports.maps import class_figure
from ringbco.reports.series import Figure, colour, short
from ringbco.reports.server_load import server_gpus
from ringbco.result.outcome import Outcome
from ringbco.result.reliability import DownTime
from ringbco.trace.outages import as_outages

_STRETCHES = 96


def outages(results: Mapping[str, Outcome]) -> list[Figure]:
    """GPUs down over time, and lost GPU-hours by cause; none where no result knows outages."""
    failing = {label: found for label, found in results.items() if found.outages is not None}
    return [*_down(failing), *_lost(failing)] if failing else []


def _down(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    # Results side by side mostly have the same outages: each list of them is drawn once.
    frames: list[pl.DataFrame] = []
    seen: list[pl.DataFrame] = []
    for label, (first, last) in spans(dict(results)).items():
        outcome = results[label]
        assert outcome.outages is not None
        if any(outcome.outages.equals(other) for other in seen):
            continue
        seen.append(outcome.outages)
        gpus = np.array(server_gpus(outcome), np.uint32)
        seen_by_clock = as_outages(outcome.outages, gpus.size).on_clock(outcome.run.get("options", {}))
        down = DownTime.of(seen_by_clock, gpus)
        edges = np.linspace(first, last, _STRETCHES + 1)
        mean = [down.gpu_seconds(a, b) / (b - a) for a, b in pairwise(edges.tolist())]
        days = (edges - first) / DAY
        frames.append(
            pl.DataFrame({"day": days, "gpus": [*mean, mean[-1]]}).with_columns(policy=pl.lit(label))
        )
    chart = (
        alt.Chart(short(pl.concat(frames)))
        .mark_area(interpolate="step-after", opacity=0.5, line={"strokeWidth": 1})
        .encode(
            x=alt.X("day:Q", title="days since the first submission").axis(grid=False).scale(nice=False),
            y=alt.Y("gpus:Q", title="GPUs").stack(None).axis(tickCount=5, minExtent=44),
            color=colour(results),
            tooltip=[
                "policy",
                alt.Tooltip("day", format=",.2f"),
                alt.Tooltip("gpus", format=",.2f", title="mean"),
            ],
        )
    )
    note = (
        "GPUs of the servers that were down, means over even stretches of time. Of results with the same"
        " outages the first is drawn."
    )
    yield Figure("outages-down", "GPUs down over time", note, chart, height=170)


def _lost(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    rows = [
        {"policy": label, "cause": cause, "hours": float(hours), "failures": found.summary.get("failures")}
        for label, found in results.items()
        for cause, hours in found.summary.get("lost_gpu_hours_by_cause", {}).items()
    ]
    if not rows:
        return
    data = pl.DataFrame(rows, infer_schema_length=None)
    names = data["cause"].unique(maintain_order=True).to_list()
    note = "GPU-hours of progress since the last checkpoints, by why the server failed."
    tips = ["policy", "cause", alt.Tooltip("hours", format=",.2f", title="lost GPU-hours"), "failures"]
    yield class_figure(
        results,
        data,
        ("outages-lost", "Work lost by cause", note),
        by="cause",
        classes=names,
        value="hours",
        title="cause",
        tips=tips,
        up="GPU-hours",
        number=",.1~f",
    )
