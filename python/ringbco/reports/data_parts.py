"""What a report's charts of features show: GPU types, shares, elastic jobs, searches, failures, services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.charts import points_each
from ringbco.reports.elastic_lanes import lanes_of
from ringbco.reports.series import HOUR, Part, first_few, scaled
from ringbco.result.figures import rows_of
from ringbco.result.metrics import cumulative_distribution
from ringbco.result.outcome import Outcome
from ringbco.result.stays import stays_of_done
from ringbco.result.window import measured
from ringbco.trace.shares import MILLI_GPU

Results = Mapping[str, Outcome]

MOST_LANES: Final = 8
"""Of a single result; of several each has fewer."""
_FEWEST_LANES: Final = 4
_HELD: Final = {
    1: "\N{LESS-THAN OR EQUAL TO} 1/4",
    2: "\N{LESS-THAN OR EQUAL TO} 1/2",
    3: "< 1",
    4: "1",
    5: "\N{LESS-THAN OR EQUAL TO} 2",
    6: "\N{LESS-THAN OR EQUAL TO} 4",
    7: "> 4",
}
"""Classes of GPUs held / num_gpus."""
_TIMES: Final = {
    0: "never",
    1: "1",
    2: "2",
    3: "3\N{EN DASH}5",
    4: "6\N{EN DASH}10",
    5: "11\N{EN DASH}20",
    6: "21\N{EN DASH}50",
    7: "more",
}
"""Classes of resizes of a job."""
_SOME_TYPES: Final = {row.key: row.title for row in rows_of("type") if row.sometimes}
"""Figures of a type that not every result has."""


def _summary_rows(results: Results, key: str) -> Iterator[dict[str, Any]]:
    """The rows of a list in summary.json, each with its result's label."""
    for label, outcome in results.items():
        yield from ({"policy": label, **row} for row in outcome.summary.get(key, ()))


def types(results: Results) -> Iterator[Part]:
    """What summary.json says of each GPU type; nothing where all GPUs are of one."""
    rows = list(_summary_rows(results, "gpu_types"))
    if len({row["gpu_type"] for row in rows}) < 2:
        return
    numbers = dict.fromkeys((*_SOME_TYPES, "utilisation", "gpu_hours"), pl.Float64)
    names = ["policy", "gpu_type", "gpus", *numbers]
    data = pl.DataFrame([{name: row.get(name) for name in names} for row in rows], schema_overrides=numbers)
    yield Part(data.drop(name for name in _SOME_TYPES if not data[name].count()))


def attainment(results: Results) -> Iterator[Part]:
    """What summary.json says of each service."""
    rows = list(_summary_rows(results, "services"))
    if rows:
        names = ("attainment", "mean_time_to_scale_up", "worst_time_to_scale_up", "gpu_hours")
        yield Part(
            pl.DataFrame(rows, schema_overrides=dict.fromkeys(names, pl.Float64), infer_schema_length=None)
        )


def lost(results: Results) -> Iterator[Part]:
    """GPU-hours of lost work by cause."""
    rows = [
        {"policy": label, "cause": cause, "hours": float(hours), "failures": found.summary.get("failures", 0)}
        for label, found in results.items()
        for cause, hours in found.summary.get("lost_gpu_hours_by_cause", {}).items()
    ]
    if rows:
        yield Part(pl.DataFrame(rows, infer_schema_length=None))


def shares(results: Results) -> Iterator[Part]:
    """Jobs and their waits by the part of a GPU that they ask for."""
    tenth = MILLI_GPU // 10
    share = (pl.col("gpu_share").fill_null(1.0) * MILLI_GPU).round().cast(pl.Int64)
    # The eleventh class is that of whole GPUs.
    number = pl.when(share >= MILLI_GPU).then(11).otherwise((share + tenth - 1) // tenth)
    frames = [
        measured(outcome)
        .group_by(number=number)
        .agg(jobs=pl.len(), waited=pl.col("waited").mean())
        .with_columns(policy=pl.lit(label))
        for label, outcome in results.items()
        if "gpu_share" in outcome.jobs.columns
    ]
    if frames:
        names = {n: f"{n / 10:g}" for n in range(1, 10)} | {10: "< 1", 11: "whole"}
        yield Part(_classed(pl.concat(frames), "number", names))


def _classed(data: pl.DataFrame, by: str, names: Mapping[int, str]) -> pl.DataFrame:
    """Sorted by the number of a class, whose name is in the column `group`."""
    data = data.sort(by, maintain_order=True)
    return data.with_columns(group=pl.col(by).replace_strict(names, return_dtype=pl.String)).drop(by)


def _searching(results: Results) -> dict[str, Outcome]:
    """The results in which a trial reached a rung."""
    return {
        label: found
        for label, found in results.items()
        if found.searches is not None and found.searches["time_to_best"].count()
    }


def to_best(results: Results) -> Iterator[Part]:
    """The share of searches whose best trial had its least loss within a time."""
    told, frames = _searching(results), []
    for label, outcome in told.items():
        assert outcome.searches is not None
        times = outcome.searches["time_to_best"].drop_nulls().to_numpy()
        x, share = cumulative_distribution(times, points_each(len(told)))
        frames.append(pl.DataFrame({"seconds": x, "share": share}).with_columns(policy=pl.lit(label)))
    if frames:
        data = pl.concat(frames)
        scale = scaled(data, "seconds", times=True, grid=True)
        axis = alt.X(
            "seconds:Q", title=scale.titled("time to the best trial"), scale=scale.scale, axis=scale.axis
        )
        yield Part(data.with_columns(scale.place("seconds")), also={"x": axis})


def rungs(results: Results) -> Iterator[Part]:
    """Trials of all searches that reached each rung."""
    frames = []
    for label, outcome in _searching(results).items():
        assert outcome.rungs is not None
        went_on = pl.col("went_on").is_not_null().sum()
        counts = outcome.rungs.group_by("rung").agg(trials=pl.len(), went_on=went_on).sort("rung")
        frames.append(counts.with_columns(policy=pl.lit(label)))
    if frames:
        yield Part(pl.concat(frames))


def _resizing(results: Results) -> tuple[dict[str, pl.DataFrame], str]:
    """The stays of the results that may resize, and what the notes say of the others; none if none did."""
    known = {
        label: stays_of_done(found.stays, found.jobs)
        for label, found in results.items()
        if "min_gpus" in found.jobs.columns and "resizes" in found.summary
    }
    if not any(stays["before"].is_not_null().any() for stays in known.values()):
        return {}, ""
    return known, "" if len(known) == len(results) else " Results without resizing are not shown."


def elastic_lanes(results: Results) -> Iterator[Part]:
    """The GPUs of the job resized most, and of those resized most meanwhile, a chart a result."""
    known, _ = _resizing(results)
    there = {label: results[label] for label, stays in known.items() if stays["before"].is_not_null().any()}
    drawn, others = first_few(there)
    most = max(_FEWEST_LANES, MOST_LANES // max(len(drawn), 1))
    for label, outcome in drawn.items():
        lanes = lanes_of(outcome, known[label], most)
        resized = known[label].filter(pl.col("before").is_not_null())
        hours = float((resized["num_gpus"] * resized["pause"]).sum()) / HOUR
        averaged = " Jobs with very many stays are averaged, without pauses." if lanes.averaged else ""
        jobs = resized["job_id"].n_unique()
        note = (
            f" In total {resized.height:,} resizes of {jobs:,} job{'s' * (jobs > 1)}; their pauses"
            f" held {hours:,.1f} GPU-hours.{averaged}{others}"
        )
        yield Part(lanes.bars, of=label, also={"lanes": lanes}, note=note)


def resized(results: Results) -> Iterator[Part]:
    """Elastic jobs by how often they were resized."""
    return _elastic(results, "times", _TIMES, pl.col("first").sum().cast(pl.Float64))


def held(results: Results) -> Iterator[Part]:
    """GPU-hours of elastic jobs by the GPUs that they held, of num_gpus."""
    return _elastic(results, "ratio", _HELD, pl.col("hours").sum())


def _elastic(results: Results, by: str, names: Mapping[int, str], amount: pl.Expr) -> Iterator[Part]:
    known, note = _resizing(results)
    frames = [
        _elastic_stays(results[label], stays)
        .group_by(by)
        .agg(amount=amount)
        .with_columns(share=pl.col("amount") / pl.col("amount").sum(), policy=pl.lit(label))
        for label, stays in known.items()
    ]
    if frames:
        yield Part(_classed(pl.concat(frames), by, names), note=note)


def _elastic_stays(outcome: Outcome, stays: pl.DataFrame) -> pl.DataFrame:
    """One row per stay of an elastic job: times and ratio (both as classes), hours (GPU-hours).

    first: whether it is its job's first, by which jobs are counted.
    """
    jobs = outcome.jobs.filter(pl.col("min_gpus") < pl.col("max_gpus")).select("job_id", asked="num_gpus")
    found = stays.join(jobs, on="job_id", how="inner")
    ratio = pl.col("num_gpus") / pl.col("asked")
    resizes = pl.col("before").is_not_null().sum().over("job_id")
    return found.select(
        times=pl.sum_horizontal((resizes > most).cast(pl.Int64) for most in (0, 1, 2, 5, 10, 20, 50)),
        ratio=pl.when(ratio == 1)
        .then(4)
        .when(ratio > 1)
        .then(5 + (ratio > 2).cast(pl.Int64) + (ratio > 4).cast(pl.Int64))
        .otherwise(1 + (ratio > 0.25).cast(pl.Int64) + (ratio > 0.5).cast(pl.Int64)),
        first=pl.col("job_id").is_first_distinct(),
        hours=pl.col("num_gpus") * (pl.col("end_time") - pl.col("start_time")) / HOUR,
    )
