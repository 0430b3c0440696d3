"""What the report shows of jobs on the same GPUs: how many GPUs have several, and what that cost and gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import altair as alt
import numpy as np
import polars as pl

from ringbco.reports.charts import points_each
from ringbco.reports.data_time import edges_of, means_of, steps
from ringbco.reports.series import HOUR, Part, first_few, scaled
from ringbco.result.metrics import cumulative_distribution
from ringbco.result.outcome import Outcome
from ringbco.result.window import measured

Results = Mapping[str, Outcome]

FILL: Final = {"one job": "#8FC3EA", "several jobs": "#2B7BBA"}
"""How many jobs a GPU has, each with its colour."""
MOST_NOTES: Final = 5
"""Results of which a note tells the mean."""
_SEAT: Final = ("seat", "time")


def _seated(results: Results) -> dict[str, Outcome]:
    """The results that say which jobs were on the same GPUs."""
    return {
        label: found
        for label, found in results.items()
        if found.allocations is not None and "seat" in found.allocations.columns
    }


def _stays(outcome: Outcome) -> pl.DataFrame:
    """The stays on seats: job_id, stay, seat, gpus, start_time, end_time."""
    assert outcome.allocations is not None
    return (
        outcome.allocations.filter(pl.col("seat").is_not_null())
        .group_by("job_id", "stay", maintain_order=True)
        .agg(pl.col("seat", "start_time", "end_time").first(), gpus=pl.col("num_gpus").sum())
    )


def _changes(stays: pl.DataFrame) -> pl.DataFrame:
    """Each instant at which jobs of a seat come or go: GPUs, and the jobs before and after."""
    return (
        pl.concat(
            stays.select("seat", "gpus", time=time, change=pl.lit(sign, pl.Int64))
            for time, sign in (("start_time", 1), ("end_time", -1))
        )
        .group_by(_SEAT)
        .agg(pl.col("gpus").first(), pl.col("change").sum())
        .sort(_SEAT)
        .with_columns(after=pl.col("change").cum_sum().over("seat"))
        .with_columns(before=pl.col("after") - pl.col("change"))
    )


def fill(results: Results) -> Iterator[Part]:
    """GPUs with one job and with several, a chart a result."""
    drawn, others = first_few(_seated(results))
    for label, edges in edges_of(drawn).items() if drawn else ():
        changes = _changes(_stays(drawn[label])).sort("time")
        time, gpus = changes["time"].to_numpy(), changes["gpus"].to_numpy().astype(np.float64)
        before, after = (changes[name].to_numpy() for name in ("before", "after"))
        several = (after > 1).astype(np.float64) - (before > 1)
        some = (after > 0).astype(np.float64) - (before > 0)
        parts = zip(FILL, (some - several, several), strict=True)
        frames = [
            steps(edges, {"gpus": means_of(time, change * gpus, edges)}, state=state, place=place)
            for place, (state, change) in enumerate(parts)
        ]
        yield Part(pl.concat(frames), of=label, note=others)


def beside(outcome: Outcome) -> pl.DataFrame:
    """The jobs that made progress on GPUs with others: job_id and, in GPU-seconds, met, longer and part.

    met: of progress beside others; longer: what of it they cost, as run_contention; part: its part of those
    GPUs. Jobs that shared links or lost work are not told of: their run_contention says more.
    """
    stays, changes = _stays(outcome), _changes(_stays(outcome))
    lasts = (pl.col("time").shift(-1) - pl.col("time")).over("seat").fill_null(0.0)
    each = {"met": pl.col("after") > 1, "part": pl.when(pl.col("after") > 1).then(1.0 / pl.col("after"))}
    rates = {name: rate.cast(pl.Float64).fill_null(0.0) for name, rate in each.items()}
    changes = changes.with_columns(lasts.alias("lasts"), **rates).with_columns(
        (pl.col("lasts") * pl.col(name)).cum_sum().over("seat").alias(f"{name}_then") for name in rates
    )
    pauses = outcome.stays.select("job_id", "stay", pl.col("pause").fill_null(0.0))
    found = stays.join(pauses, on=("job_id", "stay"), how="left", maintain_order="left").with_columns(
        begin=pl.min_horizontal(pl.col("start_time") + pl.col("pause"), "end_time")
    )

    def up_to(time: str, name: str) -> pl.Series:
        """The integral of a rate of each stay's seat up to an instant."""
        asked = found.select("seat", pl.col(time).alias("at")).with_row_index().sort("at")
        then = changes.select("seat", "time", "lasts", name, f"{name}_then").sort("time")
        at = asked.join_asof(then, left_on="at", right_on="time", by="seat", check_sortedness=False)
        less = (pl.col("lasts") - (pl.col("at") - pl.col("time"))) * pl.col(name)
        return at.select("index", own=pl.col(f"{name}_then") - less).sort("index")["own"]

    sums = (
        found.select(
            "job_id",
            met=(up_to("end_time", "met") - up_to("begin", "met")) * found["gpus"],
            part=(up_to("end_time", "part") - up_to("start_time", "part")) * found["gpus"],
            gpus="gpus",
        )
        .group_by("job_id")
        .agg(pl.col("met", "part").sum(), pl.col("gpus").first())
    )
    jobs = measured(outcome)
    whole = pl.col("max_contention") <= 1
    if "lost_work" in jobs.columns:
        whole &= pl.col("lost_work") == 0
    own = jobs.filter(whole).select("job_id", "run_contention")
    return (
        own.join(sums, on="job_id", how="inner", maintain_order="left")
        .filter(pl.col("met") > 0)
        .select("job_id", "met", "part", longer=pl.col("run_contention") * pl.col("gpus"))
    )


def slowdowns(results: Results) -> Iterator[Part]:
    """The share of jobs that were at most so much slower on GPUs with others than alone there."""
    told, frames = _seated(results), []
    for label, outcome in told.items():
        jobs = beside(outcome)
        alone = jobs["met"] - jobs["longer"]
        slower = (jobs["met"] / alone).filter(alone > 0).to_numpy()
        if slower.size:
            x, share = cumulative_distribution(slower, points_each(len(told)))
            frames.append(pl.DataFrame({"slowdown": x, "share": share}).with_columns(policy=pl.lit(label)))
    if not frames:
        if told:
            yield Part.none("No job was on the same GPUs as another.")
        return
    data = pl.concat(frames)
    scale = scaled(data, "slowdown", times=False, near=True, grid=True)
    axis = alt.X("slowdown:Q", title=scale.titled("slow-down"), scale=scale.scale, axis=scale.axis)
    yield Part(data.with_columns(scale.place("slowdown")), also={"x": axis})


def hours(results: Results) -> Iterator[Part]:
    """GPU-hours with several jobs, by which these ran longer, and of what they did beyond one job."""
    rows, notes = [], []
    for label, outcome in _seated(results).items():
        met, part, longer = (
            float(value) for value in beside(outcome).select(pl.col("met", "part", "longer").sum()).row(0)
        )
        if met <= max(longer, 0.0):
            continue
        told = {"with several jobs": part, "longer runs": longer, "work beyond one job": met - longer - part}
        rows += [{"policy": label, "what": what, "hours": own / HOUR} for what, own in told.items()]
        of = f" under {label}" if len(results) > 1 else ""
        notes.append(f" Mean slow-down beside others{of}: {met / (met - longer):,.3g}.")
    if rows:
        yield Part(pl.DataFrame(rows), note="".join(notes[:MOST_NOTES]))
