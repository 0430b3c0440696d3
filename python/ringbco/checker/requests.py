"""Requests and their answers: latency.parquet and the figures of docs/serving.md.

It believes who answered what, and when. It knows no routing and no autoscaler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.checker.arrays import percentile, total
from ringbco.checker.inputs import Steps

if TYPE_CHECKING:
    from ringbco.checker.inputs import (
        Answering,
        Answers,
        Bools,
        Floats,
        Ints,
        Replicas,
        Requests,
        Service,
        Table,
    )

UNTOLD: Final = object()
"""In place of a figure that nothing in a result tells."""
SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
MEASURES: Final = ("latency", "first_token", "per_token")
_HOUR: Final = 3600.0


def cut(replicas: Replicas, own: Bools, drain: float) -> Bools:
    """Of the replicas of a service, those that may have ended before their requests were answered."""
    failed = (replicas.ended == "failed").to_numpy()
    return own & (failed | (replicas.end >= replicas.drains + drain))


def busy(answers: Answers, own: Bools) -> float:
    """Seconds in which a replica had a request of some: they run without a gap until all are answered."""
    order = np.lexsort((answers.start[own], answers.replica[own]))
    replica, start, finish = (each[own][order] for each in (answers.replica, answers.start, answers.finish))
    seconds = 0.0
    for first, last in pairwise(np.append(np.flatnonzero(np.diff(replica, prepend=-1)), replica.size)):
        until = np.maximum.accumulate(finish[first:last])
        before = np.append(-math.inf, until[:-1])
        seconds += total(np.maximum(0.0, until - np.maximum(start[first:last], before)))
    return seconds


def figures(answering: Answering, number: int, replicas: Replicas, prices: Floats) -> dict[str, Any]:
    """Those of a service's requests. prices: of a GPU-hour on each server, NaN for none."""
    service, asked, answers = answering.services[number], answering.requests, answering.answers
    own = (replicas.service == service.name).to_numpy()
    held = replicas.end - replicas.start
    found: dict[str, Any] = {"gpu_hours": service.gpus * total(held[own]) / _HOUR}
    measured: dict[str, Floats | None] = dict.fromkeys(MEASURES)
    mine = None if asked is None else asked.service == number
    count = None if mine is None else int(mine.sum())
    anew = bool(cut(replicas, own, service.drain).any())
    found["begun_anew"] = UNTOLD if anew else 0
    found["requests"] = UNTOLD if count is None else count
    served = own & ~np.isnan(replicas.serves)
    serving = total((replicas.end - replicas.serves)[served])
    rate: Any = UNTOLD
    found["busy_share"] = UNTOLD if serving > 0 else None
    if asked is not None and mine is not None and answers is not None:
        measured, rate = _measured(service, asked, answers, mine)
        if serving > 0 and not anew:
            found["busy_share"] = busy(answers, mine) / serving
    for name in MEASURES:
        found |= _spread(name, measured[name], known=answers is not None and mine is not None)
    found |= _attained(service, measured, known=answers is not None and mine is not None)
    found["output_tokens_per_second"] = rate if isinstance(service.kind, Steps) else None
    price = prices[replicas.server[own]]
    if not np.isnan(prices).all() and not np.isnan(price).any():
        cost = total(price * service.gpus * held[own]) / _HOUR
        per = UNTOLD if count is None else None
        found["cost_per_1000_requests"] = 1000.0 * cost / count if count else per
    return found


def _measured(
    service: Service, asked: Requests, answers: Answers, mine: Bools
) -> tuple[dict[str, Floats | None], float | None]:
    """What is measured of the requests of a service, s; and their output tokens a second."""
    arrival, finish = asked.arrival[mine], answers.finish[mine]
    found: dict[str, Floats | None] = {"latency": finish - arrival, "first_token": None, "per_token": None}
    if not isinstance(service.kind, Steps) or not arrival.size:
        return found, None
    first, given = answers.first_token[mine], asked.given[mine]
    found["first_token"] = first - arrival
    found["per_token"] = np.where(given > 1, (finish - first) / np.maximum(given - 1, 1), np.nan)
    lasts = float(finish.max() - arrival.min())
    return found, int(given.sum()) / lasts if lasts > 0 else None


def _spread(name: str, values: Floats | None, *, known: bool) -> dict[str, Any]:
    """Mean and percentiles."""
    keys = [f"{label}_{name}" for label in ("mean", *SHARES)]
    values = None if values is None else np.sort(values[~np.isnan(values)])
    if values is None or not values.size:
        # A batch has no tokens, whatever is known.
        return dict.fromkeys(keys, None if known else UNTOLD)
    told = [total(values) / values.size, *(percentile(values, share) for share in SHARES.values())]
    return dict(zip(keys, told, strict=True))


def _attained(service: Service, measured: Mapping[str, Floats | None], *, known: bool) -> dict[str, Any]:
    """The share of requests that meet each objective, and all of them."""
    if not service.slo:
        return {}
    names = ["slo_attainment", *(f"{name}_attainment" for name in service.slo)]
    if not known:
        return dict.fromkeys(names, UNTOLD)
    met: list[NDArray[Any]] = []
    for name, most in service.slo.items():
        values = measured[name]
        met.append(np.zeros(0) if values is None else np.isnan(values) | (values <= most))
    shares = [np.all(met, axis=0), *met]
    return {
        name: float(np.mean(each)) if each.size else None for name, each in zip(names, shares, strict=True)
    }


def latency_table(
    answering: Answering,
    replicas: Replicas,
    wanted: Mapping[str, Sequence[tuple[float, int]]],
    times: Floats,
    end: float,
) -> tuple[Table, dict[str, Bools]]:
    """latency.parquet; and by column the rows of which the result does not tell it.

    wanted: by service, (s, replicas). times: of the samples. end: of the run, from when on nothing is wanted.
    """
    parts: list[dict[str, NDArray[Any]]] = []
    unknown: list[tuple[bool, bool, bool]] = []
    for number, service in enumerate(answering.services):
        own = (replicas.service == service.name).to_numpy()
        part = _sampled(answering, number, times)
        silent = answering.answers is None
        anew = bool(cut(replicas, own, service.drain).any())
        unknown.append((answering.requests is None, silent, silent or anew))
        served = own & ~np.isnan(replicas.serves)
        last = np.fmin(replicas.drains, replicas.end)[served]
        part["replicas_serving"] = _by(replicas.serves[served], times) - _by(last, times)
        changes = wanted.get(service.name, ())
        counts = np.array([0, *(count for _, count in changes)], np.int64)
        at = np.searchsorted(np.array([time for time, _ in changes], np.float64), times, "right")
        part["replicas_wanted"] = np.where(times < end, counts[at], 0)
        parts.append(part)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = [service.name for service in answering.services for _ in range(times.size)]
    table: Table = {
        "service": pl.Series(names, dtype=pl.String),
        "time": np.tile(times, len(parts)),
        **columns,
    }
    untold = {
        column: np.repeat([each[of] for each in unknown], times.size)
        for of, of_kind in enumerate((("arrivals",), ("p50_latency", "p99_latency"), ("queued", "running")))
        for column in of_kind
    }
    return table, untold


def _by(instants: Floats, times: Floats) -> Ints:
    """How many are at each sample or before it."""
    return np.searchsorted(np.sort(instants), times, "right")


def _sampled(answering: Answering, number: int, times: Floats) -> dict[str, NDArray[Any]]:
    """What follows from the requests of a service; zeros where they are not known."""
    asked, answers = answering.requests, answering.answers
    none, nothing = np.zeros(times.size, np.int64), np.full(times.size, np.nan)
    found: dict[str, NDArray[Any]] = {"arrivals": none, "p50_latency": nothing, "p99_latency": nothing.copy()}
    found |= {"queued": none, "running": none}
    if asked is None:
        return found
    mine = asked.service == number
    arrival = asked.arrival[mine]
    came = _by(arrival, times)
    found["arrivals"] = np.diff(came, prepend=0)
    if answers is None:
        return found
    start, finish = answers.start[mine], answers.finish[mine]
    done, begun = _by(finish, times), _by(start, times)
    found |= {"queued": came - begun, "running": begun - done}
    order = np.argsort(finish, kind="stable")
    latency = (finish - arrival)[order]
    for row in np.flatnonzero(np.diff(done, prepend=0)).tolist():
        ordered = np.sort(latency[done[row - 1] if row else 0 : done[row]])
        for name in ("p50", "p99"):
            found[f"{name}_latency"][row] = percentile(ordered, SHARES[name])
    return found
