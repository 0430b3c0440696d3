"""A report's chart of evictions over time."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import polars as pl

from ringbco.reports.figures_time import DAY, spans
from ringbco.reports.series import Figure, chosen, short, strokes
from ringbco.result.outcome import Outcome
from ringbco.result.stays import stays_of_done

_STRETCHES = 96


def evictions(results: Mapping[str, Outcome]) -> list[Figure]:
    """Stays a day that ended so that others could start; nothing where no result tells them."""
    told = {
        label: stays_of_done(found.stays, found.jobs).filter(pl.col("ended") == "evicted")
        for label, found in results.items()
        if "evictions" in found.jobs.columns
    }
    if not told:
        return []
    frames = []
    for label, (first, last) in spans({label: results[label] for label in told}).items():
        edges = np.linspace(first, last, _STRETCHES + 1)
        counts, _ = np.histogram(told[label]["end_time"].to_numpy(), edges)
        a_day = counts / np.diff(edges) * DAY
        frames.append(
            pl.DataFrame(
                {
                    "day": (edges - first) / DAY,
                    "evictions": np.append(a_day, a_day[-1]),
                    "stays": np.append(counts, counts[-1]).astype(np.float64),
                }
            ).with_columns(policy=pl.lit(label))
        )
    chart = (
        alt.Chart(short(pl.concat(frames)))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("day:Q", title="days since the first submission").axis(grid=False).scale(nice=False),
            y=alt.Y("evictions:Q", title="evictions a day").axis(tickCount=5, minExtent=44),
            **strokes(results),
            tooltip=[
                "policy",
                alt.Tooltip("day", format=",.2f"),
                alt.Tooltip("evictions", format=",.2f", title="evictions a day"),
                alt.Tooltip("stays", format=",.0f", title="evictions"),
            ],
        )
    )
    note = "Stays that ended so that others could start, counted over even stretches of time."
    return [Figure("evictions", "Evictions over time", note, chosen(chart, results), height=170)]
