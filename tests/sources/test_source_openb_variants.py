"""The real openb files with rows taken away, broken and repeated: the account against a count by hand.

The count reads the changed file with the csv module alone, pod by pod, by the rules in docs/sources/openb.md.
"""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import present
from ringbco.sources import convert
from ringbco.sources.source import Options

Pod = dict[str, str]
Pods = list[Pod]


@pytest.fixture(scope="module")
def published(shared_traces: Path) -> Pods:
    """The pods as published."""
    path = present(shared_traces / "openb" / "openb_pod_list_default.csv")
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def fate(pod: Pod) -> str | None:
    """Why a pod is dropped, by the page's order; None if it is a job."""
    gpus, milli = number(pod["num_gpu"]), number(pod["gpu_milli"])
    created, started, ended = (
        number(pod[name]) for name in ("creation_time", "scheduled_time", "deletion_time")
    )
    if pod["pod_phase"] == "Pending":
        return "never scheduled (Pending)"
    if gpus == 0:
        return "no GPUs asked for (num_gpu = 0: a CPU job)"
    if not pod["name"]:
        return "no name"
    if pod["pod_phase"] not in ("Running", "Failed", "Succeeded"):
        return "pod_phase is unknown"
    if gpus is None or gpus < 0 or gpus != int(gpus):
        return "num_gpu missing or not a whole number of GPUs"
    if milli is None or not 1 <= milli <= 1000:
        return "gpu_milli missing or not in 1 to 1000"
    for name, time in (("creation", created), ("scheduled", started), ("deletion", ended)):
        if time is None:
            return f"{name}_time missing or unreadable"
    assert created is not None
    assert started is not None
    assert ended is not None
    if created < 0:
        return "creation_time is negative"
    if started < created:
        return "starts before it is submitted (scheduled_time < creation_time)"
    if ended < started:
        return "ends before it starts (deletion_time < scheduled_time)"
    if ended == started:
        return "ran for no time (deletion_time = scheduled_time)"
    return None


def by_hand(pods: Pods) -> tuple[Counter[str], int, list[tuple[object, ...]]]:
    """Rows dropped by reason, kept pods that outlived the log, and the jobs in order of submission."""
    dropped: Counter[str] = Counter()
    jobs, seen, outlived = [], set(), 0
    for pod in pods:
        reason = fate(pod) or ("name occurred before" if pod["name"] in seen else None)
        if reason is not None:
            dropped[reason] += 1
            continue
        seen.add(pod["name"])
        outlived += pod["pod_phase"] == "Running" and float(pod["deletion_time"]) == 12_902_960
        ran = float(pod["deletion_time"]) - float(pod["scheduled_time"])
        gpus, milli = int(float(pod["num_gpu"])), float(pod["gpu_milli"])
        share = milli / 1000 if gpus == 1 and milli < 1000 else None
        jobs.append((pod["name"], float(pod["creation_time"]), gpus, ran, share))
    return dropped, outlived, sorted(jobs, key=lambda job: job[1])


def each(*columns: str, to: str) -> Callable[[Pod, random.Random], None]:
    """Puts `to` into one of the columns."""

    def change(pod: Pod, rng: random.Random) -> None:
        pod[rng.choice(columns)] = to

    return change


def swap(one: str, other: str) -> Callable[[Pod, random.Random], None]:
    def change(pod: Pod, _: random.Random) -> None:
        pod[one], pod[other] = pod[other], pod[one]

    return change


def same(one: str, other: str) -> Callable[[Pod, random.Random], None]:
    def change(pod: Pod, _: random.Random) -> None:
        pod[one] = pod[other]

    return change


TIMES = ("creation_time", "scheduled_time", "deletion_time")
CHANGES = {
    "nothing": lambda pod, rng: None,
    "nulls": each("name", "num_gpu", "gpu_milli", "pod_phase", *TIMES, to=""),
    "words": each("num_gpu", "gpu_milli", *TIMES, to="nan"),
    "infinite": each("num_gpu", "gpu_milli", *TIMES, to="inf"),
    "negative": each("num_gpu", "gpu_milli", *TIMES, to="-5"),
    "fractions": each("num_gpu", "gpu_milli", *TIMES, to="1.5"),
    "decimals": each("num_gpu", "gpu_milli", *TIMES, to="2.0"),
    "gpu_milli 0": each("gpu_milli", to="0"),
    "gpu_milli 1001": each("gpu_milli", to="1001"),
    "gpu_milli 1": each("gpu_milli", to="1"),
    "reversed": swap("scheduled_time", "deletion_time"),
    "soon": swap("scheduled_time", "creation_time"),
    "no time": same("deletion_time", "scheduled_time"),
    "Pending": each("pod_phase", to="Pending"),
    "Running": each("pod_phase", to="Running"),
    "other phases": each("pod_phase", to="Unknown"),
    "to the end": each("deletion_time", to="12902960"),
}


def agree(folder: Path, pods: Pods) -> None:
    """The converter's account and jobs are those counted by hand."""
    path = folder / "pods.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(pods[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(pods)
    result = convert("openb", [path])
    dropped, outlived, jobs = by_hand(pods)
    assert result.account.dropped == dict(dropped)
    assert (result.account.rows_read, result.account.rows_kept) == (len(pods), len(jobs))
    assert sum(result.account.noted.values()) == outlived
    columns = ["job_id", "submit_time", "num_gpus", "duration", "gpu_share"]
    assert result.table.frame.select(columns).rows() == jobs


@pytest.mark.parametrize("change", CHANGES)
def test_one_kind_of_damage(change: str, published: Pods, tmp_path: Path) -> None:
    rng = random.Random(change)
    pods = [dict(pod) for pod in published]
    for pod in rng.sample(pods, 700):
        CHANGES[change](pod, rng)
    agree(tmp_path, pods)


@pytest.mark.parametrize("seed", range(6))
def test_every_damage_at_once_with_rows_removed_repeated_and_shuffled(
    seed: int, published: Pods, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    pods = [dict(pod) for pod in rng.sample(published, 5000)]
    for pod in rng.sample(pods, 2500):
        for change in rng.sample(sorted(CHANGES), rng.choice([1, 1, 2, 3])):
            CHANGES[change](pod, rng)
    pods += [dict(pod) for pod in rng.sample(pods, 400)]
    rng.shuffle(pods)
    agree(tmp_path, pods)


def test_nodes_with_blanks_and_zeros(shared_traces: Path, tmp_path: Path) -> None:
    pods = present(shared_traces / "openb" / "openb_pod_list_default.csv")
    nodes = present(pods.with_name("openb_node_list_gpu_node.csv"))
    rng = random.Random(1)
    with open(nodes, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rng.sample(rows, 300):
        row["gpu"] = rng.choice(["", "0", "3"])
    path = tmp_path / "nodes.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    result = convert("openb", [pods, path], Options(want_cluster=True))
    assert result.cluster is not None
    gpus = [int(row["gpu"] or 0) for row in rows]
    assert result.cluster.server_gpus.tolist() == [count for count in gpus if count]
    noted = result.account.noted
    assert noted["node left out of the cluster: gpu is blank"] == sum(row["gpu"] == "" for row in rows)
    assert noted["node left out of the cluster: no GPUs (gpu = 0)"] == sum(row["gpu"] == "0" for row in rows)
