"""What quotas cost: the engine's time a job with and without, at two sizes; `make bench`."""

from __future__ import annotations

import time
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
# Its growth from few jobs to many under fifo in a strict queue. A generated trace has longer queues the
# longer it is. Where jobs overtake, more of them wait and are evicted then, and a job costs more: that is
# printed, with its growth without quotas.
GROWTH = 1.5


def quotas(jobs: ringbco.JobTable, owner: str, borrow: bool, part: float) -> pl.DataFrame:
    """For each owner the GPUs that its share of the work would keep busy, times `part`; at least a job's."""
    work = pl.col("num_gpus") * pl.col("duration")
    of = jobs.frame.group_by(owner).agg(work.sum().alias("work"), pl.col("num_gpus").max().alias("largest"))
    own = (pl.col("work") / pl.col("work").sum() * 8 * SERVERS * part).ceil().cast(pl.Int64)
    return of.sort(owner).select(
        owner, pl.max_horizontal(own, "largest").alias("gpus"), borrow=pl.lit(borrow)
    )


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
    sizes = {"few": (FEW, 0.9), "busy": (FEW, 1.5), "many": (MANY, 0.9)}
    tables = {
        name: ringbco.generate("philly", number, 1, gpus=8 * SERVERS, load=load)
        for name, (number, load) in sizes.items()
    }
    kinds = [(borrow, part) for borrow in (False, True) for part in (0.5, 2.0)]
    least = dict.fromkeys(((name, kind) for name in tables for kind in (None, *kinds)), float("inf"))
    evictions: dict[tuple[str, tuple[bool, float] | None], float] = {}

    def run() -> None:
        nonlocal spent
        for name, kind in least:
            jobs, spent = tables[name], 0.0
            options = {} if kind is None else {"quota": quotas(jobs, owner, *kind)}
            result = ringbco.replay(
                jobs, f"{SERVERS}x8", policy=order, queue=queue, allocations=False, **options
            )
            least[name, kind] = min(least[name, kind], spent / jobs.num_jobs)
            if kind is not None:
                evictions[name, kind] = result.jobs["evictions"].sum() / jobs.num_jobs

    benchmark.pedantic(run, rounds=3)
    costs = {(name, kind): least[name, kind] / least[name, None] for name in tables for kind in kinds}
    growths = {kind: least["many", kind] / least["few", kind] for kind in (None, *kinds)}
    print(f"{order} {queue}: growth without quotas {growths[None]:.2f}")
    for kind in kinds:
        text = ", ".join(
            f"{name} {costs[name, kind]:.2f} ({evictions[name, kind]:.3f} evictions a job)" for name in tables
        )
        print(f"  by {owner}, borrow {kind[0]}, {kind[1]} of the cluster: {text}, growth {growths[kind]:.2f}")
    benchmark.extra_info.update(cost=max(costs.values()), growth=max(growths.values()))
    assert max(costs.values()) <= COST
    if (order, queue) == ("fifo", "strict"):
        assert max(growths.values()) < GROWTH
