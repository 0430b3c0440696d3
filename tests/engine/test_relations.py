"""Relations between two runs that hold whatever the right answer is, on tables too large for a second form.

RINGBCO_RELATION_JOBS sets how many jobs. A policy for which a relation does not hold is named, with why.
"""

import os
import random
from functools import cache
from typing import Any, Final

import polars as pl
import pytest

import ringbco
from ringbco import Cluster
from ringbco.cluster.tiers import Tier
from ringbco.result.folder import WALL_TIME
from ringbco.run.registry import REPLAY
from ringbco.trace.jobs import from_frame

JOBS: Final = int(os.environ.get("RINGBCO_RELATION_JOBS", "10000"))
SLOW: Final = frozenset({"afs", "elasticflow", "ftf", "gittins", "repack", "tiresias", "time-slice"})
"""Policies of which a decision costs much more: they get a tenth of the jobs."""
POLICIES: Final = tuple(name for name in REPLAY["policy"].names if name != "recorded")  # needs a log
RESIZE: Final = frozenset({"afs", "elastic-srtf", "elasticflow", "optimus"})
OF_SECONDS: Final = {
    "preempt_cost": 30.0,
    "interval": 60.0,
    "quantum": 60.0,
    "resize_every": 300.0,
    "aging": 7200.0,
}

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
every_policy = pytest.mark.parametrize("policy", POLICIES)


@cache
def _table(jobs: int) -> pl.DataFrame:
    frame = ringbco.generate("philly", jobs, 7, gpus=128, load=1.1).frame
    row = pl.int_range(pl.len())
    return frame.with_columns(
        deadline=pl.col("submit_time") + 4 * pl.col("duration") + 600,
        vc=pl.format("vc{}", row % 5 // 3),
        user=pl.format("u{}", row * 7 % 3),
    )


def table(policy: str) -> pl.DataFrame:
    """Jobs of three users in two virtual clusters, more than 128 GPUs can take at once."""
    return _table(JOBS // 10 if policy in SLOW else JOBS)


def run(frame: pl.DataFrame, policy: str, cluster: Cluster | str = "16x8", **options: Any) -> pl.DataFrame:
    """When each job starts and ends, how often it is stopped, and how many servers it has."""
    jobs = ringbco.replay(from_frame(frame), cluster, policy=policy, model="fixed", **options).jobs
    told = ("job_id", "start_time", "finish_time", "preemptions", "resizes", "num_servers")
    return jobs.select(name for name in told if name in jobs.columns)


@cache
def plain(policy: str) -> pl.DataFrame:
    """That of the table as it is."""
    return run(table(policy), policy)


def servers(*types: str) -> Cluster:
    """Servers of 8 GPUs of those types."""
    return Cluster([8] * len(types), server_gpu_type=types)


@every_policy
def test_the_table_makes_jobs_wait(policy: str) -> None:
    assert (plain(policy)["start_time"] > table(policy)["submit_time"]).mean() > 0.01


@pytest.mark.parametrize("policy", sorted({*POLICIES} - {"repack"}))
def test_all_times_doubled_double_every_result_to_the_bit(policy: str) -> None:
    """But under repack, where a job's strain counts 5 s beside its run time, which no option says."""
    frame = table(policy)
    read = {name: value for name, value in OF_SECONDS.items() if policy in REPLAY[name].policies}
    longer = {name: 2 * value for name, value in read.items()}
    if policy in REPLAY["thresholds"].policies:
        read["thresholds"], longer["thresholds"] = [18000.0], [36000.0]
    one = run(frame, policy, **read)
    other = run(frame.with_columns(pl.col("submit_time", "duration", "deadline") * 2), policy, **longer)
    assert other.equals(one.with_columns(pl.col("start_time", "finish_time") * 2))


@every_policy
def test_servers_of_two_types_may_come_in_any_order(policy: str) -> None:
    """As long as that of the types stays: ties go to the type that comes first."""
    frame, row = table(policy), pl.int_range(pl.len())
    asks = pl.when(row % 3 == 0).then(pl.lit("V100")).when(row % 3 == 1).then(pl.lit("P100"))
    frame = frame.with_columns(gpu_type=asks.otherwise(pl.lit("P100|V100")), recorded_on=pl.lit("V100"))
    mixed = ["P100"] * 7 + ["V100"] * 8
    random.Random(5).shuffle(mixed)
    one = run(frame, policy, servers(*["P100"] * 8, *["V100"] * 8))
    assert run(frame, policy, servers("P100", *mixed)).equals(one)


@every_policy
def test_a_job_after_the_last_end_changes_nothing_before(policy: str) -> None:
    frame, one = table(policy), plain(policy)
    late = pl.col("submit_time") * 0 + one["finish_time"].max() + 1e6
    last = frame.tail(1).with_columns(job_id=pl.lit("late"), submit_time=late, deadline=late + 1e6)
    assert run(pl.concat([frame, last]), policy).head(one.height).equals(one)


@pytest.mark.parametrize("policy", sorted({*POLICIES} - {"rand"}))
def test_two_virtual_clusters_are_two_runs(policy: str) -> None:
    """But under rand, which draws other numbers for each."""
    frame, homes = table(policy), {"vc0": 12, "vc1": 4}
    both = Cluster([8] * 16, server_vc=tuple(name for name, count in homes.items() for _ in range(count)))
    parts = [
        run(frame.filter(pl.col("vc") == name), policy, Cluster([8] * count)) for name, count in homes.items()
    ]
    assert pl.concat(parts).sort("job_id").equals(run(frame, policy, both).sort("job_id"))


@pytest.mark.parametrize("policy", sorted({*POLICIES} - RESIZE))
def test_quotas_that_cannot_bind_change_nothing(policy: str) -> None:
    """But where jobs are resized: with quotas each that waits has a turn (docs/elastic-policies.md)."""
    frame = table(policy)
    quota = pl.DataFrame({"user": ["u0", "u1", "u2"], "gpus": [10**7] * 3, "borrow": [False] * 3})
    one = plain(policy)
    assert run(frame, policy, quota=quota).select(one.columns).equals(one)


@pytest.mark.parametrize("policy", sorted({*POLICIES} - {"repack"}))
def test_servers_that_no_job_may_use_change_nothing(policy: str) -> None:
    """But under repack, where demand is a share of all GPUs of the cluster (docs/repack-reference.md)."""
    frame = table(policy).with_columns(gpu_type=pl.lit("V100"), recorded_on=pl.lit("V100"))
    one, other = (run(frame, policy, servers(*["V100"] * 16, *["P100"] * more)) for more in (1, 9))
    assert one.equals(other)


@every_policy
def test_a_tier_that_nobody_crosses_changes_nothing(policy: str) -> None:
    """But for what tiers add; under model rar."""
    added = {"max_crossing", "run_contention_uplinks"}
    flat, one_rack = Cluster([8] * 16), Cluster([8] * 16, tiers=(Tier("rack", 1e9, 16),))
    without, with_tier = (
        ringbco.replay(from_frame(table(policy)), cluster, policy=policy) for cluster in (flat, one_rack)
    )
    assert set(with_tier.jobs.columns) - set(without.jobs.columns) == added
    assert with_tier.jobs["max_crossing"].max() == 0.0
    assert with_tier.jobs.drop(added).equals(without.jobs)
    assert with_tier.allocations.equals(without.allocations)
    assert with_tier.timeline.equals(without.timeline)
    new = {*added, "links", *WALL_TIME}
    told = [{key: of.summary[key] for key in of.summary if key not in new} for of in (without, with_tier)]
    assert told[0] == told[1]
