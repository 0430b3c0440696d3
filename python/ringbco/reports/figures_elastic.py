"""A report's charts of elastic jobs: GPUs of a job over time, resizes a job, GPUs held of those asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports.elastic_lanes import Lanes, lanes_of
from ringbco.reports.maps import class_figure
from ringbco.reports.series import HOUR, MOST_BESIDE, Figure, legend, short
from ringbco.result.outcome import Outcome
from ringbco.result.stays import stays_of_done

MOST_LANES: Final = 12
"""Of a single result; of several each has fewer."""
_FEWEST_LANES: Final = 4
_LANE: Final = 46  # pixels
STATES: Final = {
    "fewer than num_gpus": "#E69F00",
    "num_gpus": "#8A8A8A",
    "more than num_gpus": "#0072B2",
    "pause": "#D55E00",
}
"""What a job holds, each with its colour."""
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
_TIMES: Final = {0: "never", 1: "1", 2: "2", 3: "3\N{EN DASH}5", 4: "6\N{EN DASH}10", 5: "11\N{EN DASH}20"}
_MORE: Final = {6: "21\N{EN DASH}50", 7: "more"}


def elastic(results: Mapping[str, Outcome]) -> list[Figure]:
    """Lanes of jobs, resizes a job and GPUs held of those asked for; none where no job was resized."""
    known = {
        label: stays_of_done(found.stays, found.jobs)
        for label, found in results.items()
        if "min_gpus" in found.jobs.columns and "resizes" in found.summary
    }
    if not any(stays["before"].is_not_null().any() for stays in known.values()):
        return []
    note = "" if len(known) == len(results) else " Results that may not resize are left out."
    return [*_lanes(results, known), *_by_class(results, known, note)]


def _lanes(results: Mapping[str, Outcome], known: Mapping[str, pl.DataFrame]) -> Iterator[Figure]:
    there = {label: stays for label, stays in known.items() if stays["before"].is_not_null().any()}
    drawn = dict(islice(there.items(), MOST_BESIDE))
    most = max(_FEWEST_LANES, MOST_LANES // len(drawn))
    others = "" if len(there) == len(drawn) else f" The first {len(drawn)} results of {len(there)} only."
    for number, (label, stays) in enumerate(drawn.items(), start=1):
        lanes = lanes_of(results[label], stays, most)
        resized = stays.filter(pl.col("before").is_not_null())
        hours = float((resized["num_gpus"] * resized["pause"]).sum()) / HOUR
        many = (
            f"{resized.height:,} resizes of {resized['job_id'].n_unique():,} jobs, in whose pauses"
            f" {hours:,.1f} GPU-hours were held. "
        )
        beside = f", and the {lanes.jobs - 1} resized most in that time" if lanes.jobs > 1 else ""
        averaged = " A job of very many stays is drawn by means, without pauses." if lanes.averaged else ""
        yield Figure(
            f"elastic-lanes-{number}",
            f"GPUs of a job over time{f': {label}' if len(results) > 1 else ''}",
            f"{many}Here: the job resized most, from its submission to its end{beside}. The higher, the more"
            " GPUs. Dashed lines are num_gpus, dotted ones min_gpus and max_gpus, where they are near what"
            f" was held.{averaged}{others}",
            _chart(lanes),
            of=label,
            height=_LANE * lanes.jobs,
        )


def _chart(lanes: Lanes) -> Any:
    time = alt.X("day:Q", title="days since the first submission")
    time = time.axis(grid=False, tickCount=10, labelOverlap=True)
    time = time.scale(domain=list(lanes.span), nice=False)
    values, texts = list(lanes.ticks), list(lanes.ticks.values())
    told = "".join(
        f"datum.value === {value} ? '{text}' : " for value, text in zip(values, texts, strict=True)
    )
    up = alt.Y("top:Q", title="GPUs").scale(domain=[0, lanes.jobs], reverse=True, nice=False)
    up = up.axis(
        values=values,
        labelExpr=f"{told}''",
        labelOverlap=False,
        grid=False,
        ticks=False,
        domain=False,
        minExtent=44,
    )
    kinds = [*STATES]
    bars = (
        alt.Chart(short(lanes.bars))
        .mark_rect()
        .encode(
            x=time,
            x2="end_day:Q",
            y=up,
            y2="base:Q",
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=kinds, range=list(STATES.values())),
                legend=legend(kinds, 4),
            ),
            tooltip=[
                "job_id",
                alt.Tooltip("gpus", format=",.4~g", title="GPUs"),
                alt.Tooltip("asked", title="num_gpus"),
                alt.Tooltip("least", title="min_gpus"),
                alt.Tooltip("most", title="max_gpus"),
                alt.Tooltip("day", format=",.3f", title="from day"),
                alt.Tooltip("end_day", format=",.3f", title="to day"),
            ],
        )
    )
    rules = (
        alt.Chart(short(lanes.rules))
        .mark_rule(strokeWidth=1, opacity=0.7, color="#8A8A8A")
        .encode(
            x=time,
            x2="end_day:Q",
            y=up,
            strokeDash=alt.StrokeDash(
                "line:N", scale=alt.Scale(domain=["num_gpus", "bound"], range=[[6, 3], [1, 3]]), legend=None
            ),
        )
    )
    names = (
        alt.Chart(lanes.names)
        .mark_text(align="left", baseline="top", fontSize=11, limit=alt.ExprRef("width - 6"), dx=3, dy=2)
        .encode(x=alt.value(0), y=up, text="name:N")
    )
    return alt.layer(bars, rules, names)


def _by_class(
    results: Mapping[str, Outcome], known: Mapping[str, pl.DataFrame], note: str
) -> Iterator[Figure]:
    frames = {label: _elastic_jobs(results[label], stays) for label, stays in known.items()}
    yield _figure(
        results,
        frames,
        "times",
        _TIMES | _MORE,
        (
            "resized",
            "Resizes of a job",
            f"Elastic jobs by how often they were resized.{note}",
            "times resized",
        ),
    )
    yield _figure(
        results,
        frames,
        "ratio",
        _HELD,
        (
            "held",
            "GPUs held of those asked for",
            f"GPU time of elastic jobs by the GPUs that they held, of num_gpus.{note}",
            "GPUs held / num_gpus",
        ),
    )


def _elastic_jobs(outcome: Outcome, stays: pl.DataFrame) -> pl.DataFrame:
    """A row a stay of a job whose GPUs are not fixed: times and ratio (both as classes), hours (GPU-hours).

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


def _figure(
    results: Mapping[str, Outcome],
    frames: Mapping[str, pl.DataFrame],
    by: str,
    classes: Mapping[int, str],
    told: tuple[str, str, str, str],
) -> Figure:
    name, title, note, axis = told
    counted = pl.col("first").sum().cast(pl.Float64) if by == "times" else pl.col("hours").sum()
    data = pl.concat(
        frame.group_by(by)
        .agg(amount=counted)
        .with_columns(share=pl.col("amount") / pl.col("amount").sum(), policy=pl.lit(label))
        for label, frame in frames.items()
    ).sort(by, maintain_order=True)
    there = {number: text for number, text in classes.items() if number in data[by]}
    data = data.with_columns(group=pl.col(by).replace_strict(there, return_dtype=pl.String)).drop(by)
    what = "jobs" if by == "times" else "GPU-hours"
    tips = [
        "policy",
        alt.Tooltip("group", title=axis),
        alt.Tooltip("amount", format=",.0f", title=what),
        alt.Tooltip("share", format=".1%"),
    ]
    return class_figure(
        results,
        data,
        (f"elastic-{name}", title, note),
        by="group",
        classes=list(there.values()),
        value="share",
        title=axis,
        tips=tips,
        up=f"share of {what}",
        number="%",
        limit=60,
    )
