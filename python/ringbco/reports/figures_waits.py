"""A report's answer to who waited, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.maps import class_map, height
from ringbco.reports.series import (
    HOUR,
    MOST_BESIDE,
    Figure,
    chosen,
    colour,
    legend,
    order,
    short,
    size_class,
    size_names,
)
from ringbco.result.outcome import Outcome

CAUSES: Final = {
    "wait_behind": ("behind the head of the queue", "#56B4E9"),
    "wait_gpus": ("not enough idle GPUs", "#0072B2"),
    "wait_fragmented": ("enough idle, but not where it must be", "#CC79A7"),
}
LONGEST: Final = 10
_TIPS: Final = [
    "policy",
    "size",
    alt.Tooltip("jobs", format=","),
    alt.Tooltip("waited", format=".1%", title="waited over a minute"),
    alt.Tooltip("hours", format=",.2f", title="mean wait, h"),
]


def waits(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    """Mean waiting time by job size; cut into its causes, one chart a result, where all results tell them.

    A map of all where there are too many results to stand beside each other.
    """
    told = all(set(CAUSES) <= set(outcome.jobs.columns) for outcome in results.values())
    if len(results) > MOST_BESIDE:
        yield _map(results)
    elif told:
        yield from _by_cause(results)
    else:
        yield _by_size(results)


def _map(results: Mapping[str, Outcome]) -> Figure:
    names = size_names(results)
    data = pl.concat(
        _named(_means(outcome, {"hours": pl.col("waited")}), label, names)
        for label, outcome in results.items()
    )
    chart = class_map(
        results,
        data,
        by="size",
        classes=list(names.values()),
        value="hours",
        title="GPUs of the job",
        tips=_TIPS,
        log=False,
    )
    note = (
        "Mean waiting time by job size, hours; the darker, the longer. The causes are above, in where a job's"
        " time goes; with eight results or fewer they are told by job size."
    )
    return Figure("waits", "Who waited", note, chart, height=height(results))


def _by_size(results: Mapping[str, Outcome]) -> Figure:
    names = size_names(results)
    frames = [
        _named(_means(outcome, {"hours": pl.col("waited")}), label, names)
        for label, outcome in results.items()
    ]
    chart = (
        alt.Chart(short(pl.concat(frames)))
        .mark_bar()
        .encode(
            x=alt.X("size:N", title="GPUs of the job", sort=list(names.values())).axis(labelAngle=0),
            xOffset=alt.XOffset("policy:N", sort=order(results)),
            y=alt.Y("hours:Q", title="mean wait, hours"),
            color=colour(results),
            tooltip=_TIPS,
        )
    )
    note = "Mean waiting time by job size. These results do not say why: they were made without the causes."
    return Figure("waits", "Who waited", note, chosen(chart, results))


def _by_cause(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    names = size_names(results)
    frames = {
        label: _named(_means(outcome, {cause: pl.col(cause) for cause in CAUSES}), label, names)
        for label, outcome in results.items()
    }
    top = max(float(_highest(frame)) for frame in frames.values())
    for number, (label, frame) in enumerate(frames.items(), start=1):
        long = frame.unpivot(
            on=list(CAUSES), index=["policy", "size", "jobs", "waited"], variable_name="cause"
        ).rename({"value": "hours"})
        place = {cause: rank for rank, cause in enumerate(CAUSES)}
        called = {cause: text for cause, (text, _) in CAUSES.items()}
        long = long.with_columns(
            place=pl.col("cause").replace_strict(place, return_dtype=pl.Int64),
            cause=pl.col("cause").replace_strict(called, return_dtype=pl.String),
        )
        title = f"Who waited, and why: {label}" if len(results) > 1 else "Who waited, and why"
        again = " Preempted jobs wait again." if "held_time" in results[label].jobs.columns else ""
        scale = " All results on the same scale." if len(results) > 1 else ""
        note = f"Mean waiting time by job size, cut into its causes.{again}{scale}"
        yield Figure(
            f"waits-{number}",
            title,
            note,
            _stacked(short(long), list(names.values()), top),
            of=label,
            height=210,
            half=len(results) > 1,
        )


def _stacked(data: pl.DataFrame, sizes: list[str], top: float) -> Any:
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X("size:N", title="GPUs of the job", sort=sizes).axis(labelAngle=0),
            y=alt.Y("hours:Q", title="mean wait, hours")
            .stack("zero")
            .scale(domain=[0, top if top > 0 else 1.0]),
            color=alt.Color(
                "cause:N",
                scale=alt.Scale(
                    domain=[text for text, _ in CAUSES.values()],
                    range=[colour for _, colour in CAUSES.values()],
                ),
                legend=legend([text for text, _ in CAUSES.values()], 2),
            ),
            order=alt.Order("place:Q"),
            tooltip=[
                "size",
                "cause",
                alt.Tooltip("hours", format=",.2f", title="mean wait, h"),
                alt.Tooltip("jobs", format=","),
                alt.Tooltip("waited", format=".1%", title="waited over a minute"),
            ],
        )
    )


def _highest(frame: pl.DataFrame) -> float:
    """The tallest of the stacks."""
    return float(frame.select(pl.sum_horizontal(list(CAUSES)).max()).item())


def _means(outcome: Outcome, columns: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """By size class: jobs, the share that waited over a minute, and the columns' means in hours."""
    return (
        outcome.jobs.lazy()
        .group_by(size_class())
        .agg(
            pl.len().alias("jobs"),
            (pl.col("waited") > 60).mean().alias("waited"),
            *(
                (expression.cast(pl.Float64).mean() / HOUR).alias(name)
                for name, expression in columns.items()
            ),
        )
        .sort("size")
        .collect()
    )


def _named(frame: pl.DataFrame, label: str, names: Mapping[int, str]) -> pl.DataFrame:
    return frame.with_columns(
        pl.lit(label).alias("policy"),
        size=pl.col("size").replace_strict(names, return_dtype=pl.String),
    )


def longest(outcome: Outcome) -> pl.DataFrame:
    """The jobs that waited longest, longest first: those that waited at all, at most 10 of them."""
    columns = ["job_id", "num_gpus", "submit_time", "waited", "run_time", "slowdown"]
    columns += [name for name in (*CAUSES, "user", "vc") if name in outcome.jobs.columns]
    return outcome.jobs.filter(pl.col("waited") > 0).top_k(LONGEST, by="waited").select(columns)
