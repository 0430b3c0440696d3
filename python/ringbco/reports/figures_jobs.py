"""A report's charts of jobs: completion and waiting times, by size, by virtual cluster or user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports import charts
from ringbco.reports.figures_waits import CAUSES
from ringbco.reports.maps import class_map, height
from ringbco.reports.series import (
    HOUR,
    MOST_BESIDE,
    Figure,
    chosen,
    colour,
    label_limit,
    legend,
    order,
    short,
    size_class,
    size_names,
    strokes,
    time_axis,
)
from ringbco.result.outcome import Outcome

MOST_GROUPS: Final = 16
_COMPONENTS: Final = {
    # column: (what it is called, colour)
    "wait_behind": ("waiting behind the queue's head", "#56B4E9"),
    "wait_gpus": ("waiting for enough idle GPUs", "#0072B2"),
    "wait_fragmented": ("waiting though enough are idle", "#CC79A7"),
    "waited": ("waiting", "#0072B2"),
    "ideal_run_time": ("running, as if alone", "#009E73"),
    "paused_time": ("paused at rungs", "#BFBFBF"),
    "lost_time": ("resuming, without progress", "#8C7A3D"),
    "lost_work": ("work lost to failures", "#8A8A8A"),
    "run_spread": ("slower because spread", "#E69F00"),
    "run_contention": ("slower because of contention", "#D55E00"),
    "run_beyond": ("running longer than that", "#D55E00"),
}
_OF_SOME: Final = ("paused_time", "lost_time", "lost_work")
_NOISE: Final = 1e-6  # s, of a mean


def time_split(results: Mapping[str, Outcome]) -> Figure:
    """The mean completion time of each result, cut into what it was spent on."""
    rows = []
    for label, outcome in results.items():
        columns = time_columns(outcome)
        means = outcome.jobs.lazy().select(
            *(expression.mean().alias(name) for name, expression in columns.items())
        )
        for name, mean in means.collect().row(0, named=True).items():
            if abs(mean) > _NOISE or name not in _OF_SOME:
                rows.append((label, _COMPONENTS[name][0], list(_COMPONENTS).index(name), mean / HOUR))
    data = pl.DataFrame(rows, schema=["policy", "part", "place", "hours"], orient="row")
    used = [name for name in _COMPONENTS if _COMPONENTS[name][0] in set(data["part"])]
    called = [_COMPONENTS[name][0] for name in used]
    chart = (
        alt.Chart(short(data))
        .mark_bar()
        .encode(
            x=alt.X("hours:Q", title="hours, mean of all jobs")
            .stack("zero")
            .axis(tickCount=alt.ExprRef("min(8, floor(width / 45))")),
            y=alt.Y("policy:N", title=None, sort=order(results)).axis(labelLimit=label_limit()),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=called, range=[_COMPONENTS[name][1] for name in used]),
                legend=legend(called, 3),
            ),
            order=alt.Order("place:Q"),
            tooltip=["policy", "part", alt.Tooltip("hours", format=",.3f")],
        )
    )
    return Figure(
        "time",
        "Where a job's time goes",
        "Mean completion time, from submission to finish, by what it was spent on. As if alone: on the fewest"
        " servers that can hold the job, without contention; an elastic job on the GPUs that it had.",
        chosen(chart, results),
        height=height(results),
    )


def time_columns(outcome: Outcome) -> dict[str, pl.Expr]:
    """The parts of a job's completion time, s, as far as the result tells them apart; they add up to it."""
    there = outcome.jobs.columns
    waits = tuple(CAUSES) if set(CAUSES) <= set(there) else ("waited",)
    # Causes are single precision, in which a sum of a million would not be one.
    parts: dict[str, pl.Expr] = {name: pl.col(name).cast(pl.Float64) for name in waits}
    progress = pl.col("run_time")
    if {"held_time", "lost_time"} <= set(there):
        parts |= {name: pl.col(name) for name in _OF_SOME if name in there}
        lost = (pl.col(name) for name in ("lost_time", "lost_work") if name in there)
        progress = pl.col("held_time") - pl.sum_horizontal(lost)
    parts["ideal_run_time"] = pl.col("ideal_run_time")
    for name in ("run_resized", "run_on_type"):  # as if alone on the GPUs that it had
        if name in there:
            parts["ideal_run_time"] += pl.col(name).cast(pl.Float64)
    if {"run_spread", "run_contention"} <= set(there):
        return parts | {name: pl.col(name).cast(pl.Float64) for name in ("run_spread", "run_contention")}
    return parts | {"run_beyond": progress - pl.col("ideal_run_time")}


def completion(results: Mapping[str, Outcome]) -> Figure:
    """The distribution of completion times."""
    told = "Share of jobs that finished within a time of their submission."
    return _within(results, "jct", "Completion time", told, "jct")


def waiting(results: Mapping[str, Outcome]) -> Figure:
    """The distribution of waiting times."""
    told = "Share of jobs that waited for a time at most, all time off the GPUs counted."
    return _within(results, "wait", "Waiting time", told, "waited")


def _within(results: Mapping[str, Outcome], name: str, title: str, told: str, column: str) -> Figure:
    """The share of jobs whose `column` is a time at most."""
    return Figure(
        name,
        title,
        f"{told} Logarithmic; below a second counts as one.{_points(results)}",
        _distribution(results, column, title.lower()),
        half=True,
    )


def _points(results: Mapping[str, Outcome]) -> str:
    """What the page says of distributions that keep fewer points than usual."""
    each = charts.points_each(len(results))
    return f" Each line is drawn through {each} of its points." if each < charts.points_each(1) else ""


def _distribution(results: Mapping[str, Outcome], column: str, axis_title: str) -> Any:
    base = charts.distribution(results, column, "", axis_title)
    data = short(base.data).with_columns(hours=pl.col("value") / HOUR)
    line = _untitled(base, data).encode(**strokes(results))
    tips = line.mark_point(opacity=0, size=90).encode(
        tooltip=[
            "policy",
            alt.Tooltip("share", format=".1%", title="share of jobs"),
            alt.Tooltip("value", format=",.0f", title="within, s"),
            alt.Tooltip("hours", format=",.2f", title="within, h"),
        ]
    )
    return chosen(alt.layer(line, tips), results)


def _untitled(base: Any, data: pl.DataFrame) -> Any:
    """The chart without its title, which the page sets, and with other data."""
    chart = base.copy()
    chart.title = alt.Undefined
    chart.data = data
    return chart


def sizes(results: Mapping[str, Outcome], *, half: bool) -> Figure:
    """Completion time by the number of GPUs, on half of the page's width or all of it."""
    names = size_names(results)
    frames = [
        _spread(outcome.jobs.lazy().with_columns(size_class()), "size", "jct", label)
        for label, outcome in results.items()
    ]
    data = pl.concat(frames).with_columns(size=pl.col("size").replace_strict(names, return_dtype=pl.String))
    if len(results) > MOST_BESIDE:
        return Figure(
            "sizes",
            "Completion time by job size",
            "The median of each result's jobs of a size; the darker, the longer (logarithmic).",
            class_map(
                results,
                data,
                by="size",
                classes=list(names.values()),
                value="median",
                title="GPUs of the job",
                tips=_tips("size", times=True),
                times=True,
            ),
            height=height(results),
            half=half,
        )
    chart = _ranges(
        results,
        data,
        of=alt.X("size:N", title="GPUs of the job", sort=list(names.values())).axis(labelAngle=0),
        times=True,
        title="completion time (log scale)",
    )
    return Figure(
        "sizes",
        "Completion time by job size",
        "The dot is the median, the line reaches from the 10th to the 90th percentile.",
        chart,
        half=half,
    )


def groups(results: Mapping[str, Outcome]) -> Figure | None:
    """Slowdown by virtual cluster, or by user where the jobs name no more than one; None without either."""
    by = _grouping(results)
    if by is None:
        return None
    counts = (
        pl.concat(outcome.jobs.lazy().select(by).drop_nulls() for outcome in results.values())
        .group_by(by)
        .len()
        .sort(pl.col("len"), pl.col(by), descending=[True, False])
        .collect()
    )
    shown = counts[by].head(MOST_GROUPS).to_list()
    name = pl.when(pl.col(by).is_in(shown)).then(pl.col(by)).otherwise(pl.lit("all others")).alias("group")
    frames = [
        _spread(outcome.jobs.lazy().with_columns(name), "group", "slowdown", label)
        for label, outcome in results.items()
    ]
    data = pl.concat(frames)
    what = "virtual cluster" if by == "vc" else "user"
    names = [*shown, "all others"] if "all others" in set(data["group"]) else shown
    if len(results) > MOST_BESIDE:
        return Figure(
            "groups",
            f"Slowdown by {what}",
            f"The median of each result's jobs; most jobs first{_of_how_many(counts.height)}. The darker, the"
            " larger (logarithmic).",
            class_map(
                results,
                data,
                by="group",
                classes=names,
                value="median",
                title=what,
                tips=_tips("group", times=False),
                angle=-30,
            ),
            height=height(results),
            half=True,
        )
    chart = _ranges(
        results,
        data,
        of=alt.X("group:N", title=what, sort=names).axis(labelAngle=-30, labelLimit=120),
        times=False,
        title="slowdown (log scale)",
    )
    return Figure(
        "groups",
        f"Slowdown by {what}",
        f"Completion time over ideal run time; most jobs first{_of_how_many(counts.height)}. The dot is the"
        " median, the line reaches from the 10th to the 90th percentile.",
        chart,
        half=True,
    )


def _of_how_many(there: int) -> str:
    return f", {MOST_GROUPS} of {there:,} shown" if there > MOST_GROUPS else ""


def _grouping(results: Mapping[str, Outcome]) -> str | None:
    for name in ("vc", "user"):
        if all(name in outcome.jobs.columns for outcome in results.values()) and any(
            outcome.jobs[name].drop_nulls().n_unique() > 1 for outcome in results.values()
        ):
            return name
    return None


def _spread(jobs: pl.LazyFrame, by: str, column: str, label: str) -> pl.DataFrame:
    """Percentiles of a column by group: policy, the group, jobs, low (10th), median, high (90th)."""
    value = pl.col(column)
    return (
        jobs.group_by(by)
        .agg(
            pl.len().alias("jobs"),
            value.quantile(0.1, "linear").alias("low"),
            value.median().alias("median"),
            value.quantile(0.9, "linear").alias("high"),
        )
        .sort(by)
        .select(pl.lit(label).alias("policy"), by, "jobs", "low", "median", "high")
        .collect()
    )


def _decades(floor: float, ceiling: float) -> list[float]:
    """Ticks for a logarithmic axis: 1, 2, 5, 10, ...; powers of ten alone where those would be many."""
    steps = (1, 2, 5) if ceiling / floor < 1e3 else (1,)
    return [
        step * 10.0**power
        for power in range(-3, 12)
        for step in steps
        if floor <= step * 10.0**power <= ceiling
    ]


def _ranges(results: Mapping[str, Outcome], data: pl.DataFrame, *, of: alt.X, times: bool, title: str) -> Any:
    """A dot and a line from low to high for each group and result, side by side."""
    low, high = data["low"].min(), data["high"].max()
    assert isinstance(low, float)
    assert isinstance(high, float)
    # A logarithm has no zero, and a scale from a number to itself no length.
    floor = max(low, 1.0) / 1.2 if times else max(low, 1e-3) / 1.2
    ceiling = max(high, floor * 2) * 1.2
    data = data.with_columns(
        bottom=pl.col("low").clip(floor, ceiling),
        middle=pl.col("median").clip(floor, ceiling),
        top=pl.col("high").clip(floor, ceiling),
    )
    scale = alt.Scale(type="log", domain=[floor, ceiling], nice=False)
    axis = time_axis(floor, ceiling) if times else alt.Axis(values=_decades(floor, ceiling), format=",~g")
    base = alt.Chart(short(data)).encode(
        x=of,
        xOffset=alt.XOffset("policy:N", sort=order(results)),
        color=colour(results),
        tooltip=_tips(of.shorthand, times=times),
    )
    lines = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        y=alt.Y("bottom:Q", title=title, scale=scale, axis=axis), y2="top:Q"
    )
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(y=alt.Y("middle:Q", title=title))
    return chosen(alt.layer(lines, dots), results)


def _tips(of: str, *, times: bool) -> list[Any]:
    number = ",.0f" if times else ",.2f"
    unit = ", s" if times else ""
    return [
        "policy",
        of,
        alt.Tooltip("jobs", format=","),
        alt.Tooltip("median", format=number, title=f"median{unit}"),
        alt.Tooltip("low", format=number, title=f"10th percentile{unit}"),
        alt.Tooltip("high", format=number, title=f"90th percentile{unit}"),
    ]
