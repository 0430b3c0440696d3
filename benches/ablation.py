"""What each part of the policy repack is worth: its rule with one part left out, on public traces.

    python benches/ablation.py ../shared/traces

Builds the engine with the feature `ablation` into target/, and replays the eight virtual clusters of Philly
and Helios' Venus with links of 100 and of 10 Gb/s, once for each variant. Prints docs/repack.md's tables.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / "target" / "ablation"
SPEEDS: Final = {"100": 12.5e9, "10": 1.25e9}
BUILT_IN: Final = (
    *("fifo", "sjf", "smallest", "ff", "ls", "rand", "sjf-bco", "qssf"),
    *("srtf", "tiresias", "gittins", "ftf", "time-slice"),
)
# What the engine calls each variant, and what the table does; the prediction that it is about.
EXACT: Final = {
    "": "as documented",
    "no evictions": "without evicting",
    "no moves": "without moving",
    "no cost test": "without the test of T for a job alone",
    "cost test also in a queue": "that test although others wait",
    "no half test": "without the test of T / 2",
    "one server tried": "one server tried, not three",
    "spreading by expected cost": "a gang spreads where that costs less than waiting",
    "key without num_gpus": "key = rem, without num_gpus",
    "gangs by all their GPUs": "w = num_gpus for all jobs",
    "no urgency": "without urgent jobs",
}
HISTORY: Final = {
    "": "as documented",
    "no evictions": "without evicting",
    "no urgency": "without urgent jobs",
    "no looks": "passes at arrivals and completions alone",
    "nobody spared": "whoever is strained may be evicted by a job that is not urgent",
    "all GPUs of a victim count": "all GPUs of a victim count",
    "no moves": "without moving",
    "key without num_gpus": "key = rem, without num_gpus",
}


def measured(traces: Path, policy: str, predict: str | None) -> list[tuple[float, float]]:
    """(mean JCT, worst finish-time fairness) of a policy on each cluster at each speed."""
    import ringbco
    from policy_table import CLUSTERS
    from ringbco.cluster.network import Network
    from ringbco.cluster.spec import Cluster

    warnings.simplefilter("ignore")
    found = []
    for bandwidth in SPEEDS.values():
        for name, groups in CLUSTERS.items():
            cluster = Cluster.from_groups(groups, Network(inter_bandwidth=bandwidth))
            options = {} if predict is None else {"predict": predict}
            jobs = ringbco.read_jobs(traces / f"{name}.csv")
            told = ringbco.replay(jobs, cluster, policy=policy, allocations=False, **options).summary
            found.append((told["mean_jct"], told["worst_finish_time_fairness"]))
    return found


def build(folder: Path) -> None:
    """A copy of the package with an engine that knows the variants."""
    features = (
        "--profile",
        "develop",
        "--locked",
        "--features",
        "python,ablation",
        "--target-dir",
        str(TARGET),
    )
    subprocess.run(["cargo", "build", *features], cwd=ROOT, check=True)
    ignored = shutil.ignore_patterns("_core*.so", "__pycache__")
    shutil.copytree(ROOT / "python" / "ringbco", folder / "ringbco", ignore=ignored)
    shutil.copy(TARGET / "develop" / "libringbco.so", folder / "ringbco" / "_core.abi3.so")


def run(
    folder: Path, traces: Path, policy: str, predict: str = "", variant: str = ""
) -> list[tuple[float, float]]:
    """`measured`, by that engine in a process of its own."""
    path = os.pathsep.join((str(folder), str(Path(__file__).parent)))
    known = {**os.environ, "PYTHONPATH": path, "RINGBCO_VARIANT": variant}
    command = [sys.executable, __file__, str(traces), "--policy", policy, "--predict", predict]
    done = subprocess.run(command, env=known, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return [tuple(pair) for pair in json.loads(done.stdout)]


def table(
    title: str, variants: dict[str, str], results: list[list[tuple[float, float]]], best: list[float]
) -> None:
    """The rows: at each speed the mean over Philly's clusters of the change of mean JCT against the best
    other policy, and their worst slowdown; the change on Helios, the last cluster of each speed; and the most
    that the variant adds to the mean JCT on any cluster at any speed, against the rule as documented."""
    half = len(best) // 2
    print(
        f"\n| {title} | 100 Gb/s, mean JCT | worst slowdown | 10 Gb/s, mean JCT | worst slowdown"
        " | Helios, 100 Gb/s | 10 Gb/s | most added |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for what, found in zip(variants.values(), results, strict=True):
        cells = [what]
        changes = [100 * (mean / least - 1) for (mean, _), least in zip(found, best, strict=True)]
        for part in (slice(None, half - 1), slice(half, -1)):
            change, worst = statistics.fmean(changes[part]), max(worst for _, worst in found[part])
            cells += [f"{change:+.3f} %", f"{worst:,.1f}"]
        cells += [f"{changes[at]:+.2f} %" for at in (half - 1, -1)]
        added = max(100 * (mean / whole - 1) for (mean, _), (whole, _) in zip(found, results[0], strict=True))
        cells.append(f"{added:+.3f} %" if found is not results[0] else "")
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("traces", type=Path, help="The folder of public traces.")
    parser.add_argument("--policy", help=argparse.SUPPRESS)
    parser.add_argument("--predict", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.policy:
        json.dump(measured(given.traces, given.policy, given.predict or None), sys.stdout)
        return
    with tempfile.TemporaryDirectory() as name:
        folder, traces = Path(name), given.traces.resolve()
        build(folder)
        others = {policy: run(folder, traces, policy) for policy in BUILT_IN}
        for title, variants, predict, blind in (
            ("`--predict exact`", EXACT, "exact", BUILT_IN),
            (
                "`--predict history`",
                HISTORY,
                "history",
                ("fifo", "smallest", "ff", "rand", "qssf", "tiresias", "gittins", "time-slice"),
            ),
        ):
            best = [min(mean for mean, _ in found) for found in zip(*(others[p] for p in blind), strict=True)]
            results = [run(folder, traces, "repack", predict, variant) for variant in variants]
            table(title, variants, results, best)


if __name__ == "__main__":
    main()
