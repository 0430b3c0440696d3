"""What is in a table of requests, and what a replica can sustain of it (docs/serving.md)."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.result.metrics import percentiles
from ringbco.trace.requests import Requests
from ringbco.trace.serving import BatchKind, ServiceKeys, ServingFile, TokenKind

Floats = NDArray[np.float64]

PERCENTS: Final = {"min": 0.0, "median": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
WINDOWS: Final = (1.0, 10.0, 60.0, 600.0)
"""Seconds: the windows in which requests are counted to tell bursts."""
_PARTS: Final = 24
"""The most rows of the rate over time."""
_LENGTHS: Final = (1.0, 10.0, 60.0, 300.0, 600.0, 1800.0, *(3600.0 * h for h in (1, 3, 6, 12, 24, 168, 672)))
_MINUTE: Final = 60.0
_TOKENS: Final = ("input_tokens", "output_tokens", "cached_tokens")


def inspect_requests(requests: Requests, serving: ServingFile | None = None) -> dict[str, Any]:
    """Figures of requests; times in seconds, rates a second.

    serving: the services that they are for, which adds `capacity` (`sustained`).
    """
    frame = requests.frame
    arrival = np.sort(frame["arrival"].to_numpy())
    gaps = np.diff(arrival)
    services = [
        {"service": name, **_figures(own)}
        for (name,), own in frame.group_by("service", maintain_order=True)
        if name is not None
    ]
    return {
        "requests": frame.height,
        "failed": requests.failed,
        "first_arrival": float(arrival[0]),
        "last_arrival": float(arrival[-1]),
        **_rates(arrival),
        "interarrival": None if not gaps.size else {**_spread(gaps), "variation": _variation(gaps)},
        "dispersion": {f"{length:.0f}": _dispersion(arrival, length) for length in WINDOWS},
        "over_time": _over_time(frame, float(arrival[0]), float(arrival[-1])),
        "lengths": {
            name: _spread(frame[name].drop_nulls().cast(pl.Float64).to_numpy())
            for name in _TOKENS
            if frame[name].count() and frame[name].max() != 0
        },
        "services": services,
        "capacity": None if serving is None else capacity(requests, serving),
    }


def _figures(frame: pl.DataFrame) -> dict[str, Any]:
    """Of the requests of one service."""
    tokens = {f"mean_{name}": frame[name].mean() for name in _TOKENS[:2]}
    return {"requests": frame.height, **_rates(np.sort(frame["arrival"].to_numpy())), **tokens}


def _rates(arrival: Floats) -> dict[str, float | None]:
    """Requests a second: on average from the first to the last, and in the busiest minute."""
    span = float(arrival[-1] - arrival[0])
    # Of all minutes, the busiest begins with a request.
    within = np.searchsorted(arrival, arrival + _MINUTE) - np.arange(arrival.size)
    return {
        "span": span,
        "rate": arrival.size / span if span > 0 else None,
        "busiest_minute": float(within.max()) / _MINUTE,
    }


def _spread(values: Floats) -> dict[str, float]:
    found = dict(zip(PERCENTS, percentiles(values, tuple(PERCENTS.values())), strict=True))
    return {"mean": float(values.mean()), **found}


def _variation(gaps: Floats) -> float | None:
    """The standard deviation of gaps over their mean; None where all requests come at once."""
    mean = float(gaps.mean())
    return float(gaps.std()) / mean if mean > 0 else None


def _dispersion(arrival: Floats, length: float) -> float | None:
    """Variance over mean of the numbers of requests in whole windows; None for fewer than ten windows."""
    number = np.floor((arrival - arrival[0]) / length)
    windows = int(number[-1])
    if windows < 10 or windows > 1 << 26:
        return None
    counts = np.bincount(number[number < windows].astype(np.int64), minlength=windows)
    return float(counts.var() / counts.mean())


def _over_time(frame: pl.DataFrame, first: float, last: float) -> list[dict[str, Any]]:
    """Requests and tokens a second in windows of one length, at most 24; the last one ends with the table."""
    span = last - first
    length = next((each for each in _LENGTHS if span < _PARTS * each), span / (_PARTS - 0.5))
    start = math.floor(first / length)
    number = (frame["arrival"] / length).floor().cast(pl.Int64) - start
    tokens = [pl.col(name).cast(pl.Float64).sum() for name in _TOKENS[:2]]
    counted = frame.group_by(number.alias("window")).agg(pl.len().alias("requests"), *tokens)
    rows = {row["window"]: row for row in counted.iter_rows(named=True)}
    made = []
    for window in range(max(rows) + 1):
        begin = (start + window) * length
        row = rows.get(window, {})
        rates = {name: row.get(name, 0.0) / length for name in ("requests", *_TOKENS[:2])}
        made.append({"from": begin, "to": begin + length, **rates})
    return made


def capacity(requests: Requests, serving: ServingFile) -> list[dict[str, Any]]:
    """What one replica of each service can sustain of its requests, and how many the trace needs at least.

    at_most: requests a second on the cluster's first GPU type, an upper bound however long they may wait.
    limit: what bounds it. replicas, replicas_in_busiest_minute: at least as many, for the mean rate and for
    that of the busiest minute; None without requests.
    """
    found: list[dict[str, Any]] = []
    for service in serving.services:
        frame = requests.frame.filter(service=service.name)
        row: dict[str, Any] = {"service": service.name, "requests": frame.height}
        if frame.is_empty():
            found.append({**row, "at_most": None, "limit": None})
            continue
        most, limit = sustained(service, frame)
        rates = _rates(np.sort(frame["arrival"].to_numpy()))
        needs: dict[str, int | None] = {}
        for name, key in (("replicas", "rate"), ("replicas_in_busiest_minute", "busiest_minute")):
            rate = rates[key]
            needs[name] = None if rate is None else math.ceil(rate / most)
        found.append({**row, "at_most": most, "limit": limit, **rates, **needs})
    return found


def sustained(service: ServiceKeys, frame: pl.DataFrame) -> tuple[float, str]:
    """An upper bound on the requests a second that a replica can answer of these, and what limits it.

    A batch service answers at most full batches, one after the other. A request of a token service takes
    prefill, decode and context whenever it runs, and its share of a step: requests x output_tokens of a step
    are at most max_running, x (input_tokens + output_tokens) at most kv_tokens, and with max_step_tokens not
    below max_running the tokens of a step at most that.
    """
    kind = service.kind
    if isinstance(kind, BatchKind):
        return max((size / seconds, f"batches of {size}") for size, seconds in kind.seconds)
    input_tokens, output_tokens, cached = (frame[name].to_numpy().astype(np.float64) for name in _TOKENS)
    steps = {
        "max_running": float(output_tokens.mean()) / kind.max_running,
        "kv_tokens": float((output_tokens * (input_tokens + output_tokens)).mean()) / kind.kv_tokens,
    }
    taken = float((input_tokens - cached).mean())
    if kind.max_step_tokens is not None and kind.max_running <= kind.max_step_tokens:
        steps["max_step_tokens"] = (taken + float(output_tokens.mean()) - 1.0) / kind.max_step_tokens
    limit = max(steps, key=lambda name: steps[name])
    held = float((output_tokens * input_tokens + output_tokens * (output_tokens - 1.0) / 2.0).mean())
    seconds = _seconds(kind, steps[limit], taken, float(output_tokens.mean()), held)
    return 1.0 / seconds, limit


def _seconds(kind: TokenKind, steps: float, taken: float, generated: float, held: float) -> float:
    """Seconds of a replica that a request takes on average."""
    return kind.step * steps + kind.prefill * taken + kind.decode * generated + kind.context * held
