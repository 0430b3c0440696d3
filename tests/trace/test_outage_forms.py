"""The closed forms of outage_forms, against a job walked from failure to failure, and published figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from outage_forms import daly, expected_run_time, young

WALKS = 20_000


def walk(
    random: np.random.Generator, length: float, rate: float, interval: float, pause: float, down: float
) -> float:
    """One run by the rules of docs/outages.md, failure by failure."""
    time, done, held = 0.0, 0.0, 0.0
    while True:
        up = random.exponential(1.0 / rate)
        if up >= held + length - done:
            return time + held + length - done
        made = max(0.0, up - held)
        if interval == 0.0:
            done += made
        elif interval < math.inf:
            done += math.floor(made / interval) * interval
        time += up + random.exponential(down)
        held = pause


@pytest.mark.parametrize(
    ("length", "interval", "pause", "down"),
    [
        (2.0, math.inf, 0.0, 0.0),
        (2.0, math.inf, 0.1, 0.5),
        (2.0, 0.0, 0.1, 0.5),
        (2.0, 0.5, 0.1, 0.5),  # a whole number of intervals
        (2.2, 0.5, 0.1, 0.5),
        (3.0, 0.7, 0.8, 0.2),  # a pause that often fails itself
        (0.3, 0.7, 0.1, 0.5),  # shorter than an interval
    ],
)
def test_the_mean_of_many_walks(length: float, interval: float, pause: float, down: float) -> None:
    random = np.random.default_rng(5)
    times = [walk(random, length, 1.0, interval, pause, down) for _ in range(WALKS)]
    expected = expected_run_time(length, 1.0, interval, pause, down)
    assert np.mean(times) == pytest.approx(expected, abs=3.5 * np.std(times) / math.sqrt(WALKS))


def test_rare_failures_leave_the_length() -> None:
    assert expected_run_time(1e4, 1e-12, 1800.0, 30.0, 3600.0) == pytest.approx(1e4, rel=1e-6)


def test_units_do_not_matter() -> None:
    by_hours = expected_run_time(50.0, 1 / 20.0, 0.5, 0.1, 2.0)
    by_seconds = expected_run_time(180_000.0, 1 / 72_000.0, 1800.0, 360.0, 7200.0)
    assert by_seconds == pytest.approx(3600.0 * by_hours)


def test_finer_checkpoints_cost_less_down_to_none_lost() -> None:
    times = [expected_run_time(4.0, 1.0, interval, 0.1, 0.5) for interval in (math.inf, 4, 1, 0.1, 1e-6, 0.0)]
    assert times == sorted(times, reverse=True)
    assert times[-2] == pytest.approx(times[-1], rel=1e-5)


@pytest.mark.parametrize(("mtbf", "published"), [(24 * 60.0, 117.0), (6 * 60.0, 57.0), (15.0, 9.1)])
def test_dalys_own_optima(mtbf: float, published: float) -> None:
    """Figures 3 to 5 of the paper, in minutes: a checkpoint takes 5, a restart 10, the job 500 h."""
    result = daly(5.0, mtbf)
    assert result == pytest.approx(published, abs=0.5 if published > 10 else 0.05)
    # The mean time per second of progress has its least there; the remainder keeps 1,000 segments whole.
    intervals = [result * scale for scale in np.linspace(0.5, 1.5, 101)]
    cost = [
        expected_run_time(1000.0001 * interval, 1.0 / mtbf, interval, 10.0, 0.0, cost=5.0) / interval
        for interval in intervals
    ]
    assert intervals[int(np.argmin(cost))] == pytest.approx(result, rel=0.02)


def test_young_is_daly_where_failures_are_rare() -> None:
    assert young(5.0, 24 * 60.0) == pytest.approx(120.0)
    assert young(1e-6, 1.0) == pytest.approx(daly(1e-6, 1.0), rel=1e-3)
    assert daly(3.0, 1.0) == 1.0
