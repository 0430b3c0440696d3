"""Figures of requests: by hand, and against a plain computation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringbco.result.latency import Answers, replica_figures, request_figures, sampled


def answers(*rows: tuple[float, float | None, float, int]) -> Answers:
    """Of (arrival, first_token, finish, output_tokens)."""
    arrival, first, finish, tokens = zip(*rows, strict=True)
    times = np.array(arrival), np.array(finish)
    if first[0] is None:
        return Answers(*times)
    return Answers(*times, np.array(first, dtype=np.float64), np.array(tokens, dtype=np.uint32))


def test_a_batch_service_by_hand() -> None:
    """Latencies of 1.5, 2.9, 2.8 and 1.5 s; two are at most 2 s."""
    given = answers((0.0, None, 1.5, 0), (0.6, None, 3.5, 0), (0.7, None, 3.5, 0), (3.5, None, 5.0, 0))
    figures = request_figures(given, {"latency": 2.0})
    assert figures["requests"] == 4
    assert figures["mean_latency"] == pytest.approx(2.175)
    assert figures["p50_latency"] == pytest.approx(2.15)
    assert figures["p90_latency"] == pytest.approx(2.8 + 0.7 * 0.1)
    assert figures["p99_9_latency"] == pytest.approx(2.8 + 0.997 * 0.1)
    assert figures["latency_attainment"] == figures["slo_attainment"] == 0.5
    assert figures["output_tokens_per_second"] is None
    assert {name: value for name, value in figures.items() if name.endswith("token")} == {
        f"{label}_{name}": None
        for name in ("first_token", "per_token")
        for label in ("mean", "p50", "p90", "p99", "p99_9")
    }


def test_a_token_service_by_hand() -> None:
    given = answers((0.0, 0.022, 0.07204, 3), (0.005, 0.05701, 0.07204, 2))
    figures = request_figures(given, {"first_token": 0.03, "per_token": 0.02})
    assert figures["mean_per_token"] == pytest.approx(0.020025)
    assert figures["mean_first_token"] == pytest.approx((0.022 + 0.05201) / 2)
    assert figures["first_token_attainment"] == figures["per_token_attainment"] == 0.5
    assert figures["slo_attainment"] == 0.0, "no request meets both"
    assert figures["output_tokens_per_second"] == pytest.approx(5 / 0.07204)
    assert "latency_attainment" not in figures


def test_a_request_of_one_token_has_no_time_per_token_and_meets_any() -> None:
    one = answers((0.0, 0.043, 0.067, 3), (0.001, 0.056, 0.056, 1))
    figures = request_figures(one, {"first_token": 1.0, "per_token": 0.011})
    assert figures["mean_per_token"] == figures["p99_per_token"] == pytest.approx(0.012)
    assert (figures["first_token_attainment"], figures["per_token_attainment"]) == (1.0, 0.5)
    alone = request_figures(answers((0.5, 0.5, 0.5, 1)), {"per_token": 0.0})
    assert (alone["mean_per_token"], alone["per_token_attainment"]) == (None, 1.0)
    assert alone["output_tokens_per_second"] is None, "it took no time"


def test_without_requests_or_objectives() -> None:
    none = Answers(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.uint32))
    figures = request_figures(none, {"latency": 1.0})
    assert figures.pop("requests") == 0
    assert set(figures.values()) == {None}
    assert {"slo_attainment", "latency_attainment"} <= set(figures)
    assert not any(name.endswith("attainment") for name in request_figures(none))


def test_replicas_by_hand() -> None:
    """Of 4 GPUs: from 0 to 90 s, serving from 30; from 100 to 110, never serving."""
    start, serves, end = np.array([0.0, 100.0]), np.array([30.0, np.nan]), np.array([90.0, 110.0])
    figures = replica_figures(start, serves, end, 4, busy=45.0, cost=3.0, requests=500)
    assert figures == {
        "gpu_hours": pytest.approx(400 / 3600),
        "busy_share": 0.75,
        "cost_per_1000_requests": 6.0,
    }
    never = replica_figures(start[1:], serves[1:], end[1:], 1, busy=0.0, cost=None, requests=0)
    assert never == {"gpu_hours": pytest.approx(10 / 3600), "busy_share": None}
    assert replica_figures(start, serves, end, 4, 1.0, 3.0, 0)["cost_per_1000_requests"] is None


def linear(values: list[float], percent: float) -> float | None:
    """A percentile by linear interpolation."""
    if not values:
        return None
    ordered, rank = sorted(values), (len(values) - 1) * percent / 100
    low = ordered[math.floor(rank)]
    return low + (ordered[math.ceil(rank)] - low) * (rank - math.floor(rank))


def plain(rows: list[tuple[float, float, float, int]], slo: dict[str, float]) -> dict[str, Any]:
    """The figures of (arrival, first_token, finish, output_tokens), one request after the other."""
    values: dict[str, list[float]] = {"latency": [], "first_token": [], "per_token": []}
    met: dict[str, list[bool]] = {name: [] for name in slo}
    for arrival, first, finish, tokens in rows:
        own = {"latency": finish - arrival, "first_token": first - arrival}
        if tokens > 1:
            own["per_token"] = (finish - first) / (tokens - 1)
        for name, value in own.items():
            values[name].append(value)
        for name, most in slo.items():
            met[name].append(own.get(name, 0.0) <= most)
    figures: dict[str, Any] = {"requests": len(rows)}
    for name, each in values.items():
        figures[f"mean_{name}"] = sum(each) / len(each) if each else None
        for label, percent in (("p50", 50), ("p90", 90), ("p99", 99), ("p99_9", 99.9)):
            figures[f"{label}_{name}"] = linear(each, percent)
    for name, each_met in met.items():
        figures[f"{name}_attainment"] = sum(each_met) / len(rows)
    figures["slo_attainment"] = sum(map(all, zip(*met.values(), strict=True))) / len(rows)
    lasts = max(finish for _, _, finish, _ in rows) - min(arrival for arrival, *_ in rows)
    figures["output_tokens_per_second"] = sum(tokens for *_, tokens in rows) / lasts if lasts else None
    return figures


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[float, float, float, int]]:
    """Times are multiples of an eighth, so that differences are exact and many coincide."""
    eighths = st.integers(0, 80)
    rows = []
    for _ in range(draw(st.integers(1, 30))):
        arrival, to_first, rest = draw(eighths), draw(eighths), draw(eighths)
        tokens = draw(st.sampled_from([1, 2, 3, 500]))
        first = arrival + to_first
        rows.append((arrival / 8, first / 8, (first + (rest if tokens > 1 else 0)) / 8, tokens))
    return rows


@given(
    requests(),
    st.sampled_from([{"latency": 5.0}, {"first_token": 4.0, "per_token": 0.5}, {"per_token": 2.0}]),
)
def test_against_a_plain_computation(
    rows: list[tuple[float, float, float, int]], slo: dict[str, float]
) -> None:
    figures = request_figures(answers(*rows), slo)
    expected = plain(rows, slo)
    assert {*figures} == {*expected}
    for name, value in expected.items():
        assert figures[name] == (value if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)), name


@given(requests(), st.integers(1, 20), st.integers(1, 24))
def test_samples_against_a_plain_computation(
    rows: list[tuple[float, float, float, int]], count: int, step: int
) -> None:
    """A sample counts (sample before, time], the first all up to it."""
    times = np.arange(count) * step / 8
    found = sampled(times, np.array([row[0] for row in rows]), np.array([row[2] for row in rows]))
    assert set(found) == {"arrivals", "p50_latency", "p99_latency"}
    before = -math.inf
    for at, time in enumerate(times.tolist()):
        own = [finish - arrival for arrival, _, finish, _ in rows if before < finish <= time]
        assert found["arrivals"][at] == sum(before < arrival <= time for arrival, *_ in rows)
        for percent in (50, 99):
            value, expected = float(found[f"p{percent}_latency"][at]), linear(own, percent)
            assert math.isnan(value) if expected is None else value == pytest.approx(expected, rel=1e-12)
        before = time
