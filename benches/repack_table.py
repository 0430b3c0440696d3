"""Makes the tables of docs/repack.md, of public traces: `make repack-table`.

Each policy runs once a seed, and seeds draw other models for the jobs. The first table is about philly/6214e9
and has means over the seeds, with the least and the greatest value. The second one is about every trace on
clusters of several sizes, and has the least and the greatest value alone.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

import page_tables
import policy_table
from ringbco.cluster.spec import Cluster
from ringbco.result.bound import of_results
from ringbco.result.outcome import Outcome
from ringbco.run.foresight import foreknowledge
from ringbco.run.replay import replay
from ringbco.sources import convert
from ringbco.trace.jobs import JobTable, TableLike, from_frame, read_jobs

TRACE: Final = "philly/6214e9.csv"
CLUSTER: Final = "64x8"
SEEDS: Final = 5
EXACT: Final = "repack --predict exact"
MARK: Final = "repack"
RUNS: Final = "repack runs"
BLIND: Final = ("fifo", "tiresias", "gittins", "smallest")
"""Policies that know no run time."""
FEW_SEEDS: Final = 2
VENUS: Final = "helios/venus_2vc_2020-09"
LOADS: Final = {f"elasticflow/cluster{number}": (0.5, 0.9) for number in ("01", "02", "03", "05", "06", "10")}
"""Offered loads of the traces whose clusters have no published sizes."""


@dataclass(frozen=True)
class Case:
    """A trace on servers of 8 GPUs. servers: several numbers are of as many virtual clusters."""

    trace: str
    servers: str

    def jobs(self, folder: Path) -> JobTable:
        """The job table; on one cluster, without the names of virtual ones."""
        jobs = read(folder, self.trace)
        return jobs if "+" in self.servers else from_frame(jobs.frame.drop("vc", strict=False))

    @property
    def cluster(self) -> Cluster:
        if "+" in self.servers:
            return Cluster.from_groups(policy_table.CLUSTERS[self.trace])
        return Cluster.parse(f"{self.servers}x8")


def read(folder: Path, trace: str) -> JobTable:
    """The whole job table of a trace."""
    path = folder / f"{trace}.csv"
    return convert("elasticflow", [path]).table if trace in LOADS else read_jobs(path)


def cases(folder: Path) -> Iterator[Case]:
    """Philly's clusters with all and with three quarters of their servers, Venus as one and as two, and
    elasticflow at two offered loads."""
    for trace, groups in policy_table.CLUSTERS.items():
        servers = groups[0].count
        if trace == VENUS:
            yield from (Case(trace, f"{number}") for number in range(17, 29))
            yield Case(trace, " + ".join(str(group.count) for group in groups))
        else:
            yield from (Case(trace, f"{number}") for number in (servers, servers * 3 // 4) if number)
    for trace, loads in LOADS.items():
        frame = read(folder, trace).frame
        span = frame["submit_time"].max() - frame["submit_time"].min()  # type: ignore[operator]
        work = (frame["num_gpus"] * frame["duration"]).sum()
        yield from (Case(trace, f"{math.ceil(work / span / load / 8)}") for load in loads)


def run(case: Case, jobs: JobTable, policy: str, seed: int, **options: Any) -> Outcome:
    """One replay; jobs that ask for more GPUs than there are are left out."""
    return replay(jobs, case.cluster, policy=policy, seed=seed, allocations=False, oversize="drop", **options)


def peak(outcome: Outcome, cluster: Cluster) -> float:
    """The greatest demand at any instant: GPUs that the jobs ask for that wait or run, over all GPUs of their
    (virtual) cluster."""
    found = 0.0
    for vc in cluster.vc_names or [None]:
        own = outcome.jobs if vc is None else outcome.jobs.filter(vc=vc)
        gpus = cluster.server_gpus if vc is None else cluster.server_gpus[cluster.vc_servers(vc)]
        times = np.concatenate([own["submit_time"].to_numpy(), own["finish_time"].to_numpy()])
        asked = own["num_gpus"].to_numpy().astype(np.float64)
        changes = np.concatenate([asked, -asked])
        order = np.lexsort((changes, times))
        found = max(found, float(np.cumsum(changes[order]).max() / gpus.sum()))
    return found


def runs(folder: Path, only: str = "") -> Iterator[str]:
    """The lines of the second table; `only`: of the traces whose name begins so."""
    yield f"Of {FEW_SEEDS} seeds (0 to {FEW_SEEDS - 1}), the least and the greatest value where they differ."
    yield ""
    columns = ("trace", "servers", "best blind", "its mean JCT, s", "its worst slowdown", "repack / best")
    columns += ("worst slowdown", "peak demand", "exact / best", "exact, worst slowdown")
    yield f"| {' | '.join(columns)} |"
    yield "| --- | ---: | --- |" + " ---: |" * 7
    for case in cases(folder):
        if case.trace.startswith(only):
            yield _line(case, case.jobs(folder))


def _line(case: Case, jobs: JobTable) -> str:
    best, figures = [], []
    for seed in range(FEW_SEEDS):
        blind = {policy: run(case, jobs, policy, seed).summary for policy in BLIND}
        name = min(blind, key=lambda policy: float(blind[policy]["mean_jct"]))
        least = blind[name]["mean_jct"]
        repack = run(case, jobs, "repack", seed)
        exact = run(case, jobs, "repack", seed, predict="exact").summary
        worst = "worst_finish_time_fairness"
        best.append(name)
        figures.append((
            least, blind[name][worst], repack.summary["mean_jct"] / least, repack.summary[worst],
            peak(repack, case.cluster), exact["mean_jct"] / least, exact[worst],
        ))  # fmt: skip
    forms = ("{:,.0f}", "{:,.0f}", "{:.4f}", "{:,.1f}", "{:.1f}", "{:.4f}", "{:,.1f}")
    ends = [
        dict.fromkeys(form.format(end(cell)) for end in (min, max))
        for form, cell in zip(forms, zip(*figures, strict=True), strict=True)
    ]
    names = " or ".join(dict.fromkeys(best))
    return f"| {case.trace} | {case.servers} | {names} | {' | '.join(' to '.join(end) for end in ends)} |"


def replays(jobs: TableLike, cluster: str, seeds: int) -> dict[str, list[Outcome]]:
    """The policies of the table, by label: a replay of these jobs with each seed."""
    runs: dict[str, dict[str, Any]] = {EXACT: {"policy": "repack", "predict": "exact"}}
    runs |= {policy: {"policy": policy} for policy in ("repack", "srtf", "gittins")}
    return {
        label: [replay(jobs, cluster, seed=seed, allocations=False, **run) for seed in range(seeds)]
        for label, run in runs.items()
    }


def table(found: dict[str, list[Outcome]]) -> str:
    """The lines between the marks."""
    return "\n".join(_lines(found))


def _lines(found: dict[str, list[Outcome]]) -> Iterator[str]:
    seeds = len(found[EXACT])
    yield f"Each cell is a mean over {seeds} seeds (0 to {seeds - 1}), then the least and the greatest."
    yield ""
    yield "| policy | knows run times | mean JCT, s | worst slowdown |"
    yield "| --- | --- | ---: | ---: |"
    for label, outcomes in found.items():
        knows = "yes" if foreknowledge(outcomes[0].run) else "no"
        means, worst = (
            _told([outcome.summary[key] for outcome in outcomes])
            for key in ("mean_jct", "worst_finish_time_fairness")
        )
        yield f"| `{label}` | {knows} | {means} | {worst} |"
    bounds = of_results({str(seed): outcome for seed, outcome in enumerate(found[EXACT])})
    yield f"| any schedule at all, at least | | {_told([one for one in bounds.values() if one])} | |\n"


def _told(values: Sequence[float]) -> str:
    mean, least, greatest = (
        f"{value:,.{0 if value >= 100 else 1}f}" for value in (fmean(values), min(values), max(values))
    )
    return f"{mean} ({least} to {greatest})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="the folder with philly/, helios/ and elasticflow/")
    parser.add_argument("page", type=Path, help="the page with the tables")
    arguments = parser.parse_args()
    made = {
        MARK: table(replays(arguments.traces / TRACE, CLUSTER, SEEDS)),
        RUNS: "\n".join(runs(arguments.traces)) + "\n",
    }
    page = arguments.page.read_text(encoding="utf-8")
    arguments.page.write_text(page_tables.filled(page, made), encoding="utf-8")


if __name__ == "__main__":
    main()
