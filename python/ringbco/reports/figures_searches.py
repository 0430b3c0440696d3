"""A report's charts of searches: how soon they had their best trial, how many trials reached each rung."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from ringbco.reports.charts import points_each
from ringbco.reports.series import HOUR, Figure, chosen, short, strokes
from ringbco.result.metrics import cumulative_distribution
from ringbco.result.outcome import Outcome


def searches(results: Mapping[str, Outcome]) -> list[Figure]:
    """Nothing where no trial reached a rung."""
    told = {
        label: found
        for label, found in results.items()
        if found.searches is not None and found.searches["time_to_best"].count()
    }
    return [_to_best(results, told), _rungs(results, told)] if told else []


def _to_best(results: Mapping[str, Outcome], told: Mapping[str, Outcome]) -> Figure:
    frames = []
    for label, outcome in told.items():
        assert outcome.searches is not None
        times = outcome.searches["time_to_best"].drop_nulls().to_numpy()
        x, share = cumulative_distribution(times, points_each(len(told)))
        frames.append(pl.DataFrame({"hours": x / HOUR, "share": share}).with_columns(policy=pl.lit(label)))
    chart = (
        alt.Chart(short(pl.concat(frames)))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("hours:Q", title="hours to the best trial"),
            y=alt.Y("share:Q", title="share of searches").axis(format="%"),
            **strokes(results),
            tooltip=["policy", alt.Tooltip("hours", format=",.2f"), alt.Tooltip("share", format=".1%")],
        )
    )
    note = "Share of searches whose best trial had its least loss within a time of their first submission."
    return Figure("to-best", "Time to the best trial", note, chosen(chart, results), half=True)


def _rungs(results: Mapping[str, Outcome], told: Mapping[str, Outcome]) -> Figure:
    frames = []
    for label, outcome in told.items():
        assert outcome.rungs is not None
        counts = outcome.rungs.group_by("rung").agg(
            trials=pl.len(), went_on=pl.col("went_on").is_not_null().sum()
        )
        frames.append(counts.sort("rung").with_columns(policy=pl.lit(label)))
    chart = (
        alt.Chart(short(pl.concat(frames)))
        .mark_line(point=True, strokeWidth=1.5)
        .encode(
            x=alt.X("rung:O", title="rung").axis(labelAngle=0),
            y=alt.Y("trials:Q", title="trials"),
            **strokes(results),
            tooltip=["policy", "rung", "trials", alt.Tooltip("went_on", title="of them went on")],
        )
    )
    note = "Trials of all searches that reached each rung."
    return Figure("rungs", "Trials at each rung", note, chosen(chart, results), half=True)
