"""Metrics against figures worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringbco.result import metrics
from ringbco.result.figures import evaluate, of_jobs, rows_of
from ringbco.result.outcome import with_seconds
from ringbco.result.rows import JobArrays, Place, Rows


@pytest.fixture
def jobs() -> pl.DataFrame:
    """Three jobs: one waits, one spans; submissions start at 10 s."""
    return pl.DataFrame(
        {
            "submit_time": [10.0, 20.0, 30.0],
            "finish_time": [60.0, 70.0, 110.0],
            "wait_time": [0.0, 40.0, 0.0],
            "run_time": [50.0, 10.0, 80.0],
            "jct": [50.0, 50.0, 80.0],
            "waited": [0.0, 40.0, 6.0],
            "slowdown": [1.0, 5.0, 1.25],
            "ideal_run_time": [50.0, 10.0, 64.0],
            "preemptions": pl.Series([0, 0, 2], dtype=pl.UInt32),
            "num_gpus": pl.Series([2, 1, 4], dtype=pl.UInt32),
            "num_servers": pl.Series([1, 1, 2], dtype=pl.UInt32),
        }
    )


def summarise(jobs: pl.DataFrame, gpus: int, held_while_submitting: float = 0.0) -> dict[str, Any]:
    """The figures that a virtual cluster would have."""
    return evaluate(Rows("vc", JobArrays(jobs), place=Place(1, gpus, held_while_submitting)))


def size_classes(jobs: pl.DataFrame) -> list[dict[str, Any]]:
    return [evaluate(one) for one in Rows("run", JobArrays(jobs)).classes()]


def test_the_summary_of_three_jobs(jobs: pl.DataFrame) -> None:
    summary = summarise(jobs, 8, held_while_submitting=40.0)
    assert summary["jobs"] == 3
    assert summary["makespan"] == 100.0
    assert summary["mean_jct"] == 60.0
    assert summary["median_jct"] == 50.0
    # Linear interpolation: 90 % of the way along (50, 50, 80) is 0.8 of the last step.
    assert summary["p90_jct"] == pytest.approx(50 + 0.8 * 30)
    assert summary["p99_jct"] == pytest.approx(50 + 0.98 * 30)
    assert summary["mean_wait"] == pytest.approx(46 / 3)
    assert summary["mean_time_to_start"] == pytest.approx(40 / 3)
    assert summary["mean_slowdown"] == pytest.approx(7.25 / 3)
    assert summary["utilisation"] == pytest.approx((100 + 10 + 320) / 800)
    assert summary["jobs_spread"] == 1
    # Submissions from 10 to 30 s.
    assert summary["utilisation_to_last_submission"] == 40.0 / (8 * 20)
    # It leads: the whole run's has the tail in it.
    names = list(summary)
    assert names.index("utilisation") == names.index("utilisation_to_last_submission") + 1


def test_submissions_at_one_instant_leave_no_window(jobs: pl.DataFrame) -> None:
    at_once = jobs.with_columns(submit_time=pl.lit(10.0))
    summary = summarise(at_once, 8)
    assert "utilisation_to_last_submission" not in summary
    assert summary["utilisation"] > 0


def test_bounded_slowdown_by_hand() -> None:
    # 4 s alone took 40: 40 / max(4, 10) = 4; 3 s took 6: 0.6, so 1; 20 s took 50: 2.5.
    jobs = pl.DataFrame({"jct": [40.0, 6.0, 50.0], "ideal_run_time": [4.0, 3.0, 20.0]})
    assert JobArrays(jobs)["bounded_slowdown"].tolist() == [4.0, 1.0, 2.5]


def test_fairness_by_hand(jobs: pl.DataFrame) -> None:
    told = of_jobs(jobs)
    assert told["mean_finish_time_fairness"] == 7.25 / 3
    assert told["worst_finish_time_fairness"] == 5.0
    assert not {"preemptions", "lost_gpu_seconds", "deadlines", "jain_index_users"} & told.keys()
    # u got 1 and 1 / 5 of full speed, 0.6 on the average, v 0.8: 1.4^2 / (2 (0.36 + 0.64)) = 0.98. The job
    # due at 70 is just in time; that due at 100 is late; the third has no deadline.
    more = jobs.with_columns(
        user=pl.Series(["u", "u", "v"]),
        deadline=pl.Series([None, 70.0, 100.0]),
        held_time=pl.Series([50.0, 10.0, 70.0]),
        lost_time=pl.Series([0.0, 0.0, 6.0]),
    )
    told = of_jobs(more)
    assert told["jain_index_users"] == pytest.approx(0.98)
    assert (told["deadlines"], told["deadlines_missed"], told["deadlines_met"]) == (2, 1, 0.5)
    # 6 s of 4 GPUs.
    assert (told["preemptions"], told["lost_gpu_seconds"]) == (2, 24.0)
    # Held, not run: 2 x 50 + 10 + 4 x 70.
    assert JobArrays(more)["held"].sum() == 390.0


def test_jain_index_of_extremes() -> None:
    assert metrics.jain_index(np.array([3.0, 3.0, 3.0])) == 1.0
    assert metrics.jain_index(np.array([1.0, 1e-9, 1e-9, 1e-9])) == pytest.approx(0.25)


def test_size_classes_by_hand(jobs: pl.DataFrame) -> None:
    one, few = size_classes(jobs)
    assert (one["gpus"], one["jobs"], one["mean_jct"], one["mean_wait"], one["preemptions"]) == (
        *("1", 1, 50.0, 40.0, 0),
    )
    # Of 2 and 4 GPUs: (50 + 80) / 2; slowdowns (1 + 1.25) / 2.
    assert (few["gpus"], few["jobs"], few["mean_jct"], few["mean_slowdown"], few["preemptions"]) == (
        *("2-4", 2, 65.0, 1.125, 2),
    )


def test_where_a_size_class_ends(jobs: pl.DataFrame) -> None:
    ends = {"1": (1, 1), "2-4": (2, 4), "5-8": (5, 8), "9-16": (9, 16), "17-32": (17, 32), "33-": (33, 4096)}
    for name, gpus in ends.items():
        for count in gpus:
            (only,) = size_classes(jobs.with_columns(num_gpus=pl.lit(count, pl.UInt32)))
            assert only["gpus"] == name


def test_size_classes_have_their_own_fairness() -> None:
    jobs = pl.DataFrame(
        {
            "num_gpus": pl.Series([1, 1, 1, 4, 4], dtype=pl.UInt32),
            "finish_time": [10.0, 20.0, 30.0, 40.0, 50.0],
            "ideal_run_time": [10.0, 10.0, 10.0, 20.0, 20.0],
            "jct": [10.0, 20.0, 40.0, 20.0, 60.0],
            "run_time": [10.0, 10.0, 10.0, 20.0, 20.0],
            "waited": [0.0, 10.0, 30.0, 0.0, 40.0],
            "wait_time": [0.0, 10.0, 30.0, 0.0, 40.0],
            "slowdown": [1.0, 2.0, 4.0, 1.0, 3.0],
            "preemptions": pl.Series([0, 1, 2, 0, 3], dtype=pl.UInt32),
            "lost_time": [0.0, 5.0, 10.0, 0.0, 15.0],
            "user": ["u", "v", None, "v", "v"],
            "deadline": [9.0, 20.0, None, None, 60.0],
        }
    )
    one, four = size_classes(jobs)
    assert (one["preemptions"], one["lost_gpu_seconds"], one["worst_finish_time_fairness"]) == (3, 15.0, 4.0)
    assert (four["preemptions"], four["lost_gpu_seconds"], four["worst_finish_time_fairness"]) == (
        3,
        60.0,
        3.0,
    )
    assert (one["deadlines"], one["deadlines_missed"], one["deadlines_met"]) == (2, 1, 0.5)
    assert (four["deadlines"], four["deadlines_met"]) == (1, 1.0)
    # Speeds 1 and 1/2 of two users, then one user alone.
    assert one["jain_index_users"] == pytest.approx(1.5**2 / (2 * 1.25))
    assert four["jain_index_users"] == 1.0


def test_gpu_seconds_do_not_wrap_in_32_bits() -> None:
    jobs = pl.DataFrame(
        {"num_gpus": pl.Series([4_000_000_000], dtype=pl.UInt32), "run_time": [1e6]},
    )
    assert JobArrays(jobs)["held"].sum() == 4e15


def test_a_replay_of_no_length_has_no_utilisation() -> None:
    jobs = pl.DataFrame({"submit_time": [1.0], "finish_time": [1.0], "run_time": [0.0], "num_gpus": [1]})
    rows = Rows("run", JobArrays(jobs), place=Place(1, 8))
    (utilisation,) = (row.of(rows) for row in rows_of("run") if row.key == "utilisation")
    assert utilisation == 0.0


def test_seconds_add_up_and_give_the_rate() -> None:
    once = with_seconds({"jobs": 100, "policy": "fifo"}, 2.0)
    assert once == {"jobs": 100, "policy": "fifo", "total_seconds": 2.0, "jobs_per_second": 50.0}
    assert with_seconds(once, 3.0)["jobs_per_second"] == 20.0
    assert once["total_seconds"] == 2.0


@pytest.mark.parametrize("size", [1, 2, 399, 400, 401, 10_000])
def test_the_cumulative_distribution_is_right_at_every_point_it_keeps(size: int) -> None:
    values = np.random.default_rng(size).exponential(100.0, size)
    x, share = metrics.cumulative_distribution(values, points=400)
    assert x.size <= 400
    assert x[0] == values.min()
    assert x[-1] == values.max()
    np.testing.assert_allclose(share, [(values <= at).mean() for at in x])


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 101, 4_999])
def test_percentiles_have_the_bits_of_numpys(size: int) -> None:
    rng = np.random.default_rng(size)
    for scale in (1e-6, 1.0, 1e12):
        values = scale * np.exp(5 * rng.normal(size=size))
        result = metrics.statistics(values)
        assert [result[name] for name in ("median", "p90", "p99")] == np.percentile(
            values, (50, 90, 99)
        ).tolist()


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 20_000),
    kinds=st.integers(1, 5_000),
    order=st.sampled_from(["drawn", "up", "down", "saw"]),
    ends=st.booleans(),
)
def test_percentiles_have_the_bits_of_numpys_whatever_a_sample_shows(
    seed: int, size: int, kinds: int, order: str, *, ends: bool
) -> None:
    """Ties, values in order, a period that a sample of every n-th value does not see, infinite values."""
    rng = np.random.default_rng(seed)
    values = np.exp(3 * rng.normal(size=kinds))[rng.integers(0, kinds, size)]
    if order in ("up", "down"):
        values = np.sort(values)[:: 1 if order == "up" else -1].copy()
    if order == "saw":
        values[:: max(1, size // 512)] *= 1e6
    if ends:
        values[rng.integers(0, size, 3)] = math.inf
    result = metrics.statistics(values)
    with np.errstate(invalid="ignore"):
        right = np.percentile(values, (50, 90, 99))
    np.testing.assert_array_equal([result[name] for name in ("median", "p90", "p99")], right)


def test_percentiles_among_nans_are_nan() -> None:
    result = metrics.statistics(np.array([1.0, math.nan, 2.0]))
    assert all(math.isnan(value) for value in result.values())
