"""Submissions and load by day, hour and weekday; ties. Numbers by hand."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringbco.cluster.spec import Cluster
from ringbco.study.demand import DAY, Clock, Periods, demand, load_by_day, ties
from ringbco.study.inspection import inspect_jobs
from ringbco.trace.jobs import from_frame, provenance

H = 3_600.0


def frame(*jobs: tuple[float, int, float], vc: str | None = None) -> pl.DataFrame:
    """Jobs of (submit_time, num_gpus, duration); `vc` has a letter for each."""
    columns = {
        "job_id": [str(at) for at in range(len(jobs))],
        "submit_time": [float(job[0]) for job in jobs],
        "num_gpus": [job[1] for job in jobs],
        "duration": [float(job[2]) for job in jobs],
    }
    return pl.DataFrame(columns | ({} if vc is None else {"vc": list(vc)}))


def test_days_without_an_epoch_begin_at_multiples_of_a_day() -> None:
    # One job on day 0, none on day 1, two on day 2, of which one runs until day 3.
    seen = inspect_jobs(
        from_frame(frame((10 * H, 2, 12 * H), (48 * H, 1, 6 * H), (60 * H, 4, 24 * H))), Cluster.parse("1x4")
    )
    days = seen["demand"]["days"]
    assert [(day["start"], day["jobs"]) for day in days] == [(0.0, 1), (DAY, 0), (2 * DAY, 2)]
    assert [day["gpu_days"] for day in days] == [1.0, 0.0, 0.25 + 4.0]
    assert [day["load"] for day in days] == [0.25, 0.0, 4.25 / 4]
    # If none waited: 2 GPUs for 12 of 24 h; nothing; 1 GPU for 6 h and 4 for 12 h.
    assert [day["gpus_wanted"] for day in days] == pytest.approx([1.0, 0.0, 0.25 + 2.0])
    assert seen["cluster"]["load_by_day"] == {
        "days": 3,
        "days_over": 1,
        "mean": pytest.approx(5.25 / 12),
        "min": 0.0,
        "median": 0.25,
        "p90": pytest.approx(0.25 + 0.8 * (4.25 / 4 - 0.25)),
        "max": 4.25 / 4,
    }


def test_an_epoch_moves_days_hours_and_weekdays() -> None:
    # submit_time 0 is Thursday 2020-09-03, 22:30: the second job is submitted on Friday at 00:00.
    metadata = provenance("helios", converter="convert", rows_read=2, epoch="2020-09-03T22:30:00")
    table = from_frame(frame((0, 1, 60), (5_400, 1, 60)), metadata=metadata)
    seen = inspect_jobs(table)["demand"]
    assert seen["epoch"] == "2020-09-03T22:30:00"
    assert [(day["start"], day["jobs"]) for day in seen["days"]] == [(-22.5 * H, 1), (1.5 * H, 1)]
    assert seen["hours"] == [1, *[0] * 21, 1, 0]
    assert seen["weekdays"] == [0, 0, 0, 1, 1, 0, 0]
    assert "load" not in seen["days"][0]


@pytest.mark.parametrize("text", [None, 5, "yesterday", "", "1970-01-01T00:00:00"])
def test_a_placeholder_or_no_epoch_is_none(text: object) -> None:
    assert Clock.parse(text, pl.Series([0.0, 9e8])) == Clock(None)


def test_unix_seconds_are_dates() -> None:
    submit = pl.Series([1_772_409_600.0, 1_772_500_000.0])  # 2 March 2026, a Monday, and the day after
    clock = Clock.parse(None, submit)
    assert (clock.epoch, clock.offset, clock.weekday) == (datetime(1970, 1, 1), 0.0, 3)
    assert Periods.of(submit.to_numpy(), clock).count == 2


def test_the_clock_on_the_wall_counts_not_the_zone() -> None:
    clock = Clock.parse("2023-03-06T01:00:00+08:00", pl.Series([0.0]))
    assert (clock.epoch, clock.offset, clock.weekday) == (datetime(2023, 3, 6, 1), H, 0)


def test_very_long_tables_are_cut_into_fewer_intervals() -> None:
    submit = np.array([0.0, 7_000 * DAY])
    periods = Periods.of(submit, Clock())
    assert (periods.days, periods.count) == (2, 3_501)
    assert periods.jobs().tolist() == [1, *[0] * 3_499, 1]
    assert periods.offered(np.array([DAY, 2 * DAY]))[[0, -1]].tolist() == [0.5, 1.0]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(0, 20 * DAY), st.integers(1, 64), st.floats(1, 9 * DAY)), min_size=1, max_size=30
    ),
    st.sampled_from([None, datetime(2021, 5, 5, 17, 3, 2)]),
)
def test_wanted_gpus_equal_a_sum_over_jobs(
    jobs: list[tuple[float, int, float]], epoch: datetime | None
) -> None:
    table = frame(*jobs)
    submit, duration = table["submit_time"].to_numpy(), table["duration"].to_numpy()
    gpus = table["num_gpus"].to_numpy().astype(np.float64)
    periods = Periods.of(submit, Clock(epoch))
    seen = demand(table, Clock(epoch), periods, None)
    for day, low, high in zip(seen["days"], periods.edges, periods.edges[1:], strict=False):
        inside = np.minimum(submit + duration, high) - np.maximum(submit, low)
        expected = float((gpus * np.maximum(inside, 0)).sum()) / DAY
        assert day["gpus_wanted"] == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert sum(day["jobs"] for day in seen["days"]) == len(jobs)
    assert sum(day["gpu_days"] for day in seen["days"]) == pytest.approx(float((gpus * duration).sum()) / DAY)
    assert sum(seen["hours"]) == sum(seen["weekdays"]) == len(jobs)


def test_load_by_day_counts_days_above_all_gpus() -> None:
    loads = load_by_day(np.array([4.0, 4.1, 0.0, 8.0]), 4)
    assert (loads["days"], loads["days_over"], loads["max"]) == (4, 2, 2.0)


def test_ties_share_the_time_not_only_the_second() -> None:
    table = frame((5, 1, 1), (5.5, 1, 1), (5, 1, 1), (7, 1, 1), (7, 1, 1), (7, 2, 1), (9, 1, 1), vc="aaabaca")
    assert ties(table) == {"jobs": 5, "share": 5 / 7, "groups": 2, "largest": 3}
    # In one virtual cluster only the first and the third.
    assert ties(table, ("vc", "submit_time")) == {"jobs": 2, "share": 2 / 7, "groups": 1, "largest": 2}
    alone = frame((0, 1, 1), (1, 1, 1))
    assert ties(alone) == {"jobs": 0, "share": 0.0, "groups": 0, "largest": 0}


def test_ties_within_virtual_clusters_need_a_cluster_that_has_them() -> None:
    table = from_frame(frame((0, 1, 1), (0, 1, 1), (3, 1, 1), (3, 1, 1), vc="aabc"))
    assert inspect_jobs(table, Cluster.parse("2x8"))["ties"]["in_one_vc"] is None
    divided = Cluster(np.array([8, 8, 8], dtype=np.uint32), server_vc=("a", "b", "c"))
    seen = inspect_jobs(table, divided)["ties"]
    assert (seen["jobs"], seen["in_one_vc"]["jobs"]) == (4, 2)
