"""The GPUs that elastic jobs held over time, as stepped lanes: at most some thousand rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from ringbco.reports.series import DAY
from ringbco.result.outcome import Outcome

MOST_STAYS: Final = 200
"""Stays of a lane that are drawn one by one; of more, means over so many even intervals."""
_ROOM: Final = 0.62  # of a lane, for its bars; the job's name is above
_NEAR: Final = 2.0  # a bound so many times as high as all that was held is not drawn
_APART: Final = 0.22  # of a lane: tick labels that are nearer than this would touch


@dataclass(frozen=True)
class Lanes:
    """Lane n lies between n and n + 1 on the axis, which points down. Days are since the first submission.

    bars: one row per stay or pause: job_id, day, end_day, top, base, state, gpus, asked, least, most.
    rules: lines at num_gpus and at the bounds. names: what is written above each lane. ticks: numbers of GPUs
    at their places. averaged: whether some job had too many stays.
    """

    jobs: int
    span: tuple[float, float]
    bars: pl.DataFrame
    rules: pl.DataFrame
    names: pl.DataFrame
    ticks: dict[float, str]
    averaged: bool


def lanes_of(outcome: Outcome, stays: pl.DataFrame, most: int) -> Lanes:
    """Lanes of the job that was resized most, and of those resized most between its submission and its end.

    So the lanes show who got the GPUs that another lost. At most `most` lanes, all cut to that time; of jobs
    resized as often those that ran longest. stays: those of `stays_of_done`.
    """
    first = float(outcome.timeline["time"][0])
    chosen, (begin, until) = _chosen(outcome, stays, most)
    own = chosen.select("lane", "job_id", "asked", "least", "most", "scale")
    drawn = (
        stays.rename({"num_gpus": "gpus"})
        .join(own, on="job_id", how="inner", maintain_order="left")
        .filter((pl.col("start_time") < until) & (pl.col("end_time") > begin))
        .with_columns(
            day=(pl.max_horizontal("start_time", pl.lit(begin)) - first) / DAY,
            end_day=(pl.min_horizontal("end_time", pl.lit(until)) - first) / DAY,
            pause_end=(pl.min_horizontal(pl.col("start_time") + pl.col("pause"), pl.lit(until)) - first)
            / DAY,
        )
    )
    many = drawn.group_by("job_id").len().filter(pl.col("len") > MOST_STAYS)["job_id"]
    single = drawn.filter(~pl.col("job_id").is_in(many.implode()))
    means = [_means(drawn.filter(pl.col("job_id") == job)) for job in many]
    parts = [single.with_columns(pl.col("gpus").cast(pl.Float64)), *means]
    bars = pl.concat(
        (_bars(pl.concat(parts, how="diagonal_relaxed")), _pauses(single)), how="vertical_relaxed"
    )
    lines, ticks = _lines(chosen, first, begin, until)
    names = chosen.select(
        top="lane",
        name=pl.format(
            "{}: {} to {} GPUs, asks for {}, {}",
            "job_id",
            "least",
            "most",
            "asked",
            pl.when(pl.col("resizes") == 1)
            .then(pl.lit("1 resize"))
            .otherwise(pl.format("{} resizes", "resizes")),
        ),
    )
    span = (begin - first) / DAY, (until - first) / DAY
    return Lanes(chosen.height, span, bars, lines, names, ticks, averaged=bool(means))


def _chosen(outcome: Outcome, stays: pl.DataFrame, most: int) -> tuple[pl.DataFrame, tuple[float, float]]:
    """The jobs of the lanes (lane, facts, and scale: the GPUs of a full lane), and what time is drawn, s."""
    resized = pl.col("before").is_not_null()
    jobs = outcome.jobs.select(
        "job_id",
        "submit_time",
        "finish_time",
        "run_time",
        asked=pl.col("num_gpus").cast(pl.Int64),
        least=pl.col("min_gpus").cast(pl.Int64),
        most=pl.col("max_gpus").cast(pl.Int64),
    ).join(stays.group_by("job_id").agg(resizes=resized.sum()), on="job_id", maintain_order="left")
    top = jobs.sort("resizes", "run_time", descending=True, maintain_order=True).row(0, named=True)
    begin, until = float(top["submit_time"]), float(top["finish_time"])
    inside = stays.filter((pl.col("start_time") <= until) & (pl.col("end_time") >= begin))
    counts = inside.group_by("job_id").agg(
        within=(resized & (pl.col("start_time") >= begin)).sum(), held=pl.col("num_gpus").max()
    )
    high = pl.max_horizontal("held", "asked")
    return (
        jobs.join(counts.filter(pl.col("within") > 0), on="job_id", maintain_order="left")
        .sort("within", "run_time", descending=True, maintain_order=True)
        .head(most)
        .sort("submit_time", maintain_order=True)
        .with_columns(scale=pl.when(pl.col("most") <= _NEAR * high).then("most").otherwise(high))
        .with_row_index("lane")
        .with_columns(pl.col("lane").cast(pl.Float64))
    ), (begin, until)


def _at(gpus: str) -> pl.Expr:
    """Where so many GPUs are in their lane."""
    return pl.col("lane") + 1.0 - _ROOM * pl.col(gpus) / pl.col("scale")


_TOLD: Final = ("job_id", "day", "end_day", "top", "base", "state", "gpus", "asked", "least", "most")


def _bars(stays: pl.DataFrame) -> pl.DataFrame:
    state = (
        pl.when(pl.col("gpus") < pl.col("asked"))
        .then(pl.lit("fewer than num_gpus"))
        .when(pl.col("gpus") > pl.col("asked"))
        .then(pl.lit("more than num_gpus"))
        .otherwise(pl.lit("num_gpus"))
    )
    return stays.with_columns(top=_at("gpus"), base=pl.col("lane") + 1.0, state=state).select(_TOLD)


def _pauses(stays: pl.DataFrame) -> pl.DataFrame:
    found = stays.filter((pl.col("pause") > 0) & (pl.col("pause_end") > pl.col("day")))
    found = found.with_columns(end_day="pause_end")
    return _bars(found).with_columns(state=pl.lit("pause"))


def _means(stays: pl.DataFrame) -> pl.DataFrame:
    """The stays of one job as means over even intervals from its first start to its end."""
    start, end = stays["day"].to_numpy(), stays["end_day"].to_numpy()
    gpus = stays["gpus"].to_numpy().astype(np.float64)
    edges = np.linspace(start[0], end[-1], MOST_STAYS + 1)
    # GPU-days held up to each start and end; between them it is a line.
    times = np.column_stack((start, end)).ravel()
    held = np.cumsum(np.column_stack((np.zeros_like(gpus), gpus * (end - start))).ravel())
    mean = np.diff(np.interp(edges, times, held)) / np.diff(edges)
    facts = stays.head(1).drop("day", "end_day", "gpus")
    return pl.DataFrame({"day": edges[:-1], "end_day": edges[1:], "gpus": mean.round(6)}).join(
        facts, how="cross"
    )


def _lines(
    chosen: pl.DataFrame, first: float, begin: float, until: float
) -> tuple[pl.DataFrame, dict[float, str]]:
    """Lines at num_gpus and the bounds, from submission to finish, and the numbers beside them."""
    rows, ticks = [], {}
    for job in chosen.iter_rows(named=True):
        day = (max(job["submit_time"], begin) - first) / DAY
        end = (min(job["finish_time"], until) - first) / DAY
        taken: list[float] = []
        for kind in ("asked", "most", "least"):
            at = job["lane"] + 1.0 - _ROOM * job[kind] / job["scale"]
            if job[kind] > job["scale"]:
                continue
            rows.append((day, end, at, "num_gpus" if kind == "asked" else "bound"))
            if all(abs(at - other) >= _APART for other in taken):
                taken.append(at)
                ticks[round(at, 6)] = f"{job[kind]:,}"
    return pl.DataFrame(rows, schema=["day", "end_day", "top", "line"], orient="row"), ticks
