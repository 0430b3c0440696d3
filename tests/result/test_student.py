"""Student's t against printed tables, and what is made of it."""

from __future__ import annotations

import math
import statistics

import pytest

from ringbco.result.seeds import Drawn, over_seeds, paired
from ringbco.result.student import quantile
from ringbco.result.told import notes_of, percents


@pytest.mark.parametrize(
    ("degrees", "ninety", "ninety_five", "ninety_nine"),
    # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    [
        (1, 6.314, 12.706, 63.657),
        (2, 2.920, 4.303, 9.925),
        (3, 2.353, 3.182, 5.841),
        (9, 1.833, 2.262, 3.250),
        (19, 1.729, 2.093, 2.861),
        (30, 1.697, 2.042, 2.750),
        (60, 1.671, 2.000, 2.660),
        (100, 1.660, 1.984, 2.626),
    ],
)
def test_quantiles_are_those_of_printed_tables(
    degrees: int, ninety: float, ninety_five: float, ninety_nine: float
) -> None:
    told = [round(quantile(degrees, level), 3) for level in (0.90, 0.95, 0.99)]
    assert told == [ninety, ninety_five, ninety_nine]


def test_many_degrees_are_the_normal_distribution() -> None:
    assert quantile(10**7) == pytest.approx(statistics.NormalDist().inv_cdf(0.975), rel=1e-6)


def test_a_pair_is_of_differences_over_the_mean_of_the_others() -> None:
    found = paired([9.0, 19.0, 29.0], [10.0, 21.0, 29.0])
    assert found is not None
    half = quantile(2) * 1.0 / math.sqrt(3)  # the differences are -1, -2 and 0
    assert found.difference == pytest.approx(-1.0)
    assert found.share == pytest.approx(-1.0 / 20.0)
    assert found.interval == pytest.approx(((-1.0 - half) / 20.0, (-1.0 + half) / 20.0))
    assert found.verdict == "not apart"


@pytest.mark.parametrize(
    ("values", "others", "verdict"),
    [
        ([1.0, 2.0], [1.0, 2.0], "the same"),
        ([1.0, 2.0], [1.0 + 1e-12, 2.0], "the same"),
        ([1.0, 2.0], [2.0, 3.0], "apart"),
        ([1.0, 2.0], [0.0, 3.0], "not apart"),
        ([1.0], [2.0], "unknown"),
    ],
)
def test_verdicts(values: list[float], others: list[float], verdict: str) -> None:
    found = paired(values, others)
    assert found is not None
    assert found.verdict == verdict


def test_what_does_not_pair_is_none() -> None:
    assert paired([1.0, 2.0], [1.0]) is None
    assert paired([1.0, None], [1.0, 2.0]) is None
    assert paired([], []) is None


def test_of_nothing_there_is_no_share() -> None:
    found = paired([1.0, 2.0], [0.0, 0.0])
    assert found is not None
    assert (found.share, found.interval, found.difference) == (None, None, 1.5)


def test_a_recorded_trace_is_the_centre_and_more_draws_do_not_narrow_it() -> None:
    drawn = Drawn("resampled", weeks=4.0, block=1.0)
    draws = [8.0, 12.0] * 10
    told = over_seeds([11.0, *draws], drawn)
    assert told is not None
    half = quantile(19) * statistics.stdev(draws) * math.sqrt(4 / 3)
    assert told == (11.0, 8.0, 12.0, 20, pytest.approx((11.0 - half, 11.0 + half)))
    many = over_seeds([11.0, *draws * 50], drawn)
    assert many is not None
    assert many.interval is not None
    assert many.interval[1] - 11.0 == pytest.approx(1.96 * 2.0 * math.sqrt(4 / 3), rel=0.01)


def test_a_week_has_no_interval_and_says_so() -> None:
    week = Drawn("resampled", weeks=1.0, block=1.0)
    told = over_seeds([11.0, 8.0, 12.0], week)
    assert told == (11.0, 8.0, 12.0, 2, None)
    found = paired([11.0, 8.0, 12.0], [10.0, 8.0, 11.0], week)
    assert found is not None
    assert found.verdict == "unknown"
    assert any(line.startswith("no interval") for line in notes_of(week, 2))


@pytest.mark.parametrize(
    ("weeks", "seeds", "said"),
    [
        (12.0, 20, []),
        (11.9, 20, ["few weeks"]),
        (12.0, 19, ["few draws"]),
        (4.0, 2, ["few draws", "few weeks"]),
    ],
)
def test_few_weeks_and_few_draws_are_said(weeks: float, seeds: int, said: list[str]) -> None:
    lines = notes_of(Drawn("resampled", weeks, 1.0), seeds)
    assert [line.partition(":")[0] for line in lines[1:]] == said


def test_percentages_that_differ_do_not_print_alike() -> None:
    assert percents([0.012, 0.007, 0.016]) == ["1.2", "0.7", "1.6"]
    assert percents([0.0, 0.0001, 0.0002]) == ["0.00", "0.01", "0.02"]
