"""Replays the public traces under every policy and writes docs/results-policies.md: `make policy-table`.

Eight virtual clusters of Philly and two of Helios (Venus, September 2020), at 100 and at 10 Gb/s between
servers, model `rar`, continuous clock, every option at its default.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ringbco.cluster import Cluster
from ringbco.jobs import read_jobs
from ringbco.options import policies
from ringbco.presets import ServerGroup
from ringbco.replay import replay

# Philly's servers as the Helios authors replayed them (51b7ef is not among theirs: one server is nearly
# full); Helios' two virtual clusters with their own.
CLUSTERS = {
    **{
        f"philly/{vc}": (ServerGroup(servers, 8),)
        for vc, servers in {
            "6214e9": 64, "6c71a0": 32, "0e4a51": 32, "2869ce": 16, "e13805": 16, "103959": 8, "ed69ec": 8,
            "51b7ef": 1,
        }.items()
    },
    "helios/venus_2vc_2020-09": (ServerGroup(20, 8, "vcvGl"), ServerGroup(2, 8, "vcvlY")),
}  # fmt: skip
SPEEDS = {"100": 12.5e9, "10": 1.25e9}
COLUMNS = {
    "mean JCT, s": ("mean_jct", "{:,.0f}"),
    "p99 JCT, s": ("p99_jct", "{:,.0f}"),
    "mean wait, s": ("mean_wait", "{:,.0f}"),
    "bounded slowdown": ("mean_bounded_slowdown", "{:,.2f}"),
    "makespan, d": ("makespan", "{:,.2f}"),
    "mean rho": ("mean_finish_time_fairness", "{:,.2f}"),
    "worst rho": ("worst_finish_time_fairness", "{:,.0f}"),
    "contention": ("mean_contention", "{:.2f}"),
    "spread": ("jobs_spread", "{:,}"),
    "preemptions": ("preemptions", "{:,}"),
}


def figures(summary: Mapping[str, Any]) -> Iterator[str]:
    for key, form in COLUMNS.values():
        value = summary.get(key, 0)
        yield form.format(value / 86_400 if key == "makespan" else value)


def table(path: Path, groups: tuple[ServerGroup, ...]) -> Iterator[str]:
    jobs = read_jobs(path)
    for speed, bandwidth in SPEEDS.items():
        cluster = Cluster.from_groups(groups, name=path.stem).with_network(inter_bandwidth=bandwidth)
        yield f"\n{speed} Gb/s:\n"
        yield f"| policy | {' | '.join(COLUMNS)} |"
        yield "| --- |" + " ---: |" * len(COLUMNS)
        for policy in policies():
            if policy.preemption == "edf":
                continue
            summary = replay(jobs, cluster, policy=policy.name, oversize="drop").summary
            yield f"| {policy.name} | {' | '.join(figures(summary))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="the folder with philly/ and helios/")
    parser.add_argument("page", type=Path, help="the page whose part below the marker is replaced")
    arguments = parser.parse_args()
    marker = "<!-- below: benches/policy_table.py -->"
    head = arguments.page.read_text(encoding="utf-8").split(marker)[0]
    lines = [marker]
    for name, groups in CLUSTERS.items():
        sizes = " and ".join(f"{group.count}" for group in groups)
        lines.append(f"\n## {name}: {sizes} server{'s' * (sizes != '1')} of 8 GPUs")
        lines += table(arguments.traces / f"{name}.csv", groups)
    arguments.page.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
