"""Packing with CPU and memory: by hand, against a naive packer, and what is refused."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import InputError
from ringbco.trace.cpu_memory import WITHOUT_GPUS

Ask = tuple[int, int, int, int]
"""GPUs, thousandths of each, CPU, memory."""
Left = list[tuple[list[int], int, int]]
"""Of each server the thousandths of each GPU, the CPU and the memory."""


def jobs(
    *asks: Ask, without: list[list[int]] | None = None, types: list[str] | None = None
) -> ringbco.JobTable:
    """A job table, and beside it [CPU, memory, jobs] that ask for no GPU."""
    frame = pl.DataFrame(
        {
            "job_id": [str(row) for row in range(len(asks))],
            "submit_time": [0.0] * len(asks),
            "num_gpus": [ask[0] for ask in asks],
            "duration": [1.0] * len(asks),
            "gpu_share": [ask[1] / 1000 if ask[1] < 1000 else None for ask in asks],
            "cpu_milli": [ask[2] for ask in asks],
            "memory_mib": [ask[3] for ask in asks],
        },
        schema_overrides={"gpu_share": pl.Float64},
    )
    if types is not None:
        frame = frame.with_columns(gpu_type=pl.Series(types))
    return ringbco.from_frame(frame, metadata={WITHOUT_GPUS: json.dumps(without or [])})


def cluster(*servers: tuple[int, int, int], types: list[str] | None = None) -> ringbco.Cluster:
    """Servers of (GPUs, CPU, memory)."""
    lines = []
    for number, (gpus, cpu, memory) in enumerate(servers):
        lines += ["[[servers]]", f"gpus = {gpus}", f"cpu_milli = {cpu}", f"memory_mib = {memory}"]
        lines += [f'gpu_type = "{types[number]}"'] if types is not None else []
    return ringbco.Cluster.from_document(tomllib.loads("\n".join(lines)), "c.toml")


def test_idle_gpus_without_cpu_are_of_no_use() -> None:
    # Each job takes half of the CPU: two jobs run, and two of the four GPUs stay idle.
    one = jobs((1, 1000, 500, 1))
    packing = ringbco.pack(one, cluster((4, 1000, 100)), until=1.0)
    assert (packing.allocated_at_end, packing.refused, packing.with_cpu) == (0.5, (2,), True)
    alone = ringbco.pack(one, cluster((4, 1000, 100)), until=1.0, gpus_only=True)
    assert (alone.allocated_at_end, alone.refused, alone.with_cpu) == (1.0, (0,), False)
    # Memory for one job only.
    assert ringbco.pack(one, cluster((4, 9000, 1)), until=1.0).allocated_at_end == 0.25


def test_jobs_without_gpus_take_cpu() -> None:
    # The CPU is enough for two of the four.
    table = jobs((2, 1000, 500, 0), without=[[500, 0, 3]])
    packing = [ringbco.pack(table, cluster((2, 1000, 0)), until=1.0, seed=seed) for seed in range(8)]
    assert {one.without_gpus for one in packing} == {3}
    assert {one.allocated_at_end for one in packing} == {0.0, 1.0}  # asked before or after two of the others


def test_a_job_is_on_one_server() -> None:
    table = jobs((2, 1000, 1, 1))
    assert ringbco.pack(table, cluster((3, 9, 9), (3, 9, 9)), placement="first-fit", until=1.0).refused == (
        1,
    )
    assert ringbco.pack(table, "2x3", placement="first-fit", until=1.0).refused == (0,)


def test_types_count_where_a_job_may_not_use_all() -> None:
    machine = cluster((2, 9, 9), (2, 9, 9), types=["V100", "T4"])
    for placement in ("first-fit", "best-fit", "worst-fit", "fgd", "random"):
        only = jobs((1, 1000, 1, 1), types=["T4"])
        assert ringbco.pack(only, machine, placement=placement, until=1.0).allocated_at_end == 0.5
        either = jobs((1, 1000, 1, 1), types=["T4|V100"])
        assert ringbco.pack(either, machine, placement=placement, until=1.0).allocated_at_end == 1.0


# A naive packer


class Dice:
    """SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, bound: int) -> int:
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = ((self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) * bound) >> 64


def fragmentation(rooms: list[int], has: int, table: list[Ask], usable: list[bool]) -> int:
    """The idle thousandths of a server with so much CPU that each demand of the table cannot use, summed.

    usable: whether each demand may use the type of the server.
    """
    lost = 0
    for (count, milli_gpus, cpu, _), may in zip(table, usable, strict=True):
        runs = may and cpu <= has and sum(room >= milli_gpus for room in rooms) >= count
        lost += sum(room for room in rooms if not runs or room < milli_gpus)
    return lost


def naive(
    table: list[Ask],
    without: list[Ask],
    left: Left,
    placement: str,
    until: float,
    seed: int,
    may: list[list[bool]],
) -> float:
    """The share of all GPUs that is allocated in the end.

    may: of each server whether each demand of the table may use its type.
    """
    every, dice, rng = [*table, *without], Dice(seed), np.random.default_rng(seed)
    capacity = sum(sum(rooms) for rooms, _, _ in left)
    largest, most_cpu = max(sum(rooms) for rooms, _, _ in left), max(cpu for _, cpu, _ in left)
    turns, asked, given = rng.permutation(len(every)).tolist(), 0, 0
    while asked < until * capacity:
        if not turns:
            turns = rng.integers(0, len(every), len(every)).tolist()
        turn = turns.pop(0)
        count, milli_gpus, cpu, memory = every[turn]
        asked += count * milli_gpus
        fits = [
            server
            for server, (rooms, has, held) in enumerate(left)
            if (turn >= len(table) or may[server][turn])
            and has >= cpu
            and held >= memory
            and sum(room >= milli_gpus for room in rooms) >= count
        ]
        if not fits:
            continue

        def able(server: int, milli_gpus: int = milli_gpus) -> list[int]:
            return [gpu for gpu, room in enumerate(left[server][0]) if room >= milli_gpus]

        def remains(server: int) -> int:
            return sum(left[server][0]) * most_cpu + left[server][1] * largest

        def rise(server: int, gpus: list[int], milli_gpus: int = milli_gpus, cpu: int = cpu) -> int:
            (rooms, has, _), usable = left[server], may[server]
            after = [room - milli_gpus if gpu in gpus else room for gpu, room in enumerate(rooms)]
            before = fragmentation(rooms, has, table, usable)
            return fragmentation(after, has - cpu, table, usable) - before

        if placement == "first-fit":
            server = fits[0]
            gpus = able(server)
        elif placement == "random":
            server = fits[dice.below(len(fits))]
            gpus, drawn = able(server), []
            for place in range(count):
                other = place + dice.below(len(gpus) - place)
                gpus[place], gpus[other] = gpus[other], gpus[place]
                drawn.append(gpus[place])
        elif placement == "worst-fit":
            server = max(fits, key=lambda server: (remains(server), -server))
            gpus = sorted(able(server), key=lambda gpu, rooms=left[server][0]: -rooms[gpu])
        elif placement == "fgd" and count and milli_gpus < 1000:
            _, server, gpu = min(
                (rise(server, [gpu]), server, gpu) for server in fits for gpu in able(server)
            )
            gpus = [gpu]
        elif placement == "fgd":
            server = min(fits, key=lambda server: (rise(server, able(server)[:count]), server))
            gpus = able(server)
        else:
            server = min(fits, key=remains)
            gpus = sorted(able(server), key=left[server][0].__getitem__)
        for gpu in gpus[:count]:
            left[server][0][gpu] -= milli_gpus
        left[server] = (left[server][0], left[server][1] - cpu, left[server][2] - memory)
        given += count * milli_gpus
    return given / capacity


@pytest.mark.parametrize(
    "placement", ["first-fit", "consolidate", "best-fit", "worst-fit", "binpack", "fgd", "random"]
)
def test_it_packs_as_a_naive_packer_does(placement: str) -> None:
    rng, short_of_cpu, too_large, typed = random.Random(placement), 0, 0, 0
    for seed in range(90):
        servers = [
            (rng.randint(2, 5), rng.randint(8, 30), rng.randint(8, 30)) for _ in range(rng.randint(1, 5))
        ]

        def ask() -> Ask:
            count, share = rng.choice([(1, 1000), (2, 1000), (1, rng.randint(1, 999)), (1, 500)])
            return count, share, rng.randint(0, 8), rng.randint(0, 8)

        table = [ask() for _ in range(rng.randint(1, 30))]
        without = [(0, 1000, rng.randint(0, 9), rng.randint(0, 9)) for _ in range(rng.randint(0, 6))]
        # GPU types: a job names none, one or several; some name one that the cluster does not have.
        kinds = [rng.choice(["V100", "T4", "P100"]) for _ in servers] if seed % 3 else None
        names = [rng.choice([None, None, "T4", "T4|V100", "P100|V100", "A100|P100"]) for _ in table]
        specs = names if kinds else None
        of = jobs(*table, without=[[cpu, memory, 1] for _, _, cpu, memory in without], types=specs)
        machine, until = cluster(*servers, types=kinds), rng.choice([0.7, 1.0, 1.7])
        packing = ringbco.pack(of, machine, placement=placement, until=until, seed=seed)
        may = [
            [kinds is None or name is None or kinds[server] in name.split("|") for name in names]
            for server in range(len(servers))
        ]
        never = tuple(
            str(row)
            for row, (count, _, cpu, memory) in enumerate(table)
            if not any(
                may[server][row] and count <= gpus and cpu <= has and memory <= held
                for server, (gpus, has, held) in enumerate(servers)
            )
        )
        left = [([1000] * gpus, cpu, memory) for gpus, cpu, memory in servers]
        assert packing.allocated_at_end == naive(table, without, left, placement, until, seed, may)
        assert packing.too_large == never
        too_large, typed = too_large + len(never), typed + (kinds is not None)
        if kinds is None:
            alone = ringbco.pack(of, machine, placement=placement, until=until, seed=seed, gpus_only=True)
            short_of_cpu += packing.allocated_at_end < alone.allocated_at_end
    assert (short_of_cpu > 5, too_large > 10, typed) == (True, True, 60)


# What is refused, and what is left alone


def test_one_that_no_server_holds_is_turned_away_and_told(invoke: Invoke, tmp_path: Path) -> None:
    # As in openb's gpuspec lists: the type that it names has too little CPU, or too few GPUs a server.
    table = jobs(
        (1, 1000, 1, 1), (1, 1000, 9, 1), (4, 1000, 1, 1), (1, 500, 1, 1), types=["", "G2", "T4|P100", "A100"]
    )
    machine = cluster((4, 8, 9), (2, 99, 9), types=["G2", "T4"])
    packing = ringbco.pack(table, machine, until=2.0)
    assert packing.too_large == ("1", "2", "3")
    assert packing.refused[0] >= 3
    assert 0 < packing.allocated_at_end < 1
    ringbco.write_jobs(table, tmp_path / "jobs.parquet")
    (tmp_path / "c.toml").write_text(machine.to_toml())
    ran = invoke("pack", str(tmp_path / "jobs.parquet"), "--cluster", str(tmp_path / "c.toml"))
    assert (
        "note: no server has what 3 of the 4 jobs ask for (first: job '1'); they find no room" in ran.stderr
    )
    assert "3 of the 4" not in invoke(*ran_json(tmp_path)).stdout


def ran_json(folder: Path) -> tuple[str, ...]:
    return ("pack", str(folder / "jobs.parquet"), "--cluster", str(folder / "c.toml"), "--json")


def test_several_types_are_one_cluster() -> None:
    # A job that may use both types goes where it fits best, not first to the fastest.
    machine = cluster((2, 9, 9), (1, 9, 9), types=["V100", "T4"])
    table = jobs((1, 1000, 1, 1), (2, 1000, 1, 1), types=["T4|V100", "V100"])
    for placement in ("best-fit", "fgd"):
        for seed in range(6):
            assert (
                ringbco.pack(table, machine, placement=placement, until=1.0, seed=seed).allocated_at_end
                == 1.0
            )


@pytest.mark.parametrize("seed", range(6))
def test_fgd_sees_that_cpu_runs_out(seed: int) -> None:
    # A job of one GPU leaves the other without CPU on the first server, but not on the second. So both
    # of them go to the second, in any order, and the first keeps its pair.
    pair = jobs((1, 1000, 4, 1), (1, 1000, 4, 1), (2, 1000, 4, 1))
    assert ringbco.pack(pair, cluster((2, 4, 9), (2, 8, 9)), until=1.0, seed=seed).allocated_at_end == 1.0
    # A job without GPUs takes no CPU that a pair of GPUs needs, though it is the fuller server that has them.
    beside = jobs((2, 1000, 4, 1), without=[[4, 1, 1]])
    assert ringbco.pack(beside, cluster((2, 4, 9), (1, 9, 9)), until=0.6, seed=seed).refused == (0,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            pl.col("cpu_milli").cast(pl.Float64) - 2.0,
            r"row 1.*column cpu_milli: -1: expected a number >= 0",
        ),
        (pl.lit(float("nan")).alias("memory_mib"), r"row 1.*column memory_mib: NaN: expected a number >= 0"),
        (pl.lit(1e300).alias("memory_mib"), r"row 1.*column memory_mib: 1e\+300: expected a number >= 0"),
        (pl.lit("much").alias("memory_mib"), r"row 1.*column memory_mib: much: expected .*--gpus-only"),
        (pl.lit(None).alias("memory_mib"), r"row 1.*column memory_mib: .*expected a number >= 0"),
    ],
)
def test_a_value_that_is_none_is_named(change: pl.Expr, said: str) -> None:
    frame = jobs((1, 1000, 1, 1)).frame.with_columns(change)
    with pytest.raises(InputError, match=said) as refused:
        ringbco.pack(ringbco.from_frame(frame), cluster((2, 9, 9)))
    assert "\n" not in str(refused.value)
    assert not ringbco.pack(ringbco.from_frame(frame), cluster((2, 9, 9)), gpus_only=True).with_cpu
    assert not ringbco.pack(ringbco.from_frame(frame), "1x2").with_cpu


def test_a_lone_column_is_named() -> None:
    table = ringbco.from_frame(jobs((1, 1000, 1, 1)).frame.drop("memory_mib"))
    with pytest.raises(InputError, match=r"expected a column memory_mib beside cpu_milli; --gpus-only"):
        ringbco.pack(table, cluster((2, 9, 9)))


@pytest.mark.parametrize(
    "text", ["[[1, 2]]", "no", "[[-1, 2, 3]]", "[[1, 2, 99999999999]]", "{}", "[[1.5, 2, 3]]"]
)
def test_a_damaged_footer_is_named(text: str) -> None:
    frame = jobs((1, 1000, 1, 1)).frame
    with pytest.raises(InputError, match=r"ringbco.without_gpus.*expected a list of \[cpu_milli"):
        ringbco.pack(ringbco.from_frame(frame, metadata={WITHOUT_GPUS: text}), cluster((2, 9, 9)))


def test_it_is_told_and_survives_files(invoke: Invoke, tmp_path: Path) -> None:
    table, machine = jobs((1, 1000, 4, 1), without=[[1, 0, 2]]), cluster((4, 9, 9), (4, 9, 9), (2, 9, 9))
    ringbco.write_jobs(table, tmp_path / "jobs.parquet")
    (tmp_path / "c.toml").write_text(machine.to_toml())
    assert ringbco.Cluster.parse(tmp_path / "c.toml") == machine
    command = ("pack", str(tmp_path / "jobs.parquet"), "--cluster", str(tmp_path / "c.toml"))
    assert "1 jobs and 2 without GPUs, 10 GPUs, fgd, seed 0, with CPU and memory" in invoke(*command).stdout
    assert "1 jobs, 10 GPUs, fgd, seed 0, GPUs only" in invoke(*command, "--gpus-only").stdout
    output = json.loads(invoke(*command, "--json").stdout)
    assert (output["with_cpu"], output["without_gpus"]) == (True, 2)
    # A CSV has the columns, but no footer.
    ringbco.write_jobs(table, tmp_path / "jobs.csv")
    packing = ringbco.pack(tmp_path / "jobs.csv", machine)
    assert (packing.with_cpu, packing.without_gpus) == (True, 0)


def test_a_replay_regards_neither_and_carries_both(tmp_path: Path) -> None:
    table, machine = jobs((1, 1000, 400, 1), (4, 1000, 1, 1)), cluster((4, 9, 9))
    result = ringbco.replay(table, machine, policy="fifo", placement="best-fit", model="fixed")
    plain = ringbco.replay(table, "1x4", policy="fifo", placement="best-fit", model="fixed")
    assert result.jobs.equals(plain.jobs)
    result.write(tmp_path / "out")
    assert "cpu_milli = 9" in (tmp_path / "out" / "run.toml").read_text()
    assert ringbco.Cluster.parse("1x4") != machine
