"""What a report's charts of jobs show: where their time goes, by size, by owner, who waited and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import altair as alt
import numpy as np
import polars as pl

from ringbco.reports.charts import points_each
from ringbco.reports.series import Part, first_few, scaled, size_class, size_names
from ringbco.result import metrics
from ringbco.result.causes import WAITS
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome
from ringbco.result.owners import called
from ringbco.result.window import measured

Results = Mapping[str, Outcome]

MOST_OWNERS: Final = 8
"""On the first screen; a chart of their own has more."""
MOST_GROUPS: Final = 16
PARTS: Final = {
    # column: (what it is called, colour); what is no waste first, in greys
    "ideal_run_time": ("running alone", "#B9BEC6"),
    "paused_time": ("paused at rungs", "#DADDE2"),
    "wait_behind": (WAITS["wait_behind"], "#8FC3EA"),
    "wait_gpus": (WAITS["wait_gpus"], "#2B7BBA"),
    "wait_fragmented": (WAITS["wait_fragmented"], "#123F6E"),
    "waited": ("waiting", "#2B7BBA"),
    "run_spread": ("spread", "#F0A94B"),
    "run_contention": ("contention", "#D9541E"),
    "run_beyond": ("running slower", "#D9541E"),
    "lost_time": ("pausing, saving", "#A3341C"),
    "lost_work": ("lost work", "#6E1F12"),
}
CAUSES: Final = {name: PARTS[name] for name in WAITS}
LONGEST: Final = 10
NOBODY: Final = "No job waited."
_NOISE: Final = 1e-6  # s, of a mean
_LITTLE: Final = 1e-4  # of all time: what no bar would show
_OTHERS: Final = "all others"


def means(comparison: Comparison) -> Iterator[Part]:
    """The mean completion time of each result, its interval, and what no schedule is below, s.

    The mean is over the jobs. Over runs it is that of run 0, of fresh tables the median.
    """
    rows: list[tuple[str, float, float | None, float | None, float | None]] = []
    bounds = comparison.bounds
    for label in comparison.outcomes:
        told = comparison.figure(label, "mean_jct")
        if told.value is not None:
            rows.append((label, told.value, *(told.interval or (None, None)), bounds[label]))
    if rows:
        names = ("policy", "mean_jct", "low", "high", "bound")
        schema = {name: pl.String if name == "policy" else pl.Float64 for name in names}
        data = pl.DataFrame(rows, schema=schema, orient="row")
        intervals = bool(data["low"].count())
        note = f" {_over_runs(comparison)}" if intervals else ""
        bound = " Grey: lower bound of any schedule." if data["bound"].count() else ""
        yield Part(
            data,
            also={"ends": ("low", "high") if intervals else None, "least": "bound" if bound else None},
            note=note + bound,
        )


def _over_runs(comparison: Comparison) -> str:
    """What a dot and its line are over the runs."""
    if comparison.variation.kind == "fresh tables":
        return f"Dot: median of {comparison.runs} tables. Line: its 95 % interval."
    return f"Dot: run 0, the jobs as they are. Line: range over {comparison.runs} runs."


def time_split(results: Results) -> Iterator[Part]:
    """The mean completion time of each result, cut into what it was spent on, s."""
    means = {
        label: measured(outcome)
        .lazy()
        .select(*(expression.mean().alias(name) for name, expression in time_columns(outcome).items()))
        .collect()
        .row(0, named=True)
        for label, outcome in results.items()
    }
    rows = [
        (label, PARTS[part][0], list(PARTS).index(part), mean)
        for label, parts in means.items()
        for part, mean in parts.items()
        if abs(mean) > _NOISE
    ]
    schema = {"policy": pl.String, "part": pl.String, "place": pl.Int64, "seconds": pl.Float64}
    data = pl.DataFrame(rows, schema=schema, orient="row")
    saved = data.filter(~pl.col("part").is_in([PARTS["ideal_run_time"][0], PARTS["paused_time"][0]]))
    if np.abs(saved["seconds"]).sum() < _LITTLE * np.abs(data["seconds"]).sum():
        yield Part.none("No job was delayed.")
        return
    yield Part(data)


def time_columns(outcome: Outcome) -> dict[str, pl.Expr]:
    """The parts of a job's completion time, s, as far as the result tells them apart; they add up to it."""
    there = outcome.jobs.columns
    waits = tuple(CAUSES) if set(CAUSES) <= set(there) else ("waited",)
    # Causes are single precision, in which a sum of a million would not be one.
    parts: dict[str, pl.Expr] = {name: pl.col(name).cast(pl.Float64) for name in waits}
    progress = pl.col("run_time")
    if {"held_time", "lost_time"} <= set(there):
        of_some = ("paused_time", "lost_time", "lost_work")
        parts |= {name: pl.col(name) for name in of_some if name in there}
        lost = (pl.col(name) for name in ("lost_time", "lost_work") if name in there)
        progress = pl.col("held_time") - pl.sum_horizontal(lost)
    parts["ideal_run_time"] = pl.col("ideal_run_time")
    for name in ("run_resized", "run_on_type", "run_cut"):  # as if alone on its GPUs, as far as it came
        if name in there:
            parts["ideal_run_time"] += pl.col(name).cast(pl.Float64)
    if {"run_spread", "run_contention"} <= set(there):
        return parts | {name: pl.col(name).cast(pl.Float64) for name in ("run_spread", "run_contention")}
    return parts | {"run_beyond": progress - pl.col("ideal_run_time")}


def within(results: Results, column: str, title: str) -> Iterator[Part]:
    """The share of jobs whose `column` is a time at most; those of which it is 0 apart."""
    each = points_each(len(results))
    frames = []
    for label, outcome in results.items():
        values = metrics.column(measured(outcome), column)
        value, share = metrics.cumulative_distribution(values, each)
        zeros = float((values <= 0).mean())
        later = value > 0
        value, share = value[later], share[later]
        if zeros:
            value, share = np.append(0.0, value), np.append(zeros, share)
        if not later.any():  # a line must lead somewhere
            value, share = np.append(value, 1.0), np.append(share, 1.0)
        frames.append(pl.DataFrame({"policy": label, "seconds": value, "share": share}))
    data = pl.concat(frames)
    if not (data["seconds"] > 1.0).any() and column == "waited":
        yield Part.none(NOBODY)
        return
    scale = scaled(data, "seconds", times=True, grid=True)
    yield Part(
        data.with_columns(scale.place("seconds")),
        also={"x": alt.X("seconds:Q", title=scale.titled(title), scale=scale.scale, axis=scale.axis)},
        note=f" Lines show {each} of their points." if each < points_each(1) else "",
    )


def lost_by_size(results: Results) -> Iterator[Part]:
    """The mean time that jobs took longer than alone, by their size."""
    yield from _lost(results, size_class(), "size", size_names(results))


def lost_by_owner(results: Results, by: Sequence[str] = ()) -> Iterator[Part]:
    """The same by each column of owners, else by virtual cluster or user; nothing without either.

    The owners are those whose jobs lost most together.
    """
    for column, title in _groupings(results, by):
        yield from _lost_by(results, column, title)


def _lost_by(results: Results, by: str, title: str) -> Iterator[Part]:
    jobs = pl.concat(
        measured(outcome).lazy().select(by, beyond().alias("lost")).drop_nulls()
        for outcome in results.values()
    )
    owners = jobs.group_by(by).agg(pl.col("lost").sum(), jobs=pl.len() // len(results))
    ranked = owners.sort("lost", by, descending=[True, False]).collect()
    first = ranked.head(MOST_OWNERS)
    names = {name: _jobs_of(name, jobs) for name, _, jobs in first.iter_rows()}
    rest = ranked.slice(MOST_OWNERS)
    others = _jobs_of(f"{rest.height:,} more", int(rest["jobs"].sum()))
    owner = pl.col(by).replace_strict(names, default=others, return_dtype=pl.String).alias("group")
    called = {name: name for name in [*names.values(), others]}
    yield from _lost(results, owner, "group", called, title=f"Delay by {title}")


_OWNER: Final = {"vc": "virtual cluster", "user": "user"}


def _jobs_of(name: str, jobs: int) -> str:
    return f"{name} ({jobs:,} job{'s' * (jobs != 1)})"


def beyond() -> pl.Expr:
    """How much longer a job took than alone, s; 0 of one that was faster, on more or faster GPUs."""
    return (pl.col("jct") - pl.col("ideal_run_time")).clip(lower_bound=0.0)


def _lost(
    results: Results, of: pl.Expr, by: str, names: Mapping[Any, str], title: str = ""
) -> Iterator[Part]:
    frames = [
        measured(outcome)
        .lazy()
        .with_columns(of)
        .group_by(by)
        .agg(pl.len().alias("jobs"), beyond().mean().alias("lost"))
        .with_columns(policy=pl.lit(label))
        .collect()
        for label, outcome in results.items()
    ]
    data = pl.concat(frames).with_columns(pl.when(pl.col("lost") > _NOISE).then("lost").otherwise(0.0))
    place = {name: number for number, name in enumerate(names)}
    data = data.sort(pl.col(by).replace_strict(place, return_dtype=pl.Int64), maintain_order=True)
    if not (data["lost"] > 0).any():
        yield Part.none("No job took longer than it would alone.", title=title)
        return
    named = data.with_columns(pl.col(by).replace_strict(names, return_dtype=pl.String))
    yield Part(named, title=title)


def sizes(results: Results) -> Iterator[Part]:
    """Completion time by the number of GPUs."""
    names = size_names(results)
    data = pl.concat(
        _spread(measured(outcome).lazy().with_columns(size_class()), "size", "jct", label)
        for label, outcome in results.items()
    ).sort("size", maintain_order=True)
    yield Part(_named(data, names))


def groups(results: Results, by: Sequence[str] = ()) -> Iterator[Part]:
    """Slowdown by each column of owners, else by virtual cluster or user; nothing without either."""
    for column, title in _groupings(results, by):
        yield _slowdown_by(results, column, title)


def _slowdown_by(results: Results, by: str, title: str) -> Part:
    counts = (
        pl.concat(measured(outcome).lazy().select(by).drop_nulls() for outcome in results.values())
        .group_by(by)
        .len()
        .sort(pl.col("len"), pl.col(by), descending=[True, False])
        .collect()
    )
    shown = counts[by].head(MOST_GROUPS).to_list()
    name = pl.when(pl.col(by).is_in(shown)).then(pl.col(by)).otherwise(pl.lit(_OTHERS)).alias("group")
    data = pl.concat(
        _spread(measured(outcome).lazy().with_columns(name), "group", "slowdown", label)
        for label, outcome in results.items()
    )
    place = {name: number for number, name in enumerate([*shown, _OTHERS])}
    data = data.sort(pl.col("group").replace_strict(place, return_dtype=pl.Int64), maintain_order=True)
    some = f"; {MOST_GROUPS} of {counts.height:,} shown" if counts.height > MOST_GROUPS else ""
    return Part(data, title=f"Slowdown by {title}", note=f"{some}.")


def _groupings(results: Results, by: Sequence[str]) -> list[tuple[str, str]]:
    """The columns of owners, and what the owners are called: those asked for, else at most one."""
    if by:
        return [(called(column), column) for column in by]
    found = _grouping(results)
    return [] if found is None else [(found, _OWNER[found])]


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


def waits(results: Results) -> Iterator[Part]:
    """Mean waiting time by job size."""
    data = pl.concat(
        _by_size(outcome, ["waited"]).with_columns(policy=pl.lit(label)) for label, outcome in results.items()
    )
    if not (data["waited"] > 0).any():
        yield Part.none(NOBODY)
        return
    yield Part(_named(data.sort("size", maintain_order=True), size_names(results)))


def waits_by_cause(results: Results) -> Iterator[Part]:
    """Mean waiting time by job size, cut into its causes, a chart a result that tells them."""
    told = {label: found for label, found in results.items() if set(CAUSES) <= set(found.jobs.columns)}
    drawn, others = first_few(told)
    if not drawn:
        return
    names = size_names(results)
    frames = {label: _by_size(outcome, list(CAUSES)) for label, outcome in drawn.items()}
    top = max(frame.select(pl.sum_horizontal(list(CAUSES)).max()).item() for frame in frames.values())
    place = {cause: rank for rank, cause in enumerate(CAUSES)}
    called = {cause: text for cause, (text, _) in CAUSES.items()}
    for label, frame in frames.items():
        long = frame.unpivot(
            on=list(CAUSES), index=["size", "jobs"], variable_name="cause", value_name="wait"
        )
        if not (long["wait"] > 0).any():
            yield Part.none(NOBODY, of=label)
            continue
        again = " Includes waits after preemption." if "held_time" in results[label].jobs.columns else ""
        yield Part(
            _named(long.sort("size", maintain_order=True), names).with_columns(
                place=pl.col("cause").replace_strict(place, return_dtype=pl.Int64),
                cause=pl.col("cause").replace_strict(called, return_dtype=pl.String),
                policy=pl.lit(label),
            ),
            of=label,
            also={"ceiling": top},
            note=again + (" All results share one scale." if len(results) > 1 else "") + others,
        )


def _by_size(outcome: Outcome, columns: list[str]) -> pl.DataFrame:
    """By size class: jobs, and the columns' means, s."""
    return (
        measured(outcome)
        .lazy()
        .group_by(size_class())
        .agg(pl.len().alias("jobs"), *(pl.col(name).cast(pl.Float64).mean() for name in columns))
        .sort("size")
        .collect()
    )


def _named(frame: pl.DataFrame, names: Mapping[int, str]) -> pl.DataFrame:
    """With the classes' names in place of their numbers."""
    return frame.with_columns(size=pl.col("size").replace_strict(names, return_dtype=pl.String))


def longest(outcome: Outcome) -> pl.DataFrame:
    """The jobs that waited longest, longest first: those that waited at all, at most 10 of them."""
    held = "held_time" if "held_time" in outcome.jobs.columns else "run_time"
    columns = ["job_id", "num_gpus", "submit_time", "waited", held, "slowdown"]
    columns += [name for name in (*CAUSES, "user", "vc") if name in outcome.jobs.columns]
    return measured(outcome).filter(pl.col("waited") > _NOISE).top_k(LONGEST, by="waited").select(columns)
