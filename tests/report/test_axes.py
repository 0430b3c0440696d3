"""Axes and figures as people read them: three digits, logarithms where values span a lot, zeros apart."""

from __future__ import annotations

import polars as pl
import pytest

from ringbco.reports.series import scaled
from ringbco.result.figures import COMPARED
from ringbco.units import shared, time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (87.26, "87.3 s"),
        (3.0, "3.00 s"),
        (119.96, "120 s"),
        (21_888.0, "6.08 h"),
        (174.3 * 3_600, "7.26 d"),
        (999.6 * 86_400, "1,000 d"),
        (0.0828, "82.8 ms"),
        (7.83e-5, "78.3 \N{MICRO SIGN}s"),
        (-7_200.0, "-2.00 h"),
    ],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert time(seconds) == text


def test_figures_have_three_digits_whatever_stands_beside_them() -> None:
    (jct,) = (row for row in COMPARED if row.key == "mean_jct")
    assert [jct.brief(value) for value in (21_888.0, 21_900.0, None)] == ["6.08 h", "6.08 h", "-"]


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([1.0, 8.0], False),
        ([1.0, 8.1], True),
        ([10.0, 30.0, 79.0], False),
        ([60.0, 86_400.0], True),
        ([5.0], False),
    ],
)
def test_axes_are_logarithmic_where_values_span_more_than_a_factor_of_eight(
    values: list[float], log: bool
) -> None:
    for times in (True, False):
        made = scaled(pl.DataFrame({"value": values}), "value", times=times)
        assert (made.scale.to_dict().get("type") == "log") == log
        low, high = made.scale.to_dict()["domain"]
        assert low <= min(values) <= max(values) <= high
        ticks = made.axis.to_dict()["values"]
        assert 2 <= len(ticks) <= 9
        assert all(low <= tick <= high for tick in ticks)
        assert (low == 0) != log
        assert (
            scaled(pl.DataFrame({"value": values}), "value", times=times, even=True).scale.to_dict()[
                "domain"
            ][0]
            == 0
        )


def test_zeros_have_a_place_of_their_own_below_all_others() -> None:
    frame = pl.DataFrame({"value": [0.0, 0.3, 60.0, 86_400.0]})
    made = scaled(frame, "value", times=True)
    places = frame.select(made.place("value"))["value"].to_list()
    assert places[1:] == [1.0, 60.0, 86_400.0]  # less than a second counts as one
    assert places[0] < 0.8
    axis = made.axis.to_dict()
    assert axis["values"][0] == places[0]
    assert f"datum.value === {places[0]!r} ? 'at once'" in axis["labelExpr"]
    assert made.scale.to_dict()["domain"][0] < places[0]
    # On an axis that begins at 0 they are there.
    linear = scaled(pl.DataFrame({"value": [0.0, 1.0, 2.0]}), "value", times=False)
    assert linear.place("value") is not None
    assert "at once" not in linear.axis.to_dict()["labelExpr"]


def test_what_is_nearly_as_large_is_seen_near() -> None:
    frame = pl.DataFrame({"value": [21_000.0, 22_000.0]})
    near, far = (scaled(frame, "value", times=True, near=near) for near in (True, False))
    assert near.scale.to_dict()["domain"][0] > 20_000
    assert far.scale.to_dict()["domain"][0] == 0
    assert "5.9 h" in near.axis.to_dict()["labelExpr"]


def test_a_logarithmic_axis_says_so() -> None:
    for values, told in (([1.0, 9.0], ("wait (log scale)", "log scale")), ([1.0, 2.0], ("wait", None))):
        made = scaled(pl.DataFrame({"value": values}), "value", times=True)
        assert (made.titled("wait"), made.titled(None)) == told


def test_what_is_tiny_in_the_unit_of_its_column_has_a_unit_of_its_own() -> None:
    unit, written = shared("time", [4.0864, 86_400.0 * 3, 86_400.0 * 4])
    assert unit == "d"
    assert [written(value) for value in (4.0864, 0.0, 864.0, 863.9, 86_400.0)] == [
        "4.1 s",
        "0",
        "0.0100",
        "14 min",
        "1.00",
    ]
