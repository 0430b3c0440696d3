"""A report's charts of shares: how full GPUs are over time, and jobs and their waits by share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.reports.figures_time import DAY, spans
from ringbco.reports.maps import class_figure
from ringbco.reports.series import HOUR, MOST_BESIDE, Figure, legend, short
from ringbco.reports.server_load import server_gpus
from ringbco.result.outcome import Outcome
from ringbco.trace.shares import WHOLE

STATES: Final = {
    "full": "#0072B2",
    "partly held: held": "#56B4E9",
    "partly held: free": "#E69F00",
    "idle": "#8A8A8A",
}
"""What GPUs are, each with its colour; of those held in part what is held, and what is free."""
_STRETCHES: Final = 96
_MEASURES: Final = {
    # column: (name, title, how to read it, title of the axis, number format)
    "jobs": ("jobs", "Shares asked for", "Jobs by the part of a GPU that they ask for.", "jobs", ",.0f"),
    "hours": ("waits", "Waits by share", "Mean waiting time by that part.", "mean wait, hours", ",.3~f"),
}


def by_share(results: Mapping[str, Outcome]) -> list[Figure]:
    """How full GPUs are, result by result, then jobs and waits by share; none where no job asks for one."""
    shared = {label: found for label, found in results.items() if "gpu_share" in found.jobs.columns}
    if not shared:
        return []
    return [*_over_time(shared), *_by_class(shared)]


def _over_time(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    there = {label: found for label, found in results.items() if found.allocations is not None}
    if not there:
        return
    drawn = dict(islice(there.items(), MOST_BESIDE))
    others = "" if len(there) == len(drawn) else f" The first {len(drawn)} results of {len(there)} only."
    start_end = spans(drawn)
    for number, (label, outcome) in enumerate(drawn.items(), start=1):
        yield Figure(
            f"shares-fill-{number}",
            f"How full GPUs are{f': {label}' if len(results) > 1 else ''}",
            "GPUs by what jobs hold of them, means over even stretches of time. What is free of GPUs that are"
            f" held in part is of no use to a job of whole GPUs.{others}",
            _areas(fill(outcome, np.linspace(*start_end[label], _STRETCHES + 1)), start_end[label]),
            of=label,
            height=190,
        )


def fill(outcome: Outcome, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """GPUs in each of the STATES, a row each: means between each two neighbouring `edges`, s."""
    assert outcome.allocations is not None
    gpu = ("server", "gpu")
    need = (pl.col("share").fill_null(1.0) * WHOLE).round().cast(pl.Int64)
    changes = (
        pl.concat(
            outcome.allocations.select(*gpu, time=time, change=sign * need)
            for time, sign in (("start_time", 1), ("end_time", -1))
        )
        .group_by(*gpu, "time")
        .agg(pl.col("change").sum())
        .sort(*gpu, "time")
        .with_columns(after=pl.col("change").cum_sum().over(gpu))
        .sort("time")
    )
    after = changes["after"].to_numpy()
    before = after - changes["change"].to_numpy()
    since = np.maximum(changes["time"].to_numpy() - edges[0], 0.0)
    upto = edges - edges[0]
    place = np.searchsorted(since, upto)

    def mean(thousandths: Any) -> NDArray[np.float64]:
        """Of a quantity that each GPU has by what is held of it."""
        steps = (thousandths(after) - thousandths(before)).astype(np.float64)
        risen, weighed = (np.concatenate(([0.0], np.cumsum(of))) for of in (steps, steps * since))
        seconds = risen[place] * upto - weighed[place]
        # Rounding leaves a little where nothing is held.
        found: NDArray[np.float64] = (np.diff(seconds) / np.diff(upto) / WHOLE).round(6)
        return found

    full = mean(lambda held: np.where(held >= WHOLE, WHOLE, 0))
    used = mean(lambda held: np.where(held < WHOLE, held, 0))
    free = mean(lambda held: np.where((held > 0) & (held < WHOLE), WHOLE - held, 0))
    return np.stack((full, used, free, sum(server_gpus(outcome)) - full - used - free))


def _areas(grid: NDArray[np.float64], span: tuple[float, float]) -> Any:
    steps = np.linspace(0.0, (span[1] - span[0]) / DAY, _STRETCHES + 1)
    data = pl.concat(
        # The last value once more: a step ends where the next one begins.
        pl.DataFrame({"day": steps, "state": state, "place": place, "gpus": np.append(row, row[-1])})
        for place, (state, row) in enumerate(zip(STATES, grid, strict=True))
    )
    return (
        alt.Chart(short(data))
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X("day:Q", title="days since the first submission").axis(grid=False).scale(nice=False),
            y=alt.Y("gpus:Q", title="GPUs").stack("zero").axis(tickCount=5, minExtent=44).scale(nice=False),
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=list(STATES), range=list(STATES.values())),
                legend=legend(list(STATES), 4),
            ),
            # Faint, so that the eye is with the others.
            opacity=alt.condition("datum.state === 'idle'", alt.value(0.25), alt.value(1.0)),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("state", title="GPUs"),
                alt.Tooltip("day", format=",.2f"),
                alt.Tooltip("gpus", format=",.2f", title="mean"),
            ],
        )
    )


def _by_class(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    tenth = WHOLE // 10
    share = (pl.col("gpu_share").fill_null(1.0) * WHOLE).round().cast(pl.Int64)
    # The eleventh class is that of whole GPUs.
    number = pl.when(share >= WHOLE).then(11).otherwise((share + tenth - 1) // tenth)
    frames = [
        outcome.jobs.group_by(number=number)
        .agg(jobs=pl.len(), hours=pl.col("waited").mean() / HOUR)
        .with_columns(policy=pl.lit(label))
        for label, outcome in results.items()
    ]
    data = pl.concat(frames).sort("number", maintain_order=True)
    texts = {n: f"{n / 10:g}" for n in range(1, 10)} | {10: "< 1", 11: "whole"}
    data = data.with_columns(share=pl.col("number").replace_strict(texts, return_dtype=pl.String))
    names = data["share"].unique(maintain_order=True).to_list()
    for measure in _MEASURES:
        yield _figure(results, data, names, measure)


def _figure(results: Mapping[str, Outcome], data: pl.DataFrame, names: list[str], measure: str) -> Figure:
    name, title, note, axis, number = _MEASURES[measure]
    asked = "share of a GPU, up to"
    tips = [
        "policy",
        alt.Tooltip("share", title=asked),
        alt.Tooltip("jobs", format=","),
        alt.Tooltip("hours", format=",.2f", title="mean wait, h"),
    ]
    return class_figure(
        results,
        data,
        (f"shares-{name}", title, note),
        by="share",
        classes=names,
        value=measure,
        title=asked,
        tips=tips,
        up=axis,
        number=number,
        limit=alt.Undefined,
    )
