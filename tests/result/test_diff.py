"""Two results of the same jobs: differences by hand, parts that add up, what is refused (docs/diff.md)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.run import meet
from core_run import CASES
from frames import busy_jobs, table
from ringbco.errors import InputError, RingbcoError
from ringbco.result.diff import PARTS, parts_of
from ringbco.result.window import measured

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
CHUNK = 50
DRAWN = max(CHUNK, CASES // 6)
POLICIES = ("fifo", "sjf", "srtf", "tiresias", "sjf-bco", "easy", "time-slice", "afs")

# Alone on one server of 4 GPUs: x from 0 on for 100 s, y from 1 on for 10 s, z from 2 on for 5 s.
JOBS = table(
    job_id=["x", "y", "z"],
    submit_time=[0.0, 1.0, 2.0],
    num_gpus=[4, 4, 1],
    duration=[100.0, 10.0, 5.0],
    user=["ann", "bob", "bob"],
)


def run(policy: str, jobs: pl.DataFrame = JOBS, **options: Any) -> ringbco.Outcome:
    return ringbco.replay(jobs, "1x4", **{"policy": policy, "model": "fixed", "preempt_cost": 3, **options})


@pytest.fixture(scope="module")
def by_hand() -> ringbco.Diff:
    """Under fifo x runs 0 to 100, y 100 to 110, z 110 to 115.

    Under srtf x runs 0 to 1, y 1 to 2, z 2 to 7, y 7 to 19 and x 19 to 121, both with a pause of 3 s.
    """
    return run("fifo").diff(run("srtf"))


def test_by_hand(by_hand: ringbco.Diff) -> None:
    assert by_hand.parts == ("wait_gpus", "ideal_run_time", "lost_time")
    assert by_hand.jobs.columns[:4] == ["job_id", "user", "submit_time", "num_gpus"]
    columns = ("job_id", "jct_a", "jct_b", "difference", "change")
    assert by_hand.jobs.select(columns).rows() == [
        ("x", 100.0, 121.0, 21.0, "slower"),
        ("y", 109.0, 18.0, -91.0, "faster"),
        ("z", 113.0, 5.0, -108.0, "faster"),
    ]
    waits = ("wait_gpus_a", "wait_gpus_b", "wait_gpus", "lost_time_b", "lost_time", "ideal_run_time")
    assert by_hand.jobs.select(waits).rows() == [
        (0.0, 18.0, 18.0, 3.0, 3.0, 0.0),
        (99.0, 5.0, -94.0, 3.0, 3.0, 0.0),
        (108.0, 0.0, -108.0, 0.0, 0.0, 0.0),
    ]
    told = by_hand.to_dict()
    assert told["mean_jct"] == pytest.approx({"a": 322 / 3, "b": 48.0, "difference": -178 / 3})
    assert told["median_jct"] == {"a": 109.0, "b": 18.0, "difference": -91.0}
    assert (told["jobs"], told["faster"], told["slower"], told["same"]) == (3, 2, 1, 0)
    assert told["faster_share"] == pytest.approx(2 / 3)
    assert told["parts"]["lost_time"] == {"a": 0.0, "b": 2.0, "difference": 2.0}
    assert [(row["gpus"], row["jobs"], row["mean_jct"]["difference"]) for row in told["size_classes"]] == [
        ("1", 1, -108.0),
        ("2-4", 2, -35.0),
    ]
    assert [(row["user"], row["mean_jct"]["b"], row["slower_share"]) for row in told["users"]] == [
        ("bob", 11.5, 0.0),
        ("ann", 121.0, 1.0),
    ]
    assert [row["job_id"] for row in told["gained"]] == ["z", "y"]
    assert told["gained"][1]["parts"]["wait_gpus"] == {"a": 99.0, "b": 5.0, "difference": -94.0}
    (lost,) = told["lost"]
    assert (lost["job_id"], lost["user"], lost["num_gpus"]) == ("x", "ann", 4)
    assert lost["jct"] == {"a": 100.0, "b": 121.0, "difference": 21.0}
    assert by_hand.table.columns[-4:] == ["difference", *by_hand.parts]
    assert by_hand.sentences() == [
        "mean completion time in B is 48.0 s, 55.3 % below A's 107.3 s",
        "of 3 jobs in both 66.7 % are faster in B, 33.3 % slower, 0.0 % the same",
    ]


def test_a_result_and_itself() -> None:
    outcome = run("srtf")
    difference = outcome.diff(outcome)
    assert difference.same
    assert difference.most_changed("faster") == difference.most_changed("slower") == []
    assert difference.sentences() == ["the same: no completion time of 3 jobs differs"]


def test_rounding_is_no_difference() -> None:
    """Far from zero an instant is coarser than a billionth of a short job."""
    late = JOBS.with_columns(pl.col("submit_time") + 1e9)
    outcome = run("fifo", late)
    other = run("fifo", late)
    nudged = pl.col("finish_time") + 2e-7
    other.jobs = other.jobs.with_columns(finish_time=nudged, jct=nudged - pl.col("submit_time"))
    difference = outcome.diff(other)
    assert difference.jobs["difference"].min() > 0  # type: ignore[operator]
    assert difference.same
    assert not outcome.diff(run("srtf", late)).same


def test_jobs_that_only_one_has_are_counted() -> None:
    first = run("fifo", JOBS.head(2)).diff(run("srtf", JOBS))
    assert (first.jobs.height, first.a["only_here"], first.b["only_here"]) == (2, 0, 1)
    assert first.headings(("p", "q")) == [
        "A: p, fifo on 1x4, 2 jobs",
        "B: q, srtf on 1x4, 3 jobs, 1 of them only in B",
    ]
    # Those of a window are the jobs that count, as in all figures.
    part = run("fifo").diff(run("fifo", measure_from="1s"))
    assert (part.jobs["job_id"].to_list(), part.a["only_here"]) == (["y", "z"], 1)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (JOBS.with_columns(job_id="a" + pl.col("job_id")), "no job of A is in B, by job_id; diff takes two"),
        (
            JOBS.with_columns(pl.col("submit_time") * 2),
            "job y has submit_time 1.0 in A and 2.0 in B, as have 2 of 3 jobs; diff takes two results of the",
        ),
        (JOBS.with_columns(num_gpus=pl.lit(2)), "job x has num_gpus 4 in A and 2 in B, as have 3 of 3 jobs"),
    ],
)
def test_other_jobs_are_refused(other: pl.DataFrame, said: str) -> None:
    with pytest.raises(InputError) as raised:
        run("fifo").diff(run("fifo", other))
    assert str(raised.value).startswith(said)


def test_results_that_say_too_little_are_refused() -> None:
    sound = run("fifo")
    without = run("fifo")
    without.jobs = without.jobs.drop("wait_gpus", "run_spread")
    twice = run("fifo")
    twice.jobs = pl.concat([twice.jobs, twice.jobs.head(1)])
    damaged = run("srtf")
    assert damaged.stays_written is not None
    damaged.stays_written = damaged.stays_written.with_columns(wait_gpus=pl.lit(float("nan")))
    for outcome, said in (
        (without, "jobs without wait_gpus, run_spread do not say where their time went"),
        (twice, "jobs.parquet: column job_id: x: expected each job once"),
        (damaged, "column wait_gpus: NaN: expected seconds of job x"),
    ):
        with pytest.raises(InputError, match=said):
            sound.diff(outcome)


def other_run(seed: int, case: Any) -> ringbco.Outcome:
    """The same jobs under the first of some policies that takes the case's options."""
    order = random.Random(seed).sample(POLICIES, len(POLICIES))
    for policy in order:
        try:
            return case.replay(policy=policy)  # type: ignore[no-any-return]
        except RingbcoError:
            continue
    return case.replay()  # type: ignore[no-any-return]


@pytest.mark.parametrize("chunk", range(-(-DRAWN // CHUNK)))
def test_parts_add_up(chunk: int) -> None:
    """To 1e-6 of the larger completion time and the rounding of instants; each is its column's value."""
    differ, seeds = 0, range(CHUNK * chunk, min(DRAWN, CHUNK * (chunk + 1)))
    for seed in seeds:
        seen = meet(seed, check=False).seen
        assert seen.outcome is not None
        difference = seen.outcome.diff(other_run(seed, seen.case))
        last = float(seen.outcome.jobs["finish_time"].abs().max())  # type: ignore[arg-type]
        coarse = 4.0 * float(np.spacing(last))
        larger = difference.jobs.select(pl.max_horizontal("jct_a", "jct_b")).to_series()
        for of, whole in (("_a", "jct_a"), ("_b", "jct_b"), ("", "difference")):
            sums = difference.jobs.select(
                pl.sum_horizontal(f"{name}{of}" for name in difference.parts)
            ).to_series()
            far = (sums - difference.jobs[whole]).abs() > 1e-6 * larger + coarse
            assert not far.any(), (seed, of, difference.jobs.filter(far))
        jobs, parts = measured(seen.outcome), parts_of(seen.outcome)
        for name in set(PARTS) & set(jobs.columns):
            off = (pl.Series(parts[name]) - jobs[name].cast(pl.Float64)).abs()
            # As for sums over stays in `cases.balance`.
            near = 4e-6 * jobs["jct"] + 16.0 * coarse * (1 + seen.outcome.stays.height) * seen.case.room
            assert not (off > near).any(), (seed, name, jobs.filter(off > near))
        differ += not difference.same
    assert differ > len(seeds) // 4


def test_many_jobs_have_twenty_on_either_side() -> None:
    jobs = busy_jobs(200)
    a, b = (ringbco.replay(jobs, "2x4", policy=policy) for policy in ("fifo", "srtf"))
    difference = a.diff(b)
    gained, lost = (difference.most_changed(change) for change in ("faster", "slower"))
    assert len(gained) == 20
    for rows, sign in ((gained, -1), (lost, 1)):
        sizes = [sign * row["jct"]["difference"] for row in rows]
        assert sizes == sorted(sizes, reverse=True)
        rest = difference.jobs.filter(~pl.col("job_id").is_in([row["job_id"] for row in rows]))["difference"]
        assert (sign * rest).max() <= sizes[-1]  # type: ignore[operator]
    assert sum(row["jobs"] for row in difference.users()) == 200
    assert [row["job_id"] for row in b.diff(a).most_changed("slower")] == [row["job_id"] for row in gained]
