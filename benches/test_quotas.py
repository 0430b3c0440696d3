"""What quotas cost: the engine's time a job with and without, at two sizes; `make bench`."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ringbco
from ringbco import _core

FEW, MANY = 100_000, 1_000_000
SERVERS = 256
# CPU time a job, in those of the same run without quotas.
COST = 4.0
# Its growth from few jobs to many where these are the few again and again, so that each has the same company.
# A generated trace has longer queues the longer it is: more jobs wait, and several times as many are evicted.
GROWTH = 1.5


def quotas(jobs: ringbco.JobTable, owner: str, borrow: bool, part: float) -> pl.DataFrame:
    """For each owner the GPUs that its share of the work would keep busy, times `part`; at least a job's."""
    work = pl.col("num_gpus") * pl.col("duration")
    of = jobs.frame.group_by(owner).agg(work.sum().alias("work"), pl.col("num_gpus").max().alias("largest"))
    own = (pl.col("work") / pl.col("work").sum() * 8 * SERVERS * part).ceil().cast(pl.Int64)
    return of.sort(owner).select(
        owner, pl.max_horizontal(own, "largest").alias("gpus"), borrow=pl.lit(borrow)
    )


def again(jobs: ringbco.JobTable, times: int) -> ringbco.JobTable:
    """The same jobs so many times, a month apart."""
    frame = jobs.frame
    span = float(frame["submit_time"].to_numpy().max()) + 30 * 86_400
    name, submit = pl.col("job_id"), pl.col("submit_time")
    turns = [
        frame.with_columns(pl.format("{}-{}", pl.lit(str(turn)), name).alias("job_id"), submit + turn * span)
        for turn in range(times)
    ]
    return ringbco.JobTable(pl.concat(turns))


@pytest.mark.parametrize("order", ["fifo", "sjf"])
@pytest.mark.parametrize("queue", ["strict", "skip"])
@pytest.mark.parametrize("owner", ["vc", "user"])
def test_quotas_on_a_million(
    owner: str, queue: str, order: str, benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tight and loose, with and without borrowing. CPU time is compared: the machine may have other work."""
    replay, spent = _core.replay, 0.0

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal spent
        began = time.thread_time()
        result = replay(*args, **kwargs)
        spent += time.thread_time() - began
        return result

    monkeypatch.setattr(_core, "replay", timed)
    few, busy, many = (
        ringbco.generate("philly", number, 1, gpus=8 * SERVERS, load=load)
        for number, load in ((FEW, 0.9), (FEW, 1.5), (MANY, 0.9))
    )
    tables = {"few": few, "again": again(few, MANY // FEW), "busy": busy, "many": many}
    kinds = [(borrow, part) for borrow in (False, True) for part in (0.5, 2.0)]
    given: dict[tuple[str, tuple[bool, float] | None], dict[str, Any]] = {}
    for kind in (None, *kinds):
        given |= {
            (name, kind): {"quota": quotas(jobs, owner, *kind)} if kind else {}
            for name, jobs in tables.items()
        }
    # Seconds a job, round by round; what few and again cost is measured over as long, one after the other.
    spans: dict[tuple[str, tuple[bool, float] | None], list[float]] = {key: [] for key in given}
    told: dict[tuple[str, tuple[bool, float]], str] = {}

    def run() -> None:
        nonlocal spent
        for (name, kind), options in given.items():
            jobs = tables[name]
            times, spent = MANY // len(jobs.frame), 0.0
            for _ in range(times):
                result = ringbco.replay(
                    jobs, f"{SERVERS}x8", policy=order, queue=queue, allocations=False, **options
                )
            spans[name, kind].append(spent / MANY)
            if kind:
                waited = result.jobs.filter(pl.col("start_time") > pl.col("submit_time")).height / len(
                    jobs.frame
                )
                evictions = result.jobs["evictions"].sum() / len(jobs.frame)
                told[name, kind] = f"{waited:.0%} waited, {evictions:.3f} evictions a job"

    def ratio(
        one: tuple[str, tuple[bool, float] | None], other: tuple[str, tuple[bool, float] | None]
    ) -> float:
        """Of what a job costs in two runs: the median of the rounds."""
        return median(a / b for a, b in zip(spans[one], spans[other], strict=True))

    benchmark.pedantic(run, rounds=3)
    costs = {(name, kind): ratio((name, kind), (name, None)) for name, kind in told}
    growths = {kind: ratio(("again", kind), ("few", kind)) for kind in kinds}
    for kind in kinds:
        print(
            f"{order} {queue} by {owner}, borrow {kind[0]}, {kind[1]} of the cluster:"
            f" growth {growths[kind]:.2f}"
        )
        for name in tables:
            growth = ratio((name, kind), ("few", kind))
            print(
                f"  {name}: {costs[name, kind]:.2f} x without quotas, {growth:.2f} x few, {told[name, kind]}"
            )
    benchmark.extra_info.update(cost=max(costs.values()), growth=max(growths.values()))
    assert max(costs.values()) <= COST
    assert max(growths.values()) < GROWTH
