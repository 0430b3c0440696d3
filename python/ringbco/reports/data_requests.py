"""What a report's charts of requests show: latency over time, distributions, GPUs lent to training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.errors import InputError
from ringbco.reports.charts import intervals_each, points_each
from ringbco.reports.data_time import over_time
from ringbco.reports.series import DAY, Part, first_few, scaled
from ringbco.reports.server_load import server_gpus
from ringbco.result import metrics
from ringbco.result.outcome import Outcome
from ringbco.run.request_record import requests_of
from ringbco.trace.answering import AnsweringServices
from ringbco.trace.outages import Outages
from ringbco.trace.serving import ServingFile, TokenKind
from ringbco.trace.side_table import ReadContext

Results = Mapping[str, Outcome]
Floats = NDArray[np.float64]

SERIES: Final = {
    "p50 latency": "#2B7BBA",
    "p99 latency": "#D9541E",
    "replicas serving": "#1C1F24",
    "replicas wanted": "#8A8F98",
}
"""What is drawn over time, each with its colour."""
LINES: Final = ("p50 latency", "p99 latency")
FINEST: Final = 0.001
"""Seconds, of latencies that are told apart."""
_MOST_SERVICES: Final = 6
_FEWEST: Final = 12
_REQUESTS: Final = 10
"""Intervals of latency, and requests that each has on average where there are enough."""


def answering(results: Results) -> dict[str, Outcome]:
    """The results whose services answer requests."""
    return {label: outcome for label, outcome in results.items() if outcome.latency is not None}


def latency_over_time(results: Results) -> Iterator[Part]:
    """p50 and p99 of latency.parquet, and replicas: a chart a service and result."""
    drawn, note = first_few(answering(results))
    for label, outcome in drawn.items():
        latency = _answering(outcome)
        names = latency["service"].unique(maintain_order=True).to_list()
        if len(names) > _MOST_SERVICES:
            note += f" Only the first {_MOST_SERVICES} of {len(names)} services are shown."
        for name in names[:_MOST_SERVICES]:
            rows = latency.filter(pl.col("service") == name)
            title = f"Latency of {name}" + (f": {label}" if len(results) > 1 else "")
            if not rows["p50_latency"].is_not_null().any():
                yield Part.none(f"No request of {name} was answered.", title=title)
                continue
            data = _means(rows, float(outcome.timeline["time"][0])).with_columns(policy=pl.lit(label))
            yield Part(data, of=label, title=title, note=note)
            note = ""


def _answering(outcome: Outcome) -> pl.DataFrame:
    """latency.parquet up to the first sample by which all requests were answered."""
    assert outcome.latency is not None
    answers = pl.col("p50_latency").is_not_null() | (pl.col("arrivals") > 0)
    last = outcome.latency.filter(answers)["time"].max()
    return outcome.latency if last is None else outcome.latency.filter(pl.col("time") <= last)


def _means(rows: pl.DataFrame, first: float) -> pl.DataFrame:
    """The samples of a service in even intervals: series, day and value.

    Of latency the median p50 and the largest p99 (s), of replicas means. first: the first submission, s, from
    which days count.
    """
    begin, end = float(rows["time"][0]), float(rows["time"][-1])
    # At the end of the run nothing serves or is wanted any more.
    on = (pl.col("time") < end) | (pl.col("replicas_serving") > 0)
    most = min(rows.height, intervals_each(1))
    few = min(most, max(_FEWEST, int(rows["arrivals"].sum()) // _REQUESTS))
    told = {
        "p50 latency": (few, pl.col("p50_latency").median()),
        "p99 latency": (few, pl.col("p99_latency").max()),
    }
    for name in ("serving", "wanted"):
        mean = pl.col(f"replicas_{name}").filter(on).mean()
        told[f"replicas {name}"] = (most, mean)
    frames = []
    for series, (count, value) in told.items():
        step = max(end - begin, 1e-9) / count
        bucket = ((pl.col("time") - begin) / step).floor().clip(upper_bound=count - 1).alias("day")
        means = rows.lazy().group_by(bucket, maintain_order=True).agg(value.alias("value"))
        # A line goes through the middle of its interval, a step begins with it.
        at = 0.5 if series in LINES else 0.0
        day = (begin - first + (pl.col("day") + at) * step) / DAY
        frames.append(means.select(pl.lit(series).alias("series"), day.alias("day"), "value").collect())
        if series not in LINES:  # and ends with the last answer
            frames.append(frames[-1].tail(1).with_columns(day=pl.lit((end - first) / DAY)))
    return pl.concat(frames)


def latencies(results: Results) -> Iterator[Part]:
    """The share of requests that are answered within a time, a chart a service."""
    yield from _within(results, "latency")


def first_tokens(results: Results) -> Iterator[Part]:
    """The share of requests that have their first token within a time, a chart a service of tokens."""
    yield from _within(results, "first_token")


def _within(results: Results, measure: str) -> Iterator[Part]:
    serving = answering(results)
    frames: dict[str, list[pl.DataFrame]] = {}
    for label, outcome in serving.items():
        if outcome.requests is None:
            yield Part.none("The distributions need a run with --request-rows.", of=label)
            continue
        try:
            found = _measured(outcome, measure)
        except InputError as error:
            yield Part.none(f"The distributions need the table of requests: {error}.", of=label)
            continue
        for name, values in found.items():
            value, share = metrics.cumulative_distribution(values, points_each(len(results)))
            columns = {"policy": label, "seconds": value, "share": share}
            frames.setdefault(name, []).append(pl.DataFrame(columns))
    what = "Latency" if measure == "latency" else "Time to the first token"
    for name in list(frames)[:_MOST_SERVICES]:
        data = pl.concat(frames[name])
        scale = scaled(data, "seconds", times=True, finest=FINEST, grid=True)
        x = alt.X("seconds:Q", title=scale.titled(what.lower()), scale=scale.scale, axis=scale.axis)
        yield Part(data.with_columns(scale.place("seconds")), also={"x": x}, title=f"{what} of {name}")


def _measured(outcome: Outcome, measure: str) -> dict[str, Floats]:
    """Seconds from the arrival of each request, by service. Raises InputError as `requests_of` does."""
    assert outcome.requests is not None
    serving, requests = requests_of(outcome)
    number, arrival, *_ = requests.columns(serving)
    column = outcome.requests["finish" if measure == "latency" else measure]
    seconds = column.cast(pl.Float64).fill_null(np.nan).to_numpy() - arrival
    tokens = {each.name for each in serving.services if isinstance(each.kind, TokenKind)}
    names = [name for name in serving.names if measure == "latency" or name in tokens]
    found = {name: seconds[number == serving.names.index(name)] for name in names}
    return {name: own for name, own in found.items() if own.size}


def lent(results: Results) -> Iterator[Part]:
    """GPUs that jobs hold of those that services would hold with all their replicas."""
    there = {
        label: replace(outcome, timeline=outcome.timeline.with_columns(_lent(outcome)))
        for label, outcome in answering(results).items()
    }
    for part in over_time(there, "lent"):
        yield part if (part.data["value"] > 0).any() else Part.none("Services lent no GPUs to training.")


def _lent(outcome: Outcome) -> pl.Series:
    services = outcome.run["services"]["tables"]
    peak = AnsweringServices.read(ServingFile.read(services).document).peak_gpus
    times, gpus = outcome.timeline["time"].to_numpy(), np.array(server_gpus(outcome), np.int64)
    up = np.full(times.size, int(gpus.sum()), np.int64)
    if outcome.outages is not None:
        down = Outages.read(outcome.outages, ReadContext(servers=gpus.size))
        rows = down.on_clock(outcome.run.get("options", {}))
        lost = gpus[rows["server"].to_numpy()]
        since, until = (rows[name].fill_null(np.inf).to_numpy() for name in ("down_at", "up_at"))
        for own, begin, end in zip(lost.tolist(), since.tolist(), until.tolist(), strict=True):
            up -= own * ((begin <= times) & (times < end))
    kept = np.maximum(0, up - peak)
    held = outcome.timeline["busy_gpus"].cast(pl.Int64).to_numpy()
    return pl.Series("lent", np.maximum(0, held - kept).astype(np.float64))
