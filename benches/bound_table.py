"""How far SRTF and repack are from the lower bound on the public traces: the table of docs/bound.md.

    python benches/bound_table.py [TRACES]

prints it. Traces, clusters and settings are those of docs/results-policies.md. As SRTF does, repack knows the
run times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from policy_table import CLUSTERS, SPEEDS
from ringbco.cluster.spec import Cluster
from ringbco.run.bound import bound
from ringbco.run.replay import replay
from ringbco.trace.jobs import read_jobs

HEAD = (
    "| trace | links | jobs | ideal run time, s | bound, s | jobs by term | srtf, s | srtf / bound"
    " | repack, s | repack / bound | repack, worst slowdown |",
    "| --- | --- |" + " ---: |" * 9,
)


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
            yield (
                f"| {name} | {speed} | {found.jobs:,} | {outcome.jobs['ideal_run_time'].mean():,.0f} |"
                f" {found.mean_jct:,.0f} | {terms} | {mean:,.0f} | {mean / found.mean_jct:.4f} | {own:,.0f} |"
                f" {own / found.mean_jct:.4f} | {worst:,.2f} |"
            )


if __name__ == "__main__":
    print(*HEAD, *rows(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces")), sep="\n")
