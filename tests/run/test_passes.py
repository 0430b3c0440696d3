"""Runs that would take hours are refused before they start, and the estimate is near what happens."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ringbco
from ringbco.errors import UsageError
from ringbco.run.options import as_cluster, checked
from ringbco.run.outage_draws import failures_until
from ringbco.run.passes import _looks, loads
from ringbco.trace.jobs import as_table
from ringbco.trace.workload import resolve

FACTOR = 4.0
"""What docs/reliability.md states."""
DAY = 86_400.0
HOPELESS = "draw:mtbf=100,mttr=10"


def jobs(
    durations: list[float], gpus: list[int] | None = None, submit: list[float] | None = None
) -> pl.DataFrame:
    count = len(durations)
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(count)],
            "submit_time": submit or [0.0] * count,
            "num_gpus": gpus or [1] * count,
            "duration": durations,
        }
    )


def burst(count: int) -> pl.DataFrame:
    random = np.random.default_rng(1)
    return jobs(
        (random.exponential(3600.0, count) + 1.0).tolist(), random.choice([1, 2, 4, 8], count).tolist()
    )


def replay(table: pl.DataFrame, cluster: str, policy: Any, **options: Any) -> ringbco.Outcome:
    return ringbco.replay(table, cluster, policy=policy, **{"model": "fixed"} | options)


class Looks(ringbco.Policy):
    """Starts whoever finds room, and counts its decisions."""

    interval: float | None = 60.0
    looks: ClassVar[int] = 0

    def decide(self, state: ringbco.State) -> None:
        type(self).looks += 1
        for row in state.waiting.tolist():
            state.start(row, strict=False)


class Hurried(Looks):
    """Would decide a billion times."""

    interval = 1e-6


@pytest.mark.parametrize(
    ("policy", "table", "options", "expected"),
    [
        ("gavel", jobs([1e4 * DAY] * 2), {}, "option round: 360: expected a round of at least"),
        ("sia", jobs([1e5 * DAY] * 2), {}, "option round: 60: expected a round of at least"),
        ("gavel", jobs([3000.0] * 2), {"parameters": {"round": 1e-6}, "preempt_cost": 0.0}, "option round"),
        ("time-slice", jobs([1e6] * 2000), {"quantum": 0.01, "preempt_cost": 0.0}, "option quantum: 0.01"),
        ("tiresias", jobs([1e6] * 2), {"interval": 1e-6}, "option interval: 1e-06"),
        (Hurried, jobs([3000.0] * 2), {}, "option interval: 1e-06: expected an interval of at least"),
        (
            "time-slice",
            jobs([1e6] * 2500),
            {"quantum": 10.0, "preempt_cost": 0.0},
            "the stays of time-slice would take",
        ),
        ("gittins", jobs([1e6] * 8000), {"interval": 0.65}, "option interval: 0.65: expected an interval"),
        ("gavel", burst(100_000), {}, "or fewer jobs"),
        ("sia", burst(100_000), {}, "or fewer jobs"),
        (
            "allox",
            burst(100_000),
            {},
            "option policy: allox: expected fewer jobs, or another policy; of 100,000",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_would_take_hours_is_refused_at_once(
    policy: Any, table: pl.DataFrame, options: dict[str, Any], expected: str
) -> None:
    cluster = "32x8" if table.height > 2000 else "1x1"
    with pytest.raises(UsageError) as refused:
        replay(table, cluster, policy, **options)
    assert expected in str(refused.value)


QUOTA = pl.DataFrame({"user": ["u0"], "gpus": [64], "borrow": [True]})


@pytest.mark.parametrize(
    ("policy", "count", "options", "why"),
    [
        ("repack", 100_000, {"quota": QUOTA}, "quotas"),
        ("srtf", 300_000, {"quota": QUOTA}, "quotas"),
        ("srtf", 300_000, {"preempt_after": 600.0}, "protected jobs"),
        ("afs", 200_000, {"quota": QUOTA}, "quotas"),
        ("elasticflow", 50_000, {}, "jobs with deadlines"),
    ],
    ids=str,
)
def test_decisions_that_look_at_all_who_wait_are_refused(
    policy: str, count: int, options: dict[str, Any], why: str
) -> None:
    table = burst(count).with_columns(
        user=pl.lit("u0"), min_gpus=pl.col("num_gpus"), max_gpus=pl.col("num_gpus"), deadline=pl.lit(1e12)
    )
    with pytest.raises(
        UsageError, match=f"{policy}: expected fewer jobs, .*; with {why} each decision looks"
    ):
        replay(table, "32x8", policy, **options)
    assert replay(table.head(100), "32x8", policy, **options).jobs.height == 100


def test_looks_are_none_where_nobody_waits_and_jobs_that_end_together_share_one() -> None:
    def looks(table: pl.DataFrame) -> float:
        workload = resolve(as_table(table), as_cluster("1x1"), checked({"model": "fixed"}))
        times = workload.profiled.ideal_run_time, workload.profiled.ideal_run_time
        return _looks(workload, np.arange(table.height), 1, times, 0.0)

    assert looks(jobs([10.0] * 9, submit=[20.0 * row for row in range(9)])) == 0.0
    # One after the other: 7 wait when the first is done and another has begun, then 6, ...
    assert looks(jobs([10.0] * 9)) == 28.0
    assert looks(jobs([10.0, 30.0, 50.0])) == 1.0


def test_tables_among_the_options_are_not_compared() -> None:
    quota = QUOTA.with_columns(gpus=pl.lit(1))
    table = jobs([10.0] * 3).with_columns(user=pl.lit("u0"))
    assert replay(table, "1x1", "fifo", quota=quota, outages="draw:mtbf=1000,mttr=1").jobs.height == 3


@pytest.mark.parametrize("policy", ["gavel", "sia"])
def test_the_round_that_is_named_is_accepted(policy: str) -> None:
    table = jobs([1e6 * DAY] * 2)
    with pytest.raises(UsageError, match="at least") as refused:
        replay(table, "1x1", policy)
    least = float(str(refused.value).split("at least ")[1].split(" s")[0])
    replay(table, "1x1", policy, parameters={"round": 100.0 * least})


@pytest.mark.parametrize("policy", ["gavel", "sia", "allox", "time-slice", "ftf", "tiresias"])
def test_what_takes_moments_is_accepted(policy: str) -> None:
    assert replay(burst(60), "4x8", policy).jobs.height == 60
    # Short rounds where nobody is in the way of anybody.
    if policy in {"gavel", "sia"}:
        replay(jobs([300.0, 200.0]), "1x2", policy, parameters={"round": 20.0})


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(1.0, 5000.0), st.sampled_from([1, 1, 2, 4]), st.floats(0.0, 20_000.0)),
        min_size=1,
        max_size=25,
    )
)
def test_the_estimate_is_near_what_happens(rows: list[tuple[float, int, float]]) -> None:
    durations, gpus, submit = (list(column) for column in zip(*rows, strict=True))
    table = jobs(durations, gpus, submit)
    options = checked({"model": "fixed"})
    workload = resolve(as_table(table), as_cluster("2x4"), options)
    (load,) = loads(workload, "fixed", resizes=False)
    Looks.looks = 0
    done = replay(table, "2x4", Looks).jobs
    assert Looks.looks <= FACTOR * load.length / 60.0 + 3 * len(rows)
    present = float((done["finish_time"] - done["submit_time"]).sum())
    # Both are lower bounds, and neither is far below.
    assert load.present * load.length <= present * (1.0 + 1e-9)
    last = float(done["finish_time"].max()) - min(submit)  # type: ignore[arg-type]
    assert load.length <= last * (1.0 + 1e-9)


@pytest.mark.parametrize("policy", ["fifo", "easy", "srtf", "time-slice", "repack", "afs", "gavel", "sia"])
def test_a_job_between_two_outages_that_come_too_soon_is_refused(policy: str) -> None:
    name, queue = ("fifo", {"queue": "easy"}) if policy == "easy" else (policy, {})
    with pytest.raises(UsageError, match=r"checkpoints at most 758 s apart, not 1800 .*; job 'j0'"):
        replay(jobs([10_000.0]), "32x8", name, outages=HOPELESS, **queue)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        *(
            (policy, {})
            for policy in ("fifo", "srtf", "tiresias", "ftf", "edf", "repack", "afs", "allox", "gavel")
        ),
        ("fifo", {"evict": True}),
        ("fifo", {"quota": QUOTA}),
        ("fifo", {"search": "asha:eta=2,rungs=1"}),
    ],
)
def test_other_jobs_do_not_help(policy: str, options: dict[str, Any]) -> None:
    user, priority = pl.lit("u0"), pl.Series([3, 2], dtype=pl.Int32)
    several = jobs([10_000.0] * 2).with_columns(user=user, priority=priority, group=pl.lit("s"))
    several = several.with_columns(deadline=pl.lit(1e9), max_gpus=pl.lit(2))
    with pytest.raises(UsageError, match="expected checkpoints at most"):
        replay(several, "1x1", policy, outages=HOPELESS, **options)


def test_turns_keep_progress() -> None:
    done = replay(jobs([3000.0] * 2), "1x1", "time-slice", outages=HOPELESS, quantum=60.0)
    assert done.jobs["failures"].min() > 0


def test_closer_checkpoints_help_and_nothing_helps_a_pause_that_is_too_long() -> None:
    done = replay(jobs([10_000.0]), "1x1", "fifo", outages=HOPELESS, checkpoint_interval=200.0)
    assert done.jobs["failures"][0] > 0
    with pytest.raises(UsageError, match="expected a longer mtbf"):
        replay(jobs([10_000.0]), "1x1", "fifo", outages="draw:mtbf=1,mttr=10")
    # The column of the job table counts before the option.
    own = jobs([10_000.0]).with_columns(checkpoint_interval=pl.lit(200.0))
    assert replay(own, "1x1", "fifo", outages=HOPELESS).jobs.height == 1


@pytest.mark.parametrize(("run", "mtbf", "every"), [(5000.0, 1000.0, 1800.0), (1000.0, 500.0, 3000.0)])
def test_failures_are_as_many_as_expected(run: float, mtbf: float, every: float) -> None:
    happened = [
        replay(
            jobs([run]),
            "1x1",
            "fifo",
            outages=f"draw:mtbf={mtbf:g},mttr=10",
            seed=seed,
            checkpoint_interval=every,
        ).jobs["failures"][0]
        for seed in range(100)
    ]
    expected = failures_until(
        np.array([run]), np.array([1.0]), np.array([every]), mtbf=mtbf, pause=30.0, cost=0.0
    )[0]
    assert np.mean(happened) == pytest.approx(expected, abs=4.0 * np.std(happened) / 100**0.5)


def test_checkpoints_that_would_take_hours_are_refused() -> None:
    table = jobs([1e9, 5.0])
    dear = {"checkpoint_interval": 1e-3, "checkpoint_cost": 1.0}
    with pytest.raises(UsageError, match=r"checkpoint-interval: 0.001: expected at least .* job 'j0'"):
        replay(table, "1x1", "fifo", **dear)
    own = table.with_columns(checkpoint_interval=pl.lit(1e-3))
    with pytest.raises(UsageError, match="option checkpoint-interval"):
        replay(own, "1x1", "fifo", checkpoint_cost=1.0)
    assert replay(table, "1x1", "fifo", checkpoint_interval=1e-3).jobs.height == 2  # without a cost
    assert replay(table, "1x1", "fifo", checkpoint_interval=1000.0, checkpoint_cost=1.0).jobs.height == 2
