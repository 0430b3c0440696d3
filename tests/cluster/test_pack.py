"""Packing: by hand, against the published experiment, and what CPU and memory cost in it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import SHARED, Invoke, present
from ringbco.errors import InputError, UsageError

PUBLISHED = SHARED / "peers" / "fgd" / "allocation_default.json"
"""The mean of ten seeds, % of 6,212 GPUs, by how much has been asked for, % too."""
PODS = SHARED / "traces" / "openb" / "openb_pod_list_default.csv"
SHARES = SHARED / "traces" / "openb" / "openb_pod_list_gpushare40.csv"
NODES = SHARED / "traces" / "openb" / "openb_node_list_gpu_node.csv"


def table(*jobs: tuple[int, float | None]) -> ringbco.JobTable:
    """Jobs of (GPUs, share)."""
    return ringbco.from_frame(
        pl.DataFrame(
            {
                "job_id": [str(row) for row in range(len(jobs))],
                "submit_time": [0.0] * len(jobs),
                "num_gpus": [gpus for gpus, _ in jobs],
                "duration": [1.0] * len(jobs),
                "gpu_share": pl.Series([share for _, share in jobs], dtype=pl.Float64),
            }
        )
    )


def test_shares_by_hand() -> None:
    # Of shares of 0.6 a GPU holds one: 2 GPUs are 1.2 full at most.
    packing = ringbco.pack(table((1, 0.6)), "1x2", placement="best-fit", until=1.5)
    assert packing.asked == tuple(pytest.approx(0.1 * step) for step in range(16))
    assert packing.allocated[0][:5] == (0.0, 0.3, 0.3, 0.3, 0.6)
    assert packing.allocated_at_end == 0.6
    assert packing.refused == (3,)


def test_whole_gpus_by_hand() -> None:
    # A gang of 8 fits while both servers are whole, and no more beside a gang of 3.
    packing = ringbco.pack(table((8, None)), "2x8", until=2.0, runs=3)
    assert (packing.mean[-1], packing.refused) == (1.0, (2, 2, 2))
    assert ringbco.pack(table((3, None)), "1x8", until=0.35).allocated[0] == (0.0, 0.375, 0.375, 0.375, 0.375)


def test_orders_follow_from_the_seed() -> None:
    jobs = table(*[(1, share / 100) for share in range(5, 95, 5)], (2, None), (4, None))
    packing = ringbco.pack(jobs, "3x4", placement="random", seed=4, runs=3)
    assert packing.seeds == (4, 5, 6)
    one_by_one = [ringbco.pack(jobs, "3x4", placement="random", seed=seed) for seed in packing.seeds]
    assert [one.allocated[0] for one in one_by_one] == list(packing.allocated)
    assert len(set(packing.allocated)) > 1
    assert np.all(np.diff(packing.mean) >= 0)


def test_types_count_where_a_job_may_not_use_all() -> None:
    cluster = '[[servers]]\ncount = 1\ngpus = 2\ngpu_type = "V100"\n[[servers]]\ngpus = 2\ngpu_type = "T4"\n'
    frame = table((2, None)).frame
    of = {name: frame.with_columns(gpu_type=pl.lit(name)) for name in ("T4", "T4|V100")}
    document = {
        name: ringbco.pack(
            ringbco.from_frame(jobs),
            ringbco.Cluster.from_document(tomllib.loads(cluster), "c.toml"),
            until=1.0,
        ).allocated_at_end
        for name, jobs in of.items()
    }
    assert document == {"T4": 0.5, "T4|V100": 1.0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"placement": "least-loaded"}, "option placement: least-loaded: expected one of first-fit, "),
        ({"until": 0.0}, "option until: 0.0: expected a number > 0"),
        ({"runs": 0}, "option runs: 0: expected an integer from 1"),
    ],
)
def test_refused_options(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ringbco.pack(table((1, 0.5)), "1x2", **options)  # type: ignore[arg-type]


def test_a_job_that_can_never_fit_is_named() -> None:
    with pytest.raises(InputError, match=r"row 2.*a job that its cluster can hold"):
        ringbco.pack(table((1, 0.5), (9, None)), "1x8")


def test_the_command(invoke: Invoke, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.parquet"
    ringbco.write_jobs(table((1, 0.6), (1, 0.4)), jobs)
    command = ("pack", str(jobs), "--cluster", "1x2", "--placement", "best-fit", "--until", "130%")
    output = json.loads(invoke(*command, "--runs", "2", "--json").stdout)
    packing = ringbco.pack(jobs, "1x2", placement="best-fit", until=1.3, runs=2)
    assert output == json.loads(json.dumps(packing.to_dict()))
    shown = invoke(*command).stdout
    assert f"{100 * packing.allocated[0][-1]:.2f} %" in shown
    assert "130 %" in shown
    assert "expected a percentage" in invoke(*command[:-1], "much").stderr


# The published experiment

ROWS = {"random": "01-Random", "best-fit": "05-BestFit", "fgd": "06-FGD"}


@cache
def packed(placement: str, *, gpus_only: bool = False) -> ringbco.Packing:
    result = ringbco.convert("openb", [present(PODS), present(NODES)], cluster=True)
    assert result.cluster is not None
    return ringbco.pack(result.table, result.cluster, placement=placement, runs=10, gpus_only=gpus_only)


def published(placement: str) -> list[float]:
    curves = json.loads(present(PUBLISHED).read_text())["openb_pod_list_default"]
    return [value / 100 for value in curves[placement].values()]


@pytest.mark.long
@pytest.mark.parametrize("placement", ROWS)
def test_with_cpu_and_memory_it_is_within_two_points_of_the_published_experiment(placement: str) -> None:
    packing = packed(placement)
    assert (packing.gpus, packing.jobs, packing.without_gpus, packing.with_cpu) == (6212, 6203, 1052, True)
    off = np.abs(np.array(packing.mean) - published(ROWS[placement])).max()
    assert off < (0.003 if placement == "fgd" else 0.02)


@pytest.mark.long
def test_fgd_packs_another_list_as_it_was_published() -> None:
    # The mean of the published seeds 47 to 51 of openb_pod_list_gpushare40.
    result = ringbco.convert("openb", [present(SHARES), present(NODES)], cluster=True)
    assert result.cluster is not None
    packing = ringbco.pack(result.table, result.cluster, placement="fgd", runs=10)
    assert packing.allocated_at_end == pytest.approx(0.9417, abs=0.003)


@pytest.mark.long
def test_what_cpu_and_memory_cost_is_what_the_page_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "shares.md").read_text(encoding="utf-8")
    for placement, name in ROWS.items():
        ours, without = packed(placement).allocated_at_end, packed(placement, gpus_only=True).allocated_at_end
        row = f"| {placement} | {published(name)[-1]:.1%} | {ours:.1%} | {without:.1%} |"
        assert row.replace("%", " %") in page


@pytest.mark.long
@pytest.mark.parametrize(("placement", "name"), [("random", "01-Random"), ("best-fit", "05-BestFit")])
def test_a_plain_simulation_gives_the_published_values(placement: str, name: str) -> None:
    present(PODS)
    assert with_cpu(placement) == pytest.approx(published(name)[-1], abs=0.01)


def with_cpu(placement: str) -> float:
    """The experiment as it was published: a node must have the CPU, the memory and the GPUs that a pod asks
    for, and pods that ask for no GPU take CPU and memory too.

    random: a node at random, and a GPU of it. best-fit: the node that is left with the least, half of it CPU
    and half of it GPUs, each as a part of the most that a node has; of it the GPU with the least room.
    """
    pods, nodes = (
        integers(PODS, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")),
        integers(NODES, ("cpu_milli", "memory_mib", "gpu")),
    )
    rng = np.random.default_rng(0)
    cpu, memory, gpus = (column.copy() for column in nodes.T)
    room = np.where(np.arange(gpus.max()) < gpus[:, None], 1000, 0)
    capacity, asked, given = int(room.sum()), 0, 0
    for pod in turns(len(pods), rng):
        if asked >= 1.3 * capacity:
            break
        wants_cpu, wants_memory, count, milli = pods[pod].tolist()
        asked += count * milli
        enough = (room >= milli).sum(axis=1) >= count
        fits = np.flatnonzero(enough & (cpu >= wants_cpu) & (memory >= wants_memory))
        if fits.size == 0:
            continue
        if placement == "random":
            node = int(rng.choice(fits))
        else:
            left = room[fits].sum(axis=1) / 8000 + cpu[fits] / cpu_most(nodes)
            node = int(fits[np.argmin(left)])
        able = np.flatnonzero(room[node] >= milli)
        if placement == "random" and count:
            able = rng.permutation(able)
        else:
            able = able[np.argsort(room[node][able], kind="stable")]
        room[node, able[:count]] -= milli
        cpu[node] -= wants_cpu
        memory[node] -= wants_memory
        given += count * milli
    return given / capacity


def cpu_most(nodes: np.ndarray) -> int:
    return int(nodes[:, 0].max())


def integers(path: Path, columns: tuple[str, ...]) -> np.ndarray:
    return pl.read_csv(path).select(pl.col(columns).cast(pl.Int64)).to_numpy()


def turns(pods: int, rng: np.random.Generator) -> Iterator[int]:
    yield from rng.permutation(pods).tolist()
    while True:
        yield int(rng.integers(pods))
