"""How long requests took to their first token and to their last one (docs/serving.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.result.metrics import percentiles

Floats = NDArray[np.float64]

MEASURES: Final = ("latency", "first_token", "per_token")
"""What is measured of a request, s: end to end, time to first token (TTFT), time per output token (TPOT)."""
PERCENTS: Final[Mapping[str, float]] = {"p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9}
_SAMPLED: Final = (50, 99)
_THOUSAND: Final = 1_000.0
_HOUR: Final = 3_600.0


@dataclass(frozen=True)
class Answers:
    """Answered requests of one service, float64[requests], s; all had been answered when the run ended.

    first_token, output_tokens: None where a service counts no tokens.
    """

    arrival: Floats
    finish: Floats
    first_token: Floats | None = None
    output_tokens: NDArray[np.uint32] | None = None

    def measure(self, name: str) -> Floats | None:
        """One of `MEASURES`, by request; None where there is none. per_token of one token is NaN."""
        if name == "latency":
            return self.finish - self.arrival
        if self.first_token is None or self.output_tokens is None:
            return None
        if name == "first_token":
            return self.first_token - self.arrival
        steps = self.output_tokens - 1.0
        steps[steps == 0] = np.nan
        lasts: Floats = self.finish - self.first_token
        lasts /= steps
        return lasts

    def output_rate(self) -> float | None:
        """Output tokens a second, from the first arrival to the last finish; None where that is no time."""
        if self.output_tokens is None or not self.finish.size:
            return None
        lasts = float(self.finish.max() - self.arrival.min())
        return float(self.output_tokens.sum(dtype=np.uint64)) / lasts if lasts > 0 else None


def request_figures(answers: Answers, objectives: Mapping[str, float] | None = None) -> dict[str, Any]:
    """What summary.json says of the requests of a service; None for a figure without a value.

    objectives: s, by the measure that is to be at most as long; None without any. A request of one output
    token meets any per token.
    """
    figures: dict[str, Any] = {"requests": answers.finish.size}
    met: dict[str, NDArray[np.bool_]] = {}
    for name in MEASURES:  # one after another: each may take 80 MB of ten million requests
        values = answers.measure(name)
        found: list[float | None] = [None] * (1 + len(PERCENTS))
        if values is not None:
            if objectives is not None and name in objectives:
                met[name] = ~(values > objectives[name])
            if name == "per_token":
                values = values[~np.isnan(values)]
            if values.size:
                found = [float(values.mean()), *percentiles(values, tuple(PERCENTS.values()))]
        figures |= {f"{label}_{name}": value for label, value in zip(("mean", *PERCENTS), found, strict=True)}
    if objectives is not None:
        shares = {"slo_attainment": np.logical_and.reduce([*met.values()])}
        shares |= {f"{name}_attainment": met[name] for name in objectives}
        figures |= {name: float(each.mean()) if each.size else None for name, each in shares.items()}
    return figures | {"output_tokens_per_second": answers.output_rate()}


def replica_figures(  # noqa: PLR0917 - one column each
    start: Floats, serves_from: Floats, end: Floats, gpus: int, busy: float, cost: float | None, requests: int
) -> dict[str, float | None]:
    """What summary.json says of the replicas of a service.

    start, serves_from, end: of each, s; serves_from is NaN for one that never served. gpus: per replica.
    busy: seconds in which a step or a batch ran, of all. cost: of their GPUs; None where these have no price.
    """
    serving = float(np.nansum(end - serves_from))
    figures: dict[str, float | None] = {
        "gpu_hours": gpus * float((end - start).sum()) / _HOUR,
        "busy_share": busy / serving if serving > 0 else None,
    }
    if cost is not None:
        figures["cost_per_1000_requests"] = _THOUSAND * cost / requests if requests else None
    return figures


def sampled(times: Floats, arrival: Floats, finish: Floats) -> dict[str, NDArray[Any]]:
    """Columns of latency.parquet at sampled instants, s, ascending: arrivals, p50_latency, p99_latency.

    arrival, finish: of the requests of a service, s. A sample counts what came after the one before it, the
    first all up to it, and nothing counts that comes after the last. Percentiles are of the requests that
    finished, NaN where none did.
    """
    arrivals = np.bincount(np.searchsorted(times, arrival), minlength=times.size)[: times.size]
    window = np.searchsorted(times, finish)
    latency = (finish - arrival)[np.argsort(window, kind="stable")]
    counts = np.bincount(window, minlength=times.size)[: times.size]
    first = np.cumsum(counts) - counts
    there = counts > 0
    for begin, end in zip(first[there].tolist(), (first + counts)[there].tolist(), strict=True):
        latency[begin:end].sort()
    columns: dict[str, NDArray[Any]] = {"arrivals": arrivals.astype(np.uint32)}
    for percent in _SAMPLED:
        rank = (counts[there] - 1) * (percent / 100)
        below = rank.astype(np.int64)
        low = latency[first[there] + below]
        high = latency[first[there] + np.minimum(below + 1, counts[there] - 1)]
        share = rank - below
        # From the nearer end, as numpy's percentile.
        value = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
        columns[f"p{percent}_latency"] = np.full(times.size, np.nan)
        columns[f"p{percent}_latency"][there] = value
    return columns
