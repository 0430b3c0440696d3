"""How far SRTF and repack are from the lower bound on the public traces: the table of docs/bound.md.

    python benches/bound_table.py [TRACES]

prints it. Traces, clusters and settings are those of docs/results-policies.md. As SRTF does, repack knows the
run times.
"""

from __future__ import annotations

import heapq
import itertools
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from policy_table import CLUSTERS, SPEEDS
from ringbco.cluster.spec import Cluster
from ringbco.run.bound import bound
from ringbco.run.replay import replay
from ringbco.trace.jobs import read_jobs

HEAD = (
    "| trace | links | jobs | ideal run time, s | bound, s | jobs by term | srtf, s | srtf / bound"
    " | repack, s | repack / bound | repack, worst slowdown | its bound |",
    "| --- | --- |" + " ---: |" * 10,
)


def meets(jobs: list[tuple[float, float]], slowdown: float) -> bool:
    """Whether jobs of (submission, run time), in that order, can all be done one at a time within `slowdown`
    times their run times: by earliest deadline first, which preempts at no cost."""
    open_jobs: list[tuple[float, float]] = []
    for (submitted, run), (until, _) in itertools.pairwise([*jobs, (math.inf, 0.0)]):
        heapq.heappush(open_jobs, (submitted + slowdown * run, run))
        now = submitted
        while open_jobs and now < until:
            deadline, left = heapq.heappop(open_jobs)
            done = now + left
            if done > until:
                heapq.heappush(open_jobs, (deadline, done - until))
            elif done > deadline + 1e-6:
                return False
            now = min(done, until)
    return True


def worst_slowdown_bound(jobs: pl.DataFrame, cluster: Cluster) -> float:
    """What the worst slowdown is at least under any policy: gangs of more than half of the GPUs run one at a
    time (docs/bound.md#slowdown). jobs: of a result."""
    bounds = [1.0]
    for vc in cluster.vc_names or [None]:
        own = jobs if vc is None else jobs.filter(vc=vc)
        gpus = cluster.server_gpus if vc is None else cluster.server_gpus[cluster.vc_servers(vc)]
        big = own.filter(2 * pl.col("num_gpus") > int(gpus.sum())).select("submit_time", "ideal_run_time")
        alone = sorted(big.iter_rows())
        low, high = 1.0, 2.0
        while not meets(alone, high):
            low, high = high, 2 * high
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (low, middle) if meets(alone, middle) else (middle, high)
        bounds.append(math.floor(100 * low) / 100)
    return max(bounds)


def rows(traces: Path, only: str = "") -> Iterator[str]:
    """A line a trace and speed; `only`: of the traces whose name begins so."""
    for name, groups in CLUSTERS.items():
        if not name.startswith(only):
            continue
        jobs = read_jobs(traces / f"{name}.csv")
        for speed, bandwidth in SPEEDS.items():
            cluster = Cluster.from_groups(groups).with_network(inter_bandwidth=bandwidth)
            found = bound(jobs, cluster, oversize="drop")
            outcome = replay(jobs, cluster, policy="srtf", oversize="drop")
            packed = replay(jobs, cluster, policy="repack", predict="exact", oversize="drop")
            mean, own = (ran.summary["mean_jct"] for ran in (outcome, packed))
            worst = packed.summary["worst_finish_time_fairness"]
            terms = ", ".join(f"{count:,}" for count in found.set_jobs.values())
            least = worst_slowdown_bound(packed.jobs, cluster)
            yield (
                f"| {name} | {speed} | {found.jobs:,} | {outcome.jobs['ideal_run_time'].mean():,.0f} |"
                f" {found.mean_jct:,.0f} | {terms} | {mean:,.0f} | {mean / found.mean_jct:.4f} | {own:,.0f} |"
                f" {own / found.mean_jct:.4f} | {worst:,.2f} | {least:,.2f} |"
            )


if __name__ == "__main__":
    print(*HEAD, *rows(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces")), sep="\n")
