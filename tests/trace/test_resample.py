"""Days of a trace drawn anew, and generated tables made anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from interval_coverage import KINDS, held
from ringbco import generate
from ringbco.errors import InputError, UsageError
from ringbco.run.draws import Seeds, seeded_options, table_of
from ringbco.trace.jobs import JobTable, from_frame, read_jobs, write_jobs
from ringbco.trace.resample import DAY, days_of, redrawn, resampled, weeks_of
from ringbco.trace.synthetic import again, check_generated


def some_days(days: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Submissions of so many days from a Wednesday on, some of a day without any, in no order."""
    rng = np.random.default_rng(seed)
    day = np.concatenate([[3, days + 2], rng.integers(3, days + 3, size=5 * days)])
    submit: np.ndarray[Any, np.dtype[np.float64]] = day * DAY + rng.integers(0, int(DAY), size=day.size)
    return submit


@pytest.mark.parametrize("days", [1, 3, 7, 23, 28])
@pytest.mark.parametrize("block", [1.0, 2.5])
def test_a_draw_is_whole_days_of_the_right_weekday(days: int, block: float) -> None:
    submit = some_days(days)
    day, count = days_of(submit)
    assert count == days
    rows, times, blocks = redrawn(submit, np.random.default_rng(1), block)
    assert np.all(np.diff(times) >= 0)
    assert np.all(np.diff(blocks) >= 0)
    moved = times - submit[rows]
    assert np.all(moved % DAY == 0)  # the time of day stays
    place = day[rows] + (moved / DAY).astype(int)
    assert place.min() >= 0
    assert place.max() < days
    for at in np.unique(place):
        own = rows[place == at]
        (source,) = set(day[own])
        assert sorted(own) == sorted(np.flatnonzero(day == source))  # all jobs of that day
    begins = np.flatnonzero(np.diff(blocks, prepend=-1))
    # Where a block's first day has jobs, that day is of the weekday at which it is placed.
    if block == 1.0:
        assert np.all(moved[begins] % (7 * DAY) == 0)


def test_blocks_are_consecutive_days_that_wrap_and_have_the_mean_length_asked_for() -> None:
    submit = np.arange(28) * DAY + 5.0
    lengths = []
    for seed in range(300):
        rows, _, blocks = redrawn(submit, np.random.default_rng(seed), 3.0)
        together = np.diff(blocks) == 0
        assert np.all((np.diff(rows) % 28 == 1)[together])
        lengths.append(28 / (blocks[-1] + 1))
    # Of a geometric length with mean 3 cut off after 28 days: 28 / (1 + 27 / 3) blocks in the mean.
    assert np.mean([28 / length for length in lengths]) == pytest.approx(1 + 27 / 3, rel=0.05)


def test_every_recorded_day_of_a_weekday_is_as_likely() -> None:
    submit = np.arange(28) * DAY
    drawn = [redrawn(submit, np.random.default_rng(seed))[0] for seed in range(2000)]
    counts = np.bincount(np.concatenate(drawn), minlength=28)
    assert counts.sum() == 28 * 2000
    assert np.all(np.abs(counts - 2000) < 5 * np.sqrt(2000))


def test_a_week_is_only_itself() -> None:
    submit = np.arange(7) * DAY + 1.0
    rows, times, _ = redrawn(submit, np.random.default_rng(4))
    assert rows.tolist() == list(range(7))
    assert times.tolist() == submit.tolist()


def table() -> JobTable:
    submit = some_days(21)
    number = submit.size
    return from_frame(
        pl.DataFrame(
            {
                "job_id": [f"j{row}" for row in range(number)],
                "submit_time": submit,
                "num_gpus": [1] * number,
                "duration": [float(row + 1) for row in range(number)],
                "deadline": submit + 100.0,
                "group": ["g" if row % 2 else None for row in range(number)],
            }
        )
    )


def test_a_drawn_table_is_a_job_table() -> None:
    recorded = table()
    drawn = resampled(recorded, 3)
    from_frame(drawn.frame)  # ids are unique, columns as they should be
    assert drawn.is_sorted
    late = drawn.frame["deadline"] - drawn.frame["submit_time"]
    assert late.to_numpy() == pytest.approx(100.0)
    kept = drawn.frame["job_id"].str.split("-").list.last()
    before = dict(zip(recorded.frame["job_id"], recorded.frame["duration"], strict=True))
    assert [before[name] for name in kept] == drawn.frame["duration"].to_list()
    assert drawn.frame["group"].drop_nulls().n_unique() > 1  # two days of one search are two searches
    assert resampled(recorded, 3).frame.equals(drawn.frame)
    assert not resampled(recorded, 4).frame.equals(drawn.frame)
    assert weeks_of(recorded) == 3.0


@pytest.mark.parametrize(
    "more", [{}, {"types": {"V100": 0.5, "A100": 0.3}}, {"elastic": "0.5:2", "elastic_share": 0.25}]
)
def test_a_generated_table_is_made_anew(more: Mapping[str, Any], tmp_path: Any) -> None:
    write_jobs(generate("philly", 200, 7, gpus=128, load=0.7, **more), tmp_path / "g.parquet")
    read = read_jobs(tmp_path / "g.parquet")
    check_generated(read)
    assert again(read, 3).frame.equals(generate("philly", 200, 10, gpus=128, load=0.7, **more).frame)
    drawn = Seeds(5).drawn(read)
    assert drawn.kind == "generated"
    assert table_of(read, drawn, 0, 0) is read
    assert Seeds(5, same_jobs=True).drawn(read).kind == "same jobs"
    assert Seeds(1).drawn(read).kind == "same jobs"
    assert Seeds(5, resample=True, block="2d").drawn(read) == ("resampled", weeks_of(read), 2.0)


def test_a_generated_table_that_was_changed_is_refused() -> None:
    made = generate("philly", 200, 7, gpus=128)
    changed = JobTable(made.frame.head(100), "g.parquet", made.metadata)
    with pytest.raises(InputError, match=r"g\.parquet: is not what its footer says.*--same-jobs"):
        Seeds(2).drawn(changed)
    bare = {key: value for key, value in made.metadata.items() if key != "ringbco.options"}
    with pytest.raises(InputError, match="expected a footer that tells"):
        Seeds(2).drawn(JobTable(made.frame, "g.parquet", bare))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seeds": 1, "resample": True}, "resample: expected together with --seeds"),
        ({"seeds": 1, "same_jobs": True}, "same-jobs: expected together with --seeds"),
        ({"seeds": 2, "resample": True, "same_jobs": True}, "one of them at most"),
        ({"seeds": 2, "block": "1d"}, "block: expected together with --resample"),
        ({"seeds": 2, "resample": True, "block": "3h"}, "block: '3h': expected .* at least a day"),
        ({"seeds": 2, "resample": True, "block": "soon"}, "block: 'soon': expected a length of time"),
    ],
)
def test_contradictions_are_refused(given: Mapping[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Seeds(**given).checked()


def test_a_seed_shuffles_ties_anew() -> None:
    assert seeded_options({"ties": "shuffle:4"}, 2, 10) == {"ties": "shuffle:6", "seed": 12}
    assert seeded_options({"ties": "rows"}, 2, 10) == {"ties": "rows", "seed": 12}
    assert seeded_options({"ties": "shuffle:4"}, 0, 10) == {"ties": "shuffle:4"}


def test_intervals_of_simulated_traces_hold_the_truth_and_narrow_with_the_weeks() -> None:
    kind = KINDS["a light load"]
    (four, *_), (twelve, *_) = (held(kind, weeks, 30, 20, seed=1) for weeks in (4, 12))
    assert twelve[0] >= 0.85  # of the mean run time, 0.95 in 2,000 traces
    assert 1.4 < four[1] / twelve[1] < 2.1  # by about the root of three
