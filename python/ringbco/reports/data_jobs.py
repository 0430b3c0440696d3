"""What a report's charts of jobs show: where their time goes, by size, by group, who waited and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import altair as alt
import polars as pl

from ringbco.reports import charts
from ringbco.reports.series import HOUR, MOST_BESIDE, Part, size_class, size_names
from ringbco.result.outcome import Outcome
from ringbco.result.window import measured

Results = Mapping[str, Outcome]

MOST_GROUPS: Final = 16
PARTS: Final = {
    # column: (what it is called, colour)
    "wait_behind": ("waiting behind the queue's head", "#56B4E9"),
    "wait_gpus": ("waiting for enough idle GPUs", "#0072B2"),
    "wait_fragmented": ("waiting though enough are idle", "#CC79A7"),
    "waited": ("waiting", "#0072B2"),
    "ideal_run_time": ("running, as if alone", "#009E73"),
    "paused_time": ("paused at rungs", "#BFBFBF"),
    "lost_time": ("pausing or saving", "#8C7A3D"),
    "lost_work": ("work lost to failures", "#8A8A8A"),
    "run_spread": ("slower because spread", "#E69F00"),
    "run_contention": ("slower because of contention", "#D55E00"),
    "run_beyond": ("running longer than that", "#D55E00"),
}
CAUSES: Final = {
    "wait_behind": ("behind the head of the queue", "#56B4E9"),
    "wait_gpus": ("not enough idle GPUs", "#0072B2"),
    "wait_fragmented": ("enough idle, but not where it must be", "#CC79A7"),
}
LONGEST: Final = 10
_OF_SOME: Final = ("paused_time", "lost_time", "lost_work")
_NOISE: Final = 1e-6  # s, of a mean


def time_split(results: Results) -> Iterator[Part]:
    """The mean completion time of each result, cut into what it was spent on."""
    rows = []
    for label, outcome in results.items():
        columns = time_columns(outcome)
        means = (
            measured(outcome)
            .lazy()
            .select(*(expression.mean().alias(name) for name, expression in columns.items()))
        )
        for name, mean in means.collect().row(0, named=True).items():
            if abs(mean) > _NOISE or name not in _OF_SOME:
                rows.append((label, PARTS[name][0], list(PARTS).index(name), mean / HOUR))
    yield Part(pl.DataFrame(rows, schema=["policy", "part", "place", "hours"], orient="row"))


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


def within(results: Results, column: str, title: str) -> Iterator[Part]:
    """The share of jobs whose `column` is a time at most."""
    base = charts.distribution(results, column, "", title)
    each = charts.points_each(len(results))
    yield Part(
        base.data.with_columns(hours=pl.col("value") / HOUR),
        also={"x": base.encoding.x, "y": base.encoding.y},
        note=f" Each line is drawn through {each} of its points." if each < charts.points_each(1) else "",
    )


def sizes(results: Results) -> Iterator[Part]:
    """Completion time by the number of GPUs, on half of the page's width where `groups` has the other."""
    names = size_names(results)
    data = pl.concat(
        _spread(measured(outcome).lazy().with_columns(size_class()), "size", "jct", label)
        for label, outcome in results.items()
    ).sort("size", maintain_order=True)
    yield Part(_named(data, names), half=_grouping(results) is not None)


def groups(results: Results) -> Iterator[Part]:
    """Slowdown by virtual cluster, or by user where the jobs name at most one; nothing without either."""
    by = _grouping(results)
    if by is None:
        return
    counts = (
        pl.concat(measured(outcome).lazy().select(by).drop_nulls() for outcome in results.values())
        .group_by(by)
        .len()
        .sort(pl.col("len"), pl.col(by), descending=[True, False])
        .collect()
    )
    shown = counts[by].head(MOST_GROUPS).to_list()
    others = pl.lit("all others")
    name = pl.when(pl.col(by).is_in(shown)).then(pl.col(by)).otherwise(others).alias("group")
    data = pl.concat(
        _spread(measured(outcome).lazy().with_columns(name), "group", "slowdown", label)
        for label, outcome in results.items()
    )
    place = {name: number for number, name in enumerate([*shown, "all others"])}
    data = data.sort(pl.col("group").replace_strict(place, return_dtype=pl.Int64), maintain_order=True)
    what = "virtual cluster" if by == "vc" else "user"
    some = f", {MOST_GROUPS} of {counts.height:,} shown" if counts.height > MOST_GROUPS else ""
    yield Part(data, also={"across": what}, title=f"Slowdown by {what}", note=f"{some}.")


def _grouping(results: Results) -> str | None:
    for name in ("vc", "user"):
        if all(name in outcome.jobs.columns for outcome in results.values()) and any(
            measured(outcome)[name].drop_nulls().n_unique() > 1 for outcome in results.values()
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


def _told(results: Results) -> bool:
    """Whether the causes of waits can be drawn: all results tell them, and their charts have room."""
    causes = all(set(CAUSES) <= set(outcome.jobs.columns) for outcome in results.values())
    return causes and len(results) <= MOST_BESIDE


def waits(results: Results) -> Iterator[Part]:
    """Mean waiting time by job size, where `waits_by_cause` has nothing."""
    if _told(results):
        return
    why = "These results do not say why: they were made without the causes."
    if len(results) > MOST_BESIDE:
        why = (
            "The causes are above, in where a job's time goes; with eight results or fewer they are told by"
            " job size."
        )
    data = pl.concat(_means(outcome, label, ["waited"]) for label, outcome in results.items())
    data = _named(data.sort("size", maintain_order=True), size_names(results))
    yield Part(data.rename({"waited": "hours"}), note=f" {why}")


def waits_by_cause(results: Results) -> Iterator[Part]:
    """Mean waiting time by job size, cut into its causes, a chart a result."""
    if not _told(results):
        return
    names = size_names(results)
    frames = {label: _means(outcome, label, list(CAUSES)) for label, outcome in results.items()}
    top = max(frame.select(pl.sum_horizontal(list(CAUSES)).max()).item() for frame in frames.values())
    place = {cause: rank for rank, cause in enumerate(CAUSES)}
    called = {cause: text for cause, (text, _) in CAUSES.items()}
    up = alt.Y("hours:Q", title="mean wait, hours").stack("zero").scale(domain=[0, top if top > 0 else 1.0])
    several = len(results) > 1
    for label, frame in frames.items():
        index = ["policy", "size", "jobs", "minute"]
        long = frame.unpivot(on=list(CAUSES), index=index, variable_name="cause", value_name="hours")
        again = " Preempted jobs wait again." if "held_time" in results[label].jobs.columns else ""
        scale = " All results on the same scale." if several else ""
        yield Part(
            _named(long, names).with_columns(
                place=pl.col("cause").replace_strict(place, return_dtype=pl.Int64),
                cause=pl.col("cause").replace_strict(called, return_dtype=pl.String),
            ),
            of=label,
            also={"y": up},
            note=again + scale,
            half=several,
        )


def _means(outcome: Outcome, label: str, columns: list[str]) -> pl.DataFrame:
    """By size class: jobs, the share that waited over a minute, and the columns' means in hours."""
    return (
        measured(outcome)
        .lazy()
        .group_by(size_class())
        .agg(
            pl.len().alias("jobs"),
            (pl.col("waited") > 60).mean().alias("minute"),
            *(pl.col(name).cast(pl.Float64).mean() / HOUR for name in columns),
        )
        .sort("size")
        .with_columns(policy=pl.lit(label))
        .collect()
    )


def _named(frame: pl.DataFrame, names: Mapping[int, str]) -> pl.DataFrame:
    """With the classes' names in place of their numbers."""
    return frame.with_columns(size=pl.col("size").replace_strict(names, return_dtype=pl.String))


def longest(outcome: Outcome) -> pl.DataFrame:
    """The jobs that waited longest, longest first: those that waited at all, at most 10 of them."""
    columns = ["job_id", "num_gpus", "submit_time", "waited", "run_time", "slowdown"]
    columns += [name for name in (*CAUSES, "user", "vc") if name in outcome.jobs.columns]
    return measured(outcome).filter(pl.col("waited") > 0).top_k(LONGEST, by="waited").select(columns)
